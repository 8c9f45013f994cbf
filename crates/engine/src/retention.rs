//! How much of the replicated log is kept: where it may be cut, and who drops out when it grows too long.
//!
//! ```text
//!  the log  |------------------------------------------------------------------| dispatched
//!           first             ▲ cut: everything up to here may go
//!                             └ the lowest index that anybody needs:
//!                               checkpoints of partitions and domains, acknowledgements, replicas, pins
//! ```
//!
//! Beyond `max_retained_bytes` the slowest replica that holds the cut drops out, then the next; then acknowledgements stop
//! counting; then the partitions and domains that hold it, one by one. Who has dropped out is installed anew from a peer. Pins never
//! drop out: somebody reads there. Where there is no peer, nothing drops out, and writes are refused instead. This is the rule alone: a
//! node never cuts below what its own partitions cover, so that one of those that is stuck holds the log until it was installed anew.
//!
//! Invariants
//! - TRUNC-1: nothing that somebody needs is cut, unless that one was named as dropped out.
//! - The cut never goes back, and nobody can pin what lies below it.
//!
//! Must not know: files, how a log is cut, how somebody is installed anew.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_types::{LogIndex, Name, PartitionId};
use thiserror::Error;

use crate::NodeId;
use crate::limits::MAX_PINS;

/// A domain of a projection: the other thing that replays the log from a checkpoint of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain {
    /// The projection.
    pub projection: Name,
    /// Its version.
    pub version: u32,
    /// The partition whose outcomes it consumes; the first one if it consumes those of all.
    pub partition: PartitionId,
}

impl fmt::Display for Domain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { projection, version, partition } = self;
        write!(formatter, "projection {projection} version {version} of partition {partition}")
    }
}

/// Who needs something of the log. In the order in which they drop out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A replica that is behind.
    Replica(NodeId),
    /// The acknowledgement tracker: something is not on enough replicas, or not applied.
    Acknowledgements,
    /// A domain whose checkpoint is old.
    Domain(Domain),
    /// A partition whose checkpoint is old.
    Partition(PartitionId),
    /// A pin.
    Pin(PinKind),
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replica(node) => write!(formatter, "node {node}"),
            Self::Acknowledgements => formatter.write_str("acknowledgements"),
            Self::Domain(Domain { projection, version, partition }) => {
                write!(formatter, "projection {projection} version {version} in partition {partition}")
            }
            Self::Partition(partition) => write!(formatter, "partition {partition}"),
            Self::Pin(PinKind::Snapshot) => formatter.write_str("a snapshot"),
            Self::Pin(PinKind::Reader) => formatter.write_str("a reader"),
        }
    }
}

/// Who pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PinKind {
    /// A snapshot that is being copied.
    Snapshot,
    /// Somebody who reads the log.
    Reader,
}

/// What the world needs of the log, as far as it is not pinned: each the lowest index it still needs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// By checkpoints of partitions.
    pub partitions: Vec<(PartitionId, LogIndex)>,
    /// By checkpoints of domains.
    pub domains: Vec<(Domain, LogIndex)>,
    /// By replicas, on the leader: what they have not got yet.
    pub replicas: Vec<(NodeId, LogIndex)>,
    /// By the acknowledgement tracker, on the leader.
    pub acknowledgements: Option<LogIndex>,
}

/// What is there of the log.
pub trait RetainedLog {
    /// The index behind the last entry that may be cut at all: that was dispatched, and that a published snapshot covers.
    fn end(&self) -> LogIndex;

    /// The index behind the last entry that there is.
    fn tail(&self) -> LogIndex;

    /// Bytes that the log has if it is cut right before an index. Never rises with the index.
    fn bytes_from(&self, index: LogIndex) -> u64;
}

/// What somebody who dropped out is installed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Nobody: this node is alone.
    None,
    /// Other nodes that have everything.
    Some,
}

/// Where to cut, and what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Everything below this index may go: the first one that is kept.
    pub first_kept: LogIndex,
    /// Who keeps the cut from going further; nobody if everything may go.
    pub held_by: Vec<Holder>,
    /// Who dropped out, with what they needed: they have to be installed anew.
    pub dropped_out: Vec<(Holder, LogIndex)>,
    /// Set if the log stays longer than it may: writes are to be refused until it is shorter.
    pub refuse_writes: Option<LogTooLong>,
}

