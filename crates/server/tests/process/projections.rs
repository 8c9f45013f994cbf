//! Workers as processes of their own: killed, stopped, woken too late; the server killed between any two steps. The read model is what
//! one worker would have made that took the events one by one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use gapless_client::{Changes, Client, Columns, Ledger, Options, Projections, Retry, Rows, v1};
use serde_json::Value;

use crate::address::own;
use crate::kill::client;
use crate::programs::{Python, repository};
use crate::support::Process;

/// Says to this program, run as a worker, where the server is.
const ADDRESS: &str = "GAPLESS_TEST_WORKER_OF";
/// The same for a worker that waits, once it holds a slot, until it is told to go on.
const ZOMBIE: &str = "GAPLESS_TEST_ZOMBIE_OF";
const WORKERS: usize = 8;
const WORKSPACES: u64 = 5;
const DAYS: u64 = 3;
const EVENTS_OF_CYCLE: u64 = 40;

/// Leases that end badly are the rule here: no slot is given up.
const SHOP: &str = r#"
name = "shop"
partitions = 3
[projections.work]
events = ["DayOpened", "ItemSold"]
max_attempts = 1000000
[projections.rules.rules.DayOpened]
kind = "upsert"
entity = "daily"
id = { event = "day" }
set = { total = 0, n = 0, last = 0 }
[projections.rules.rules.ItemSold]
kind = "upsert"
entity = "daily"
id = { event = "day" }
set.total.add = [{ row = "total" }, { event = "amount" }]
set.n.add = [{ row = "n" }, 1]
set.last = { event = "amount" }
"#;

