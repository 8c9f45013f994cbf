//! A node as the engine sees it.
//!
//! Must not know: how the node was opened.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gapless_types::LogIndex;
use gapless_types::mistakes::{Mistake, makes};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, LinearizableReadError, RaftError};
use openraft::raft::{ClientWriteResponse, ClientWriteResult};
use openraft::{ChangeMembers, ReadPolicy};
use tokio::sync::{oneshot, watch};
use tokio::task::coop;

use super::{Node, closed};
use crate::error::{
    AskError, ChangeError, EntriesError, ReadPointError, SnapshotError, Stopped, TransferError,
};
use crate::format::entry;
use crate::identity::NodeId;
use crate::limits::{MAX_ADDRESS_BYTES, MAX_CHANGES_BETWEEN_SNAPSHOTS, MAX_ENTRY_BYTES, MAX_MEMBERS};
use crate::machine::Committed;
use crate::members::{Members, MembersError};
use crate::message::Entry;
use crate::proposal::{ProposalTicket, Refusal};
use crate::raft::{self, Address, Answer, Group, Payload, RaftAnswer};
use crate::replicator::{Leadership, Progress, Replicator, Statistics};
use crate::storage::log_store::{log_index, position};
use crate::watcher::{now, stop};
use crate::watermarks::count;

impl Replicator for Node {
    fn propose(&self, entry: Bytes) -> ProposalTicket {
        count(&self.0.watermarks.counters.proposed);
        if entry.len() > MAX_ENTRY_BYTES {
            return self.refuse(Refusal::TooLarge { bytes: entry.len(), limit: MAX_ENTRY_BYTES });
        }
        if self.stopped().is_some() {
            return self.refuse(Refusal::Stopped);
        }
        let (ticket, answer) = self.ticket();
        // Ready at once unless the queue is full; dropped otherwise, and then nothing was handed over.
        let handed_over = self.0.raft.client_write_ff(Payload(entry), Some(answer));
        match coop::unconstrained(handed_over).now_or_never() {
            Some(Ok(())) => ticket,
            Some(Err(_)) => self.refuse(Refusal::Stopped),
            None => self.refuse(Refusal::Busy),
        }
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.0.leadership.subscribe()
    }

