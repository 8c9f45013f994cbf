//! The shape of a partition's derived state, for stores: what one applied record reads and writes, checkpoints in
//! between, whole buckets dropped at the end.
//!
//! ```text
//! apply i    get records[random]                            put records[same]
//!            put index[random workspace, its next offset]   40 bytes
//!            put bucket[i * 24 / applies][random 16 bytes]  100 bytes
//! every N    checkpoint
//! then       gets of keys that are there, of keys that are not (in one bucket, in all), drop of half of the buckets
//! ```
//!
//! Figures are CPU time of the whole process, user and system, because the machine is shared; elapsed time stands
//! beside them.
//!
//! Must not know: what a store is. It sees the trait below. Included by the benchmarks of Gapless as well.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use serde::Serialize;

/// How many time buckets the idempotency rows lie in.
pub(crate) const BUCKETS: u64 = 24;

const RECORD_VALUE_BYTES: usize = 100;
const INDEX_VALUE_BYTES: usize = 40;
const ROW_VALUE_BYTES: usize = 100;
/// Clock ticks of `/proc/self/stat` in a second; fixed on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Where a row lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    /// Workspace and offset to a place in the log.
    Index,
    /// Record id to its fields.
    Records,
    /// Idempotency rows of a time bucket.
    Bucket(u64),
}

