//! A stream of writes: the next one is handed over before the last one has its outcome.
//!
//! Writes are proposed in the order in which they were submitted, unless one of them has to be proposed again after a change of
//! leader. Whoever needs their order to hold in any case says so with an expected offset.
//!
//! Must not know: how a write walks the corridor.

use std::time::Duration;

use gapless_partition::Write;
use gapless_types::IdempotencyKey;

use crate::engine::Engine;
use crate::error::WriteError;
use crate::write::{Acknowledgement, Passage, Step, WriteOptions};

/// A write that is on its way. Dropped, it goes its way all the same, and a retry gets its outcome.
#[derive(Debug)]
#[must_use = "nothing is known of a write before its outcome is waited for"]
pub struct Submitted {
    engine: Engine,
    passage: Passage,
    step: Step,
    patience: Duration,
}

impl Engine {
    /// Hands a write over, and returns as soon as it is admitted and on its way, or known already.
    ///
    /// # Errors
    /// If it was not admitted; nothing was done then.
    pub async fn submit(
        &self,
        namespace: &str,
        key: IdempotencyKey,
        write: &Write<'_>,
        options: WriteOptions,
    ) -> Result<Submitted, WriteError> {
        let passage = self.check(namespace, key, write)?;
        let entered = tokio::time::timeout(options.patience, self.enter(&passage));
        let step = entered.await.unwrap_or(Err(WriteError::DeadlineExceeded))?;
        Ok(Submitted { engine: self.clone(), passage, step, patience: options.patience })
    }
}

impl Submitted {
    /// Waits for the outcome, for as long as the options allow from now on.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub async fn outcome(self) -> Result<Acknowledgement, WriteError> {
        let Self { engine, passage, step, patience } = self;
        let walked = tokio::time::timeout(patience, engine.walk_on(&passage, step));
        walked.await.unwrap_or(Err(WriteError::DeadlineExceeded))
    }
}
