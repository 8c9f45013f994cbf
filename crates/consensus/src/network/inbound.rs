//! What peers ask of this node, handed to the consensus library.
//!
//! Invariants
//! - What is meant for another cluster, group or node is refused: a node at a reused address must not answer for its
//!   predecessor.
//! - A node on probation is not asked for its vote: it is refused here, in front of the consensus library.
//!
//! Must not know: how messages travel.

use std::fmt::Display;
use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use gapless_log::io::Io;
use openraft::Raft;
use openraft::raft::TransferLeaderRequest;

use super::{Answers, Inbound, LinkError, Route, SnapshotStream};
use crate::error::InstallError;
use crate::hearing::Hearing;
use crate::identity::{Identity, NodeId, Term};
use crate::limits::{MAX_ANSWER_BYTES, MAX_HELD_BYTES, MAX_QUESTION_BYTES};
use crate::machine::{CommittedBody, Machine};
use crate::message::{AppendRequest, EntryId, Received, Request, Response, Vote};
use crate::probation::Probation;
use crate::raft::{self, Group};
use crate::storage::log_store::LogStore;
use crate::storage::spool::Spool;
use crate::storage::state_machine::{SnapshotData, StateMachine};

/// Receives for one node.
#[derive(Clone)]
pub(crate) struct Reception {
    pub(crate) raft: Raft<Group, StateMachine>,
    pub(crate) identity: Identity,
    pub(crate) io: Arc<dyn Io>,
    pub(crate) dir: PathBuf,
    pub(crate) store: LogStore,
    pub(crate) probation: Probation,
    pub(crate) hearing: Arc<Hearing>,
    pub(crate) machine: Arc<dyn Machine>,
    /// Where the chance of what is spawned for a peer comes from.
    pub(crate) seed: u64,
    /// One snapshot at a time: there is one file for it.
    pub(crate) receiving: Arc<tokio::sync::Mutex<()>>,
}

impl Reception {
    fn check(&self, route: &Route) -> Result<(), LinkError> {
        let Identity { cluster, group, node } = self.identity;
        if (route.cluster, route.group, route.to) == (cluster, group, node) {
            return Ok(());
        }
        let reason = format!("this is {}", self.identity).into();
        Err(LinkError::Refused { node, reason })
    }

    fn refused(&self, reason: &dyn Display) -> LinkError {
        LinkError::Refused { node: self.identity.node, reason: reason.to_string().into() }
    }

    async fn answer(self, request: Request) -> Result<Response, LinkError> {
        match request {
            Request::Vote(request) | Request::PreVote(request)
                if !self.probation.may_support(request.last) =>
            {
                self.refuse_vote().await
            }
            Request::Vote(request) => {
                let voted = self.raft.vote(raft::raft_vote_request(request)).await;
                voted.map(|voted| raft::vote_response(&voted)).map_err(|error| self.refused(&error))
            }
            Request::PreVote(request) => {
                let voted = self.raft.pre_vote(raft::raft_vote_request(request)).await;
                voted.map(|voted| raft::vote_response(&voted)).map_err(|error| self.refused(&error))
            }
            Request::TransferLeader { .. } if self.probation.suspect().is_some() => {
                Ok(Response::TransferLeader { accepted: false })
            }
            Request::TransferLeader { from, to, last } => {
                let (from, last) = (raft::raft_vote(from), last.map(raft::raft_log_id));
                let handled =
                    self.raft.handle_transfer_leader(TransferLeaderRequest::new(from, to, last)).await;
                let handled = handled.map_err(|error| self.refused(&error))?;
                Ok(Response::TransferLeader { accepted: handled.is_ok() })
            }
            Request::SnapshotReceived { snapshot } => {
                let _one_at_a_time = self.receiving.lock().await;
                let (io, dir) = (self.io.clone(), self.dir.clone());
                let received = self.store.read(move |_| Spool::received(&*io, &dir, snapshot)).await;
                let (received, held) = match received {
                    Some(received) => received,
                    None => (Received::default(), self.machine.held(snapshot.index).await),
                };
                // Whoever holds so much that he cannot say it gets all of it.
                let held = if held.len() <= MAX_HELD_BYTES { held } else { Bytes::new() };
                Ok(Response::SnapshotReceived { received, held })
            }
            Request::Ask(question) => self.answer_machine(question).await,
            Request::Condition => Ok(Response::Condition {
                suspect: self.probation.suspect().is_some(),
                last: self.last().await?,
            }),
        }
    }

