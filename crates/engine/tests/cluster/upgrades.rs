//! Programs that know different machine versions: what is in force, who raises it, and what becomes of a node that is left behind.

use std::time::Duration;

use gapless_consensus::{CommittedBody, NodeId, Start};
use gapless_engine::entry::{Entry, EntryRecord};
use gapless_engine::{Engine, MachineVersion, OpenError, Report};
use gapless_types::LogIndex;

use crate::harness::{Cluster, eventually, id, sale};

/// Long enough for many reports.
const A_WHILE: Duration = Duration::from_secs(5);

fn in_force(engine: &Engine) -> u32 {
    engine.statistics().machine_version.0
}

/// The entries in the log of a node that raise the machine version, and to what. Versions never fall along it, and nothing else raises
/// them.
async fn raises(engine: &Engine) -> Vec<(LogIndex, u32)> {
    let progress = *engine.replicator().progress().borrow();
    let (mut next, end) = (progress.first_kept.unwrap(), progress.dispatched.unwrap().next().unwrap());
    let (mut raises, mut last) = (Vec::new(), None);
    while next < end {
        for entry in engine.replicator().entries(next, end, 1 << 20).await.unwrap() {
            next = entry.index.next().unwrap();
            let CommittedBody::Entry(bytes) = entry.body else { continue };
            let decoded = Entry::decode(&bytes).unwrap();
            let version = decoded.machine_version.0;
            if decoded.records == [EntryRecord::Raise] {
                raises.push((entry.index, version));
                assert!(last < Some(version), "entry {} raises", entry.index);
            } else {
                assert!(
                    last.is_none_or(|last| last == version),
                    "NUM-3: entry {} has {version}",
                    entry.index
                );
            }
            last = Some(version);
        }
    }
    raises
}

/// Ends a node, and opens it with a program that knows the machine versions up to this one.
async fn restart_knowing(cluster: &mut Cluster, node: NodeId, version: u32) {
    cluster.kill(node).await;
    start_knowing(cluster, node, version).await;
}

async fn start_knowing(cluster: &mut Cluster, node: NodeId, version: u32) {
    cluster.seats.get_mut(&node).unwrap().known_version = MachineVersion(version);
    cluster.start(node).await;
}

async fn all_are_at(cluster: &Cluster, version: u32) {
    eventually("the version is in force everywhere", || {
        cluster.running().into_iter().all(|node| in_force(&cluster.engine(node)) == version)
    })
    .await;
}

/// Why a node has stopped, once it has.
async fn reason_of(engine: &Engine) -> String {
    let mut leadership = engine.replicator().leadership();
    let stops = leadership.wait_for(|now| now.stopped.is_some());
    let stopped = tokio::time::timeout(Duration::from_secs(60), stops).await.expect("it stops");
    stopped.unwrap().stopped.as_ref().unwrap().reason.to_string()
}

/// Tells a leader what a node knows, as the node would.
fn tell(leader: &Engine, from: NodeId, version: u32) {
    let known_version = MachineVersion(version);
    leader.receive(&Report {
        from,
        wall: Duration::ZERO,
        known_version,
        durable: None,
        partitions: Vec::new(),
    });
}

/// A cluster of three in which 2 is in force, but one node is away and has nothing of that. Gives the one that is away.
async fn raised_without_one(seed: u64, keep_entries: u64, max_retained_bytes: u64) -> (Cluster, NodeId) {
    let mut cluster = Cluster::found_retaining(3, seed, keep_entries, max_retained_bytes).await;
    cluster.define(2).await;
    cluster.write(0, &sale(0)).await;
    cluster.agree().await;
    let leader = cluster.leader().await;
    let away = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    cluster.kill(away).await;
    for node in cluster.running() {
        restart_knowing(&mut cluster, node, 2).await;
    }
    let leader = cluster.leader().await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(in_force(&cluster.engine(leader)), 1, "the third has told nothing");
    tell(&cluster.engine(leader), away, 2);
    all_are_at(&cluster, 2).await;
    (cluster, away)
}

