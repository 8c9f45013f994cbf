//! One life of a node's process, from its start until it ends or its power goes.
//!
//! Invariants
//! - Nothing that a life does after its end has an effect: its disk, its network and its clients ask here first.
//!
//! Must not know: what a process does.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use gapless_consensus::NodeId;
use tokio::sync::Notify;

/// A life. It ends once.
pub struct Life {
    /// Whose.
    pub node: NodeId,
    /// The first is 1.
    pub number: u64,
    ended: AtomicBool,
    told: Notify,
}

impl Life {
    /// A life that begins.
    pub(crate) fn new(node: NodeId, number: u64) -> Self {
        Self { node, number, ended: AtomicBool::new(false), told: Notify::new() }
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// Whether it goes on.
    pub fn is_on(&self) -> bool {
        !self.ended.load(Ordering::SeqCst)
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        let told = self.told.notified();
        if self.is_on() {
            told.await;
        }
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node {} life {}", self.node, self.number)
    }
}
