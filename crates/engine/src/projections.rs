//! stub: the interface of projections, without anything behind it.

use std::sync::Arc;
use std::time::Duration;

use gapless_projection as projection;
use gapless_types::{LogIndex, Name, PartitionIndex, PartitionOffset, WorkspaceId};
use thiserror::Error;
use tokio::sync::watch;

use crate::admission::AdmissionError;
use crate::engine::Engine;
use crate::error::NotLeader;
pub use crate::retention::Domain;

/// How a domain does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainState {
    /// It is being opened.
    Opening,
    /// It applies what it gets.
    Serving,
    /// It reads from the replicated log what it misses.
    CatchingUp,
    /// Its disk failed.
    Failed(Arc<str>),
    /// Somebody has to repair it.
    Quarantined(Arc<str>),
    /// It is gone.
    Closed,
}

/// One partition of a projection.
#[derive(Clone, Debug)]
pub struct DomainReport {
    /// Which.
    pub domain: Domain,
    /// How it does.
    pub state: DomainState,
    /// Where it stands.
    pub status: projection::Status,
    /// What it counted.
    pub counters: projection::Counters,
    /// Outcomes of the partition up to here are consumed.
    pub consumed: Option<PartitionOffset>,
    /// Entries of the replicated log up to here are.
    pub through: Option<LogIndex>,
}

/// A projection.
#[derive(Clone, Debug)]
pub struct ProjectionReport {
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: u32,
    /// Since which entry it is there.
    pub since: LogIndex,
    /// What it does.
    pub plan: Arc<projection::Plan>,
    /// Its partitions.
    pub domains: Vec<DomainReport>,
}

/// A slot that was granted.
#[derive(Clone, Debug)]
pub struct Leased {
    /// Where.
    pub domain: Domain,
    /// The right to it.
    pub grant: projection::Grant,
    /// Its event; none if it was allocated.
    pub event: Option<projection::OpenEvent>,
    /// For how long.
    pub ttl_ms: u64,
}

/// Who asks for work, and for how much.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest<'a> {
    /// Who.
    pub worker: &'a str,
    /// How many slots at most.
    pub max: u32,
    /// For how long; none: as long as such work took lately.
    pub ttl: Option<Duration>,
    /// How long work is waited for.
    pub wait: Duration,
    /// Of this partition alone.
    pub partition: Option<PartitionIndex>,
}

/// How new a view has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Everything that was acknowledged before.
    Linearizable,
    /// Whatever there is.
    Stale,
    /// Every event up to this outcome is visible.
    AtLeast(PartitionOffset),
    /// The watermark has reached this slot.
    Slot(u64),
}

/// Why something about a projection was not done.
#[derive(Clone, Debug, Error)]
pub enum ProjectionError {
    /// No such namespace, projection or partition.
    #[error("there is no such projection")]
    Unknown,
    /// It is computed by rules.
    #[error("the projection is computed by its rules")]
    ComputedByRules,
    /// Another node leads.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The node is going down.
    #[error("the node is shutting down")]
    Closing,
    /// The node has stopped.
    #[error("the node has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: Arc<str>,
    },
    /// Too much for now.
    #[error(transparent)]
    Overloaded(#[from] AdmissionError),
    /// It is not open.
    #[error("the projection is not open here: {reason}")]
    NotOpen {
        /// Which.
        domain: Domain,
        /// Why.
        reason: Arc<str>,
    },
    /// The outcome is unknown.
    #[error("the outcome is not known in time")]
    DeadlineExceeded,
    /// The leader changed.
    #[error("the leader changed; the outcome is not known")]
    Uncertain,
    /// Beyond a limit.
    #[error("{0}")]
    Invalid(String),
}

impl Engine {
    /// Every projection of a namespace.
    ///
    /// # Errors
    /// If there is no such namespace.
    pub fn projections(&self, _namespace: &str) -> Result<Vec<ProjectionReport>, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// A projection.
    ///
    /// # Errors
    /// If there is none.
    pub fn projection(&self, _namespace: &str, _projection: &str) -> Result<ProjectionReport, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// A domain.
    ///
    /// # Errors
    /// If there is none.
    pub fn domain(
        &self,
        _namespace: &str,
        _projection: &str,
        _partition: PartitionIndex,
    ) -> Result<Domain, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// Waits for work.
    ///
    /// # Errors
    /// If there is no such projection.
    pub async fn lease(
        &self,
        _namespace: &str,
        _projection: &str,
        _request: LeaseRequest<'_>,
    ) -> Result<Vec<Leased>, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// Makes a slot and grants it.
    ///
    /// # Errors
    /// If there is no such projection.
    pub async fn allocate(
        &self,
        _domain: &Domain,
        _worker: &str,
        _workspace: WorkspaceId,
        _ttl: Option<Duration>,
        _patience: Duration,
    ) -> Result<Result<Leased, projection::Refusal>, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// A command, through the log.
    ///
    /// # Errors
    /// If there is no such projection.
    pub async fn command(
        &self,
        _domain: &Domain,
        _command: &projection::Command<'_>,
        _patience: Duration,
    ) -> Result<projection::Answer, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// Rows and effects at a watermark.
    ///
    /// # Errors
    /// If there is no such projection.
    pub async fn projected(
        &self,
        _domain: &Domain,
        _freshness: Freshness,
        _patience: Duration,
    ) -> Result<projection::View, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// The watermark of a domain, now and from now on.
    ///
    /// # Errors
    /// If there is no such projection.
    pub fn watermark(&self, _domain: &Domain) -> Result<watch::Receiver<u64>, ProjectionError> {
        Err(ProjectionError::Unknown)
    }

    /// Waits until the watermark has reached a slot.
    ///
    /// # Errors
    /// If there is no such projection.
    pub async fn wait_for_slot(
        &self,
        _domain: &Domain,
        _slot: u64,
        _patience: Duration,
    ) -> Result<u64, ProjectionError> {
        Err(ProjectionError::Unknown)
    }
}
