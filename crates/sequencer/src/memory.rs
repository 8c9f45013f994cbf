//! A storage in memory with faults that are injected: failing, blocking, slow, crashing, at the n-th call or until told
//! otherwise. For tests, and to see how the pieces fit.
//!
//! Clones share everything. The log is filled with [`MemoryStorage::append`], by whoever plays the one that appends events.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use gapless_types::{PartitionOffset, SequenceId, WorkspaceId};

use crate::storage::{SequenceValue, Storage};
use crate::sync::{Condvar, Mutex, MutexGuard, NO_PANIC};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// [`Storage::read_numbers`].
    ReadNumbers,
    /// [`Storage::read_next_offset`].
    ReadNextOffset,
    /// [`Storage::write`].
    Write,
    /// [`Storage::scan`], when it begins.
    Scan,
    /// The delivery of one record by a scan.
    ScanRecord,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ReadNumbers, Self::ReadNextOffset, Self::Write, Self::Scan, Self::ScanRecord];
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// It fails and does nothing.
    Fail,
    /// It does what it should, and says that it failed.
    FailAfter,
    /// It does not return until [`MemoryStorage::heal`].
    Block,
    /// It takes so long, by the pause the storage was given.
    Slow(Duration),
    /// The process dies before it: this call does nothing, and neither does any later one through the same handle.
    Crash,
    /// The process dies right after it did what it should.
    CrashAfter,
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// As ordered.
    #[error("{0:?} was told to fail")]
    Injected(Call),
    /// Through a handle whose process is dead, or that has a successor.
    #[error("{0:?} through a handle that is no longer valid")]
    Fenced(Call),
}

#[derive(Debug, Default)]
struct Data {
    log: BTreeMap<u64, Vec<SequenceValue>>,
    numbers: HashMap<(WorkspaceId, SequenceId), u64>,
    next_offset: u64,
    /// The log may be behind what is stored, and lack records.
    log_may_trail: bool,
    /// Handles of this age may do something.
    epoch: u64,
    calls: HashMap<Call, u64>,
    lasting: HashMap<Call, Disturbance>,
    planned: HashMap<(Call, u64), Disturbance>,
    /// For the n-th call of whatever kind.
    planned_for_any: HashMap<u64, Disturbance>,
    blocked: HashMap<Call, u64>,
}

type Pause = dyn Fn(Duration) + Send + Sync;

struct Inner {
    data: Mutex<Data>,
    healed: Condvar,
    pause: Box<Pause>,
}

/// The storage.
#[derive(Clone)]
pub struct MemoryStorage {
    inner: Arc<Inner>,
    epoch: u64,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStorage {
    /// Empty, without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::with_pause(std::thread::sleep)
    }

    /// The same, where slow calls call this instead of sleeping.
    #[must_use]
    pub fn with_pause(pause: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        let data = Mutex::new(Data::default());
        Self { inner: Arc::new(Inner { data, healed: Condvar::new(), pause: Box::new(pause) }), epoch: 0 }
    }

    /// A log whose records arrive later than the numbers they hold are flushed, as in some test data: what it lacks
    /// counts as records without numbers.
    pub fn let_log_trail(&self) {
        self.data().log_may_trail = true;
    }

    /// Appends a record to the log, or replaces one.
    pub fn append(&self, offset: PartitionOffset, values: impl Into<Vec<SequenceValue>>) {
        self.data().log.insert(offset.get(), values.into());
    }

