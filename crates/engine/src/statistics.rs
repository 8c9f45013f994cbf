//! What a node counts about itself.

use gapless_types::MachineVersion;

use crate::admission::Scope;
use crate::counters::WriteStatistics;
use crate::engine::Engine;

/// Counters and sizes of a node, as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Consensus and the replicated log.
    pub consensus: gapless_consensus::Statistics,
    /// The machine version in force here.
    pub machine_version: MachineVersion,
    /// The newest one that this program knows.
    pub known_version: MachineVersion,
    /// What became of writes.
    pub writes: WriteStatistics,
    /// Writes that were proposed and have no outcome yet.
    pub in_flight: usize,
    /// Keys that are in flight, also those that nobody waits for any more.
    pub keys_in_flight: usize,
    /// Outcomes that retries are answered with from memory.
    pub recalled: usize,
    /// Operations that are admitted and not answered.
    pub admitted_operations: u64,
    /// Bytes of them.
    pub admitted_bytes: u64,
    /// Bytes of rows in memory that no checkpoint has yet, of all partitions.
    pub memtable_bytes: u64,
    /// Bytes that are kept of the files of stores, of all partitions.
    pub cached_bytes: u64,
}

impl Engine {
    /// What the node counts about itself.
    pub fn statistics(&self) -> Statistics {
        let node = self.node();
        let (admitted_operations, admitted_bytes) = node.admission.in_use(Scope::Node);
        let budget = &node.partition_options.budget;
        Statistics {
            consensus: node.replicator().statistics(),
            machine_version: node.catalog().machine_version(),
            known_version: node.known_version,
            writes: node.counters.read(),
            in_flight: node.acks.len(),
            keys_in_flight: node.recall.in_flight(),
            recalled: node.recall.known(),
            admitted_operations,
            admitted_bytes,
            memtable_bytes: budget.memtable_bytes(),
            cached_bytes: budget.cached_bytes() + budget.resident_bytes(),
        }
    }
}
