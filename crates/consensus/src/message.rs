//! What nodes say to each other, in words of our own: a transport encodes these, and knows no consensus library.
//!
//! Must not know: how messages travel, how they are answered.

use bytes::Bytes;
use gapless_types::LogIndex;

use crate::identity::{NodeId, Term};
use crate::machine::CommittedBody;

/// An entry of the log, told apart from what another leader may have put at the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// The term of the leader that appended it.
    pub term: Term,
    /// Its place.
    pub index: LogIndex,
}

/// A vote: whom a node supports in which term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The term.
    pub term: Term,
    /// Who is to lead in it.
    pub node: NodeId,
    /// Whether a quorum voted so, and it leads.
    pub committed: bool,
}

/// An entry on its way, committed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which.
    pub id: EntryId,
    /// What it is.
    pub body: CommittedBody,
}

/// A leader hands entries to a follower; without any, it says that it is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendRequest {
    /// The leader's vote.
    pub vote: Vote,
    /// The entry in front of the first one.
    pub previous: Option<EntryId>,
    /// The entries, dense.
    pub entries: Vec<Entry>,
    /// The last one known to be committed.
    pub committed: Option<EntryId>,
}

/// What a follower says to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendResponse {
    /// Everything up to here is as the leader has it, and on stable storage.
    Accepted(Option<EntryId>),
    /// The follower does not have this entry.
    Conflict(EntryId),
    /// The follower has seen a newer vote.
    HigherVote(Vote),
}

/// A single question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Vote for me.
    Vote(VoteRequest),
    /// Would you vote for me?
    PreVote(VoteRequest),
    /// Take over from me.
    TransferLeader {
        /// The vote of the leader that steps back.
        from: Vote,
        /// Who is to lead.
        to: NodeId,
        /// What it must have.
        last: Option<EntryId>,
    },
    /// Is your log whole?
    Condition,
    /// How much of a snapshot have you received, and what of it need not be sent?
    SnapshotReceived {
        /// The last entry that it contains.
        snapshot: EntryId,
    },
    /// What a machine asks the machine of another node: at most [`MAX_QUESTION_BYTES`](crate::limits::MAX_QUESTION_BYTES). Nobody in
    /// between knows what it means.
    Ask(Bytes),
}

/// What a candidate says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteRequest {
    /// The vote it asks for.
    pub vote: Vote,
    /// The last entry it has.
    pub last: Option<EntryId>,
    /// Whether the leader wants it: then nobody waits for that leader's time to run out.
    pub leadership_transfer: bool,
}

/// A single answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To a request for a vote, or for what it would be.
    Vote {
        /// The vote of whoever answers.
        vote: Vote,
        /// Whether it is, or would be, given.
        granted: bool,
        /// The last entry it has.
        last: Option<EntryId>,
    },
    /// To a request to take over: whether it will try.
    TransferLeader {
        /// It will.
        accepted: bool,
    },
    /// To the question whether the log is whole.
    Condition {
        /// The end of it was lost, and not passed again.
        suspect: bool,
        /// The last entry it has.
        last: Option<EntryId>,
    },
    /// To the question how much of a snapshot was received.
    SnapshotReceived {
        /// How much of it.
        received: Received,
        /// What the machine [holds](crate::Machine::held) of it; what was received came behind the same answer.
        held: Bytes,
    },
    /// To what a machine asked: at most [`MAX_ANSWER_BYTES`](crate::limits::MAX_ANSWER_BYTES).
    Answer(Bytes),
}

/// How much of a snapshot has arrived, whole and in order, so that it need not be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Pieces of the body.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The checksum over their checksums: a sender goes on behind them only if it would send the same.
    pub sum: u32,
}
