//! Views as new as a request asks for, and work on them off the threads that serve connections.

use std::time::Duration;

use gapless_engine::partition::View;
use gapless_engine::types::{PartitionId, PartitionIndex, PartitionOffset, WorkspaceId};
use gapless_engine::{Consistency, Engine, PartitionState, ReadError, ReadOptions};

use crate::check::Check;
use crate::problem::{Problem, ProblemKind};
use crate::unknown;
use crate::unsent::{Held, Unsent};
use crate::v1;

/// How new an answer has to be: what is waited for, in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newness {
    least: Option<PartitionOffset>,
    then: Option<Consistency>,
}

impl Newness {
    pub(crate) fn of(options: Option<&v1::ReadOptions>, check: &mut Check) -> Self {
        let options = options.copied().unwrap_or_default();
        let least = PartitionOffset::new(options.min_partition_offset);
        let then = match v1::Consistency::try_from(options.consistency) {
            Ok(v1::Consistency::Unspecified) if least.is_some() => None,
            Ok(v1::Consistency::Unspecified | v1::Consistency::Linearizable) => {
                Some(Consistency::Linearizable)
            }
            Ok(v1::Consistency::Stale) if least.is_some() => None,
            Ok(v1::Consistency::Stale) => Some(Consistency::Stale),
            Err(_) => {
                check.add("options.consistency", format_args!("{} is not known here", options.consistency));
                None
            }
        };
        Self { least, then }
    }

    pub(crate) fn is_stale(self) -> bool {
        self.then == Some(Consistency::Stale)
    }

    pub(crate) fn has_least(self) -> bool {
        self.least.is_some()
    }

    /// What is waited for, in this order.
    pub(crate) fn steps(self) -> impl Iterator<Item = Consistency> {
        [self.least.map(Consistency::AtLeast), self.then].into_iter().flatten()
    }
}

/// A namespace that exists.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) partition: PartitionId,
}

/// The partition of a workspace.
pub(crate) fn partition_of(engine: &Engine, namespace: &str, workspace: u64) -> Result<Found, Problem> {
    let partition = engine.partition_of(namespace, WorkspaceId::new(workspace));
    let partition = partition.ok_or_else(|| unknown::namespace(engine, namespace))?;
    Ok(Found { name: namespace.to_owned(), partition })
}

/// A question about a workspace: what is wrong with it is collected before anything is done for it.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) check: Check,
    namespace: &'a str,
    workspace: u64,
    newness: Newness,
}

impl<'a> Question<'a> {
    pub(crate) fn about(namespace: &'a str, workspace: u64, options: Option<&v1::ReadOptions>) -> Self {
        let mut check = Check::default();
        check.name("namespace", namespace);
        let newness = Newness::of(options, &mut check);
        Self { check, namespace, workspace, newness }
    }

    /// Where the answer is, and a view that has it.
    pub(crate) async fn view(self, engine: &Engine, patience: Duration) -> Result<(Found, View), Problem> {
        self.check.end()?;
        let found = partition_of(engine, self.namespace, self.workspace)?;
        let view = view(engine, found.partition, self.newness, patience).await?;
        Ok((found, view))
    }

    /// A view for an answer that can be long, and room for it.
    pub(crate) async fn view_for(
        self,
        engine: &Engine,
        unsent: &Unsent,
        patience: Duration,
    ) -> Result<(View, Held), Problem> {
        self.check.end()?;
        let found = partition_of(engine, self.namespace, self.workspace)?;
        with_room(unsent, patience, |patience| view(engine, found.partition, self.newness, patience)).await
    }
}

/// Bytes of an answer that is no stream, at most, but for what surrounds them: a page ends behind the item that is beyond it.
pub(crate) const ANSWER_BYTES: usize = 2 << 20;

/// A view, and room for what is read from it. While room is waited for, nothing is kept from changing.
pub(crate) async fn with_room<V, F>(
    unsent: &Unsent,
    patience: Duration,
    view: impl Fn(Duration) -> F,
) -> Result<(V, Held), Problem>
where
    F: Future<Output = Result<V, Problem>>,
{
    let started = tokio::time::Instant::now();
    let first = view(patience).await?;
    if let Some(held) = unsent.room_now(ANSWER_BYTES) {
        return Ok((first, held));
    }
    drop(first);
    let held = unsent.room_within(ANSWER_BYTES, patience.saturating_sub(started.elapsed())).await?;
    Ok((view(patience.saturating_sub(started.elapsed())).await?, held))
}

/// A partition by its index.
pub(crate) fn partition_at(
    engine: &Engine,
    namespace: &str,
    index: PartitionIndex,
) -> Result<Found, Problem> {
    let found = engine.namespace(namespace).ok_or_else(|| unknown::namespace(engine, namespace))?;
    let count = found.schema.definition().partitions;
    if index.get() >= count.get() {
        let message = format!("namespace `{namespace}` has partitions 0 to {}, not {index}", count.get() - 1);
        return Err(Problem::new(ProblemKind::NotFound, "UNKNOWN_PARTITION", message));
    }
    Ok(Found { name: namespace.to_owned(), partition: PartitionId { namespace: found.id, index } })
}

/// A view of a partition.
pub(crate) async fn view(
    engine: &Engine,
    partition: PartitionId,
    newness: Newness,
    patience: Duration,
) -> Result<View, Problem> {
    let started = tokio::time::Instant::now();
    let mut view = None;
    for consistency in newness.steps() {
        let patience = patience.saturating_sub(started.elapsed());
        let read = engine.view(partition, ReadOptions { consistency, patience }).await;
        view = Some(read.map_err(|error| explained(engine, partition, error))?);
    }
    view.ok_or_else(|| Problem::violation("options.consistency", "is not known here"))
}

/// A partition that is quarantined does not get well by waiting.
fn explained(engine: &Engine, partition: PartitionId, error: ReadError) -> Problem {
    let quarantined = || {
        let report = engine.partitions().into_iter().find(|report| report.partition == partition);
        matches!(report.map(|report| report.state), Some(PartitionState::Quarantined(_)))
    };
    match error {
        ReadError::NotOpen { .. } if quarantined() => {
            Problem::new(ProblemKind::Precondition, "PARTITION_QUARANTINED", error.to_string())
                .with("partition", partition)
        }
        error => error.into(),
    }
}

/// Does something that may wait for a disk.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Problem::shutting_down()),
    }
}