/// A process that works.
struct WorkerProcess {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl WorkerProcess {
    /// This very program, as the worker that a variable makes of it.
    fn start(variable: &str, test: &str, address: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn works(address: &str) -> Self {
        Self::start(ADDRESS, "projections::a_worker_of_these_tests", address)
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// What it says behind a word, once it says it.
    fn says(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended without saying {word}");
            // The runner of tests writes on the same lines.
            if let Some((_, said)) = line.split_once(word) {
                return said.trim().to_owned();
            }
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may have ended already, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn patient(address: &str) -> Client {
    let retry = Retry { deadline: Duration::from_secs(60), ..Retry::default() };
    Client::new(&[address.to_owned()]).unwrap().with(Options { retry, ..Options::default() })
}

fn fields(event: &v1::SlotEvent) -> (String, i64) {
    let fields: Value = serde_json::from_slice(&event.payload).unwrap();
    (fields["day"].as_str().unwrap().to_owned(), fields["amount"].as_i64().unwrap_or(0))
}

/// What an event makes of a row. The last column depends on the order of all events before it.
fn next_row(event_type: &str, amount: i64, row: Option<&Columns>) -> [(&'static str, i64); 4] {
    let column = |name: &str| row.and_then(|row| row.get(name)?.as_integer()).unwrap_or(0);
    let chain = (column("chain") * 31 + amount + 7) % 1_000_003;
    match event_type {
        "DayOpened" => [("total", 0), ("n", 0), ("last", 0), ("chain", chain)],
        _ => {
            [("total", column("total") + amount), ("n", column("n") + 1), ("last", amount), ("chain", chain)]
        }
    }
}

async fn compute(slot: v1::GrantedSlot, rows: Rows<Client>) -> Result<Changes, String> {
    let event = slot.event.ok_or("an event")?;
    let (day, amount) = fields(&event);
    let row = rows.get("daily", &day).await.map_err(|error| error.to_string())?;
    // Others get ahead meanwhile.
    tokio::time::sleep(Duration::from_millis(u64::from(fastrand::u8(0..8)))).await;
    Ok(Changes::none().put("daily", &day, next_row(&event.event_type, amount, row.as_ref())))
}

/// Does nothing unless it is run as a worker, by a test below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_these_tests() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let worker = patient(&address).worker("shop", "work").with_ttl(Duration::from_secs(2));
    worker.run(4, compute).await.unwrap();
}

/// Does nothing unless it is run as a worker, by a test below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_wakes_too_late() {
    let Ok(address) = std::env::var(ZOMBIE) else { return };
    let client = patient(&address);
    let request = v1::LeaseRequest {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        worker: "zombie".to_owned(),
        max: 1,
        ttl_ms: 200,
        wait_ms: 10_000,
        partition: None,
    };
    let slot = loop {
        if let Some(slot) = client.lease(request.clone()).await.unwrap().slots.pop() {
            break slot;
        }
    };
    println!("\nholds: {} {}", slot.partition, slot.slot);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let write = v1::RowWrite {
        table: "daily".to_owned(),
        id: fields(slot.event.as_ref().unwrap()).0,
        columns: [("total".to_owned(), (-1).into())].into(),
        delete: false,
    };
    let request = v1::CommitRequest {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        partition: slot.partition,
        slot: slot.slot,
        token: slot.token,
        content: Some(v1::CommitContent { rows: vec![write], ..Default::default() }),
    };
    match client.commit(request).await.unwrap().result.unwrap() {
        v1::commit_response::Result::Refused(refused) => println!("\ntold: {}", refused.code().as_str_name()),
        other => println!("\ntold: {other:?}"),
    }
}

/// An event of the shop: every day is opened first, and some again.
fn event(number: u64) -> v1::WriteRequest {
    let (workspace, day) = (number % WORKSPACES, number / WORKSPACES % DAYS);
    let opens = number < WORKSPACES * DAYS || number.is_multiple_of(97);
    v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace,
        client_id: "till".to_owned(),
        idempotency_key: (u128::from(number) + 1).to_le_bytes().to_vec().into(),
        event_type: if opens { "DayOpened" } else { "ItemSold" }.to_owned(),
        payload: format!("{{\"day\":\"day-{day}\",\"amount\":{}}}", number % 11).into(),
        ..Default::default()
    }
}

async fn write(process: &Process, numbers: std::ops::Range<u64>) {
    let mut answers = client(process).write_stream(stream::iter(numbers.map(event)).boxed());
    while let Some(answer) = answers.next().await {
        answer.unwrap();
    }
}

/// Waits until everything that was written is visible.
async fn visible(process: &Process, projection: &str, events: u64) -> Vec<v1::ProjectionDomain> {
    let client = client(process);
    for _ in 0..2400 {
        let request = v1::DescribeRequest {
            namespace: "shop".to_owned(),
            projection: projection.to_owned(),
            ..Default::default()
        };
        let domains = client.describe(request).await.unwrap().domains;
        if domains.iter().map(|domain| domain.watermark).sum::<u64>() == events {
            return domains;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let request = v1::DescribeRequest {
        namespace: "shop".to_owned(),
        projection: projection.to_owned(),
        ..Default::default()
    };
    panic!("it is never visible: {:#?}", client.describe(request).await.unwrap().domains);
}

type Model = BTreeMap<(u64, String), BTreeMap<String, i64>>;

/// What the server has.
async fn read_model(process: &Process, projection: &str) -> Model {
    let mut model = Model::new();
    for workspace in 0..WORKSPACES {
        let request = v1::QueryRequest {
            namespace: "shop".to_owned(),
            projection: projection.to_owned(),
            table: "daily".to_owned(),
            workspace,
            ..Default::default()
        };
        for row in client(process).query(request).await.unwrap().rows {
            let columns = row.columns.iter().map(|(name, value)| (name.clone(), value.as_integer().unwrap()));
            model.insert((workspace, row.id), columns.collect());
        }
    }
    model
}

/// The events one by one, by this test alone.
async fn serial_fold(process: &Process) -> Model {
    let mut folded: BTreeMap<(u64, String), Columns> = BTreeMap::new();
    for workspace in 0..WORKSPACES {
        let request =
            v1::ReadWorkspaceRequest { namespace: "shop".to_owned(), workspace, ..Default::default() };
        let mut events = client(process).read_workspace(request).await.unwrap();
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            let slot = v1::SlotEvent { payload: event.payload, ..Default::default() };
            let (day, amount) = fields(&slot);
            let row = next_row(&event.event_type, amount, folded.get(&(workspace, day.clone())));
            let columns = row.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
            folded.insert((workspace, day), columns.collect());
        }
    }
    let integers = |columns: Columns| {
        columns.into_iter().map(|(name, value)| (name, value.as_integer().unwrap())).collect()
    };
    folded.into_iter().map(|(place, columns)| (place, integers(columns))).collect()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |number| number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_server_die_at_any_time_and_the_read_model_is_the_serial_fold() {
    let (cycles, seed) = (number("GAPLESS_WORK_CYCLES", 12), number("GAPLESS_WORK_SEED", 7));
    println!("{cycles} cycles with seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let address = own().to_string();
    let mut process = Process::serve_at(&address, dir.path());
    client(&process)
        .apply_namespace(v1::ApplyNamespaceRequest { definition: SHOP.to_owned() })
        .await
        .unwrap();
    let mut workers: Vec<WorkerProcess> = (0..WORKERS).map(|_| WorkerProcess::works(&address)).collect();
    for cycle in 0..cycles {
        let written = cycle * EVENTS_OF_CYCLE..(cycle + 1) * EVENTS_OF_CYCLE;
        write(&process, written).await;
        let victim = random.usize(0..WORKERS);
        match random.u8(0..5) {
            0 => workers[victim] = WorkerProcess::works(&address),
            1 | 2 => workers[victim].signal("-STOP"),
            3 => workers.iter().for_each(|worker| worker.signal("-CONT")),
            _ => {
                process.kill();
                process = Process::serve_at(&address, dir.path());
            }
        }
    }
    workers.iter().for_each(|worker| worker.signal("-CONT"));
    let domains = visible(&process, "work", cycles * EVENTS_OF_CYCLE).await;
    let folded = serial_fold(&process).await;
    assert_eq!(folded.len() as u64, WORKSPACES * DAYS);
    assert_eq!(read_model(&process, "work").await, folded, "ORD-1");
    let count = |name: &str| domains.iter().map(|domain| domain.counters[name]).sum::<u64>();
    assert_eq!((count("committed"), count("filled")), (cycles * EVENTS_OF_CYCLE, 0));
    println!(
        "granted {} expired {} fenced {} conflicted {}",
        count("granted"),
        count("expired"),
        count("fenced"),
        count("conflicted")
    );
    drop(workers);
    assert!(process.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_stopped_until_its_slot_was_granted_again_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::serve(dir.path());
    client(&process)
        .apply_namespace(v1::ApplyNamespaceRequest { definition: SHOP.to_owned() })
        .await
        .unwrap();
    write(&process, 0..1).await;
    let mut zombie =
        WorkerProcess::start(ZOMBIE, "projections::a_worker_that_wakes_too_late", &process.address);
    assert_eq!(zombie.says("holds: "), "0 1");
    zombie.signal("-STOP");
    let other = WorkerProcess::works(&process.address);
    visible(&process, "work", 1).await;
    let before = read_model(&process, "work").await;
    writeln!(zombie.child.stdin.as_mut().unwrap()).unwrap();
    zombie.signal("-CONT");
    assert_eq!(zombie.says("told: "), "REFUSAL_CODE_STALE_TOKEN");
    assert_eq!(read_model(&process, "work").await, before);
    assert_eq!(before, serial_fold(&process).await);
    let mut counted = 0;
    for _ in 0..1200 {
        counted = visible(&process, "work", 1).await[0].counters["fenced"];
        if counted > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(counted, 1);
    drop(other);
    assert!(process.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_workers_compute_what_the_rules_compute_also_over_a_killed_server() {
    let dir = tempfile::tempdir().unwrap();
    let (python, stubs) = (Python::found(), dir.path().join("stubs"));
    std::fs::create_dir(&stubs).unwrap();
    python.stubs(&stubs);
    let data = dir.path().join("data");
    let address = own().to_string();
    let mut process = Process::serve_at(&address, &data);
    client(&process)
        .apply_namespace(v1::ApplyNamespaceRequest { definition: SHOP.to_owned() })
        .await
        .unwrap();
    let start = || {
        let mut command = python.command();
        command.env("PYTHONPATH", &stubs).arg(repository().join("examples/worker.py"));
        command.args([&address, "shop", "work"]).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut workers = [start(), start(), start()];
    write(&process, 0..100).await;
    process.kill();
    process = Process::serve_at(&address, &data);
    write(&process, 100..200).await;
    visible(&process, "work", 200).await;
    visible(&process, "rules", 200).await;
    assert_eq!(read_model(&process, "work").await, read_model(&process, "rules").await);
    for worker in &mut workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    assert!(process.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_go_on_over_a_killed_server_without_a_gap_and_without_a_repeat() {
    let dir = tempfile::tempdir().unwrap();
    let address = own().to_string();
    let mut process = Process::serve_at(&address, dir.path());
    client(&process)
        .apply_namespace(v1::ApplyNamespaceRequest { definition: SHOP.to_owned() })
        .await
        .unwrap();
    write(&process, 0..30).await;
    let request = v1::SubscribeEffectsRequest {
        namespace: "shop".to_owned(),
        projection: "rules".to_owned(),
        partition: 0,
        from: 1,
    };
    let mut effects = client(&process).subscribe_effects(request);
    let mut slots = Vec::new();
    for _ in 0..3 {
        slots.push(effects.next().await.unwrap().unwrap().slot);
    }
    process.kill();
    process = Process::serve_at(&address, dir.path());
    write(&process, 30..60).await;
    // Workspaces 0 and 3 are in partition 0.
    let expected: Vec<u64> = (1..=24).collect();
    while slots.len() < expected.len() {
        slots.push(effects.next().await.unwrap().unwrap().slot);
    }
    assert_eq!(slots, expected);
    drop(effects);
    assert!(process.terminate().success());
}