    fn read_point(&self) -> BoxFuture<'_, Result<LogIndex, ReadPointError>> {
        Box::pin(async move {
            // The library goes on for a moment after the node has said that it stopped.
            if let Some(stopped) = self.stopped() {
                return Err(stopped.into());
            }
            if makes(Mistake::ReadWithoutQuorum) && self.leadership().borrow().is_ready() {
                let dispatched = self.progress().borrow().dispatched;
                return Ok(dispatched.unwrap_or(LogIndex::FIRST));
            }
            match self.0.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
                Ok(read) => Ok(LogIndex::new(read.log_id().index)),
                Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
                    Err(ReadPointError::NotLeader { leader: raft::leader(&forward) })
                }
                Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                    Err(ReadPointError::NoQuorum)
                }
                Err(RaftError::Fatal(fatal)) => Err(raft::stopped(&fatal).into()),
            }
        })
    }

    fn members(&self) -> Members {
        raft::members(self.0.raft.metrics().borrow_watched().membership_config.membership())
    }

    fn add_learner(&self, node: NodeId, address: String) -> BoxFuture<'_, Result<LogIndex, ChangeError>> {
        Box::pin(async move {
            let members = self.check_change()?;
            let highest = self.0.state_machine.standing().highest_node;
            let highest = members.addresses.keys().copied().fold(highest, NodeId::max);
            if node <= highest {
                return Err(ChangeError::IdUsed { node, highest });
            }
            if address.len() > MAX_ADDRESS_BYTES {
                return Err(MembersError::AddressTooLong { node, bytes: address.len() }.into());
            }
            if members.addresses.len() >= MAX_MEMBERS {
                return Err(MembersError::TooMany { count: members.addresses.len() + 1 }.into());
            }
            changed(self.0.raft.add_learner(node, Address(address), true).await)
        })
    }

    fn change_voters(&self, voters: BTreeSet<NodeId>) -> BoxFuture<'_, Result<LogIndex, ChangeError>> {
        Box::pin(async move {
            let members = self.check_change()?;
            if voters.is_empty() {
                return Err(MembersError::NoVoter.into());
            }
            let strangers: BTreeSet<NodeId> =
                voters.iter().copied().filter(|node| !members.addresses.contains_key(node)).collect();
            if !strangers.is_empty() {
                return Err(ChangeError::NotMembers(strangers));
            }
            changed(self.0.raft.change_membership(voters, false).await)
        })
    }

    fn remove_learner(&self, node: NodeId) -> BoxFuture<'_, Result<LogIndex, ChangeError>> {
        Box::pin(async move {
            if !self.check_change()?.learners().contains(&node) {
                return Err(ChangeError::NotLearner(node));
            }
            let removal = ChangeMembers::RemoveNodes(BTreeSet::from([node]));
            changed(self.0.raft.change_membership(removal, false).await)
        })
    }

    fn transfer_leadership(&self, to: NodeId) -> BoxFuture<'_, Result<(), TransferError>> {
        Box::pin(self.hand_over(to))
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<LogIndex, SnapshotError>> {
        Box::pin(async move {
            let dispatched = now(&self.0.watermarks).dispatched.ok_or(SnapshotError::Nothing)?;
            self.snapshot_through(dispatched).await
        })
    }

    fn purge_to(&self, first_kept: LogIndex) -> BoxFuture<'_, Result<LogIndex, SnapshotError>> {
        Box::pin(async move {
            let begin = || log_index(self.0.store.log.first());
            let dispatched = now(&self.0.watermarks).dispatched;
            let Some(upto) = first_kept.previous().and_then(|last| dispatched.map(|limit| last.min(limit)))
            else {
                return Ok(begin());
            };
            if upto < begin() {
                return Ok(begin());
            }
            self.snapshot_through(upto).await?;
            self.0.raft.trigger().purge_log(upto.get()).await.map_err(|fatal| raft::stopped(&fatal))?;
            self.purged(upto).await?;
            Ok(begin())
        })
    }

    fn entries(
        &self,
        from: LogIndex,
        end: LogIndex,
        max_bytes: u64,
    ) -> BoxFuture<'_, Result<Vec<Committed>, EntriesError>> {
        Box::pin(self.read_entries(from, end, max_bytes))
    }

    fn ask(
        &self,
        node: NodeId,
        question: Bytes,
        patience: Duration,
    ) -> BoxFuture<'_, Result<Bytes, AskError>> {
        Box::pin(self.ask_machine(node, question, patience))
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.0.watermarks.progress.subscribe()
    }

    fn statistics(&self) -> Statistics {
        let counters = &self.0.watermarks.counters;
        Statistics {
            proposed: counters.proposed.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            dispatched: counters.dispatched.load(Relaxed),
            snapshots_built: counters.snapshots_built.load(Relaxed),
            snapshots_installed: counters.snapshots_installed.load(Relaxed),
            elections: counters.elections.load(Relaxed),
            followers: self.followers(),
            suspect: self.0.reception.probation.suspect(),
            log: self.0.store.log.statistics(),
        }
    }

    fn close(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            stop(&self.0.leadership, "closed");
            // It never fails; what the core ended with is in its metrics.
            let _ = self.0.raft.shutdown().await;
            self.0.state_machine.close();
            self.end_tasks();
            let closed = self.0.store.log.clone().close();
            closed.map_err(|error| Stopped { reason: error.to_string().into() })
        })
    }
}

