//! One engine, and everything that can go wrong below it: disks of single partitions, the disk of the replicated log, callers that
//! go away, closing under load.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that fails says where, and with which seed"
)]

mod callers;
mod disk;
mod dropping;
#[allow(dead_code, reason = "clusters need more of it")]
#[path = "../cluster/harness.rs"]
mod harness;
mod isolation;
mod length;
mod opening;
mod power;
mod replicated_log;
mod throttling;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gapless_engine::{Config, Engine, PartitionReport, PartitionState, WriteError};
use gapless_log::io::Io;
use gapless_partition::{Committed, Partition};
use gapless_types::{PartitionId, WorkspaceId};

use disk::Disk;
use harness::{check_history, committed, eventually, sale, shop, try_write};

/// Long enough that nobody runs into it who is served.
const PATIENT: Duration = Duration::from_secs(30);

/// A node on threads, on a disk of the test.
fn config(disk: &Disk) -> Config {
    let mut config = Config::embedded("node");
    config.io = Arc::new(disk.clone()) as Arc<dyn Io>;
    config.log.segment_bytes = 256 << 10;
    config.log.first_segment_bytes = 256 << 10;
    config.partitions.log.segment_bytes = 256 << 10;
    config.partitions.log.first_segment_bytes = 256 << 10;
    config.housekeeping.checkpoint_interval = Duration::from_millis(20);
    config.reopen_delay = Duration::from_millis(10);
    config
}

/// Opens it, and waits for every partition.
async fn open(disk: &Disk) -> Engine {
    let engine = Engine::open(config(disk)).await.unwrap();
    engine.wait_for_leader().await;
    engine.wait_until_actualized().await;
    engine
}

/// An engine with so many partitions; the workspace of a number is in the partition of that number.
async fn found(disk: &Disk, partitions: u16) -> Engine {
    let engine = open(disk).await;
    engine.define(shop(partitions)).await.unwrap();
    engine
}

/// The name of a partition's directory.
fn directory(index: u16) -> String {
    format!("16-{index}")
}

/// Where a partition of the first generation is.
fn partition_dir(index: u16) -> PathBuf {
    Path::new("node/partitions").join(directory(index))
}

/// Discards the store of a partition that nobody has open: it has nothing but its log.
fn discard_store(disk: &Disk, index: u16) {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    Partition::rebuild(&io, partition_dir(index)).unwrap();
}

fn partition(engine: &Engine, workspace: u64) -> PartitionId {
    engine.partition_of("shop", WorkspaceId::new(workspace)).unwrap()
}

/// What is reported of the partition of a workspace.
fn report(engine: &Engine, workspace: u64) -> PartitionReport {
    let partition = partition(engine, workspace);
    engine.partitions().into_iter().find(|report| report.partition == partition).unwrap()
}

fn state(engine: &Engine, workspace: u64) -> PartitionState {
    report(engine, workspace).state
}

/// Waits until the partition of a workspace is in such a state.
async fn becomes(engine: &Engine, workspace: u64, what: &str, is: fn(&PartitionState) -> bool) {
    eventually(what, || is(&state(engine, workspace))).await;
}

fn is_failed(state: &PartitionState) -> bool {
    matches!(state, PartitionState::Failed(_))
}

fn is_serving(state: &PartitionState) -> bool {
    *state == PartitionState::Serving
}

fn is_quarantined(state: &PartitionState) -> bool {
    matches!(state, PartitionState::Quarantined(_))
}

/// What was acknowledged, by workspace and by the number of the write.
#[derive(Clone, Debug, Default)]
struct Acknowledged(BTreeMap<u64, BTreeMap<u64, Committed>>);

impl Acknowledged {
    async fn write(&mut self, engine: &Engine, number: u64, workspace: u64) -> Result<(), WriteError> {
        self.write_within(engine, number, workspace, PATIENT).await
    }

    async fn write_within(
        &mut self,
        engine: &Engine,
        number: u64,
        workspace: u64,
        patience: Duration,
    ) -> Result<(), WriteError> {
        let acknowledgement = try_write(engine, number, &sale(workspace), patience).await?;
        let numbers = committed(&acknowledgement).clone();
        let known = self.0.entry(workspace).or_default().entry(number).or_insert_with(|| numbers.clone());
        assert_eq!(*known, numbers, "IDEM-1: a retry gets the first outcome");
        Ok(())
    }

    /// Writes each number to the workspace that it has in `workspaces`, over and over.
    async fn write_all(&mut self, engine: &Engine, numbers: Range<u64>, workspaces: &[u64]) {
        for (number, workspace) in numbers.zip(workspaces.iter().cycle()) {
            self.write(engine, number, *workspace).await.unwrap();
        }
    }

    /// Writes as a client does that does not give up.
    async fn insist(&mut self, engine: &Engine, number: u64, workspace: u64) {
        for _ in 0..3000 {
            match self.write(engine, number, workspace).await {
                Ok(()) => return,
                Err(WriteError::Invalid(reasons)) => panic!("{reasons:?}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("write {number} never got an outcome");
    }

    /// Everything acknowledged is there, every retry gets the same, and numbers are dense.
    async fn check(&mut self, engine: &Engine) {
        for (workspace, writes) in self.0.clone() {
            check_history(engine, workspace, &writes).await;
            for number in writes.into_keys() {
                self.insist(engine, number, workspace).await;
            }
        }
    }

    /// The same now and after the node was closed and opened again, with nothing left in flight; then it is closed.
    async fn check_for_good(&mut self, engine: Engine, disk: &Disk) {
        self.check(&engine).await;
        assert_eq!(engine.in_flight(), 0);
        engine.close().await;
        let engine = open(disk).await;
        self.check(&engine).await;
        engine.close().await;
    }
}
