//! A worker: leases slots of a projection, has each computed, and commits what comes out.
//!
//! ```text
//!  lease ──▶ a task for each slot: work, with renewals at half time ──▶ commit, or fail
//!    ▲                                  │ fenced: dropped                  │ sent back: somebody is granted it again
//!    └──────────────────────────────────┴──────────────────────────────────┘
//! ```
//!
//! Whatever goes wrong, the read model does not: a worker that is slow, dead or mistaken about its lease is refused, and its slot is
//! granted again.
//!
//! Must not know: where the ledger is.

mod rows;
mod task;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use gapless_api::{Problem, v1};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::rows::{Changes, Columns, Rows};
use self::task::{Ended, Task};
use crate::error::Error;
use crate::projections::Projections;

/// How long one lease waits for work.
const WAIT: Duration = Duration::from_secs(1);

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Slots whose work was taken: it is visible, or waits for its turn.
    pub committed: u64,
    /// Commits that were sent back, because a row they had read was changed. Somebody is granted their slots again.
    pub returned: u64,
    /// Slots that were somebody else's when the work was done, or before.
    pub fenced: u64,
    /// Slots whose work ended with an error.
    pub failed: u64,
    /// Slots that were given back at the end.
    pub released: u64,
    /// Slots of which nothing is known: they expire, or were committed.
    pub unknown: u64,
}

/// A worker for one projection.
#[derive(Clone, Debug)]
pub struct Worker<P> {
    projections: P,
    place: Arc<PlaceOfWork>,
    partition: Option<u32>,
    stop: watch::Sender<bool>,
}

/// Where a worker works, and as whom.
#[derive(Clone, Debug)]
struct PlaceOfWork {
    namespace: String,
    projection: String,
    name: String,
    /// For how long slots are asked for; 0 leaves it to the server.
    ttl_ms: u64,
}

/// Ends a worker: it gives back what it holds.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Ends the worker, now or as soon as it runs.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl<P: Projections> Worker<P> {
    pub(crate) fn new(projections: P, namespace: &str, projection: &str) -> Self {
        let name = format!("worker-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let place = PlaceOfWork {
            namespace: namespace.to_owned(),
            projection: projection.to_owned(),
            name,
            ttl_ms: 0,
        };
        Self { projections, place: Arc::new(place), partition: None, stop: watch::Sender::new(false) }
    }

    /// The same under another name: at most 64 bytes.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        Arc::make_mut(&mut self.place).name = name.to_owned();
        self
    }

    /// The same with leases of this length, instead of what the server thinks is enough. They are renewed at half time.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        Arc::make_mut(&mut self.place).ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        self
    }

    /// The same for one partition alone.
    #[must_use]
    pub fn of_partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Works on at most so many slots at a time, until it is stopped.
    ///
    /// `work` gets a slot with its event, and rows to read; what it returns is committed with what it has read. It can be called
    /// several times for one slot, here and elsewhere, and only one of the results counts.
    ///
    /// # Errors
    /// If work cannot be had, and asking again does not help. What is held is given back first.
    pub async fn run<F, W>(self, concurrency: u32, work: F) -> Result<Worked, Error>
    where
        F: Fn(v1::GrantedSlot, Rows<P>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Changes, String>> + Send + 'static,
    {
        let concurrency = usize::try_from(concurrency.max(1)).unwrap_or(usize::MAX);
        let work = Arc::new(work);
        let mut stopped = self.stop.subscribe();
        let mut tasks = JoinSet::new();
        let mut worked = Worked::default();
        let ended = loop {
            while let Some(ended) = tasks.try_join_next() {
                worked.count(&ended);
            }
            if *stopped.borrow() {
                break Ok(());
            }
            if tasks.len() >= concurrency {
                tokio::select! {
                    Some(ended) = tasks.join_next() => worked.count(&ended),
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
                continue;
            }
            // Waited for in any case: what is granted to nobody is worked on by nobody.
            let slots = match self.lease(concurrency - tasks.len()).await {
                Ok(slots) => slots,
                // Servers come back.
                Err(error) if error.problem().is_some_and(Problem::can_be_retried) => Vec::new(),
                Err(error) => break Err(error),
            };
            for slot in slots {
                let task = Task::new(self.projections.clone(), self.place.clone(), slot, stopped.clone());
                let work = work.clone();
                tasks.spawn(async move { task.run(&*work).await });
            }
        };
        self.stop.send_replace(true);
        while let Some(ended) = tasks.join_next().await {
            worked.count(&ended);
        }
        ended.map(|()| worked)
    }

    async fn lease(&self, free: usize) -> Result<Vec<v1::GrantedSlot>, Error> {
        let request = v1::LeaseRequest {
            namespace: self.place.namespace.clone(),
            projection: self.place.projection.clone(),
            worker: self.place.name.clone(),
            max: u32::try_from(free).unwrap_or(u32::MAX).min(MAX_SLOTS),
            ttl_ms: self.place.ttl_ms,
            wait_ms: u64::try_from(WAIT.as_millis()).unwrap_or(0),
            partition: self.partition,
        };
        Ok(self.projections.lease(request).await?.slots)
    }
}

/// Most slots that are asked for at once.
const MAX_SLOTS: u32 = 1024;

impl Worked {
    fn count(&mut self, ended: &Result<Ended, tokio::task::JoinError>) {
        let counter = match ended {
            Ok(Ended::Committed) => &mut self.committed,
            Ok(Ended::Returned) => &mut self.returned,
            Ok(Ended::Fenced) => &mut self.fenced,
            // Work that panics has failed; its slot expires.
            Ok(Ended::Failed) | Err(_) => &mut self.failed,
            Ok(Ended::Released) => &mut self.released,
            Ok(Ended::Unknown) => &mut self.unknown,
        };
        *counter += 1;
    }
}
