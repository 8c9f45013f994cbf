//! What the engine sees of consensus. One voter, a cluster and a simulated cluster are the same code path behind it.
//!
//! Must not know: which library agrees, what entries mean.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gapless_types::LogIndex;
use tokio::sync::watch;

use crate::error::{
    AskError, ChangeError, EntriesError, ReadPointError, SnapshotError, Stopped, TransferError,
};
use crate::identity::{NodeId, Term};
use crate::machine::Committed;
use crate::members::Members;
use crate::proposal::{Leader, ProposalTicket};

/// Agrees with other nodes on one order of opaque entries.
pub trait Replicator: Send + Sync + 'static {
    /// Hands over one entry, which goes to the log and to the followers as it is. Returns at once; proposals handed over one
    /// after the other are appended in that order, and any number may be in flight.
    fn propose(&self, entry: Bytes) -> ProposalTicket;

    /// Who leads, now and from now on.
    fn leadership(&self) -> watch::Receiver<Leadership>;

    /// An index such that whoever has applied everything up to it has seen every proposal acknowledged before this call.
    /// Asks a quorum (ReadIndex); ready once everything up to the index was dispatched here.
    fn read_point(&self) -> BoxFuture<'_, Result<LogIndex, ReadPointError>>;

    /// The members in force at this node.
    fn members(&self) -> Members;

    /// Adds a member that follows without a vote, under an id that no member ever had. Ready when it has caught up.
    fn add_learner(&self, node: NodeId, address: String) -> BoxFuture<'_, Result<LogIndex, ChangeError>>;

    /// Makes exactly these nodes the voters, by joint consensus. Those that become voters must be members; those that no
    /// longer are leave the group, other learners stay.
    fn change_voters(&self, voters: BTreeSet<NodeId>) -> BoxFuture<'_, Result<LogIndex, ChangeError>>;

    /// Removes a learner.
    fn remove_learner(&self, node: NodeId) -> BoxFuture<'_, Result<LogIndex, ChangeError>>;

    /// Lets a voter take over. Ready once this node no longer leads.
    fn transfer_leadership(&self, to: NodeId) -> BoxFuture<'_, Result<(), TransferError>>;

    /// Publishes a snapshot of what was dispatched; says up to where.
    fn snapshot(&self) -> BoxFuture<'_, Result<LogIndex, SnapshotError>>;

    /// Cuts the log in front of `first_kept`, or as far as was dispatched; a snapshot is published first if there is none that
    /// far. Says where the log begins now.
    ///
    /// That may be in front of `first_kept`: what is on its way to a follower is cut when it has arrived, and is not waited for for
    /// long. Nothing is lost by it; whoever needs the room asks again. Files go once the cut is on stable storage.
    ///
    /// TRUNC-1: the caller knows what partitions and followers still need. A follower that needs what is cut gets a snapshot.
    fn purge_to(&self, first_kept: LogIndex) -> BoxFuture<'_, Result<LogIndex, SnapshotError>>;

    /// Entries that were dispatched, from `from` on and below `end`: at least one if `from` is there, about `max_bytes` at most.
    /// For those who fell behind and catch up on their own.
    fn entries(
        &self,
        from: LogIndex,
        end: LogIndex,
        max_bytes: u64,
    ) -> BoxFuture<'_, Result<Vec<Committed>, EntriesError>>;

    /// Asks the machine of another member something, and gives up after `patience`. One question is under way at a time: who has more
    /// of them waits. The other one may have been asked all the same if there is no answer.
    fn ask(
        &self,
        node: NodeId,
        question: Bytes,
        patience: Duration,
    ) -> BoxFuture<'_, Result<Bytes, AskError>>;

    /// How far everything is, now and from now on.
    fn progress(&self) -> watch::Receiver<Progress>;

    /// Counters since the node was opened.
    fn statistics(&self) -> Statistics;

    /// Stops taking part, writes what is queued and closes the log. Proposals in flight end as [`Unknown`](crate::Refusal::Unknown).
    fn close(&self) -> BoxFuture<'_, Result<(), Stopped>>;
}

/// Who leads, as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The newest term this node has seen.
    pub term: Term,
    /// Who leads in it, if anybody is known to. A follower that has heard nothing of him for long does not know it any more.
    pub leader: Option<Leader>,
    /// Whether that is this node.
    pub is_self: bool,
    /// The index of the first entry of this term, once that is dispatched here: from then on everything that earlier leaders
    /// committed was dispatched, too.
    pub term_start: Option<LogIndex>,
    /// Why the node has stopped, if it has. It stays so.
    pub stopped: Option<Stopped>,
}

impl Leadership {
    /// Whether this node leads and has dispatched all that was committed before it did.
    pub fn is_ready(&self) -> bool {
        self.is_self && self.term_start.is_some() && self.stopped.is_none()
    }
}

/// How far a node is: `snapshot <= dispatched <= committed` and `dispatched <= durable` (WM-1). None of it falls while the node is open,
/// except `appended` and `durable` when a suffix that was never committed becomes void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// First index that the log keeps.
    pub first_kept: Option<LogIndex>,
    /// Last index in the log, durable or not.
    pub appended: Option<LogIndex>,
    /// Everything up to here is on stable storage of this node.
    pub durable: Option<LogIndex>,
    /// Everything up to here is known here to be committed.
    pub committed: Option<LogIndex>,
    /// Everything up to here was dispatched, the last entry perhaps this very moment, or is contained in what was resumed from.
    pub dispatched: Option<LogIndex>,
    /// Everything up to here is contained in the last snapshot.
    pub snapshot: Option<LogIndex>,
}

/// What a node counts about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Proposals handed over.
    pub proposed: u64,
    /// Of those, how many were refused before they were appended.
    pub refused: u64,
    /// Entries dispatched.
    pub dispatched: u64,
    /// Snapshots published here.
    pub snapshots_built: u64,
    /// Snapshots of others installed here.
    pub snapshots_installed: u64,
    /// Times that a leader was seen to be elected.
    pub elections: u64,
    /// What each other member has, as far as a leader knows; empty for others.
    pub followers: Vec<(NodeId, Option<LogIndex>)>,
    /// The first entry that may have been lost with the end of the log. As long as it was not passed, the node neither votes nor
    /// asks to lead.
    pub suspect: Option<LogIndex>,
    /// The log's own counters.
    pub log: gapless_log::Statistics,
}
