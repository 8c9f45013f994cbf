//! Why something asked of a projection was not done, or is not known to be.

use std::sync::Arc;

use thiserror::Error;

use crate::admission::AdmissionError;
use crate::error::NotLeader;
use crate::retention::Domain;

/// Why something asked of a projection was not done, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProjectionError {
    /// There is no such namespace, projection or partition.
    #[error("there is no such projection")]
    Unknown,
    /// Its rules are computed by the leader itself.
    #[error("this projection is computed by its rules, and has no work for workers")]
    ComputedByRules,
    /// Another node leads. What was asked for may have been done: every command can be sent again with the same token.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The node is closing.
    #[error("the node is closing")]
    Closing,
    /// Consensus has stopped.
    #[error("the node has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: Arc<str>,
    },
    /// Too much is on its way.
    #[error(transparent)]
    Overloaded(#[from] AdmissionError),
    /// The domain cannot be used here now.
    #[error("{domain} is not open: {reason}")]
    NotOpen {
        /// Which.
        domain: Domain,
        /// Why.
        reason: Arc<str>,
    },
    /// It took too long. Nothing is known of a command: it can be sent again with the same token.
    #[error("the deadline has passed")]
    DeadlineExceeded,
    /// The leader changed, or the domain was opened again: it can be sent again with the same token.
    #[error("nothing is known of what became of it; send it again")]
    Uncertain,
    /// Something is beyond a limit, or not for workers.
    #[error("{0}")]
    Invalid(String),
}
