//! A storage that costs next to nothing: one place in an array for each number. What is measured over it is the sequencer.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use gapless_sequencer::{SequenceValue, Storage};
use gapless_types::{PartitionOffset, SequenceId, WorkspaceId};

/// Sequences 1 and 2 of each workspace.
pub(crate) const SEQUENCES: [SequenceId; 2] = [SequenceId::new(1), SequenceId::new(2)];

#[derive(Debug)]
pub(crate) struct FlatStorage {
    numbers: Vec<[AtomicU64; 2]>,
    next_offset: AtomicU64,
}

impl FlatStorage {
    /// For workspaces from 0 on. Every page of it is touched, so that none is paid for later.
    pub(crate) fn new(workspaces: u64) -> Self {
        let numbers = (0..workspaces).map(|_| [AtomicU64::new(1), AtomicU64::new(1)]).collect();
        Self { numbers, next_offset: AtomicU64::new(1) }
    }

    fn place(&self, workspace: WorkspaceId, sequence: SequenceId) -> &AtomicU64 {
        let index = usize::try_from(workspace.get()).expect("workspaces are counted in memory");
        &self.numbers[index][usize::from(sequence.get() - 1)]
    }
}

impl Storage for FlatStorage {
    type Error = Infallible;

    fn read_numbers(
        &self,
        workspace: WorkspaceId,
        sequences: &[SequenceId],
        numbers: &mut [u64],
    ) -> Result<(), Infallible> {
        for (sequence, number) in sequences.iter().zip(numbers) {
            *number = self.place(workspace, *sequence).load(Ordering::Acquire);
        }
        Ok(())
    }

    fn read_next_offset(&self) -> Result<Option<PartitionOffset>, Infallible> {
        Ok(PartitionOffset::new(self.next_offset.load(Ordering::Acquire)))
    }

    fn write(&self, values: &[SequenceValue], next_offset: PartitionOffset) -> Result<(), Infallible> {
        for value in values {
            self.place(value.workspace, value.sequence).store(value.number, Ordering::Release);
        }
        self.next_offset.store(next_offset.get(), Ordering::Release);
        Ok(())
    }

    fn scan(
        &self,
        from: PartitionOffset,
        _: &mut dyn FnMut(PartitionOffset, &[SequenceValue]) -> ControlFlow<()>,
    ) -> Result<PartitionOffset, Infallible> {
        Ok(from)
    }
}
