//! What one record of the owner's log changes: applied as a whole or not at all, in the order it was put together.
//!
//! A batch is meant to be cleared and used again; once it has grown to the size of the usual record it allocates
//! nothing.
//!
//! Must not know: memtables, files.

use std::ops::Range;

use crate::error::BatchError;
use crate::limits::{MAX_BATCH_BYTES, MAX_BATCH_ROWS, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::position::{BucketId, Space};

/// Changes in order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    operations: Vec<Stored>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Stored {
    Put { space: Space, key: Range<usize>, value: Range<usize> },
    Delete { space: Space, key: Range<usize> },
    DropBucket(BucketId),
}

/// One change as it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Put { space: Space, key: &'a [u8], value: &'a [u8] },
    Delete { space: Space, key: &'a [u8] },
    DropBucket(BucketId),
}

impl Batch {
    /// A batch without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a row into the main space, over what has its key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BatchError> {
        self.add_put(Space::Main, key, value)
    }

    /// Deletes a row of the main space, if it is there.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), BatchError> {
        self.add_delete(Space::Main, key)
    }

    /// Puts a row into a bucket, which exists from then on.
    pub fn put_in(&mut self, bucket: BucketId, key: &[u8], value: &[u8]) -> Result<(), BatchError> {
        self.add_put(Space::Bucket(bucket), key, value)
    }

    /// Deletes a row of a bucket. Nothing happens if there is no such bucket.
    pub fn delete_in(&mut self, bucket: BucketId, key: &[u8]) -> Result<(), BatchError> {
        self.add_delete(Space::Bucket(bucket), key)
    }

    /// Drops a bucket with all its rows, without reading them. It may be filled again afterwards.
    pub fn drop_bucket(&mut self, bucket: BucketId) -> Result<(), BatchError> {
        self.check(0, 0)?;
        self.operations.push(Stored::DropBucket(bucket));
        Ok(())
    }

    /// Removes all operations and keeps the room they took.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.bytes.clear();
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.operations.iter().map(|stored| match stored {
            Stored::Put { space, key, value } => Operation::Put {
                space: *space,
                key: &self.bytes[key.clone()],
                value: &self.bytes[value.clone()],
            },
            Stored::Delete { space, key } => {
                Operation::Delete { space: *space, key: &self.bytes[key.clone()] }
            }
            Stored::DropBucket(bucket) => Operation::DropBucket(*bucket),
        })
    }

    fn add_put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), BatchError> {
        self.check(key.len(), value.len())?;
        let (key, value) = (self.add(key), self.add(value));
        self.operations.push(Stored::Put { space, key, value });
        Ok(())
    }

    fn add_delete(&mut self, space: Space, key: &[u8]) -> Result<(), BatchError> {
        self.check(key.len(), 0)?;
        let key = self.add(key);
        self.operations.push(Stored::Delete { space, key });
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn check(&self, key: usize, value: usize) -> Result<(), BatchError> {
        let bytes = self.bytes.len().saturating_add(key).saturating_add(value);
        if key > MAX_KEY_BYTES {
            Err(BatchError::KeyTooLong { bytes: key, limit: MAX_KEY_BYTES })
        } else if value > MAX_VALUE_BYTES {
            Err(BatchError::ValueTooLong { bytes: value, limit: MAX_VALUE_BYTES })
        } else if self.operations.len() >= MAX_BATCH_ROWS {
            Err(BatchError::TooManyRows { limit: MAX_BATCH_ROWS })
        } else if bytes > MAX_BATCH_BYTES {
            Err(BatchError::TooManyBytes { bytes, limit: MAX_BATCH_BYTES })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_a_limit_is_refused_and_changes_nothing() {
        let mut batch = Batch::new();
        batch.put(b"key", b"value").unwrap();
        let (key, value) = (vec![0; MAX_KEY_BYTES + 1], vec![0; MAX_VALUE_BYTES + 1]);
        assert!(matches!(batch.put(&key, b""), Err(BatchError::KeyTooLong { .. })));
        assert!(matches!(batch.delete(&key), Err(BatchError::KeyTooLong { .. })));
        assert!(matches!(batch.put(b"", &value), Err(BatchError::ValueTooLong { .. })));
        assert_eq!((batch.len(), batch.bytes()), (1, 8));
        for _ in 0..3 {
            batch.put(b"", &value[1..]).unwrap();
        }
        assert!(matches!(batch.put(b"", &value[1..]), Err(BatchError::TooManyBytes { .. })));
        batch.clear();
        for _ in 0..MAX_BATCH_ROWS {
            batch.delete(b"").unwrap();
        }
        assert!(matches!(batch.drop_bucket(BucketId(1)), Err(BatchError::TooManyRows { .. })));
    }
}
