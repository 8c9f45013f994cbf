//! ISO-1: a fault, a stall or a backlog of one partition stops that partition alone.
//!
//! While the files of one partition of a node cannot be written, and nothing else is wrong with its disk, no other partition of it
//! fails.
//!
//! Must not know: how files were broken.

use std::collections::BTreeSet;

use gapless_consensus::NodeId;
use gapless_engine::{PartitionReport, PartitionState};

/// The directory of a partition.
pub(crate) fn directory(report: &PartitionReport) -> String {
    format!("{}-{}", report.partition.namespace.get(), report.partition.index.get())
}

/// Looks at a node of which the files of these partitions, and nothing else, could not be written for a while.
pub(crate) fn check(
    node: NodeId,
    broken: &BTreeSet<String>,
    partitions: &[PartitionReport],
) -> Result<(), String> {
    let failed = |report: &&PartitionReport| {
        matches!(report.state, PartitionState::Failed(_) | PartitionState::Quarantined(_))
    };
    match partitions.iter().filter(|report| !broken.contains(&directory(report))).find(failed) {
        None => Ok(()),
        Some(report) => Err(format!(
            "node {node}: the files of {broken:?} could not be written, and partition {} is {:?}",
            report.partition, report.state
        )),
    }
}
