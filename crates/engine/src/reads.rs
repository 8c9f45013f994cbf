//! Reading: a view of a partition, as new as the reader asks for.
//!
//! A view never changes and can be read on any thread. A linearizable one contains every write that was acknowledged before the call,
//! on any node: the leader asks a quorum whether it still leads, and waits until the partition is that far.
//!
//! Must not know: what rows mean.

use std::sync::Arc;
use std::time::Duration;

use gapless_consensus::ReadPointError;
use gapless_partition::View;
use gapless_types::{LogIndex, PartitionId, PartitionOffset, WorkspaceId};

use crate::engine::Engine;
use crate::error::{NotLeader, ReadError};
use crate::node::Node;
use crate::slot::{PartitionState, Slot};

/// How new a view has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Contains every write that was acknowledged before the call. Only the leader can say.
    #[default]
    Linearizable,
    /// Whatever this node has.
    Stale,
    /// At least up to this outcome: whoever was told an offset reads his own write, on any node.
    AtLeast(PartitionOffset),
}

/// How something is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// How new.
    pub consistency: Consistency,
    /// How long that is waited for.
    pub patience: Duration,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { consistency: Consistency::default(), patience: Duration::from_secs(10) }
    }
}

impl Node {
    /// Waits until a partition has applied everything up to an index; up to which outcome it has applied then.
    pub(crate) async fn applied_through(
        &self,
        slot: &Slot,
        index: LogIndex,
    ) -> Result<Option<PartitionOffset>, ReadError> {
        let mut applied = slot.applied.subscribe();
        let mut state = slot.state.subscribe();
        let mut dispatched = self.dispatched.subscribe();
        loop {
            let state_now = state.borrow_and_update().clone();
            let applied_now = *applied.borrow_and_update();
            dispatched.borrow_and_update();
            // One that was opened again may have less than the marks say, until it has caught up. One that has what they say has
            // passed what was not for it, too.
            let passed = {
                let core = self.core();
                let marked = core.watermarks.marks(slot.id).and_then(|marks| marks.applied);
                marked.is_some()
                    && applied_now.offset >= marked
                    && core.watermarks.applied_through(slot.id) >= Some(index)
            };
            if passed || applied_now.index > Some(index) {
                return Ok(applied_now.offset);
            }
            match state_now {
                PartitionState::Closed => return Err(ReadError::Closing),
                PartitionState::Quarantined(reason) => {
                    let reason = format!("it is quarantined: {reason}").into();
                    return Err(ReadError::NotOpen { partition: slot.id, reason });
                }
                _ => {}
            }
            tokio::select! {
                changed = applied.changed() => changed.map_err(|_| ReadError::Closing)?,
                changed = state.changed() => changed.map_err(|_| ReadError::Closing)?,
                changed = dispatched.changed() => changed.map_err(|_| ReadError::Closing)?,
            }
        }
    }

    pub(crate) async fn view_now(&self, slot: &Arc<Slot>) -> Result<View, ReadError> {
        let turn = slot.reader().await;
        let job = {
            let slot = slot.clone();
            let not_open = |slot: &Slot, reason: String| ReadError::NotOpen {
                partition: slot.id,
                reason: reason.into(),
            };
            move || {
                // Whoever asked may be gone: the turn is over when the partition has answered.
                let _turn = turn;
                match slot.partition().as_mut() {
                    Some(partition) => partition.view().map_err(|error| not_open(&slot, error.to_string())),
                    None => Err(not_open(
                        &slot,
                        match &*slot.state.borrow() {
                            PartitionState::Failed(reason) => reason.to_string(),
                            PartitionState::Closed => return Err(ReadError::Closing),
                            _ => "it is actualizing".to_owned(),
                        },
                    )),
                }
            }
        };
        self.workers.run(job).await
    }
}

impl Engine {
    /// The partition that a workspace belongs to; none if there is no such namespace.
    pub fn partition_of(&self, namespace: &str, workspace: WorkspaceId) -> Option<PartitionId> {
        let catalog = self.node().catalog();
        let namespace = catalog.by_name(namespace)?;
        let index = workspace.partition(namespace.schema.definition().partitions);
        Some(PartitionId { namespace: namespace.id, index })
    }

    /// Everything that can be read of a workspace, together with its whole partition.
    ///
    /// # Errors
    /// If there is no such namespace, or a view as new as asked for cannot be had.
    pub async fn view_of(
        &self,
        namespace: &str,
        workspace: WorkspaceId,
        options: ReadOptions,
    ) -> Result<View, ReadError> {
        let partition = self.partition_of(namespace, workspace).ok_or(ReadError::Unknown)?;
        self.view(partition, options).await
    }

    /// Everything that can be read of a partition.
    ///
    /// # Errors
    /// If there is no such partition, or a view as new as asked for cannot be had.
    pub async fn view(&self, partition: PartitionId, options: ReadOptions) -> Result<View, ReadError> {
        let mut slot = self.node().slot(partition).ok_or(ReadError::Unknown)?;
        let view = async {
            loop {
                match self.view_in(&slot, options.consistency).await {
                    Err(ReadError::Closing) => slot = self.moved(&slot).await.ok_or(ReadError::Closing)?,
                    other => return other,
                }
            }
        };
        tokio::time::timeout(options.patience, view)
            .await
            .unwrap_or(Err(ReadError::DeadlineExceeded { partition }))
    }

    async fn view_in(&self, slot: &Arc<Slot>, consistency: Consistency) -> Result<View, ReadError> {
        loop {
            let least = match consistency {
                Consistency::Linearizable => {
                    let index = self.read_point().await?;
                    self.node().applied_through(slot, index).await?
                }
                Consistency::Stale => None,
                Consistency::AtLeast(offset) => {
                    wait_for_offset(slot, offset).await?;
                    Some(offset)
                }
            };
            let view = self.node().view_now(slot).await?;
            // One that failed in between and was opened again may have less, until it has caught up.
            if view.applied() >= least {
                return Ok(view);
            }
        }
    }

    /// The place that a partition has now, if it is another one: a snapshot was installed. One that is being installed is waited for.
    pub(crate) async fn moved(&self, slot: &Arc<Slot>) -> Option<Arc<Slot>> {
        drop(self.node().taking.read().await);
        self.node().slot(slot.id).filter(|now| !Arc::ptr_eq(now, slot))
    }

    /// An index such that whoever has applied everything up to it has seen every write acknowledged before this call.
    pub(crate) async fn read_point(&self) -> Result<LogIndex, ReadError> {
        self.node().replicator().read_point().await.map_err(|error| match error {
            ReadPointError::NotLeader { leader } => NotLeader { leader }.into(),
            ReadPointError::NoQuorum => ReadError::NoQuorum,
            ReadPointError::Stopped(_) if self.is_closing() => ReadError::Closing,
            ReadPointError::Stopped(stopped) => ReadError::Stopped { reason: stopped.reason },
        })
    }
}

pub(crate) async fn wait_for_offset(slot: &Slot, offset: PartitionOffset) -> Result<(), ReadError> {
    let (mut applied, mut state) = (slot.applied.subscribe(), slot.state.subscribe());
    tokio::select! {
        biased;
        _ = applied.wait_for(|applied| applied.offset >= Some(offset)) => Ok(()),
        _ = state.wait_for(|state| *state == PartitionState::Closed) => Err(ReadError::Closing),
    }
}
