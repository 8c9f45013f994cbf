//! A partition that lost something is installed anew from another node: by command, or because nothing here can bring it back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gapless_consensus::{ClusterId, Members, NodeId, Start};
use gapless_engine::{Consistency, Engine, PartitionState, RepairError, RepairSource};
use gapless_log::io::faulty::{Crash, FaultyIo};
use gapless_log::io::{Io, OpenMode, write_all_at};
use gapless_partition::{Committed, Write};
use gapless_types::{PartitionId, WorkspaceId};

use crate::harness::{Cluster, check_history, committed, eventually, id, rows, sale, shop, try_write, view};

type Known = BTreeMap<u64, BTreeMap<u64, Committed>>;

/// Three nodes that lived for a while. Workspaces with odd numbers are in the second partition.
async fn lived(seed: u64, keep_entries: u64, max_retained_bytes: u64) -> (Cluster, Known) {
    let cluster = Cluster::found_retaining(3, seed, keep_entries, max_retained_bytes).await;
    cluster.define(2).await;
    let mut known = Known::new();
    write(&cluster, &mut known, 0..120).await;
    cluster.agree().await;
    (cluster, known)
}

async fn write(cluster: &Cluster, known: &mut Known, numbers: std::ops::Range<u64>) {
    for number in numbers {
        // Long ones, so that logs have several segments.
        let payload = vec![b'x'; 12 << 10];
        let sale = Write { payload: &payload, ..sale(number % 4) };
        let acknowledgement = cluster.write(number, &sale).await;
        let numbers = committed(&acknowledgement).clone();
        known.entry(number % 4).or_default().insert(number, numbers);
    }
}

fn partition(engine: &Engine) -> PartitionId {
    engine.partition_of("shop", WorkspaceId::new(1)).unwrap()
}

fn state(engine: &Engine, index: u16) -> PartitionState {
    let found = engine.partitions().into_iter().find(|report| report.partition.index.get() == index);
    found.unwrap().state
}

fn is_not_well(engine: &Engine) -> bool {
    matches!(state(engine, 1), PartitionState::Failed(_) | PartitionState::Quarantined(_))
}

/// The files of the second partition of a node, with their bytes.
fn files(io: &FaultyIo, node: NodeId, below: &str) -> Vec<(PathBuf, Vec<u8>)> {
    // It may have come with a snapshot.
    let partitions = PathBuf::from(format!("node-{node}/partitions"));
    let mut directories = io.list_dirs(&partitions).unwrap();
    directories.retain(|name| name == "16-1" || name.starts_with("16-1."));
    directories.sort_unstable();
    let dir = partitions.join(directories.pop().unwrap()).join(below);
    let mut names = io.list(&dir).unwrap();
    names.sort_unstable();
    names.into_iter().map(|name| dir.join(name)).map(|path| (path.clone(), bytes(io, &path))).collect()
}

fn bytes(io: &FaultyIo, path: &Path) -> Vec<u8> {
    io.memory().bytes_of(path).unwrap()
}

fn put(io: &FaultyIo, path: &Path, bytes: &[u8]) {
    let file = io.open(path, OpenMode::Create).unwrap();
    write_all_at(&*file, bytes, 0).unwrap();
    file.sync().unwrap();
    io.sync_dir(path.parent().unwrap()).unwrap();
}

/// Takes the files of a log away, as if somebody had removed them.
fn remove_log(io: &FaultyIo, node: NodeId) {
    for (path, _) in files(io, node, "log") {
        io.remove(&path).unwrap();
        io.sync_dir(path.parent().unwrap()).unwrap();
    }
}

/// Takes a segment of a log away: it does not open, and nobody takes it for torn.
fn damage_log(io: &FaultyIo, node: NodeId) {
    let found = files(io, node, "log");
    assert!(
        found.len() > 2,
        "there are several: {:?}",
        found.iter().map(|(path, _)| path).collect::<Vec<_>>()
    );
    io.remove(&found[1].0).unwrap();
    io.sync_dir(found[1].0.parent().unwrap()).unwrap();
}

