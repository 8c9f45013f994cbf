//! Backups of a running engine, and what is restored from them: under load, in part, after power cuts, into a cluster again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that fails says where, and with which seed"
)]

mod cluster;
mod flips;
#[allow(dead_code, reason = "clusters need more of it")]
#[path = "../cluster/harness.rs"]
mod harness;
mod load;
mod points;
mod power;
mod refusals;
mod repairs;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gapless_consensus::NodeId;
use gapless_engine::log_time::Clock;
use gapless_engine::{
    BackupError, BackupOptions, BackupReport, Config, Consistency, Engine, RestoreError, RestoreOptions,
    RestorePoint, RestoreReport, restore,
};
use gapless_log::Drive;
use gapless_log::io::Io;
use gapless_log::io::faulty::FaultyIo;
use gapless_partition::{Committed, Direction};
use gapless_types::{LogIndex, PartitionId, PartitionOffset};

use harness::{check_history, committed, rows, sale, try_write, view};

/// Long enough that nobody runs into it who is served.
const PATIENT: Duration = Duration::from_secs(30);
const BACKUPS: &str = "backups";

/// A clock that runs with the runtime's time.
#[derive(Debug)]
struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    fn wall(&self) -> Duration {
        Duration::from_secs(1_000_000) + self.0.elapsed()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A node in a directory, in one thread, on a disk of the test.
fn config(disk: &FaultyIo, dir: &str) -> Config {
    let mut config = Config::embedded(dir);
    config.io = Arc::new(disk.clone()) as Arc<dyn Io>;
    config.log.drive = Drive::Caller;
    config.log.segment_bytes = 64 << 10;
    config.log.first_segment_bytes = 64 << 10;
    config.partitions.log.segment_bytes = 64 << 10;
    config.partitions.log.first_segment_bytes = 64 << 10;
    config.housekeeping.checkpoint_interval = Duration::from_millis(200);
    config.on_threads = false;
    config.clock = Arc::new(RuntimeClock(tokio::time::Instant::now()));
    config
}

async fn open(disk: &FaultyIo, dir: &str) -> Engine {
    open_with(config(disk, dir)).await
}

async fn open_with(config: Config) -> Engine {
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.wait_until_actualized().await;
    engine
}

async fn back_up(engine: &Engine) -> Result<BackupReport, BackupError> {
    back_up_to(engine, BACKUPS).await
}

async fn back_up_to(engine: &Engine, dir: &str) -> Result<BackupReport, BackupError> {
    let options = BackupOptions { file_bytes: 8 << 10 };
    engine.backup(Path::new(dir), options, Arc::new(|_| {})).await
}

fn options(disk: &FaultyIo, point: RestorePoint) -> RestoreOptions {
    let config = config(disk, "unused");
    let mut options = RestoreOptions::new(NodeId::new(1), "embedded", 7);
    (options.point, options.log, options.partitions) = (point, config.log, config.partitions);
    options
}

fn try_restore(disk: &FaultyIo, to: &str, point: RestorePoint) -> Result<RestoreReport, RestoreError> {
    let io = Arc::new(disk.clone()) as Arc<dyn Io>;
    restore(&io, Path::new(BACKUPS), Path::new(to), &options(disk, point), &mut |_| {})
}

/// What was acknowledged, by workspace and by the number of the write.
#[derive(Clone, Debug, Default)]
struct Acknowledged(BTreeMap<u64, BTreeMap<u64, Committed>>);

impl Acknowledged {
    async fn write(&mut self, engine: &Engine, number: u64, workspace: u64) {
        for _ in 0..300 {
            if let Ok(acknowledgement) = try_write(engine, number, &sale(workspace), PATIENT).await {
                let numbers = committed(&acknowledgement).clone();
                let known = self.0.entry(workspace).or_default();
                let known = known.entry(number).or_insert_with(|| numbers.clone());
                assert_eq!(*known, numbers, "IDEM-1: a retry gets the first outcome");
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("write {number} never got an outcome");
    }

    /// Everything acknowledged is there, every retry gets the same, and the next numbers are dense.
    async fn check(&mut self, engine: &Engine, next: u64) {
        for (workspace, writes) in self.0.clone() {
            check_history(engine, workspace, &writes).await;
            for number in writes.into_keys() {
                self.write(engine, number, workspace).await;
            }
            self.write(engine, next + workspace, workspace).await;
            check_history(engine, workspace, &self.0[&workspace]).await;
        }
    }

    /// What of it is in entries up to this one.
    fn up_to(&self, index: LogIndex) -> Self {
        let mut kept = self.clone();
        for writes in kept.0.values_mut() {
            writes.retain(|_, committed| committed.log_index <= index);
        }
        kept
    }
}

/// Outcomes of a partition, byte for byte, with the entries they are of.
async fn outcomes(engine: &Engine, partition: PartitionId) -> Vec<(LogIndex, Vec<u8>)> {
    let view = view(engine, partition, Consistency::Stale).await.unwrap();
    let mut found = Vec::new();
    let mut next = Some(PartitionOffset::FIRST);
    while let Some(from) = next {
        let page = view.outcomes(from, 1000, Direction::Forward).unwrap();
        next = page.last().and_then(|last| last.offset().next());
        found.extend(page.iter().map(|outcome| (outcome.header().log_index, outcome.bytes().to_vec())));
    }
    found
}

type AllRows = BTreeMap<PartitionId, Vec<(String, Vec<u8>, Vec<u8>)>>;

async fn all_rows(engine: &Engine) -> AllRows {
    let mut all = AllRows::new();
    for report in engine.partitions() {
        let view = view(engine, report.partition, Consistency::Linearizable).await.unwrap();
        all.insert(report.partition, rows(&view));
    }
    all
}
