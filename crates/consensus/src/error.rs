//! One error type per family of operations.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use gapless_log::LogId;
use gapless_types::LogIndex;
use thiserror::Error;

use crate::identity::{Identity, NodeId};
use crate::machine::MachineFault;
use crate::members::MembersError;
use crate::network::LinkError;
use crate::proposal::{Leader, known};

/// The node has stopped, by request or by a fault. It must be opened again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the node has stopped: {reason}")]
pub struct Stopped {
    /// Why.
    pub reason: Arc<str>,
}

/// Why a node could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] gapless_log::OpenError),
    /// The log could not be written while it was opened.
    #[error(transparent)]
    Append(#[from] gapless_log::AppendError),
    /// The directory belongs to somebody else.
    #[error("{dir} belongs to {found}, not to {expected}")]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Whose it is.
        found: Identity,
        /// Who opened it.
        expected: Identity,
    },
    /// The log is not the one that this node has voted and acknowledged with.
    #[error(
        "the log in {dir} is {found}, but this node has written {expected}; bring that back, or join under a new id"
    )]
    OtherLog {
        /// The directory.
        dir: PathBuf,
        /// The log that is there.
        found: LogId,
        /// The log that was.
        expected: LogId,
    },
    /// There is a log with content, but nothing says whose.
    #[error("{0} is missing although the log has content")]
    ControlMissing(PathBuf),
    /// The control file is damaged.
    #[error("{path} is damaged: {what}")]
    ControlDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Something in the log is not of a form that this program knows.
    #[error("{what} in the log is not of a known form")]
    Unreadable {
        /// What.
        what: &'static str,
    },
    /// The machine has state that is ahead of the log, or behind what the log still holds.
    #[error("the machine goes on behind entry {resume_after}, but the log holds {first} to {last}")]
    MachineAstray {
        /// What the machine says.
        resume_after: String,
        /// First index there is.
        first: String,
        /// Last index there is.
        last: String,
    },
    /// The members given for a new group cannot be.
    #[error(transparent)]
    Members(#[from] MembersError),
    /// The disk failed.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The settings contradict each other.
    #[error("settings: {0}")]
    Settings(String),
    /// Consensus did not start.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why there is no read point.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadPointError {
    /// This node does not lead.
    #[error("this node does not lead{}", known(.leader.as_ref()))]
    NotLeader {
        /// Who does, if anybody is known to.
        leader: Option<Leader>,
    },
    /// It leads, but a quorum did not confirm that.
    #[error("a quorum did not confirm that this node leads")]
    NoQuorum,
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why the members were not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// This node does not lead.
    #[error("this node does not lead{}", known(.leader.as_ref()))]
    NotLeader {
        /// Who does, if anybody is known to.
        leader: Option<Leader>,
    },
    /// Another change is on its way.
    #[error("another change of members is on its way")]
    InProgress,
    /// The id may have been in use before. A node id is never used again.
    #[error("node ids up to {highest} have been in use; node {node} needs a higher one")]
    IdUsed {
        /// The id.
        node: NodeId,
        /// The highest that was ever in use.
        highest: NodeId,
    },
    /// Voters that are no members. They join as learners first.
    #[error("{0:?} are no members; add them as learners first")]
    NotMembers(BTreeSet<NodeId>),
    /// A voter cannot be removed as if it were a learner.
    #[error("node {0} is no learner")]
    NotLearner(NodeId),
    /// No group can have such members.
    #[error(transparent)]
    Members(#[from] MembersError),
    /// Leadership was lost on the way; the change may take place or not.
    #[error("leadership was lost; the change may take place or not")]
    Unknown,
    /// Refused for another reason.
    #[error("refused: {0}")]
    Refused(String),
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why leadership was not handed over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransferError {
    /// This node does not lead.
    #[error("this node does not lead{}", known(.leader.as_ref()))]
    NotLeader {
        /// Who does, if anybody is known to.
        leader: Option<Leader>,
    },
    /// Only a voter can lead.
    #[error("node {0} is no voter")]
    NotVoter(NodeId),
    /// The other one is so far behind that it could not be elected. Nothing has changed.
    #[error("node {0} is behind and does not catch up")]
    Behind(NodeId),
    /// The other one did not take over in time; this node may lead again.
    #[error("node {0} did not take over in time")]
    TimedOut(NodeId),
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why there is no new snapshot, or the log was not cut.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// Nothing was dispatched yet.
    #[error("nothing was dispatched yet")]
    Nothing,
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why entries could not be read.
#[derive(Clone, Debug, Error)]
pub enum EntriesError {
    /// They were cut off; a snapshot contains them.
    #[error("entries below {first} were cut off")]
    Purged {
        /// First index there is.
        first: LogIndex,
    },
    /// Not dispatched yet.
    #[error("entry {0} was not dispatched yet")]
    NotYet(LogIndex),
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] gapless_log::ReadError),
    /// An entry that is not of a known form.
    #[error("entry {0} is not of a known form")]
    Unreadable(LogIndex),
}

/// Why another machine gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// There is no such other member.
    #[error("node {0} is no other member of the cluster")]
    NotMember(NodeId),
    /// The question is longer than it may be.
    #[error("the question has {bytes} bytes of at most {limit}")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// It did not get through, or the other node refused it.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a snapshot was not installed. Nothing changed.
#[derive(Debug, Error)]
pub enum InstallError {
    /// Not a snapshot, of another version, or damaged.
    #[error("not a snapshot: {0}")]
    Header(&'static str),
    /// A snapshot of another cluster or group.
    #[error("the snapshot is of another cluster or group")]
    Foreign,
    /// A piece that arrived other than it was sent, or too few or too many of them.
    #[error("the body of the snapshot is damaged: {0}")]
    Body(&'static str),
    /// It was to go on behind a part that arrived earlier, and that part is not here.
    #[error("the beginning of the snapshot is not here")]
    Elsewhere,
    /// The sender broke off.
    #[error("the sender broke off: {0}")]
    Sender(MachineFault),
    /// The disk failed.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl InstallError {
    /// Whether what arrived so far is sound, and only the rest is missing.
    pub(crate) fn is_break(&self) -> bool {
        matches!(self, Self::Sender(_) | Self::Elsewhere | Self::Header(ENDS_EARLY) | Self::Body(ENDS_EARLY))
    }
}

/// What is said of a snapshot that lacks its end.
pub(crate) const ENDS_EARLY: &str = "it ends too early";
