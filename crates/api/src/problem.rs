//! Why a call has no answer: one type for whoever is asked, with what to do next.
//!
//! Business outcomes are no problems: a refused write has an answer.
//!
//! Must not know: how it travels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use gapless_engine::admission::{AdmissionError, Limit, Overloaded, Scope};
use gapless_engine::partition::{Fault, ProofError};
use gapless_engine::projection::Fault as ProjectionFault;
use gapless_engine::types::PartitionId;
use gapless_engine::{BarrierError, CatalogError, NotLeader, ProjectionError, ReadError, WriteError};

/// What kind of problem it is: decides whether trying again helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The request breaks rules. Trying again does not help.
    Invalid,
    /// What it names does not exist.
    NotFound,
    /// What it makes exists.
    AlreadyExists,
    /// Too much for now: the same key, after the delay.
    Exhausted,
    /// Not here or not now: the same key, there or later.
    Unavailable,
    /// The outcome is not known: the same key gets it.
    Deadline,
    /// Somebody has to do something first.
    Precondition,
    /// This program cannot do it.
    Unimplemented,
    /// Whoever asks did not say who he is, or not credibly.
    Unauthenticated,
    /// Whoever asks may not.
    Denied,
    /// Something failed that should not have.
    Internal,
}

/// Something in a request that must be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where: a path such as `operations[3].key`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// Which problem it is, for programs: `OVERLOADED`.
    pub reason: Cow<'static, str>,
    /// For people.
    pub message: String,
    /// Names and values for programs: `leader`, `partition`, `limit`.
    pub details: BTreeMap<String, String>,
    /// Everything that is wrong with the request.
    pub violations: Vec<Violation>,
    /// When to come back.
    pub retry_after: Option<Duration>,
}

/// When to come back to a node that is busy with itself.
const SOON: Duration = Duration::from_millis(100);

impl Problem {
    /// A problem with nothing but a reason and a message.
    pub fn new(kind: ProblemKind, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    /// A request that breaks these rules.
    pub fn invalid(violations: Vec<Violation>) -> Self {
        let shown = |violation: &Violation| format!("{}: {}", violation.field, violation.problem);
        let message = violations.iter().map(shown).collect::<Vec<_>>().join("; ");
        Self { violations, ..Self::new(ProblemKind::Invalid, "INVALID_REQUEST", message) }
    }

    /// A request that breaks one rule.
    pub fn violation(field: &str, problem: impl Into<String>) -> Self {
        Self::invalid(vec![Violation { field: field.to_owned(), problem: problem.into() }])
    }

    /// No namespace has this name.
    pub fn no_namespace(name: &str) -> Self {
        let message = format!("there is no namespace `{name}`");
        Self::new(ProblemKind::NotFound, "UNKNOWN_NAMESPACE", message).with("namespace", name)
    }

    /// The node is going down.
    pub fn shutting_down() -> Self {
        let message = "the node is shutting down; retry with the same key, there or later";
        Self::new(ProblemKind::Unavailable, "SHUTTING_DOWN", message).after(SOON)
    }

    /// The same with one more detail.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers, ids and texts alike, without a & at every call"
    )]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.details.insert(name.to_owned(), value.to_string());
        self
    }

    /// The same with a time to come back.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// The address of the node that leads, if that is the problem and it is known.
    pub fn leader(&self) -> Option<&str> {
        self.details.get("leader").map(String::as_str)
    }

    /// Whether the same request, with the same key, may be answered there or later.
    pub fn can_be_retried(&self) -> bool {
        matches!(self.kind, ProblemKind::Exhausted | ProblemKind::Unavailable | ProblemKind::Deadline)
    }
}

fn of_partition(kind: ProblemKind, reason: &'static str, message: String, partition: PartitionId) -> Problem {
    Problem::new(kind, reason, message).with("partition", partition)
}

impl From<NotLeader> for Problem {
    fn from(error: NotLeader) -> Self {
        let problem = Self::new(ProblemKind::Unavailable, "NOT_LEADER", error.to_string()).after(SOON);
        match error.leader {
            Some(leader) => problem.with("leader", leader.address),
            None => problem,
        }
    }
}

