//! `0` -> version of all rows (4). Written with the first batch and checked whenever the store is opened.

/// The key.
pub(crate) const KEY: [u8; 1] = [0];
/// The version that is written. Stores of earlier ones are rebuilt from the partition log.
///
/// 1 had no hashes; 2 has leaf hashes in the workspace index, and roots of subtrees.
pub(crate) const VERSION: u32 = 2;

pub(crate) fn decode(value: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(value.try_into().ok()?))
}
