//! Clients that read, follow and wait.
//!
//! Must not know: what was written.

use std::sync::Arc;
use std::time::Duration;

use gapless_engine::{Consistency, Follow, ReadError, ReadOptions, Target};
use gapless_partition::View;
use gapless_types::{ClientId, PartitionId, PartitionOffset};

use super::Stage;
use super::writer::choose;
use crate::checkers::Reading;
use crate::sometimes::Situation;
use crate::trace::note;
use crate::world::Running;

/// Reads until there is no trouble any more.
pub(crate) async fn run(stage: Arc<Stage>, mut chance: fastrand::Rng) {
    while !stage.is_calm() && !stage.world.findings.any() {
        tokio::time::sleep(Duration::from_millis(chance.u64(..60))).await;
        let Some(node) = choose(&stage, &mut chance) else { continue };
        if node.engine.alarms().iter().any(|alarm| alarm.contains("giving up leadership")) {
            stage.world.sometimes.saw(Situation::ClockGaveUp);
        }
        let partitions: Vec<PartitionId> =
            node.engine.partitions().iter().map(|report| report.partition).collect();
        let Some(partition) = chance.choice(partitions.iter()).copied() else { continue };
        match chance.u8(..6) {
            0 | 1 => linearizable(&stage, &node, partition, &mut chance).await,
            2 | 3 => stale(&stage, &node, partition, &mut chance).await,
            4 => at_least(&stage, &node, &mut chance).await,
            _ => barrier(&stage, &node, &mut chance).await,
        }
    }
}

/// A view of a node, if the node lives on until it is there.
pub(crate) async fn view(
    node: &Running,
    partition: PartitionId,
    consistency: Consistency,
    patience: Duration,
) -> Option<Result<View, ReadError>> {
    let options = ReadOptions { consistency, patience };
    tokio::select! {
        biased;
        () = node.life.ended() => None,
        view = node.engine.view(partition, options) => node.life.is_on().then_some(view),
    }
}

const PATIENCE: Duration = Duration::from_secs(1);

/// Contains everything that was acknowledged before it was asked for.
async fn linearizable(stage: &Stage, node: &Running, partition: PartitionId, chance: &mut fastrand::Rng) {
    // Whoever takes itself for the leader may be the only one that does.
    let leads = |node: &Running| node.engine.replicator().leadership().borrow().is_self;
    let leaders: Vec<Running> = stage.world.running().into_iter().filter(leads).collect();
    let node = chance.choice(leaders.iter()).unwrap_or(node);
    let least = stage.checkers.acknowledged(partition);
    let Some(Ok(view)) = view(node, partition, Consistency::Linearizable, PATIENCE).await else { return };
    note!(
        stage.world.trace,
        "linearizable view of {partition} at node {}: {:?}",
        node.life.node,
        view.applied()
    );
    if view.applied() < least {
        let what = format!(
            "a linearizable view of partition {partition} at node {} has outcomes up to {:?}, but {least:?} was acknowledged before",
            node.life.node,
            view.applied()
        );
        stage.world.findings.add("ACK-1", what);
    }
    stage.world.sometimes.saw(Situation::LinearizableRead);
    read(stage, node, &view, chance);
}

fn read(stage: &Stage, node: &Running, view: &View, chance: &mut fastrand::Rng) {
    let damaged = stage.world.is_damaged(node.life.node);
    let how = Reading { all_rows: !damaged && chance.u8(..4) == 0, damaged, settled: false };
    stage.checkers.read(&node.life, view, how);
}

/// Shows what the node has.
pub(crate) async fn stale(stage: &Stage, node: &Running, partition: PartitionId, chance: &mut fastrand::Rng) {
    if let Some(Ok(view)) = view(node, partition, Consistency::Stale, PATIENCE).await {
        read(stage, node, &view, chance);
    }
}

