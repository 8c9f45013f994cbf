//! One error type per family of calls. Each says what happened, whether anything was done, and what helps.

use std::sync::Arc;

use gapless_consensus::{ClusterId, Leader};
use gapless_partition::{Fault, ProofError};
use gapless_types::{LogIndex, PartitionId};
use thiserror::Error;

use crate::admission::AdmissionError;
use crate::catalog::CatalogFileError;
use crate::machine_version::UnknownMachineVersion;

/// This node does not lead: ask the one that does, with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("this node does not lead{}", .leader.as_ref().map_or(String::new(), |leader| format!("; node {} at {} does", leader.node, leader.address)))]
pub struct NotLeader {
    /// Who does, if anybody is known to.
    pub leader: Option<Leader>,
}

/// Why a write has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// It breaks rules; these are all of them. Nothing was done, and trying again does not help.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// There is no such namespace.
    #[error("there is no such namespace")]
    UnknownNamespace,
    /// Too much for now, or the partition is frozen.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// Too many writes are in flight.
    #[error("{limit} writes are in flight; retry with the same key")]
    TooManyInFlight {
        /// How many may be.
        limit: usize,
    },
    /// The idempotency window has as many keys as it may; old ones have to expire first.
    #[error("partition {partition} knows {known} keys of at most {limit}; retry with the same key later")]
    WindowFull {
        /// Which partition.
        partition: PartitionId,
        /// How many it knows.
        known: u64,
        /// How many it may.
        limit: u64,
    },
    /// Another node leads.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The partition is being opened.
    #[error("partition {partition} is actualizing; retry with the same key")]
    Actualizing {
        /// Which one.
        partition: PartitionId,
    },
    /// The partition's disk failed; it is opened again by itself.
    #[error("partition {partition} has failed: {reason}; retry with the same key")]
    Failed {
        /// Which one.
        partition: PartitionId,
        /// What happened.
        reason: Arc<str>,
    },
    /// The partition is quarantined here.
    #[error("partition {partition} is quarantined on this node: {reason}")]
    Quarantined {
        /// Which one.
        partition: PartitionId,
        /// What was found.
        reason: Arc<str>,
    },
    /// An operator froze the partition.
    #[error("partition {partition} is frozen")]
    Frozen {
        /// Which one.
        partition: PartitionId,
    },
    /// The outcome did not come in time. It may come yet: a retry with the same key gets it.
    #[error("the outcome is not known yet; retry with the same key")]
    DeadlineExceeded,
    /// The node is shutting down.
    #[error("the node is shutting down; retry with the same key, there or later")]
    Closing,
    /// The node has stopped, because its replicated log failed. It has to be opened again.
    #[error("the node has stopped: {reason}; retry with the same key once it was opened again")]
    Stopped {
        /// What happened.
        reason: Arc<str>,
    },
}

/// Why something could not be read.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    /// There is no such namespace or partition.
    #[error("there is no such namespace or partition")]
    Unknown,
    /// Another node leads, and a linearizable read was asked for.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// A quorum did not confirm that this node leads.
    #[error("a quorum did not confirm that this node leads; retry")]
    NoQuorum,
    /// The partition is not open.
    #[error("partition {partition} cannot be read now: {reason}")]
    NotOpen {
        /// Which one.
        partition: PartitionId,
        /// Why.
        reason: Arc<str>,
    },
    /// What was waited for did not come in time.
    #[error("partition {partition} has not applied that much yet")]
    DeadlineExceeded {
        /// Which one.
        partition: PartitionId,
    },
    /// Store or log could not be read.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// There is no such proof.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The node has stopped, because its replicated log failed.
    #[error("the node has stopped: {reason}")]
    Stopped {
        /// What happened.
        reason: Arc<str>,
    },
    /// The node is shutting down.
    #[error("the node is shutting down")]
    Closing,
}

/// Why the catalog was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// These are all the reasons. Nothing was changed.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// There is no such namespace or partition.
    #[error("there is no such namespace or partition")]
    Unknown,
    /// Another node leads.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// Leadership was lost on the way: the change may take place or not. It can be tried again.
    #[error("leadership was lost; the change may take place or not, and can be tried again")]
    Uncertain,
    /// It did not take effect everywhere in time; it will.
    #[error("the change is agreed on, but did not take effect in time")]
    DeadlineExceeded,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    Closing,
}

/// Why a node could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The catalog could not be read.
    #[error(transparent)]
    Catalog(#[from] CatalogFileError),
    /// Consensus could not be opened.
    #[error("consensus cannot be opened")]
    Consensus(#[from] gapless_consensus::OpenError),
    /// The disk failed.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The directory is that of a node of another cluster.
    #[error("the directory belongs to cluster {stored}, not to {given}")]
    AnotherCluster {
        /// What the directory says.
        stored: ClusterId,
        /// What was asked for.
        given: ClusterId,
    },
    /// What is in the directory needs a newer program.
    #[error(transparent)]
    TooNew(#[from] UnknownMachineVersion),
    /// A restore into the directory was not finished.
    #[error("a restore into {0} was not finished: run it again")]
    Unfinished(std::path::PathBuf),
    /// The configuration contradicts itself.
    #[error("configuration: {0}")]
    Configuration(String),
}

/// Why a barrier was not reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BarrierError {
    /// There is no such partition.
    #[error("there is no partition {0}")]
    Unknown(PartitionId),
    /// Too many wait already.
    #[error("{limit} barriers are waited for already")]
    TooMany {
        /// How many may be.
        limit: usize,
    },
    /// This client waits at too many already; others may not.
    #[error("the client waits at {limit} barriers already")]
    TooManyOfClient {
        /// How many it may.
        limit: usize,
    },
    /// Not all of them were reached in time; these were not.
    #[error("not reached in time: {}", blocked(.0))]
    DeadlineExceeded(Vec<Blocked>),
}

/// A partition that has not reached its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Which one.
    pub partition: PartitionId,
    /// How far it is.
    pub through: Option<LogIndex>,
}

fn blocked(blocked: &[Blocked]) -> String {
    let shown = |blocked: &Blocked| match blocked.through {
        Some(through) => format!("partition {} is at entry {through}", blocked.partition),
        None => format!("partition {} has applied nothing", blocked.partition),
    };
    blocked.iter().map(shown).collect::<Vec<_>>().join(", ")
}