/// The log is longer than it may be, and nobody else can drop out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the replicated log has {bytes} bytes of {max_bytes}, held by {}", self.holders())]
pub struct LogTooLong {
    /// How long it is.
    pub bytes: u64,
    /// How long it may be.
    pub max_bytes: u64,
    /// Who holds it.
    pub held_by: Vec<Holder>,
}

impl LogTooLong {
    /// Who holds it, by name.
    #[must_use]
    pub fn holders(&self) -> String {
        let names: Vec<String> = self.held_by.iter().map(Holder::to_string).collect();
        if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
    }
}

/// Why something cannot be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PinRefused {
    /// It may be gone already.
    #[error("the replicated log is kept from {first_kept} on, not from {wanted}")]
    TooLate {
        /// The first index that is kept.
        first_kept: LogIndex,
        /// The one that was wanted.
        wanted: LogIndex,
    },
    /// There are as many pins as there may be.
    #[error("there are {MAX_PINS} pins on the replicated log")]
    TooMany,
}

/// Decides where a log is cut.
#[derive(Debug)]
pub struct Retention {
    max_bytes: Option<u64>,
    pins: Arc<Mutex<Pins>>,
}

#[derive(Debug)]
struct Pins {
    first_kept: LogIndex,
    next: u64,
    pins: BTreeMap<u64, (PinKind, LogIndex)>,
}

impl Retention {
    /// For a log that begins with `first_kept`, and is to have at most this many bytes.
    #[must_use]
    pub fn new(first_kept: LogIndex, max_bytes: Option<u64>) -> Self {
        let pins = Pins { first_kept, next: 0, pins: BTreeMap::new() };
        Self { max_bytes, pins: Arc::new(Mutex::new(pins)) }
    }

    /// Keeps the log from an index on, until the pin is dropped.
    ///
    /// # Errors
    /// If the index lies below the cut, or there are too many pins.
    pub fn pin(&self, kind: PinKind, index: LogIndex) -> Result<Pin, PinRefused> {
        let mut pins = lock(&self.pins);
        if index < pins.first_kept {
            return Err(PinRefused::TooLate { first_kept: pins.first_kept, wanted: index });
        }
        if pins.pins.len() >= MAX_PINS {
            return Err(PinRefused::TooMany);
        }
        let id = pins.next;
        pins.next += 1;
        pins.pins.insert(id, (kind, index));
        Ok(Pin { id, index, pins: self.pins.clone() })
    }

    /// Moves the cut as far as it goes. From here on nothing below it can be pinned, so the log can be cut at any time later.
    pub fn cut(&self, needs: &Needs, log: &impl RetainedLog, peers: Peers) -> Cut {
        let mut pins = lock(&self.pins);
        let mut holders = holders(needs, &pins);
        let (first_kept, dropped_out) = self.drop_out(&mut holders, pins.first_kept, log, peers);
        for (holder, index) in &holders {
            assert!(*index >= first_kept, "TRUNC-1: {holder} needs {index}, and {first_kept} is cut");
        }
        assert!(first_kept >= pins.first_kept, "TRUNC-1: the cut never goes back");
        pins.first_kept = first_kept;
        // Who needs something behind what may be cut at all does not hold the cut; but he keeps the log long.
        let held_by = held_at(&holders, first_kept, log.end());
        let bytes = log.bytes_from(first_kept);
        let refuse_writes = self.max_bytes.filter(|max_bytes| bytes > *max_bytes).map(|max_bytes| {
            LogTooLong { bytes, max_bytes, held_by: held_at(&holders, first_kept, log.tail()) }
        });
        Cut { first_kept, held_by, dropped_out, refuse_writes }
    }

