//! Outcomes on their way from the threads that apply to those who wait for them.
//!
//! They are told on the threads of the runtime, because waking a task costs much more elsewhere, and because whoever applies has better
//! things to do. What comes while somebody is about to tell is told with the rest: many partitions share one wake-up.
//!
//! Must not know: what an outcome says, who waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_types::PartitionId;

use crate::acks::{Acks, Decided};
use crate::node::Node;

/// Outcomes that nobody was told of yet, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Telling(Mutex<Vec<(PartitionId, Vec<Decided>)>>);

impl Telling {
    /// Has these outcomes of a partition told soon.
    pub(crate) fn tell_soon(node: &Arc<Node>, partition: PartitionId, decided: Vec<Decided>) {
        if decided.is_empty() {
            return;
        }
        let is_first = {
            let mut waiting = node.telling.lock();
            waiting.push((partition, decided));
            waiting.len() == 1
        };
        if is_first {
            let telling = node.clone();
            node.runtime.spawn(async move { telling.telling.tell(&telling.acks) });
        }
    }

    /// Tells everything that waits, now.
    pub(crate) fn tell(&self, acks: &Acks) {
        let waiting = std::mem::take(&mut *self.lock());
        for (partition, decided) in waiting {
            acks.decided(partition, decided);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PartitionId, Vec<Decided>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
