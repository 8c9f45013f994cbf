//! A node that lost the end of its log is on probation: it does not vote, and does not ask to lead, until it has passed what it lost.
//!
//! The log reports a last frame that was torn. On a disk that keeps what it synced, nobody was told of anything in it. On one that
//! does not, this node may have acknowledged entries that it no longer has, and its vote could make somebody lead who never had them.
//!
//! Invariants
//! - ACK-1: a node on probation helps to elect nobody, and is not elected, with one exception: all voters answer, those whose log is
//!   whole are no quorum, and the candidate has all that any voter has.
//! - It ends when everything from the lost place up to what a leader called committed since the opening was dispatched here, and the
//!   log says durably that nothing is suspect any more. Until then the log remembers it through every restart.
//!
//! Must not know: how votes are counted, how messages travel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select};
use gapless_types::LogIndex;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::watch;

use crate::identity::{Identity, NodeId};
use crate::members::Members;
use crate::message::{AppendRequest, EntryId, Request, Response};
use crate::network::{Channel, Link, Network, Route};
use crate::raft::{self, Group};
use crate::replicator::{Leadership, Progress};
use crate::storage::log_store::LogStore;
use crate::storage::state_machine::StateMachine;
use crate::watcher::Metrics;

/// Whether a node is on probation. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Probation(Arc<watch::Sender<Option<Doubt>>>);

/// What a node on probation knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt {
    /// The first entry that may have been lost.
    from: LogIndex,
    /// The last entry that a leader called committed since the node was opened.
    committed: Option<LogIndex>,
    /// Set while the exception holds.
    excuse: Option<Excuse>,
}

/// All voters answered, and too few of them have a whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Excuse {
    /// The last entry that any of them has: whoever is to lead has it, too.
    furthest: Option<EntryId>,
}

/// What a voter says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Condition {
    suspect: bool,
    last: Option<EntryId>,
}

impl Probation {
    /// `from` is the first entry that may have been lost, if any may.
    pub(crate) fn new(from: Option<LogIndex>) -> Self {
        let doubt = from.map(|from| Doubt { from, committed: None, excuse: None });
        Self(Arc::new(watch::Sender::new(doubt)))
    }

    /// The first entry that may have been lost, as long as it was not passed.
    pub(crate) fn suspect(&self) -> Option<LogIndex> {
        self.0.borrow().map(|doubt| doubt.from)
    }

    /// Whether the node's word counts for somebody who has everything up to `last`.
    pub(crate) fn may_support(&self, last: Option<EntryId>) -> bool {
        match *self.0.borrow() {
            None => true,
            Some(doubt) => doubt.excuse.is_some_and(|excuse| last >= excuse.furthest),
        }
    }

    /// Takes note of what a leader says is committed.
    pub(crate) fn hear(&self, request: &AppendRequest) {
        let said = request.committed.filter(|_| request.vote.committed).map(|id| id.index);
        self.0.send_if_modified(|doubt| {
            // Nobody has to wake up for it: what is committed is dispatched, and that is seen.
            if let Some(doubt) = doubt {
                doubt.committed = doubt.committed.max(said);
            }
            false
        });
    }

    fn excuse(&self, excuse: Option<Excuse>) {
        self.0.send_if_modified(|doubt| {
            if let Some(doubt) = doubt {
                doubt.excuse = excuse;
            }
            false
        });
    }

    /// Whether what was lost has been passed.
    fn has_passed(&self, leads: bool, dispatched: Option<LogIndex>) -> bool {
        let Some(doubt) = *self.0.borrow() else { return true };
        let told = if leads { Some(doubt.from) } else { doubt.committed };
        told.is_some_and(|committed| dispatched >= Some(committed.max(doubt.from)))
    }
}

/// Ends a probation.
pub(crate) struct Officer {
    pub(crate) probation: Probation,
    pub(crate) identity: Identity,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) raft: Raft<Group, StateMachine>,
    pub(crate) store: LogStore,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) progress: watch::Receiver<Progress>,
    pub(crate) metrics: Metrics,
    /// How long answers are waited for, and how often others are asked.
    pub(crate) patience: Duration,
}

impl Officer {
    /// Runs until the lost place was passed, or the node stops.
    pub(crate) async fn run(mut self) {
        let mut links: BTreeMap<NodeId, Box<dyn Link>> = BTreeMap::new();
        while self.leadership.borrow_and_update().stopped.is_none() {
            let (leads, dispatched) =
                (self.leadership.borrow().is_ready(), self.progress.borrow_and_update().dispatched);
            if self.probation.has_passed(leads, dispatched) {
                // A log that fails ends the node, and is still suspect when it is opened again.
                if self.store.settle_suspect().await.is_ok() {
                    self.probation.0.send_replace(None);
                    self.raft.runtime_config().elect(true);
                }
                return;
            }
            let excuse = self.ask(&mut links).await;
            self.probation.excuse(excuse);
            let last = self.store.read(LogStore::last).await.ok().flatten();
            self.raft.runtime_config().elect(self.probation.may_support(last));
            let moved =
                Box::pin(select(Box::pin(self.progress.changed()), Box::pin(self.leadership.changed())));
            // Whether something moved or the time is over: all of it is looked at again.
            let _ = tokio::time::timeout(self.patience, moved).await;
        }
    }

