//! The body of an answer whose end is noticed: how long a call took and how it ended is known when its last byte is handed over. What is
//! handed over counts as not sent until it is.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use gapless_api::Unsent;
use gapless_api::unsent::Held;
use hyper::body::{Frame, SizeHint};
use tracing::Span;

use super::traffic::Running;
use crate::access::fairness::Place;
use crate::activity::Busy;

/// An answer that begins with less than this does not count until it goes on: most answers are as short, and have no more.
const SHORT_BYTES: usize = 1 << 10;

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Measured {
    body: Body,
    running: Running,
    /// The span of the request ends with its answer.
    span: Span,
    unsent: Option<Unsent>,
    is_short: bool,
    /// So do its place among all calls, and the connection's being busy with it.
    _held: (Option<Place>, Busy),
}

/// Bytes that are sent, and that count for as long as somebody has them.
struct Sending {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Measured {
    pub(crate) fn new(body: Body, running: Running, span: Span, held: (Option<Place>, Busy)) -> Self {
        let unsent = held.0.as_ref().map(Place::unsent);
        Self { body, running, span, unsent, is_short: true, _held: held }
    }

    /// The same bytes. Whoever sends them drops them when the other side took them, or is gone.
    fn counted(&mut self, bytes: Bytes) -> Bytes {
        let was_short = std::mem::replace(&mut self.is_short, false);
        match &self.unsent {
            Some(unsent) if !(was_short && bytes.len() < SHORT_BYTES) => {
                let held = unsent.hold(bytes.len());
                Bytes::from_owner(Sending { bytes, _held: held })
            }
            _ => bytes,
        }
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
        let frame = this.span.in_scope(|| Pin::new(&mut this.body).poll_frame(context));
        let frame = ready!(frame);
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            this.running.trailers(trailers);
        }
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| this.counted(bytes)))))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use gapless_api::UnsentLimit;
    use hyper::body::Body as _;

    use super::*;
    use crate::access::fairness::Room;
    use crate::activity::Activity;
    use crate::metrics::Traffic;

    async fn handed_over(mut answer: Measured) -> (Vec<Bytes>, Measured) {
        let mut sent = Vec::new();
        while let Some(frame) =
            std::future::poll_fn(|context| Pin::new(&mut answer).poll_frame(context)).await
        {
            sent.push(frame.unwrap().into_data().unwrap());
        }
        (sent, answer)
    }

    #[tokio::test]
    async fn what_is_handed_over_counts_until_it_is_dropped_however_its_call_ended() {
        let limit = UnsentLimit::new(1 << 20);
        let room = Arc::new(Room::new(8, 0, limit.clone()));
        let traffic = Arc::new(Traffic::new(Arc::new(AtomicU64::new(0))));
        let measured = |parts: &[usize]| {
            let place = room.enter("client".into()).unwrap();
            let parts: Vec<_> = parts.iter().map(|length| Ok::<_, axum::Error>(vec![7; *length])).collect();
            let body = Body::from_stream(futures_util::stream::iter(parts));
            let busy = Arc::new(Activity::new()).begin();
            Measured::new(body, traffic.begin("/"), Span::none(), (Some(place), busy))
        };
        let (short, _answer) = handed_over(measured(&[10])).await;
        assert_eq!((short.len(), limit.bytes()), (1, 0), "most answers are as short");
        let (mut sent, answer) = handed_over(measured(&[10, 20, 3000])).await;
        assert_eq!((&sent[2][..], limit.bytes()), (&[7; 3000][..], 3020));
        drop(answer);
        let part = sent.remove(2).slice(..5);
        assert_eq!(limit.bytes(), 3020, "a part of it is still here");
        drop((part, sent));
        assert_eq!(limit.bytes(), 0);
    }
}
