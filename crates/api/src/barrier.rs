//! Waiting until partitions have applied what somebody asks for, or projections have made it visible.

use std::time::Duration;

use gapless_engine::retention::Domain;
use gapless_engine::types::limits::MAX_PAGE_SIZE;
use gapless_engine::types::{ClientId, LogIndex, PartitionId, PartitionOffset};
use gapless_engine::{BarrierError, ProjectionError, Target};

use crate::admin::AdminCalls;
use crate::check::Check;
use crate::problem::Problem;
use crate::projections::ProjectionCalls;
use crate::reading::partition_at;
use crate::v1;

/// How long is waited if nothing was said.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);
/// The answer is on its way before the caller's deadline.
const MARGIN: Duration = Duration::from_millis(50);

impl AdminCalls {
    /// Waits until all targets are reached, or for as long as was said; answers with what blocks.
    ///
    /// # Errors
    /// If the request breaks rules, names what does not exist, or too many wait, of this client or of all.
    pub async fn wait_barrier(
        &self,
        client: &ClientId,
        request: &v1::WaitBarrierRequest,
        patience: Duration,
    ) -> Result<v1::WaitBarrierResponse, Problem> {
        let Targets { partitions, slots } = self.targets(&request.targets)?;
        let wait = match request.timeout_ms {
            0 => DEFAULT_WAIT,
            timeout => Duration::from_millis(timeout),
        };
        let wait = wait.min(patience.saturating_sub(MARGIN));
        // Held for as long as anything is waited for, whatever that is.
        let _place = self.engine.enter_barrier(client)?;
        let applied = self.engine.reach_all(&partitions, wait);
        let visible = futures_util::future::join_all(slots.iter().map(|slot| self.visible(slot, wait)));
        let (applied, visible) = tokio::join!(applied, visible);
        let mut blocked = match applied {
            Ok(()) => Vec::new(),
            Err(BarrierError::DeadlineExceeded(blocked)) => {
                let name = |partition: PartitionId| {
                    let namespaces = self.engine.namespaces();
                    let found = namespaces.iter().find(|namespace| namespace.id == partition.namespace);
                    found.map_or(String::new(), |namespace| namespace.name().to_string())
                };
                let shown = |blocked: &gapless_engine::Blocked| v1::Blocked {
                    namespace: name(blocked.partition),
                    partition: u32::from(blocked.partition.index.get()),
                    applied_through: blocked.through.map(LogIndex::get),
                    projection: None,
                };
                blocked.iter().map(shown).collect()
            }
            Err(error) => return Err(error.into()),
        };
        for slot in visible {
            blocked.extend(slot?);
        }
        Ok(v1::WaitBarrierResponse { reached: blocked.is_empty(), blocked })
    }

    /// Waits for a slot of a projection; what blocks if it is not visible in time.
    async fn visible(&self, slot: &Slot, wait: Duration) -> Result<Option<v1::Blocked>, Problem> {
        match self.engine.wait_for_slot(&slot.domain, slot.slot, wait).await {
            Ok(_) => Ok(None),
            Err(ProjectionError::DeadlineExceeded) => {
                let watermark =
                    self.engine.watermark(&slot.domain).map_or(0, |mut waiter| waiter.watermark());
                let projection = slot.domain.projection.to_string();
                Ok(Some(v1::Blocked {
                    namespace: slot.namespace.clone(),
                    partition: u32::from(slot.domain.partition.index.get()),
                    applied_through: None,
                    projection: Some(v1::ProjectionSlot { projection, slot: watermark }),
                }))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn targets(&self, targets: &[v1::BarrierTarget]) -> Result<Targets, Problem> {
        use v1::barrier_target::Target as Asked;
        let mut check = Check::default();
        if targets.is_empty() || targets.len() > MAX_PAGE_SIZE {
            check.add("targets", format_args!("{} targets; there are 1 to {MAX_PAGE_SIZE}", targets.len()));
        }
        let (mut wanted, mut slots) = (Vec::new(), Vec::new());
        for (at, target) in targets.iter().enumerate() {
            check.name(&format!("targets[{at}].namespace"), &target.namespace);
            let index = check.partition(&format!("targets[{at}].partition"), target.partition);
            match &target.target {
                Some(Asked::LogIndex(index_wanted)) => {
                    wanted.push((at, index, Target::Index(LogIndex::new(*index_wanted))));
                }
                Some(Asked::PartitionOffset(offset)) => match PartitionOffset::new(*offset) {
                    Some(offset) => wanted.push((at, index, Target::Offset(offset))),
                    None => check.add(format_args!("targets[{at}].partition_offset"), "the first one is 1"),
                },
                Some(Asked::Projection(slot)) => {
                    check.name(&format!("targets[{at}].projection.projection"), &slot.projection);
                    slots.push((at, index, slot));
                }
                None => check.add(format_args!("targets[{at}]"), "says nothing: set one of its fields"),
            }
        }
        check.end()?;
        let projections = ProjectionCalls::new(self.engine.clone());
        let found = |(at, index, target): (usize, _, Target)| {
            Ok((partition_at(&self.engine, &targets[at].namespace, index)?.partition, target))
        };
        let slot = |(at, index, slot): (usize, _, &v1::ProjectionSlot)| {
            let namespace = &targets[at].namespace;
            let place = projections.place_at(namespace, &slot.projection, index)?;
            Ok(Slot { namespace: namespace.clone(), domain: place.domain, slot: slot.slot })
        };
        Ok(Targets {
            partitions: wanted.into_iter().map(found).collect::<Result<_, Problem>>()?,
            slots: slots.into_iter().map(slot).collect::<Result<_, Problem>>()?,
        })
    }
}

/// What is waited for.
struct Targets {
    partitions: Vec<(PartitionId, Target)>,
    slots: Vec<Slot>,
}

/// A slot of a projection.
struct Slot {
    namespace: String,
    domain: Domain,
    slot: u64,
}