async fn follower(cluster: &Cluster) -> NodeId {
    let leader = cluster.leader().await;
    cluster.running().into_iter().find(|node| *node != leader).unwrap()
}

async fn is_whole(cluster: &Cluster, known: &Known) {
    cluster.agree().await;
    let leader = cluster.leader().await;
    for (workspace, writes) in known {
        check_history(&cluster.engine(leader), *workspace, writes).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rot_where_nobody_reads_is_found_and_told_and_mended_by_command() {
    let (mut cluster, known) = lived(630, 10_000, u64::MAX).await;
    let node = follower(&cluster).await;
    let engine = cluster.engine(node);
    let (path, mut segment) = files(&cluster.seats[&node].io, node, "log").remove(0);
    segment[64 << 10] ^= 1;
    put(&cluster.seats[&node].io, &path, &segment);
    let is_told =
        || engine.alarms().iter().any(|alarm| alarm.contains("the log of partition 16/1 is damaged"));
    eventually("it is told", is_told).await;
    assert!(!is_not_well(&engine), "it goes on with what it knows");
    engine.repair(partition(&engine), RepairSource::AnyNode).await.unwrap();
    cluster.agree().await;
    is_whole(&cluster, &known).await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_log_is_repaired_from_another_node_while_the_others_serve() {
    let (mut cluster, mut known) = lived(51, 10, u64::MAX).await;
    let hurt = follower(&cluster).await;
    cluster.cut_beyond(hurt, 60).await;
    cluster.kill(hurt).await;
    damage_log(&cluster.seats[&hurt].io, hurt);
    cluster.start(hurt).await;
    let engine = cluster.engine(hurt);
    eventually("it is found", || is_not_well(&engine)).await;
    // It waits for an operator, and the other partition serves.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(is_not_well(&engine), "{:?}", state(&engine, 1));
    assert_eq!(state(&engine, 0), PartitionState::Serving);
    write(&cluster, &mut known, 120..130).await;
    let refused = engine.repair(partition(&engine), RepairSource::OwnLog).await;
    assert!(refused.is_err() && is_not_well(&engine), "{refused:?}");
    let report = engine.repair(partition(&engine), RepairSource::AnyNode).await.unwrap();
    let told = &report.repaired[0].what;
    // What it has itself does not travel.
    assert!(told.starts_with("written anew: ") && !told.contains(" 0 outcomes of its own"), "{told}");
    assert!(!told.contains(" 0 of node"), "{told}");
    assert_eq!(state(&engine, 1), PartitionState::Serving);
    write(&cluster, &mut known, 130..140).await;
    is_whole(&cluster, &known).await;
    // It stays whole over a restart, and can be repaired when it is well, from a node by name.
    cluster.kill(hurt).await;
    cluster.start(hurt).await;
    is_whole(&cluster, &known).await;
    let leader = cluster.leader().await;
    let engine = cluster.engine(hurt);
    if leader != hurt {
        let report = engine.repair(partition(&engine), RepairSource::Node(leader)).await.unwrap();
        assert!(report.repaired[0].what.contains(" 0 of node"), "{report:?}");
    }
    is_whole(&cluster, &known).await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_whose_entries_were_cut_comes_from_another_node_by_itself() {
    let (mut cluster, mut known) = lived(52, 5, u64::MAX).await;
    let hurt = follower(&cluster).await;
    cluster.cut_beyond(hurt, 60).await;
    cluster.kill(hurt).await;
    remove_log(&cluster.seats[&hurt].io, hurt);
    cluster.start(hurt).await;
    let engine = cluster.engine(hurt);
    eventually("it is installed anew", || {
        state(&engine, 1) == PartitionState::Serving
            && engine.alarms().iter().any(|alarm| alarm.contains("was installed anew"))
    })
    .await;
    write(&cluster, &mut known, 120..130).await;
    is_whole(&cluster, &known).await;
    cluster.close_all().await;
}

/// The replicated log would grow for ever: beyond its length the partition that holds it is installed anew.
#[tokio::test(start_paused = true)]
async fn a_stuck_partition_that_keeps_the_log_too_long_comes_from_another_node() {
    let (mut cluster, mut known) = lived(53, 5, 4 << 20).await;
    let hurt = follower(&cluster).await;
    cluster.kill(hurt).await;
    damage_log(&cluster.seats[&hurt].io, hurt);
    cluster.start(hurt).await;
    let engine = cluster.engine(hurt);
    eventually("it is found", || is_not_well(&engine)).await;
    let kept = engine.replicator().progress().borrow().first_kept;
    let mut number = 1_000;
    while is_not_well(&engine) {
        write(&cluster, &mut known, number..number + 100).await;
        number += 100;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(number < 20_000, "it is never installed anew");
    }
    eventually("it serves", || state(&engine, 1) == PartitionState::Serving).await;
    assert!(engine.alarms().iter().any(|alarm| alarm.contains("was installed anew")));
    eventually("the log is cut again", || engine.replicator().progress().borrow().first_kept > kept).await;
    is_whole(&cluster, &known).await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn others_that_are_away_foreign_or_not_well_are_of_no_use_and_nothing_is_closed_for_them() {
    let (mut cluster, known) = lived(54, 10, u64::MAX).await;
    let asks = follower(&cluster).await;
    let leader = cluster.leader().await;
    let third = cluster.running().into_iter().find(|node| ![asks, leader].contains(node)).unwrap();
    let engine = cluster.engine(asks);
    let partition = partition(&engine);
    let refused = |error: Result<_, RepairError>| match error {
        Err(RepairError::NoPeer { reasons, .. }) => reasons,
        other => panic!("{other:?}"),
    };
    // Itself, and somebody who is no member.
    for nobody in [asks, id(9)] {
        let reasons = refused(engine.repair(partition, RepairSource::Node(nobody)).await);
        assert!(reasons.contains("no other member"), "{reasons}");
    }
    // One that is away.
    cluster.kill(third).await;
    let reasons = refused(engine.repair(partition, RepairSource::Node(third)).await);
    assert!(reasons.contains("cannot be reached"), "{reasons}");
    // A node of another cluster at its place.
    let mut foreign = cluster.config(third);
    foreign.dir = "foreign".into();
    foreign.cluster = Some(ClusterId::from_bytes([9; 16]));
    foreign.start = Start::Found(Members::alone(third, "foreign").unwrap());
    let stranger = Engine::open(foreign).await.unwrap();
    stranger.wait_for_leader().await;
    stranger.define(shop(2)).await.unwrap();
    try_write(&stranger, 1, &sale(1), Duration::from_secs(5)).await.unwrap();
    let reasons = refused(engine.repair(partition, RepairSource::Node(third)).await);
    assert!(reasons.contains("refused"), "{reasons}");
    assert_eq!(state(&engine, 1), PartitionState::Serving);
    cluster.board.detach(third);
    stranger.close().await;
    // One whose own partition is not well.
    damage_log(&cluster.seats[&third].io, third);
    cluster.start(third).await;
    eventually("it is found", || is_not_well(&cluster.engine(third))).await;
    let reasons = refused(engine.repair(partition, RepairSource::Node(third)).await);
    assert!(reasons.contains("not well"), "{reasons}");
    assert_eq!(state(&engine, 1), PartitionState::Serving);
    // And of all others one is enough.
    engine.repair(partition, RepairSource::AnyNode).await.unwrap();
    cluster.engine(third).repair(partition, RepairSource::AnyNode).await.unwrap();
    is_whole(&cluster, &known).await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_behind_gives_what_it_has_and_is_not_taken_for_all() {
    let (mut cluster, mut known) = lived(55, 5, 4 << 20).await;
    let leader = cluster.leader().await;
    let others: Vec<_> = cluster.running().into_iter().filter(|node| *node != leader).collect();
    let (behind, hurt) = (others[0], others[1]);
    // The two hear each other, and the one hears nothing of the leader.
    cluster.board.cut(leader, behind);
    cluster.board.cut(behind, leader);
    write(&cluster, &mut known, 200..260).await;
    let engine = cluster.engine(hurt);
    let before = view(&engine, partition(&engine), Consistency::Stale).await.unwrap();
    // It has everything, and the other one less: what it has itself stays.
    let report = engine.repair(partition(&engine), RepairSource::Node(behind)).await.unwrap();
    assert!(report.repaired[0].what.contains(" 0 of node"), "{report:?}");
    let after = view(&engine, partition(&engine), Consistency::Stale).await.unwrap();
    assert!(after.applied() >= before.applied());
    cluster.board.heal();
    is_whole(&cluster, &known).await;
    cluster.close_all().await;
}

/// Which of two logs is the right one nobody knows but an operator.
#[tokio::test(start_paused = true)]
async fn other_outcomes_are_exchanged_only_if_the_node_is_named() {
    let (mut cluster, known) = lived(56, 10, u64::MAX).await;
    let hurt = follower(&cluster).await;
    // The same partition in another world, in which something else was written.
    let mut other = Cluster::found_retaining(3, 57, 10, u64::MAX).await;
    other.define(2).await;
    for number in 0..120 {
        other.write(number + 5_000, &sale(number % 4)).await;
    }
    other.agree().await;
    other.close_all().await;
    cluster.kill(hurt).await;
    let (io, foreign) = (cluster.seats[&hurt].io.clone(), other.seats[&hurt].io.clone());
    for below in ["log", "store"] {
        for (path, _) in files(&io, hurt, below) {
            io.remove(&path).unwrap();
        }
        for (path, bytes) in files(&foreign, hurt, below) {
            put(&io, &path, &bytes);
        }
    }
    cluster.start(hurt).await;
    let engine = cluster.engine(hurt);
    engine.wait_until_actualized().await;
    let leader = cluster.leader_except(&[hurt]).await;
    let right = |engine: &Engine| {
        let (engine, leader) = (engine.clone(), cluster.engine(leader));
        async move {
            let mine = view(&engine, partition(&engine), Consistency::Stale).await.unwrap();
            let theirs = view(&leader, partition(&leader), Consistency::Stale).await.unwrap();
            rows(&mine) == rows(&theirs)
        }
    };
    assert!(!right(&engine).await, "nobody has found it");
    let refused = engine.repair(partition(&engine), RepairSource::AnyNode).await;
    assert!(matches!(refused, Err(RepairError::Differs { .. })), "{refused:?}");
    let report = engine.repair(partition(&engine), RepairSource::Node(leader)).await.unwrap();
    assert!(report.repaired[0].what.contains("its own were others"), "{report:?}");
    assert!(right(&engine).await, "NUM-3");
    is_whole(&cluster, &known).await;
    cluster.close_all().await;
}

#[tokio::test(start_paused = true)]
async fn the_power_goes_at_any_moment_of_it_and_the_partition_comes_back_whole() {
    let (mut cluster, known) = lived(58, 5, u64::MAX).await;
    let hurt = follower(&cluster).await;
    cluster.cut_beyond(hurt, 60).await;
    let (mut cut, mut at) = (0, 1);
    loop {
        cluster.kill(hurt).await;
        let io = cluster.seats[&hurt].io.clone();
        remove_log(&io, hurt);
        cluster.start(hurt).await;
        io.cut_at(io.operations() + at);
        let engine = cluster.engine(hurt);
        let is_installed = || engine.alarms().iter().any(|alarm| alarm.contains("was installed anew"));
        eventually("it ends", || !io.has_power() || is_installed()).await;
        let was_cut = !io.has_power();
        cluster.kill(hurt).await;
        io.cancel_faults();
        io.restart(if at % 2 == 0 { Crash::LoseAll } else { Crash::Torn });
        cluster.start(hurt).await;
        let engine = cluster.engine(hurt);
        eventually("it comes back", || state(&engine, 1) == PartitionState::Serving).await;
        is_whole(&cluster, &known).await;
        if !was_cut {
            break;
        }
        (cut, at) = (cut + 1, at + 3);
    }
    println!("the power went {cut} times, last at operation {at}");
    assert!(cut > 10, "{cut}");
    cluster.close_all().await;
}
