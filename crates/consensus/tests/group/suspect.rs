//! Nodes that lost the end of their log: they neither vote nor lead until they have passed it, with one exception.

use std::path::Path;
use std::time::Duration;

use gapless_consensus::message::{EntryId, Request, Response, Vote, VoteRequest};
use gapless_consensus::network::{Channel, Route};
use gapless_consensus::{Identity, NodeId, Replicator, Term};
use gapless_log::{Depth, inspect};
use gapless_types::LogIndex;

use crate::harness::{Cluster, address, entry, eventually, identity};

/// More than any election takes.
const LONG: Duration = Duration::from_secs(30);

/// Takes from the disk of a node that is not running everything from an entry on, as a disk does that never wrote what it synced.
fn lose_from(cluster: &Cluster, node: NodeId, index: LogIndex) {
    let io = &cluster.seats[&node].io;
    let dir = format!("node-{node}/log");
    let mut found = None;
    let survey = inspect(io, Path::new(&dir), Depth::EveryFrame, &mut |frame| {
        let holds = |position: u64, kind: u8| position == index.get() && kind == 1;
        if frame.records().any(|record| holds(record.position.get(), record.kind as u8)) {
            found = Some((frame.segment, u64::from(frame.offset)));
        }
    });
    let (segment, offset) = found.unwrap();
    assert_eq!(survey.unwrap().segments.last().map(|last| last.number), Some(segment));
    let path = Path::new(&dir).join(format!("{:010}.segment", segment.get()));
    let bytes = io.bytes_of(&path).unwrap();
    // Of its frame only the header is there.
    let begin = offset + 64;
    io.overwrite(&path, begin, &vec![0; bytes.len() - usize::try_from(begin).unwrap()]).unwrap();
}

fn suspect(cluster: &Cluster, node: NodeId) -> Option<LogIndex> {
    cluster.node(node).statistics().suspect
}

/// A group in which the first of the nodes returned leads, the second has all that the first has, and the third lacks the last
/// entry, which is acknowledged all the same. All are down.
async fn last_entry_on_two(seed: u64) -> (Cluster, [NodeId; 3], LogIndex) {
    let mut cluster = Cluster::found(3, seed).await;
    for number in 0..5 {
        cluster.write(entry(number)).await;
    }
    cluster.agree().await;
    let leader = cluster.leader().await;
    let mut others = cluster.running().filter(|&node| node != leader);
    let (second, third) = (others.next().unwrap(), others.next().unwrap());
    drop(others);
    cluster.board.isolate(third);
    let index = cluster.node(leader).propose(entry(5)).await.unwrap();
    for node in [leader, second, third] {
        cluster.kill(node).await;
    }
    cluster.board.heal();
    (cluster, [leader, second, third], index)
}

