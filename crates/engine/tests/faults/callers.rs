//! Callers that go away, come together, or are busy when the node closes.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use gapless_engine::{Acknowledgement, Engine, WriteError};
use gapless_partition::{Outcome, RefusalCode, Write};

use crate::disk::Disk;
use crate::harness::{committed, eventually, sale, shop, try_write};
use crate::{Acknowledged, PATIENT, config, found, open};

/// Polls a write so many times, with room for others in between, and drops it. Whether it was done before.
async fn drop_after(engine: &Engine, number: u64, polls: usize) -> bool {
    let write = sale(0);
    let mut future = pin!(try_write(engine, number, &write, PATIENT));
    for _ in 0..polls {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_at_any_point_leaves_nothing_behind() {
    let disk = Disk::default();
    let mut config = config(&disk);
    config.on_threads = false;
    config.log.drive = gapless_log::Drive::Caller;
    // What is left behind by one would be missing to the next.
    config.admission.partition.operations = 2;
    config.recall.in_flight = 1;
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(1)).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    let (mut dropped, mut done) = (0, 0);
    for polls in 0..40 {
        match drop_after(&engine, polls, usize::try_from(polls).unwrap()).await {
            true => done += 1,
            false => dropped += 1,
        }
        eventually("nothing is in flight", || engine.in_flight() == 0).await;
        // Proposed or not, a retry gets the one outcome.
        acknowledged.insist(&engine, polls, 0).await;
    }
    assert!(dropped > 2 && done > 2, "{dropped} were dropped, {done} came to their end");
    assert_eq!(acknowledged.0[&0].len(), 40);
    acknowledged.check(&engine).await;
    engine.close().await;
}

fn is_reuse(acknowledgement: &Acknowledgement) -> bool {
    let code = RefusalCode::IdempotencyKeyReused;
    matches!(&*acknowledgement.outcome, Outcome::Refused(refusal) if refusal.code == code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_is_one_event_however_many_come_at_once() {
    let disk = Disk::default();
    let engine = found(&disk, 2).await;
    for round in 0..20 {
        let same: Vec<_> = (0..16)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { try_write(&engine, round, &sale(0), PATIENT).await.unwrap() })
            })
            .collect();
        let mut firsts = 0;
        for write in same {
            let acknowledgement = write.await.unwrap();
            assert_eq!(committed(&acknowledgement).workspace_offset.get(), round + 1);
            firsts += usize::from(!acknowledgement.duplicate);
        }
        assert_eq!(firsts, 1, "IDEM-1");
    }
    for round in 100..120 {
        let write = |payload: &'static [u8]| {
            let engine = engine.clone();
            let write = Write { payload, ..sale(1) };
            tokio::spawn(async move { try_write(&engine, round, &write, PATIENT).await.unwrap() })
        };
        let both = [write(b"one"), write(b"other")];
        let mut reused = 0;
        for write in both {
            let acknowledgement = write.await.unwrap();
            match is_reuse(&acknowledgement) {
                true => reused += 1,
                false => assert_eq!(committed(&acknowledgement).workspace_offset.get(), round - 99),
            }
        }
        assert_eq!(reused, 1, "one event, and one refusal");
    }
    assert_eq!(engine.in_flight(), 0);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_while_writers_are_busy_loses_nothing_and_tells_everybody() {
    for round in 0..5 {
        let disk = Disk::default();
        let engine = found(&disk, 4).await;
        let count = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let (engine, count) = (engine.clone(), count.clone());
                tokio::spawn(async move {
                    let mut acknowledged = Acknowledged::default();
                    for number in 0.. {
                        match acknowledged.write(&engine, writer * 100_000 + number, writer % 4).await {
                            Ok(()) => count.fetch_add(1, Ordering::Relaxed),
                            Err(refused) => return (acknowledged, number, refused),
                        };
                    }
                    unreachable!("somebody closes")
                })
            })
            .collect();
        eventually("they are busy", || count.load(Ordering::Relaxed) > 50 * round).await;
        tokio::time::timeout(PATIENT, engine.close()).await.expect("closing comes to an end");
        let mut acknowledged = Acknowledged::default();
        let mut unknown = Vec::new();
        for (writer, task) in (0..).zip(writers) {
            let (own, number, refused) = task.await.unwrap();
            assert_eq!(refused, WriteError::Closing);
            unknown.push((writer * 100_000 + number, writer % 4));
            for (workspace, writes) in own.0 {
                acknowledged.0.entry(workspace).or_default().extend(writes);
            }
        }
        assert_eq!(try_write(&engine, 1, &sale(0), PATIENT).await, Err(WriteError::Closing));
        assert_eq!(engine.in_flight(), 0);
        let engine = open(&disk).await;
        for (number, workspace) in unknown {
            acknowledged.insist(&engine, number, workspace).await;
        }
        acknowledged.check(&engine).await;
        engine.close().await;
    }
}