    /// The handle of the next process on the same data. This one, and all clones of it, are dead from now on: a call that
    /// was left behind does nothing any more.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut data = self.data();
        data.epoch += 1;
        Self { inner: self.inner.clone(), epoch: data.epoch }
    }

    /// The stored number; 0 if there is none.
    #[must_use]
    pub fn stored_number(&self, workspace: WorkspaceId, sequence: SequenceId) -> u64 {
        self.data().numbers.get(&(workspace, sequence)).copied().unwrap_or(0)
    }

    /// Puts a number into the store.
    pub fn set_stored_number(&self, value: SequenceValue) {
        self.data().numbers.insert((value.workspace, value.sequence), value.number);
    }

    /// The stored offset; 0 if there is none.
    #[must_use]
    pub fn stored_offset(&self) -> u64 {
        self.data().next_offset
    }

    /// Everything that is stored at one moment: the offset, 0 if there is none, and the values, sorted.
    #[must_use]
    pub fn stored(&self) -> (u64, Vec<SequenceValue>) {
        let data = self.data();
        let values = data.numbers.iter();
        let mut values: Vec<_> = values
            .map(|(&(workspace, sequence), &number)| SequenceValue { workspace, sequence, number })
            .collect();
        values.sort_unstable();
        (data.next_offset, values)
    }

    /// Puts an offset into the store; 0 for none.
    pub fn set_stored_offset(&self, offset: u64) {
        self.data().next_offset = offset;
    }

    /// The first offset that the log does not have.
    #[must_use]
    pub fn log_end(&self) -> PartitionOffset {
        self.data().log_end()
    }

    /// How often this was called so far.
    #[must_use]
    pub fn calls(&self, call: Call) -> u64 {
        self.data().calls.get(&call).copied().unwrap_or(0)
    }

    /// How many calls of this kind are being blocked now.
    #[must_use]
    pub fn blocked(&self, call: Call) -> u64 {
        self.data().blocked.get(&call).copied().unwrap_or(0)
    }

    /// Disturbs every call of this kind until healed.
    pub fn disturb(&self, call: Call, how: Disturbance) {
        self.data().lasting.insert(call, how);
    }

    /// Disturbs the n-th call of this kind from now on; 1 is the next.
    pub fn disturb_nth(&self, call: Call, nth: u64, how: Disturbance) {
        let mut data = self.data();
        let at = data.calls.get(&call).copied().unwrap_or(0) + nth;
        data.planned.insert((call, at), how);
    }

    /// Disturbs the n-th call of whatever kind from now on; 1 is the next.
    pub fn disturb_nth_of_any(&self, nth: u64, how: Disturbance) {
        let mut data = self.data();
        let at = data.calls.values().sum::<u64>() + nth;
        data.planned_for_any.insert(at, how);
    }

    /// Ends a lasting disturbance, and lets go of what is blocked.
    pub fn heal(&self, call: Call) {
        let mut data = self.data();
        data.lasting.remove(&call);
        data.planned.retain(|(planned, _), _| *planned != call);
        drop(data);
        self.inner.healed.notify_all();
    }

    /// Ends all disturbances.
    pub fn heal_all(&self) {
        Call::ALL.iter().for_each(|call| self.heal(*call));
        self.data().planned_for_any.clear();
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.inner.data.lock().expect(NO_PANIC)
    }

    /// Does what was ordered for this call. Then the data, and what is to come after the call.
    fn enter(&self, call: Call) -> Result<(MutexGuard<'_, Data>, Option<Disturbance>), MemoryError> {
        let mut data = self.data();
        if data.epoch != self.epoch {
            return Err(MemoryError::Fenced(call));
        }
        let mut disturbance = data.next_disturbance(call);
        if let Some(Disturbance::Slow(time)) = disturbance {
            drop(data);
            (self.inner.pause)(time);
            data = self.data();
        }
        if disturbance == Some(Disturbance::Block) {
            *data.blocked.entry(call).or_default() += 1;
            // Planned for this call alone, it has to last until somebody heals it.
            data.lasting.insert(call, Disturbance::Block);
            while data.lasting.get(&call) == Some(&Disturbance::Block) {
                data = self.inner.healed.wait(data).expect(NO_PANIC);
            }
            *data.blocked.entry(call).or_default() -= 1;
            disturbance = data.lasting.get(&call).copied();
        }
        match disturbance {
            Some(Disturbance::Fail) => Err(MemoryError::Injected(call)),
            Some(Disturbance::Crash) => {
                data.epoch += 1;
                Err(MemoryError::Fenced(call))
            }
            // Whoever waited may have been replaced meanwhile.
            _ if data.epoch != self.epoch => Err(MemoryError::Fenced(call)),
            after => Ok((data, after)),
        }
    }
}

