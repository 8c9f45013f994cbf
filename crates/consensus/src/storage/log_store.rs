//! The log storage that the consensus library drives, over the log.
//!
//! An entry's index is its record's position. Vote and purge mark are values of the log's small state, so that one writer and
//! one order of syncs stand behind everything, and a vote cannot get lost without the log noticing.
//!
//! Invariants
//! - ACK-1: the library is told that entries are durable by the log's writer, when they are, and never earlier.
//! - `append` returns before the sync; whatever queues up meanwhile shares the next one. Nothing here adds a second sync.
//! - A failed write or sync ends the log, and with it the node. Nothing is tried again. That holds for truncating and purging, too,
//!   though the library does not wait for them: it would go on with a log that is not as it believes.
//!
//! Must not know: what entries mean, who the members are.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use gapless_log::{AppendError, Drive, Log, ReadError, Record, Settled, Ticket};
use gapless_types::limits::{MAX_FRAME_BYTES, MAX_RECORDS_PER_BATCH};
use gapless_types::mistakes::{Mistake, makes};
use gapless_types::{LogIndex, Position};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::blocking::blocking;
use super::log_reader::LogReader;
use crate::format::{entry, state};
use crate::message::{Entry, EntryId, Vote};
use crate::raft::{self, Group, RaftEntry, RaftLogId, RaftVoteValue};

/// Bytes of payloads that go into one append: a frame takes them with their headers.
const MAX_APPEND_BYTES: usize = (MAX_FRAME_BYTES / 4 * 3) as usize;
/// How often a full disk is looked at again.
const FULL_DISK_INTERVAL: Duration = Duration::from_millis(50);

const _: () =
    assert!(MAX_APPEND_BYTES + MAX_RECORDS_PER_BATCH * 32 < MAX_FRAME_BYTES as usize, "headers have room");

/// The place of an entry in the log.
pub(crate) fn position(index: LogIndex) -> Position {
    Position::new(index.get())
}

/// The entry at a place in the log.
pub(crate) fn log_index(position: Position) -> LogIndex {
    LogIndex::new(position.get())
}

/// How often something was settled, and what failed first. Whoever waits looks at the log when it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settlements {
    pub(crate) count: u64,
    pub(crate) failure: Option<Arc<str>>,
}

/// The log of a node. Clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct LogStore {
    pub(crate) log: Log,
    pub(crate) settlements: Arc<watch::Sender<Settlements>>,
    pub(crate) drive: Drive,
    pump: Option<Arc<Pump>>,
    /// How long a full disk is waited for before the node gives up, so that others can lead.
    full_disk_patience: Duration,
}

/// Writes for a log that has no threads of its own.
#[derive(Debug)]
struct Pump {
    work: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LogStore {
    pub(crate) fn new(log: Log, drive: Drive, full_disk_patience: Duration) -> Self {
        let pump = (drive == Drive::Caller).then(|| Arc::new(Pump::start(log.clone())));
        let settlements = Arc::new(watch::Sender::new(Settlements::default()));
        Self { log, settlements, drive, pump, full_disk_patience }
    }

    /// The vote that was saved last.
    pub(crate) fn vote(&self) -> io::Result<Option<Vote>> {
        let stored = self.log.state(state::VOTE);
        stored.map(|bytes| state::decode_vote(&bytes)).transpose().map_err(|_| unreadable("the vote"))
    }

    /// The last entry that was cut off.
    pub(crate) fn purged(&self) -> io::Result<Option<EntryId>> {
        let stored = self.log.state(state::PURGED);
        stored.map(|bytes| state::decode_purged(&bytes)).transpose().map_err(|_| unreadable("the purge mark"))
    }

    /// The last entry, or the last that was cut off.
    pub(crate) fn last(&self) -> io::Result<Option<EntryId>> {
        let (first, next) = (self.log.first(), self.log.next());
        match next.previous().filter(|_| first < next) {
            Some(last) => self.entry_id(log_index(last)).map(Some),
            None => self.purged(),
        }
    }

    /// The id of an entry that is in the log.
    pub(crate) fn entry_id(&self, index: LogIndex) -> io::Result<EntryId> {
        let record = self.log.read(position(index)).map_err(io::Error::other)?;
        entry::decode(index, &record.payload).map(|entry| entry.id).map_err(|_| unreadable("an entry"))
    }

    /// Reads something that may have to be waited for.
    pub(crate) async fn read<T: Send + 'static>(&self, what: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let this = self.clone();
        blocking(self.drive, move || what(&this)).await
    }

