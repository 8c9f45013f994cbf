//! Measures other people's logs under the workloads of our own benchmarks and prints one JSON object per run.
//!
//! Each rival runs in the configuration that suits it best, with every append durable before it returns. A
//! comparison needs both sides in one session on one disk; the numbers of one rival alone say little.
//!
//! Must not know: anything of Gapless. The benchmark runner starts this program and reads its output.

mod disk_counters;
mod raft_engine_rival;
mod report;
mod workload;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::report::Report;
use crate::workload::Workload;

const RIVALS: [&str; 1] = [raft_engine_rival::NAME];

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
    }
}

fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, value)?;
    writeln!(output)?;
    Ok(())
}
