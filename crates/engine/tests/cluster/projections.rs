//! Projections in a cluster: rules and workers, history, restarts, changes of leader, snapshots; the read model is always the fold
//! of the events in their order.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_consensus::NodeId;
use gapless_engine::projection::{
    Command, Done, Held, Payload, Plan, Refusal, RowRead, RowWrite, Value, View as Rows, row_from_json,
};
use gapless_engine::retention::Domain;
use gapless_engine::{DomainState, Engine, Freshness, LeaseRequest, Leased, ProjectionError};
use gapless_log::io::Io;
use gapless_partition::{Definition, Write};
use gapless_types::{LogIndex, Name, PartitionIndex, PartitionOffset, WorkspaceId};
use serde_json::json;

use crate::harness::{Cluster, committed, eventually, id, shop};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A table that counts and sums what was sold each day.
pub(crate) fn rules() -> String {
    let plan = json!({"rules": {
        "Sold": {"kind": "upsert", "entity": "daily", "id": {"event": "day"},
            "set": {"n": {"add": [{"row": "n"}, 1]}, "total": {"add": [{"row": "total"}, {"event": "amount"}]}}},
        "Opened": {"kind": "upsert", "entity": "daily", "id": {"event": "day"}, "set": {"n": 0, "total": 0}},
        "Raised": {"kind": "update", "entity": "daily", "where": {"gt": ["n", 0]},
            "set": {"total": {"add": [{"row": "total"}, {"event": "by"}]}}},
    }});
    Plan::from_json(&plan).unwrap().to_text()
}

pub(crate) fn workers(settings: &serde_json::Value) -> String {
    let mut plan = json!({"events": ["Opened", "Sold", "Raised"]});
    for (name, value) in settings.as_object().unwrap() {
        plan[name] = value.clone();
    }
    Plan::from_json(&plan).unwrap().to_text()
}

pub(crate) fn with(definition: Definition, name: &str, plan: String) -> Definition {
    definition.with_projection(Name::new(name).unwrap(), plan)
}

pub(crate) async fn define(cluster: &Cluster, definition: Definition) {
    let leader = cluster.leader().await;
    cluster.engine(leader).define(definition).await.unwrap();
}