impl From<Overloaded> for Problem {
    fn from(error: Overloaded) -> Self {
        let limit = match error.limit {
            Limit::Operations => "operations",
            Limit::Bytes => "bytes",
            Limit::Share => "share",
            Limit::Client => "client",
            Limit::Age => "age_ms",
            Limit::Lag => "lag",
            Limit::LogBytes => "log_bytes",
            Limit::Signal(name) => name,
        };
        let problem = Self::new(ProblemKind::Exhausted, "OVERLOADED", error.to_string())
            .with("limit", limit)
            .with("current", error.current)
            .with("maximum", error.maximum)
            .after(error.retry_after);
        match error.scope {
            Scope::Node => problem.with("scope", "node"),
            Scope::Partition(partition) => problem.with("scope", "partition").with("partition", partition),
        }
    }
}

impl From<AdmissionError> for Problem {
    fn from(error: AdmissionError) -> Self {
        match error {
            AdmissionError::Overloaded(overloaded) => overloaded.into(),
            AdmissionError::Frozen { partition } => {
                of_partition(ProblemKind::Precondition, "PARTITION_FROZEN", error.to_string(), partition)
            }
            AdmissionError::TooLarge { .. } => Self::violation("write", error.to_string()),
        }
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        let message = error.to_string();
        match error {
            WriteError::Invalid(violations) => {
                let violation = |text: String| match text.split_once(": ") {
                    Some((field, problem)) => {
                        Violation { field: field.to_owned(), problem: problem.to_owned() }
                    }
                    None => Violation { field: "write".to_owned(), problem: text },
                };
                Self::invalid(violations.into_iter().map(violation).collect())
            }
            WriteError::UnknownNamespace => Self::new(ProblemKind::NotFound, "UNKNOWN_NAMESPACE", message),
            WriteError::Admission(error) => error.into(),
            WriteError::TooManyInFlight { limit } => {
                Self::new(ProblemKind::Exhausted, "TOO_MANY_IN_FLIGHT", message)
                    .with("maximum", limit)
                    .after(SOON)
            }
            WriteError::WindowFull { partition, known, limit } => {
                of_partition(ProblemKind::Exhausted, "WINDOW_FULL", message, partition)
                    .with("limit", "max_keys")
                    .with("current", known)
                    .with("maximum", limit)
                    .after(Duration::from_secs(1))
            }
            WriteError::NotLeader(error) => error.into(),
            WriteError::Actualizing { partition } => {
                of_partition(ProblemKind::Unavailable, "ACTUALIZING", message, partition).after(SOON)
            }
            WriteError::Failed { partition, .. } => {
                of_partition(ProblemKind::Unavailable, "PARTITION_FAILED", message, partition)
                    .after(Duration::from_secs(1))
            }
            WriteError::Quarantined { partition, .. } => {
                of_partition(ProblemKind::Precondition, "PARTITION_QUARANTINED", message, partition)
            }
            WriteError::Frozen { partition } => {
                of_partition(ProblemKind::Precondition, "PARTITION_FROZEN", message, partition)
            }
            WriteError::DeadlineExceeded => Self::new(ProblemKind::Deadline, "OUTCOME_UNKNOWN", message),
            WriteError::Closing => Self::shutting_down(),
            WriteError::Stopped { .. } => Self::new(ProblemKind::Unavailable, "NODE_STOPPED", message),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let message = error.to_string();
        match error {
            ReadError::Unknown => Self::new(ProblemKind::NotFound, "UNKNOWN_PARTITION", message),
            ReadError::NotLeader(error) => error.into(),
            ReadError::NoQuorum => Self::new(ProblemKind::Unavailable, "NO_QUORUM", message).after(SOON),
            ReadError::NotOpen { partition, .. } => {
                of_partition(ProblemKind::Unavailable, "PARTITION_NOT_OPEN", message, partition).after(SOON)
            }
            ReadError::DeadlineExceeded { partition } => {
                of_partition(ProblemKind::Deadline, "NOT_APPLIED_YET", message, partition)
            }
            ReadError::Fault(fault) => fault.into(),
            ReadError::Proof(error) => error.into(),
            ReadError::Stopped { .. } => Self::new(ProblemKind::Unavailable, "NODE_STOPPED", message),
            ReadError::Closing => Self::shutting_down(),
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        let message = fault.to_string();
        match fault.passes() {
            true => Self::new(ProblemKind::Unavailable, "PARTITION_NOT_OPEN", message).after(SOON),
            false => Self::new(ProblemKind::Internal, "STORAGE_FAULT", message),
        }
    }
}

impl From<ProofError> for Problem {
    fn from(error: ProofError) -> Self {
        let message = error.to_string();
        match error {
            ProofError::TooLarge { events, .. } => {
                Self::new(ProblemKind::NotFound, "NO_SUCH_EVENT", message).with("events", events)
            }
            ProofError::NotIncluded { .. } => Self::violation("tree_size", message),
            ProofError::OutOfOrder { .. } => Self::violation("old_size", message),
            ProofError::Fault(fault) => fault.into(),
        }
    }
}

impl From<CatalogError> for Problem {
    fn from(error: CatalogError) -> Self {
        let message = error.to_string();
        match error {
            CatalogError::Refused(reasons) => {
                let violation = |problem| Violation { field: "definition".to_owned(), problem };
                Self::invalid(reasons.into_iter().map(violation).collect())
            }
            CatalogError::Unknown => Self::new(ProblemKind::NotFound, "UNKNOWN_NAMESPACE", message),
            CatalogError::NotLeader(error) => error.into(),
            CatalogError::Uncertain => {
                Self::new(ProblemKind::Unavailable, "CHANGE_UNCERTAIN", message).after(SOON)
            }
            CatalogError::DeadlineExceeded => Self::new(ProblemKind::Deadline, "NOT_IN_FORCE_YET", message),
            CatalogError::Closing => Self::shutting_down(),
        }
    }
}

impl From<BarrierError> for Problem {
    fn from(error: BarrierError) -> Self {
        let message = error.to_string();
        match error {
            BarrierError::Unknown(partition) => {
                of_partition(ProblemKind::NotFound, "UNKNOWN_PARTITION", message, partition)
            }
            BarrierError::TooMany { limit } | BarrierError::TooManyOfClient { limit } => {
                Self::new(ProblemKind::Exhausted, "TOO_MANY_BARRIERS", message)
                    .with("maximum", limit)
                    .after(SOON)
            }
            BarrierError::DeadlineExceeded(_) => Self::new(ProblemKind::Deadline, "NOT_REACHED", message),
        }
    }
}

impl From<ProjectionError> for Problem {
    fn from(error: ProjectionError) -> Self {
        let message = error.to_string();
        match error {
            ProjectionError::Unknown => Self::new(ProblemKind::NotFound, "UNKNOWN_PARTITION", message),
            ProjectionError::ComputedByRules => {
                Self::new(ProblemKind::Precondition, "COMPUTED_BY_RULES", message)
            }
            ProjectionError::NotLeader(error) => error.into(),
            ProjectionError::Closing => Self::shutting_down(),
            ProjectionError::Stopped { .. } => Self::new(ProblemKind::Unavailable, "NODE_STOPPED", message),
            ProjectionError::Overloaded(error) => error.into(),
            ProjectionError::NotOpen { domain, .. } => {
                of_partition(ProblemKind::Unavailable, "PROJECTION_NOT_OPEN", message, domain.partition)
                    .with("projection", &domain.projection)
                    .after(SOON)
            }
            ProjectionError::DeadlineExceeded => Self::new(ProblemKind::Deadline, "OUTCOME_UNKNOWN", message),
            ProjectionError::Uncertain => {
                Self::new(ProblemKind::Unavailable, "OUTCOME_UNCERTAIN", message).after(SOON)
            }
            ProjectionError::Invalid(problem) => Self::violation("request", problem),
        }
    }
}

impl From<ProjectionFault> for Problem {
    fn from(fault: ProjectionFault) -> Self {
        Self::new(ProblemKind::Internal, "STORAGE_FAULT", fault.to_string())
    }
}
