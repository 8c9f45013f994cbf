//! Arguments of the commands that ask a server.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::DumpForm;

/// Which server is asked, and what its answers look like.
#[derive(Clone, Debug, Args)]
pub(crate) struct Connection {
    /// Addresses of nodes, separated by commas
    #[arg(
        long,
        value_name = "ADDR",
        env = "GAPLESS_SERVER",
        default_value = "127.0.0.1:7400",
        value_delimiter = ','
    )]
    pub(crate) server: Vec<String>,
    /// Who asks, as a bearer token
    #[arg(long, value_name = "TOKEN", env = "GAPLESS_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<Secret>,
    /// Authorities that the server's certificate has to be of, as PEM; connections are encrypted if it is given
    #[arg(long, value_name = "FILE", env = "GAPLESS_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// A client certificate, as PEM
    #[arg(long, value_name = "FILE", env = "GAPLESS_CERT", requires = "key_file")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM
    #[arg(long, value_name = "FILE", env = "GAPLESS_KEY_FILE", requires = "cert")]
    pub(crate) key_file: Option<PathBuf>,
    /// How long an answer may take, retries included, such as 10s
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) output: DumpForm,
}

/// A text that is shown to nobody.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.trim().to_owned())
    }
}

/// A workspace of a namespace: `shop/42`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) workspace: u64,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || "a workspace is written as NAMESPACE/NUMBER, such as shop/42".to_owned();
        let (namespace, workspace) = text.split_once('/').ok_or_else(wrong)?;
        gapless_types::Name::check(namespace).map_err(|error| error.to_string())?;
        let workspace = workspace.parse().map_err(|_| wrong())?;
        Ok(Self { namespace: namespace.to_owned(), workspace })
    }
}

pub(super) const WRITE_EXAMPLES: &str = "\
Examples:
  gapless write shop/42 ItemSold '{\"amount\":3}'
  gapless write shop/42 InvoiceIssued --number invoice --key order-7
  gapless write shop/42 StockCounted --set apples=12 --if-absent
  echo '{\"amount\":3}' | gapless write shop/42 ItemSold -";

