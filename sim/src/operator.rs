//! What an operator does: members come and go, nodes that lost their disks are replaced, namespaces are defined and dropped.
//!
//! Must not know: why it is asked to.

use std::collections::BTreeSet;
use std::time::Duration;

use gapless_consensus::{NodeId, Start};
use gapless_engine::RepairSource;
use gapless_types::PartitionId;

use crate::sometimes::Situation;
use crate::trace::note;
use crate::workload::{SEASONAL, Stage};
use crate::world::Running;

/// So often something is tried.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes another node a voter in the place of one that is damaged. That one stays as long as it may be of use: others may need its
/// vote or what it has.
pub(crate) async fn replace(stage: &Stage, old: NodeId) {
    let new = seat(stage, Some(old));
    if !take_over(stage, new, Some(old)).await {
        stage.world.retire_now(old);
        take_over(stage, new, Some(old)).await;
    }
}

/// Makes another node a voter, in the place of one that leaves for good if there is one. Whether it is.
pub(crate) async fn add(stage: &Stage, instead_of: Option<NodeId>) -> bool {
    let new = seat(stage, instead_of);
    take_over(stage, new, instead_of).await
}

fn seat(stage: &Stage, instead_of: Option<NodeId>) -> NodeId {
    let world = &stage.world;
    let node = {
        let last = world.seats().last_key_value().map_or(0, |(node, _)| node.get());
        NodeId::new(last + 1)
    };
    note!(world.trace, "operator: node {node} joins instead of {instead_of:?}");
    world.seat(node, Start::Join);
    node
}

async fn take_over(stage: &Stage, node: NodeId, instead_of: Option<NodeId>) -> bool {
    let world = &stage.world;
    let joined = settle(stage, |voters| {
        let mut wanted = voters.clone();
        wanted.insert(node);
        if let Some(old) = instead_of {
            wanted.remove(&old);
        }
        wanted
    });
    let joined = joined.await;
    if !joined {
        return false;
    }
    if let Some(old) = instead_of {
        world.retire(old).await;
        world.sometimes.saw(Situation::NodeReplaced);
    }
    world.sometimes.saw(Situation::MembersChanged);
    true
}

/// Takes a voter out of the cluster, for good.
pub(crate) async fn remove(stage: &Stage, node: NodeId) {
    note!(stage.world.trace, "operator: node {node} leaves");
    let without = |voters: &BTreeSet<NodeId>| voters.iter().copied().filter(|voter| *voter != node).collect();
    if settle(stage, without).await {
        stage.world.retire(node).await;
        stage.world.sometimes.saw(Situation::MembersChanged);
    }
}

/// Changes the voters until they are as they should be. Whether they are.
async fn settle(stage: &Stage, wanted: impl Fn(&BTreeSet<NodeId>) -> BTreeSet<NodeId>) -> bool {
    for _ in 0..TRIES {
        tokio::time::sleep(PAUSE).await;
        if stage.world.findings.any() {
            return false;
        }
        let Some(leader) = stage.world.leader() else { continue };
        let replicator = leader.engine.replicator().clone();
        let members = replicator.members();
        let voters = members.all_voters();
        let target = wanted(&voters);
        if members.voters.len() == 1 && target == voters {
            return true;
        }
        let missing = target.iter().find(|node| !members.addresses.contains_key(node)).copied();
        let change = async {
            match missing {
                Some(node) => replicator.add_learner(node, format!("node-{node}")).await.map(|_| ()),
                None => replicator.change_voters(target).await.map(|_| ()),
            }
        };
        let changed = tokio::select! {
            biased;
            () = leader.life.ended() => continue,
            changed = tokio::time::timeout(PATIENCE, change) => changed,
        };
        note!(stage.world.trace, "operator: members: {changed:?}");
    }
    false
}

