//! Makes trouble: one after the other, of the kinds that the seed has, at times that the seed decides.
//!
//! Must not know: what must be true in spite of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gapless_consensus::NodeId;
use gapless_log::io::faulty::{Fault, OperationKind};
use tokio::time::Instant;

use crate::checkers::iso_1;
use crate::operator;
use crate::plan::{Aim, Trouble};
use crate::sometimes::Situation;
use crate::trace::note;
use crate::workload::Stage;
use crate::world::Running;
use crate::world::network::Weather;

/// Makes trouble for as long as the seed has it.
pub(crate) async fn run(stage: Arc<Stage>, mut chance: fastrand::Rng) {
    let plan = stage.world.plan.clone();
    let until = Instant::now() + plan.trouble_lasts;
    while Instant::now() < until && !stage.world.findings.any() {
        tokio::time::sleep(Duration::from_millis(chance.u64(1..=plan.pace))).await;
        let Some(trouble) = chance.choice(plan.troubles.iter()).copied() else { continue };
        note!(stage.world.trace, "trouble {trouble:?}");
        // What lasts for a while does so beside what comes next.
        let (stage, mut chance) = (stage.clone(), chance.fork());
        tokio::spawn(async move { make(&stage, trouble, &mut chance).await });
    }
}

async fn make(stage: &Arc<Stage>, trouble: Trouble, chance: &mut fastrand::Rng) {
    let world = &stage.world;
    let running = world.running();
    let Some(node) = chance.choice(running.iter()).cloned() else { return };
    match trouble {
        Trouble::Crash => crash(stage, node, chance),
        Trouble::CrashAll => {
            world.sometimes.saw(Situation::AllCrashed);
            for node in running {
                node.life.end();
            }
        }
        Trouble::RestartLoop => restart_loop(stage, node.life.node, chance).await,
        Trouble::Partition => partition(stage, chance).await,
        Trouble::SlowLink => {
            let to = running[chance.usize(..running.len())].life.node;
            let by = Duration::from_millis(chance.u64(10..800));
            if to != node.life.node {
                world.sometimes.saw(Situation::SlowLink);
            }
            world.network.slow_down(node.life.node, to, by);
        }
        Trouble::Pause => {
            world.sometimes.saw(Situation::Paused);
            let held = node.life.node;
            world.network.hold(held);
            tokio::time::sleep(Duration::from_millis(chance.u64(50..3_000))).await;
            world.network.release(held);
        }
        Trouble::FailingDisk => fail_disk(stage, &node, chance),
        Trouble::SlowDisk => {
            let takes = Duration::from_millis(chance.u64(..200));
            if !takes.is_zero() {
                world.sometimes.saw(Situation::SlowDisk);
            }
            world.with_seat(node.life.node, |seat| seat.clock.set_write_takes(takes));
        }
        Trouble::FullDisk => fill_disk(stage, node.life.node, chance).await,
        Trouble::BrokenPartition => break_partition(stage, &node, chance).await,
        Trouble::Damage if world.plan.aim == Some(Aim::LostTail) => lose_tail(stage, &node, chance).await,
        Trouble::Damage => damage(stage, &node, chance),
        Trouble::Clock => {
            let off = chance.i64(-60_000..60_000);
            if off != 0 {
                world.sometimes.saw(Situation::ClockWrong);
            }
            world.with_seat(node.life.node, |seat| seat.clock.set_off(off));
        }
        Trouble::Members => members(stage, chance),
        Trouble::LostDisk => lose_disk(stage, &node),
        Trouble::Transfer => transfer(stage, &node).await,
        Trouble::Snapshot => snapshot(stage, node),
        Trouble::Catalog => operator::change_catalog(stage, chance).await,
        Trouble::SlowApply => {
            let takes = chance.u64(..300_000);
            world.sometimes.saw(Situation::SlowApply);
            world.with_seat(node.life.node, |seat| seat.jobs_take.store(takes, Ordering::Relaxed));
            tokio::time::sleep(Duration::from_millis(chance.u64(100..3_000))).await;
            world.with_seat(node.life.node, |seat| seat.jobs_take.store(0, Ordering::Relaxed));
        }
        Trouble::Repair => operator::repair_some(stage, &node, chance).await,
    }
}