    /// Records from `from` on and below `end`, as the log reads them: at once if memory holds them.
    pub(crate) async fn records(
        &self,
        from: Position,
        end: Position,
        max_bytes: u64,
    ) -> Result<Vec<Record>, ReadError> {
        match self.log.read_from_memory(from, end, max_bytes) {
            Some(records) => Ok(records),
            None => self.read(move |store| store.log.read_range(from, end, max_bytes)).await,
        }
    }

    /// Finishes a purge that a crash interrupted between its mark and its release.
    pub(crate) fn finish_purge(&self) -> io::Result<()> {
        let Some(purged) = self.purged()? else { return Ok(()) };
        let kept = position(purged.index).next().ok_or_else(|| unreadable("the purge mark"))?;
        // Later writes wait for it in the log's queue; nobody has to wait here.
        self.note(self.log.release_to(kept).map_err(io::Error::other)?);
        self.write_soon();
        Ok(())
    }

    /// Nobody waits for this write. If it fails, those who wait for the log have to know.
    fn note(&self, ticket: Ticket) {
        let settlements = self.settlements.clone();
        ticket.on_settled(move |result: Settled| count(&settlements, &result));
    }

    /// Lets a log without threads write what is queued.
    fn write_soon(&self) {
        if let Some(pump) = &self.pump {
            pump.work.notify_one();
        }
    }

    /// Waits until a write is durable.
    async fn settled(&self, ticket: Ticket) -> io::Result<()> {
        self.write_soon();
        ticket.await.map_err(io::Error::other)
    }

    /// Notes, durably, that the end which the log once lost has been passed.
    pub(crate) async fn settle_suspect(&self) -> io::Result<()> {
        self.settled(self.log.settle_suspect().map_err(io::Error::other)?).await
    }

    /// The first entry that may have been lost with the end of the log, as long as nobody settled it.
    pub(crate) fn suspect(&self) -> Option<LogIndex> {
        self.log.suspect().map(|suspect| log_index(suspect.first_position))
    }

