//! Arguments of the commands about projections.

use clap::{Args, Subcommand};

use super::Connection;

pub(super) const PROJECTION_EXAMPLES: &str = "\
Examples:
  gapless projection list shop
  gapless projection describe shop sales
  gapless projection rows shop sales daily --workspace 42 --prefix 2026-
  gapless projection dead-letters shop sales -o json | jq .partition_offset
  gapless projection skip shop sales 3 1729";

/// What to do with projections.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectionCommand {
    /// All of a namespace, with lag and dead letters
    List {
        /// The namespace
        namespace: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// One of them, domain by domain: watermark, lag, what blocks
    Describe {
        #[command(flatten)]
        projection: ProjectionName,
        #[command(flatten)]
        connection: Connection,
    },
    /// Rows of a table, by ascending id
    Rows {
        #[command(flatten)]
        projection: ProjectionName,
        /// The table
        table: String,
        /// Whose rows; of no meaning where they belong to the namespace
        #[arg(long, value_name = "N", default_value_t = 0)]
        workspace: u64,
        /// The row with this id alone
        #[arg(long, conflicts_with = "prefix")]
        id: Option<String>,
        /// Only ids that begin with this
        #[arg(long, default_value = "", hide_default_value = true)]
        prefix: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Slots whose event had no effect, and why
    DeadLetters {
        #[command(flatten)]
        projection: ProjectionName,
        #[command(flatten)]
        connection: Connection,
    },
    /// Fills a slot, whoever holds it: its event will have no effect
    Skip {
        #[command(flatten)]
        projection: ProjectionName,
        /// The partition
        partition: u32,
        /// The slot
        slot: u64,
        #[command(flatten)]
        connection: Connection,
    },
}

/// A projection of a namespace.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProjectionName {
    /// The namespace
    pub(crate) namespace: String,
    /// The projection
    pub(crate) name: String,
}
