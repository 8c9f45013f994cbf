//! The consensus library's own storage tests, on three disks: real files, a log that is reopened before every read, and a disk that
//! writes and reads in pieces.

use std::fmt::Debug;
use std::io;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gapless_log::io::Io;
use gapless_log::io::faulty::FaultyIo;
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::real::RealIo;
use gapless_log::{Drive, Log, Options};
use gapless_types::{GroupId, Position};
use openraft::StorageError;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::testing::log::{StoreBuilder, Suite};

use super::control_file::ControlFile;
use super::log_reader::LogReader;
use super::log_store::LogStore;
use super::state_machine::StateMachine;
use crate::format::control::{Control, Standing};
use crate::identity::{ClusterId, Identity, NodeId};
use crate::raft::{Group, RaftEntry, RaftLogId, RaftVoteValue, seeded};
use crate::watermarks::Watermarks;

#[allow(dead_code, unreachable_pub, reason = "shared with the tests outside, which use all of it")]
#[path = "../../tests/group/ledger.rs"]
mod ledger;

fn options(drive: Drive) -> Options {
    Options {
        drive,
        first_position: Position::new(0),
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        hot_bytes: 4096,
        ..Options::replicated()
    }
}

fn open_store(io: &Arc<dyn Io>, dir: &Path, drive: Drive) -> LogStore {
    let (log, _) = Log::open(io.clone(), dir.join("log"), options(drive)).unwrap();
    let store = LogStore::new(log, drive, Duration::ZERO);
    store.finish_purge().unwrap();
    store
}

fn state_machine(io: &Arc<dyn Io>, dir: &Path, store: &LogStore) -> StateMachine {
    let cluster = ClusterId::from_bytes([7; 16]);
    let identity = Identity { cluster, group: GroupId::FIRST, node: NodeId::new(0) };
    let content = Control {
        identity,
        log: store.log.id(),
        changes: Vec::new(),
        snapshot: Standing::default(),
        installing: None,
    };
    let control = ControlFile::create(io.clone(), dir, content).unwrap();
    let machine = ledger::Ledger::with_gaps();
    StateMachine::new(machine, control, Standing::default(), Arc::new(Watermarks::new(None))).allow_gaps()
}

struct RealFiles;

impl StoreBuilder<Group, LogStore, StateMachine, tempfile::TempDir> for RealFiles {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, StateMachine), StorageError<Group>> {
        let dir = tempfile::tempdir().unwrap();
        let io: Arc<dyn Io> = Arc::new(RealIo);
        let store = open_store(&io, dir.path(), Drive::Threads);
        let state_machine = state_machine(&io, dir.path(), &store);
        Ok((dir, store, state_machine))
    }
}

struct Piecemeal;

impl StoreBuilder<Group, LogStore, StateMachine> for Piecemeal {
    async fn build(&self) -> Result<((), LogStore, StateMachine), StorageError<Group>> {
        let disk = FaultyIo::new(11);
        disk.short_writes(30);
        disk.short_reads(30);
        disk.interrupts(10);
        let io: Arc<dyn Io> = Arc::new(disk);
        let store = open_store(&io, Path::new("node"), Drive::Caller);
        let state_machine = state_machine(&io, Path::new("node"), &store);
        Ok(((), store, state_machine))
    }
}

/// A log that is closed and opened again before every read.
struct Reopened {
    io: Arc<dyn Io>,
    dir: PathBuf,
    store: LogStore,
}

impl Reopened {
    fn reopen(&mut self) {
        self.store.log.clone().close().unwrap();
        self.store = open_store(&self.io, &self.dir, Drive::Caller);
    }
}

impl RaftLogStorage<Group> for Reopened {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> io::Result<LogState<Group>> {
        self.reopen();
        self.store.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reopen();
        self.store.get_log_reader().await
    }

    async fn save_vote(&mut self, vote: &RaftVoteValue) -> io::Result<()> {
        self.store.save_vote(vote).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Group>) -> io::Result<()>
    where
        I: IntoIterator<Item = RaftEntry> + Send,
        I::IntoIter: Send,
    {
        self.store.append(entries, callback).await
    }

    async fn truncate_after(&mut self, last: Option<RaftLogId>) -> io::Result<()> {
        self.store.truncate_after(last).await
    }

    async fn purge(&mut self, upto: RaftLogId) -> io::Result<()> {
        self.store.purge(upto).await
    }
}

struct ReopenedBeforeEveryRead;

impl StoreBuilder<Group, Reopened, StateMachine> for ReopenedBeforeEveryRead {
    async fn build(&self) -> Result<((), Reopened, StateMachine), StorageError<Group>> {
        let io: Arc<dyn Io> = Arc::new(MemoryIo::new());
        let dir = PathBuf::from("node");
        let store = open_store(&io, &dir, Drive::Caller);
        let state_machine = state_machine(&io, &dir, &store);
        Ok(((), Reopened { io, dir, store }, state_machine))
    }
}

fn run<Done: Debug>(suite: impl Future<Output = Result<(), Done>>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(seeded(1, suite)).unwrap();
}

#[test]
fn the_storage_suite_passes_on_real_files() {
    // Time runs: threads of the log do not wait for a paused clock.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(seeded(1, Suite::test_all(RealFiles))).unwrap();
}

#[test]
fn the_storage_suite_passes_when_the_log_is_reopened_before_every_read() {
    run(Suite::test_all(ReopenedBeforeEveryRead));
}

#[test]
fn the_storage_suite_passes_on_a_disk_that_writes_and_reads_in_pieces() {
    run(Suite::test_all(Piecemeal));
}
