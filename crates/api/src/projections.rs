//! Every call of the service Projections, as an engine answers it. What is not possible yet says so.
//!
//! Must not know: sockets, who asks.

mod content;
mod describing;
pub mod messages;
mod reading;
mod values;
mod work;

use std::time::Duration;

use gapless_engine::projection::limits::{MAX_ERROR_BYTES, MAX_GRANTS, MAX_WORKER_BYTES};
use gapless_engine::projection::{Answer, Command, Done, Held, Scope};
use gapless_engine::retention::Domain;
use gapless_engine::types::{PartitionIndex, WorkspaceId};
use gapless_engine::{Engine, LeaseRequest, ProjectionError};

use self::content::Part;
pub use self::work::WorkLimits;
use crate::admin::AdminCalls;
use crate::check::Check;
use crate::problem::{Problem, ProblemKind};
use crate::unknown;
use crate::unsent::Unsent;
use crate::v1;

/// For how long a lease is renewed if nothing was said.
const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// How long one lease waits before it is asked for again: whatever has changed meanwhile, it is looked at anew.
const WAIT: Duration = Duration::from_secs(1);
/// The answer is on its way before the caller's deadline.
const MARGIN: Duration = Duration::from_millis(50);

/// The calls of the service Projections. Clones ask the same engine.
#[derive(Clone, Debug)]
pub struct ProjectionCalls {
    pub(crate) engine: Engine,
    pub(crate) unsent: Unsent,
}

