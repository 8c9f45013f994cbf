//! A partition as its owner holds it: one log, one store, one sequencer, and where they stand.
//!
//! Invariants
//! - LOG-2: a checkpoint is never ahead of what the partition log has on stable storage.
//! - WM-1: checkpoint <= synced <= applied, and none of them falls.
//!
//! Must not know: clocks, Raft, other partitions.

use std::path::Path;
use std::sync::Arc;

use gapless_log::Log;
use gapless_sequencer::{CacheBudget, Sequencer};
use gapless_store::{
    ApplyError as StoreApplyError, Batch, CheckpointError, Maintained, Offset, Retired, Space,
};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use sha2::{Digest, Sha256};

use crate::apply::canonical;
use crate::checkpointing::{Checkpointing, MAINTAIN_BYTES, Made, NotMade, Work};
use crate::command::{Command, Record};
use crate::error::{ApplyError, CheckpointFailed, Fault};
use crate::outcome::{Header, Outcome, RequestDigest};
use crate::pending::Pending;
use crate::recent::Recent;
use crate::schema::Schema;
use crate::shared_store::SharedStore;
use crate::stored::StoredOutcome;
use crate::stored_numbers::StoredNumbers;
use crate::syncing::{self, Syncing};
use crate::tiles::Tiles;
use crate::trust::Ends;
use crate::turns::{Turns, is_busy, told};
use crate::view::View;

/// Turns that the sequencer gets before a partition gives up.
const MAX_TURNS: u32 = 16;

/// A deterministic state machine over a log of its own.
#[derive(Debug)]
pub struct Partition {
    pub(crate) id: PartitionId,
    pub(crate) log: Log,
    pub(crate) store: SharedStore,
    pub(crate) sequencer: Sequencer<StoredNumbers>,
    pub(crate) turns: Turns,
    /// Memory for numbers, shared by all partitions of a node.
    pub(crate) numbers: Arc<CacheBudget>,
    pub(crate) schema: Option<Arc<Schema>>,
    /// The last outcome; none in a new partition.
    pub(crate) applied: Option<PartitionOffset>,
    /// Where the record of the last outcome stands in the replicated log.
    pub(crate) log_index: Option<LogIndex>,
    /// Log time of the last outcome.
    pub(crate) time: u64,
    pub(crate) batch: Batch,
    /// Outcomes that the log has not got yet.
    pub(crate) pending: Pending,
    pub(crate) recent: Recent,
    /// Of outcomes alone.
    pub(crate) ends: Ends,
    pub(crate) tiles: Tiles,
    pub(crate) stopped: Option<Fault>,
    /// A checkpoint that is written out somewhere.
    pub(crate) underway: Option<Underway>,
    /// A sync of the log that is on its way.
    pub(crate) syncing: syncing::Underway,
    /// The last checkpoint that was made since the partition was opened.
    pub(crate) covered: Option<(PartitionOffset, LogIndex)>,
}

/// A checkpoint on its way, and where it stands.
#[derive(Debug)]
pub(crate) struct Underway {
    checkpointing: Checkpointing,
    covers: (PartitionOffset, LogIndex),
}

impl Partition {
    /// Which partition it is.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The definition of its namespace and the ids of what that names; none before the first definition.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// The last offset that has an outcome.
    pub fn applied(&self) -> Option<PartitionOffset> {
        self.applied
    }

    /// Where the record of the last outcome stands in the replicated log.
    pub fn applied_index(&self) -> Option<LogIndex> {
        self.log_index
    }

    /// The offset that the next record must have.
    pub fn next_offset(&self) -> PartitionOffset {
        match self.applied {
            None => PartitionOffset::FIRST,
            Some(last) => last.next().expect("positions of a log end long before 64 bits do"),
        }
    }

    /// Outcomes up to here are on stable storage.
    pub fn synced(&self) -> Option<PartitionOffset> {
        self.log.durable().previous().and_then(|position| PartitionOffset::new(position.get()))
    }

    /// Where the last checkpoint stands that was made since the partition was opened.
    pub fn covered(&self) -> Option<(PartitionOffset, LogIndex)> {
        self.covered
    }

