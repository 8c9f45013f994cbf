//! A follower that is far behind gets what it does not have, and keeps what it has.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_engine::watermarks::Marks;
use gapless_engine::{Engine, NodeId};
use gapless_partition::Write;
use gapless_types::PartitionId;

use crate::harness::{Cluster, eventually, sale};

/// Bytes of the payload of a write.
const LONG: usize = 4 << 10;

async fn write(cluster: &Cluster, except: &[NodeId], numbers: std::ops::Range<u64>) {
    for number in numbers {
        let payload = vec![b'x'; LONG];
        let sale = Write { payload: &payload, ..sale(number % 4) };
        cluster.write_except(except, number, &sale).await;
    }
}

/// Marks of one life of a node, none of which may fall.
#[derive(Default)]
struct Watched(BTreeMap<PartitionId, Marks>);

impl Watched {
    fn look(&mut self, engine: &Engine) {
        for report in engine.partitions() {
            let (now, partition) = (report.marks, report.partition);
            assert!(now.are_ordered(), "WM-1: {partition}: {now:?}");
            assert_eq!(report.repairs, 0, "it was not made anew");
            let Some(before) = self.0.insert(partition, now) else { continue };
            let falls = now.highest < before.highest
                || now.durable < before.durable
                || now.applied < before.applied
                || now.synced < before.synced
                || now.checkpoint < before.checkpoint
                || now.snapshot < before.snapshot;
            assert!(!falls, "WM-1: {partition}: {before:?} falls to {now:?}");
        }
    }

    /// Looks at a node again and again until it has everything that another one has.
    async fn until_caught_up(&mut self, engine: &Engine, leader: &Engine) {
        for _ in 0..60_000 {
            self.look(engine);
            let (mine, theirs) = (engine.partitions(), leader.partitions());
            let is_there = |(mine, theirs): (&gapless_engine::PartitionReport, &_)| {
                let theirs: &gapless_engine::PartitionReport = theirs;
                mine.marks.applied == theirs.marks.applied && mine.marks.checkpoint == mine.marks.applied
            };
            if mine.len() == theirs.len() && mine.iter().zip(&theirs).all(is_there) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it never caught up");
    }
}

fn installed(engine: &Engine) -> u64 {
    engine.replicator().statistics().snapshots_installed
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_cut_off_gets_what_it_does_not_have_and_no_mark_of_it_falls() {
    for seed in 60..64 {
        println!("seed {seed}");
        let mut cluster = Cluster::found_retaining(3, seed, 5, 1).await;
        cluster.define(3).await;
        write(&cluster, &[], 0..200).await;
        cluster.agree().await;
        let leader = cluster.leader().await;
        let away = cluster.running().into_iter().find(|node| *node != leader).unwrap();
        let mut watched = Watched::default();
        eventually("it has everything in checkpoints", || {
            let reports = cluster.engine(away).partitions();
            reports.iter().all(|report| report.marks.checkpoint == report.marks.highest)
        })
        .await;
        watched.look(&cluster.engine(away));
        cluster.board.isolate(away);
        write(&cluster, &[away], 200..240).await;
        let leader = cluster.leader_except(&[away]).await;
        cluster.cut_beyond(leader, 220).await;
        let before = cluster.board.snapshot_bytes();
        cluster.board.heal();
        watched.until_caught_up(&cluster.engine(away), &cluster.engine(leader)).await;
        assert_eq!(installed(&cluster.engine(away)), 1);
        let sent = cluster.board.snapshot_bytes() - before;
        let (missing, all) = (40 * LONG as u64, 240 * LONG as u64);
        assert!(sent > missing / 2 && sent < 2 * missing, "{sent} bytes of {all}, {missing} were missing");
        cluster.agree().await;
        cluster.close_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_restarted_gets_what_it_does_not_have_over_a_link_that_breaks() {
    let mut cluster = Cluster::found_retaining(3, 70, 5, 1).await;
    cluster.define(3).await;
    write(&cluster, &[], 0..200).await;
    cluster.agree().await;
    let leader = cluster.leader().await;
    let away = cluster.running().into_iter().find(|node| *node != leader).unwrap();
    eventually("it has everything in checkpoints", || {
        let reports = cluster.engine(away).partitions();
        reports.iter().all(|report| report.marks.checkpoint == report.marks.highest)
    })
    .await;
    cluster.kill(away).await;
    write(&cluster, &[], 200..240).await;
    let leader = cluster.leader().await;
    cluster.cut_beyond(leader, 220).await;
    let before = cluster.board.snapshot_bytes();
    // The header, the catalog, and one piece more each time.
    cluster.board.break_snapshots_after(Some(3));
    cluster.start(away).await;
    let mut watched = Watched::default();
    watched.until_caught_up(&cluster.engine(away), &cluster.engine(leader)).await;
    assert_eq!(installed(&cluster.engine(away)), 1);
    let sent = cluster.board.snapshot_bytes() - before;
    assert!(sent < 2 * 40 * LONG as u64, "{sent} bytes: what had arrived was not sent again");
    cluster.agree().await;

    // What was rolled forward survives, and goes on.
    cluster.board.break_snapshots_after(None);
    cluster.kill(away).await;
    cluster.start(away).await;
    write(&cluster, &[], 240..250).await;
    cluster.agree().await;
    assert_eq!(installed(&cluster.engine(away)), 0);
    cluster.close_all().await;
}