/// Contains the outcome that was asked for.
async fn at_least(stage: &Stage, node: &Running, chance: &mut fastrand::Rng) {
    let Some((partition, offset)) = stage.checkers.some_place(chance.u64(..)) else { return };
    let Some(Ok(view)) = view(node, partition, Consistency::AtLeast(offset), PATIENCE).await else { return };
    stage.world.sometimes.saw(Situation::ReadAtOffset);
    check_at_least(stage, node, partition, view.applied(), offset);
}

fn check_at_least(
    stage: &Stage,
    node: &Running,
    partition: PartitionId,
    applied: Option<PartitionOffset>,
    least: PartitionOffset,
) {
    if applied < Some(least) {
        let node = node.life.node;
        let what =
            format!("partition {partition} of node {node} is at {applied:?}, where {least} was waited for");
        stage.world.findings.add("WM-1", what);
    }
}

/// After a barrier everything up to it can be read.
async fn barrier(stage: &Stage, node: &Running, chance: &mut fastrand::Rng) {
    let Some((partition, offset)) = stage.checkers.some_place(chance.u64(..)) else { return };
    let client = ClientId::new("reader").expect("a valid name");
    let targets = [(partition, Target::Offset(offset))];
    let reached = tokio::select! {
        biased;
        () = node.life.ended() => return,
        reached = node.engine.wait_barrier(&client, &targets, PATIENCE) => reached,
    };
    if reached.is_err() {
        return;
    }
    stage.world.sometimes.saw(Situation::BarrierReached);
    let failed_before = reopenings(node, partition);
    if let Some(Ok(view)) = view(node, partition, Consistency::Stale, PATIENCE).await
        && reopenings(node, partition) == failed_before
    {
        check_at_least(stage, node, partition, view.applied(), offset);
    }
}

/// A partition that was opened again has less for a while.
fn reopenings(node: &Running, partition: PartitionId) -> Option<u64> {
    let reports = node.engine.partitions();
    reports.iter().find(|report| report.partition == partition).map(|report| report.reopenings)
}

/// Follows one partition wherever it can be followed: nothing is missing, nothing comes twice.
pub(crate) async fn follow(stage: Arc<Stage>, mut chance: fastrand::Rng) {
    let mut next = PartitionOffset::FIRST;
    let mut partition = None;
    let mut last_life = None;
    while !stage.is_calm() && !stage.world.findings.any() {
        tokio::time::sleep(Duration::from_millis(chance.u64(..100))).await;
        let running = stage.world.running();
        let Some(node) = chance.choice(running.iter()).cloned() else { continue };
        if stage.world.is_damaged(node.life.node) {
            continue;
        }
        let followed = match partition {
            Some(followed) => followed,
            None => {
                let Some(shop) = node.engine.namespace(super::SHOP) else { continue };
                let all: Vec<PartitionId> = shop.partitions().collect();
                all[chance.usize(..all.len())]
            }
        };
        partition = Some(followed);
        let Ok(mut subscription) = node.engine.follow(Follow::Partition(followed, next)) else { continue };
        let until = tokio::time::Instant::now() + Duration::from_millis(chance.u64(..1_500));
        loop {
            let found = tokio::select! {
                biased;
                () = node.life.ended() => break,
                () = tokio::time::sleep_until(until) => break,
                found = subscription.next() => found,
            };
            let Ok(found) = found else { break };
            if !node.life.is_on() {
                break;
            }
            let offset = found.outcome.header().partition_offset;
            if offset != next {
                let what = format!(
                    "whoever follows partition {followed} gets outcome {offset}, where {next} is next"
                );
                stage.world.findings.add("NUM-1", what);
                return;
            }
            stage.checkers.followed(node.life.node, followed, &found.outcome);
            if last_life.is_some_and(|last| last != (node.life.node, node.life.number)) {
                stage.world.sometimes.saw(Situation::FollowedAcrossRestart);
            }
            last_life = Some((node.life.node, node.life.number));
            let Some(behind) = next.next() else { return };
            next = behind;
        }
    }
}