/// Ends a node now, after some more steps of anybody, or in an operation of its disk.
fn crash(stage: &Stage, node: Running, chance: &mut fastrand::Rng) {
    let world = &stage.world;
    let victim = match world.leader() {
        Some(leader) if chance.bool() => {
            world.sometimes.saw(Situation::LeaderCrashed);
            leader
        }
        _ => node,
    };
    world.sometimes.saw(Situation::Crash);
    match chance.u8(..3) {
        0 => victim.life.end(),
        1 => world.trace.trip_after(chance.u64(..300), victim.life),
        _ => {
            let more = chance.u64(1..60);
            world.with_seat(victim.life.node, |seat| seat.disk.cut_at(seat.disk.operations() + more));
        }
    }
}

/// Ends a node in each of its next lives, soon after it began.
async fn restart_loop(stage: &Stage, node: NodeId, chance: &mut fastrand::Rng) {
    for _ in 0..chance.u8(2..6) {
        let more = chance.u64(1..80);
        if stage.is_calm() {
            return;
        }
        stage.world.with_seat(node, |seat| seat.disk.cut_at(seat.disk.operations() + more));
        tokio::time::sleep(Duration::from_millis(chance.u64(..1_500))).await;
    }
}

/// Cuts links for a while.
async fn partition(stage: &Stage, chance: &mut fastrand::Rng) {
    let (world, network) = (&stage.world, &stage.world.network);
    if world.plan.aim == Some(Aim::CutOffLeader) {
        let Some(leader) = world.leader() else { return };
        isolate(stage, leader.life.node);
        tokio::time::sleep(Duration::from_millis(chance.u64(2_000..6_000))).await;
        network.heal();
        return;
    }
    let mut nodes: Vec<NodeId> = world.seats().keys().copied().collect();
    chance.shuffle(&mut nodes);
    let one_way = chance.u8(..3) == 0;
    let bridge = chance.u8(..3) == 0;
    let split = chance.usize(1..nodes.len().max(2));
    for (number, &from) in nodes.iter().enumerate() {
        for (other, &to) in nodes.iter().enumerate() {
            let apart = (number < split) != (other < split);
            let over_bridge = bridge && (number == 0 || other == 0);
            if apart && !over_bridge && !(one_way && number < split) {
                network.cut(from, to);
            }
        }
    }
    match (one_way, bridge) {
        (_, true) => world.sometimes.saw(Situation::Bridge),
        (true, _) => world.sometimes.saw(Situation::AsymmetricPartition),
        _ => {}
    }
    tokio::time::sleep(Duration::from_millis(chance.u64(50..4_000))).await;
    network.heal();
    note!(world.trace, "links are whole");
}

/// Cuts all links of a node.
fn isolate(stage: &Stage, node: NodeId) {
    let (world, network) = (&stage.world, &stage.world.network);
    let others: Vec<NodeId> = world.seats().keys().copied().filter(|other| *other != node).collect();
    for other in others {
        network.cut(node, other);
        network.cut(other, node);
    }
}

fn fail_disk(stage: &Stage, node: &Running, chance: &mut fastrand::Rng) {
    let kinds = [
        Fault::Of(OperationKind::Sync),
        Fault::Of(OperationKind::Sync),
        Fault::Of(OperationKind::Write),
        Fault::Of(OperationKind::SyncDir),
        Fault::Of(OperationKind::Rename),
        Fault::Any,
    ];
    let kind = kinds[chance.usize(..kinds.len())];
    let more = chance.u64(1..40);
    stage.world.with_seat(node.life.node, |seat| seat.disk.fail_at(seat.disk.operations() + more, kind));
}

