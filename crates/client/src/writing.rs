//! A stream of writes that survives its connection: what has no answer yet is sent again, with the same keys and in the same order.
//!
//! ```text
//!  requests ──▶ pending, by number (bounded) ──▶ the open stream ──▶ answers, by key ──▶ no longer pending
//!                     └───── sent again after a break ─────┘
//! ```
//!
//! Thousands are in flight, and nearly all of them end well: while a stream is open, no write has a future of its own, and whatever
//! has come is taken in before anything is waited for.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_api::v1;
use gapless_engine::Numbered;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::backoff::Attempts;
use crate::client::{Client, within};
use crate::error::Error;
use crate::key::with_key;
use crate::ledger::Stream;

struct Writing {
    client: Client,
    requests: BoxStream<'static, v1::WriteRequest>,
    ended: bool,
    next: u64,
    pending: Numbered<v1::WriteRequest>,
    numbers: HashMap<Bytes, u64>,
    open: Option<Open>,
    attempts: Attempts,
}

/// A stream on which everything that is pending was sent.
struct Open {
    /// Nobody but who is pending waits in there. None when there will be no more.
    sender: Option<mpsc::UnboundedSender<v1::WriteRequest>>,
    answers: Streaming<v1::WriteResponse>,
}

pub(crate) fn answers(
    client: Client,
    requests: BoxStream<'static, v1::WriteRequest>,
) -> Stream<v1::WriteResponse> {
    let attempts = Attempts::new(client.options().retry);
    let writing = Writing {
        client,
        requests,
        ended: false,
        next: 0,
        pending: Numbered::default(),
        numbers: HashMap::new(),
        open: None,
        attempts,
    };
    Answers::Writing(Box::new(writing)).boxed()
}

/// Answers, as they come.
enum Answers {
    Writing(Box<Writing>),
    /// Until the next stream is open.
    Opening(BoxFuture<'static, Result<Box<Writing>, Error>>),
    Over,
}

impl stream::Stream for Answers {
    type Item = Result<v1::WriteResponse, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let step = match &mut *self {
                Self::Writing(writing) => ready!(writing.poll_step(context)),
                Self::Opening(opening) => match ready!(opening.as_mut().poll(context)) {
                    Ok(writing) => {
                        *self = Self::Writing(writing);
                        continue;
                    }
                    Err(error) => Step::Failed(error),
                },
                Self::Over => return Poll::Ready(None),
            };
            let failed = match step {
                Step::Answer(answer) => return Poll::Ready(Some(Ok(answer))),
                Step::Ended => None,
                Step::Failed(error) => Some(Err(error)),
                Step::Broken(status) => {
                    if let Self::Writing(writing) = std::mem::replace(&mut *self, Self::Over) {
                        *self = Self::Opening(Box::pin(writing.opened(status)));
                    }
                    continue;
                }
            };
            *self = Self::Over;
            return Poll::Ready(failed);
        }
    }
}

enum Step {
    Answer(v1::WriteResponse),
    /// No stream is open, or not any more, and then why.
    Broken(Option<Status>),
    Failed(Error),
    Ended,
}

impl Writing {
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        loop {
            if self.ended && self.pending.is_empty() {
                return Poll::Ready(Step::Ended);
            }
            let Some(open) = &mut self.open else { return Poll::Ready(Step::Broken(None)) };
            match open.answers.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(answer))) => {
                    self.attempts.progressed();
                    if let Some(number) = self.numbers.remove(&answer.idempotency_key) {
                        self.pending.remove(number);
                        return Poll::Ready(Step::Answer(answer));
                    }
                }
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Step::Broken(Some(status))),
                Poll::Ready(None) => {
                    let status = Status::unavailable("the server ended the stream");
                    return Poll::Ready(Step::Broken(Some(status)));
                }
                Poll::Pending => match ready!(self.poll_requests(context)) {
                    Ok(()) => {}
                    Err(error) => return Poll::Ready(Step::Failed(error)),
                },
            }
        }
    }

    /// Takes up what is asked for, as far as there is room. Ready when that was the last.
    fn poll_requests(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.ended && self.pending.len() < self.client.options().in_flight {
            match ready!(self.requests.poll_next_unpin(context)) {
                Some(request) => self.take(with_key(request))?,
                None => {
                    self.ended = true;
                    // The server answers what it has and ends the stream.
                    if let Some(open) = &mut self.open {
                        open.sender = None;
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
        Poll::Pending
    }

    fn take(&mut self, request: v1::WriteRequest) -> Result<(), Error> {
        let number = self.next;
        if self.numbers.insert(request.idempotency_key.clone(), number).is_some() {
            return Err(Error::Protocol("two writes of one stream have the same key"));
        }
        if let Some(sender) = self.open.as_ref().and_then(|open| open.sender.as_ref()) {
            // If nobody takes it, the next answer says why.
            let _ = sender.send(request.clone());
        }
        self.pending.push(number, request);
        self.next += 1;
        Ok(())
    }

    /// With a stream that is open, after one that broke with this status, if there was one.
    async fn opened(mut self: Box<Self>, broken: Option<Status>) -> Result<Box<Self>, Error> {
        self.open = None;
        let mut broken = broken;
        loop {
            if let Some(status) = broken.take() {
                self.attempts.wait(self.client.turn(&status)).await?;
            }
            match self.connect().await {
                Ok(open) => {
                    self.open = Some(open);
                    return Ok(self);
                }
                Err(status) => broken = Some(status),
            }
        }
    }

    async fn connect(&mut self) -> Result<Open, Status> {
        let (sender, mut receiver) = mpsc::unbounded_channel::<v1::WriteRequest>();
        let sent = stream::poll_fn(move |context| receiver.poll_recv(context));
        let mut ledger = self.client.ledger();
        let opening = ledger.write_stream(self.client.request(sent));
        let answers = within(self.attempts.left(), opening).await?.into_inner();
        self.attempts.opened();
        for request in self.pending.iter() {
            let _ = sender.send(request.clone());
        }
        let sender = Some(sender).filter(|_| !self.ended);
        Ok(Open { sender, answers })
    }
}
