//! When a leader sends no entries: it has not heard of a quorum for so long that the others should elect somebody else, which they do
//! not as long as they hear from it.
//!
//! The library sends no heartbeats then, either, and tries again now and then (`quorum_loss_probe_interval`), which is how a quorum is
//! found again. But entries that nobody acknowledged it would send over and over, and each of them is as good as a heartbeat.
//!
//! Must not know: how messages travel.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use openraft::Instant as _;
use openraft::alias::InstantOf;
use openraft::async_runtime::watch::WatchReceiver;

use crate::raft::Group;
use crate::watcher::Metrics;

type Instant = InstantOf<Group>;

/// Whether a node that leads has heard of a quorum.
pub(crate) struct Quiet {
    /// How long a leader is believed to be one by those who heard it.
    lease: Duration,
    metrics: OnceLock<Metrics>,
    /// The newest term in which it was asked, and when first: somebody who was elected has heard of a quorum then, at the latest.
    began: Mutex<(u64, Instant)>,
}

impl Quiet {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { lease, metrics: OnceLock::new(), began: Mutex::new((0, Instant::now())) }
    }

    /// What the node is told by. Before that it is nobody's leader.
    pub(crate) fn watch(&self, metrics: Metrics) {
        self.metrics.get_or_init(|| metrics);
    }

    /// Whether the node leads and has not heard of a quorum for longer than a lease.
    pub(crate) fn is_due(&self) -> bool {
        let Some(metrics) = self.metrics.get() else { return false };
        let (acknowledged, term) = {
            let now = metrics.borrow_watched();
            // Who decides alone has no quorum to hear of, and perhaps learners.
            let mut voters = now.membership_config.membership().voter_ids();
            if !now.state.is_leader() || voters.all(|voter| voter == now.id) {
                return false;
            }
            (now.last_quorum_acked.map(|at| *at), now.current_term)
        };
        let heard = acknowledged.unwrap_or_else(|| self.began(term));
        heard.elapsed() >= self.lease
    }

    fn began(&self, term: u64) -> Instant {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        if began.0 != term {
            *began = (term, Instant::now());
        }
        began.1
    }
}