/// What is left to do when a call has done what it should.
fn leave(
    call: Call,
    mut data: MutexGuard<'_, Data>,
    disturbance: Option<Disturbance>,
) -> Result<(), MemoryError> {
    match disturbance {
        Some(Disturbance::FailAfter) => Err(MemoryError::Injected(call)),
        Some(Disturbance::CrashAfter) => {
            data.epoch += 1;
            Err(MemoryError::Fenced(call))
        }
        _ => Ok(()),
    }
}

impl Data {
    fn next_disturbance(&mut self, call: Call) -> Option<Disturbance> {
        let calls = self.calls.entry(call).or_default();
        *calls += 1;
        let nth = *calls;
        let nth_of_any = self.calls.values().sum::<u64>();
        let planned = self.planned.remove(&(call, nth)).or(self.planned_for_any.remove(&nth_of_any));
        planned.or(self.lasting.get(&call).copied())
    }

    fn log_end(&self) -> PartitionOffset {
        let last = self.log.last_key_value().map_or(0, |(offset, _)| *offset);
        PartitionOffset::new(last).map_or(PartitionOffset::FIRST, |last| last.next().unwrap_or(last))
    }

    /// The record at this offset, or the next one there is.
    fn record_from(&self, from: PartitionOffset) -> Option<(PartitionOffset, Vec<SequenceValue>)> {
        let (offset, values) = self.log.range(from.get()..).next()?;
        if self.log_may_trail && *offset != from.get() {
            return Some((from, Vec::new()));
        }
        PartitionOffset::new(*offset).map(|offset| (offset, values.clone()))
    }
}

impl Storage for MemoryStorage {
    type Error = MemoryError;

    fn read_numbers(
        &self,
        workspace: WorkspaceId,
        sequences: &[SequenceId],
        numbers: &mut [u64],
    ) -> Result<(), MemoryError> {
        let (data, disturbance) = self.enter(Call::ReadNumbers)?;
        for (sequence, number) in sequences.iter().zip(numbers) {
            *number = data.numbers.get(&(workspace, *sequence)).copied().unwrap_or(0);
        }
        leave(Call::ReadNumbers, data, disturbance)
    }

    fn read_next_offset(&self) -> Result<Option<PartitionOffset>, MemoryError> {
        let (data, disturbance) = self.enter(Call::ReadNextOffset)?;
        let offset = PartitionOffset::new(data.next_offset);
        leave(Call::ReadNextOffset, data, disturbance).map(|()| offset)
    }

    fn write(&self, values: &[SequenceValue], next_offset: PartitionOffset) -> Result<(), MemoryError> {
        let (mut data, disturbance) = self.enter(Call::Write)?;
        for value in values {
            data.numbers.insert((value.workspace, value.sequence), value.number);
        }
        data.next_offset = next_offset.get();
        leave(Call::Write, data, disturbance)
    }

    fn scan(
        &self,
        from: PartitionOffset,
        batch: &mut dyn FnMut(PartitionOffset, &[SequenceValue]) -> ControlFlow<()>,
    ) -> Result<PartitionOffset, MemoryError> {
        let (data, disturbance) = self.enter(Call::Scan)?;
        leave(Call::Scan, data, disturbance)?;
        let mut next = from;
        loop {
            let (data, disturbance) = self.enter(Call::ScanRecord)?;
            let Some((offset, values)) = data.record_from(next) else {
                let end = data.log_end();
                return Ok(if data.log_may_trail { end.max(next) } else { end });
            };
            leave(Call::ScanRecord, data, disturbance)?;
            // Without the lock: the callback takes that of the sequencer.
            if batch(offset, &values).is_break() {
                return Ok(offset);
            }
            next = offset.next().unwrap_or(offset);
        }
    }
}

impl std::fmt::Debug for MemoryStorage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MemoryStorage").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
