//! Arguments of the commands that are a server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const DEV_EXAMPLES: &str = "\
Examples:
  gapless dev
  gapless dev --data /var/tmp/gapless --listen 127.0.0.1:0";

/// A server to try things with.
#[derive(Debug, Args)]
pub(crate) struct DevArguments {
    /// Directory of the ledger; it is kept
    #[arg(long, value_name = "DIR", default_value = "./gapless-data")]
    pub(crate) data: PathBuf,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7400")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) lines: LineArguments,
}

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  gapless serve --data /var/lib/gapless --listen 127.0.0.1:7400
  gapless serve --data /var/lib/gapless --listen 0.0.0.0:7400 --insecure
  gapless serve --config gapless.toml
  gapless serve --print-config > gapless.toml        all settings with their values and what they are

Settings come from FILE, then from the environment (GAPLESS_SERVER__LISTEN is server.listen), then from flags; later wins.";

/// What a server writes to stderr.
#[derive(Debug, Args)]
pub(crate) struct LineArguments {
    /// Which lines are written to stderr: a level, or levels by target [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// What they look like: human or json [default: human]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

/// A node.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Settings, as TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory of the ledger
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Listen beyond loopback although nothing is encrypted or nobody is asked who he is
    #[arg(long)]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) lines: LineArguments,
    /// Show all settings as a file, and end
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// A page of the documentation that is made from the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferencePage {
    /// Every setting
    Configuration,
    /// Every metric
    Metrics,
}