    /// Asks all other voters how they are.
    async fn ask(&self, links: &mut BTreeMap<NodeId, Box<dyn Link>>) -> Option<Excuse> {
        let members = raft::members(self.metrics.borrow_watched().membership_config.membership());
        let voters = members.all_voters();
        let me = self.identity.node;
        links.retain(|node, _| voters.contains(node));
        for &voter in voters.iter().filter(|&&voter| voter != me) {
            links.entry(voter).or_insert_with(|| self.connect(voter, &members));
        }
        let asked = links.iter_mut().map(|(&voter, link)| async move {
            match link.call(Request::Condition, self.patience).await {
                Ok(Response::Condition { suspect, last }) => Some((voter, Condition { suspect, last })),
                _ => None,
            }
        });
        let answers: Option<BTreeMap<NodeId, Condition>> = join_all(asked).await.into_iter().collect();
        let mut conditions = answers?;
        conditions.insert(me, Condition { suspect: true, last: self.store.read(LogStore::last).await.ok()? });
        excuse(&members, &conditions)
    }

    fn connect(&self, to: NodeId, members: &Members) -> Box<dyn Link> {
        let Identity { cluster, group, node: from } = self.identity;
        let address = members.address(to).unwrap_or_default().to_owned();
        self.network.connect(Route { cluster, group, from, to, address, channel: Channel::Liveness })
    }
}

/// The exception: everybody answered, and those whose log is whole are no quorum.
fn excuse(members: &Members, conditions: &BTreeMap<NodeId, Condition>) -> Option<Excuse> {
    let all_answered = members.all_voters().iter().all(|voter| conditions.contains_key(voter));
    let is_whole = |node: &NodeId| conditions.get(node).is_some_and(|condition| !condition.suspect);
    let is_majority =
        |set: &BTreeSet<NodeId>| 2 * set.iter().filter(|node| is_whole(node)).count() > set.len();
    let whole_decide = members.voters.iter().all(is_majority);
    let furthest = conditions.values().map(|condition| condition.last).max().flatten();
    (all_answered && !members.voters.is_empty() && !whole_decide).then_some(Excuse { furthest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Term;
    use crate::message::Vote;

    fn at(term: u64, index: u64) -> Option<EntryId> {
        Some(EntryId { term: Term::new(term), index: LogIndex::new(index) })
    }

    fn members(sets: &[&[u64]]) -> Members {
        let set = |set: &&[u64]| set.iter().map(|&node| NodeId::new(node)).collect();
        let voters: Vec<BTreeSet<NodeId>> = sets.iter().map(set).collect();
        let addresses = voters.iter().flatten().map(|&node| (node, String::new())).collect();
        Members { voters, addresses }
    }

    fn conditions(of: &[(u64, bool, u64)]) -> BTreeMap<NodeId, Condition> {
        let condition =
            |&(node, suspect, index)| (NodeId::new(node), Condition { suspect, last: at(1, index) });
        of.iter().map(condition).collect()
    }

    #[test]
    fn the_exception_needs_all_voters_and_no_quorum_of_whole_logs() {
        let three = members(&[&[1, 2, 3]]);
        let excused = |members: &Members, of: &[(u64, bool, u64)]| excuse(members, &conditions(of));
        let furthest = at(1, 9);
        assert_eq!(excused(&three, &[(1, true, 5), (2, false, 9), (3, false, 7)]), None, "the others decide");
        assert_eq!(excused(&three, &[(1, true, 5), (2, true, 9)]), None, "one did not answer");
        let two_lost = excused(&three, &[(1, true, 5), (2, true, 9), (3, false, 7)]);
        assert_eq!(two_lost, Some(Excuse { furthest }));
        assert!(excused(&members(&[&[1]]), &[(1, true, 5)]).is_some(), "a single voter has nobody else");
        let joint = members(&[&[1, 2, 3], &[3, 4, 5]]);
        let of = [(1, false, 1), (2, false, 1), (3, true, 9), (4, true, 1), (5, false, 1)];
        assert_eq!(excused(&joint, &of), Some(Excuse { furthest }), "a quorum is one of each set");
    }

    #[test]
    fn a_node_on_probation_supports_nobody_but_the_furthest_under_the_exception() {
        let probation = Probation::new(Some(LogIndex::new(5)));
        assert!(!probation.may_support(at(9, 99)));
        probation.excuse(Some(Excuse { furthest: at(2, 7) }));
        assert!(!probation.may_support(at(2, 6)));
        assert!(probation.may_support(at(2, 7)));
        assert!(probation.may_support(at(3, 1)));
        probation.excuse(None);
        assert!(!probation.may_support(at(9, 99)));
        assert!(Probation::new(None).may_support(None));
    }

    #[test]
    fn a_probation_ends_behind_the_lost_place_and_behind_what_a_leader_calls_committed() {
        let probation = Probation::new(Some(LogIndex::new(5)));
        let passed = |dispatched| probation.has_passed(false, Some(LogIndex::new(dispatched)));
        let say = |committed: bool, index| {
            let vote = Vote { term: Term::new(1), node: NodeId::new(2), committed };
            let (previous, entries) = (None, Vec::new());
            probation.hear(&AppendRequest { vote, previous, entries, committed: at(1, index) });
        };
        assert!(!passed(9), "nobody said what is committed");
        say(false, 3);
        assert!(!passed(9), "it does not lead");
        say(true, 3);
        assert!(!passed(4) && passed(5));
        say(true, 8);
        assert!(!passed(7) && passed(8));
        say(true, 2);
        assert!(!passed(7), "what is committed stays so");
        assert!(probation.has_passed(true, Some(LogIndex::new(5))), "whoever leads says so itself");
    }
}
