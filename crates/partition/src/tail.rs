//! Reading the partition log from a place to its end, outcome by outcome.

use std::ops::ControlFlow;

use gapless_log::Log;
use gapless_types::{PartitionOffset, Position};

use crate::error::Fault;
use crate::outcome::Header;

/// Records are read in pieces of about this many bytes.
const READ_BYTES: u64 = 1 << 20;

/// The bytes of an outcome in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    /// All of them.
    pub(crate) outcome: &'a [u8],
    /// Those behind the header.
    pub(crate) body: &'a [u8],
}

/// Calls back with every outcome from a position on; gives the first position that the log does not have. Stops early where
/// the callback says so.
pub(crate) fn read_tail(
    log: &Log,
    from: Position,
    mut each: impl FnMut(&Header<'_>, Stored<'_>) -> Result<ControlFlow<()>, Fault>,
) -> Result<Position, Fault> {
    let mut position = from;
    let end = log.next();
    while position < end {
        for record in log.read_range(position, end, READ_BYTES)? {
            let offset = PartitionOffset::new(position.get()).ok_or(Fault::Log("a record at position 0"))?;
            let (header, body) =
                Header::decode(&record.payload).map_err(|malformed| Fault::Record { offset, malformed })?;
            if header.partition_offset != offset {
                return Err(Fault::Log("an outcome at another offset than its own"));
            }
            if each(&header, Stored { outcome: &record.payload, body })?.is_break() {
                return Ok(end);
            }
            position = position.next().ok_or(Fault::Log("more records than can be counted"))?;
        }
    }
    Ok(end)
}
