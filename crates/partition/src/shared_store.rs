//! The store as the partition and its sequencer share it: rows of the state and numbers lie in the same memtable, so that one
//! checkpoint covers both.
//!
//! The lock is held for a call only. Both users live on the partition's thread; readers have snapshots and never wait here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use gapless_store::{Batch, Store};

use crate::error::Fault;
use crate::state::Reads;

/// A store that two own.
#[derive(Clone, Debug)]
pub(crate) struct SharedStore(Arc<Mutex<Store>>);

impl SharedStore {
    pub(crate) fn new(store: Store) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        // A batch is in the memtable as a whole or not at all, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn apply(&self, batch: &Batch) -> Result<(), Fault> {
        self.lock().apply(batch).map_err(Fault::from)
    }
}

impl Reads for SharedStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self.lock().get(key)?)
    }
}