    /// Takes holders out until the log is short enough or nobody else can go; the cut that results.
    fn drop_out(
        &self,
        holders: &mut Vec<(Holder, LogIndex)>,
        cut_before: LogIndex,
        log: &impl RetainedLog,
        peers: Peers,
    ) -> (LogIndex, Vec<(Holder, LogIndex)>) {
        let mut dropped_out = Vec::new();
        // Who needs what is gone has dropped out before, and is named until it is back.
        let mut at = 0;
        while at < holders.len() {
            if holders[at].1 < cut_before { dropped_out.push(holders.remove(at)) } else { at += 1 }
        }
        loop {
            let lowest = holders.iter().map(|(_, index)| *index).min();
            let first_kept = lowest.map_or(log.end(), |lowest| lowest.min(log.end())).max(cut_before);
            let too_long = self.max_bytes.is_some_and(|max_bytes| log.bytes_from(first_kept) > max_bytes);
            if !too_long || peers == Peers::None {
                return (first_kept, dropped_out);
            }
            match next_to_drop_out(holders, log.end()) {
                Some(next) => dropped_out.push(holders.remove(next)),
                None => return (first_kept, dropped_out),
            }
        }
    }

    /// The first index that is kept.
    #[must_use]
    pub fn first_kept(&self) -> LogIndex {
        lock(&self.pins).first_kept
    }
}

fn holders(needs: &Needs, pins: &Pins) -> Vec<(Holder, LogIndex)> {
    let replicas = needs.replicas.iter().map(|(node, index)| (Holder::Replica(*node), *index));
    let acknowledgements = needs.acknowledgements.map(|index| (Holder::Acknowledgements, index));
    let domains = needs.domains.iter().map(|(domain, index)| (Holder::Domain(domain.clone()), *index));
    let partitions =
        needs.partitions.iter().map(|(partition, index)| (Holder::Partition(*partition), *index));
    let pins = pins.pins.values().map(|(kind, index)| (Holder::Pin(*kind), *index));
    replicas.chain(acknowledgements).chain(domains).chain(partitions).chain(pins).collect()
}

/// Who needs exactly this index, if it is below `end`.
fn held_at(holders: &[(Holder, LogIndex)], index: LogIndex, end: LogIndex) -> Vec<Holder> {
    let holds = holders.iter().filter(|(_, needed)| *needed == index && *needed < end);
    let mut held_by: Vec<Holder> = holds.map(|(holder, _)| holder.clone()).collect();
    held_by.sort();
    held_by.dedup();
    held_by
}

/// Who goes next: replicas before acknowledgements before domains and partitions, and of each the one that needs most. Only who holds
/// the cut back goes, and nobody goes in vain: a pin below him would keep the log as long as it is.
fn next_to_drop_out(holders: &[(Holder, LogIndex)], end: LogIndex) -> Option<usize> {
    let pinned =
        holders.iter().filter(|(holder, _)| matches!(holder, Holder::Pin(_))).map(|(_, index)| *index).min();
    let goes = |(holder, index): &(Holder, LogIndex)| {
        !matches!(holder, Holder::Pin(_)) && *index < end && pinned.is_none_or(|pinned| *index < pinned)
    };
    let rank = |holder: &Holder| match holder {
        Holder::Replica(_) => 0,
        Holder::Acknowledgements => 1,
        Holder::Domain(_) | Holder::Partition(_) => 2,
        Holder::Pin(_) => 3,
    };
    (holders.iter().enumerate())
        .filter(|(_, holder)| goes(holder))
        .min_by_key(|(_, (holder, index))| (rank(holder), *index))
        .map(|(at, _)| at)
}

/// Keeps the log from an index on for as long as it lives.
#[derive(Debug)]
#[must_use = "the log is kept for as long as the pin lives"]
pub struct Pin {
    id: u64,
    index: LogIndex,
    pins: Arc<Mutex<Pins>>,
}

impl Pin {
    /// The first index that it keeps.
    #[must_use]
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// A reader has gone on: what lies below is not needed any more. Going back is not possible, and changes nothing.
    pub fn advance(&mut self, index: LogIndex) {
        if index > self.index {
            self.index = index;
            if let Some(pin) = lock(&self.pins).pins.get_mut(&self.id) {
                pin.1 = index;
            }
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        lock(&self.pins).pins.remove(&self.id);
    }
}

fn lock(pins: &Mutex<Pins>) -> MutexGuard<'_, Pins> {
    // A panic while this lock is held leaves nothing half done.
    pins.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
