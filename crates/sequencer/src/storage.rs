//! What a sequencer needs of the world: a few stored numbers, one stored offset, and the log.

use std::error::Error;
use std::ops::ControlFlow;

use gapless_types::{PartitionOffset, SequenceId, WorkspaceId};

/// The last number that a sequence of a workspace has issued, or a number that the log holds for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceValue {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The sequence in it.
    pub sequence: SequenceId,
    /// The number; 0 means none.
    pub number: u64,
}

/// Where numbers are kept and where the log is read. All calls may block; none is made while a lock is held.
///
/// Numbers are read by the thread that takes them and by the background work, all else is called by the background work
/// alone: there is one `write` or `scan` at a time, and a `read_numbers` may overlap with either.
pub trait Storage: Send + Sync + 'static {
    /// What can go wrong. The sequencer tries again, whatever it is, and shows it to whoever asks.
    type Error: Error + Send + Sync + 'static;

    /// Puts the last stored numbers of these sequences of the workspace into `numbers`, in the same order; 0 where
    /// there is none.
    ///
    /// # Errors
    /// If the store cannot be read. The transaction that asked stays open.
    fn read_numbers(
        &self,
        workspace: WorkspaceId,
        sequences: &[SequenceId],
        numbers: &mut [u64],
    ) -> Result<(), Self::Error>;

    /// The offset of the last [`write`](Storage::write): the first one that stored numbers do not cover. None on an
    /// empty store.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn read_next_offset(&self) -> Result<Option<PartitionOffset>, Self::Error>;

    /// Stores all values and the offset, or nothing of it: **one** atomic write, replacing what was there.
    ///
    /// After an error it is unknown whether it happened; the same write is tried again.
    ///
    /// A sequencer that was closed while its storage did not answer leaves one such call behind (see
    /// [`Ending::Detached`](crate::Ending::Detached)). Who opens another sequencer on the same data in the same process
    /// then has to keep that late write out, as [`MemoryStorage::successor`](crate::memory::MemoryStorage::successor)
    /// does.
    ///
    /// # Errors
    /// If it is not certain that everything is stored.
    fn write(&self, values: &[SequenceValue], next_offset: PartitionOffset) -> Result<(), Self::Error>;

    /// Calls back once for each record of the log from this offset on, in the order of the offsets and without a gap,
    /// with the numbers it holds: in any order, keys may repeat.
    ///
    /// Gives the first offset that the log does not have. It tells the end of the log from a scan that stopped short of
    /// it, and shows a log that ends before `from` - 1: stored numbers that are ahead of the log were stored by mistake,
    /// or the log has lost its end. After [`ControlFlow::Break`] return at once, with whatever result.
    ///
    /// # Errors
    /// If the log cannot be read to its end, for whatever reason, being cancelled included.
    fn scan(
        &self,
        from: PartitionOffset,
        batch: &mut dyn FnMut(PartitionOffset, &[SequenceValue]) -> ControlFlow<()>,
    ) -> Result<PartitionOffset, Self::Error>;
}