/// A store under the workload.
pub(crate) trait StoreUnderTest {
    /// Adds rows; what follows must see them, nothing must be durable.
    fn apply(&mut self, rows: &[(Table, Vec<u8>, Vec<u8>)]) -> Result<()>;
    /// Whether a row is there; its value is read.
    fn get(&mut self, table: Table, key: &[u8]) -> Result<bool>;
    /// Whether a key is in any of the first so many buckets.
    fn find(&mut self, buckets: u64, key: &[u8]) -> Result<bool> {
        for bucket in (0..buckets).rev() {
            if self.get(Table::Bucket(bucket), key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
    /// Makes everything durable, and does the work that has piled up.
    fn checkpoint(&mut self, offset: u64) -> Result<()>;
    /// Forgets a bucket.
    fn drop_bucket(&mut self, bucket: u64) -> Result<()>;
    /// The offset of the last checkpoint.
    fn offset(&mut self) -> Result<u64>;
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreShape {
    pub(crate) applies: u64,
    pub(crate) checkpoint_every: u64,
    pub(crate) workspaces: u64,
    pub(crate) records: u64,
    pub(crate) gets: u64,
}

/// What a run took. Times in seconds or microseconds of CPU unless they say "elapsed".
#[derive(Debug, Default, Serialize)]
pub(crate) struct StoreFigures {
    pub(crate) applies: u64,
    pub(crate) apply_us: f64,
    pub(crate) checkpoint_us_per_apply: f64,
    pub(crate) elapsed_seconds: f64,
    pub(crate) longest_checkpoint_elapsed_ms: f64,
    pub(crate) get_present_us: f64,
    pub(crate) get_missing_us: f64,
    pub(crate) find_missing_in_all_buckets_us: f64,
    pub(crate) logical_mib: f64,
    pub(crate) written_mib: f64,
    pub(crate) write_amplification: f64,
    pub(crate) peak_memory_mib: f64,
    pub(crate) disk_mib: f64,
    pub(crate) disk_after_drop_mib: f64,
    pub(crate) drop_elapsed_ms: f64,
    pub(crate) drop_written_mib: f64,
}

/// Loads, reads, drops.
pub(crate) fn run_store(
    shape: StoreShape,
    dir: &Path,
    store: &mut dyn StoreUnderTest,
) -> Result<StoreFigures> {
    let mut figures = StoreFigures { applies: shape.applies, ..StoreFigures::default() };
    load(shape, store, &mut figures)?;
    figures.disk_mib = mib(disk_bytes(dir)?);
    read(shape, store, &mut figures)?;
    let (written, start) = (written_bytes()?, Instant::now());
    for bucket in 0..BUCKETS / 2 {
        store.drop_bucket(bucket)?;
    }
    store.checkpoint(shape.applies + 1)?;
    figures.drop_elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    figures.drop_written_mib = mib(written_bytes()? - written);
    figures.disk_after_drop_mib = mib(disk_bytes(dir)?);
    figures.peak_memory_mib = peak_memory_kib()? as f64 / 1024.0;
    Ok(figures)
}

fn load(shape: StoreShape, store: &mut dyn StoreUnderTest, figures: &mut StoreFigures) -> Result<()> {
    let mut rng = Rng::with_seed(1);
    let mut value_rng = Rng::with_seed(2);
    let mut offsets = vec![0_u64; usize::try_from(shape.workspaces)?];
    let mut rows = Vec::new();
    let (mut checkpoint_cpu, mut logical) = (0.0, 0_u64);
    let (start, start_cpu, start_written) = (Instant::now(), cpu_seconds()?, written_bytes()?);
    for number in 0..shape.applies {
        let record = rng.u64(0..shape.records).to_be_bytes();
        store.get(Table::Records, &record)?;
        let workspace = rng.u64(0..shape.workspaces);
        let offset = &mut offsets[usize::try_from(workspace)?];
        *offset += 1;
        let index_key = [workspace.to_be_bytes(), offset.to_be_bytes()].concat();
        let bucket = number * BUCKETS / shape.applies;
        rows.clear();
        rows.push((Table::Records, record.to_vec(), random_value(&mut value_rng, RECORD_VALUE_BYTES)));
        rows.push((Table::Index, index_key, random_value(&mut value_rng, INDEX_VALUE_BYTES)));
        let row = random_value(&mut value_rng, ROW_VALUE_BYTES);
        rows.push((Table::Bucket(bucket), idempotency_key(number), row));
        logical += rows.iter().map(|(_, key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        store.apply(&rows)?;
        if (number + 1) % shape.checkpoint_every == 0 || number + 1 == shape.applies {
            let (cpu, elapsed) = (cpu_seconds()?, Instant::now());
            store.checkpoint(number + 1)?;
            checkpoint_cpu += cpu_seconds()? - cpu;
            let milliseconds = elapsed.elapsed().as_secs_f64() * 1e3;
            figures.longest_checkpoint_elapsed_ms = figures.longest_checkpoint_elapsed_ms.max(milliseconds);
        }
    }
    let applies = shape.applies as f64;
    figures.elapsed_seconds = start.elapsed().as_secs_f64();
    figures.apply_us = (cpu_seconds()? - start_cpu - checkpoint_cpu) / applies * 1e6;
    figures.checkpoint_us_per_apply = checkpoint_cpu / applies * 1e6;
    figures.logical_mib = mib(logical);
    figures.written_mib = mib(written_bytes()? - start_written);
    figures.write_amplification = figures.written_mib / figures.logical_mib;
    Ok(())
}

fn read(shape: StoreShape, store: &mut dyn StoreUnderTest, figures: &mut StoreFigures) -> Result<()> {
    let mut rng = Rng::with_seed(3);
    let cpu = cpu_seconds()?;
    for _ in 0..shape.gets {
        let number = rng.u64(0..shape.applies);
        let bucket = Table::Bucket(number * BUCKETS / shape.applies);
        ensure!(store.get(bucket, &idempotency_key(number))?, "a row is missing");
    }
    let after_present = cpu_seconds()?;
    for number in 0..shape.gets {
        let bucket = Table::Bucket(rng.u64(0..BUCKETS));
        ensure!(!store.get(bucket, &idempotency_key(shape.applies + number))?, "a row that nobody wrote");
    }
    let after_missing = cpu_seconds()?;
    for number in 0..shape.gets {
        ensure!(
            !store.find(BUCKETS, &idempotency_key(shape.applies + number))?,
            "a row that nobody wrote, in some bucket"
        );
    }
    let gets = shape.gets as f64;
    figures.get_present_us = (after_present - cpu) / gets * 1e6;
    figures.get_missing_us = (after_missing - after_present) / gets * 1e6;
    figures.find_missing_in_all_buckets_us = (cpu_seconds()? - after_missing) / gets * 1e6;
    Ok(())
}

/// Random, but the same for the same number, so that it can be asked for again.
fn idempotency_key(number: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(number ^ 0x5bd1_e995_1234_5678);
    [rng.u64(..).to_be_bytes(), rng.u64(..).to_be_bytes()].concat()
}

fn random_value(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut value = vec![0; length];
    rng.fill(&mut value);
    value
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit_once(')').context("no name in /proc/self/stat")?.1;
    let ticks: Vec<f64> =
        behind_name.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}

/// What was handed to the system's write calls: exact for a process, and the same whatever the page cache does.
fn written_bytes() -> Result<u64> {
    let counters = fs::read_to_string("/proc/self/io")?;
    let line = counters.lines().find_map(|line| line.strip_prefix("wchar: ")).context("no wchar")?;
    Ok(line.parse()?)
}

fn peak_memory_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn disk_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() { disk_bytes(&entry.path())? } else { found.blocks() * 512 };
    }
    Ok(bytes)
}
