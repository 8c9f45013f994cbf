//! Where partitions work: on threads of their own, so that one that waits for its disk holds up nobody else (ISO-1), or in
//! place, where a simulation decides what happens when.
//!
//! Must not know: what a job does.

use std::future;

use tokio::runtime::Handle;

/// Runs what may wait for a disk.
#[derive(Clone, Debug)]
pub enum Workers {
    /// On threads that the runtime keeps for blocking work.
    Threads(Handle),
    /// In the task that asks for it.
    InPlace,
}

impl Workers {
    /// Runs a job to its end. If the runtime goes away first, this never returns.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        match self {
            Workers::InPlace => job(),
            Workers::Threads(handle) => match handle.spawn_blocking(job).await {
                Ok(done) => done,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => future::pending().await,
                },
            },
        }
    }
}
