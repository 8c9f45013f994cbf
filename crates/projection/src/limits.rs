//! Every limit of a projection. What exceeds one is refused with a typed answer, or is an evaluation error.
//!
//! Must not know: who enforces them, or how.

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Longest part of a commit, in bytes.
pub const MAX_PART_BYTES: usize = MIB;
/// Most parts of a commit.
pub const MAX_PARTS: u32 = 16;
/// Longest name of a worker, in bytes of UTF-8.
pub const MAX_WORKER_BYTES: usize = 64;
/// Longest description of an error, in bytes of UTF-8.
pub const MAX_ERROR_BYTES: usize = KIB;
/// Longest key of an event, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = KIB;
/// Longest id of a row, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = KIB;
/// Longest name of a table, a column or an event type, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 255;
/// Most columns of a row.
pub const MAX_COLUMNS: usize = 1000;
/// Longest row, in bytes as stored.
pub const MAX_ROW_BYTES: usize = MIB;
/// Longest payload of an event, in bytes.
pub const MAX_EVENT_BYTES: usize = MIB;
/// Most rows that one slot can change.
pub const MAX_CHANGED_ROWS: usize = 100_000;
/// Most bytes of rows that one slot can change.
pub const MAX_CHANGED_BYTES: usize = 64 * MIB;
/// Most slots that one lease can ask for.
pub const MAX_GRANTS: u32 = 1024;
/// Largest window, in slots.
pub const MAX_WINDOW: u64 = 65_536;
/// Longest lease that can be configured, in milliseconds: a day.
pub const MAX_TTL_CAP_MS: u64 = 24 * 60 * 60 * 1000;
/// Most rules of a projection.
pub const MAX_RULES: usize = 1000;
/// Longest plan of a projection, in bytes of its JSON.
pub const MAX_PLAN_BYTES: usize = 256 * KIB;
/// Deepest nesting of a rule's expressions and predicates.
pub const MAX_RULE_DEPTH: usize = 64;
/// Most expressions and predicates in one rule.
pub const MAX_RULE_NODES: usize = 4096;
/// Most rows of an effect that lie in one row of the store.
pub const MAX_CHUNK_ROWS: usize = 1000;

/// A staged commit up to this size stays in memory; a longer one lies in the store until it is drained.
pub(crate) const INLINE_BYTES: usize = 4 * KIB;
/// Bytes at which a piece of an effect is full.
pub(crate) const PIECE_BYTES: usize = 2 * MIB;
/// Bytes of a batch at which it is applied.
pub(crate) const BATCH_BYTES: usize = 8 * MIB;
/// Operations of a batch at which it is applied.
pub(crate) const BATCH_ROWS: usize = 8192;

const _: () = assert!(
    PIECE_BYTES + MAX_ROW_BYTES + MAX_ID_BYTES + KIB <= gapless_store::limits::MAX_VALUE_BYTES,
    "a piece that is not full takes one more row"
);
const _: () = assert!(
    MAX_ID_BYTES + 2 * MAX_NAME_BYTES + 64 <= gapless_store::limits::MAX_KEY_BYTES,
    "every row has a key that the store takes"
);
const _: () =
    assert!(MAX_EVENT_BYTES + 8 * KIB <= gapless_store::limits::MAX_VALUE_BYTES, "an event fits a row");