/// Leaves little room on a disk for a while.
async fn fill_disk(stage: &Stage, node: NodeId, chance: &mut fastrand::Rng) {
    let world = &stage.world;
    let room = chance.u64(..200_000);
    world.with_seat(node, |seat| {
        // What is used is not told, so it is found: nothing more fits than now.
        let used = seat.disk.memory().used_bytes();
        seat.disk.set_capacity(Some(used + room));
    });
    tokio::time::sleep(Duration::from_millis(chance.u64(100..4_000))).await;
    world.with_seat(node, |seat| seat.disk.set_capacity(None));
}

/// Lets the files of one partition fail for a while.
async fn break_partition(stage: &Stage, node: &Running, chance: &mut fastrand::Rng) {
    let reports = node.engine.partitions();
    let Some(report) = chance.choice(reports.iter()) else { return };
    let (world, dir) = (&stage.world, iso_1::directory(report));
    note!(world.trace, "files of {dir} at node {} cannot be written", node.life.node);
    world.sometimes.saw(Situation::PartitionBroken);
    world.break_partition(node.life.node, Some(dir));
    tokio::time::sleep(Duration::from_millis(chance.u64(100..2_000))).await;
    world.break_partition(node.life.node, None);
}

/// Lets bits rot on one node, which stays the only one until it is replaced.
fn damage(stage: &Stage, running: &Running, chance: &mut fastrand::Rng) {
    let (world, node) = (&stage.world, running.life.node);
    if stage.operating.try_lock().is_err() {
        return;
    }
    if world.plan.nodes == 1 {
        return damage_stores(stage, node, chance);
    }
    let others = world.seats().iter().any(|(other, seat)| *other != node && seat.damaged);
    let members = running.engine.replicator().members();
    if others || members.voters.iter().any(|voters| voters.len() < 3) {
        return;
    }
    if chance.u8(..3) == 0 {
        return damage_tail(stage, running, chance);
    }
    let lies = chance.bool();
    let count = chance.u8(1..4);
    let mut damage = Vec::new();
    world.with_seat(node, |seat| {
        seat.damaged = true;
        for _ in 0..count {
            if lies {
                seat.arm_lie(chance.bool());
            } else {
                damage.extend(seat.disk.flip_random_bit());
            }
        }
    });
    if lies || !damage.is_empty() {
        world.sometimes.saw(Situation::Damaged);
    }
    note!(world.trace, "node {node}: lies {lies}, damage {damage:?}");
}

/// Lets bits rot in what a node that is alone can make again: the stores of its partitions. Of anything else there is one copy.
fn damage_stores(stage: &Stage, node: NodeId, chance: &mut fastrand::Rng) {
    let count = chance.u8(1..4);
    let damage = stage.world.with_seat(node, |seat| {
        let flipped: Vec<_> = (0..count).filter_map(|_| seat.flip_in_store(node, chance)).collect();
        seat.damaged |= !flipped.is_empty();
        flipped
    });
    if damage.as_ref().is_some_and(|damage| !damage.is_empty()) {
        stage.world.sometimes.saw(Situation::Damaged);
    }
    note!(stage.world.trace, "node {node}: damage {damage:?}");
}

/// A follower loses the end of its log, which was acknowledged because it and the leader had it: a third one heard nothing of that, and
/// then nobody hears from the leader.
async fn lose_tail(stage: &Stage, follower: &Running, chance: &mut fastrand::Rng) {
    let (world, network) = (&stage.world, &stage.world.network);
    let Ok(_operating) = stage.operating.try_lock() else { return };
    let Some(leader) = world.leader() else { return };
    let (leader, node) = (leader.life.node, follower.life.node);
    let third = world.seats().keys().copied().find(|third| *third != leader && *third != node);
    let damaged = world.seats().values().any(|seat| seat.damaged);
    let Some(third) = third.filter(|_| leader != node && !damaged) else { return };
    isolate(stage, third);
    tokio::time::sleep(Duration::from_millis(chance.u64(200..1_000))).await;
    network.heal();
    isolate(stage, leader);
    damage_tail(stage, follower, chance);
    tokio::time::sleep(Duration::from_millis(chance.u64(3_000..6_000))).await;
    network.heal();
}

