//! Tells everybody who waits what the consensus library, the log and the machine have come to.
//!
//! Must not know: who waits.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use gapless_types::LogIndex;
use openraft::alias::WatchReceiverOf;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Raft, RaftMetrics};
use tokio::sync::watch;

use crate::error::Stopped;
use crate::hearing::Hearing;
use crate::identity::{NodeId, Term};
use crate::message::EntryId;
use crate::proposal::Leader;
use crate::raft::{self, Group};
use crate::replicator::{Leadership, Progress};
use crate::storage::log_store::{LogStore, log_index};
use crate::storage::state_machine::StateMachine;
use crate::watermarks::{Watermarks, count, raise};

pub(crate) type Metrics = WatchReceiverOf<Group, RaftMetrics<Group>>;

/// Watches over one node.
pub(crate) struct Watcher {
    pub(crate) node: NodeId,
    pub(crate) raft: Raft<Group, StateMachine>,
    pub(crate) metrics: Metrics,
    pub(crate) store: LogStore,
    pub(crate) watermarks: Arc<Watermarks>,
    pub(crate) leadership: Arc<watch::Sender<Leadership>>,
    pub(crate) hearing: Arc<Hearing>,
    /// The newest term whose leader was told of.
    pub(crate) elected: Term,
}

impl Watcher {
    /// Runs until the node stops.
    pub(crate) async fn run(mut self) {
        let mut settlements = self.store.settlements.subscribe();
        let mut term_start = self.watermarks.term_start.subscribe();
        loop {
            self.tell();
            if self.leadership.borrow().stopped.is_some() {
                return;
            }
            // The library waits neither for truncating nor for purging, and may write nothing for long: it is told here.
            let failure = settlements.borrow_and_update().failure.clone();
            if let Some(failure) = failure {
                stop(&self.leadership, &format!("the log failed: {failure}"));
                // It never fails; what the core ended with is in its metrics.
                let _ = self.raft.shutdown().await;
                return;
            }
            let (settled, started) = (pin!(settlements.changed()), pin!(term_start.changed()));
            let heard = pin!(heard_or_not(&self.hearing, self.follows()));
            let others = select(heard, select(settled, started));
            let running = match select(pin!(self.metrics.changed()), others).await {
                Either::Left((changed, _)) => changed.is_ok(),
                Either::Right(_) => true,
            };
            if !running {
                stop(&self.leadership, "closed");
                return;
            }
        }
    }

    /// Whether another node is named as the one that leads.
    fn follows(&self) -> bool {
        let known = self.leadership.borrow();
        known.leader.is_some() && !known.is_self
    }

    /// Brings everything up to date.
    pub(crate) fn tell(&mut self) {
        let metrics = self.metrics.borrow_watched();
        let mut leadership = leadership(self.node, &metrics, *self.watermarks.term_start.borrow());
        if !leadership.is_self && self.hearing.is_silent() {
            leadership.leader = None;
        }
        let committed = metrics.local_committed.as_ref().map(|id| LogIndex::new(id.index));
        drop(metrics);
        self.leadership.send_if_modified(|known| {
            let changed = *known != leadership && known.stopped.is_none();
            if changed {
                // One that is heard again is not elected again.
                if leadership.leader.is_some() && self.elected < leadership.term {
                    self.elected = leadership.term;
                    count(&self.watermarks.counters.elections);
                }
                *known = leadership;
            }
            changed
        });
        let log = &self.store.log;
        self.watermarks.progress.send_if_modified(|progress| {
            let before = *progress;
            progress.first_kept = Some(log_index(log.first()));
            progress.appended = log.next().previous().map(log_index);
            progress.durable = progress.dispatched.max(log.durable().previous().map(log_index));
            raise(&mut progress.committed, committed);
            *progress != before
        });
    }
}

/// Waits until nothing was heard of the leader that is named for too long, or one is heard again.
async fn heard_or_not(hearing: &Hearing, follows: bool) {
    if follows {
        tokio::time::sleep_until(hearing.patient_until()).await;
    } else {
        hearing.again.notified().await;
    }
}

fn leadership(node: NodeId, metrics: &RaftMetrics<Group>, term_start: Option<EntryId>) -> Leadership {
    let term = Term::new(metrics.current_term);
    let members = metrics.membership_config.membership();
    // A leader that was removed steps down, and nobody has told it of another one: it does not lead all the same.
    let leads = metrics.current_leader.filter(|leader| *leader != node || metrics.state.is_leader());
    let leader = leads.map(|leader| Leader {
        node: leader,
        address: members.get_node(&leader).cloned().unwrap_or_default().0,
    });
    Leadership {
        term,
        is_self: leads == Some(node),
        leader,
        term_start: term_start.filter(|start| start.term == term).map(|start| start.index),
        stopped: metrics.running_state.as_ref().err().map(raft::stopped),
    }
}

/// Says once and for all that the node has stopped.
pub(crate) fn stop(leadership: &watch::Sender<Leadership>, reason: &str) {
    leadership.send_if_modified(|known| {
        let running = known.stopped.is_none();
        if running {
            let stopped = Some(Stopped { reason: reason.into() });
            *known = Leadership { term: known.term, stopped, ..Leadership::default() };
        }
        running
    });
}

/// A progress that is only read.
pub(crate) fn now(watermarks: &Watermarks) -> Progress {
    *watermarks.progress.borrow()
}
