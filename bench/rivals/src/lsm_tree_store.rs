//! lsm-tree with its own memtables: a tree for the index, one for the records, one for each bucket, all on one
//! cache; a checkpoint flushes every tree and runs leveled compaction, a bucket is dropped with its directory.
//!
//! It has no common checkpoint of several trees: each keeps the offset as a row of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, SeqNo, SequenceNumberCounter};

use crate::store_workload::{StoreUnderTest, Table};

pub(crate) const NAME: &str = "lsm-tree";

const CACHE_BYTES: u64 = 256 << 20;
/// Sorts before every key of the workload.
const OFFSET_KEY: [u8; 1] = [0];

pub(crate) struct LsmTreeStore {
    dir: PathBuf,
    cache: Arc<Cache>,
    sequence: SequenceNumberCounter,
    visible: SequenceNumberCounter,
    trees: BTreeMap<Table, AnyTree>,
    strategy: Arc<Leveled>,
}

impl LsmTreeStore {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let mut store = Self {
            dir: dir.to_path_buf(),
            cache: Arc::new(Cache::with_capacity_bytes(CACHE_BYTES)),
            sequence: SequenceNumberCounter::default(),
            visible: SequenceNumberCounter::default(),
            trees: BTreeMap::new(),
            strategy: Arc::new(Leveled::default()),
        };
        let buckets = (0..crate::store_workload::BUCKETS).map(Table::Bucket);
        for table in [Table::Index, Table::Records].into_iter().chain(buckets) {
            if store.path_of(table).exists() {
                store.tree(table)?;
            }
        }
        let highest = store.trees.values().filter_map(AbstractTree::get_highest_seqno).max();
        store.sequence.set(highest.map_or(0, |highest| highest + 1));
        store.visible.set(store.sequence.get());
        Ok(store)
    }

    fn path_of(&self, table: Table) -> PathBuf {
        match table {
            Table::Index => self.dir.join("index"),
            Table::Records => self.dir.join("records"),
            Table::Bucket(bucket) => self.dir.join(format!("bucket-{bucket}")),
        }
    }

    fn tree(&mut self, table: Table) -> Result<&AnyTree> {
        if !self.trees.contains_key(&table) {
            let config = Config::new(self.path_of(table), self.sequence.clone(), self.visible.clone())
                .use_cache(Arc::clone(&self.cache));
            self.trees.insert(table, config.open()?);
        }
        Ok(&self.trees[&table])
    }
}

impl StoreUnderTest for LsmTreeStore {
    fn apply(&mut self, rows: &[(Table, Vec<u8>, Vec<u8>)]) -> Result<()> {
        let sequence = self.sequence.next();
        for (table, key, value) in rows {
            self.tree(*table)?.insert(key.as_slice(), value.as_slice(), sequence);
        }
        self.visible.fetch_max(sequence + 1);
        Ok(())
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<bool> {
        let Some(tree) = self.trees.get(&table) else { return Ok(false) };
        Ok(tree.get(key, SeqNo::MAX)?.is_some_and(|value| !value.is_empty()))
    }

    fn checkpoint(&mut self, offset: u64) -> Result<()> {
        let sequence = self.sequence.next();
        self.visible.fetch_max(sequence + 1);
        for tree in self.trees.values() {
            if tree.active_memtable().size() > 0 {
                tree.insert(OFFSET_KEY, offset.to_be_bytes(), sequence);
                tree.flush_active_memtable(sequence)?;
            }
            tree.compact(self.strategy.clone(), sequence)?;
        }
        Ok(())
    }

    fn drop_bucket(&mut self, bucket: u64) -> Result<()> {
        self.trees.remove(&Table::Bucket(bucket));
        fs::remove_dir_all(self.path_of(Table::Bucket(bucket)))?;
        Ok(())
    }

    fn offset(&mut self) -> Result<u64> {
        let found = self.tree(Table::Index)?.get(OFFSET_KEY, SeqNo::MAX)?;
        Ok(found.and_then(|value| Some(u64::from_be_bytes(*value.first_chunk()?))).unwrap_or(0))
    }
}