async fn assert_nobody_leads(cluster: &Cluster) {
    tokio::time::sleep(LONG).await;
    for node in cluster.running() {
        let leadership = cluster.node(node).leadership().borrow().clone();
        assert!(!leadership.is_self && leadership.stopped.is_none(), "ACK-1: {leadership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_tail_helps_nobody_to_lead_until_it_has_passed_it() {
    for seed in 60..65 {
        let (mut cluster, [whole, torn, behind], index) = last_entry_on_two(seed).await;
        lose_from(&cluster, torn, index);
        cluster.start(torn).await;
        cluster.start(behind).await;
        // With its vote, whoever is behind would lead, and the entry would be gone.
        assert_nobody_leads(&cluster).await;
        assert_eq!(suspect(&cluster, torn), Some(index));
        assert_eq!(suspect(&cluster, behind), None);

        // It does not forget.
        cluster.kill(torn).await;
        cluster.start(torn).await;
        assert_nobody_leads(&cluster).await;
        assert_eq!(suspect(&cluster, torn), Some(index));

        cluster.start(whole).await;
        assert_eq!(
            cluster.leader().await,
            whole,
            "the others cannot lead: one lacks entries, one is suspect"
        );
        eventually("it has passed what it lost", || suspect(&cluster, torn).is_none()).await;
        cluster.agree().await;
        assert_eq!(cluster.ledger(torn).proposals(), (0..6).map(entry).collect::<Vec<_>>());

        // Nothing is suspect after another restart, and it votes again.
        cluster.kill(torn).await;
        cluster.start(torn).await;
        assert_eq!(suspect(&cluster, torn), None);
        cluster.kill(whole).await;
        cluster.write(entry(6)).await;
        cluster.agree().await;
        assert_eq!(cluster.ledger(behind).proposals(), (0..7).map(entry).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_of_whole_logs_all_voters_together_go_on_with_the_furthest() {
    for seed in 70..75 {
        let (mut cluster, [whole, torn, behind], index) = last_entry_on_two(seed).await;
        lose_from(&cluster, torn, index);
        lose_from(&cluster, behind, index.previous().unwrap());
        cluster.start(torn).await;
        cluster.start(behind).await;
        assert_nobody_leads(&cluster).await;
        cluster.start(whole).await;
        assert_eq!(cluster.leader().await, whole, "it alone has everything");
        eventually("both have passed what they lost", || {
            [torn, behind].iter().all(|&node| suspect(&cluster, node).is_none())
        })
        .await;
        cluster.agree().await;
        assert_eq!(cluster.ledger(behind).proposals(), (0..6).map(entry).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_have_lost_their_tails_the_one_with_the_most_leads() {
    let (mut cluster, nodes, index) = last_entry_on_two(76).await;
    let lost = [index, index.previous().unwrap(), index.previous().unwrap()];
    for (node, from) in nodes.into_iter().zip(lost) {
        lose_from(&cluster, node, from);
        cluster.start(node).await;
    }
    assert_eq!(cluster.leader().await, nodes[0]);
    cluster.write(entry(9)).await;
    eventually("all have passed what they lost", || {
        nodes.iter().all(|&node| suspect(&cluster, node).is_none())
    })
    .await;
    cluster.agree().await;
    assert_eq!(cluster.ledger(nodes[2]).proposals(), [0, 1, 2, 3, 4, 9].map(entry));
}

#[tokio::test(start_paused = true)]
async fn a_leader_gives_a_follower_again_what_it_had_acknowledged_and_lost() {
    let mut cluster = Cluster::found(3, 77).await;
    let mut indexes = Vec::new();
    for number in 0..10 {
        indexes.push(cluster.write(entry(number)).await);
    }
    cluster.agree().await;
    let leader = cluster.leader().await;
    let torn = cluster.running().find(|&node| node != leader).unwrap();
    cluster.kill(torn).await;
    lose_from(&cluster, torn, indexes[3]);
    cluster.board.isolate(torn);
    cluster.start(torn).await;
    assert_supports_nobody(&cluster, torn, leader).await;
    cluster.board.heal();
    eventually("it has passed what it lost", || suspect(&cluster, torn).is_none()).await;
    cluster.agree().await;
    assert_eq!(cluster.ledger(torn).proposals(), (0..10).map(entry).collect::<Vec<_>>());
}

/// It votes for nobody, however much that one has, and does not take over.
async fn assert_supports_nobody(cluster: &Cluster, node: NodeId, candidate: NodeId) {
    let Identity { cluster: of, group, .. } = identity(node.get());
    let channel = Channel::Liveness;
    let route = Route { cluster: of, group, from: candidate, to: node, address: address(node), channel };
    let last = Some(EntryId { term: Term::new(99), index: LogIndex::new(999) });
    let vote = Vote { term: Term::new(100), node: candidate, committed: false };
    let request = VoteRequest { vote, last, leadership_transfer: true };
    let inbound = cluster.node(node).inbound();
    for request in [Request::Vote(request), Request::PreVote(request)] {
        let answer = inbound.call(&route, request).await;
        assert!(matches!(answer, Ok(Response::Vote { granted: false, .. })), "{answer:?}");
    }
    let from = Vote { committed: true, ..vote };
    let answer = inbound.call(&route, Request::TransferLeader { from, to: node, last: None }).await;
    assert_eq!(answer, Ok(Response::TransferLeader { accepted: false }));
}
