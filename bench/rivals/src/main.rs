//! Measures other people's logs and stores under the workloads of our own benchmarks and prints one JSON object per run.
//!
//! Each rival runs in the configuration that suits it best, with every append durable before it returns. A
//! comparison needs both sides in one session on one disk; the numbers of one rival alone say little.
//!
//! Must not know: anything of Gapless. The benchmark runner starts this program and reads its output.

mod disk_counters;
mod lsm_tree_store;
mod raft_engine_rival;
mod redb_store;
mod report;
mod store_workload;
mod workload;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::lsm_tree_store::LsmTreeStore;
use crate::redb_store::RedbStore;
use crate::report::Report;
use crate::store_workload::{StoreShape, StoreUnderTest, run_store};
use crate::workload::Workload;

const RIVALS: [&str; 3] = [raft_engine_rival::NAME, redb_store::NAME, lsm_tree_store::NAME];

#[derive(Debug, Parser)]
#[command(about = "Measures rival logs; results are JSON on standard output")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the names of the known rivals as a JSON array
    List,
    /// Append to a raft-engine log
    RaftEngine(RunArguments),
    /// Derived state in redb; a memtable in front of it
    Redb(StoreArguments),
    /// The same, with the state of the allocator in every commit
    RedbQuickRepair(StoreArguments),
    /// Derived state in lsm-tree
    LsmTree(StoreArguments),
}

#[derive(Debug, Args)]
struct StoreArguments {
    /// Directory of the store; it stays, so that a second run can open it
    #[arg(long)]
    dir: PathBuf,
    /// Only open what an earlier run left, and look at its offset
    #[arg(long)]
    reopen: bool,
    /// Records applied
    #[arg(long, default_value_t = 2_000_000)]
    applies: u64,
    /// Applies between two checkpoints
    #[arg(long, default_value_t = 50_000)]
    checkpoint_every: u64,
}

impl StoreArguments {
    fn shape(&self) -> StoreShape {
        StoreShape {
            applies: self.applies,
            checkpoint_every: self.checkpoint_every,
            workspaces: 100_000,
            records: 1_000_000,
            gets: 200_000,
        }
    }
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Directory on the disk to measure; the run uses a new directory in it and removes that at the end
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    workload: Workload,
}

fn main() -> Result<()> {
    match CommandLine::parse().command {
        Command::List => print_json(&RIVALS),
        Command::RaftEngine(run) => {
            let measurement = raft_engine_rival::measure(&run.dir, run.workload)?;
            print_json(&Report::new(raft_engine_rival::NAME, run.workload, measurement))
        }
        Command::Redb(arguments) => measure_store(&arguments, |dir| RedbStore::open(dir, false)),
        Command::RedbQuickRepair(arguments) => measure_store(&arguments, |dir| RedbStore::open(dir, true)),
        Command::LsmTree(arguments) => measure_store(&arguments, LsmTreeStore::open),
    }
}

/// Ends the process without closing the store, as a crash would.
fn measure_store<Store: StoreUnderTest>(
    arguments: &StoreArguments,
    open: impl FnOnce(&Path) -> Result<Store>,
) -> Result<()> {
    std::fs::create_dir_all(&arguments.dir)?;
    let start = Instant::now();
    let mut store = open(&arguments.dir)?;
    if arguments.reopen {
        let offset = store.offset()?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        return print_json(&serde_json::json!({ "offset": offset, "open_elapsed_ms": milliseconds }));
    }
    let figures = run_store(arguments.shape(), &arguments.dir, &mut store)?;
    print_json(&figures)?;
    std::process::exit(0)
}

fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, value)?;
    writeln!(output)?;
    Ok(())
}
