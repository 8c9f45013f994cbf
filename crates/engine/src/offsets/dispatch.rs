//! The dispatcher's side: `next` of every partition, as a function of the log.

use gapless_types::{LogIndex, PartitionId, PartitionOffset};

use crate::keyed::KeyedMap;

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the partition's next one.
    Deliver,
    /// The partition had passed this place of the log before it was opened: whatever became of the record is done.
    Done,
    /// It expects an offset that is not next: no outcome, nothing consumed.
    Drop {
        /// The one that is next.
        next: PartitionOffset,
    },
    /// Its partition is gone: no outcome, nothing consumed.
    Gone,
    /// Nobody knows where its partition stands: it reads the log itself, and tells once it has.
    Unknown,
}

/// Where a partition stands when it is opened: its last outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Its offset.
    pub offset: PartitionOffset,
    /// Where its record stands in the replicated log.
    pub index: LogIndex,
}

/// `next` of every partition of a node.
#[derive(Debug, Default)]
pub struct Dispatch {
    partitions: KeyedMap<PartitionId, Next>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Open {
        next: PartitionOffset,
        /// The index of the last record that was delivered.
        index: Option<LogIndex>,
    },
    Gone,
    Unknown,
}

impl Next {
    /// Where a partition is that nobody has told anything of: its first record makes it.
    const FIRST: Self = Self::Open { next: PartitionOffset::FIRST, index: None };
}

impl Dispatch {
    /// Takes a partition in where it stands; at its beginning if it has no outcome.
    ///
    /// The log may be read from an earlier place than this: inside an entry the offsets of a partition ascend, so what the
    /// partition has applied is told by its last offset and index alone.
    pub fn open(&mut self, partition: PartitionId, at: Option<Resume>) {
        let next = at.map_or(Next::FIRST, |at| Next::Open { next: behind(at.offset), index: Some(at.index) });
        self.partitions.insert(partition, next);
    }

    /// A partition is there, and nobody knows yet where it stands. [`open`](Self::open) tells.
    pub fn open_unknown(&mut self, partition: PartitionId) {
        self.partitions.insert(partition, Next::Unknown);
    }

    /// Whether nobody knows where a partition stands.
    #[must_use]
    pub fn is_unknown(&self, partition: PartitionId) -> bool {
        matches!(self.partitions.get(&partition), Some(Next::Unknown))
    }

    /// The partition is gone; records for it are, too. [`open`](Self::open) takes a new incarnation in.
    pub fn close(&mut self, partition: PartitionId) {
        self.partitions.insert(partition, Next::Gone);
    }

    /// The offset that a partition's next record has; none if the partition is gone, or nobody knows where it stands.
    #[must_use]
    pub fn next(&self, partition: PartitionId) -> Option<PartitionOffset> {
        match self.partitions.get(&partition).copied().unwrap_or(Next::FIRST) {
            Next::Open { next, .. } => Some(next),
            Next::Gone | Next::Unknown => None,
        }
    }

    /// What becomes of a committed record. To be asked for every record, in the order of the log.
    pub fn judge(&mut self, index: LogIndex, partition: PartitionId, expected: PartitionOffset) -> Verdict {
        match self.partitions.entry(partition).or_insert(Next::FIRST) {
            Next::Gone => Verdict::Gone,
            Next::Unknown => Verdict::Unknown,
            Next::Open { next, index: Some(last) }
                if index < *last || (index == *last && expected < *next) =>
            {
                Verdict::Done
            }
            Next::Open { next, .. } if expected != *next => Verdict::Drop { next: *next },
            Next::Open { next, index: last } => {
                (*next, *last) = (behind(*next), Some(index));
                Verdict::Deliver
            }
        }
    }
}

fn behind(offset: PartitionOffset) -> PartitionOffset {
    offset.next().expect("partition offsets end long before 64 bits do")
}
