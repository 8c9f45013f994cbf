//! Every limit of the ledger, each with its unit. What exceeds one is refused with the limit's name.
//!
//! Lengths of what is held in memory are `usize`, lengths of files `u64`. The relations the code relies on are
//! asserted below, so that a change of one limit that breaks another does not compile.
//!
//! Must not know: who enforces them, or how.

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

// What a client sends.

/// Longest key of an entity, in bytes.
pub const MAX_ENTITY_KEY_BYTES: usize = KIB;
/// Longest value of an entity, in bytes.
pub const MAX_ENTITY_VALUE_BYTES: usize = MIB;
/// Longest payload of an event, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = MIB;
/// Most operations in one write.
pub const MAX_WRITE_OPERATIONS: usize = 1000;
/// Longest write, in bytes as encoded by the client, everything included.
pub const MAX_WRITE_BYTES: usize = 4 * MIB;
/// Most key-value pairs of metadata in one write.
pub const MAX_METADATA_PAIRS: usize = 32;
/// Longest pair of metadata, in bytes of key and value together.
pub const MAX_METADATA_PAIR_BYTES: usize = KIB;
/// Longest client id, in bytes of UTF-8.
pub const MAX_CLIENT_ID_BYTES: usize = 64;
/// Longest type of an event or a record, and longest content type, in bytes of UTF-8.
pub const MAX_TYPE_BYTES: usize = 255;
/// Longest name of a field of a record, in bytes of UTF-8.
pub const MAX_FIELD_NAME_BYTES: usize = 255;
/// Most fields of a record.
pub const MAX_RECORD_FIELDS: usize = 1000;
/// Longest record with all its fields, in bytes as stored.
pub const MAX_RECORD_ROW_BYTES: usize = MIB;
/// Most bytes of records that one write can change, each counted with all its fields.
pub const MAX_CHANGED_RECORD_BYTES: usize = 16 * MIB;
/// The last id that a record can have: what a double can count.
pub const LAST_RECORD_ID: u64 = 1 << 53;
/// Most workspace kinds of a namespace.
pub const MAX_KINDS: usize = 1000;
/// Most projections of a namespace.
pub const MAX_PROJECTIONS: usize = 1000;
/// Most sequences that a workspace kind can declare; two more number its events and its records.
pub const MAX_SEQUENCES_PER_KIND: usize = 65_533;
/// Most record types declared as singletons: their ids have 512 values.
pub const MAX_SINGLETONS: usize = 512;
/// Longest name, in bytes; its characters are ASCII, so also in characters.
pub const MAX_NAME_BYTES: usize = 63;

// What a client asks for.

/// Most items on one page of an answer.
pub const MAX_PAGE_SIZE: usize = 1000;

// What a log holds. Lengths have the width in which the format stores them.

/// Longest payload of one record, in bytes as handed in.
pub const MAX_RECORD_BYTES: u32 = 8 << 20;
/// Longest body of one frame, in bytes: its records with their headers, before padding.
pub const MAX_FRAME_BYTES: u32 = 16 << 20;
/// Most records appended by one call.
pub const MAX_RECORDS_PER_BATCH: usize = 65_536;
/// Length of a segment file unless configured, in bytes.
pub const SEGMENT_BYTES: u32 = 64 << 20;
/// Shortest segment file that can be configured, in bytes.
pub const MIN_SEGMENT_BYTES: u32 = 64 << 10;
/// Longest segment file that can be configured, in bytes.
pub const MAX_SEGMENT_BYTES: u32 = 1 << 30;
/// Where frames of a log that is synced on the commit path begin and end: multiples of this, in bytes.
pub const FRAME_ALIGNMENT: u32 = 4 << 10;
/// The last position, and the last frame number, that a log gives out. Half of what 64 bits hold, so that arithmetic on what
/// a file claims cannot overflow.
pub const LAST_LOG_NUMBER: u64 = (1 << 63) - 1;
/// The last segment number that a log gives out.
pub const LAST_SEGMENT_NUMBER: u32 = (1 << 31) - 1;
/// Most keys of a log's small state.
pub const MAX_STATE_KEYS: usize = 16;
/// Longest value of a log's small state, in bytes.
pub const MAX_STATE_VALUE_BYTES: usize = KIB;
/// Most bytes of records that wait for the writer of one log.
pub const MAX_QUEUED_BYTES: u64 = 64 << 20;

// What one limit promises another. A quarter is left wherever something is wrapped in something larger.

const _: () =
    assert!(MAX_ENTITY_KEY_BYTES + MAX_ENTITY_VALUE_BYTES < MAX_WRITE_BYTES, "an entity fits a write");
const _: () = assert!(MAX_PAYLOAD_BYTES < MAX_WRITE_BYTES, "a payload fits a write");
const _: () = assert!(
    MAX_PAYLOAD_BYTES + MAX_METADATA_PAIRS * MAX_METADATA_PAIR_BYTES < MAX_WRITE_BYTES,
    "a payload and its metadata fit a write together"
);
const _: () =
    assert!(MAX_WRITE_BYTES <= MAX_RECORD_BYTES as usize / 4 * 3, "a write fits a record with its outcome");
const _: () = assert!(MAX_RECORD_BYTES <= MAX_FRAME_BYTES / 4 * 3, "a record fits a frame");
const _: () = assert!(MAX_FRAME_BYTES <= SEGMENT_BYTES / 4 * 3, "a frame fits a segment of default size");
const _: () =
    assert!(MAX_FRAME_BYTES as u64 <= MAX_QUEUED_BYTES, "a queue can hold what the next frame takes");
const _: () = assert!(
    MIN_SEGMENT_BYTES <= SEGMENT_BYTES && SEGMENT_BYTES <= MAX_SEGMENT_BYTES,
    "the default size of a segment is one that can be configured"
);
const _: () = assert!(
    MIN_SEGMENT_BYTES.is_multiple_of(FRAME_ALIGNMENT)
        && SEGMENT_BYTES.is_multiple_of(FRAME_ALIGNMENT)
        && MAX_SEGMENT_BYTES.is_multiple_of(FRAME_ALIGNMENT),
    "a segment is a whole number of aligned blocks"
);
const _: () = assert!(FRAME_ALIGNMENT.is_power_of_two(), "aligning is masking");
const _: () = assert!(
    MAX_STATE_KEYS * MAX_STATE_VALUE_BYTES <= MIN_SEGMENT_BYTES as usize / 2,
    "the state repeated at the start of the shortest segment leaves room for records"
);

/// Outcomes that are read at once have no more bytes than this and one outcome.
pub const MAX_READ_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// What clients were promised; a change here is a change of the contract.
    #[test]
    fn clients_may_send_what_the_interface_promises() {
        assert_eq!(MAX_ENTITY_KEY_BYTES, 1024);
        assert_eq!(MAX_ENTITY_VALUE_BYTES, 1_048_576);
        assert_eq!(MAX_PAYLOAD_BYTES, 1_048_576);
        assert_eq!(MAX_WRITE_OPERATIONS, 1000);
        assert_eq!(MAX_WRITE_BYTES, 4_194_304);
        assert_eq!(MAX_METADATA_PAIRS, 32);
        assert_eq!(MAX_METADATA_PAIR_BYTES, 1024);
        assert_eq!(MAX_CLIENT_ID_BYTES, 64);
        assert_eq!(MAX_NAME_BYTES, 63);
        assert_eq!(MAX_PAGE_SIZE, 1000);
    }
}
