//! Arguments of the commands about backups.

use std::path::PathBuf;

use clap::Args;
use gapless_engine::PartitionName;

use super::{Connection, DumpForm};

pub(super) const BACKUP_ABOUT: &str = "\
Asks a server to back everything up: all partitions, namespaces and projections as of one entry of
the replicated log, while writes go on. The path is one of the server's machine, absolute, and
outside its data directory; the server's user has to be able to write there.

A directory takes any number of backups of one cluster. Later ones add only what is new, and share
the rest. A backup that was broken off leaves those before it as they were; the next one tidies up.

With --data a node that nobody serves is opened, backed up and closed again.";

pub(super) const BACKUP_EXAMPLES: &str = "\
Examples:
  gapless backup /backup/shop
  gapless backup /backup/shop --server 10.0.0.7:7400 -o json
  gapless backup /backup/shop --data /var/lib/gapless";

/// What to back up, and where to.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// Directory of the backups, on the machine of the server
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,
    /// Directory of a node that nobody serves, instead of a server
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

pub(super) const RESTORE_ABOUT: &str = "\
Reads a backup, checks every checksum of what it needs, and only then writes a directory that a node
can open. That node is the only voter of a new cluster; others join it as usual. All numbers, ids,
proofs and idempotency keys are those of the cluster that was backed up: a retry of a write that is
in the backup gets its first outcome.

DIR has to be empty or not to exist. If the restore is broken off, DIR is marked, no node opens it,
and the same command begins anew.

With --at-index or --at-time everything is restored as it was behind that entry of the replicated
log. Where that is not possible the command says what is.";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  gapless restore /backup/shop --data /var/lib/gapless
  gapless restore /backup/shop --data /var/lib/gapless --at-time 2026-11-16T12:00:00Z
  gapless restore /backup/shop --data /var/lib/gapless --at-index 81234
  gapless verify /var/lib/gapless && gapless serve --data /var/lib/gapless";

/// What to restore, and where to.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// Directory of the backups
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,
    /// Directory that a node can open afterwards
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Restore what was there behind this entry of the replicated log [default: the newest backup]
    #[arg(long, value_name = "N", conflicts_with = "at_time")]
    pub(crate) at_index: Option<u64>,
    /// Restore what was there at this time: RFC 3339, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub(crate) at_time: Option<u64>,
    /// Id of the node that is to open the directory
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) node: u64,
    /// Address at which other nodes will reach it
    #[arg(long, value_name = "ADDR", default_value = "embedded")]
    pub(crate) address: String,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) output: DumpForm,
}

pub(super) const REPAIR_ABOUT: &str = "\
Verifies a node that nobody serves, and repairs what is damaged: stores, headers and footers out of
the logs; a partition log out of its own outcomes that are whole and those of a backup, its end out
of the replicated log when the node starts; catalog and projections out of a backup, if the
replicated log goes back that far. The old files of a partition log are kept beside it.

What cannot be brought back is refused, with what is lost. The replicated log and the control file
are never repaired.

Exits with 0 if nothing is damaged any more, with 1 otherwise.";

pub(super) const REPAIR_EXAMPLES: &str = "\
Examples:
  gapless repair /var/lib/gapless
  gapless repair /var/lib/gapless --from /backup/shop
  gapless repair /var/lib/gapless --partition shop/0 --from /backup/shop";

/// What to repair, and out of what.
#[derive(Debug, Args)]
pub(crate) struct RepairArguments {
    /// Directory of the node
    pub(crate) dir: PathBuf,
    /// This partition alone: name or id of the namespace, and index
    #[arg(long, value_name = "NAMESPACE/INDEX")]
    pub(crate) partition: Option<PartitionName>,
    /// Directory of backups of the same cluster
    #[arg(long, value_name = "BACKUP")]
    pub(crate) from: Option<PathBuf>,
    /// Directory in which a scratch directory is made [default: that of the system for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) output: DumpForm,
}

/// A time in milliseconds since 1970.
fn milliseconds(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let wrong = "a time is written as 2026-11-16T12:00:00Z, or as milliseconds since 1970";
    let time = humantime::parse_rfc3339_weak(text).map_err(|_| wrong.to_owned())?;
    let since = time.duration_since(std::time::UNIX_EPOCH).map_err(|_| wrong.to_owned())?;
    u64::try_from(since.as_millis()).map_err(|_| wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_or_a_date() {
        assert_eq!(milliseconds("1700000000123"), Ok(1_700_000_000_123));
        assert_eq!(milliseconds("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        assert!(milliseconds("yesterday").is_err());
    }
}
