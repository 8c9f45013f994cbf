//! Our store under the workload that its rivals get in `bench/rivals`.
//!
//! Must not know: the rivals.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use gapless_log::io::real::RealIo;
use gapless_store::{Batch, BucketId, Budget, Maintained, Offset, Options, Store, Synced};

use crate::store_workload::{StoreUnderTest, Table};

const CACHE_BYTES: u64 = 256 << 20;
const MEMTABLE_BYTES: u64 = 256 << 20;
/// How much merging is done at once; all that is due is done before the next apply.
const STEP_BYTES: u64 = 4 << 20;

pub(crate) struct OurStore {
    store: Store,
    batch: Batch,
    key: Vec<u8>,
}

impl OurStore {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let budget = Budget::new(MEMTABLE_BYTES, CACHE_BYTES);
        let (store, _) = Store::open(Arc::new(RealIo), dir, Options::default(), &budget)?;
        Ok(Self { store, batch: Batch::new(), key: Vec::new() })
    }
}

/// Kinds of rows of the main space are told apart by the first byte of the key.
fn put_main_key(output: &mut Vec<u8>, kind: u8, key: &[u8]) {
    output.clear();
    output.push(kind);
    output.extend_from_slice(key);
}

impl StoreUnderTest for OurStore {
    fn apply(&mut self, rows: &[(Table, Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.batch.clear();
        for (table, key, value) in rows {
            match table {
                Table::Bucket(bucket) => self.batch.put_in(BucketId(*bucket), key, value)?,
                Table::Index | Table::Records => {
                    put_main_key(&mut self.key, u8::from(*table == Table::Records), key);
                    self.batch.put(&self.key, value)?;
                }
            }
        }
        Ok(self.store.apply(&self.batch)?)
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<bool> {
        let found = match table {
            Table::Bucket(bucket) => self.store.get_in(BucketId(bucket), key)?,
            Table::Index | Table::Records => {
                put_main_key(&mut self.key, u8::from(table == Table::Records), key);
                self.store.get(&self.key)?
            }
        };
        Ok(found.is_some_and(|value| !value.is_empty()))
    }

    fn find(&mut self, _buckets: u64, key: &[u8]) -> Result<bool> {
        Ok(self.store.find_in_buckets(key)?.is_some())
    }

    fn checkpoint(&mut self, offset: u64) -> Result<()> {
        let offset = Offset::new(offset);
        self.store.checkpoint(offset, Synced::by_a_sync_up_to(offset))?;
        while self.store.maintain(STEP_BYTES)? != Maintained::Idle {}
        Ok(())
    }

    fn drop_bucket(&mut self, bucket: u64) -> Result<()> {
        self.batch.clear();
        self.batch.drop_bucket(BucketId(bucket))?;
        Ok(self.store.apply(&self.batch)?)
    }

    fn offset(&mut self) -> Result<u64> {
        Ok(self.store.checkpoint_offset().get())
    }
}
