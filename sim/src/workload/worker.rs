//! Workers of a projection: they take slots, read rows, compute and commit; and they dawdle, forget what they hold, come too late.
//!
//! Each event adds one to the count of its workspace, and its place to a chain in which the order of all of them shows.
//!
//! Must not know: which node is in trouble; which slot is whose turn.

use std::sync::Arc;
use std::time::Duration;

use gapless_engine::projection::{
    Command, CommitStatus, Done, Held, Payload, Plan, Row, RowRead, RowWrite, Value, View,
};
use gapless_engine::{Engine, Freshness, LeaseRequest, Leased, ProjectionError};
use gapless_types::PartitionOffset;

use super::writer::choose;
use super::{SHOP, Stage};
use crate::sometimes::Situation;
use crate::trace::note;
use crate::world::Running;

/// The projection that workers compute.
pub(crate) const TALLY: &str = "tally";
/// Its table, and the one row in it that a workspace has.
const TABLE: &str = "tally";
const ID: &str = "all";

const PATIENCE: Duration = Duration::from_secs(2);

/// How the projection is set.
pub(crate) fn plan() -> String {
    // Nobody gives up: a slot that is filled would be a fault.
    let plan = r#"{"events":["Done"],"window":12,"max_attempts":1000000}"#;
    Plan::from_text(plan).expect("a plan that can be").to_text()
}

/// What is known of a workspace: how many events, and the chain of their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    count: i64,
    chain: i64,
}

impl Tally {
    /// With one more event.
    pub(crate) fn with(self, source: PartitionOffset) -> Self {
        let place = i64::try_from(source.get()).unwrap_or(i64::MAX);
        Self { count: self.count + 1, chain: self.chain.wrapping_mul(31).wrapping_add(place) }
    }

    /// The row that says so.
    pub(crate) fn row(self) -> Row {
        let columns = [("count", self.count), ("chain", self.chain)];
        columns.map(|(name, value)| (Box::from(name), Value::Integer(value))).into()
    }

    fn of(row: Option<&Row>) -> Self {
        let column = |name: &str| match row.and_then(|row| row.get(name)) {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        };
        Self { count: column("count"), chain: column("chain") }
    }

    /// What an effect has to write.
    pub(crate) fn write(self) -> RowWrite {
        RowWrite { table: TABLE.into(), id: ID.into(), row: Some(self.row()) }
    }
}

/// Works until it is ended from outside: what is left when there is no trouble any more is worked off, too.
pub(crate) async fn run(stage: Arc<Stage>, number: u64, mut chance: fastrand::Rng) {
    let worker = format!("worker {number}");
    while !stage.world.findings.any() {
        let is_calm = stage.is_calm();
        // What is left is worked off by one, so that nobody is in its way.
        if is_calm && number > 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(if is_calm { 1 } else { chance.u64(1..40) })).await;
        let Some(node) = choose_worked(&stage, &mut chance) else { continue };
        if chance.u8(..4) == 0 {
            look(&stage, &node, &mut chance).await;
        }
        let request = LeaseRequest {
            worker: &worker,
            max: if is_calm { 12 } else { chance.u32(1..5) },
            ttl: Some(Duration::from_millis(if is_calm { 5_000 } else { chance.u64(50..1_500) })),
            wait: Duration::from_millis(chance.u64(..300)),
            partition: None,
        };
        let leased = while_alive(&node, node.engine.lease(SHOP, TALLY, request)).await;
        let Some(Ok(leased)) = leased else { continue };
        for leased in leased {
            let grant = leased.grant;
            note!(
                stage.world.trace,
                "{worker} has slot {} of {:?}, token {}",
                grant.slot,
                leased.domain,
                grant.token
            );
            if grant.attempt > 1 {
                stage.world.sometimes.saw(Situation::SlotGrantedAgain);
            }
            stage.checkers.granted(&leased.domain, grant.slot, grant.token);
            work(&stage, &leased, &mut chance).await;
        }
    }
}

/// One slot: committed, or given back, or forgotten.
async fn work(stage: &Stage, leased: &Leased, chance: &mut fastrand::Rng) {
    let held = Held { slot: leased.grant.slot, token: leased.grant.token };
    let rows = compute(stage, leased, chance).await;
    let fate = if stage.is_calm() { u8::MAX } else { chance.u8(..12) };
    let takes = match fate {
        u8::MAX => 0,
        fate if (2..2 + stage.world.plan.dawdled).contains(&fate) => chance.u64(..3_000),
        _ => chance.u64(..30),
    };
    tokio::time::sleep(Duration::from_millis(takes)).await;
    match fate {
        // Died, and nobody knows.
        0 => {}
        1 => {
            let back = match chance.u8(..3) {
                0 => Command::Release { held },
                1 => Command::Fail { held, error: "no luck" },
                _ => Command::Renew { held, ttl_ms: 500 },
            };
            send(stage, leased, &back, chance).await;
        }
        _ => {
            let Some(rows) = rows else { return };
            commit(stage, leased, &rows, chance).await;
        }
    }
}

