//! The consensus library's types as we set them, and the border between them and ours.
//!
//! Must not know: files, sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use bytes::Bytes;
use gapless_types::LogIndex;
use openraft::alias::{EntryOf, LogIdOf, StoredMembershipOf, VoteOf, WriteResponderOf};
use openraft::errors::{Fatal, ForwardToLeader};
use openraft::impls::TokioRuntime;
use openraft::raft::responder::Responder;
use openraft::raft::{StreamAppendError, VoteRequest as RaftVoteRequest, VoteResponse};
use openraft::rt::deterministic_rng::DeterministicRng;
use openraft::vote::RaftVote;
use openraft::vote::leader_id_std::{CommittedLeaderId, LeaderId};
use openraft::{EntryPayload, Membership, RaftTypeConfig};

use crate::error::Stopped;
use crate::identity::{NodeId, Term};
use crate::machine::CommittedBody;
use crate::members::Members;
use crate::message::{AppendRequest, AppendResponse, Entry, EntryId, Response, Vote, VoteRequest};
use crate::proposal::Leader;

/// One leader per term; chance that follows from a seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group;

impl RaftTypeConfig for Group {
    type D = Payload;
    type R = ();
    type NodeId = NodeId;
    type Node = Address;
    type Term = u64;
    type LeaderId = LeaderId<u64, NodeId>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = EntryPayload<Payload, NodeId, Address>;
    type Entry = openraft::Entry<CommittedLeaderId<u64>, Self::Payload>;
    type AsyncRuntime = DeterministicRng<TokioRuntime>;
    type Responder<T>
        = Answer<T>
    where
        T: Send + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: Send + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

pub(crate) type RaftEntry = EntryOf<Group>;
pub(crate) type RaftLogId = LogIdOf<Group>;
pub(crate) type RaftVoteValue = VoteOf<Group>;
pub(crate) type RaftMembership = Membership<NodeId, Address>;
pub(crate) type RaftStoredMembership = StoredMembershipOf<Group>;
pub(crate) type RaftAnswer = WriteResponderOf<Group>;

/// What was proposed. Shown by its length: it may be large, and nobody's business.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// Where a member is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) String);

/// Told once what became of a proposal. Dropped without a word if nobody will ever know.
pub(crate) struct Answer<T>(Box<dyn FnOnce(T) + Send>);

impl<T> Answer<T> {
    pub(crate) fn new(tell: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Box::new(tell))
    }
}

impl<T: Send + 'static> Responder<Group, T> for Answer<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}

/// Runs a future so that whatever it spawns draws its chance from `seed`.
pub(crate) fn seeded<F: Future>(seed: u64, future: F) -> impl Future<Output = F::Output> {
    DeterministicRng::<TokioRuntime>::scope(seed, future)
}

// Into the library's types.

pub(crate) fn raft_log_id(id: EntryId) -> RaftLogId {
    openraft::LogId { leader_id: CommittedLeaderId::new(id.term.get()), index: id.index.get() }
}

pub(crate) fn raft_vote(vote: Vote) -> RaftVoteValue {
    let leader = LeaderId { term: vote.term.get(), voted_for: vote.node };
    RaftVoteValue::from_leader_id(leader, vote.committed)
}

/// Members that were checked, or come from the library itself.
pub(crate) fn raft_membership(members: &Members) -> RaftMembership {
    let nodes = members.addresses.iter().map(|(&node, address)| (node, Address(address.clone())));
    let nodes: BTreeMap<NodeId, Address> = nodes.collect();
    Membership::new(members.voters.clone(), nodes)
        .expect("no set of voters is empty, and each has an address")
}

pub(crate) fn raft_entry(entry: Entry) -> RaftEntry {
    let payload = match entry.body {
        CommittedBody::Blank => EntryPayload::Blank,
        CommittedBody::Entry(bytes) => EntryPayload::Normal(Payload(bytes)),
        CommittedBody::Members(members) => EntryPayload::Membership(raft_membership(&members)),
    };
    RaftEntry { log_id: raft_log_id(entry.id), payload }
}

