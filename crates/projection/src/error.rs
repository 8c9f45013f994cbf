//! What stops a domain: the world failed, or what is stored is not what was written.

use gapless_log::input::Malformed;
use gapless_store::{
    ApplyError, BatchError, CheckpointError, MaintainError, OpenError as StoreOpenError, ReadError,
};
use thiserror::Error;

use crate::settings::InvalidSetting;

/// Why a domain has stopped. Opened again, it goes on from its checkpoint.
#[derive(Clone, Debug, Error)]
pub enum Fault {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store did not take a batch: the memory of the node is full.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A row beyond the limits of the store: one of ours was not kept.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// What is stored is not what was written: discard the store, and fold the log again.
    #[error("the state of a projection is malformed: {0}")]
    Malformed(&'static str),
    /// It was given an event beyond the limits.
    #[error("an event beyond the limits was routed to a projection")]
    Event,
}

impl Fault {
    /// Whether opening it again does not help: what is stored is not what was written, or cannot be.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Read(ReadError::Damaged(_)) | Self::Batch(_) | Self::Malformed(_) | Self::Event => true,
            Self::Read(ReadError::Disk(_)) | Self::Apply(_) => false,
        }
    }
}

impl From<Malformed> for Fault {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Malformed(what)
    }
}

/// Why a domain could not be opened.
#[derive(Clone, Debug, Error)]
pub enum OpenError {
    /// A setting beyond its limit.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// What it holds could not be used.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl OpenError {
    /// Whether trying again does not help.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Setting(_) => true,
            Self::Store(error) => {
                matches!(error, StoreOpenError::Damaged(_) | StoreOpenError::UnknownVersion { .. })
            }
            Self::Fault(fault) => fault.is_damage(),
        }
    }
}

/// Why a checkpoint was not made. The one before it stays valid.
#[derive(Clone, Debug, Error)]
pub enum CheckpointFailed {
    /// The domain has stopped.
    #[error(transparent)]
    Stopped(#[from] Fault),
    /// The store could not be written.
    #[error(transparent)]
    Store(#[from] CheckpointError),
    /// Files of the store could not be merged.
    #[error(transparent)]
    Maintain(#[from] MaintainError),
}

/// Why an image was not installed. The directory is of no use.
#[derive(Clone, Debug, Error)]
pub enum InstallError {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// A row is none of a domain, or the store takes no more.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The store could not be written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Files of the store could not be merged.
    #[error(transparent)]
    Maintain(#[from] MaintainError),
}
