//! The newest records in memory: everything that is not written yet, and as much of the rest as the limit allows.
//!
//! Must not know: files. Whoever does not find a position here finds it in a segment.

use std::collections::VecDeque;

use bytes::Bytes;
use gapless_types::Position;

use crate::format::Salt;
use crate::index::advance;
use crate::record::Record;

/// A batch as it was encoded for its frame.
#[derive(Debug)]
struct HotBatch {
    first: Position,
    /// Where the records start in `body`.
    starts: Vec<u32>,
    body: Bytes,
    /// Its place in the queue; written once the writer is past it.
    ordinal: u64,
}

impl HotBatch {
    fn end(&self) -> Position {
        advance(self.first, self.starts.len() as u64)
    }
}

/// The tail of the log in memory.
#[derive(Debug)]
pub(crate) struct HotTail {
    batches: VecDeque<HotBatch>,
    bytes: u64,
    limit: u64,
    written: u64,
}

impl HotTail {
    pub(crate) fn new(limit: u64) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, limit, written: 0 }
    }

    /// Takes in a batch that was just queued.
    pub(crate) fn push(&mut self, ordinal: u64, first: Position, starts: Vec<u32>, body: Bytes) {
        self.bytes += body.len() as u64;
        self.batches.push_back(HotBatch { first, starts, body, ordinal });
        self.evict();
    }

    /// Everything up to this place in the queue can be read from its segment now.
    pub(crate) fn mark_written(&mut self, ordinal: u64) {
        self.written = ordinal;
        self.evict();
    }

    /// Forgets positions from `from` on.
    pub(crate) fn truncate(&mut self, from: Position) {
        while let Some(last) = self.batches.back_mut() {
            if last.end() <= from {
                break;
            }
            if last.first < from {
                let kept = usize::try_from(from.get() - last.first.get()).unwrap_or(usize::MAX);
                last.starts.truncate(kept);
                break;
            }
            self.bytes -= last.body.len() as u64;
            self.batches.pop_back();
        }
    }

    /// Forgets positions below `first`.
    pub(crate) fn release(&mut self, first: Position) {
        while self.batches.front().is_some_and(|batch| batch.end() <= first) {
            self.pop_front();
        }
    }

    /// Whether a position is here.
    pub(crate) fn holds(&self, position: Position) -> bool {
        self.batches.front().is_some_and(|batch| batch.first <= position)
            && self.batches.back().is_some_and(|batch| position < batch.end())
    }

    /// The first position that is here.
    pub(crate) fn first(&self) -> Option<Position> {
        self.batches.front().map(|batch| batch.first)
    }

    /// Records from `from` on and below `end`, up to `max_bytes` of payload, at least one if there is one.
    pub(crate) fn read(&self, salt: Salt, from: Position, end: Position, max_bytes: u64) -> Vec<Record> {
        let mut found = Vec::new();
        let mut bytes = 0;
        let start = self.batches.partition_point(|batch| batch.end() <= from);
        for batch in self.batches.iter().skip(start) {
            let skip = usize::try_from(from.get().saturating_sub(batch.first.get())).unwrap_or(usize::MAX);
            for (index, &at) in batch.starts.iter().enumerate().skip(skip) {
                let position = advance(batch.first, index as u64);
                if position >= end || (bytes >= max_bytes && !found.is_empty()) {
                    return found;
                }
                let Some(record) = Record::decode(salt, &batch.body, at as usize, position) else {
                    return found;
                };
                bytes += record.payload.len() as u64;
                found.push(record);
            }
        }
        found
    }

    fn evict(&mut self) {
        while self.bytes > self.limit
            && self.batches.front().is_some_and(|batch| batch.ordinal <= self.written)
        {
            self.pop_front();
        }
    }

    fn pop_front(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.bytes -= batch.body.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::LogId;
    use crate::format::record::{RawRecord, RecordType, Stored};

    fn push(hot: &mut HotTail, salt: Salt, ordinal: u64, first: u64, count: u64) {
        let mut body = Vec::new();
        let mut starts = Vec::new();
        for position in first..first + count {
            starts.push(u32::try_from(body.len()).unwrap());
            let payload = Stored::Plain(b"0123456789");
            RawRecord { kind: RecordType::Data, position: Position::new(position), payload }
                .encode(salt, &mut body);
        }
        hot.push(ordinal, Position::new(first), starts, body.into());
    }

    #[test]
    fn only_what_is_written_is_evicted() {
        let salt = LogId::from_bytes([0; 16]).salt();
        let mut hot = HotTail::new(100);
        for ordinal in 1..=4 {
            push(&mut hot, salt, ordinal, ordinal * 2 - 1, 2);
        }
        assert!(hot.holds(Position::new(1)), "nothing is written, nothing may go");
        hot.mark_written(2);
        assert!(!hot.holds(Position::new(4)));
        assert!(hot.holds(Position::new(5)));
        hot.mark_written(4);
        assert!(!hot.holds(Position::new(6)));
        assert!(hot.holds(Position::new(7)), "one batch of 80 bytes fits the limit");
    }

    #[test]
    fn reading_stops_at_the_end_and_at_the_limit_but_never_before_one_record() {
        let salt = LogId::from_bytes([0; 16]).salt();
        let mut hot = HotTail::new(10_000);
        push(&mut hot, salt, 1, 1, 3);
        push(&mut hot, salt, 2, 4, 3);
        let read = |from, end, max| {
            let records = hot.read(salt, Position::new(from), Position::new(end), max);
            records.iter().map(|record| record.position.get()).collect::<Vec<_>>()
        };
        assert_eq!(read(2, 7, 1000), [2, 3, 4, 5, 6]);
        assert_eq!(read(2, 5, 1000), [2, 3, 4]);
        assert_eq!(read(2, 7, 0), [2]);
        assert_eq!(read(2, 7, 11), [2, 3]);
    }
}
