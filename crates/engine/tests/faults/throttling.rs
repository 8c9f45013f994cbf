//! A partition that stalls is throttled by age and by lag, then frozen, and free again when it is well; the others do not notice (ISO-1).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gapless_engine::admission::{AdmissionError, Limit, Scope};
use gapless_engine::log_time::Clock;
use gapless_engine::{Config, Engine, WriteError};

use crate::disk::{Disk, Trouble};
use crate::harness::{eventually, sale, shop, try_write};
use crate::{Acknowledged, PATIENT, config, directory, partition, report};

/// A clock that stands still until the test moves it.
#[derive(Debug, Default)]
struct StandingClock(Mutex<Duration>);

impl StandingClock {
    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for StandingClock {
    fn wall(&self) -> Duration {
        Duration::from_secs(1_000_000) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

async fn open(mut config: Config, clock: &Arc<StandingClock>) -> Engine {
    config.clock = clock.clone();
    config.report_interval = Duration::from_millis(5);
    // Checkpoints say nothing here.
    config.housekeeping.checkpoint_interval = Duration::from_secs(3600);
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(4)).await.unwrap();
    engine
}

/// Stalls the partition of workspace 1 with a write in it.
async fn stall(disk: &Disk, engine: &Engine, acknowledged: &mut Acknowledged) {
    for number in 0..4 {
        acknowledged.write(engine, number, number).await.unwrap();
    }
    disk.hurt(&directory(1), Trouble::Stalls);
    for number in 100.. {
        let _ = acknowledged.write_within(engine, number, 1, Duration::from_millis(10)).await;
        if disk.stalled() > 0 {
            break;
        }
    }
}

/// Tries to write to workspace 1 until that is refused as it should be. Each time with another key: one that was admitted before is in
/// flight, and would be waited for.
async fn refused_as(engine: &Engine, first: u64, what: &str, is: impl Fn(&AdmissionError) -> bool) {
    for number in first..first + 3000 {
        match try_write(engine, number, &sale(1), Duration::from_millis(10)).await {
            Err(WriteError::Admission(error)) if is(&error) => return,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    panic!("it was never refused: {what}");
}

fn is_limited(limit: Limit, scope: Scope) -> impl Fn(&AdmissionError) -> bool {
    move |error| match error {
        AdmissionError::Overloaded(overloaded) => (overloaded.limit, overloaded.scope) == (limit, scope),
        _ => false,
    }
}

async fn all_others_write(engine: &Engine, acknowledged: &mut Acknowledged, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let workspace = [0, 2, 3][usize::try_from(number % 3).unwrap()];
        acknowledged.write(engine, number, workspace).await.unwrap();
    }
}

/// Moves the clock, and waits until the others were looked at since. Before that one that was busy when it was last looked at seems to
/// have been busy ever since, because the clock jumps between two looks.
async fn advance(
    clock: &StandingClock,
    by: Duration,
    engine: &Engine,
    acknowledged: &mut Acknowledged,
    first: u64,
) {
    clock.advance(by);
    for (number, workspace) in (first..).zip([0, 2, 3]) {
        acknowledged.insist(engine, number, workspace).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_stalls_is_throttled_by_age_then_frozen_and_free_again_when_it_is_well() {
    let (disk, clock) = (Disk::default(), Arc::new(StandingClock::default()));
    let engine = open(config(&disk), &clock).await;
    let mut acknowledged = Acknowledged::default();
    stall(&disk, &engine, &mut acknowledged).await;
    let one = partition(&engine, 1);
    advance(&clock, Duration::from_secs(6), &engine, &mut acknowledged, 40_000).await;
    refused_as(&engine, 20_000, "by age", is_limited(Limit::Age, Scope::Partition(one))).await;
    all_others_write(&engine, &mut acknowledged, 10_000..10_030).await;
    advance(&clock, Duration::from_secs(60), &engine, &mut acknowledged, 50_000).await;
    refused_as(&engine, 30_000, "frozen", |error| *error == AdmissionError::Frozen { partition: one }).await;
    assert!(
        report(&engine, 1).is_stuck && !report(&engine, 2).is_stuck,
        "it is told where partitions are listed"
    );
    all_others_write(&engine, &mut acknowledged, 10_030..10_060).await;
    disk.heal(&directory(1));
    acknowledged.insist(&engine, 1000, 1).await;
    acknowledged.insist(&engine, 1001, 1).await;
    assert!(!report(&engine, 1).is_stuck);
    acknowledged.check(&engine).await;
    eventually("nothing is in flight", || engine.in_flight() == 0).await;
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_stalls_is_throttled_by_lag_and_free_again_when_it_is_well() {
    let (disk, clock) = (Disk::default(), Arc::new(StandingClock::default()));
    let mut config = config(&disk);
    config.admission.partition.lag = 50;
    let engine = open(config, &clock).await;
    let mut acknowledged = Acknowledged::default();
    stall(&disk, &engine, &mut acknowledged).await;
    let one = partition(&engine, 1);
    all_others_write(&engine, &mut acknowledged, 10_000..10_100).await;
    refused_as(&engine, 20_000, "by lag", is_limited(Limit::Lag, Scope::Partition(one))).await;
    all_others_write(&engine, &mut acknowledged, 10_100..10_130).await;
    disk.heal(&directory(1));
    acknowledged.insist(&engine, 1000, 1).await;
    acknowledged.check(&engine).await;
    engine.close().await;
}

/// What is proposed and not dispatched is counted against the node: here its replicated log gives no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_replicated_log_stalls_is_throttled_as_a_whole() {
    let (disk, clock) = (Disk::default(), Arc::new(StandingClock::default()));
    let engine = open(config(&disk), &clock).await;
    let mut acknowledged = Acknowledged::default();
    acknowledged.write(&engine, 1, 1).await.unwrap();
    disk.hurt("consensus", Trouble::Stalls);
    // On a busy machine it may be given up before it is on its way.
    for number in 2..3000 {
        let gone = acknowledged.write_within(&engine, number, 1, Duration::from_millis(50)).await;
        assert_eq!(gone, Err(WriteError::DeadlineExceeded));
        if engine.in_flight() > 0 && disk.stalled() > 0 {
            break;
        }
    }
    assert!(disk.stalled() > 0, "it waits for its disk");
    let looked = refused_as(&engine, 20_000, "by age", is_limited(Limit::Age, Scope::Node));
    // How old it is, is known from the first report on that found it.
    let moving = async {
        loop {
            clock.advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = looked => {}
        () = moving => {}
    }
    disk.heal("consensus");
    for number in 2..4 {
        tokio::time::timeout(PATIENT, acknowledged.insist(&engine, number, 1)).await.unwrap();
    }
    acknowledged.check(&engine).await;
    engine.close().await;
}