    /// Appends a batch. While the queue or the disk is full it waits: the library takes an error for the end.
    async fn append_waiting(&self, first: Position, payloads: &[Vec<u8>]) -> io::Result<Ticket> {
        let mut waited = Duration::ZERO;
        let mut settled = self.settlements.subscribe();
        loop {
            match self.log.append(first, payloads) {
                Ok(ticket) => return Ok(ticket),
                Err(AppendError::QueueFull { .. }) => {
                    self.write_soon();
                    settled.changed().await.map_err(io::Error::other)?;
                }
                Err(AppendError::DiskFull { .. } | AppendError::NoSegment(_))
                    if waited < self.full_disk_patience =>
                {
                    tokio::time::sleep(FULL_DISK_INTERVAL).await;
                    waited += FULL_DISK_INTERVAL;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    /// Where the first of some entries goes. The first entry that a log ever gets decides where it begins.
    fn place(&self, first: LogIndex) -> io::Result<Position> {
        let at = position(first);
        let untouched = self.log.first() == self.log.next() && self.log.state(state::PURGED).is_none();
        if untouched && at > self.log.next() {
            self.note(self.log.release_to(at).map_err(io::Error::other)?);
        }
        Ok(at)
    }
}

impl RaftLogStorage<Group> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> io::Result<LogState<Group>> {
        Ok(LogState {
            last_purged_log_id: self.purged()?.map(raft::raft_log_id),
            last_log_id: self.read(Self::last).await?.map(raft::raft_log_id),
        })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        LogReader::new(self.clone())
    }

    async fn save_vote(&mut self, vote: &RaftVoteValue) -> io::Result<()> {
        if makes(Mistake::ForgottenVote) {
            return Ok(());
        }
        let value = state::encode_vote(raft::vote(vote));
        let ticket = self.log.set_state(state::VOTE, &value).map_err(io::Error::other)?;
        self.settled(ticket).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Group>) -> io::Result<()>
    where
        I: IntoIterator<Item = RaftEntry> + Send,
        I::IntoIter: Send,
    {
        let mut batches = Batches::default();
        for entry in entries {
            batches.add(&raft::entry(entry));
        }
        let Some(first) = batches.first else {
            callback.io_completed(Ok(()));
            return Ok(());
        };
        let mut at = self.place(first)?;
        let mut last = None;
        for batch in &batches.batches {
            let ticket = self.append_waiting(at, batch).await?;
            at = ticket.positions().end;
            last = Some(ticket);
        }
        let settlements = self.settlements.clone();
        // Frames become durable in order: the last batch speaks for all.
        last.expect("there is an entry").on_settled(move |result: Settled| {
            count(&settlements, &result);
            callback.io_completed(result.map_err(io::Error::other));
        });
        self.write_soon();
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<RaftLogId>) -> io::Result<()> {
        let kept = last.map_or(self.log.first(), |last| Position::new(last.index + 1));
        let from = kept.min(self.log.next());
        // Not waited for: whatever is written later becomes durable after it.
        self.note(self.log.truncate_from(from).map_err(io::Error::other)?);
        self.write_soon();
        Ok(())
    }

    async fn purge(&mut self, upto: RaftLogId) -> io::Result<()> {
        // The mark first: with it, an interrupted release is finished at the next opening.
        let value = state::encode_purged(raft::entry_id(&upto));
        self.note(self.log.set_state(state::PURGED, &value).map_err(io::Error::other)?);
        self.finish_purge()
    }
}

/// Encoded entries, in batches that fit into frames.
#[derive(Default)]
struct Batches {
    first: Option<LogIndex>,
    batches: Vec<Vec<Vec<u8>>>,
    room: usize,
}

impl Batches {
    fn add(&mut self, entry: &Entry) {
        self.first.get_or_insert(entry.id.index);
        let bytes = entry::encode(entry);
        let fits = bytes.len() <= self.room
            && self.batches.last().is_some_and(|batch| batch.len() < MAX_RECORDS_PER_BATCH);
        if !fits {
            self.batches.push(Vec::new());
            self.room = MAX_APPEND_BYTES;
        }
        self.room = self.room.saturating_sub(bytes.len());
        self.batches.last_mut().expect("a batch was just begun").push(bytes);
    }
}

impl Pump {
    fn start(log: Log) -> Self {
        let work = Arc::new(Notify::new());
        let told = work.clone();
        let task = tokio::spawn(async move {
            loop {
                told.notified().await;
                let takes = log.write_takes();
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                // A fault has poisoned the log and told everybody who waits.
                if log.flush().is_err() {
                    return;
                }
                // What fails here does not concern what is appended: the log tries again, or is poisoned and says so next time.
                let _ = log.maintain();
            }
        });
        Self { work, task: task.abort_handle() }
    }
}

fn count(settlements: &watch::Sender<Settlements>, result: &Settled) {
    settlements.send_modify(|seen| {
        seen.count += 1;
        if let (Err(error), None) = (result, &seen.failure) {
            seen.failure = Some(error.to_string().into());
        }
    });
}

fn unreadable(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} in the log is not of a known form"))
}

#[cfg(test)]
mod failing;
#[cfg(test)]
mod tests;
