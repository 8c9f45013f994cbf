//! Leadership is handed to another voter, and taken back if that one does not come to lead.
//!
//! From the moment it hands over, the library's leader sends nothing and accepts nothing, for as long as no other leads; it has no way to
//! take that back. So it hands over only to somebody who is not behind; and who has not taken over in time is not waited for: the node
//! gives up its term and asks for votes like anybody else.
//!
//! Must not know: why leadership is handed over.

use std::time::Duration;

use gapless_types::LogIndex;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::RaftError;
use tokio::sync::watch;

use super::{Node, closed};
use crate::error::{Stopped, TransferError};
use crate::identity::{NodeId, Term};
use crate::message::{EntryId, Vote, VoteRequest};
use crate::raft::{self, Group};
use crate::replicator::{Leadership, Replicator};
use crate::storage::state_machine::StateMachine;

impl Node {
    /// Hands leadership to another voter.
    pub(super) async fn hand_over(&self, to: NodeId) -> Result<(), TransferError> {
        let leadership = self.leadership();
        let known = leadership.borrow().clone();
        if let Some(stopped) = known.stopped {
            return Err(stopped.into());
        }
        if !known.is_self {
            return Err(TransferError::NotLeader { leader: known.leader });
        }
        if !self.members().all_voters().contains(&to) {
            return Err(TransferError::NotVoter(to));
        }
        if to == self.0.identity.node {
            return Ok(());
        }
        let patience = self.0.settings.transfer_patience();
        match tokio::time::timeout(patience, self.follows_closely(to, known.term)).await {
            Ok(Ok(())) => {}
            Ok(Err(stopped)) => return Err(stopped.into()),
            Err(_) => return Err(TransferError::Behind(to)),
        }
        let handover = Handover { raft: self.0.raft.clone(), leadership, term: known.term, to };
        // Whoever asked may go away: what was begun is ended all the same.
        tokio::spawn(handover.run(patience)).await.unwrap_or_else(|_| Err(closed().into()))
    }

    /// Waits until a voter has everything that is committed now, or until there is no point in waiting.
    async fn follows_closely(&self, voter: NodeId, term: Term) -> Result<(), Stopped> {
        let mut metrics = self.0.raft.metrics();
        let committed = metrics.borrow_watched().local_committed.map(|id| id.index);
        loop {
            {
                let now = metrics.borrow_watched();
                let has = now.replication.as_ref().and_then(|known| known.get(&voter).copied().flatten());
                if now.current_term != term.get() || has.map(|id| id.index) >= committed {
                    return Ok(());
                }
            }
            metrics.changed().await.map_err(|_| closed())?;
        }
    }
}

/// A handing over that was begun.
struct Handover {
    raft: Raft<Group, StateMachine>,
    leadership: watch::Receiver<Leadership>,
    /// The term of the leader that steps back.
    term: Term,
    to: NodeId,
}

impl Handover {
    async fn run(mut self, patience: Duration) -> Result<(), TransferError> {
        let fatal = |fatal| raft::stopped(&fatal);
        self.raft.trigger().transfer_leader(self.to).await.map_err(fatal)?;
        let term = self.term;
        let left = self.leadership.wait_for(|now| now.term != term || !now.is_self);
        let now = tokio::time::timeout(patience, left).await.map(|now| now.map(|now| now.clone()));
        match now {
            Ok(Ok(now)) => match now.stopped {
                Some(stopped) => Err(stopped.into()),
                // It leads again, in a later term: the other one has not come to lead, or not for long.
                None if now.is_self => Err(TransferError::TimedOut(self.to)),
                None => Ok(()),
            },
            Ok(Err(_)) => Err(closed().into()),
            Err(_) => {
                self.take_back().await?;
                Err(TransferError::TimedOut(self.to))
            }
        }
    }

    /// Gives up the term, and asks for votes in a later one.
    ///
    /// The term is given up by a vote for the other one in the next, as if he had asked for it. That takes nothing from anybody: it is the
    /// vote that he was to get, nobody counts a vote that he has not asked for, and when he does ask he is answered by what his log has.
    async fn take_back(&self) -> Result<(), Stopped> {
        let fatal = |fatal| raft::stopped(&fatal);
        let vote = Vote { term: Term::new(self.term.get() + 1), node: self.to, committed: false };
        // Nothing that is here is longer.
        let last = Some(EntryId { term: self.term, index: LogIndex::new(u64::MAX) });
        let request = raft::raft_vote_request(VoteRequest { vote, last, leadership_transfer: true });
        match self.raft.vote(request).await {
            Ok(answer) if answer.vote_granted => self.raft.trigger().elect(false).await.map_err(fatal),
            // Somebody was elected this very moment: the term is over, and he leads.
            Ok(_) => Ok(()),
            Err(RaftError::Fatal(error)) => Err(fatal(error)),
            Err(RaftError::APIError(never)) => match never {},
        }
    }
}
