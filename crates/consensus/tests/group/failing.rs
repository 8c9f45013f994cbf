//! A log that fails while nobody waits for it: the node stops by itself, rather than go on with another log than it believes to have. So
//! does one whose machine cannot act on an entry.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use gapless_consensus::message::{AppendRequest, AppendResponse, Entry, EntryId, Vote};
use gapless_consensus::network::{Channel, Nobody, Route};
use gapless_consensus::{
    CommittedBody, Identity, Members, Node, ReadPointError, Refusal, Replicator, Start, Term,
};
use gapless_log::io::faulty::{Crash, FaultyIo, OperationKind};
use gapless_types::LogIndex;

use crate::harness::{address, config, entry, eventually, id, identity, leads, open_alone};
use crate::ledger::{BEYOND_IT, Ledger, Survives};

async fn assert_stops(node: &Node) {
    eventually("the node stops", || node.leadership().borrow().stopped.is_some()).await;
    let stopped = node.leadership().borrow().stopped.clone().unwrap();
    assert!(stopped.reason.contains("log"), "{stopped}");
    assert_eq!(node.propose(entry(0)).await, Err(Refusal::Stopped));
    assert!(matches!(node.read_point().await, Err(ReadPointError::Stopped(_))));
    node.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_purge_fails_stops_though_nothing_else_is_written() {
    for fault in [OperationKind::Write, OperationKind::Sync] {
        let (disk, survives) = (FaultyIo::new(1), Survives::default());
        let node = open_alone(Arc::new(disk.clone()), Ledger::new(&survives)).await.unwrap();
        leads(&node).await;
        for number in 0..20 {
            node.propose(entry(number)).await.unwrap();
        }
        // With a snapshot there, the log alone is written.
        let last = node.snapshot().await.unwrap();
        disk.fail_at(disk.operations() + 1, fault);
        let _ = node.purge_to(last).await;
        assert_stops(&node).await;
        disk.restart(Crash::LoseAll);
        let ledger = Ledger::new(&survives);
        let node = open_alone(Arc::new(disk), ledger.clone()).await.unwrap();
        leads(&node).await;
        assert_eq!(ledger.proposals(), (0..20).map(entry).collect::<Vec<_>>());
        node.close().await.unwrap();
    }
}

/// Speaks to a node as a leader does.
async fn say(node: &Node, leader: u64, request: AppendRequest) -> Option<AppendResponse> {
    let Identity { cluster, group, node: to } = node.identity();
    let channel = Channel::Entries;
    let route = Route { cluster, group, from: id(leader), to, address: address(to), channel };
    let mut answers = node.inbound().append(&route, stream::iter([request]).boxed()).await.ok()?;
    answers.next().await?.ok()
}

fn at(term: u64, index: u64) -> EntryId {
    EntryId { term: Term::new(term), index: LogIndex::new(index) }
}

fn request(term: u64, leader: u64, previous: EntryId, entries: Vec<Entry>) -> AppendRequest {
    let vote = Vote { term: Term::new(term), node: id(leader), committed: true };
    AppendRequest { vote, previous: Some(previous), entries, committed: None }
}

#[tokio::test(start_paused = true)]
async fn a_follower_whose_truncation_fails_stops_though_nothing_else_is_written() {
    for fault in [OperationKind::Write, OperationKind::Sync] {
        let disk = FaultyIo::new(2);
        let members = Members::voting((1..=3).map(|node| (id(node), address(id(node))))).unwrap();
        let config = config(1, 2, Start::Found(members));
        assert_eq!(config.identity, identity(1));
        let ledger = Ledger::new(&Survives::default());
        let node = Node::open(Arc::new(disk.clone()), Arc::new(Nobody), ledger, config).await.unwrap();
        let number = |index| Entry { id: at(5, index), body: CommittedBody::Entry(Bytes::from("entry")) };
        let appended = say(&node, 2, request(5, 2, at(0, 0), (1..=4).map(number).collect())).await;
        assert_eq!(appended, Some(AppendResponse::Accepted(Some(at(5, 4)))));
        // Another one leads, and is known to: its vote is on the disk.
        assert!(say(&node, 3, request(6, 3, at(5, 2), Vec::new())).await.is_some());
        disk.fail_at(disk.operations() + 1, fault);
        // It has another entry there, so that ours is void.
        let _ = say(&node, 3, request(6, 3, at(6, 3), Vec::new())).await;
        assert!(!disk.injected().is_empty() || node.progress().borrow().appended == Some(LogIndex::new(2)));
        assert_stops(&node).await;
        assert!(!disk.injected().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_stops_in_front_of_an_entry_that_its_machine_cannot_act_on_and_says_why() {
    let (disk, survives) = (FaultyIo::new(3), Survives::default());
    for is_again in [false, true] {
        let ledger = Ledger::new(&survives);
        let node = open_alone(Arc::new(disk.clone()), ledger.clone()).await.unwrap();
        if !is_again {
            leads(&node).await;
            node.propose(entry(0)).await.unwrap();
            let (beyond, behind) = (node.propose(Bytes::from_static(BEYOND_IT)), node.propose(entry(1)));
            assert!(beyond.await.is_err() && behind.await.is_err(), "neither was dispatched");
        }
        eventually("the node stops", || node.leadership().borrow().stopped.is_some()).await;
        let stopped = node.leadership().borrow().stopped.clone().unwrap();
        assert!(stopped.reason.contains("beyond this ledger"), "{stopped}");
        assert_eq!(ledger.proposals(), [entry(0)], "nothing behind it was dispatched");
        node.kill().await;
        disk.restart(Crash::LoseAll);
    }
}
