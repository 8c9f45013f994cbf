//! What a store should hold: plain maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_store::{
    Batch, BucketId, Budget, Direction, Offset, OpenError, Opened, Options, ReadError, Space, Store, Synced,
    View,
};

pub(crate) const DIR: &str = "state";

/// One change, as a test says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put(Space, Vec<u8>, Vec<u8>),
    Delete(Space, Vec<u8>),
    Drop(BucketId),
}

/// Rows of every space, and the count of every bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    rows: BTreeMap<Space, BTreeMap<Vec<u8>, Vec<u8>>>,
    buckets: BTreeMap<BucketId, u64>,
}

impl Model {
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(space, key, value) => {
                    self.rows.entry(*space).or_default().insert(key.clone(), value.clone());
                    if let Space::Bucket(bucket) = space {
                        *self.buckets.entry(*bucket).or_default() += 1;
                    }
                }
                Change::Delete(space, key) => {
                    self.rows.entry(*space).or_default().remove(key);
                    if let Space::Bucket(bucket) = space
                        && let Some(count) = self.buckets.get_mut(bucket)
                    {
                        *count = count.saturating_sub(1);
                    }
                }
                Change::Drop(bucket) => {
                    self.rows.remove(&Space::Bucket(*bucket));
                    self.buckets.remove(bucket);
                }
            }
        }
    }

    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Option<&[u8]> {
        self.rows.get(&space)?.get(key).map(Vec::as_slice)
    }

    pub(crate) fn everything(&self) -> Vec<(Space, Vec<u8>, Vec<u8>)> {
        let rows = self
            .rows
            .iter()
            .flat_map(|(space, rows)| rows.iter().map(|(key, value)| (*space, key.clone(), value.clone())));
        rows.collect()
    }

    /// Panics where a view differs; an error of the disk or damage is returned.
    pub(crate) fn check(&self, view: &View) -> Result<(), ReadError> {
        let mut found = Vec::new();
        for row in view.everything() {
            let (space, key, value) = row?;
            found.push((space, key.to_vec(), value.to_vec()));
        }
        assert_eq!(found, self.everything());
        assert_eq!(view.buckets().collect::<BTreeMap<_, _>>(), self.buckets);
        for (space, key, value) in self.everything() {
            assert_eq!(get(view, space, &key)?.as_deref(), Some(&value[..]));
        }
        for missing in [&b""[..], b"no such key", b"\xff\xff"] {
            if self.get(Space::Main, missing).is_none() {
                assert_eq!(view.get(missing)?, None);
            }
        }
        let backward: Result<Vec<_>, _> = view.range::<&[u8]>(.., Direction::Backward).collect();
        let mut backward: Vec<_> =
            backward?.into_iter().map(|(key, value)| (Space::Main, key.to_vec(), value.to_vec())).collect();
        backward.reverse();
        let main = found.iter().filter(|(space, ..)| *space == Space::Main);
        assert!(backward.iter().eq(main), "backward is forward from the other end");
        Ok(())
    }
}

pub(crate) fn get(view: &View, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
    let value = match space {
        Space::Main => view.get(key)?,
        Space::Bucket(bucket) => view.get_in(bucket, key)?,
    };
    Ok(value.map(|value| value.to_vec()))
}

pub(crate) fn batch_of(changes: &[Change]) -> Batch {
    let mut batch = Batch::new();
    for change in changes {
        match change {
            Change::Put(Space::Main, key, value) => batch.put(key, value),
            Change::Put(Space::Bucket(bucket), key, value) => batch.put_in(*bucket, key, value),
            Change::Delete(Space::Main, key) => batch.delete(key),
            Change::Delete(Space::Bucket(bucket), key) => batch.delete_in(*bucket, key),
            Change::Drop(bucket) => batch.drop_bucket(*bucket),
        }
        .unwrap();
    }
    batch
}

pub(crate) fn budget() -> Budget {
    Budget::new(64 << 20, 1 << 20)
}

pub(crate) fn open_on(io: &(impl Io + Clone + 'static)) -> Result<(Store, Opened), OpenError> {
    Store::open(Arc::new(io.clone()), DIR, Options::default(), &budget())
}

pub(crate) fn synced(offset: u64) -> (Offset, Synced) {
    (Offset::new(offset), Synced::by_a_sync_up_to(Offset::new(offset)))
}

pub(crate) fn put(key: &str, value: &str) -> Change {
    Change::Put(Space::Main, key.into(), value.into())
}

pub(crate) fn put_in(bucket: u64, key: &str, value: &str) -> Change {
    Change::Put(Space::Bucket(BucketId(bucket)), key.into(), value.into())
}

pub(crate) fn delete(key: &str) -> Change {
    Change::Delete(Space::Main, key.into())
}

pub(crate) fn drop_bucket(bucket: u64) -> Change {
    Change::Drop(BucketId(bucket))
}
