//! Reading the log: for followers, and for the machine.
//!
//! Invariants
//! - WM-1: what is read for the machine is on stable storage here. A quorum may have an entry before this node does; it is
//!   dispatched when this node has it, too, or derived state could get ahead of the log.
//! - What is read at once is limited in bytes, however many entries were asked for.
//! - No thread that runs tasks waits for the disk.
//!
//! Must not know: what entries mean.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use futures_util::Stream;
use futures_util::stream;
use gapless_log::Record;
use gapless_types::Position;
use openraft::RaftLogReader;

use super::log_store::{LogStore, log_index};
use crate::format::entry;
use crate::limits::MAX_BATCH_BYTES;
use crate::raft::{self, Group, RaftEntry, RaftVoteValue};

/// A reader of a node's log.
#[derive(Clone, Debug)]
pub(crate) struct LogReader {
    store: LogStore,
}

impl LogReader {
    pub(crate) fn new(store: LogStore) -> Self {
        Self { store }
    }

    /// The part of a range that the log has.
    fn present(&self, range: &impl RangeBounds<u64>) -> (Position, Position) {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => u64::MAX,
        };
        (Position::new(start).max(self.store.log.first()), Position::new(end).min(self.store.log.next()))
    }

    /// Some entries from `from` on, at least one if there is one below `end`.
    async fn some(&self, from: Position, end: Position) -> io::Result<Vec<RaftEntry>> {
        let records = self.store.records(from, end, MAX_BATCH_BYTES).await.map_err(io::Error::other)?;
        records.iter().map(decode).collect()
    }

    /// All entries from `from` on and below `end`.
    async fn all(&self, mut from: Position, end: Position) -> io::Result<Vec<RaftEntry>> {
        let mut entries: Vec<RaftEntry> = Vec::new();
        while from < end {
            let found = self.some(from, end).await?;
            let Some(last) = found.last() else { break };
            from = Position::new(last.log_id.index + 1);
            entries.extend(found);
        }
        Ok(entries)
    }

    /// Waits until the log is durable up to `position`, and says how far it is.
    async fn durable_behind(&self, position: Position) -> io::Result<Position> {
        let mut settled = self.store.settlements.subscribe();
        loop {
            let failed = settled.borrow_and_update().failure.is_some();
            let durable = self.store.log.durable();
            if durable > position {
                return Ok(durable);
            }
            if failed {
                return Err(io::Error::other("the log failed before the entry was durable"));
            }
            settled.changed().await.map_err(io::Error::other)?;
        }
    }
}

/// Entries that were read and are not handed out yet.
struct Reading {
    reader: LogReader,
    next: Position,
    end: Position,
    /// What was asked for ends here, whether or not the log has it.
    asked: Position,
    read: VecDeque<RaftEntry>,
}

impl Reading {
    async fn next(&mut self) -> io::Result<Option<RaftEntry>> {
        if self.read.is_empty() && self.next < self.end {
            let durable = self.reader.durable_behind(self.next).await?;
            self.read = self.reader.some(self.next, self.end.min(durable)).await?.into();
        }
        let entry = self.read.pop_front();
        match &entry {
            Some(entry) => self.next = Position::new(entry.log_id.index + 1),
            // A log that fails loses its end. Whoever dispatches must not take that for the end of what is committed.
            None if self.next < self.asked && self.reader.store.settlements.borrow().failure.is_some() => {
                return Err(io::Error::other("the log failed, and the entry is not there any more"));
            }
            None => {}
        }
        Ok(entry)
    }
}

impl RaftLogReader<Group> for LogReader {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<RaftEntry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + Send,
    {
        let (from, end) = self.present(&range);
        self.all(from, end).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<RaftEntry>> {
        let (from, end) = self.present(&(start..end));
        // What is asked for was cut off. Nothing follows what the other node has, and nothing must be taken to: without entries this
        // is a heartbeat, and the other node gets a snapshot.
        if from > Position::new(start) {
            return Ok(Vec::new());
        }
        self.some(from, end).await
    }

    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = io::Result<RaftEntry>> + Send
    where
        RB: RangeBounds<u64> + Clone + Debug + Send,
    {
        let (next, end) = self.present(&range);
        let asked = match range.end_bound() {
            Bound::Included(&last) => Position::new(last.saturating_add(1)),
            Bound::Excluded(&end) => Position::new(end),
            Bound::Unbounded => end,
        };
        let reading = Reading { reader: self.clone(), next, end, asked, read: VecDeque::new() };
        Box::pin(stream::unfold(Some(reading), |reading| async move {
            let mut reading = reading?;
            match reading.next().await {
                Ok(entry) => entry.map(|entry| (Ok(entry), Some(reading))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }

    async fn read_vote(&mut self) -> io::Result<Option<RaftVoteValue>> {
        Ok(self.store.vote()?.map(raft::raft_vote))
    }
}

fn decode(record: &Record) -> io::Result<RaftEntry> {
    let index = log_index(record.position);
    let decoded = entry::decode(index, &record.payload);
    decoded.map(raft::raft_entry).map_err(|malformed| {
        io::Error::new(io::ErrorKind::InvalidData, format!("entry {index} is malformed: {}", malformed.0))
    })
}
