//! `0` -> version of all rows (4). Written with the first batch and checked whenever the store is opened.

/// The key.
pub(crate) const KEY: [u8; 1] = [0];
/// The only version there is so far.
pub(crate) const VERSION: u32 = 1;

pub(crate) fn decode(value: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(value.try_into().ok()?))
}
