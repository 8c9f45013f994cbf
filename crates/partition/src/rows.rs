//! Every kind of row in a partition's store: one file each, with the layout of its key and its value.
//!
//! ```text
//!  0                                                   -> version of the rows
//!  1  namespace                                        -> schema: the definition and the ids of what it names
//!  2  namespace, partition, 0                          -> next partition offset
//!  3  namespace, workspace, sequence                   -> last number
//!  4  namespace, workspace                             -> workspace: its kind
//!  5  namespace, workspace, workspace offset           -> where that event is, its leaf hash
//!  6  namespace, workspace, record id                  -> record
//!  7  namespace, workspace, key                        -> entity
//!  8  namespace, workspace, client id                  -> last client sequence
//!  9  namespace, partition, partition offset           -> which record that outcome is of
//! 10  namespace, workspace, level, number              -> root of that subtree
//! ```
//! Keys are big-endian, so that the order of bytes is the order of numbers; values are little-endian. The first byte tells
//! the kind. Idempotency rows lie in buckets of their own. A row that does not have its form was not written by this program: a fault, never a guess.

pub(crate) mod client;
pub(crate) mod entity;
pub(crate) mod idempotency;
pub(crate) mod index;
pub(crate) mod number;
pub(crate) mod offset;
pub(crate) mod outcome;
pub(crate) mod record;
pub(crate) mod schema;
pub(crate) mod subtree;
pub(crate) mod version;
pub(crate) mod workspace;

use gapless_types::limits::MAX_CLIENT_ID_BYTES;
use gapless_types::{NamespaceId, WorkspaceId};

/// A key that begins like all keys of a kind in a workspace.
fn workspace_key(kind: u8, namespace: NamespaceId, workspace: WorkspaceId, key: &mut Vec<u8>) {
    key.clear();
    key.push(kind);
    key.extend_from_slice(&namespace.get().to_be_bytes());
    key.extend_from_slice(&workspace.get().to_be_bytes());
}

/// Bytes in front of what is special in such a key.
const WORKSPACE_KEY_BYTES: usize = 13;

/// The longest key that ends with a client: that of an idempotency row.
pub(crate) const CLIENT_KEY_BYTES: usize = 8 + 16 + MAX_CLIENT_ID_BYTES;

/// A number that stands alone in a value.
fn decode_number(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}
