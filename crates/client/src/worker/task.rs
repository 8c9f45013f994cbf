//! One slot, from its grant to its end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gapless_api::v1;
use tokio::sync::watch;
use tokio::time::Instant;

use super::PlaceOfWork;
use super::rows::{Changes, Rows};
use crate::projections::Projections;

/// Longest description of an error, in bytes.
const MAX_ERROR_BYTES: usize = 1024;

/// How a slot ended for this worker.
pub(super) enum Ended {
    Committed,
    Returned,
    Fenced,
    Failed,
    Released,
    Unknown,
}

/// A slot that this worker holds.
pub(super) struct Task<P> {
    projections: P,
    place: Arc<PlaceOfWork>,
    slot: v1::GrantedSlot,
    stopped: watch::Receiver<bool>,
}

impl<P: Projections> Task<P> {
    pub(super) fn new(
        projections: P,
        place: Arc<PlaceOfWork>,
        slot: v1::GrantedSlot,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self { projections, place, slot, stopped }
    }

    pub(super) async fn run<W>(self, work: &impl Fn(v1::GrantedSlot, Rows<P>) -> W) -> Ended
    where
        W: Future<Output = Result<Changes, String>> + Send,
    {
        if *self.stopped.borrow() {
            return self.release().await;
        }
        let workspace = self.slot.event.as_ref().map_or(0, |event| event.workspace);
        let rows = Rows::new(self.projections.clone(), self.place.clone(), workspace);
        let mut stopped = self.stopped.clone();
        let computed = {
            let mut working = pin!(work(self.slot.clone(), rows.clone()));
            let mut renew_at = Some(Instant::now() + self.half_time());
            loop {
                // Work goes on while it is renewed: who is asked may be away.
                let renewal = tokio::select! {
                    biased;
                    computed = &mut working => break Some(computed),
                    () = until_stopped(&mut stopped) => break None,
                    renewal = self.renewed_at(renew_at) => renewal,
                };
                match renewal {
                    Renewal::Holds => renew_at = Some(Instant::now() + self.half_time()),
                    Renewal::Last => renew_at = None,
                    Renewal::Gone => return Ended::Fenced,
                }
            }
        };
        match computed {
            Some(Ok(changes)) => self.commit(changes, rows.reads()).await,
            Some(Err(error)) => self.fail(error).await,
            None => self.release().await,
        }
    }

    fn half_time(&self) -> Duration {
        Duration::from_millis(self.slot.ttl_ms / 2)
    }

    /// Renews at a time; never, if there is none.
    async fn renewed_at(&self, time: Option<Instant>) -> Renewal {
        match time {
            Some(time) => tokio::time::sleep_until(time).await,
            None => std::future::pending().await,
        }
        self.renew().await
    }

    async fn renew(&self) -> Renewal {
        use v1::renew_response::Result as Renewed;
        let request = v1::RenewRequest {
            namespace: self.place.namespace.clone(),
            projection: self.place.projection.clone(),
            partition: self.slot.partition,
            slot: self.slot.slot,
            token: self.slot.token,
            ttl_ms: self.slot.ttl_ms,
        };
        match self.projections.renew(request).await.map(|answer| answer.result) {
            Ok(Some(Renewed::Refused(refused))) if refused.code() == v1::RefusalCode::RenewalLimit => {
                Renewal::Last
            }
            Ok(Some(Renewed::Refused(_))) => Renewal::Gone,
            // What could not be asked may still hold: the commit is told.
            Ok(_) | Err(_) => Renewal::Holds,
        }
    }

    async fn commit(self, changes: Changes, reads: Vec<v1::RowRead>) -> Ended {
        use v1::commit_response::Result as Answer;
        let has_rows = changes.result.is_none();
        let content = v1::CommitContent {
            rows: changes.rows,
            reads: if has_rows { reads } else { Vec::new() },
            result: changes.result,
            part: None,
        };
        let request = v1::CommitRequest {
            namespace: self.place.namespace.clone(),
            projection: self.place.projection.clone(),
            partition: self.slot.partition,
            slot: self.slot.slot,
            token: self.slot.token,
            content: Some(content),
        };
        let answer = match self.projections.commit(request).await {
            Ok(answer) => answer.result,
            // Nobody will take it: somebody should know.
            Err(error) if error.problem().is_some_and(|problem| !problem.can_be_retried()) => {
                return self.fail(error.to_string()).await;
            }
            Err(_) => return Ended::Unknown,
        };
        match answer {
            Some(Answer::Committed(committed)) => match committed.status() {
                v1::CommitStatus::Returned => Ended::Returned,
                v1::CommitStatus::Filled => Ended::Failed,
                _ => Ended::Committed,
            },
            Some(Answer::Refused(refused)) => match refused.code() {
                v1::RefusalCode::LeaseReturned => Ended::Returned,
                v1::RefusalCode::InvalidPayload => self.fail(refused.message).await,
                _ => Ended::Fenced,
            },
            Some(Answer::Part(_)) | None => Ended::Unknown,
        }
    }

    async fn fail(self, mut error: String) -> Ended {
        use v1::fail_response::Result as Answer;
        let end = (0..=error.len().min(MAX_ERROR_BYTES)).rev().find(|&end| error.is_char_boundary(end));
        error.truncate(end.unwrap_or(0));
        let request = v1::FailRequest {
            namespace: self.place.namespace.clone(),
            projection: self.place.projection.clone(),
            partition: self.slot.partition,
            slot: self.slot.slot,
            token: self.slot.token,
            error,
        };
        match self.projections.fail(request).await.map(|answer| answer.result) {
            Ok(Some(Answer::Refused(_))) => Ended::Fenced,
            Ok(_) => Ended::Failed,
            Err(_) => Ended::Unknown,
        }
    }

    async fn release(self) -> Ended {
        use v1::release_response::Result as Answer;
        let request = v1::ReleaseRequest {
            namespace: self.place.namespace.clone(),
            projection: self.place.projection.clone(),
            partition: self.slot.partition,
            slot: self.slot.slot,
            token: self.slot.token,
        };
        match self.projections.release(request).await.map(|answer| answer.result) {
            Ok(Some(Answer::Refused(_))) => Ended::Fenced,
            Ok(_) => Ended::Released,
            Err(_) => Ended::Unknown,
        }
    }
}

/// What a renewal came to.
enum Renewal {
    Holds,
    /// It holds, and cannot be renewed again.
    Last,
    Gone,
}

async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        // Nobody can stop it any more.
        std::future::pending::<()>().await;
    }
}