/// What the event of a slot makes of the rows that some node shows.
async fn compute(stage: &Stage, leased: &Leased, chance: &mut fastrand::Rng) -> Option<Vec<u8>> {
    let node = choose_worked(stage, chance)?;
    let shown = node.engine.projected(&leased.domain, Freshness::Stale, PATIENCE);
    let view: View = while_alive(&node, shown).await?.ok()?;
    let event = leased.event.as_ref()?.event();
    let (version, row) = view.row(TABLE, event.workspace, ID).ok()?;
    let effects = vec![Tally::of(row.as_ref()).with(leased.grant.source?).write()];
    let reads = vec![RowRead { table: TABLE.into(), id: ID.into(), version }];
    Some(Payload::Effects { effects, reads }.to_bytes())
}

async fn commit(stage: &Stage, leased: &Leased, rows: &[u8], chance: &mut fastrand::Rng) {
    let (domain, grant) = (&leased.domain, leased.grant);
    let held = Held { slot: grant.slot, token: grant.token };
    // Whoever asks again, because nobody told him, asks for the same.
    for _ in 0..if stage.is_calm() { 100 } else { chance.u8(1..4) } {
        let is_outdated = stage.checkers.is_outdated(domain, grant.slot, grant.token);
        match send(stage, leased, &Command::commit(held, rows), chance).await {
            Some(Done::Committed { status, .. }) => {
                stage.checkers.committed(domain, grant.slot, grant.token, is_outdated);
                if status == CommitStatus::Returned {
                    stage.world.sometimes.saw(Situation::CommitReturned);
                }
                return;
            }
            Some(Done::Refused(_)) => {
                if is_outdated {
                    stage.world.sometimes.saw(Situation::ZombieRefused);
                }
                return;
            }
            Some(_) | None => tokio::time::sleep(Duration::from_millis(chance.u64(1..100))).await,
        }
    }
}

/// Sends a command to whoever leads. What was done, if somebody says.
async fn send(
    stage: &Stage,
    leased: &Leased,
    command: &Command<'_>,
    chance: &mut fastrand::Rng,
) -> Option<Done> {
    let node = choose_worked(stage, chance)?;
    let answer = while_alive(&node, node.engine.command(&leased.domain, command, PATIENCE)).await?;
    let slot = leased.grant.slot;
    note!(stage.world.trace, "slot {slot} of {:?} at node {}: {answer:?}", leased.domain, node.life.node);
    answer.ok().map(|answer| answer.done)
}

/// Compares what a node shows of some domain with the fold.
async fn look(stage: &Stage, node: &Running, chance: &mut fastrand::Rng) {
    let Ok(report) = node.engine.projection(SHOP, TALLY) else { return };
    let Some(domain) = chance.choice(report.domains.iter()).map(|report| report.domain.clone()) else {
        return;
    };
    let shown = while_alive(node, node.engine.projected(&domain, Freshness::Stale, PATIENCE)).await;
    if let Some(Ok(view)) = shown {
        let damaged = stage.world.is_damaged(node.life.node);
        stage.checkers.projected(&node.life, &domain, &view, damaged);
    }
}

/// Waits until a node shows everything up to an outcome, and compares it with the fold.
pub(crate) async fn read_all(
    stage: &Stage,
    node: &Running,
    partition: gapless_types::PartitionId,
    last: PartitionOffset,
) {
    let domain = |engine: &Engine| engine.domain(SHOP, TALLY, partition.index);
    while !stage.world.findings.any() && node.life.is_on() {
        // Another namespace has no such projection.
        match domain(&node.engine) {
            Ok(domain) if domain.partition == partition => {
                let shown = node.engine.projected(&domain, Freshness::AtLeast(last), PATIENCE);
                if let Some(Ok(view)) = while_alive(node, shown).await {
                    stage.checkers.projected(&node.life, &domain, &view, false);
                    stage.checkers.finish_projection(&domain, last);
                    return;
                }
            }
            Ok(_) | Err(ProjectionError::Unknown) => return,
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whom a worker asks: anybody, and the leader alone once there is no trouble any more.
fn choose_worked(stage: &Stage, chance: &mut fastrand::Rng) -> Option<Running> {
    match stage.is_calm() {
        true => stage.world.leader(),
        false => choose(stage, chance),
    }
}

async fn while_alive<T>(node: &Running, answer: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = node.life.ended() => None,
        answer = answer => node.life.is_on().then_some(answer),
    }
}
