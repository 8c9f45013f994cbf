//! Arguments of the load generator.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::Connection;

pub(super) const BENCH_ABOUT: &str = "\
Puts load on a server through the client that programs use, and measures what they would see: every
write with a key of its own, every answer waited for, retries included.

Without --rate the loop is closed: each client sends when it has its answer, so that a server that
stalls is asked less while it does. With --rate it is open: each thing has a time at which it is to
be sent, whatever became of those before it, and its latency counts from then.

Ctrl-C ends it early and shows what was measured until then.";

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  gapless bench write --clients 64 --duration 30s
  gapless bench write --clients 256 --rate 5000        at 5000 a second, and how late answers were
  gapless bench stream --in-flight 1024
  gapless bench read --clients 4 --json
  gapless bench projection --clients 64 --work 10ms";

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One write, one answer
    Write {
        #[command(flatten)]
        load: LoadArguments,
        /// Clients that write at the same time
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        clients: u32,
    },
    /// Streams of writes with many in flight
    Stream {
        #[command(flatten)]
        load: LoadArguments,
        /// Streams at the same time
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        clients: u32,
        /// Writes of each stream that are without an answer
        #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
        in_flight: u32,
    },
    /// Workers of a projection: each computes one event at a time, in so much time, and commits
    Projection {
        #[command(flatten)]
        load: LoadArguments,
        /// Workers at the same time
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        clients: u32,
        /// How long the work on one event takes
        #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = humantime::parse_duration)]
        work: Duration,
    },
    /// Reads of events that were written before; those that are missing are written first
    Read {
        #[command(flatten)]
        load: LoadArguments,
        /// Clients that read at the same time
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        clients: u32,
        /// Events of one read
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        events: u32,
    },
}

/// What every load has.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArguments {
    /// Things a second, all clients together [default: as many as are answered]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) rate: Option<u32>,
    /// How long is measured
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// How long load is put on before that
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) warm_up: Duration,
    /// Bytes of an event
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub(crate) size: u32,
    /// Workspaces that it is spread over
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) workspaces: u64,
    /// Connections that clients share [default: one for each client, 16 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: Option<u32>,
    /// Namespace to use; made with 8 partitions if it is missing
    #[arg(long, value_name = "NAME", default_value = "bench")]
    pub(crate) namespace: String,
    /// The same as -o json
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}
