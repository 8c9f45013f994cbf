//! Where partitions work: on threads of their own, so that one that waits for its disk holds up nobody else (ISO-1), or in
//! place, where a simulation decides what happens when.
//!
//! Must not know: what a job does.

mod pool;

use std::fmt;
use std::future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::pool::Pool;
use crate::embedding::runtime_threads;

/// Runs what may wait for a disk.
#[derive(Clone)]
pub(crate) enum Workers {
    /// On threads of their own.
    Threads(Arc<Pool>),
    /// In the task that asks for it, after a while that a simulation decides.
    InPlace(Option<JobsTake>),
}

/// How long a job takes that is done in place.
pub type JobsTake = Arc<dyn Fn() -> Duration + Send + Sync>;

impl fmt::Debug for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Workers::Threads(_) => "Threads",
            Workers::InPlace(_) => "InPlace",
        })
    }
}

impl Workers {
    /// Threads of their own, for jobs that do not wait as many as a runtime has.
    pub(crate) fn on_threads() -> io::Result<Self> {
        Ok(Workers::Threads(Arc::new(Pool::new(runtime_threads().get())?)))
    }

    /// Runs a job soon. Nobody is told if it panics.
    pub(crate) fn submit(&self, runtime: &Handle, job: impl FnOnce() + Send + 'static) {
        match self {
            Workers::Threads(threads) => threads.submit(job),
            Workers::InPlace(takes) => in_place(runtime, takes.clone(), job),
        }
    }

    /// The same for a job that takes less than to wake a thread: it waits for one that is awake, if there is one.
    pub(crate) fn submit_small(&self, runtime: &Handle, job: impl FnOnce() + Send + 'static) {
        match self {
            Workers::Threads(threads) => threads.submit_small(job),
            Workers::InPlace(takes) => in_place(runtime, takes.clone(), job),
        }
    }

    /// The same for a job that is known to wait for a disk: others do not wait for it.
    pub(crate) fn submit_long(&self, runtime: &Handle, job: impl FnOnce() + Send + 'static) {
        match self {
            Workers::Threads(threads) => threads.submit_long(job),
            Workers::InPlace(takes) => in_place(runtime, takes.clone(), job),
        }
    }

    /// Whether other jobs wait while one runs.
    pub(crate) fn are_wanted(&self) -> bool {
        match self {
            Workers::Threads(threads) => threads.has_jobs(),
            Workers::InPlace(_) => true,
        }
    }

    /// Runs a job to its end. One that panics does so here.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.run_by(job, |threads, job| threads.submit(job)).await
    }

    /// The same for a job that is known to wait for a disk.
    pub(crate) async fn run_long<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.run_by(job, |threads, job| threads.submit_long(job)).await
    }

    async fn run_by<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
        submit: impl FnOnce(&Pool, Box<dyn FnOnce() + Send>),
    ) -> T {
        let threads = match self {
            Workers::InPlace(takes) => {
                pass(takes.as_ref()).await;
                return job();
            }
            Workers::Threads(threads) => threads,
        };
        let (reply, result) = oneshot::channel();
        let job = move || {
            // Whoever asked may be gone.
            let _ = reply.send(catch_unwind(AssertUnwindSafe(job)));
        };
        submit(threads, Box::new(job));
        match result.await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => future::pending().await,
        }
    }
}

/// Runs a job on a simulation's only thread; not at once, because whoever asks may hold something that it needs.
fn in_place(runtime: &Handle, takes: Option<JobsTake>, job: impl FnOnce() + Send + 'static) {
    drop(runtime.spawn(async move {
        pass(takes.as_ref()).await;
        job();
    }));
}

/// Lets the time pass that a job takes.
async fn pass(takes: Option<&JobsTake>) {
    let takes = takes.map_or(Duration::ZERO, |takes| takes());
    if !takes.is_zero() {
        tokio::time::sleep(takes).await;
    }
}
