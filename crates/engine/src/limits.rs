//! Every limit of the engine's parts, each with its unit. What exceeds one is refused with a typed error.
//!
//! Must not know: who enforces them, or how.

use std::time::Duration;

use gapless_types::limits::{MAX_RECORD_BYTES, MAX_WRITE_BYTES};

/// Most records in one entry: one definition for every partition that a namespace can have, and one more.
pub const MAX_ENTRY_RECORDS: usize = 65_536;
/// Longest entry, in bytes. A quarter of a record of the log is left to whoever wraps it.
pub const MAX_ENTRY_BYTES: usize = MAX_RECORD_BYTES as usize / 4 * 3;
/// Longest payload of a record that certainly fits an entry, in bytes: a write with its key.
pub const MAX_COMMAND_BYTES: usize = MAX_WRITE_BYTES + 64 * 1024;

/// How far a leader's clock may be from the median of the voters', unless configured.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(10);
/// A voter's clock reading that is older than this says nothing any more.
pub const MAX_CLOCK_READING_AGE: Duration = Duration::from_secs(30);

/// Dispatched entries of a partition whose log indexes are remembered one by one until they are applied. Beyond it they are
/// remembered as one, and what is applied through is told a little later than it could be.
pub const MAX_REMEMBERED_ENTRIES: usize = 1024;

/// Most pins on a replicated log at one time.
pub const MAX_PINS: usize = 1024;

/// Most batches that a proposer has in flight.
pub const MAX_BATCHES_IN_FLIGHT: usize = 64;

/// Writes up to this many bytes are small: a part of every budget is theirs alone.
pub const SMALL_WRITE_BYTES: u64 = 64 * 1024;

/// Most writes at one time that were not admitted and are looked up in their partitions all the same.
pub const MAX_LOOKS_AT_DECIDED: usize = 16;

/// Most namespaces of a cluster.
pub const MAX_NAMESPACES: usize = 10_000;
/// Fates of entries that are remembered until their proposer asks.
pub const MAX_REMEMBERED_FATES: usize = 4096;
/// Alarms that are kept; the oldest go first.
pub const MAX_ALARMS: usize = 1000;
/// Longest alarm, in bytes; what is longer is cut off.
pub const MAX_ALARM_BYTES: usize = 1024;
/// Most calls that wait at barriers at one time.
pub const MAX_BARRIERS: usize = 10_000;
/// Most of them by one client: a tenth, so that no client keeps all others out.
pub const MAX_CLIENT_BARRIERS: usize = MAX_BARRIERS / 10;
/// Samples of how far the log has grown that are kept until it is dispatched that far.
pub const MAX_PACE_SAMPLES: usize = 64;

const _: () = assert!(MAX_COMMAND_BYTES < MAX_ENTRY_BYTES / 4 * 3, "a command fits an entry");
const _: () = assert!(MAX_ENTRY_BYTES < MAX_RECORD_BYTES as usize, "an entry fits a record of the log");

/// Looks at a partition that is not served, one per report, until a leader takes it for something that lasts.
pub(crate) const LASTING_LOOKS: u32 = 20;
/// Shortest time between two times that a node gives up leadership because of a partition.
pub(crate) const HANDOVER_PAUSE: Duration = Duration::from_secs(30);

/// Bytes of events that one lease is granted, about: what clients of gRPC take in one message if nobody told them otherwise is twice
/// that. One slot is granted whatever its event has.
pub const MAX_GRANTED_BYTES: usize = 2 << 20;