impl ProjectionCalls {
    /// The calls, answered by this engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine, unsent: Unsent::default() }
    }

    /// The same for somebody: what is read for him and not sent yet has its room there.
    #[must_use]
    pub fn within(&self, unsent: Unsent) -> Self {
        Self { engine: self.engine.clone(), unsent }
    }

    /// Waits for work.
    ///
    /// # Errors
    /// If the request breaks rules, there is no such projection, or this node cannot say.
    pub async fn lease(
        &self,
        request: v1::LeaseRequest,
        patience: Duration,
    ) -> Result<v1::LeaseResponse, Problem> {
        let mut check = Check::default();
        names(&request.namespace, &request.projection, &mut check);
        worker(&request.worker, &mut check);
        let max = grants("max", request.max, &mut check);
        let partition = request.partition.map(|index| check.partition("partition", index));
        check.end()?;
        let started = tokio::time::Instant::now();
        let wait = Duration::from_millis(request.wait_ms).min(patience.saturating_sub(MARGIN));
        let leased = loop {
            let left = wait.saturating_sub(started.elapsed());
            let asked = LeaseRequest {
                worker: &request.worker,
                max,
                ttl: duration(request.ttl_ms),
                wait: left.min(WAIT),
                partition,
            };
            let leased = self.engine.lease(&request.namespace, &request.projection, asked).await;
            let leased =
                leased.map_err(|error| self.named(error, &request.namespace, &request.projection))?;
            if !leased.is_empty() || left <= WAIT {
                break leased;
            }
        };
        let slots = leased.iter().map(|leased| messages::granted(leased, self.watermark(&leased.domain)));
        Ok(v1::LeaseResponse { slots: slots.collect() })
    }

    /// Reserves a slot behind all others.
    ///
    /// # Errors
    /// If the request breaks rules, there is no such projection, or the outcome is not known.
    pub async fn allocate(
        &self,
        request: v1::AllocateRequest,
        patience: Duration,
    ) -> Result<v1::AllocateResponse, Problem> {
        use v1::allocate_response::Result as Allocated;
        let mut check = Check::default();
        names(&request.namespace, &request.projection, &mut check);
        worker(&request.worker, &mut check);
        check.end()?;
        let workspace = WorkspaceId::new(request.workspace);
        let (domain, workspace) = self.domain_of(&request.namespace, &request.projection, workspace)?;
        let ttl = duration(request.ttl_ms);
        let allocated = self.engine.allocate(&domain, &request.worker, workspace, ttl, patience).await;
        let allocated =
            allocated.map_err(|error| self.named(error, &request.namespace, &request.projection))?;
        let result = match allocated {
            Ok(leased) => Allocated::Slot(messages::granted(&leased, self.watermark(&domain))),
            Err(refusal) => Allocated::Refused(messages::refused(refusal)),
        };
        Ok(v1::AllocateResponse { result: Some(result) })
    }

    /// Ends a lease with rows or a result, or brings a part of them.
    ///
    /// # Errors
    /// If the request breaks rules, there is no such projection, or the outcome is not known.
    pub async fn commit(
        &self,
        request: v1::CommitRequest,
        patience: Duration,
    ) -> Result<v1::CommitResponse, Problem> {
        let place = self.place(&request.namespace, &request.projection, request.partition)?;
        let parts = content::parts(request.content.as_ref())?;
        let held = Held { slot: request.slot, token: request.token };
        let answer = self.commit_parts(&place, held, &parts, patience).await;
        Ok(messages::commit_response(answer?))
    }

    /// Makes a lease last longer.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn renew(
        &self,
        request: v1::RenewRequest,
        patience: Duration,
    ) -> Result<v1::RenewResponse, Problem> {
        let place = self.place(&request.namespace, &request.projection, request.partition)?;
        let held = Held { slot: request.slot, token: request.token };
        let command = Command::Renew { held, ttl_ms: ttl(request.ttl_ms) };
        Ok(messages::renew_response(self.command(&place, &command, patience).await?))
    }

    /// Gives a lease back.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn release(
        &self,
        request: v1::ReleaseRequest,
        patience: Duration,
    ) -> Result<v1::ReleaseResponse, Problem> {
        let place = self.place(&request.namespace, &request.projection, request.partition)?;
        let command = Command::Release { held: Held { slot: request.slot, token: request.token } };
        Ok(messages::release_response(self.command(&place, &command, patience).await?))
    }

    /// Ends a lease with an error.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn fail(
        &self,
        request: v1::FailRequest,
        patience: Duration,
    ) -> Result<v1::FailResponse, Problem> {
        error_text("error", &request.error)?;
        let place = self.place(&request.namespace, &request.projection, request.partition)?;
        let held = Held { slot: request.slot, token: request.token };
        let command = Command::Fail { held, error: &request.error };
        Ok(messages::fail_response(self.command(&place, &command, patience).await?))
    }

    /// Fills a slot, whoever holds it.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn skip(
        &self,
        request: v1::SkipRequest,
        patience: Duration,
    ) -> Result<v1::SkipResponse, Problem> {
        let place = self.place(&request.namespace, &request.projection, request.partition)?;
        let command = Command::Skip { slot: request.slot };
        Ok(messages::skip_response(self.command(&place, &command, patience).await?))
    }

    /// One part after the other; the first that is refused is the answer to all.
    async fn commit_parts(
        &self,
        place: &Place,
        held: Held,
        parts: &[Part],
        patience: Duration,
    ) -> Result<Answer, Problem> {
        let started = tokio::time::Instant::now();
        let mut last = None;
        for part in parts {
            let command =
                Command::Commit { held, part: part.number, is_last: part.is_last, bytes: &part.bytes };
            let left = patience.saturating_sub(started.elapsed());
            let answer = self.command(place, &command, left).await?;
            if matches!(answer.done, Done::Refused(_)) {
                return Ok(answer);
            }
            last = Some(answer);
        }
        last.ok_or_else(|| Problem::violation("content", "has no parts"))
    }

    async fn command(
        &self,
        place: &Place,
        command: &Command<'_>,
        patience: Duration,
    ) -> Result<Answer, Problem> {
        let answer = self.engine.command(&place.domain, command, patience).await;
        answer.map_err(|error| self.named(error, &place.namespace, &place.projection))
    }

    /// A domain by its names.
    fn place(&self, namespace: &str, projection: &str, partition: u32) -> Result<Place, Problem> {
        let mut check = Check::default();
        names(namespace, projection, &mut check);
        let index = check.partition("partition", partition);
        check.end()?;
        self.place_at(namespace, projection, index)
    }

    pub(crate) fn place_at(
        &self,
        namespace: &str,
        projection: &str,
        index: PartitionIndex,
    ) -> Result<Place, Problem> {
        let domain = self.engine.domain(namespace, projection, index);
        let domain = domain.map_err(|error| self.named(error, namespace, projection))?;
        Ok(Place { namespace: namespace.to_owned(), projection: projection.to_owned(), domain })
    }

    /// The domain that has the rows of a workspace, and the workspace they are kept under there.
    fn domain_of(
        &self,
        namespace: &str,
        projection: &str,
        workspace: WorkspaceId,
    ) -> Result<(Domain, WorkspaceId), Problem> {
        let report = self.engine.projection(namespace, projection);
        let report = report.map_err(|error| self.named(error, namespace, projection))?;
        let partition = self.engine.partition_of(namespace, workspace);
        let partition = partition.ok_or_else(|| unknown::namespace(&self.engine, namespace))?;
        let (index, workspace) = match report.plan.scope {
            Scope::Workspace => (partition.index, workspace),
            Scope::Namespace => (PartitionIndex::new(0), WorkspaceId::NAMESPACE),
        };
        Ok((self.place_at(namespace, projection, index)?.domain, workspace))
    }

    fn watermark(&self, domain: &Domain) -> u64 {
        self.engine.watermark(domain).map_or(0, |mut waiter| waiter.watermark())
    }

    /// The engine does not repeat names; whoever asked has them.
    fn named(&self, error: ProjectionError, namespace: &str, projection: &str) -> Problem {
        let not_yet = (error == ProjectionError::Unknown).then(|| unknown::not_yet(&self.engine)).flatten();
        if let Some(not_yet) = not_yet {
            return not_yet;
        }
        match error {
            ProjectionError::Unknown if self.engine.namespace(namespace).is_none() => {
                Problem::no_namespace(namespace)
            }
            ProjectionError::Unknown if self.engine.projection(namespace, projection).is_err() => {
                let message = format!("namespace `{namespace}` has no projection `{projection}`");
                Problem::new(ProblemKind::NotFound, "UNKNOWN_PROJECTION", message)
                    .with("namespace", namespace)
                    .with("projection", projection)
            }
            ProjectionError::ComputedByRules => {
                let message =
                    format!("projection `{projection}` is computed by its rules, and needs no workers");
                Problem::new(ProblemKind::Precondition, "COMPUTED_BY_RULES", message)
                    .with("projection", projection)
            }
            error => error.into(),
        }
    }
}

