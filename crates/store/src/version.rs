//! Which runs are the state on disk: immutable, shared by whoever reads it, replaced as a whole.
//!
//! Must not know: memtables, how a checkpoint is published.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::ReadError;
use crate::format::checkpoint::{Checkpoint, RunEntry};
use crate::format::filter::KeyHash;
use crate::memtable::Found;
use crate::position::{BucketId, Offset, Space};
use crate::run::Run;
use crate::stats::Counters;

/// The runs of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) offset: Offset,
    /// Number of the checkpoint file.
    pub(crate) number: u64,
    /// Rows of every bucket there is, with runs or without.
    pub(crate) buckets: Arc<BTreeMap<BucketId, u64>>,
    spaces: BTreeMap<Space, Runs>,
}

/// The runs of one space, the newest first. Never empty.
pub(crate) type Runs = Vec<Arc<Run>>;

impl Version {
    /// One without runs.
    pub(crate) fn new(offset: Offset, number: u64, buckets: BTreeMap<BucketId, u64>) -> Self {
        Self { offset, number, buckets: Arc::new(buckets), spaces: BTreeMap::new() }
    }

    pub(crate) fn runs(&self, space: Space) -> &[Arc<Run>] {
        self.spaces.get(&space).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn spaces(&self) -> impl Iterator<Item = (Space, &Runs)> {
        self.spaces.iter().map(|(space, runs)| (*space, runs))
    }

    pub(crate) fn all_runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.spaces.values().flatten()
    }

    /// Replaces the runs of a space.
    pub(crate) fn set_runs(&mut self, space: Space, runs: Runs) {
        if runs.is_empty() {
            self.spaces.remove(&space);
        } else {
            self.spaces.insert(space, runs);
        }
    }

    /// Forgets the runs of buckets that are no longer there.
    pub(crate) fn keep_buckets(&mut self, buckets: Arc<BTreeMap<BucketId, u64>>) {
        self.spaces.retain(|space, _| match space {
            Space::Main => true,
            Space::Bucket(bucket) => buckets.contains_key(bucket),
        });
        self.buckets = buckets;
    }

    /// Looks a key up, newest run first.
    pub(crate) fn get(
        &self,
        space: Space,
        key: &[u8],
        hash: KeyHash,
        counters: &Counters,
    ) -> Result<Found, ReadError> {
        let mut denied = 0;
        let mut found = Found::Unknown;
        for run in self.runs(space) {
            if !run.may_contain(hash)? {
                denied += 1;
                continue;
            }
            found = run.get(key)?;
            counters.filter_passed(found != Found::Unknown);
            if found != Found::Unknown {
                break;
            }
        }
        counters.filter_denied(denied);
        Ok(found)
    }

    /// The file that names it.
    pub(crate) fn checkpoint(&self, next_file: u64) -> Checkpoint {
        let entry = |space, run: &Arc<Run>| RunEntry {
            space,
            file: run.number,
            length: run.length,
            trailer_checksum: run.trailer_checksum,
            born: run.born,
        };
        let runs = self.spaces().flat_map(|(space, runs)| runs.iter().map(move |run| entry(space, run)));
        Checkpoint {
            offset: self.offset,
            number: self.number,
            next_file,
            buckets: (*self.buckets).clone(),
            runs: runs.collect(),
        }
    }
}