pub(crate) fn raft_append_request(request: AppendRequest) -> openraft::raft::AppendEntriesRequest<Group> {
    openraft::raft::AppendEntriesRequest {
        vote: raft_vote(request.vote),
        prev_log_id: request.previous.map(raft_log_id),
        entries: request.entries.into_iter().map(raft_entry).collect(),
        leader_commit: request.committed.map(raft_log_id),
    }
}

pub(crate) fn raft_append_result(
    response: AppendResponse,
) -> Result<Option<RaftLogId>, StreamAppendError<Group>> {
    match response {
        AppendResponse::Accepted(id) => Ok(id.map(raft_log_id)),
        AppendResponse::Conflict(id) => Err(StreamAppendError::Conflict(raft_log_id(id))),
        AppendResponse::HigherVote(vote) => Err(StreamAppendError::HigherVote(raft_vote(vote))),
    }
}

pub(crate) fn raft_vote_request(request: VoteRequest) -> RaftVoteRequest<Group> {
    let mut raft = RaftVoteRequest::new(raft_vote(request.vote), request.last.map(raft_log_id));
    raft.leadership_transfer = request.leadership_transfer;
    raft
}

// Out of the library's types.

pub(crate) fn entry_id(id: &RaftLogId) -> EntryId {
    EntryId { term: Term::new(id.leader_id.term), index: LogIndex::new(id.index) }
}

pub(crate) fn vote(vote: &RaftVoteValue) -> Vote {
    let leader = vote.leader_id();
    Vote { term: Term::new(leader.term), node: leader.voted_for, committed: vote.is_committed() }
}

pub(crate) fn members(membership: &RaftMembership) -> Members {
    Members {
        voters: membership.get_joint_config().clone(),
        addresses: membership.nodes().map(|(&node, address)| (node, address.0.clone())).collect(),
    }
}

pub(crate) fn entry(entry: RaftEntry) -> Entry {
    let body = match entry.payload {
        EntryPayload::Blank => CommittedBody::Blank,
        EntryPayload::Normal(payload) => CommittedBody::Entry(payload.0),
        EntryPayload::Membership(membership) => CommittedBody::Members(members(&membership)),
    };
    Entry { id: entry_id(&entry.log_id), body }
}

pub(crate) fn append_request(request: openraft::raft::AppendEntriesRequest<Group>) -> AppendRequest {
    AppendRequest {
        vote: vote(&request.vote),
        previous: request.prev_log_id.as_ref().map(entry_id),
        entries: request.entries.into_iter().map(entry).collect(),
        committed: request.leader_commit.as_ref().map(entry_id),
    }
}

pub(crate) fn append_response(
    result: &Result<Option<RaftLogId>, StreamAppendError<Group>>,
) -> AppendResponse {
    match result {
        Ok(id) => AppendResponse::Accepted(id.as_ref().map(entry_id)),
        Err(StreamAppendError::Conflict(id)) => AppendResponse::Conflict(entry_id(id)),
        Err(StreamAppendError::HigherVote(higher)) => AppendResponse::HigherVote(vote(higher)),
    }
}

pub(crate) fn vote_request(request: &RaftVoteRequest<Group>) -> VoteRequest {
    VoteRequest {
        vote: vote(&request.vote),
        last: request.last_log_id.as_ref().map(entry_id),
        leadership_transfer: request.leadership_transfer,
    }
}

pub(crate) fn vote_response(response: &VoteResponse<Group>) -> Response {
    Response::Vote {
        vote: vote(&response.vote),
        granted: response.vote_granted,
        last: response.last_log_id.as_ref().map(entry_id),
    }
}

pub(crate) fn leader(forward: &ForwardToLeader<Group>) -> Option<Leader> {
    let node = forward.leader_id?;
    Some(Leader { node, address: forward.leader_node.clone().unwrap_or_default().0 })
}

pub(crate) fn stopped(fatal: &Fatal<Group>) -> Stopped {
    Stopped { reason: fatal.to_string().into() }
}
