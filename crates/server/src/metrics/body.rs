//! The body of an answer whose end is noticed: how long a call took and how it ended is known when its last byte is sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tracing::Span;

use super::traffic::Running;
use crate::access::fairness::Place;
use crate::activity::Busy;

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Measured {
    body: Body,
    running: Running,
    /// The span of the request ends with its answer.
    span: Span,
    /// So do its place among all calls, and the connection's being busy with it.
    _held: (Option<Place>, Busy),
}

impl Measured {
    pub(crate) fn new(body: Body, running: Running, span: Span, held: (Option<Place>, Busy)) -> Self {
        Self { body, running, span, _held: held }
    }
}

impl hyper::body::Body for Measured {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        // What a stream does while it is asked for more belongs to its request.
        let _entered = this.span.enter();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            this.running.trailers(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.span.record("status", self.running.status());
    }
}
