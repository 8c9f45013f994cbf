//! raft-engine, the log under TiKV: many Raft groups share one sequence of files, and whoever finds no commit
//! under way commits for all who arrived meanwhile (one write call per record, one `fdatasync` per group of
//! records).
//!
//! Chosen in its favour:
//! - One Raft group per writer, so that writers meet only where the engine groups their commits.
//! - Recycling on and files filled in advance. The measured part then overwrites blocks that are initialised;
//!   without this every `fdatasync` that covers a new block also commits the file system's journal.
//! - No compression: records are random, so trying could only cost time.
//! - No compaction or purge during a run, since its files never outgrow what was filled in advance.
//!
//! Everything else is the default of the crate, above all files of 128 MiB and format version 2.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

use crate::disk_counters::DiskCounters;
use crate::workload::{Measurement, Workload};

pub(crate) const NAME: &str = "raft-engine";

/// Upper bound of what the engine stores around one record: batch header, entry index, checksums, message
/// framing.
const FRAMING_BOUND: u64 = 128;

/// The group that `leave_first_file` writes to. Writers use the groups after it.
const FILLER_GROUP: u64 = 1;

/// Bytes per append of `leave_first_file`: few appends, little memory.
const FILLER_SIZE: usize = 16 << 20;

pub(crate) fn measure(parent: &Path, workload: Workload) -> Result<Measurement> {
    ensure!(
        workload.size.get() >= Record::INDEX_LEN,
        "a record holds its index: {} bytes at least",
        Record::INDEX_LEN
    );
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let home = tempfile::Builder::new()
        .prefix(NAME)
        .tempdir_in(parent)
        .context("cannot create a directory for the log")?;

    let config = configuration(home.path(), workload)?;
    let engine = Engine::open(config.clone()).context("cannot open the engine")?;
    leave_first_file(&engine, &config)?;
    sync_files(home.path())?;
    workload.run(&DiskCounters::of(home.path())?, |writer| {
        let mut group = Group::new(FILLER_GROUP + 1 + u64::from(writer));
        let engine = &engine;
        move |record: &[u8]| group.append(engine, record, Durability::Synced)
    })
}

fn configuration(home: &Path, workload: Workload) -> Result<Config> {
    let dir = home.to_str().context("raft-engine takes only directories named in UTF-8")?.to_owned();
    let defaults = Config::default();
    let stored = (workload.total_appends() as u64).saturating_mul(workload.size.get() as u64 + FRAMING_BOUND);
    ensure!(
        stored <= defaults.purge_threshold.0,
        "the run would store {stored} bytes, more than can be filled in advance"
    );
    // The engine fills as many whole files as fit in the limit, and half as many again. Without a limit it
    // would fill 15 GiB before the first append.
    let prefill = ReadableSize(stored.next_multiple_of(defaults.target_file_size.0));
    Ok(Config {
        dir,
        enable_log_recycle: true,
        prefill_for_recycle: true,
        prefill_limit: Some(prefill),
        batch_compression_threshold: ReadableSize(0),
        ..defaults
    })
}

/// Fills the first file and moves on to the next. The engine takes files filled in advance only when it
/// changes files; its first one grows while it is written, so a short run would never see the prepared ones.
fn leave_first_file(engine: &Engine, config: &Config) -> Result<()> {
    let mut filler = Group::new(FILLER_GROUP);
    let zeros = vec![0; FILLER_SIZE];
    let mut filled = 0;
    while filled < config.target_file_size.0 {
        filler.append(engine, &zeros, Durability::Buffered)?;
        filled += zeros.len() as u64;
    }
    // The first append after the file is full opens the next one and syncs it whole.
    filler.append(engine, &zeros[..Record::INDEX_LEN], Durability::Synced)
}

/// The engine leaves the files that it filled in the page cache; their way to the disk must not fall into the
/// run.
fn sync_files(home: &Path) -> Result<()> {
    for file in fs::read_dir(home)? {
        let path = file?.path();
        File::open(&path)
            .and_then(|file| file.sync_all())
            .with_context(|| format!("cannot sync {}", path.display()))?;
    }
    Ok(())
}

/// One Raft group and the batch its only writer reuses.
struct Group {
    id: u64,
    next_index: u64,
    entry: BytesValue,
    batch: LogBatch,
}

#[derive(Clone, Copy, Debug)]
enum Durability {
    Synced,
    Buffered,
}

impl Group {
    fn new(id: u64) -> Self {
        Self { id, next_index: 1, entry: BytesValue::new(), batch: LogBatch::with_capacity(1) }
    }

    fn append(&mut self, engine: &Engine, record: &[u8], durability: Durability) -> Result<()> {
        let value = self.entry.mut_value();
        value.clear();
        value.extend_from_slice(record);
        value[..Record::INDEX_LEN].copy_from_slice(&self.next_index.to_le_bytes());
        self.batch.add_entries::<Record>(self.id, std::slice::from_ref(&self.entry))?;
        engine.write(&mut self.batch, matches!(durability, Durability::Synced))?;
        self.next_index += 1;
        Ok(())
    }
}

/// Tells the engine the index of an entry. An entry must be a protobuf message that knows its index; the
/// smallest one is a byte string whose first bytes are the index, so that the stored record is no longer than
/// the workload asks.
struct Record;

impl Record {
    const INDEX_LEN: usize = size_of::<u64>();
}

impl MessageExt for Record {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        let index = entry.value.first_chunk().expect("Group::append puts the index into every entry");
        u64::from_le_bytes(*index)
    }
}