/// Makes some partition of a node anew, out of whatever chance says.
pub(crate) async fn repair_some(stage: &Stage, node: &Running, chance: &mut fastrand::Rng) {
    let reports = node.engine.partitions();
    let Some(report) = chance.choice(reports.iter()) else { return };
    let others: Vec<NodeId> = node.engine.replicator().members().addresses.into_keys().collect();
    let source = match chance.u8(..4) {
        0 => RepairSource::OwnLog,
        1 => chance.choice(others.iter()).map_or(RepairSource::AnyNode, |other| RepairSource::Node(*other)),
        _ => RepairSource::AnyNode,
    };
    repair(stage, node, report.partition, source).await;
}

/// Makes a partition anew; whether it is. Only the end of the node ends it earlier.
async fn repair(stage: &Stage, node: &Running, partition: PartitionId, source: RepairSource) -> bool {
    let world = &stage.world;
    let from_node = matches!(source, RepairSource::Node(_) | RepairSource::AnyNode);
    let repaired = tokio::select! {
        biased;
        () = node.life.ended() => return false,
        repaired = node.engine.repair(partition, source.clone()) => repaired,
    };
    note!(
        world.trace,
        "operator: partition {partition} of node {} from {source:?}: {repaired:?}",
        node.life.node
    );
    match (&repaired, from_node) {
        (Ok(_), true) => world.sometimes.saw(Situation::RepairedFromNode),
        (Ok(_), false) => world.sometimes.saw(Situation::RepairedFromOwnLog),
        (Err(_), _) => world.sometimes.saw(Situation::RepairRefused),
    }
    repaired.is_ok()
}

/// Makes everything anew that a node which is alone has in its stores; until it is.
pub(crate) async fn repair_all(stage: &Stage, node: NodeId) {
    let mut done = BTreeSet::new();
    while !stage.world.findings.any() {
        let Some(running) = stage.world.node(node) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let partitions = running.engine.partitions();
        let Some(next) = partitions.iter().map(|report| report.partition).find(|id| !done.contains(id))
        else {
            return;
        };
        if repair(stage, &running, next, RepairSource::OwnLog).await {
            done.insert(next);
        } else {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Drops the namespace that comes and goes, or defines it.
pub(crate) async fn change_catalog(stage: &Stage, chance: &mut fastrand::Rng) {
    let Some(leader) = stage.world.leader() else { return };
    let (engine, sometimes) = (&leader.engine, &stage.world.sometimes);
    let freezes = chance.u8(..3) == 0;
    let change = async {
        if freezes {
            let partitions: Vec<_> = engine.partitions().iter().map(|report| report.partition).collect();
            let Some(partition) = chance.choice(partitions.iter()).copied() else { return };
            if engine.freeze(partition).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(chance.u64(..300))).await;
            }
            let _ = engine.thaw(partition).await;
        } else if engine.namespace(SEASONAL).is_some() {
            if engine.drop_namespace(SEASONAL).await.is_ok() {
                sometimes.saw(Situation::NamespaceDropped);
            }
        } else {
            let definition = crate::workload::definition(SEASONAL, None, chance.u16(1..=2));
            if engine.define(definition).await.is_ok() {
                sometimes.saw(Situation::NamespaceCameBack);
            }
        }
    };
    tokio::select! {
        biased;
        () = leader.life.ended() => {}
        _ = tokio::time::timeout(PATIENCE, change) => {}
    }
}

/// Lets every partition take writes again: whoever froze one may have lost the leader before he could thaw it.
pub(crate) async fn thaw_all(stage: &Stage) {
    for _ in 0..TRIES {
        if stage.world.findings.any() {
            return;
        }
        if let Some(leader) = stage.world.leader() {
            let partitions = leader.engine.partitions();
            let thaw = async {
                for report in &partitions {
                    leader.engine.thaw(report.partition).await?;
                }
                Ok::<(), gapless_engine::CatalogError>(())
            };
            let thawed = tokio::select! {
                biased;
                () = leader.life.ended() => continue,
                thawed = thaw => thawed,
            };
            if thawed.is_ok() {
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
