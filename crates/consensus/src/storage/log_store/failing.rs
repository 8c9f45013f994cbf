//! Writes that nobody waits for, on a disk on which they fail: whoever waits for the log is told, nothing more is taken, and the log is
//! found as it was before, or as it would be after.

use std::path::Path;

use bytes::Bytes;
use gapless_log::Options;
use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, FaultyIo, OperationKind};

use super::*;
use crate::identity::Term;
use crate::machine::CommittedBody;

const ENTRIES: u64 = 10;

fn open(disk: &FaultyIo) -> LogStore {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let options = Options {
        drive: Drive::Caller,
        first_position: Position::new(0),
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        ..Options::replicated()
    };
    let (log, _) = Log::open(io, Path::new("log"), options).unwrap();
    LogStore::new(log, Drive::Caller, Duration::ZERO)
}

fn at(index: u64) -> RaftLogId {
    raft::raft_log_id(EntryId { term: Term::new(1), index: LogIndex::new(index) })
}

fn entry(index: u64) -> RaftEntry {
    let id = EntryId { term: Term::new(1), index: LogIndex::new(index) };
    raft::raft_entry(Entry { id, body: CommittedBody::Entry(Bytes::from("entry")) })
}

/// A store with entries that are durable.
async fn filled(disk: &FaultyIo) -> LogStore {
    let mut store = open(disk);
    store.append((0..ENTRIES).map(entry), IOFlushed::noop()).await.unwrap();
    store.log.flush().unwrap();
    store
}

/// The failure is told, the log takes nothing more, and a reopened one holds what it held before or what it should hold. A sync that
/// failed may have carried over everything.
async fn assert_ended(disk: &FaultyIo, mut store: LogStore, fault: OperationKind) -> LogStore {
    let after = (store.log.first().get(), store.log.next().get());
    let mut settled = store.settlements.subscribe();
    settled.wait_for(|seen| seen.failure.is_some()).await.unwrap();
    let refused = store.append([entry(after.1)], IOFlushed::noop()).await;
    assert!(refused.is_err(), "nothing is written behind what failed");
    drop(store);
    disk.cancel_faults();
    disk.restart(Crash::LoseAll);
    let reopened = open(disk);
    let held = (reopened.log.first().get(), reopened.log.next().get());
    let may_be = held == (0, ENTRIES) || held == after && fault == OperationKind::Sync;
    assert!(may_be, "{fault:?} failed, and the log holds {held:?}");
    reopened
}

#[tokio::test(start_paused = true)]
async fn a_truncation_that_fails_is_told_and_ends_the_log() {
    for fault in [OperationKind::Write, OperationKind::Sync] {
        let disk = FaultyIo::new(1);
        let mut store = filled(&disk).await;
        disk.fail_at(disk.operations() + 1, fault);
        store.truncate_after(Some(at(4))).await.unwrap();
        assert_eq!(store.log.next(), Position::new(5), "the library believes so");
        assert_ended(&disk, store, fault).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_that_fails_is_told_and_ends_the_log() {
    for fault in [OperationKind::Write, OperationKind::Sync] {
        let disk = FaultyIo::new(2);
        let mut store = filled(&disk).await;
        disk.fail_at(disk.operations() + 1, fault);
        store.purge(at(4)).await.unwrap();
        assert_eq!(store.log.first(), Position::new(5), "the library believes so");
        let reopened = assert_ended(&disk, store, fault).await;
        let marked = reopened.purged().unwrap().is_some();
        assert!(marked || reopened.log.first() == Position::new(0), "TRUNC-1: cut without a mark");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_while_an_interrupted_purge_is_finished_is_told_and_ends_the_log() {
    for fault in [OperationKind::Write, OperationKind::Sync] {
        let disk = FaultyIo::new(3);
        let store = filled(&disk).await;
        // The mark of a purge, and then the power went.
        let mark = state::encode_purged(raft::entry_id(&at(4)));
        store.settled(store.log.set_state(state::PURGED, &mark).unwrap()).await.unwrap();
        drop(store);
        disk.restart(Crash::LoseAll);
        let store = open(&disk);
        disk.fail_at(disk.operations() + 1, fault);
        store.finish_purge().unwrap();
        let reopened = assert_ended(&disk, store, fault).await;
        reopened.finish_purge().unwrap();
        reopened.log.flush().unwrap();
        assert_eq!(reopened.log.first(), Position::new(5), "the next opening finishes it");
    }
}
