//! The end in the middle of a stream of writes, by kill -9 or by SIGTERM, a restart, and a retry of everything: nothing lost, nothing
//! twice, numbers dense.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use gapless_client::{Client, Ledger, Options, Retry, v1};

use crate::support::Process;

/// How often the server is killed in a normal run; `cargo xtask soak kill` has more.
const CYCLES: u64 = 50;
/// Writes that each cycle intends.
const WRITES: u64 = 200;
/// Workspaces that they go to.
const WORKSPACES: u64 = 5;

pub(crate) const SHOP: &str = "name = 'shop'\npartitions = 3\n[kinds.default.sequences]\ninvoice = 1";

pub(crate) fn sale(number: u64) -> v1::WriteRequest {
    let next = v1::operation::Op::NextNumber(v1::NextNumber { sequence: "invoice".to_owned() });
    v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace: number % WORKSPACES,
        client_id: "till".to_owned(),
        idempotency_key: (u128::from(number) + 1).to_le_bytes().to_vec().into(),
        event_type: "ItemSold".to_owned(),
        payload: format!("{{\"sale\":{number}}}").into(),
        operations: vec![v1::Operation { op: Some(next) }],
        ..Default::default()
    }
}

pub(crate) fn client(process: &Process) -> Client {
    let retry = Retry { deadline: Duration::from_secs(60), ..Retry::default() };
    Client::new(std::slice::from_ref(&process.address)).unwrap().with(Options { retry, ..Options::default() })
}

/// A number that a longer run sets.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |number| number.parse().unwrap())
}

/// What a client was told: by key, without the flag that says whether it was told before.
type Told = BTreeMap<Vec<u8>, v1::WriteSuccess>;

fn note(told: &mut Told, answer: v1::WriteResponse) {
    let Some(v1::write_response::Result::Success(success)) = answer.result else {
        panic!("refused: {answer:?}")
    };
    let success = v1::WriteSuccess { duplicate: false, ..success };
    let first = told.entry(answer.idempotency_key.to_vec()).or_insert_with(|| success.clone());
    assert_eq!(*first, success, "IDEM-1: a retry gets the first answer");
}

/// Writes until the server is ended, after as many answers as a cycle wants to see first.
async fn until_ended(process: Process, from: u64, enough: usize, told: &mut Told, end: fn(Process)) {
    // One attempt: what breaks off is not retried before the server is back, for the first delay is longer than the deadline.
    let delay = Duration::from_secs(120);
    let retry = Retry { first: delay, longest: delay, deadline: delay / 2 };
    let once = client(&process).with(Options { retry, ..Options::default() });
    let mut answers = once.write_stream(stream::iter((from..from + WRITES).map(sale)).boxed());
    let mut seen = 0;
    while seen < enough
        && let Some(answer) = answers.next().await
    {
        note(told, answer.unwrap());
        seen += 1;
    }
    // The connection goes on meanwhile: what is on its way arrives.
    tokio::task::block_in_place(|| end(process));
    // What was on its way counts as told.
    while let Some(Ok(answer)) = answers.next().await {
        note(told, answer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_the_middle_of_writes_loses_nothing_and_repeats_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (cycles, seed) = (number("GAPLESS_KILL_CYCLES", CYCLES), number("GAPLESS_KILL_SEED", 7));
    println!("{cycles} cycles with seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut told = Told::new();
    let mut process = Process::serve(dir.path());
    client(&process)
        .apply_namespace(v1::ApplyNamespaceRequest { definition: SHOP.to_owned() })
        .await
        .unwrap();
    for cycle in 0..cycles {
        let from = cycle * WRITES;
        until_ended(process, from, random.usize(0..150), &mut told, Process::kill).await;
        process = Process::serve(dir.path());
        let mut answers =
            client(&process).write_stream(stream::iter((from..from + WRITES).map(sale)).boxed());
        while let Some(answer) = answers.next().await {
            note(&mut told, answer.unwrap());
        }
        assert_eq!(told.len() as u64, from + WRITES, "cycle {cycle}: every write has its answer");
    }
    check(&process, &told, cycles * WRITES / WORKSPACES).await;
    assert!(process.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_told_to_end_in_the_middle_of_writes_answers_what_it_took_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::new();
    let mut process = Process::serve(dir.path());
    let shop = v1::ApplyNamespaceRequest { definition: SHOP.to_owned() };
    client(&process).apply_namespace(shop).await.unwrap();
    for (cycle, enough) in [0, 1, 60, 140].into_iter().enumerate() {
        let from = cycle as u64 * WRITES;
        until_ended(process, from, enough, &mut told, |process| assert!(process.terminate().success())).await;
        process = Process::serve(dir.path());
        let mut answers =
            client(&process).write_stream(stream::iter((from..from + WRITES).map(sale)).boxed());
        while let Some(answer) = answers.next().await {
            note(&mut told, answer.unwrap());
        }
        assert_eq!(told.len() as u64, from + WRITES, "every write has its answer");
    }
    check(&process, &told, 4 * WRITES / WORKSPACES).await;
    assert!(process.terminate().success());
}

/// What can be read is what was told: all of it, and nothing else.
async fn check(process: &Process, told: &Told, each: u64) {
    for workspace in 0..WORKSPACES {
        let request =
            v1::ReadWorkspaceRequest { namespace: "shop".to_owned(), workspace, ..Default::default() };
        let events = client(process).read_workspace(request).await.unwrap();
        let events: Vec<v1::Event> = events.map(Result::unwrap).collect().await;
        let mut keys = BTreeSet::new();
        for (number, event) in (1..).zip(&events) {
            let numbers = (event.workspace_offset, event.assigned_sequence, event.numbers["invoice"]);
            assert_eq!(numbers, (number, number, number), "NUM-1");
            let first = &told[&event.idempotency_key.to_vec()];
            assert_eq!((first.workspace_offset, &first.tx_id), (number, &event.tx_id), "ACK-1");
            assert!(keys.insert(event.idempotency_key.clone()), "nothing happens twice");
        }
        assert_eq!(events.len() as u64, each);
    }
}
