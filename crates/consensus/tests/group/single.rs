//! A group of one: the same path, and not a sync more than the log needs.

use std::sync::Arc;

use bytes::Bytes;
use gapless_consensus::limits::MAX_ENTRY_BYTES;
use gapless_consensus::{EntriesError, Node, Refusal, Replicator};
use gapless_log::io::memory::MemoryIo;
use gapless_types::LogIndex;

use crate::harness::{entry, eventually, leads, open_alone};
use crate::ledger::{Ledger, Survives};

async fn open(io: &MemoryIo, survives: &Survives) -> (Node, Arc<Ledger>) {
    let ledger = Ledger::new(survives);
    let node = open_alone(Arc::new(io.clone()), ledger.clone()).await.unwrap();
    leads(&node).await;
    (node, ledger)
}

#[tokio::test(start_paused = true)]
async fn what_one_voter_acknowledged_is_dispatched_again_after_a_restart() {
    let (io, survives) = (MemoryIo::new(), Survives::default());
    let (node, ledger) = open(&io, &survives).await;
    let mut last = None;
    for number in 0..10 {
        let index = node.propose(entry(number)).await.unwrap();
        assert!(Some(index) > last, "indexes rise");
        last = Some(index);
    }
    let before = ledger.entries();
    node.close().await.unwrap();

    let (node, ledger) = open(&io, &survives).await;
    let after = ledger.entries();
    assert_eq!(after[..before.len()], before[..], "NUM-3: the same entries at the same indexes");
    assert_eq!(ledger.proposals(), (0..10).map(entry).collect::<Vec<_>>());
    let term = node.leadership().borrow().term;
    node.close().await.unwrap();

    let (node, _) = open(&io, &survives).await;
    assert!(node.leadership().borrow().term > term, "a leader that was away is elected again");
    node.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_what_the_machine_has_not_kept_is_dispatched_again() {
    let (io, survives) = (MemoryIo::new(), Survives::default());
    let (node, ledger) = open(&io, &survives).await;
    for number in 0..5 {
        node.propose(entry(number)).await.unwrap();
    }
    ledger.checkpoint();
    for number in 5..8 {
        node.propose(entry(number)).await.unwrap();
    }
    node.close().await.unwrap();

    // The ledger refuses an entry that does not follow the last one it kept.
    let (node, ledger) = open(&io, &survives).await;
    assert_eq!(ledger.proposals(), (0..8).map(entry).collect::<Vec<_>>());
    node.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lone_proposal_costs_one_sync_and_many_in_flight_share_it() {
    let (io, survives) = (MemoryIo::new(), Survives::default());
    let (node, ledger) = open(&io, &survives).await;
    let syncs = || io.counters().syncs + io.counters().directory_syncs;

    let before = syncs();
    for number in 0..20 {
        node.propose(entry(number)).await.unwrap();
    }
    assert_eq!(syncs() - before, 20, "one proposal after the other: one sync each, and none besides");

    let before = syncs();
    let tickets: Vec<_> = (0..256).map(|number| node.propose(entry(number))).collect();
    for ticket in tickets {
        ticket.await.unwrap();
    }
    let shared = syncs() - before;
    assert!(shared <= 2, "256 proposals in flight took {shared} syncs");
    assert_eq!(ledger.proposals().len(), 276);
    node.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn entries_keep_their_bytes_and_what_is_too_long_is_refused() {
    let (io, survives) = (MemoryIo::new(), Survives::default());
    let (node, ledger) = open(&io, &survives).await;
    let longest = Bytes::from(vec![7; MAX_ENTRY_BYTES]);
    let entries = [Bytes::new(), Bytes::from(vec![0; 100_000]), longest.clone(), longest];
    let tickets: Vec<_> = entries.iter().map(|entry| node.propose(entry.clone())).collect();
    for ticket in tickets {
        ticket.await.unwrap();
    }
    assert_eq!(ledger.proposals(), entries);

    let too_long = node.propose(Bytes::from(vec![0; MAX_ENTRY_BYTES + 1])).await;
    assert_eq!(too_long, Err(Refusal::TooLarge { bytes: MAX_ENTRY_BYTES + 1, limit: MAX_ENTRY_BYTES }));
    let statistics = node.statistics();
    assert_eq!((statistics.proposed, statistics.refused), (5, 1));

    node.close().await.unwrap();
    assert_eq!(node.propose(entry(1)).await, Err(Refusal::Stopped));
    assert!(node.leadership().borrow().stopped.is_some());
}

#[tokio::test(start_paused = true)]
async fn progress_read_point_and_entries_say_how_far_it_is() {
    let (io, survives) = (MemoryIo::new(), Survives::default());
    let (node, ledger) = open(&io, &survives).await;
    let mut last = LogIndex::FIRST;
    for number in 0..30 {
        last = node.propose(entry(number)).await.unwrap();
    }
    assert_eq!(node.read_point().await.unwrap(), last);
    eventually("everything is durable and committed", || {
        let progress = *node.progress().borrow();
        [progress.appended, progress.durable, progress.committed, progress.dispatched] == [Some(last); 4]
    })
    .await;

    let mut read = Vec::new();
    let mut from = LogIndex::FIRST;
    while let Ok(found) = node.entries(from, LogIndex::MAX, 64).await {
        assert!(!found.is_empty());
        from = found.last().unwrap().index.next().unwrap();
        read.extend(found);
    }
    let kept = ledger.entries();
    assert_eq!(read.len(), kept.len());
    for (read, kept) in read.iter().zip(&kept) {
        assert_eq!((read.index.get(), read.term.get()), (kept.0, kept.1));
    }
    assert!(matches!(node.entries(from, LogIndex::MAX, 64).await, Err(EntriesError::NotYet(_))));
    node.close().await.unwrap();
}
