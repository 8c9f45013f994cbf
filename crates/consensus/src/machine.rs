//! What consensus drives: whoever acts on the agreed order.
//!
//! Invariants
//! - Entries are dispatched in the order of their indexes, each once in the life of a process, none left out.
//! - WM-1: an entry is dispatched when it is committed and on stable storage here, never earlier.
//! - TRUNC-1: the log is cut only below a snapshot, and a snapshot exists only of what the machine has made durable.
//!
//! Must not know: how the order is agreed on.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gapless_types::LogIndex;

use crate::identity::Term;
use crate::members::Members;

/// An entry that the group agreed on, at the place that it agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its place. Dense: the next one has the next index.
    pub index: LogIndex,
    /// The term of the leader that appended it.
    pub term: Term,
    /// What it is.
    pub body: CommittedBody,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommittedBody {
    /// Nothing: the first entry of a leader's term.
    Blank,
    /// A change of the members, already in force.
    Members(Members),
    /// What was proposed, byte for byte.
    Entry(Bytes),
}

/// What the engine gives to consensus.
pub trait Machine: Send + Sync + 'static {
    /// Takes in the next entry. It queues and returns: whoever waits for anything here holds up the whole group.
    ///
    /// A fault says that this program cannot act on the entry, and has not begun to: the node stops in front of it.
    fn dispatch(&self, entry: Committed) -> Result<(), MachineFault>;

    /// The last entry that durable derived state contains together with all before it: after a restart dispatching goes
    /// on behind it. `None` if there is nothing yet. Asked once, before anything is dispatched.
    ///
    /// It is never above what was dispatched or installed, and never below the last snapshot that succeeded.
    fn resume_after(&self) -> Option<LogIndex>;

    /// Makes a snapshot of everything up to `at`, which is the entry that was dispatched last, or, right after opening, the one
    /// that was resumed behind: what this call marks before it returns is what the snapshot holds, whatever is dispatched until
    /// the future is ready.
    ///
    /// When the future is ready, everything up to `at` is durable, and [`Machine::resume_after`] would say so after a
    /// restart: the log may be cut behind it. The snapshot can be read until it is dropped; copying may wait until then.
    fn snapshot(&self, at: LogIndex) -> BoxFuture<'static, Result<Arc<dyn SnapshotSource>, MachineFault>>;

    /// What of a snapshot at `at` is here already, so that it need not be sent: at most
    /// [`MAX_HELD_BYTES`](crate::limits::MAX_HELD_BYTES), which mean something to the machine that made the snapshot alone. What is
    /// said is on stable storage, and stays. Nothing is held if nothing is said.
    fn held(&self, at: LogIndex) -> BoxFuture<'static, Bytes> {
        let _ = at;
        Box::pin(std::future::ready(Bytes::new()))
    }

    /// Takes in a snapshot that another node made at `at`, without what was said to be held. Nothing is dispatched meanwhile.
    ///
    /// All or nothing: once the future is ready, and after a restart at any later time, [`Machine::resume_after`] is `at` or
    /// more; if it fails, or the process dies, it is what it was before, or as after success.
    fn install(
        &self,
        at: LogIndex,
        body: Box<dyn SnapshotBody>,
    ) -> BoxFuture<'static, Result<(), MachineFault>>;

    /// Answers what the machine of another node of the same cluster asks. Questions and answers mean nothing to consensus; any number
    /// may come at a time, also twice, and while anything else goes on. A fault refuses the question, and changes nothing else.
    fn answer(&self, question: Bytes) -> BoxFuture<'static, Result<Bytes, MachineFault>> {
        drop(question);
        Box::pin(std::future::ready(Err(MachineFault::new("it answers no questions"))))
    }
}

/// A snapshot that can be read, any number of times, until it is dropped.
pub trait SnapshotSource: Send + Sync + 'static {
    /// Its bytes from the beginning, for a receiver that [holds](Machine::held) something already; the same bytes whenever what is
    /// held is the same.
    fn body(&self, held: &Bytes) -> Box<dyn SnapshotBody>;
}

/// The bytes of a snapshot, in pieces.
pub trait SnapshotBody: Send + 'static {
    /// The next piece, of any length but 0; `None` behind the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>>;
}

/// A machine that could not do what it was asked for. The node stops; derived state stays as it was.
#[derive(Clone, Debug)]
pub struct MachineFault(Arc<dyn Error + Send + Sync>);

impl MachineFault {
    /// A fault with its reason.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(source.into()))
    }
}

impl fmt::Display for MachineFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl Error for MachineFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
