//! Waiting until partitions have applied a target. Served from memory, by watching; no table of who waits.
//!
//! Must not know: what was applied.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gapless_types::{LogIndex, PartitionId, PartitionOffset};

use crate::engine::Engine;
use crate::error::{BarrierError, Blocked};
use crate::limits::MAX_BARRIERS;

/// What a partition has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything for it up to this entry of the replicated log.
    Index(LogIndex),
    /// This outcome.
    Offset(PartitionOffset),
}

/// Counts who waits.
#[derive(Debug, Default)]
pub(crate) struct Barriers(AtomicUsize);

struct Waiting<'a>(&'a Barriers);

impl Barriers {
    fn enter(&self) -> Result<Waiting<'_>, BarrierError> {
        let waiting = Waiting(self);
        match self.0.fetch_add(1, Ordering::Relaxed) < MAX_BARRIERS {
            true => Ok(waiting),
            false => Err(BarrierError::TooMany { limit: MAX_BARRIERS }),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Waits until all of these partitions have reached their targets on this node.
    ///
    /// # Errors
    /// If one does not exist, too many wait already, or some were not reached in time: those are named.
    pub async fn wait(
        &self,
        targets: &[(PartitionId, Target)],
        patience: Duration,
    ) -> Result<(), BarrierError> {
        let _waiting = self.barriers().enter()?;
        let all = async {
            for (partition, target) in targets {
                self.reach(*partition, *target).await?;
            }
            Ok(())
        };
        match tokio::time::timeout(patience, all).await {
            Ok(reached) => reached,
            Err(_) => Err(BarrierError::DeadlineExceeded(self.blocked(targets))),
        }
    }

    async fn reach(&self, partition: PartitionId, target: Target) -> Result<(), BarrierError> {
        let slot = self.node().slot(partition).ok_or(BarrierError::Unknown(partition))?;
        let gone = |_| BarrierError::Unknown(partition);
        match target {
            Target::Index(index) => {
                let through = self.applied_through(&slot, index).await;
                through.map(|_| ()).map_err(|_| BarrierError::Unknown(partition))
            }
            Target::Offset(offset) => {
                let mut applied = slot.applied.subscribe();
                applied.wait_for(|applied| applied.offset >= Some(offset)).await.map(|_| ()).map_err(gone)
            }
        }
    }

    fn blocked(&self, targets: &[(PartitionId, Target)]) -> Vec<Blocked> {
        let core = self.node().core();
        let through = |partition| core.watermarks.applied_through(partition);
        let is_blocked = |(partition, target): &&(PartitionId, Target)| match target {
            Target::Index(index) => through(*partition) < Some(*index),
            Target::Offset(offset) => {
                let marks = core.watermarks.marks(*partition);
                marks.and_then(|marks| marks.applied) < Some(*offset)
            }
        };
        let shown = |(partition, _): &(PartitionId, Target)| Blocked {
            partition: *partition,
            through: through(*partition),
        };
        targets.iter().filter(is_blocked).map(shown).collect()
    }
}
