//! What can be set for one store.

/// Settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes in the memtable at which a checkpoint is wanted. Default: 64 MiB.
    pub memtable_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { memtable_bytes: 64 << 20 }
    }
}