/// What happens, in an order in which every where-clause matters.
fn event(number: u64) -> (&'static str, String) {
    match number % 7 {
        0 => ("Opened", format!(r#"{{"day":"d{}"}}"#, number / 7 % 3)),
        3 => ("Raised", format!(r#"{{"by":{number}}}"#)),
        5 => ("Ignored", "{}".to_owned()),
        _ => ("Sold", format!(r#"{{"day":"d{}","amount":{number}}}"#, number % 3)),
    }
}

type Days = BTreeMap<String, (Option<i64>, Option<i64>)>;

/// The fold of the first so many events.
pub(crate) fn fold(numbers: impl IntoIterator<Item = u64>) -> Days {
    let mut days = Days::new();
    for number in numbers {
        let (event_type, payload) = event(number);
        let fields: serde_json::Value = serde_json::from_str(&payload).unwrap();
        let day = || fields["day"].as_str().unwrap().to_owned();
        match event_type {
            "Opened" => {
                days.insert(day(), (Some(0), Some(0)));
            }
            "Sold" => {
                let (n, total) = days.entry(day()).or_insert((None, None));
                *n = n.map(|n| n + 1);
                *total = total.map(|total| total + fields["amount"].as_i64().unwrap());
            }
            "Raised" => {
                for (_, total) in days.values_mut().filter(|(n, _)| n.is_some_and(|n| n > 0)) {
                    *total = total.map(|total| total + fields["by"].as_i64().unwrap());
                }
            }
            _ => {}
        }
    }
    days
}

pub(crate) fn days(view: &Rows, workspace: u64) -> Days {
    let number = |value: Option<&Value>| match value {
        Some(Value::Integer(number)) => Some(*number),
        _ => None,
    };
    let rows = view.rows("daily", WorkspaceId::new(workspace), "", gapless_partition::Direction::Forward);
    rows.map(|row| {
        let (id, _, row) = row.unwrap();
        (id.into(), (number(row.get("n")), number(row.get("total"))))
    })
    .collect()
}

pub(crate) async fn write(cluster: &Cluster, number: u64, workspace: u64) -> PartitionOffset {
    let (event_type, payload) = event(number);
    let write =
        Write { payload: payload.as_bytes(), ..Write::new(WorkspaceId::new(workspace), "till", event_type) };
    let acknowledgement = cluster.write(number, &write).await;
    committed(&acknowledgement).partition_offset
}

fn domain(engine: &Engine, projection: &str) -> Domain {
    engine.domain("shop", projection, PartitionIndex::new(0)).unwrap()
}

async fn read(engine: &Engine, projection: &str, freshness: Freshness) -> Rows {
    engine.projected(&domain(engine, projection), freshness, PATIENCE).await.unwrap()
}

pub(crate) async fn lease(engine: &Engine, worker: &str, max: u32) -> Vec<Leased> {
    let request = LeaseRequest {
        worker,
        max,
        ttl: Some(Duration::from_secs(5)),
        wait: Duration::from_secs(1),
        partition: None,
    };
    engine.lease("shop", "work", request).await.unwrap()
}

pub(crate) fn held(leased: &Leased) -> Held {
    Held { slot: leased.grant.slot, token: leased.grant.token }
}

/// What a worker computes for an event: the same as the rules.
pub(crate) async fn compute(engine: &Engine, leased: &Leased) -> Vec<u8> {
    let view = engine.projected(&leased.domain, Freshness::Stale, PATIENCE).await.unwrap();
    let event = leased.event.as_ref().unwrap().event();
    let fields: serde_json::Value = serde_json::from_slice(event.payload).unwrap();
    let (mut effects, mut reads) = (Vec::new(), Vec::new());
    let mut put = |id: &str, n: Option<i64>, total: Option<i64>| {
        let row = row_from_json(&json!({"n": n, "total": total}));
        effects.push(RowWrite { table: "daily".into(), id: id.into(), row });
    };
    let number = |value: Option<&Value>| match value {
        Some(Value::Integer(number)) => Some(*number),
        _ => None,
    };
    match event.event_type {
        "Raised" => {
            let rows = view.rows("daily", event.workspace, "", gapless_partition::Direction::Forward);
            let known: BTreeMap<String, (u64, Option<i64>, Option<i64>)> = rows
                .map(|row| {
                    let (id, version, row) = row.unwrap();
                    (id.into(), (version, number(row.get("n")), number(row.get("total"))))
                })
                .collect();
            // Also those that are not there: they could come.
            for day in ["d0", "d1", "d2"] {
                let (version, n, total) = known.get(day).copied().unwrap_or_default();
                reads.push(RowRead { table: "daily".into(), id: day.into(), version });
                if n.is_some_and(|n| n > 0) {
                    put(day, n, total.map(|total| total + fields["by"].as_i64().unwrap()));
                }
            }
        }
        event_type => {
            let day = fields["day"].as_str().unwrap();
            let (version, row) = view.row("daily", event.workspace, day).unwrap();
            reads.push(RowRead { table: "daily".into(), id: day.into(), version });
            let (n, total) = row.map_or((None, None), |row| (number(row.get("n")), number(row.get("total"))));
            match event_type {
                "Opened" => put(day, Some(0), Some(0)),
                _ => {
                    let amount = fields["amount"].as_i64().unwrap();
                    put(day, n.map(|n| n + 1), total.map(|total| total + amount));
                }
            }
        }
    }
    Payload::Effects { effects, reads }.to_bytes()
}

pub(crate) async fn commit(engine: &Engine, leased: &Leased, bytes: &[u8]) -> Result<Done, ProjectionError> {
    let command = Command::commit(held(leased), bytes);
    engine.command(&leased.domain, &command, PATIENCE).await.map(|answer| answer.done)
}

/// Works until everything is resolved.
async fn work_off(engine: &Engine) {
    loop {
        let leased = lease(engine, "diligent", 4).await;
        if leased.is_empty() {
            let view = read(engine, "work", Freshness::Linearizable).await;
            if view.watermark()
                == engine.projection("shop", "work").unwrap().domains[0].status.as_ref().unwrap().tail
            {
                return;
            }
        }
        for one in &leased {
            let bytes = compute(engine, one).await;
            let done = commit(engine, one, &bytes).await.unwrap();
            assert!(matches!(done, Done::Committed { .. }), "{done:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rules_are_computed_by_the_leader_and_every_node_shows_the_fold() {
    let mut cluster = Cluster::found(3, 1).await;
    define(&cluster, with(shop(1), "sales", rules())).await;
    let mut last = None;
    for number in 0..200 {
        last = Some(write(&cluster, number, 5).await);
    }
    for node in cluster.running() {
        let view = read(&cluster.engine(node), "sales", Freshness::AtLeast(last.unwrap())).await;
        assert_eq!(days(&view, 5), fold(0..200), "node {node}");
    }
    let engine = cluster.engine(cluster.leader().await);
    let report = engine.projection("shop", "sales").unwrap();
    let counters = report.domains[0].counters;
    assert!(counters.is_balanced() && counters.committed == 172, "{counters:?}");
    assert_eq!(report.domains[0].state, DomainState::Serving);
    let request = LeaseRequest { worker: "me", max: 1, ttl: None, wait: Duration::ZERO, partition: None };
    assert_eq!(engine.lease("shop", "sales", request).await.unwrap_err(), ProjectionError::ComputedByRules);
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_projection_begins_with_all_that_was_before_it() {
    for scope in ["workspace", "namespace"] {
        let mut cluster = Cluster::found_keeping(1, 2, 5).await;
        cluster.define(1).await;
        for number in 0..100 {
            write(&cluster, number, 5).await;
        }
        // Long before: the replicated log has nothing of it any more.
        cluster.cut_beyond(id(1), 60).await;
        let plan = rules().replace(r#""scope":"workspace""#, &format!(r#""scope":"{scope}""#));
        define(&cluster, with(shop(1), "sales", plan)).await;
        for number in 100..150 {
            write(&cluster, number, 5).await;
        }
        let last = write(&cluster, 150, 5).await;
        let view = read(&cluster.engine(id(1)), "sales", Freshness::AtLeast(last)).await;
        let workspace = if scope == "workspace" { 5 } else { 0 };
        assert_eq!(days(&view, workspace), fold(0..=150), "{scope}");
        cluster.close_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_takes_away_comes_again_and_the_log_is_cut_behind_it() {
    let mut cluster = Cluster::found_keeping(1, 3, 5).await;
    define(&cluster, with(with(shop(1), "sales", rules()), "work", workers(&json!({})))).await;
    let mut number = 0;
    for round in 0..6 {
        for _ in 0..30 {
            write(&cluster, number, 5).await;
            number += 1;
        }
        let engine = cluster.engine(id(1));
        if round % 2 == 0 {
            work_off(&engine).await;
        } else {
            // Somebody holds what he leased over the crash.
            assert!(!lease(&engine, "sleepy", 3).await.is_empty());
        }
        drop(engine);
        cluster.kill(id(1)).await;
        cluster.start(id(1)).await;
    }
    let engine = cluster.engine(cluster.leader().await);
    work_off(&engine).await;
    for projection in ["sales", "work"] {
        let view = read(&engine, projection, Freshness::Linearizable).await;
        let tail = engine.projection("shop", projection).unwrap().domains[0].status.clone().unwrap().tail;
        engine.wait_for_slot(&domain(&engine, projection), tail, PATIENCE).await.unwrap();
        let view = if view.watermark() < tail {
            read(&engine, projection, Freshness::Slot(tail)).await
        } else {
            view
        };
        assert_eq!(days(&view, 5), fold(0..number), "{projection}");
    }
    // Both are idle: others' entries are not kept for them.
    let appended = engine.replicator().progress().borrow().appended.map_or(0, LogIndex::get);
    drop(engine);
    for other in 0..50 {
        let write = Write::new(WorkspaceId::new(5), "till", "Ignored");
        cluster.write(1_000_000 + other, &write).await;
    }
    cluster.cut_beyond(id(1), appended).await;
    cluster.kill(id(1)).await;
    cluster.start(id(1)).await;
    let last = write(&cluster, number, 5).await;
    let view = read(&cluster.engine(id(1)), "sales", Freshness::AtLeast(last)).await;
    assert_eq!(days(&view, 5), fold(0..=number));
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn workers_survive_changes_of_leader_and_zombies_are_refused() {
    let mut cluster = Cluster::found(3, 4).await;
    define(&cluster, with(with(shop(1), "work", workers(&json!({}))), "sales", rules())).await;
    for number in 0..40 {
        write(&cluster, number, 5).await;
    }
    let first = cluster.leader().await;
    let engine = cluster.engine(first);
    let sleepy = lease(&engine, "sleepy", 5).await;
    assert_eq!(sleepy.len(), 5);
    let bytes = compute(&engine, &sleepy[0]).await;
    assert!(matches!(
        commit(&engine, &sleepy[0], &bytes).await.unwrap(),
        Done::Committed { is_duplicate: false, .. }
    ));
    drop(engine);
    cluster.kill(first).await;
    let second = cluster.leader().await;
    let engine = cluster.engine(second);
    // What was committed is known to the new leader, what was leased still is.
    let again = commit(&engine, &sleepy[0], &bytes).await.unwrap();
    assert!(matches!(again, Done::Committed { is_duplicate: true, .. }), "{again:?}");
    let renewed = Command::Renew { held: held(&sleepy[1]), ttl_ms: 5000 };
    let renewed = engine.command(&sleepy[1].domain, &renewed, PATIENCE).await.unwrap();
    assert!(matches!(renewed.done, Done::Renewed { renewals: 1, .. }), "{renewed:?}");
    // Their leases run out while nobody asks for anything: the leader lets time pass.
    eventually("the leases ran out", || {
        engine.projection("shop", "work").unwrap().domains[0].counters.expired == 4
    })
    .await;
    work_off(&engine).await;
    let bytes = compute(&engine, &sleepy[2]).await;
    let zombie = commit(&engine, &sleepy[2], &bytes).await.unwrap();
    assert!(
        matches!(zombie, Done::Refused(Refusal::StaleToken | Refusal::AlreadyCommitted)),
        "FENCE-1: {zombie:?}"
    );
    cluster.start(first).await;
    let last = write(&cluster, 40, 5).await;
    work_off(&cluster.engine(cluster.leader().await)).await;
    for node in cluster.running() {
        for projection in ["work", "sales"] {
            let view = read(&cluster.engine(node), projection, Freshness::AtLeast(last)).await;
            assert_eq!(days(&view, 5), fold(0..=40), "{projection} on node {node}");
        }
    }
    drop(engine);
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_late_gets_the_read_model_with_a_snapshot() {
    let mut cluster = Cluster::found_retaining(3, 5, 5, 1).await;
    define(&cluster, with(with(shop(2), "sales", rules()), "work", workers(&json!({})))).await;
    let leader = cluster.leader().await;
    let late = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    cluster.kill(late).await;
    for number in 0..120 {
        write(&cluster, number, 5).await;
    }
    let leader = cluster.leader().await;
    work_off_partition(&cluster, leader).await;
    cluster.cut_beyond(leader, 100).await;
    cluster.start(late).await;
    let last = write(&cluster, 120, 5).await;
    work_off_partition(&cluster, cluster.leader().await).await;
    let engine = cluster.engine(late);
    let partition = engine.partition_of("shop", WorkspaceId::new(5)).unwrap();
    for projection in ["sales", "work"] {
        let domain = engine.domain("shop", projection, partition.index).unwrap();
        let view = engine.projected(&domain, Freshness::AtLeast(last), PATIENCE).await.unwrap();
        assert_eq!(days(&view, 5), fold(0..=120), "{projection}");
    }
    assert!(engine.replicator().statistics().snapshots_installed >= 1);
    drop(engine);
    cluster.close_all().await;
}

/// Works off everything of the partition that the tests write to.
async fn work_off_partition(cluster: &Cluster, leader: NodeId) {
    let engine = cluster.engine(leader);
    loop {
        let leased = lease(&engine, "diligent", 8).await;
        if leased.is_empty() {
            return;
        }
        for one in &leased {
            let bytes = compute(&engine, one).await;
            commit(&engine, one, &bytes).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_projection_that_was_removed_leaves_nothing_and_comes_back_as_another_one() {
    let mut cluster = Cluster::found(1, 6).await;
    define(&cluster, with(shop(1), "sales", rules())).await;
    for number in 0..30 {
        write(&cluster, number, 5).await;
    }
    let engine = cluster.engine(id(1));
    let old = domain(&engine, "sales");
    drop(engine);
    define(&cluster, shop(1)).await;
    let engine = cluster.engine(id(1));
    assert!(matches!(engine.domain("shop", "sales", PartitionIndex::new(0)), Err(ProjectionError::Unknown)));
    let skip = engine.command(&old, &Command::Skip { slot: 1 }, PATIENCE).await;
    assert_eq!(skip.unwrap_err(), ProjectionError::Unknown);
    let dir =
        std::path::PathBuf::from(format!("node-1/partitions/{}-0/projections", old.partition.namespace));
    let is_there = |cluster: &Cluster| {
        let found = cluster.seats[&id(1)].io.list_dirs(&dir).unwrap_or_default();
        found.contains(&"sales-1".to_owned())
    };
    eventually("its files are gone", || !is_there(&cluster)).await;
    drop(engine);
    // A crash may leave them there.
    cluster.kill(id(1)).await;
    cluster.seats[&id(1)].io.create_dir(&dir.join("sales-1")).unwrap();
    assert!(is_there(&cluster));
    cluster.start(id(1)).await;
    eventually("what was left is gone", || !is_there(&cluster)).await;
    let changed = rules().replace(r#""window":1024"#, r#""window":64"#);
    define(&cluster, with(shop(1), "sales", changed)).await;
    let last = write(&cluster, 30, 5).await;
    let engine = cluster.engine(id(1));
    assert_eq!(domain(&engine, "sales").version, 2);
    let view = read(&engine, "sales", Freshness::AtLeast(last)).await;
    assert_eq!(days(&view, 5), fold(0..=30));
    let refused = engine.define(with(shop(1), "sales", rules())).await.unwrap_err();
    assert!(refused.to_string().contains("cannot change"), "{refused}");
    drop(engine);
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_rests_and_ends_as_a_dead_letter_and_an_operator_skips() {
    let mut cluster = Cluster::found(1, 7).await;
    let plan = workers(&json!({"max_attempts": 2, "backoff_ms": 3000}));
    define(&cluster, with(shop(1), "work", plan)).await;
    for number in 0..4 {
        write(&cluster, number, 5).await;
    }
    let engine = cluster.engine(id(1));
    let first = lease(&engine, "clumsy", 1).await.remove(0);
    let fail = Command::Fail { held: held(&first), error: "it fell" };
    let failed = engine.command(&first.domain, &fail, PATIENCE).await.unwrap();
    assert!(matches!(failed.done, Done::Failed { attempts: 1, .. }), "{failed:?}");
    assert!(lease(&engine, "clumsy", 1).await[0].grant.slot == 2, "the first one rests");
    // Nobody but the clock makes it ready again.
    let request = LeaseRequest {
        worker: "clumsy",
        max: 1,
        ttl: Some(Duration::from_secs(60)),
        wait: Duration::from_secs(30),
        partition: None,
    };
    let mut again = Vec::new();
    while again.first().is_none_or(|one: &Leased| one.grant.slot != 1) {
        again = engine.lease("shop", "work", request).await.unwrap();
    }
    assert_eq!(again[0].grant.attempt, 2);
    let fail = Command::Fail { held: held(&again[0]), error: "it fell again" };
    engine.command(&first.domain, &fail, PATIENCE).await.unwrap();
    let skipped = engine.command(&first.domain, &Command::Skip { slot: 2 }, PATIENCE).await.unwrap();
    assert_eq!((skipped.done, skipped.watermark), (Done::Skipped, 2));
    let view = read(&engine, "work", Freshness::Slot(2)).await;
    let fills: Vec<_> = view.fills(0).map(Result::unwrap).collect();
    assert_eq!(
        fills.iter().map(|fill| (fill.slot, fill.is_dead_letter)).collect::<Vec<_>>(),
        [(1, true), (2, true)]
    );
    drop(engine);
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn places_are_held_for_work_that_has_no_event() {
    let mut cluster = Cluster::found(1, 8).await;
    define(&cluster, with(shop(1), "work", workers(&json!({"window": 2})))).await;
    let engine = cluster.engine(id(1));
    let domain = domain(&engine, "work");
    let workspace = WorkspaceId::new(5);
    let allocate = || engine.allocate(&domain, "planner", workspace, Some(Duration::from_secs(9)), PATIENCE);
    let first = allocate().await.unwrap().unwrap();
    let second = allocate().await.unwrap().unwrap();
    assert_eq!((first.grant.slot, second.grant.slot), (1, 2));
    assert_eq!(allocate().await.unwrap().unwrap_err(), Refusal::WindowFull);
    let effects = vec![RowWrite { table: "t".into(), id: "a".into(), row: row_from_json(&json!({"x": 1})) }];
    let bytes = Payload::Effects { effects, reads: Vec::new() }.to_bytes();
    let done = commit(&engine, &second, &bytes).await.unwrap();
    assert!(matches!(done, Done::Committed { status: gapless_engine::projection::CommitStatus::Staged, .. }));
    // The first one expires, is filled, and what waited behind it becomes visible.
    assert_eq!(engine.wait_for_slot(&domain, 2, PATIENCE).await.unwrap(), 2);
    let view = read(&engine, "work", Freshness::Slot(2)).await;
    assert_eq!(view.row("t", workspace, "a").unwrap().0, 2);
    let late = commit(&engine, &first, &bytes).await.unwrap();
    assert_eq!(late, Done::Refused(Refusal::SlotFilled));
    let behind = |prefix: &str, after: &str| -> Vec<String> {
        let rows = view.rows_behind("t", workspace, prefix, after.as_bytes());
        rows.map(|row| row.unwrap().0.into()).collect()
    };
    assert_eq!(
        (behind("", ""), behind("a", ""), behind("", "A")),
        (vec!["a".into()], vec!["a".into()], vec!["a".into()])
    );
    assert!(behind("", "a").is_empty() && behind("b", "").is_empty() && behind("a", "b").is_empty());
    let exploded = Payload::Exploded {
        read_watermark: 0,
        exploded: gapless_engine::projection::Exploded {
            kind: gapless_engine::projection::RuleKind::NoOp,
            table: "t".into(),
            ids: Vec::new(),
        },
    };
    let refused = commit(&engine, &second, &exploded.to_bytes()).await.unwrap_err();
    assert!(matches!(refused, ProjectionError::Invalid(_)), "{refused}");
    drop(engine);
    cluster.close_all().await;
}