/// What to write.
#[derive(Debug, Args)]
pub(crate) struct WriteArguments {
    /// Where: NAMESPACE/WORKSPACE
    pub(crate) place: Place,
    /// What happened
    pub(crate) event_type: String,
    /// The event itself; - reads it from stdin
    pub(crate) payload: Option<String>,
    /// Idempotency key: a UUID, 32 hexadecimal digits, or any name of what is intended; the same one again changes nothing
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Who writes
    #[arg(long, default_value = "cli")]
    pub(crate) client: String,
    /// Also sets the value of an entity; can be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only if none of these entities has a value
    #[arg(long, requires = "set")]
    pub(crate) if_absent: bool,
    /// Also takes the next number of a sequence; can be repeated
    #[arg(long, value_name = "SEQUENCE")]
    pub(crate) number: Vec<String>,
    /// Kind of the workspace, fixed by its first event
    #[arg(long, default_value = "default")]
    pub(crate) kind: String,
    /// How the payload is to be read
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    pub(crate) content_type: String,
    /// Only if the workspace has exactly this many events
    #[arg(long, value_name = "N")]
    pub(crate) expect_offset: Option<u64>,
    /// Also shows the block header, and verifies its proof
    #[arg(long)]
    pub(crate) proof: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

pub(super) const READ_EXAMPLES: &str = "\
Examples:
  gapless read shop/42
  gapless read shop/42 --from 100 --follow
  gapless read shop/42 --backward --limit 10 -o json | jq .event_type";

/// What to read.
#[derive(Debug, Args)]
pub(crate) struct ReadArguments {
    /// Where: NAMESPACE/WORKSPACE
    pub(crate) place: Place,
    /// Workspace offset to begin with [default: the first one, or the last one if backward]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) from: u64,
    /// Most events [default: all]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) limit: u64,
    /// From the newest to the oldest
    #[arg(long, conflicts_with = "follow")]
    pub(crate) backward: bool,
    /// Go on with what happens, until interrupted
    #[arg(long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What to do with entities.
#[derive(Debug, Subcommand)]
pub(crate) enum EntityCommand {
    /// The value under a key
    Get {
        /// Where: NAMESPACE/WORKSPACE
        place: Place,
        /// The key
        key: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Keys and values, by ascending key
    List {
        /// Where: NAMESPACE/WORKSPACE
        place: Place,
        /// Only keys that begin with this
        #[arg(long, default_value = "")]
        prefix: String,
        #[command(flatten)]
        connection: Connection,
    },
}

/// What to do with records.
#[derive(Debug, Subcommand)]
pub(crate) enum RecordCommand {
    /// A record
    Get {
        /// Where: NAMESPACE/WORKSPACE
        place: Place,
        /// Its id
        id: u64,
        #[command(flatten)]
        connection: Connection,
    },
    /// Records, by ascending id
    List {
        /// Where: NAMESPACE/WORKSPACE
        place: Place,
        /// Only records of this type
        #[arg(long = "type", value_name = "TYPE", default_value = "")]
        record_type: String,
        #[command(flatten)]
        connection: Connection,
    },
}

/// Whose sequences to show.
#[derive(Debug, Args)]
pub(crate) struct SequencesArguments {
    /// Where: NAMESPACE/WORKSPACE
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What to do with namespaces.
#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Defines a namespace, or defines it anew, as a file says
    Apply {
        /// TOML; - reads it from stdin
        file: PathBuf,
        #[command(flatten)]
        connection: Connection,
    },
    /// All of them
    List {
        #[command(flatten)]
        connection: Connection,
    },
    /// The definition of one
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Drops one with everything in it
    Drop {
        /// Its name
        name: String,
        /// Do it; without this only what would be lost is shown
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

/// Which partitions to show.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PartitionsArguments {
    #[command(subcommand)]
    pub(crate) command: Option<PartitionsCommand>,
    /// Only those of this namespace
    pub(crate) namespace: Option<String>,
    /// Once a second, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What to do with a partition.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionsCommand {
    /// Makes a partition of the node that is asked anew, while the others serve
    #[command(after_help = "\
Its own log is what it is made of, and a backup or another node if one is named; what is behind comes from
the replicated log. Where that is not enough, the partition stays as it is, and the answer says what is lost.

Of another node only what is not the same here travels. If the two logs differ, one of them is wrong: whoever
names a node says that it is right; with `any`, nothing is repaired then.

Examples:
  gapless partitions repair shop/3
  gapless partitions repair shop/3 --from /backup/shop
  gapless partitions repair shop/3 --from-node any
  gapless partitions repair shop/3 --from-node 2")]
    Repair(RepairPartitionArguments),
}

/// Which partition to repair.
#[derive(Debug, Args)]
pub(crate) struct RepairPartitionArguments {
    /// The partition: NAMESPACE/INDEX
    #[arg(value_name = "NAMESPACE/INDEX")]
    pub(crate) partition: String,
    /// Directory of backups, on the machine of the server: an absolute path
    #[arg(long, value_name = "BACKUP")]
    pub(crate) from: Option<PathBuf>,
    /// Another node of the cluster: its id, or `any` for the one that has most
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    pub(crate) from_node: Option<FromNode>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// A node to take something from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FromNode {
    /// Whichever has most.
    Any,
    /// This one.
    Id(NonZeroU64),
}

impl FromStr for FromNode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "any" => Ok(Self::Any),
            text => text
                .parse()
                .map(Self::Id)
                .map_err(|_| "the id of a node is a number from 1 on, or `any`".to_owned()),
        }
    }
}

/// What to watch.
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// One frame, over one interval, and no more
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between two frames
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) interval: Duration,
    /// Most partitions to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: usize,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What to do with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Who leads, and how far the node that is asked is
    Status {
        #[command(flatten)]
        connection: Connection,
    },
    /// Takes in a node; ready when it has caught up and votes
    Add {
        /// Its id, higher than any that was ever in use
        node: u64,
        /// Where it listens to its peers
        address: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Lets a node be no member any more; its id is never used again
    Remove {
        /// Its id
        node: u64,
        #[command(flatten)]
        connection: Connection,
    },
    /// Lets another voter lead
    Transfer {
        /// Its id
        node: u64,
        #[command(flatten)]
        connection: Connection,
    },
}

pub(super) const PROOF_EXAMPLES: &str = "\
Examples:
  gapless proof shop/42 7
  gapless proof shop/42 7 --size 100 --root 6e340b9c...   against a root that was kept";

/// What to prove.
#[derive(Debug, Args)]
pub(crate) struct ProofArguments {
    /// Where: NAMESPACE/WORKSPACE
    pub(crate) place: Place,
    /// Workspace offset of the event
    pub(crate) offset: u64,
    /// Size of the tree [default: the newest one]
    #[arg(long, value_name = "N")]
    pub(crate) size: Option<u64>,
    /// Root of that tree, 64 hexadecimal digits, from whoever is trusted [default: the server's word]
    #[arg(long, value_name = "HEX", requires = "size")]
    pub(crate) root: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_name_and_a_number() {
        let place = Place { namespace: "shop".to_owned(), workspace: 42 };
        assert_eq!("shop/42".parse(), Ok(place));
        for text in ["shop", "shop/", "shop/x", "/1", "Shop/1", "shop/-1", "a/b/1"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
