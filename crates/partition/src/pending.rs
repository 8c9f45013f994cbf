//! Outcomes that are on their way to the partition log: they are handed over in batches, because the log takes a hundred records
//! for little more than one.
//!
//! Nothing waits for them here: what makes an acknowledgement durable is the replicated log, and a partition that dies with
//! pending outcomes gets their records again. Whoever reads the log, syncs it or makes a checkpoint hands them over first.

use gapless_log::{AppendError, Log};
use gapless_types::Position;

use crate::outcome::Header;

/// Handed over at this many bytes.
const MOST_BYTES: usize = 64 << 10;
/// Handed over at this many outcomes.
const MOST_OUTCOMES: usize = 256;

/// Bytes that wait in the queue of the log while somebody else has it synced.
const MOST_QUEUED: u64 = 4 << 20;

/// Outcomes in order, and behind them one that may still be given up.
///
/// ```text
///  bytes  | outcome | outcome | outcome | drafted, not kept yet |
///  ends             ^         ^         ^
/// ```
#[derive(Debug, Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Where the first of them goes.
    first: u64,
}

impl Pending {
    /// Encodes an outcome, in place of one that was not kept, and gives its bytes: those that the log gets, and that the leaf
    /// of an event covers.
    pub(crate) fn draft(&mut self, header: &Header<'_>, body: &[u8]) -> &[u8] {
        let offset = header.partition_offset.get();
        if self.ends.is_empty() {
            self.first = offset;
        }
        assert_eq!(offset, self.first + self.ends.len() as u64, "NUM-1: outcomes are dense");
        let start = self.ends.last().copied().unwrap_or(0);
        self.bytes.truncate(start);
        header.encode(body, &mut self.bytes);
        &self.bytes[start..]
    }

    /// Keeps what was drafted, and hands over if there are enough.
    pub(crate) fn keep(&mut self, log: &Log) -> Result<(), AppendError> {
        self.ends.push(self.bytes.len());
        if self.bytes.len() >= MOST_BYTES || self.ends.len() >= MOST_OUTCOMES {
            self.hand_over(log)?;
            // Written at once, for the system to keep: what piles up in the queue of the log is memory that nobody counts. While a
            // checkpoint has the log synced, a little of it does.
            log.flush_unless_busy(MOST_QUEUED)?;
        }
        Ok(())
    }

    /// Appends everything to the log.
    pub(crate) fn hand_over(&mut self, log: &Log) -> Result<(), AppendError> {
        if self.ends.is_empty() {
            return Ok(());
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let records: Vec<&[u8]> =
            starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end]).collect();
        let _durable_later = log.append(Position::new(self.first), &records)?;
        self.ends.clear();
        if self.bytes.capacity() > 4 * MOST_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        Ok(())
    }
}