#[tokio::test(start_paused = true)]
async fn a_rolling_upgrade_raises_the_version_once_when_the_last_member_knows_it() {
    let mut cluster = Cluster::found_keeping(3, 600, 5).await;
    cluster.define(2).await;
    let mut number = 0;
    for node in cluster.running() {
        cluster.write(number, &sale(number % 3)).await;
        tokio::time::sleep(A_WHILE).await;
        for node in cluster.running() {
            assert_eq!(in_force(&cluster.engine(node)), 1, "somebody knows only that");
        }
        number += 1;
        restart_knowing(&mut cluster, node, 2).await;
    }
    all_are_at(&cluster, 2).await;
    cluster.write(number, &sale(0)).await;
    tokio::time::sleep(A_WHILE).await;
    cluster.agree().await;
    let leader = cluster.engine(cluster.leader().await);
    let raised = raises(&leader).await;
    assert!(matches!(raised[..], [(_, 2)]), "{raised:?}");
    for node in cluster.running() {
        assert_eq!(raises(&cluster.engine(node)).await, raised, "node {node}");
    }

    // Once the log is cut behind it, nothing in the log tells of it.
    let (at, _) = raised[0];
    for number in 100..150 {
        cluster.write(number, &sale(number % 3)).await;
    }
    for node in cluster.running() {
        cluster.cut_beyond(node, at.get()).await;
    }
    cluster.restart_all_with_clocks(Duration::ZERO).await;
    for node in cluster.running() {
        assert_eq!(in_force(&cluster.engine(node)), 2, "node {node} knows it from its disk");
    }
    cluster.write(200, &sale(0)).await;
    tokio::time::sleep(A_WHILE).await;
    cluster.agree().await;
    let leader = cluster.leader().await;
    assert_eq!(raises(&cluster.engine(leader)).await, []);
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_closed_or_killed_right_after_the_raise_has_it_when_it_is_opened() {
    for closed in [true, false] {
        let mut cluster = Cluster::found(1, 610).await;
        cluster.define(1).await;
        restart_knowing(&mut cluster, id(1), 2).await;
        // Whoever is alone raises at once, and waits for nobody.
        all_are_at(&cluster, 2).await;
        if closed {
            cluster.close_all().await;
        } else {
            cluster.kill(id(1)).await;
        }
        cluster.start(id(1)).await;
        all_are_at(&cluster, 2).await;
        cluster.write(1, &sale(0)).await;
        let engine = cluster.engine(id(1));
        let raised = raises(&engine).await;
        assert!(matches!(raised[..], [(_, 2)]), "{raised:?}");
        cluster.close_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_needs_a_newer_program_is_not_opened() {
    let mut cluster = Cluster::found(1, 620).await;
    cluster.define(1).await;
    restart_knowing(&mut cluster, id(1), 3).await;
    all_are_at(&cluster, 3).await;
    cluster.close_all().await;
    cluster.seats.get_mut(&id(1)).unwrap().known_version = MachineVersion(2);
    let refused = Engine::open(cluster.config(id(1))).await.unwrap_err();
    let OpenError::TooNew(unknown) = refused else { panic!("{refused}") };
    assert_eq!(unknown.to_string(), "machine version 3 is needed, and this program knows those up to 2");
    start_knowing(&mut cluster, id(1), 3).await;
    cluster.write(1, &sale(0)).await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_an_older_program_stops_in_front_of_the_raise_and_the_others_go_on() {
    let (mut cluster, away) = raised_without_one(630, 10_000, u64::MAX).await;
    start_knowing(&mut cluster, away, 1).await;
    let engine = cluster.engine(away);
    let reason = reason_of(&engine).await;
    assert!(reason.contains("machine version 2 is needed, and this program knows those up to 1"), "{reason}");
    assert!(engine.alarms().iter().any(|alarm| alarm.contains("machine version 2")), "{:?}", engine.alarms());
    assert_eq!(in_force(&engine), 1);
    for number in 10..20 {
        cluster.write_except(&[away], number, &sale(0)).await;
    }
    // The same again, as often as it is tried; and once it has the newer program, it has everything.
    restart_knowing(&mut cluster, away, 1).await;
    assert!(reason_of(&cluster.engine(away)).await.contains("machine version 2"));
    restart_knowing(&mut cluster, away, 2).await;
    all_are_at(&cluster, 2).await;
    cluster.write(20, &sale(0)).await;
    cluster.agree().await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_force_comes_with_a_snapshot_which_an_older_program_does_not_install() {
    let (mut cluster, away) = raised_without_one(640, 5, 1).await;
    for number in 10..200 {
        cluster.write(number, &sale(number % 4)).await;
    }
    let leader = cluster.leader().await;
    let committed = cluster.engine(leader).replicator().progress().borrow().committed.unwrap();
    cluster.cut_beyond(leader, committed.get() / 2).await;
    start_knowing(&mut cluster, away, 1).await;
    let reason = reason_of(&cluster.engine(away)).await;
    assert!(reason.contains("the snapshot cannot be installed: machine version 2 is needed"), "{reason}");
    restart_knowing(&mut cluster, away, 2).await;
    all_are_at(&cluster, 2).await;
    assert_eq!(cluster.engine(away).replicator().statistics().snapshots_installed, 1);
    cluster.agree().await;
    // What came with the snapshot stays.
    restart_knowing(&mut cluster, away, 2).await;
    assert_eq!(in_force(&cluster.engine(away)), 2);
    cluster.agree().await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_raise_that_its_leader_could_not_commit_is_made_once_by_another_one() {
    for seed in 650..654 {
        let mut cluster = Cluster::found(3, seed).await;
        cluster.define(1).await;
        let last = cluster.running().into_iter().find(|node| *node != id(1)).unwrap();
        for node in cluster.running().into_iter().filter(|node| *node != last) {
            restart_knowing(&mut cluster, node, 2).await;
        }
        // Not killed, and the others have what they may have lost: who may have lost something does not vote.
        cluster.close(last).await;
        let old = cluster.leader().await;
        cluster.write(0, &sale(0)).await;
        tokio::time::sleep(A_WHILE).await;
        for node in cluster.running() {
            let suspect = cluster.engine(node).replicator().statistics().suspect;
            assert_eq!(suspect, None, "seed {seed}, node {node}");
        }
        let engine = cluster.engine(old);
        let before = engine.replicator().progress().borrow().appended.unwrap();
        cluster.board.isolate(old);
        // Nor does it reach the one that is away, when that is back.
        cluster.board.cut(old, last);
        cluster.board.cut(last, old);
        tell(&engine, last, 2);
        eventually("it has proposed to raise the version", || {
            engine.replicator().progress().borrow().appended.unwrap() > before
        })
        .await;
        start_knowing(&mut cluster, last, 2).await;
        let suspect = cluster.engine(last).replicator().statistics().suspect;
        assert_eq!(suspect, None, "seed {seed}, node {last}");
        let new = cluster.leader_except(&[old]).await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(in_force(&cluster.engine(new)), 1, "the one that is cut off has not told the new leader");
        cluster.write_except(&[old], 1, &sale(0)).await;
        cluster.board.heal();
        all_are_at(&cluster, 2).await;
        is_raised_once(&mut cluster, seed).await;
    }
}

/// After one more write, and after everything has settled, every node has one raise, to 2.
async fn is_raised_once(cluster: &mut Cluster, seed: u64) {
    cluster.write(2, &sale(0)).await;
    cluster.agree().await;
    tokio::time::sleep(A_WHILE).await;
    for node in cluster.running() {
        let raised = raises(&cluster.engine(node)).await;
        assert!(matches!(raised[..], [(_, 2)]), "seed {seed}, node {node}: {raised:?}");
    }
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn writes_go_on_while_leaders_die_in_the_middle_of_raising() {
    for seed in 660..668 {
        let mut cluster = Cluster::found(3, seed).await;
        cluster.define(2).await;
        cluster.write(0, &sale(0)).await;
        for node in cluster.running() {
            restart_knowing(&mut cluster, node, 2).await;
        }
        // As far as chance lets it get.
        let leader = cluster.leader().await;
        tokio::time::sleep(Duration::from_micros(248_000 + 400 * (seed - 660))).await;
        cluster.kill(leader).await;
        cluster.write(1, &sale(0)).await;
        cluster.start(leader).await;
        all_are_at(&cluster, 2).await;
        is_raised_once(&mut cluster, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_joins_and_does_not_know_what_is_in_force_stops() {
    let mut cluster = Cluster::found(1, 670).await;
    cluster.define(1).await;
    restart_knowing(&mut cluster, id(1), 2).await;
    all_are_at(&cluster, 2).await;
    let leader = cluster.engine(id(1));
    cluster.seat(2, Start::Join);
    cluster.start(id(2)).await;
    let adding = tokio::spawn({
        let leader = leader.clone();
        async move { leader.replicator().add_learner(id(2), "node-2".to_owned()).await }
    });
    let reason = reason_of(&cluster.engine(id(2))).await;
    assert!(reason.contains("machine version 2 is needed, and this program knows those up to 1"), "{reason}");
    cluster.write_except(&[id(2)], 1, &sale(0)).await;
    restart_knowing(&mut cluster, id(2), 2).await;
    let _ = adding.await.unwrap();
    cluster.write(2, &sale(0)).await;
    cluster.agree().await;
    assert_eq!(in_force(&cluster.engine(id(2))), 2);
    cluster.close_all().await;
}
