//! The command line: commands, arguments, and the help that people read.
//!
//! Must not know: what the commands do.

mod access;
mod backup;
mod bench;
mod client;
mod node;
mod projection;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::access::{IssueArguments, TlsCommand, TokenCommand};
pub(crate) use self::backup::{BackupArguments, RepairArguments, RestoreArguments};
pub(crate) use self::bench::{BenchCommand, LoadArguments};
pub(crate) use self::client::{
    ClusterCommand, Connection, EntityCommand, FromNode, NamespaceCommand, PartitionsArguments,
    PartitionsCommand, ProofArguments, ReadArguments, RecordCommand, RepairPartitionArguments,
    SequencesArguments, TopArguments, WriteArguments,
};
pub(crate) use self::node::{DevArguments, LineArguments, ReferencePage, ServeArguments};
pub(crate) use self::projection::{ProjectionCommand, ProjectionName};

/// The event ledger whose numbers never skip, repeat or go back.
#[derive(Debug, Parser)]
#[command(name = "gapless", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  gapless dev                                         a server to try things with, on loopback
  gapless write demo/1 ItemSold '{\"amount\":3}' --number invoice
  gapless read demo/1 --follow                        what happened, then what happens
  gapless serve --data DIR --listen 127.0.0.1:7400    a node
  gapless backup /backup/shop                         everything, while the server goes on
  gapless verify DIR                                  a node, backups or a partition: names what is damaged

Exit codes: 0 done, 1 refused or failed (the reason is on stderr), 2 wrong usage.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A server to try things with: on loopback, with a namespace `demo`
    #[command(after_help = node::DEV_EXAMPLES)]
    Dev(DevArguments),
    /// A node; ends when it gets SIGTERM or SIGINT, after everything it took is answered
    #[command(after_help = node::SERVE_EXAMPLES)]
    Serve(ServeArguments),
    /// Writes an event, and shows every number it was given
    #[command(after_help = client::WRITE_EXAMPLES)]
    Write(WriteArguments),
    /// Reads the events of a workspace, and follows them
    #[command(after_help = client::READ_EXAMPLES)]
    Read(ReadArguments),
    /// Values under keys
    Entity {
        #[command(subcommand)]
        command: EntityCommand,
    },
    /// Records
    Record {
        #[command(subcommand)]
        command: RecordCommand,
    },
    /// The sequences of a workspace with their last numbers
    Sequences(SequencesArguments),
    /// Namespaces: defined by a file, listed, shown, dropped
    Namespace {
        #[command(subcommand)]
        command: NamespaceCommand,
    },
    /// Read models: listed, described, read, unblocked
    #[command(after_help = projection::PROJECTION_EXAMPLES)]
    Projection {
        #[command(subcommand)]
        command: ProjectionCommand,
    },
    /// How partitions do: state, watermarks, backlog
    Partitions(PartitionsArguments),
    /// How a node does, live: rates, watermarks, partitions with the most to do first
    Top(TopArguments),
    /// Nodes
    Cluster {
        #[command(subcommand)]
        command: ClusterCommand,
    },
    /// Bearer tokens: the keys they are signed with, issued, looked at
    #[command(after_help = access::TOKEN_EXAMPLES)]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Certificates of an authority of one's own, for nodes and for clients
    #[command(after_help = access::TLS_EXAMPLES)]
    Tls {
        #[command(subcommand)]
        command: TlsCommand,
    },
    /// Fetches the proof of an event, and verifies it here
    #[command(after_help = client::PROOF_EXAMPLES)]
    Proof(ProofArguments),
    /// Puts load on a server, and shows throughput and latencies
    #[command(long_about = bench::BENCH_ABOUT, after_help = bench::BENCH_EXAMPLES)]
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// A demonstration without a server: a ledger, a killed process, and numbers without a gap
    #[command(long_about = DEMO_ABOUT, after_help = DEMO_EXAMPLES)]
    Demo(DemoArguments),
    /// Writes to the ledger of a demonstration until it is killed
    #[command(name = "demo-writer", hide = true)]
    DemoWriter {
        /// Directory of the ledger
        ledger: PathBuf,
    },
    /// Backs a server up into a directory of its machine, while it serves
    #[command(long_about = backup::BACKUP_ABOUT, after_help = backup::BACKUP_EXAMPLES)]
    Backup(BackupArguments),
    /// Makes a directory that a node can open out of a backup
    #[command(long_about = backup::RESTORE_ABOUT, after_help = backup::RESTORE_EXAMPLES)]
    Restore(RestoreArguments),
    /// Repairs a node that nobody serves, out of its logs and a backup
    #[command(long_about = backup::REPAIR_ABOUT, after_help = backup::REPAIR_EXAMPLES)]
    Repair(RepairArguments),
    /// Verifies a node, a directory of backups or one partition: every checksum, every number, every row
    #[command(long_about = VERIFY_PARTITION_ABOUT, after_help = VERIFY_PARTITION_EXAMPLES)]
    Verify(VerifyArguments),
    /// Looks at the files of a log: for operators, and for people who want to know
    Log {
        #[command(subcommand)]
        command: LogCommand,
    },
    /// Writes a page of the documentation that is made from the program itself
    #[command(hide = true)]
    Reference {
        /// Which page
        page: ReferencePage,
    },
    /// Writes what a shell needs to complete commands and arguments
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

