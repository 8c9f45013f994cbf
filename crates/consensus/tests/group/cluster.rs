//! Three and five nodes: replication, leaders that come and go, catching up from the log.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use gapless_consensus::limits::MAX_QUESTION_BYTES;
use gapless_consensus::network::LinkError;
use gapless_consensus::{AskError, ReadPointError, Refusal, Replicator, TransferError};

use crate::harness::{Cluster, entry, eventually, id};

#[tokio::test(start_paused = true)]
async fn three_nodes_and_five_nodes_keep_the_same_log() {
    for count in [3, 5] {
        let cluster = Cluster::found(count, count).await;
        let leader = cluster.leader().await;
        let node = cluster.node(leader);
        let tickets: Vec<_> = (0..100).map(|number| node.propose(entry(number))).collect();
        let mut last = None;
        for ticket in tickets {
            let index = ticket.await.unwrap();
            assert!(Some(index) > last, "proposals are appended in the order in which they were handed over");
            last = Some(index);
        }
        cluster.agree().await;
        let expected: Vec<Bytes> = (0..100).map(entry).collect();
        assert_eq!(cluster.ledger(leader).proposals(), expected);
        assert_eq!(Some(node.read_point().await.unwrap()), last);
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_refuses_and_names_the_leader() {
    let cluster = Cluster::found(3, 7).await;
    let leader = cluster.leader().await;
    let follower = cluster.running().find(|&node| node != leader).unwrap();
    let node = cluster.node(follower);
    eventually("the follower knows who leads", || node.leadership().borrow().leader.is_some()).await;
    let Err(Refusal::NotLeader { leader: Some(named) }) = node.propose(entry(0)).await else {
        panic!("a follower took a proposal");
    };
    assert_eq!((named.node, named.address), (leader, crate::harness::address(leader)));
    assert!(matches!(node.read_point().await, Err(ReadPointError::NotLeader { leader: Some(_) })));
}

/// Every entry that was acknowledged, once each.
fn assert_kept(proposals: &[Bytes], acknowledged: &[Bytes]) {
    let distinct: BTreeSet<&Bytes> = proposals.iter().collect();
    assert_eq!(distinct.len(), proposals.len(), "nothing is committed twice");
    for entry in acknowledged {
        assert!(distinct.contains(entry), "ACK-1: {entry:?} was acknowledged and is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_with_proposals_in_flight_loses_nothing_acknowledged() {
    for seed in 0..20 {
        let mut cluster = Cluster::found(3, seed).await;
        cluster.board.set_delay(Duration::from_millis(3));
        let leader = cluster.leader().await;
        let node = cluster.node(leader);
        let mut acknowledged = Vec::new();
        for number in 0..5 {
            node.propose(entry(number)).await.unwrap();
            acknowledged.push(entry(number));
        }
        let tickets: Vec<_> = (5..105).map(|number| (entry(number), node.propose(entry(number)))).collect();
        tokio::time::sleep(Duration::from_millis(seed % 9)).await;
        cluster.kill(leader).await;
        for (entry, ticket) in tickets {
            match ticket.await {
                Ok(_) => acknowledged.push(entry),
                Err(refusal) => assert!(matches!(refusal, Refusal::Unknown | Refusal::Stopped), "{refusal}"),
            }
        }
        let next = cluster.leader().await;
        assert_ne!(next, leader);
        cluster.write(entry(1000)).await;
        acknowledged.push(entry(1000));
        cluster.start(leader).await;
        cluster.agree().await;
        for node in cluster.running() {
            assert_kept(&cluster.ledger(node).proposals(), &acknowledged);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_isolated_leader_commits_nothing_and_says_so() {
    let cluster = Cluster::found(3, 3).await;
    let old = cluster.leader().await;
    cluster.write(entry(0)).await;
    cluster.board.isolate(old);
    // Appended there, and nowhere else.
    let lost = cluster.node(old).propose(entry(1));
    let next = cluster.leader_except(&[old]).await;
    let index = cluster.node(next).propose(entry(2)).await.unwrap();

    // By now its lease is over: certainly not appended.
    let refused = cluster.node(old).propose(entry(3)).await;
    assert!(matches!(refused, Err(Refusal::NotLeader { .. })), "{refused:?}");
    let node = cluster.node(old);
    let read = node.read_point();
    let read = tokio::time::timeout(Duration::from_secs(10), read).await.expect("an answer in time");
    assert!(matches!(read, Err(ReadPointError::NoQuorum | ReadPointError::NotLeader { .. })), "{read:?}");

    cluster.board.heal();
    assert_eq!(lost.await, Err(Refusal::Unknown), "appended, and then void");
    cluster.agree().await;
    let proposals = cluster.ledger(old).proposals();
    assert_eq!(proposals, [entry(0), entry(2)]);
    assert!(cluster.node(old).progress().borrow().dispatched >= Some(index));
}

/// One that hears everybody and is not heard is followed by another. So is one that is heard and hears nobody: it commits nothing, says
/// so, and then sends nothing that would keep the others from electing, neither heartbeats nor entries that it still has to send.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_in_one_direction_commits_nothing_alone_and_the_others_elect() {
    for (seed, is_heard) in (30..40).flat_map(|seed| [(seed, true), (seed, false)]) {
        let cluster = Cluster::found(3, seed).await;
        let old = cluster.leader().await;
        cluster.write(entry(0)).await;
        let others: Vec<_> = cluster.running().filter(|node| *node != old).collect();
        for other in others.iter().copied() {
            let (from, to) = if is_heard { (other, old) } else { (old, other) };
            cluster.board.cut(from, to);
        }
        let uncertain = cluster.node(old).propose(entry(1));
        if is_heard {
            let read = tokio::time::timeout(Duration::from_secs(10), cluster.node(old).read_point()).await;
            assert!(matches!(read, Ok(Err(ReadPointError::NoQuorum | ReadPointError::NotLeader { .. }))));
        }
        let next = cluster.leader_except(&[old]).await;
        cluster.node(next).propose(entry(2)).await.unwrap();
        cluster.board.heal();
        // Whether it got there, nobody could say in between.
        let is_there = match uncertain.await {
            Ok(_) => Some(true),
            Err(Refusal::Unknown) => None,
            Err(other) => panic!("seed {seed}: {other}"),
        };
        cluster.agree().await;
        let agreed = cluster.ledger(old).proposals();
        let (with, without) = ([entry(0), entry(1), entry(2)], [entry(0), entry(2)]);
        assert!(agreed == with || is_there.is_none() && agreed == without, "seed {seed}: {agreed:?}");
        for node in others {
            assert_eq!(cluster.ledger(node).proposals(), agreed, "seed {seed}");
        }
    }
}

/// Nobody can elect anybody while nobody hears anybody. Whoever led had something to send, kept quiet, and sends it then.
#[tokio::test(start_paused = true)]
async fn a_leader_that_heard_nobody_goes_on_when_it_is_heard_again() {
    for seed in 40..50 {
        let cluster = Cluster::found(3, seed).await;
        let leader = cluster.leader().await;
        cluster.write(entry(0)).await;
        cluster.running().for_each(|node| cluster.board.isolate(node));
        let uncertain = cluster.node(leader).propose(entry(1));
        tokio::time::sleep(Duration::from_millis(1000 + 700 * seed)).await;
        cluster.board.heal();
        let written = tokio::time::timeout(Duration::from_secs(30), cluster.write(entry(2))).await;
        written.expect("somebody leads");
        let is_there = match uncertain.await {
            Ok(_) => Some(true),
            Err(Refusal::Unknown) => None,
            Err(other) => panic!("seed {seed}: {other}"),
        };
        cluster.agree().await;
        let agreed = cluster.ledger(leader).proposals();
        let (with, without) = ([entry(0), entry(1), entry(2)], [entry(0), entry(2)]);
        assert!(agreed == with || is_there.is_none() && agreed == without, "seed {seed}: {agreed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_away_catches_up_from_the_log() {
    let mut cluster = Cluster::found(3, 4).await;
    let leader = cluster.leader().await;
    let follower = cluster.running().find(|&node| node != leader).unwrap();
    cluster.kill(follower).await;
    for number in 0..500 {
        cluster.write(entry(number)).await;
    }
    cluster.start(follower).await;
    cluster.agree().await;
    assert_eq!(cluster.ledger(follower).proposals().len(), 500);
    assert_eq!(cluster.node(follower).statistics().snapshots_installed, 0);
}

#[tokio::test(start_paused = true)]
async fn all_nodes_can_be_restarted_and_go_on() {
    let mut cluster = Cluster::found(3, 5).await;
    let mut written = Vec::new();
    for round in 0..3 {
        for number in 0..10 {
            written.push(entry(round * 10 + number));
            cluster.write(written.last().unwrap().clone()).await;
        }
        let term = cluster.node(cluster.leader().await).leadership().borrow().term;
        for node in [1, 2, 3].map(id) {
            if round == 1 { cluster.kill(node).await } else { cluster.close(node).await }
        }
        for node in [1, 2, 3].map(id) {
            cluster.start(node).await;
        }
        let leader = cluster.leader().await;
        assert!(cluster.node(leader).leadership().borrow().term > term, "terms rise: votes survive");
        cluster.agree().await;
        assert_eq!(cluster.ledger(leader).proposals(), written);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_cut_off_does_not_disturb_the_others_when_it_comes_back() {
    let cluster = Cluster::found(3, 6).await;
    let leader = cluster.leader().await;
    let term = cluster.node(leader).leadership().borrow().term;
    let follower = cluster.running().find(|&node| node != leader).unwrap();
    cluster.board.isolate(follower);
    // Many election timeouts: without asking first whether it could win, its term would run away.
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.board.heal();
    cluster.write(entry(0)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.agree().await;
    let leadership = cluster.node(leader).leadership().borrow().clone();
    assert!(leadership.is_self && leadership.term == term, "{leadership:?}");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_hears_nobody_names_no_leader_until_it_hears_one_again() {
    let mut cluster = Cluster::found(3, 6).await;
    let leader = cluster.leader().await;
    let follower = cluster.running().find(|&node| node != leader).unwrap();
    cluster.write(entry(0)).await;
    cluster.agree().await;
    let named = |cluster: &Cluster| {
        let known = cluster.node(follower).leadership().borrow().clone();
        assert!(!known.is_self);
        known.leader.map(|leader| leader.node)
    };
    eventually("it names its leader", || named(&cluster) == Some(leader)).await;
    let elections = cluster.node(follower).statistics().elections;
    // While it is in touch it says nothing else, whether anything is written or not.
    let mut changes = cluster.node(follower).leadership();
    changes.borrow_and_update();
    let changed = tokio::time::timeout(Duration::from_secs(30), changes.changed()).await;
    assert!(changed.is_err(), "{:?}", *changes.borrow());

    cluster.board.isolate(follower);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(named(&cluster), Some(leader), "not at once");
    eventually("it names nobody", || named(&cluster).is_none()).await;
    let since = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(named(&cluster), None, "for {:?}", since.elapsed());
    assert_eq!(cluster.leader().await, leader, "the others go on");
    cluster.board.heal();
    eventually("it names its leader again", || named(&cluster) == Some(leader)).await;
    assert_eq!(cluster.node(follower).statistics().elections, elections, "nobody was elected");

    // One that is opened and never hears anybody does not go on naming whom it knew before, either.
    cluster.kill(follower).await;
    cluster.board.isolate(follower);
    cluster.start(follower).await;
    eventually("it names nobody", || named(&cluster).is_none()).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(named(&cluster), None);
    cluster.board.heal();
    eventually("it names its leader", || named(&cluster) == Some(leader)).await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_lost_and_late_change_nothing_but_the_time_it_takes() {
    for seed in 0..5 {
        let cluster = Cluster::found(3, 100 + seed).await;
        cluster.leader().await;
        cluster.board.set_loss(10);
        cluster.board.set_delay(Duration::from_millis(20));
        let mut acknowledged = Vec::new();
        for number in 0..30 {
            let leader = cluster.leader().await;
            if cluster.node(leader).propose(entry(number)).await.is_ok() {
                acknowledged.push(entry(number));
            }
        }
        cluster.board.set_loss(0);
        cluster.write(entry(1000)).await;
        cluster.agree().await;
        assert_kept(&cluster.ledger(id(1)).proposals(), &acknowledged);
        assert!(!acknowledged.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_is_handed_over_on_request() {
    let cluster = Cluster::found(3, 8).await;
    let leader = cluster.leader().await;
    cluster.write(entry(0)).await;
    let follower = cluster.running().find(|&node| node != leader).unwrap();
    let refused = cluster.node(follower).transfer_leadership(follower).await;
    assert!(matches!(refused, Err(TransferError::NotLeader { .. })), "{refused:?}");
    assert_eq!(cluster.node(leader).transfer_leadership(id(9)).await, Err(TransferError::NotVoter(id(9))));

    cluster.node(leader).transfer_leadership(follower).await.unwrap();
    eventually("the other one leads", || cluster.node(follower).leadership().borrow().is_ready()).await;
    cluster.node(follower).propose(entry(1)).await.unwrap();
    cluster.agree().await;
    assert_eq!(cluster.ledger(leader).proposals(), [entry(0), entry(1)]);
}

#[tokio::test(start_paused = true)]
async fn leadership_is_not_handed_to_one_who_is_behind() {
    let cluster = Cluster::found(3, 8).await;
    let leader = cluster.leader().await;
    let behind = cluster.running().find(|&node| node != leader).unwrap();
    cluster.board.isolate(behind);
    cluster.write(entry(0)).await;
    let before = cluster.node(leader).leadership().borrow().clone();
    assert_eq!(cluster.node(leader).transfer_leadership(behind).await, Err(TransferError::Behind(behind)));
    assert_eq!(*cluster.node(leader).leadership().borrow(), before, "nothing was given up");
    cluster.node(leader).propose(entry(1)).await.unwrap();
    // One who is back and has not yet caught up is waited for.
    cluster.board.heal();
    cluster.node(leader).transfer_leadership(behind).await.unwrap();
    eventually("the other one leads", || cluster.node(behind).leadership().borrow().is_ready()).await;
}

#[tokio::test(start_paused = true)]
async fn leadership_that_nobody_takes_is_taken_back() {
    let mut cluster = Cluster::found(3, 8).await;
    let leader = cluster.leader().await;
    let mut others = cluster.running().filter(|&node| node != leader);
    let (chosen, gone) = (others.next().unwrap(), others.next().unwrap());
    drop(others);
    cluster.write(entry(0)).await;
    cluster.agree().await;
    cluster.kill(gone).await;
    // What the chosen one lacks is not committed, so that nothing says that he is behind; and without it he is not elected.
    cluster.board.isolate(chosen);
    let node = cluster.node(leader);
    let written = node.propose(entry(1));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = node.leadership().borrow().term;
    // Whoever asked for it does not even wait.
    assert!(node.transfer_leadership(chosen).now_or_never().is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(node.leadership().borrow().is_self, "nobody has come to lead");
    cluster.board.heal();
    eventually("it leads again", || {
        let now = node.leadership().borrow().clone();
        now.term > before && now.is_ready()
    })
    .await;
    written.await.unwrap();
    node.propose(entry(2)).await.unwrap();
    cluster.start(gone).await;
    cluster.agree().await;
    assert_eq!(cluster.ledger(chosen).proposals(), [entry(0), entry(1), entry(2)]);
}

#[tokio::test(start_paused = true)]
async fn machines_ask_each_other_and_nobody_in_between_knows_what() {
    let mut cluster = Cluster::found(3, 8).await;
    for number in 0..5 {
        cluster.write(entry(number)).await;
    }
    cluster.agree().await;
    let leader = cluster.leader().await;
    let asked = cluster.running().find(|&node| node != leader).unwrap();
    let node = cluster.node(leader);
    let ask = |to, question: &'static [u8]| node.ask(to, Bytes::from(question), Duration::from_secs(1));
    let count = cluster.ledger(asked).entries().len().to_string();
    assert_eq!(ask(asked, b"how many").await, Ok(Bytes::from(count)));
    let refused = |answer| match answer {
        Err(AskError::Link(LinkError::Refused { reason, .. })) => reason.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(ask(asked, b"what is the weather").await), "nobody knows");
    assert!(refused(ask(asked, b"everything").await).contains("an answer of"), "answers have a limit");
    let long = vec![0; MAX_QUESTION_BYTES + 1].into();
    let refused = node.ask(asked, long, Duration::from_secs(1)).await;
    assert!(matches!(refused, Err(AskError::TooLong { .. })), "{refused:?}");
    for nobody in [leader, id(9)] {
        assert_eq!(ask(nobody, b"how many").await, Err(AskError::NotMember(nobody)));
    }
    cluster.board.isolate(asked);
    assert!(matches!(ask(asked, b"how many").await, Err(AskError::Link(_))));
    cluster.board.heal();
    assert!(ask(asked, b"how many").await.is_ok(), "a link that broke is made again");
    cluster.close(leader).await;
    assert!(matches!(ask(asked, b"how many").await, Err(AskError::Stopped(_))));
}