    async fn answer_machine(&self, question: Bytes) -> Result<Response, LinkError> {
        if question.len() > MAX_QUESTION_BYTES {
            return Err(self.refused(&format!("a question of {} bytes", question.len())));
        }
        let answer = self.machine.answer(question).await.map_err(|fault| self.refused(&fault))?;
        match answer.len() <= MAX_ANSWER_BYTES {
            true => Ok(Response::Answer(answer)),
            false => Err(self.refused(&format!("an answer of {} bytes", answer.len()))),
        }
    }

    async fn last(&self) -> Result<Option<EntryId>, LinkError> {
        self.store.read(LogStore::last).await.map_err(|error| self.refused(&error))
    }

    /// Votes for nobody, and says what it has. The vote it has given before stays.
    async fn refuse_vote(&self) -> Result<Response, LinkError> {
        let vote = self.store.vote().map_err(|error| self.refused(&error))?;
        let vote = vote.unwrap_or(Vote { term: Term::default(), node: NodeId::default(), committed: false });
        Ok(Response::Vote { vote, granted: false, last: self.last().await? })
    }

    async fn install(
        self,
        vote: Vote,
        behind: Received,
        snapshot: SnapshotStream,
    ) -> Result<Vote, InstallError> {
        let _one_at_a_time = self.receiving.lock().await;
        let spool = Spool::receive(self.io.clone(), &self.dir, behind, snapshot).await?;
        if !spool.header.fits(&self.identity) {
            return Err(InstallError::Foreign);
        }
        let snapshot = SnapshotData::Received(Arc::new(spool)).into_snapshot();
        let installed = self.raft.install_full_snapshot(raft::raft_vote(vote), snapshot).await;
        let installed = installed.map_err(|fatal| InstallError::Stopped(raft::stopped(&fatal)))?;
        Ok(raft::vote(&installed.vote))
    }
}

impl Inbound for Reception {
    fn call(&self, route: &Route, request: Request) -> BoxFuture<'static, Result<Response, LinkError>> {
        let (checked, this) = (self.check(route), self.clone());
        Box::pin(async move {
            checked?;
            this.answer(request).await
        })
    }

    fn append(
        &self,
        route: &Route,
        requests: BoxStream<'static, AppendRequest>,
    ) -> BoxFuture<'static, Result<Answers<'static>, LinkError>> {
        let (checked, this) = (self.check(route), self.clone());
        Box::pin(async move {
            checked?;
            // Members that cannot be come from no leader of ours: the stream ends in front of them.
            let requests = requests.take_while(|request| ready(is_sound(request)));
            let (probation, hearing) = (this.probation.clone(), this.hearing.clone());
            let requests = requests.inspect(move |request| {
                probation.hear(request);
                hearing.hear(request.vote);
            });
            let requests = requests.map(raft::raft_append_request);
            let raft = this.raft.clone();
            let answers = raft::seeded(this.seed, async move { raft.stream_append(requests).boxed() }).await;
            let answers = answers.map(move |answer| match answer {
                Ok(result) => Ok(raft::append_response(&result)),
                Err(fatal) => Err(this.refused(&fatal)),
            });
            Ok(answers.boxed())
        })
    }

    fn install_snapshot(
        &self,
        route: &Route,
        vote: Vote,
        behind: Received,
        snapshot: SnapshotStream,
    ) -> BoxFuture<'static, Result<Vote, InstallError>> {
        let (checked, this) = (self.check(route), self.clone());
        Box::pin(async move {
            checked.map_err(|_| InstallError::Foreign)?;
            this.install(vote, behind, snapshot).await
        })
    }
}

fn is_sound(request: &AppendRequest) -> bool {
    request.entries.iter().all(|entry| match &entry.body {
        CommittedBody::Members(members) => members.check().is_ok(),
        CommittedBody::Blank | CommittedBody::Entry(_) => true,
    })
}
