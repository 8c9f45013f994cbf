//! Nodes on real files, with the log's own threads and the clock of the machine. Conditions are waited for, never time.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gapless_consensus::network::switchboard::Switchboard;
use gapless_consensus::network::{Network, Nobody};
use gapless_consensus::{ClusterId, Config, Identity, Members, Node, NodeId, Replicator, Settings, Start};
use gapless_log::Options;
use gapless_log::io::real::RealIo;
use gapless_types::GroupId;

#[allow(dead_code, reason = "shared with other tests, which use all of it")]
#[path = "group/ledger.rs"]
mod ledger;

use ledger::{Ledger, Survives};

/// Who leads goes on leading, also if the machine holds everybody up for a while.
const NOBODY_IS_THAT_SLOW: Duration = Duration::from_secs(3);

fn config(dir: &Path, node: u64, members: &Members) -> Config {
    let identity =
        Identity { cluster: ClusterId::from_bytes([1; 16]), group: GroupId::FIRST, node: NodeId::new(node) };
    let log = Options { first_segment_bytes: 1 << 20, segment_bytes: 1 << 20, ..Options::replicated() };
    let settings = Settings { election_timeout: NOBODY_IS_THAT_SLOW, ..Settings::default() };
    Config {
        log,
        settings,
        ..Config::new(identity, dir.join(node.to_string()), Start::Found(members.clone()))
    }
}

async fn open(dir: &Path, node: u64, members: &Members, network: Arc<dyn Network>) -> (Node, Arc<Ledger>) {
    let ledger = Ledger::new(&Survives::default());
    let config = config(dir, node, members);
    (Node::open(Arc::new(RealIo), network, ledger.clone(), config).await.unwrap(), ledger)
}

async fn leads(node: &Node) {
    let mut leadership = node.leadership();
    let ready = leadership.wait_for(|now| now.is_ready());
    tokio::time::timeout(Duration::from_secs(120), ready).await.expect("a leader in time").unwrap();
}

fn entry(number: u64) -> Bytes {
    Bytes::from(format!("entry {number}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_voter_keeps_what_it_acknowledged_and_shares_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let members = Members::alone(NodeId::new(1), "here").unwrap();
    let (node, _) = open(dir.path(), 1, &members, Arc::new(Nobody)).await;
    leads(&node).await;
    for number in 0..20 {
        node.propose(entry(number)).await.unwrap();
    }
    let before = node.statistics().log;
    let tickets: Vec<_> = (20..1020).map(|number| node.propose(entry(number))).collect();
    for ticket in tickets {
        ticket.await.unwrap();
    }
    let after = node.statistics().log;
    let records = after.records - before.records;
    let syncs = (after.syncs - after.certifying_frames) - (before.syncs - before.certifying_frames);
    assert_eq!(records, 1000);
    assert!(syncs < records, "{records} entries in flight took {syncs} syncs");
    node.close().await.unwrap();

    let (node, ledger) = open(dir.path(), 1, &members, Arc::new(Nobody)).await;
    leads(&node).await;
    assert_eq!(ledger.proposals(), (0..1020).map(entry).collect::<Vec<_>>());
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_on_real_files_agree_and_survive_a_leader() {
    let dir = tempfile::tempdir().unwrap();
    let members = Members::voting((1..=3).map(|node| (NodeId::new(node), node.to_string()))).unwrap();
    let board = Switchboard::new(1);
    let mut nodes = Vec::new();
    for number in 1..=3 {
        let (node, ledger) = open(dir.path(), number, &members, Arc::new(board.clone())).await;
        board.attach(NodeId::new(number), node.inbound());
        nodes.push((node, ledger));
    }
    let leader = leader_of(&nodes).await;
    let tickets: Vec<_> = (0..200).map(|number| nodes[leader].0.propose(entry(number))).collect();
    for ticket in tickets {
        ticket.await.unwrap();
    }
    let (node, _) = nodes.remove(leader);
    board.detach(node.identity().node);
    node.close().await.unwrap();

    let leader = leader_of(&nodes).await;
    let index = nodes[leader].0.propose(entry(200)).await.unwrap();
    for (node, ledger) in &nodes {
        let mut progress = node.progress();
        let caught_up = progress.wait_for(|now| now.dispatched >= Some(index));
        tokio::time::timeout(Duration::from_secs(120), caught_up).await.expect("it catches up").unwrap();
        // The mark moves first: the machine is just being given the entry.
        for _ in 0..10_000 {
            if ledger.last() >= Some(index.get()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ledger.proposals(), (0..=200).map(entry).collect::<Vec<_>>());
    }
    for (node, _) in &nodes {
        node.close().await.unwrap();
    }
}

/// Waits until one of them leads.
async fn leader_of(nodes: &[(Node, Arc<Ledger>)]) -> usize {
    let waiting = nodes.iter().map(|(node, _)| Box::pin(leads(node)));
    futures_util::future::select_all(waiting).await.1
}
