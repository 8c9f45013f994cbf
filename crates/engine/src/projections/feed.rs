//! What a domain is fed with, entry by entry: outcomes of its partitions, its commands, changes of leader.
//!
//! Invariants
//! - Inputs come in the order (log index, position in the entry), whether they come through the queue or are read from the log.
//!
//! Must not know: what events and commands mean.

use bytes::Bytes;
use gapless_types::{LogIndex, MachineVersion, PartitionId, PartitionOffset};

use super::request::{DomainRequest, RequestId};
use crate::entry::{Entry, EntryRecord};
use crate::log_time::LogTime;
use crate::retention::Domain;

/// What one entry has for a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feed {
    pub(crate) index: LogIndex,
    pub(crate) time: LogTime,
    pub(crate) machine_version: MachineVersion,
    pub(crate) inputs: Vec<FeedInput>,
}

/// One input of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedInput {
    /// Which record of the entry it is.
    pub(crate) position: u32,
    pub(crate) what: Fed,
}

/// What comes to a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// The outcome of a write, if the partition has one of this entry at this place: otherwise the record was dropped.
    Outcome { partition: PartitionId, offset: PartitionOffset },
    /// A command.
    Command { id: RequestId, command: Bytes },
    /// Another leader begins.
    Leader,
}

impl Feed {
    pub(crate) fn new(index: LogIndex, time: LogTime, machine_version: MachineVersion) -> Self {
        Self { index, time, machine_version, inputs: Vec::new() }
    }

    /// What an entry has for this domain over these partitions.
    pub(crate) fn of(index: LogIndex, entry: &Entry, domain: &Domain, partitions: &[PartitionId]) -> Self {
        let mut feed = Self::new(index, entry.time, entry.machine_version);
        for (position, record) in (0..).zip(&entry.records) {
            match Record::of(record) {
                Some(Record::Leader) => feed.push(position, Fed::Leader),
                Some(Record::Write { partition, offset }) if partitions.contains(&partition) => {
                    feed.push(position, Fed::Outcome { partition, offset });
                }
                Some(Record::Request(request)) if request.domain == *domain => {
                    feed.push(position, Fed::Command { id: request.id, command: request.command });
                }
                _ => {}
            }
        }
        feed
    }

    pub(crate) fn push(&mut self, position: u32, what: Fed) {
        self.inputs.push(FeedInput { position, what });
    }

    /// Bytes it holds, about.
    pub(crate) fn bytes(&self) -> u64 {
        let of_input = |input: &FeedInput| match &input.what {
            Fed::Command { command, .. } => command.len() as u64,
            Fed::Outcome { .. } | Fed::Leader => 0,
        };
        64 + self.inputs.iter().map(|input| 48 + of_input(input)).sum::<u64>()
    }
}

/// What a record of an entry is to domains.
pub(crate) enum Record {
    Leader,
    Write { partition: PartitionId, offset: PartitionOffset },
    Request(DomainRequest),
}

impl Record {
    /// None if it is nothing to them.
    pub(crate) fn of(record: &EntryRecord) -> Option<Self> {
        match record {
            EntryRecord::Term => Some(Self::Leader),
            EntryRecord::Write(command) => {
                Some(Self::Write { partition: command.partition, offset: command.expected })
            }
            EntryRecord::DomainCommand { partition, command } => {
                DomainRequest::decode(*partition, command.clone()).map(Self::Request)
            }
            EntryRecord::Definition(_) | EntryRecord::Control(_) | EntryRecord::Raise => None,
        }
    }
}
