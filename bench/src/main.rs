//! Benchmarks of Gapless. Absolute figures belong to one machine and one minute; what counts are the ratios within one
//! run, held against the bars that the design sets.
//!
//! A missed bar is printed, not an error: only what cannot be measured makes the program fail.

mod appending;
mod bare_client;
mod bars;
mod cli;
mod consensus_suite;
mod counting_io;
mod echo_server;
mod engine_isolation;
mod engine_load;
mod engine_report;
mod engine_suite;
mod engine_targets;
mod first_number;
mod flat_storage;
mod instructions;
mod large_log;
mod leases_engine;
mod leases_suite;
mod leases_work;
#[path = "../../crates/sequencer/examples/invoices/log_storage.rs"]
mod log_storage;
mod log_suite;
mod machine;
mod memory;
mod our_log;
mod our_store;
mod partition_evidence;
mod partition_feed;
mod partition_suite;
mod raw_loop;
mod reading;
mod report;
mod rival;
mod samples;
mod security_suite;
mod sequencer_report;
mod sequencer_suite;
mod server_process;
mod server_report;
mod server_suite;
mod store_suite;
mod thread_time;
mod transactions;
// The rivals are measured in a workspace of their own, with the same workload.
#[path = "../rivals/src/store_workload.rs"]
mod store_workload;
mod workload;
mod writing_cost;

use anyhow::Result;
use clap::Parser;

use crate::cli::{Command, CommandLine};

/// That of the program `gapless`, so that what is measured is what runs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    match CommandLine::parse().command {
        Command::Consensus(arguments) => consensus_suite::run(&arguments),
        Command::Engine(arguments) => engine_suite::run(&arguments),
        Command::Leases(arguments) => leases_suite::run(&arguments),
        Command::Log(arguments) => log_suite::run(&arguments),
        Command::Partition(arguments) => partition_suite::run(&arguments),
        Command::Sequencer(arguments) => sequencer_suite::run(&arguments),
        Command::SequencerProbe(arguments) => instructions::probe(&arguments),
        Command::Security(arguments) => security_suite::run(&arguments),
        Command::Server(arguments) => server_suite::run(&arguments),
        Command::EchoServer => echo_server::run(),
        Command::BareClient(arguments) => bare_client::run(&arguments),
        Command::Store(arguments) => store_suite::run(&arguments),
        Command::OurStore(arguments) => store_suite::run_ours(&arguments),
    }
}