/// Calls that are not possible yet, each with what can be done instead.
macro_rules! not_yet {
    ($($(#[$documentation:meta])* $name:ident($request:ident) -> $response:ident, $what:literal, $why:literal;)*) => {
        impl ProjectionCalls {
            $(
                $(#[$documentation])*
                ///
                /// # Errors
                /// Always: it is not possible yet.
                pub fn $name(&self, _: &v1::$request) -> Result<v1::$response, Problem> {
                    Err(AdminCalls::not_yet($what, $why))
                }
            )*
        }
    };
}

not_yet! {
    /// Lets nothing be granted.
    pause(PauseRequest) -> PauseResponse, "pausing a projection", "stop its workers instead";
    /// Lets slots be granted again.
    resume(ResumeRequest) -> ResumeResponse, "resuming a projection", "it cannot be paused either";
    /// Tries dead letters again.
    replay_dead_letters(ReplayDeadLettersRequest) -> ReplayDeadLettersResponse, "replaying dead letters",
        "list them, and write what should have happened as new events";
    /// Computes a new version beside the one that serves.
    rebuild(RebuildRequest) -> RebuildResponse, "rebuilding a projection", "define another projection beside it";
    /// Lets a new version serve.
    switch(SwitchRequest) -> SwitchResponse, "switching to a new version", "there is only one version yet";
    /// Holds the effects against the rules.
    audit(AuditRequest) -> AuditResponse, "an audit", "define the same rules as another projection, and compare";
}

/// A domain, and what it was asked for by.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    namespace: String,
    projection: String,
    pub(crate) domain: Domain,
}

fn names(namespace: &str, projection: &str, check: &mut Check) {
    check.name("namespace", namespace);
    check.name("projection", projection);
}

fn worker(worker: &str, check: &mut Check) {
    if worker.is_empty() || worker.len() > MAX_WORKER_BYTES {
        check.add("worker", format_args!("{} bytes; 1 to {MAX_WORKER_BYTES} are needed", worker.len()));
    }
}

fn grants(field: &str, max: u32, check: &mut Check) -> u32 {
    if max > MAX_GRANTS {
        check.add(field, format_args!("{max}; the most are {MAX_GRANTS}"));
    }
    max.clamp(1, MAX_GRANTS)
}

fn error_text(field: &str, error: &str) -> Result<(), Problem> {
    if error.len() > MAX_ERROR_BYTES {
        let problem = format!("{} bytes; the most are {MAX_ERROR_BYTES}", error.len());
        return Err(Problem::violation(field, problem));
    }
    Ok(())
}

/// A duration of a lease; none if nothing was said.
fn duration(ttl_ms: u64) -> Option<Duration> {
    (ttl_ms > 0).then(|| Duration::from_millis(ttl_ms))
}

/// A duration of a renewal, as commands have it.
fn ttl(ttl_ms: u64) -> i64 {
    let ttl = duration(ttl_ms).unwrap_or(DEFAULT_TTL);
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)
}
