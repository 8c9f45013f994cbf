//! A body that has to be there within a time. Whoever sends a byte now and then holds a call for that long and no longer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use gapless_api::{Problem, ProblemKind};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request.
#[derive(Debug)]
pub(crate) struct Timely {
    body: Incoming,
    until: Instant,
    /// Made when something has to be waited for.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    pub(crate) fn new(body: Incoming, patience: Duration) -> Self {
        Self { body, until: Instant::now() + patience, alarm: None }
    }
}

impl Body for Timely {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let until = this.until;
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        match alarm.as_mut().poll(context) {
            // In the words of gRPC, which pass through whoever decodes it.
            Poll::Ready(()) => Poll::Ready(Some(Err(Box::new(Status::from(too_slow()))))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request that did not come in time.
fn too_slow() -> Problem {
    let message = "the request was not there in time, and nothing was done";
    Problem::new(ProblemKind::Deadline, "REQUEST_TOO_SLOW", message)
}

/// Why a body was not read to its end, if it was we who gave it up.
pub(crate) fn given_up(error: &(dyn std::error::Error + 'static)) -> Option<Problem> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(status) = error.downcast_ref::<Status>() {
            return Some(Problem::from(status));
        }
        cause = error.source();
    }
    None
}