/// A node loses the end of its replicated log, which was synced, and comes back without it.
fn damage_tail(stage: &Stage, running: &Running, chance: &mut fastrand::Rng) {
    let (world, node) = (&stage.world, running.life.node);
    let damaged = world.with_seat(node, |seat| {
        let (path, offset) =
            seat.last_log_write.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()?;
        seat.damaged = true;
        let flipped = seat.disk.flip_bit(&path, offset + chance.u64(..64), chance.u8(..8));
        Some((path, offset, flipped.is_ok()))
    });
    if damaged.iter().flatten().any(|(_, _, flipped)| *flipped) {
        world.sometimes.saw(Situation::Damaged);
    }
    note!(world.trace, "node {node} loses the end of its log: {damaged:?}");
    running.life.end();
}

/// One node joins, or one leaves.
fn members(stage: &Arc<Stage>, chance: &mut fastrand::Rng) {
    let grows = chance.bool();
    let Some(leader) = stage.world.leader() else { return };
    let voters: Vec<NodeId> = leader.engine.replicator().members().all_voters().into_iter().collect();
    let leaving = voters[chance.usize(..voters.len().max(1))];
    let stage = stage.clone();
    tokio::spawn(async move {
        let Ok(_operating) = stage.operating.try_lock() else { return };
        // Whoever is damaged may never come back: fewer voters would have to do without him.
        if stage.world.seats().values().any(|seat| seat.damaged) {
            return;
        }
        match voters.len() {
            count if grows && count < 5 => {
                operator::add(&stage, None).await;
            }
            count if !grows && count > 2 => operator::remove(&stage, leaving).await,
            _ => {
                operator::add(&stage, Some(leaving)).await;
            }
        }
    });
}

/// A node loses its disk, and is replaced. One at a time, and nobody's disk is damaged meanwhile.
fn lose_disk(stage: &Arc<Stage>, node: &Running) {
    let (stage, node) = (stage.clone(), node.clone());
    tokio::spawn(async move {
        let Ok(_operating) = stage.operating.try_lock() else { return };
        if stage.world.seats().values().any(|seat| seat.damaged) {
            return;
        }
        let Some(leader) = stage.world.leader() else { return };
        if leader.engine.replicator().members().all_voters().len() < 3 {
            return;
        }
        note!(stage.world.trace, "node {} has lost its disk", node.life.node);
        node.life.end();
        stage.world.retire_now(node.life.node);
        operator::add(&stage, Some(node.life.node)).await;
    });
}

async fn transfer(stage: &Stage, to: &Running) {
    let Some(leader) = stage.world.leader() else { return };
    let transferred = tokio::select! {
        biased;
        () = leader.life.ended() => return,
        transferred = leader.engine.replicator().transfer_leadership(to.life.node) => transferred,
    };
    note!(stage.world.trace, "leadership to {}: {transferred:?}", to.life.node);
    if transferred.is_ok() {
        stage.world.sometimes.saw(Situation::LeadershipTransferred);
    }
}

fn snapshot(stage: &Stage, node: Running) {
    let (trace, sometimes) = (stage.world.trace.clone(), stage.world.sometimes.clone());
    tokio::spawn(async move {
        let taken = tokio::select! {
            biased;
            () = node.life.ended() => return,
            taken = node.engine.replicator().snapshot() => taken,
        };
        if taken.is_ok() {
            sometimes.saw(Situation::SnapshotTaken);
        }
        note!(trace, "snapshot of node {}: {taken:?}", node.life.node);
    });
}

/// Ends all trouble.
pub(crate) fn calm_down(stage: &Stage) {
    let world = &stage.world;
    world.network.heal();
    world.network.set_weather(Weather { delay: 1_000, lost: 0, doubled: 0 });
    for (node, seat) in world.seats().iter_mut() {
        world.network.release(*node);
        seat.disk.cancel_faults();
        seat.disk.set_capacity(None);
        seat.disarm_lies();
        seat.clock.set_off(0);
        seat.clock.set_write_takes(Duration::ZERO);
        seat.jobs_take.store(0, Ordering::Relaxed);
        *seat.broken.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
    note!(world.trace, "calm");
}
