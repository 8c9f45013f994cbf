//! How large anything of a group may become. What exceeds a limit is refused with its name.

use gapless_types::limits::{MAX_QUEUED_BYTES, MAX_RECORD_BYTES};

/// Bytes in front of every entry in the log: version, kind, term.
pub const ENTRY_HEADER_BYTES: usize = 16;
/// Longest entry that can be proposed, in bytes.
pub const MAX_ENTRY_BYTES: usize = MAX_RECORD_BYTES as usize - ENTRY_HEADER_BYTES;
/// Most members of a group, learners included.
pub const MAX_MEMBERS: usize = 64;
/// Longest address of a member, in bytes of UTF-8.
pub const MAX_ADDRESS_BYTES: usize = 255;
/// Most changes of members that can take place between two snapshots; a change by joint consensus counts twice.
pub const MAX_CHANGES_BETWEEN_SNAPSHOTS: usize = 1000;
/// Most proposals that may wait to be taken up. More are refused.
pub const MAX_WAITING_PROPOSALS: usize = 4096;
/// Most bytes of entries read, or sent to a follower, at once. A single longer entry goes alone.
pub const MAX_BATCH_BYTES: u64 = 1 << 20;
/// Most entries sent to a follower in one message.
pub const MAX_BATCH_ENTRIES: u64 = 1024;
/// Longest piece of a snapshot in one message, in bytes.
pub const MAX_SNAPSHOT_CHUNK_BYTES: usize = 1 << 20;

/// Longest answer of a machine to what of a snapshot it has, in bytes.
pub const MAX_HELD_BYTES: usize = 1 << 20;

/// Longest question of one machine to another, in bytes.
pub const MAX_QUESTION_BYTES: usize = 4096;
/// Longest answer to it, in bytes: a record of the longest kind, with something in front of it.
pub const MAX_ANSWER_BYTES: usize = MAX_RECORD_BYTES as usize + 4096;

const _: () = assert!(MAX_BATCH_BYTES <= MAX_QUEUED_BYTES, "what is sent at once can be queued at once");