const VERIFY_PARTITION_ABOUT: &str = "\
DIR is the directory of a node, a directory of backups, or the directory of one partition.

Of a node: catalog, control file, every entry of the replicated log, every frame of every partition
log, every row of every store; and of each partition everything is computed anew from its log: every
number that was given, every leaf and every subtree of the trees that proofs are made of, the window
of idempotency keys, every row of the store. Partitions with a log of more than 256 MiB are computed
anew only with --full; their checksums are checked in any case. Of projections every row is read.

Of backups: every manifest, and every checksum of every file that one of them names.

Whatever is wrong is named with its file and place, what it means, and the command that helps.

Nobody may have the directory open. Nothing of it changes; what is computed lies in a scratch
directory that is about as large as the store of the largest partition, and is removed at the end.

Exits with 0 if nothing is damaged, with 1 otherwise. What a crash may leave behind is no damage.";

const VERIFY_PARTITION_EXAMPLES: &str = "\
Examples:
  gapless verify /var/lib/gapless
  gapless verify /var/lib/gapless --full -o json | jq .findings
  gapless verify /backup/shop
  gapless verify ./gapless-demo/demo
  gapless verify ./gapless-demo/demo --scratch /var/tmp -o json | jq .first_difference";

/// What to verify, and how.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Directory of a node, of backups, or of a partition: the one with `log` and `store`
    pub(crate) dir: PathBuf,
    /// Compute all partitions of a node anew, however long they are
    #[arg(long)]
    pub(crate) full: bool,
    /// Directory in which a scratch directory is made [default: that of the system for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) output: DumpForm,
}

const DEMO_ABOUT: &str = "\
Shows what Gapless promises, on the ledger of one partition, embedded, without a server.

Defines a namespace with a gap-free sequence of invoice numbers, writes a few events and shows what
each was given, retries one and is refused once. A child process then writes and reports each write once it is
on stable storage; in the middle of its work it is killed (SIGKILL). The ledger is opened again:
every write that was reported must be there with the numbers that were reported. At the end
everything is read back, and no number may be missing or be there twice.

A ledger that an earlier demonstration left in the directory is continued with the next numbers.
Any other one is refused.";

const DEMO_EXAMPLES: &str = "\
Examples:
  gapless demo
  gapless demo --data /var/tmp/gapless --writes 20000";

/// How the demonstration runs.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Directory of the demonstration; its ledger lies in DIR/demo
    #[arg(long, value_name = "DIR", default_value = "./gapless-demo")]
    pub(crate) data: PathBuf,
    /// Acknowledged writes after which the writing process is killed
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) writes: u64,
}