    /// The state derived from outcomes up to here is on stable storage.
    pub fn checkpointed(&self) -> Option<PartitionOffset> {
        PartitionOffset::new(self.store.lock().checkpoint_offset().get())
    }

    /// What the partition stopped with, if it has.
    pub fn fault(&self) -> Option<&Fault> {
        self.stopped.as_ref()
    }

    /// The partition log, for whoever copies, scrubs or repairs it. The newest outcomes may be on their way: see
    /// [`flush`](Self::flush).
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Everything that can be read, as it is now. It stays as it is, and can be read on any thread.
    ///
    /// # Errors
    /// If the partition has stopped.
    pub fn view(&mut self) -> Result<View, ApplyError> {
        // A quarantined partition has handed over everything, and can be read as it is.
        if !self.stopped.as_ref().is_some_and(Fault::is_quarantine) {
            self.hand_over()?;
            self.flush_numbers().map_err(|fault| self.stop(fault))?;
        }
        let snapshot = self.store.lock().snapshot();
        Ok(View::new(self.id, self.log.clone(), snapshot, self.schema.clone(), self.applied, self.time))
    }

    /// A digest of all derived state: equal on all replicas that applied the same records.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn state_digest(&mut self) -> Result<[u8; 32], ApplyError> {
        let view = self.view()?;
        let mut hash = Sha256::new();
        for row in view.rows() {
            let (space, key, value) = row.map_err(|error| self.stop(error.into()))?;
            if let Space::Bucket(bucket) = space {
                hash.update(bucket.0.to_le_bytes());
            }
            hash.update((key.len() as u64).to_le_bytes());
            hash.update(&key);
            hash.update((value.len() as u64).to_le_bytes());
            hash.update(&value);
        }
        Ok(hash.finalize().into())
    }

    /// Writes every outcome to the partition log, without waiting until it is durable.
    ///
    /// # Errors
    /// If the log fails, which stops the partition.
    pub fn flush(&mut self) -> Result<(), Fault> {
        self.hand_over()?;
        self.log.flush().map_err(|error| self.stop(error.into()))
    }

    /// Makes every outcome durable in the partition log.
    ///
    /// # Errors
    /// If the log fails, which stops the partition.
    pub fn sync(&mut self) -> Result<(), Fault> {
        self.hand_over()?;
        self.log.sync().map_err(|error| self.stop(error.into()))
    }

    /// Hands every outcome over to the log.
    pub(crate) fn hand_over(&mut self) -> Result<(), Fault> {
        self.check_running()?;
        self.pending.hand_over(&self.log).map_err(|error| self.stop(error.into()))
    }

    /// Idempotency keys that are known, for whoever admits writes: expired ones may be among them.
    pub fn known_keys(&self) -> u64 {
        self.store.lock().buckets().map(|(_, rows)| rows).sum()
    }

    /// A sync of the log that is due, for any thread. None while one is on its way.
    pub fn begin_sync(&mut self) -> Option<Syncing> {
        self.syncing.begin(&self.log)
    }

    /// Whether a checkpoint should be made soon.
    pub fn wants_checkpoint(&self) -> bool {
        self.underway.is_none() && self.store.lock().wants_checkpoint()
    }

    /// Makes the state durable: syncs the partition log, writes out what changed, publishes the offset.
    ///
    /// # Errors
    /// If the log cannot be synced, which stops the partition, or the store cannot be written, which does not.
    pub fn checkpoint(&mut self) -> Result<(), CheckpointFailed> {
        self.check_running()?;
        // What is not written now is read from the log again; a full memory must not keep the checkpoint from being made.
        let _ = self.flush_numbers();
        self.checkpoint_state()
    }

    /// Begins the same, to be written out on any thread while outcomes are applied here, and to be ended then. None if one is on
    /// its way, or there is nothing to write.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn begin_checkpoint(&mut self) -> Result<Option<Checkpointing>, CheckpointFailed> {
        self.check_running()?;
        if self.underway.is_some() {
            return Ok(None);
        }
        let _ = self.flush_numbers();
        self.freeze()
    }

    /// Publishes what was begun; if that is not written out yet, it is now. What it made needless is given back: letting go of it
    /// takes a while. None if nothing was begun.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn end_checkpoint(&mut self) -> Result<Option<Retired>, CheckpointFailed> {
        let Some(Underway { checkpointing, covers }) = self.underway.take() else { return Ok(None) };
        if let Some(fault) = &self.stopped {
            checkpointing.give_up();
            return Err(fault.clone().into());
        }
        let Made { written, synced, merged } = match checkpointing.made() {
            Ok(made) => made,
            Err(NotMade::Log(error)) => return Err(self.stop(error.into()).into()),
            Err(NotMade::Store(error)) => return Err(CheckpointError::Disk(error).into()),
            Err(NotMade::Nobody) => return Ok(None),
        };
        let mut store = self.store.lock();
        let retired = store.publish(written, synced).map_err(CheckpointError::Disk)?;
        self.covered = Some(covers);
        match merged.transpose()? {
            Some((merge, Maintained::Finished)) => store.install_compaction(merge)?,
            Some((merge, _)) => store.put_back_compaction(merge),
            None => {}
        }
        Ok(Some(retired))
    }

    /// Merges what is due in the store, a bounded step of it; whether there is more.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn maintain(&mut self) -> Result<bool, CheckpointFailed> {
        self.log.maintain().map_err(|error| self.stop(error.into()))?;
        Ok(self.store.lock().maintain(MAINTAIN_BYTES)? != Maintained::Idle)
    }

    /// Closes log and store. What is not in a checkpoint is read from the log when the partition is opened again.
    ///
    /// # Errors
    /// If the log cannot be synced.
    pub fn close(mut self) -> Result<(), Fault> {
        if let Some(Underway { checkpointing, .. }) = self.underway.take() {
            checkpointing.give_up();
        }
        self.syncing.give_up();
        self.hand_over()?;
        self.sequencer.close();
        Ok(self.log.clone().close()?)
    }

    /// A checkpoint at the last outcome that the state has.
    pub(crate) fn checkpoint_state(&mut self) -> Result<(), CheckpointFailed> {
        match self.end_checkpoint() {
            // What one before it could not write is taken along.
            Ok(_) | Err(CheckpointFailed::Store(_) | CheckpointFailed::Maintain(_)) => {}
            Err(stopped) => return Err(stopped),
        }
        self.freeze()?;
        self.end_checkpoint().map(|_| ())
    }

    /// Freezes the state as it is at the last outcome that it has.
    fn freeze(&mut self) -> Result<Option<Checkpointing>, CheckpointFailed> {
        let (Some(applied), Some(index)) = (self.applied, self.log_index) else { return Ok(None) };
        self.hand_over()?;
        let offset = Offset::new(applied.get());
        let frozen = loop {
            let frozen = self.store.lock().rotate(offset);
            match frozen {
                Err(CheckpointError::MaintenanceDue { .. }) => {
                    self.store.lock().maintain(MAINTAIN_BYTES)?;
                }
                other => break other?,
            }
        };
        let merge = self.store.lock().begin_compaction();
        let checkpointing = Checkpointing::new(Work { log: self.log.clone(), frozen, merge });
        let covers = (applied, index);
        self.underway = Some(Underway { checkpointing: checkpointing.clone(), covers });
        Ok(Some(checkpointing))
    }

    /// Applies the batch of an outcome that is in the log, and moves on to it.
    pub(crate) fn change_state(&mut self, record: &Record<'_>, time: u64) -> Result<(), Fault> {
        if !self.batch.is_empty() {
            self.apply_batch()?;
        }
        self.applied = Some(record.offset);
        self.log_index = Some(record.log_index);
        self.time = time;
        Ok(())
    }

    /// Applies the batch. If the memory of the node is full, a checkpoint of the state so far gives some back.
    pub(crate) fn apply_batch(&mut self) -> Result<(), Fault> {
        match self.store.apply(&self.batch) {
            Err(Fault::StoreApply(StoreApplyError::MemoryFull { .. })) => {
                self.make_memory()?;
                self.store.apply(&self.batch)
            }
            other => other,
        }
    }

    /// Gives memory back: that of a checkpoint which is on its way is often enough.
    fn make_memory(&mut self) -> Result<(), Fault> {
        if self.underway.is_some() {
            let ended = self.end_checkpoint();
            match ended {
                Ok(retired) => drop(retired),
                Err(CheckpointFailed::Stopped(fault)) => return Err(fault),
                Err(CheckpointFailed::Store(_) | CheckpointFailed::Maintain(_)) => {}
            }
            if self.store.lock().has_room(&self.batch) {
                return Ok(());
            }
        }
        self.checkpoint_state().map_err(|error| match error {
            CheckpointFailed::Stopped(fault) => fault,
            CheckpointFailed::Store(error) => Fault::Checkpoint(error.to_string()),
            CheckpointFailed::Maintain(error) => Fault::Checkpoint(error.to_string()),
        })
    }

    /// Makes the sequencer ready for the next outcome. A committed record is never refused: it waits here instead.
    pub(crate) fn make_ready(&mut self) -> Result<(), Fault> {
        let mut turn = 0;
        while let Err(error) = self.sequencer.check_ready() {
            if is_busy(&error).is_none() || turn == MAX_TURNS {
                return Err(self.sequencer_fault(&error));
            }
            if turn > 0 && self.store.lock().wants_checkpoint() {
                // The store may have no memory for the numbers.
                let _ = self.checkpoint_state();
            }
            let _ = self.turns.take(&mut self.sequencer);
            turn += 1;
        }
        Ok(())
    }

    fn sequencer_fault(&self, error: &impl std::fmt::Display) -> Fault {
        let last = self.sequencer.statistics().last_error;
        Fault::Sequencer(told(error, last))
    }

    /// Puts all numbers into the store.
    pub(crate) fn flush_numbers(&mut self) -> Result<(), Fault> {
        for turn in 0..MAX_TURNS {
            if self.turns.flush(&mut self.sequencer) {
                return Ok(());
            }
            if turn > 0 {
                let _ = self.checkpoint_state();
            }
        }
        Err(self.sequencer_fault(&"numbers cannot be stored"))
    }

    /// The outcome of a record that was applied before, if this is one.
    pub(crate) fn recorded(&mut self, record: &Record<'_>) -> Result<Option<Outcome>, ApplyError> {
        let expected = self.next_offset();
        if record.offset == expected {
            return Ok(None);
        }
        if record.offset > expected {
            return Err(ApplyError::NotNext { expected, given: record.offset });
        }
        self.hand_over()?;
        let stored = StoredOutcome::read(&self.log, record.offset)?;
        let header = stored.header();
        let key = match Command::decode(record.command) {
            Ok(Command::Write(key, _)) => Some(key),
            _ => None,
        };
        let same = header.log_index == record.log_index
            && header.digest == RequestDigest::of(canonical(record.command))
            && header.key == key;
        if !same {
            return Err(ApplyError::Diverged { offset: record.offset });
        }
        Ok(Some(stored.outcome(self.id, &self.log)?))
    }

    pub(crate) fn check_running(&self) -> Result<(), Fault> {
        match &self.stopped {
            Some(fault) => Err(fault.clone()),
            None => Ok(()),
        }
    }

    /// Stops with a fault: nothing is applied any more.
    pub(crate) fn stop(&mut self, fault: Fault) -> Fault {
        self.stopped.get_or_insert(fault).clone()
    }

    /// Takes up another schema. Its sequences may be new to the sequencer, which is opened again with them.
    pub(crate) fn use_schema(&mut self, schema: Schema) -> Result<(), Fault> {
        self.hand_over()?;
        self.flush_numbers()?;
        self.schema = Some(Arc::new(schema));
        self.open_sequencer()?;
        self.make_ready()
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        if let Some(Underway { checkpointing, .. }) = self.underway.take() {
            checkpointing.give_up();
        }
        self.syncing.give_up();
        // Views may live on; they must not keep the partition from being opened again.
        self.log.abandon();
    }
}

/// Names of the parts in a partition's directory.
pub(crate) fn log_dir(dir: &Path) -> std::path::PathBuf {
    dir.join("log")
}

pub(crate) fn store_dir(dir: &Path) -> std::path::PathBuf {
    dir.join("store")
}

/// What a header of the log tells about where a partition stands.
pub(crate) fn mark(header: &Header<'_>) -> (PartitionOffset, LogIndex, u64) {
    (header.partition_offset, header.log_index, header.time)
}