impl Node {
    fn followers(&self) -> Vec<(NodeId, Option<LogIndex>)> {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow_watched();
        let known = metrics.replication.iter().flatten();
        let others = known.filter(|(node, _)| **node != self.0.identity.node);
        others.map(|(node, has)| (*node, has.as_ref().map(|id| LogIndex::new(id.index)))).collect()
    }

    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.0.leadership.borrow().stopped.clone()
    }

    fn refuse(&self, refusal: Refusal) -> ProposalTicket {
        count(&self.0.watermarks.counters.refused);
        ProposalTicket::refused(refusal)
    }

    /// A ticket, and whoever tells it what became of the proposal.
    fn ticket(&self) -> (ProposalTicket, RaftAnswer) {
        let (tell, outcome) = oneshot::channel();
        let watermarks = self.0.watermarks.clone();
        let answer = Answer::new(move |result: ClientWriteResult<Group>| {
            let settled = match result {
                Ok(response) => Ok(LogIndex::new(response.log_id.index)),
                Err(ClientWriteError::ForwardToLeader(forward)) => {
                    count(&watermarks.counters.refused);
                    Err(Refusal::NotLeader { leader: raft::leader(&forward) })
                }
                // It was appended here, and another leader's entry took its place: nobody here knows what the others have.
                Err(_) => Err(Refusal::Unknown),
            };
            // Whoever dropped the ticket does not want to know.
            let _ = tell.send(settled);
        });
        (ProposalTicket::new(outcome), answer)
    }

    /// Refuses changes of members that can be seen to be wrong here.
    fn check_change(&self) -> Result<Members, ChangeError> {
        if let Some(stopped) = self.stopped() {
            return Err(stopped.into());
        }
        if self.0.state_machine.changes() >= MAX_CHANGES_BETWEEN_SNAPSHOTS {
            return Err(ChangeError::Refused("too many changes since the last snapshot".to_owned()));
        }
        Ok(self.members())
    }

    /// Makes a snapshot unless there is one that contains everything up to `upto`.
    async fn snapshot_through(&self, upto: LogIndex) -> Result<LogIndex, SnapshotError> {
        let mut metrics = self.0.raft.metrics();
        loop {
            let published = metrics.borrow_watched().snapshot.as_ref().map(|id| LogIndex::new(id.index));
            if let Some(published) = published.filter(|&published| published >= upto) {
                return Ok(published);
            }
            // One that is being made may be older than asked for; then another one follows it.
            self.0.raft.trigger().snapshot().await.map_err(|fatal| raft::stopped(&fatal))?;
            loop {
                metrics.changed().await.map_err(|_| closed())?;
                let seen = metrics.borrow_watched();
                seen.running_state.as_ref().map_err(raft::stopped)?;
                if seen.snapshot.as_ref().map(|id| LogIndex::new(id.index)) != published {
                    break;
                }
            }
        }
    }

    /// Waits until the log was cut behind `upto`, but not for long: the library keeps what is on its way to a follower, and cuts it
    /// later. The caller is told where the log begins, not that it begins where it wished.
    async fn purged(&self, upto: LogIndex) -> Result<(), SnapshotError> {
        let mut metrics = self.0.raft.metrics();
        let cut = async {
            loop {
                let purged = {
                    let seen = metrics.borrow_watched();
                    seen.running_state.as_ref().map_err(raft::stopped)?;
                    seen.purged.as_ref().map(|id| id.index)
                };
                if purged >= Some(upto.get()) {
                    return Ok(());
                }
                metrics.changed().await.map_err(|_| closed())?;
            }
        };
        tokio::time::timeout(self.0.settings.transfer_patience(), cut).await.unwrap_or(Ok(()))
    }

    async fn read_entries(
        &self,
        from: LogIndex,
        end: LogIndex,
        max_bytes: u64,
    ) -> Result<Vec<Committed>, EntriesError> {
        let dispatched = now(&self.0.watermarks).dispatched;
        let first = log_index(self.0.store.log.first());
        if from < first {
            return Err(EntriesError::Purged { first });
        }
        let Some(limit) = dispatched.filter(|&dispatched| from <= dispatched).and_then(LogIndex::next) else {
            return Err(EntriesError::NotYet(from));
        };
        let records = self.0.store.records(position(from), position(end.min(limit)), max_bytes).await?;
        let decoded = records.iter().map(|record| {
            let index = log_index(record.position);
            let Entry { id, body } =
                entry::decode(index, &record.payload).map_err(|_| EntriesError::Unreadable(index))?;
            Ok(Committed { index, term: id.term, body })
        });
        decoded.collect()
    }
}

fn changed(
    result: Result<ClientWriteResponse<Group>, RaftError<Group, ClientWriteError<Group>>>,
) -> Result<LogIndex, ChangeError> {
    match result {
        Ok(response) => Ok(LogIndex::new(response.log_id.index)),
        Err(RaftError::Fatal(fatal)) => Err(raft::stopped(&fatal).into()),
        Err(RaftError::APIError(error)) => Err(match error {
            ClientWriteError::ForwardToLeader(forward) => {
                ChangeError::NotLeader { leader: raft::leader(&forward) }
            }
            ClientWriteError::LogEntryDiscarded(_) => ChangeError::Unknown,
            ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_)) => {
                ChangeError::InProgress
            }
            other => ChangeError::Refused(other.to_string()),
        }),
    }
}