/// What to do with the files of a log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Shows what the files hold: positions, segments, small state, damage
    #[command(long_about = INSPECT_ABOUT, after_help = INSPECT_EXAMPLES)]
    Inspect {
        /// Directory of the log: the one with the .segment files
        dir: PathBuf,
        /// Also list every frame; reads all of them
        #[arg(long)]
        frames: bool,
        /// Form of the output
        #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
        output: DumpForm,
    },
    /// Reads and checks every frame, and names every damage
    #[command(long_about = VERIFY_ABOUT, after_help = VERIFY_EXAMPLES)]
    Verify {
        /// Directory of the log: the one with the .segment files
        dir: PathBuf,
        /// Form of the output
        #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
        output: DumpForm,
    },
    /// Shows the records
    #[command(long_about = DUMP_ABOUT, after_help = DUMP_EXAMPLES)]
    Dump(DumpArguments),
    /// Opens a log although segments are missing or short, and records the loss in it
    #[command(long_about = ACCEPT_LOSS_ABOUT, after_help = ACCEPT_LOSS_EXAMPLES)]
    AcceptLoss {
        /// Directory of the log: the one with the .segment files
        dir: PathBuf,
        /// Do it; without this the losses are only listed
        #[arg(long)]
        yes: bool,
        /// Form of the output
        #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
        output: DumpForm,
    },
}

const INSPECT_ABOUT: &str = "\
Shows what the files of a log hold, as opening it would find them: headers, footers, and the
frames of the last segment. Changes nothing and takes no lock; while a process writes to the log,
its end may look torn.";

const INSPECT_EXAMPLES: &str = "\
Examples:
  gapless log inspect ./gapless-demo/demo/log
  gapless log inspect ./gapless-demo/demo/log --frames
  gapless log inspect ./gapless-demo/demo/log -o json | jq .segments";

const VERIFY_ABOUT: &str = "\
Reads every frame of every segment, checks all checksums and the chain between frames, and says
for each damage what it means and what to do next. Changes nothing and takes no lock.

Exits with 0 if no record is threatened (the torn end that a crash leaves threatens none), with 1
otherwise.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  gapless log verify ./gapless-demo/demo/log
  gapless log verify ./gapless-demo/demo/log -o json | jq .damage";

/// Which records to show, and how.
#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    /// Directory of the log: the one with the .segment files
    pub(crate) dir: PathBuf,
    /// First position to show [default: the first one there is]
    #[arg(long, value_name = "POSITION")]
    pub(crate) from: Option<u64>,
    /// Most records to show [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Show everything as it was written: frames, the log's own records, what was truncated or released
    #[arg(long)]
    pub(crate) frames: bool,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) output: DumpForm,
}

const DUMP_ABOUT: &str = "\
Shows the records that a reader of the log would get, in order. What cannot be read is named in
its place, never skipped, and makes the command end with 1. Changes nothing and takes no lock.

Payloads are shown as text where they are UTF-8, as hexadecimal digits otherwise; the table cuts
them to the width of the screen (COLUMNS, or 100). `-o json` writes one line per record. `-o raw`
writes the payloads as they are, with nothing between them.";

const DUMP_EXAMPLES: &str = "\
Examples:
  gapless log dump ./gapless-demo/demo/log --limit 10
  gapless log dump ./gapless-demo/demo/log --frames | less
  gapless log dump ./gapless-demo/demo/log --from 1234 --limit 1 -o raw > payload";

const ACCEPT_LOSS_ABOUT: &str = "\
A log with missing or short segments does not open, because records that were acknowledged may be
gone. If there is no copy to put back, this command opens it all the same and records in the log
which positions were lost. It cannot be taken back. Without --yes it only lists what would be lost,
and exits with 1.";

const ACCEPT_LOSS_EXAMPLES: &str = "\
Examples:
  gapless log accept-loss ./gapless-demo/demo/log
  gapless log accept-loss ./gapless-demo/demo/log --yes";

/// Form of what a command says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpForm {
    /// For people
    #[default]
    Table,
    /// For programs: one line for each thing, if there may be many
    Json,
    /// The payloads, values or numbers, and nothing else
    Raw,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
