//! Waiting until partitions have applied what somebody asks for.

use std::time::Duration;

use gapless_engine::types::limits::MAX_PAGE_SIZE;
use gapless_engine::types::{ClientId, LogIndex, PartitionId, PartitionOffset};
use gapless_engine::{BarrierError, Target};

use crate::admin::AdminCalls;
use crate::check::Check;
use crate::problem::Problem;
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
        let targets = self.targets(&request.targets)?;
        let wait = match request.timeout_ms {
            0 => DEFAULT_WAIT,
            timeout => Duration::from_millis(timeout),
        };
        let wait = wait.min(patience.saturating_sub(MARGIN));
        match self.engine.wait_barrier(client, &targets, wait).await {
            Ok(()) => Ok(v1::WaitBarrierResponse { reached: true, blocked: Vec::new() }),
            Err(BarrierError::DeadlineExceeded(blocked)) => {
                let name = |partition: PartitionId| {
                    let at = targets.iter().position(|(target, _)| *target == partition);
                    at.map_or(String::new(), |at| request.targets[at].namespace.clone())
                };
                let shown = |blocked: &gapless_engine::Blocked| v1::Blocked {
                    namespace: name(blocked.partition),
                    partition: u32::from(blocked.partition.index.get()),
                    applied_through: blocked.through.map(LogIndex::get),
                };
                Ok(v1::WaitBarrierResponse { reached: false, blocked: blocked.iter().map(shown).collect() })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn targets(&self, targets: &[v1::BarrierTarget]) -> Result<Vec<(PartitionId, Target)>, Problem> {
        use v1::barrier_target::Target as Asked;
        let mut check = Check::default();
        if targets.is_empty() || targets.len() > MAX_PAGE_SIZE {
            check.add("targets", format_args!("{} targets; there are 1 to {MAX_PAGE_SIZE}", targets.len()));
        }
        let mut wanted = Vec::new();
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
                Some(Asked::Projection(_)) => {
                    let why = "this server has no projections";
                    return Err(Self::not_yet("waiting for a projection", why));
                }
                None => check.add(format_args!("targets[{at}]"), "says nothing: set one of its fields"),
            }
        }
        check.end()?;
        let found = |(at, index, target): (usize, _, Target)| {
            Ok((partition_at(&self.engine, &targets[at].namespace, index)?.partition, target))
        };
        wanted.into_iter().map(found).collect()
    }
}
