//! Members that join, vote, and leave, while entries go on.

use std::collections::BTreeSet;
use std::time::Duration;

use gapless_consensus::{ChangeError, MembersError, Refusal, Replicator, Start};

use crate::harness::{Cluster, address, entry, eventually, id};

fn set(nodes: &[u64]) -> BTreeSet<gapless_consensus::NodeId> {
    nodes.iter().map(|&node| id(node)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_learner_becomes_a_voter_and_is_removed() {
    let mut cluster = Cluster::found(3, 20).await;
    for number in 0..50 {
        cluster.write(entry(number)).await;
    }
    cluster.seat(4, Start::Join);
    cluster.start(id(4)).await;
    let leader = cluster.node(cluster.leader().await);
    leader.add_learner(id(4), address(id(4))).await.unwrap();
    assert_eq!(leader.members().learners(), set(&[4]));
    cluster.agree().await;
    assert_eq!(cluster.ledger(id(4)).proposals().len(), 50);

    leader.change_voters(set(&[1, 2, 3, 4])).await.unwrap();
    assert_eq!(leader.members().voters, [set(&[1, 2, 3, 4])]);
    cluster.write(entry(50)).await;
    cluster.agree().await;
    assert_eq!(cluster.node(id(4)).members(), leader.members());

    // Whoever leads, 1 leaves.
    leader.change_voters(set(&[2, 3, 4])).await.unwrap();
    eventually("one of the others leads", || {
        set(&[2, 3, 4]).into_iter().any(|node| cluster.node(node).leadership().borrow().is_ready())
    })
    .await;
    cluster.close(id(1)).await;
    cluster.write(entry(51)).await;
    cluster.agree().await;
    let members = cluster.node(id(2)).members();
    assert_eq!((members.voters.as_slice(), members.addresses.len()), (&[set(&[2, 3, 4])][..], 3));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_removed_itself_does_not_say_that_it_leads() {
    for seed in 30..35 {
        let cluster = Cluster::found(3, seed).await;
        let old = cluster.leader().await;
        cluster.write(entry(0)).await;
        let others: BTreeSet<_> = cluster.running().filter(|node| *node != old).collect();
        let node = cluster.node(old);
        let term = node.leadership().borrow().term;
        node.change_voters(others.clone()).await.unwrap();
        eventually("it has stepped down", || !node.leadership().borrow().is_self).await;
        let leadership = node.leadership().borrow().clone();
        assert!(!leadership.is_ready() && leadership.stopped.is_none(), "{leadership:?}");
        assert!(leadership.leader.is_none_or(|leader| leader.node != old) || leadership.term > term);
        let refused = node.propose(entry(1)).await;
        let Err(Refusal::NotLeader { leader }) = refused else { panic!("{refused:?}") };
        assert!(leader.is_none_or(|leader| leader.node != old), "it sends nobody to itself");
        let next = cluster.leader_except(&[old]).await;
        assert!(others.contains(&next));
        cluster.node(next).propose(entry(2)).await.unwrap();
        // It stays so.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!node.leadership().borrow().is_self);
    }
}

#[tokio::test(start_paused = true)]
async fn the_members_survive_restarts_wherever_the_machine_goes_on() {
    for checkpoint in [None, Some("before"), Some("after")] {
        let mut cluster = Cluster::found(3, 21).await;
        cluster.write(entry(0)).await;
        cluster.seat(4, Start::Join);
        cluster.start(id(4)).await;
        let keep = |cluster: &Cluster| cluster.running().for_each(|node| cluster.ledger(node).checkpoint());
        if checkpoint == Some("before") {
            keep(&cluster);
        }
        let leader = cluster.node(cluster.leader().await);
        leader.add_learner(id(4), address(id(4))).await.unwrap();
        leader.change_voters(set(&[1, 2, 3, 4])).await.unwrap();
        cluster.write(entry(1)).await;
        cluster.agree().await;
        if checkpoint == Some("after") {
            keep(&cluster);
        }
        for node in [1, 2, 3, 4].map(id) {
            cluster.kill(node).await;
        }
        for node in [1, 2, 3, 4].map(id) {
            cluster.start(node).await;
            assert_eq!(cluster.node(node).members().voters, [set(&[1, 2, 3, 4])], "{checkpoint:?}");
        }
        cluster.write(entry(2)).await;
        cluster.agree().await;
        assert_eq!(cluster.ledger(id(4)).proposals(), [entry(0), entry(1), entry(2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_that_cannot_be_are_refused_by_name() {
    let mut cluster = Cluster::found(3, 22).await;
    let leader = cluster.leader().await;
    let node = cluster.node(leader);
    assert_eq!(node.change_voters(set(&[1, 9])).await, Err(ChangeError::NotMembers(set(&[9]))));
    assert_eq!(node.change_voters(set(&[])).await, Err(MembersError::NoVoter.into()));
    assert_eq!(node.remove_learner(id(1)).await, Err(ChangeError::NotLearner(id(1))));
    let used = node.add_learner(id(3), address(id(3))).await;
    assert_eq!(used, Err(ChangeError::IdUsed { node: id(3), highest: id(3) }));

    cluster.seat(5, Start::Join);
    cluster.start(id(5)).await;
    node.add_learner(id(5), address(id(5))).await.unwrap();
    node.remove_learner(id(5)).await.unwrap();
    assert!(node.members().learners().is_empty());
    for reused in [4, 5] {
        let again = node.add_learner(id(reused), address(id(reused))).await;
        assert_eq!(again, Err(ChangeError::IdUsed { node: id(reused), highest: id(5) }));
    }

    let follower = cluster.running().find(|&other| other != leader).unwrap();
    let elsewhere = cluster.node(follower).change_voters(set(&[1, 2])).await;
    assert!(matches!(elsewhere, Err(ChangeError::NotLeader { .. })), "{elsewhere:?}");
}
