//! What can be asked for on the command line, and where things go if it is not said.

use std::env;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::bare_client::BareClientArguments;
use crate::consensus_suite::ConsensusArguments;
use crate::engine_suite::EngineArguments;
use crate::leases_suite::LeasesArguments;
use crate::partition_suite::PartitionArguments;
use crate::security_suite::SecurityArguments;
use crate::server_suite::ServerArguments;
use crate::store_suite::{OurStoreArguments, StoreArguments};

#[derive(Debug, Parser)]
#[command(about = "Benchmarks of Gapless: ratios within one run")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A group of one against its bare log
    Consensus(ConsensusArguments),
    /// The engine: writers through the whole corridor, on one node and on three
    Engine(EngineArguments),
    /// One domain of a projection: leases, corrections, memory
    Leases(LeasesArguments),
    /// The log against a raw file and against its rivals
    Log(LogArguments),
    /// The partition: applies, restart, memory
    Partition(PartitionArguments),
    /// The sequencer: transactions, memory, and how soon it has a first number
    Sequencer(SequencerArguments),
    /// Transactions to be counted by callgrind
    #[command(hide = true)]
    SequencerProbe(ProbeArguments),
    /// The server beside one that does nothing
    Server(ServerArguments),
    /// The server with TLS and tokens beside the same without
    Security(SecurityArguments),
    /// The server that does nothing
    #[command(hide = true)]
    EchoServer,
    /// The load generator that is nothing but tonic
    #[command(hide = true)]
    BareClient(BareClientArguments),
    /// The store of derived state beside its rivals
    Store(StoreArguments),
    /// One run of our store in this process, as JSON
    OurStore(OurStoreArguments),
}

/// What every suite can be asked for.
#[derive(Debug, Args)]
pub(crate) struct SuiteArguments {
    /// Less of everything: a first look in a minute or two
    #[arg(long)]
    pub(crate) quick: bool,
    /// Directory on the disk to measure [default: bench in the target directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl SuiteArguments {
    /// Not the system's directory for temporary files: that one is often memory, where a sync costs nothing.
    pub(crate) fn directory(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(default_directory)
    }
}

/// The same for a suite that writes its figures to a file.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    suite: SuiteArguments,
    /// Where the figures go as JSON [default: a file with the suite's name, in bench in the target directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl ReportArguments {
    pub(crate) fn is_quick(&self) -> bool {
        self.suite.quick
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.suite.directory()
    }

    /// Where the figures of a suite go.
    pub(crate) fn json(&self, suite: &str) -> PathBuf {
        self.json.clone().unwrap_or_else(|| default_directory().join(suite).with_extension("json"))
    }
}

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// The program that measures rivals, built from `bench/rivals`
    #[arg(long, value_name = "PATH")]
    pub(crate) rivals: PathBuf,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SequencerArguments {
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ProbeArguments {
    #[arg(long)]
    pub(crate) workspaces: u64,
    #[arg(long)]
    pub(crate) transactions: u64,
}

/// Where cargo builds, as it tells the programs it runs; else the `target` of the current directory.
fn default_directory() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.as_deref().and_then(|package| package.parent()).map(PathBuf::from).unwrap_or_default();
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("bench")
}
