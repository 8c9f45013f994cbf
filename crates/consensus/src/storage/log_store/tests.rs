//! What is appended, dispatched and put into batches.

use std::path::Path;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use gapless_log::Options;
use gapless_log::io::memory::MemoryIo;
use openraft::RaftLogReader;

use super::*;
use crate::identity::Term;
use crate::machine::CommittedBody;

fn open(drive: Drive) -> LogStore {
    let options = Options { drive, first_position: Position::new(0), ..Options::replicated() };
    let (log, _) = Log::open(Arc::new(MemoryIo::new()), Path::new("log"), options).unwrap();
    LogStore::new(log, drive, Duration::ZERO)
}

fn entry(index: u64, bytes: usize) -> Entry {
    let id = EntryId { term: Term::new(1), index: LogIndex::new(index) };
    Entry { id, body: CommittedBody::Entry(Bytes::from(vec![7; bytes])) }
}

#[tokio::test(start_paused = true)]
async fn what_is_appended_can_be_sent_at_once_and_dispatched_only_when_it_is_durable() {
    let mut store = open(Drive::Caller);
    let entries: Vec<RaftEntry> = (0..3).map(|index| raft::raft_entry(entry(index, 10))).collect();
    // Nothing is written before this task rests: the log has no threads.
    store.append(entries.clone(), IOFlushed::noop()).await.unwrap();
    let mut reader = store.get_log_reader().await;
    assert_eq!(reader.limited_get_log_entries(0, 3).await.unwrap(), entries);
    let mut dispatched = Box::pin(reader.entries_stream(0..3).await);
    assert!(dispatched.next().now_or_never().is_none(), "WM-1: nothing is dispatched before it is durable");
    store.log.flush().unwrap();
    let dispatched: Vec<_> = dispatched.map(Result::unwrap).collect().await;
    assert_eq!(dispatched, entries);
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_is_not_followed_by_what_is_left() {
    let mut store = open(Drive::Caller);
    let entries: Vec<RaftEntry> = (0..6).map(|index| raft::raft_entry(entry(index, 10))).collect();
    store.append(entries.clone(), IOFlushed::noop()).await.unwrap();
    store.log.flush().unwrap();
    store.purge(entries[3].log_id).await.unwrap();
    let mut reader = store.get_log_reader().await;
    assert_eq!(reader.limited_get_log_entries(4, 6).await.unwrap(), entries[4..]);
    assert_eq!(reader.limited_get_log_entries(2, 6).await.unwrap(), [], "entry 4 does not follow entry 1");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_failed_dispatches_nothing_more_and_says_so() {
    let mut store = open(Drive::Caller);
    store.append([raft::raft_entry(entry(0, 10))], IOFlushed::noop()).await.unwrap();
    let mut reader = store.get_log_reader().await;
    let mut dispatched = Box::pin(reader.entries_stream(0..1).await);
    assert!(dispatched.next().now_or_never().is_none());
    store.log.abandon();
    assert!(dispatched.next().await.unwrap().is_err());
    drop(dispatched);
    // Nor to somebody who comes when the end of it is lost.
    let mut late = Box::pin(reader.entries_stream(0..2).await);
    assert!(late.next().await.unwrap().is_err());
}

#[test]
fn entries_go_into_batches_that_fit_a_frame() {
    let mut batches = Batches::default();
    for index in 0..10 {
        batches.add(&entry(index, 5 << 20));
    }
    assert_eq!(batches.first, Some(LogIndex::new(0)));
    let sizes: Vec<usize> = batches.batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 2, 2, 2]);
}
