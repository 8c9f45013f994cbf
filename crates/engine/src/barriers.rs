//! Waiting until partitions have applied a target. Served from memory, by watching; no table of who waits.
//!
//! Must not know: what was applied.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_types::{ClientId, LogIndex, PartitionId, PartitionOffset};

use crate::engine::Engine;
use crate::error::{BarrierError, Blocked, ReadError};
use crate::limits::{MAX_BARRIERS, MAX_CLIENT_BARRIERS};
use crate::reads::wait_for_offset;

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
pub(crate) struct Barriers(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_client: HashMap<ClientId, usize>,
}

/// The place of a client who waits. Dropped, it is free.
#[derive(Debug)]
#[must_use = "dropped, it is free"]
pub struct BarrierPlace<'a>(&'a Barriers, &'a ClientId);

impl Barriers {
    fn enter<'a>(&'a self, client: &'a ClientId) -> Result<BarrierPlace<'a>, BarrierError> {
        let mut counts = self.lock();
        let of_client = counts.by_client.get(client).copied().unwrap_or(0);
        if of_client >= MAX_CLIENT_BARRIERS {
            return Err(BarrierError::TooManyOfClient { limit: MAX_CLIENT_BARRIERS });
        }
        if counts.all >= MAX_BARRIERS {
            return Err(BarrierError::TooMany { limit: MAX_BARRIERS });
        }
        counts.all += 1;
        counts.by_client.insert(client.clone(), of_client + 1);
        Ok(BarrierPlace(self, client))
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // A panic while this lock is held leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BarrierPlace<'_> {
    fn drop(&mut self) {
        let Self(barriers, client) = self;
        let mut counts = barriers.lock();
        counts.all -= 1;
        match counts.by_client.get_mut(*client) {
            Some(of_client) if *of_client > 1 => *of_client -= 1,
            _ => {
                counts.by_client.remove(*client);
            }
        }
    }
}

impl Engine {
    /// A place among those who wait for barriers, for whoever waits for more than partitions.
    ///
    /// # Errors
    /// If too many wait already, of this client or of all.
    pub fn enter_barrier<'a>(&'a self, client: &'a ClientId) -> Result<BarrierPlace<'a>, BarrierError> {
        self.barriers().enter(client)
    }

    /// Waits for a client until all of these partitions have reached their targets on this node.
    ///
    /// # Errors
    /// If one does not exist, too many wait already, of this client or of all, or some were not reached in time: those are named.
    pub async fn wait_barrier(
        &self,
        client: &ClientId,
        targets: &[(PartitionId, Target)],
        patience: Duration,
    ) -> Result<(), BarrierError> {
        let _place = self.enter_barrier(client)?;
        self.reach_all(targets, patience).await
    }

    /// The same for whoever embeds the engine, which does not count as anybody's.
    ///
    /// # Errors
    /// If one does not exist, or some were not reached in time: those are named.
    pub async fn reach_all(
        &self,
        targets: &[(PartitionId, Target)],
        patience: Duration,
    ) -> Result<(), BarrierError> {
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
        let mut slot = self.node().slot(partition).ok_or(BarrierError::Unknown(partition))?;
        loop {
            let reached = match target {
                Target::Index(index) => self.node().applied_through(&slot, index).await.map(|_| ()),
                Target::Offset(offset) => wait_for_offset(&slot, offset).await,
            };
            match reached {
                Ok(()) => return Ok(()),
                Err(ReadError::Closing) => {
                    slot = self.moved(&slot).await.ok_or(BarrierError::Unknown(partition))?;
                }
                Err(_) => return Err(BarrierError::Unknown(partition)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_at_its_limit_keeps_out_itself_alone() {
        let barriers = Barriers::default();
        let (busy, other) = (ClientId::new("busy").unwrap(), ClientId::new("other").unwrap());
        let mut waiting: Vec<_> =
            (0..MAX_CLIENT_BARRIERS).map(|_| barriers.enter(&busy).ok().unwrap()).collect();
        let refused = barriers.enter(&busy).err();
        assert_eq!(refused, Some(BarrierError::TooManyOfClient { limit: MAX_CLIENT_BARRIERS }));
        drop(barriers.enter(&other).ok().unwrap());
        waiting.pop();
        waiting.push(barriers.enter(&busy).ok().unwrap());
        drop(waiting);
        assert!(barriers.lock().by_client.is_empty() && barriers.lock().all == 0);
    }

    #[test]
    fn all_clients_together_have_a_limit() {
        let barriers = Barriers::default();
        let clients: Vec<_> =
            (0..11).map(|number| ClientId::new(&format!("client {number}")).unwrap()).collect();
        let mut waiting = Vec::new();
        for client in &clients[..10] {
            waiting.extend((0..MAX_CLIENT_BARRIERS).map(|_| barriers.enter(client).ok().unwrap()));
        }
        assert_eq!(barriers.enter(&clients[10]).err(), Some(BarrierError::TooMany { limit: MAX_BARRIERS }));
        waiting.pop();
        assert!(barriers.enter(&clients[10]).is_ok());
    }
}
