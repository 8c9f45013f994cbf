//! redb as the checkpointed base under a memtable: applies touch memory only, a checkpoint is one write transaction
//! with the rows in key order, a bucket is a table.
//!
//! Its two ways to be safe after a crash are measured apart: a whole-file check at the next open, or the state of
//! the allocator with every commit.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use redb::{Database, ReadTransaction, ReadableDatabase, TableDefinition, TableError};

use crate::store_workload::{StoreUnderTest, Table};

pub(crate) const NAME: &str = "redb";

const CACHE_BYTES: usize = 256 << 20;
const OFFSET: TableDefinition<'_, u8, u64> = TableDefinition::new("offset");

pub(crate) struct RedbStore {
    database: Database,
    reads: ReadTransaction,
    memtable: BTreeMap<Table, BTreeMap<Vec<u8>, Vec<u8>>>,
    dropped: Vec<u64>,
    quick_repair: bool,
}

impl RedbStore {
    pub(crate) fn open(dir: &Path, quick_repair: bool) -> Result<Self> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(dir.join("store.redb"))?;
        let reads = database.begin_read()?;
        Ok(Self { database, reads, memtable: BTreeMap::new(), dropped: Vec::new(), quick_repair })
    }
}

impl StoreUnderTest for RedbStore {
    fn apply(&mut self, rows: &[(Table, Vec<u8>, Vec<u8>)]) -> Result<()> {
        for (table, key, value) in rows {
            self.memtable.entry(*table).or_default().insert(key.clone(), value.clone());
        }
        Ok(())
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<bool> {
        if self.memtable.get(&table).is_some_and(|rows| rows.contains_key(key)) {
            return Ok(true);
        }
        let name = name_of(table);
        match self.reads.open_table(TableDefinition::<&[u8], &[u8]>::new(&name)) {
            Ok(rows) => Ok(rows.get(key)?.is_some_and(|value| !value.value().is_empty())),
            Err(TableError::TableDoesNotExist(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn find(&mut self, buckets: u64, key: &[u8]) -> Result<bool> {
        for bucket in (0..buckets).rev() {
            if self.get(Table::Bucket(bucket), key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn checkpoint(&mut self, offset: u64) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(self.quick_repair);
        for (table, rows) in std::mem::take(&mut self.memtable) {
            let name = name_of(table);
            let mut target = transaction.open_table(TableDefinition::<&[u8], &[u8]>::new(&name))?;
            for (key, value) in rows {
                target.insert(key.as_slice(), value.as_slice())?;
            }
        }
        for bucket in self.dropped.drain(..) {
            let name = name_of(Table::Bucket(bucket));
            transaction.delete_table(TableDefinition::<&[u8], &[u8]>::new(&name))?;
        }
        transaction.open_table(OFFSET)?.insert(0, offset)?;
        transaction.commit()?;
        self.reads = self.database.begin_read()?;
        Ok(())
    }

    fn drop_bucket(&mut self, bucket: u64) -> Result<()> {
        self.memtable.remove(&Table::Bucket(bucket));
        self.dropped.push(bucket);
        Ok(())
    }

    fn offset(&mut self) -> Result<u64> {
        Ok(self.reads.open_table(OFFSET)?.get(0)?.map_or(0, |offset| offset.value()))
    }
}

fn name_of(table: Table) -> String {
    match table {
        Table::Index => "index".into(),
        Table::Records => "records".into(),
        Table::Bucket(bucket) => format!("bucket {bucket}"),
    }
}
