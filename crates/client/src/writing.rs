//! A stream of writes that survives its connection: what has no answer yet is sent again, with the same keys and in the same order.
//!
//! ```text
//!  requests ──▶ pending, by number (bounded) ──▶ the open stream ──▶ answers, by key ──▶ no longer pending
//!                     └───── sent again after a break ─────┘
//! ```

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_api::v1;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::backoff::Attempts;
use crate::client::{Client, within};
use crate::error::Error;
use crate::key::with_key;
use crate::ledger::Stream;

/// Requests on their way to the connection.
const ON_THE_WAY: usize = 256;

struct Writing {
    client: Client,
    requests: BoxStream<'static, v1::WriteRequest>,
    ended: bool,
    next: u64,
    pending: BTreeMap<u64, v1::WriteRequest>,
    numbers: HashMap<Bytes, u64>,
    open: Option<Open>,
    attempts: Attempts,
}

struct Open {
    sender: Option<mpsc::Sender<v1::WriteRequest>>,
    answers: Streaming<v1::WriteResponse>,
    /// The first pending request that was not sent on this connection.
    unsent: u64,
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
        pending: BTreeMap::new(),
        numbers: HashMap::new(),
        open: None,
        attempts,
    };
    stream::try_unfold(writing, |mut writing| async move {
        let answer = writing.next().await?;
        Ok(answer.map(|answer| (answer, writing)))
    })
    .boxed()
}

enum Step {
    Answer(v1::WriteResponse),
    Broken(Status),
    Request(Option<v1::WriteRequest>),
    Sent,
}

impl Writing {
    async fn next(&mut self) -> Result<Option<v1::WriteResponse>, Error> {
        loop {
            if self.ended && self.pending.is_empty() {
                return Ok(None);
            }
            let step = match self.open.take() {
                None => match self.connect().await {
                    Ok(open) => {
                        self.open = Some(open);
                        continue;
                    }
                    Err(status) => Step::Broken(status),
                },
                Some(mut open) => {
                    let step = self.step(&mut open).await;
                    self.open = Some(open);
                    step
                }
            };
            match step {
                Step::Sent => {}
                Step::Request(None) => self.ended = true,
                Step::Request(Some(request)) => self.take(with_key(request))?,
                Step::Answer(answer) => {
                    self.attempts.progressed();
                    if let Some(number) = self.numbers.remove(&answer.idempotency_key) {
                        self.pending.remove(&number);
                        return Ok(Some(answer));
                    }
                }
                Step::Broken(status) => {
                    self.open = None;
                    self.attempts.wait(self.client.turn(&status)).await?;
                }
            }
        }
    }

    fn take(&mut self, request: v1::WriteRequest) -> Result<(), Error> {
        let number = self.next;
        if self.numbers.insert(request.idempotency_key.clone(), number).is_some() {
            return Err(Error::Protocol("two writes of one stream have the same key"));
        }
        self.pending.insert(number, request);
        self.next += 1;
        Ok(())
    }

    async fn connect(&mut self) -> Result<Open, Status> {
        let (sender, receiver) = mpsc::channel(ON_THE_WAY);
        let sent = stream::unfold(receiver, |mut receiver| async move {
            let request: v1::WriteRequest = receiver.recv().await?;
            Some((request, receiver))
        });
        let mut ledger = self.client.ledger();
        let opening = ledger.write_stream(self.client.request(sent));
        let answers = within(self.attempts.left(), opening).await?.into_inner();
        self.attempts.opened();
        let unsent = self.pending.first_key_value().map_or(self.next, |(first, _)| *first);
        Ok(Open { sender: Some(sender), answers, unsent })
    }

    /// One thing that happens: an answer, room to send, a request to take up.
    async fn step(&mut self, open: &mut Open) -> Step {
        let Open { sender, answers, unsent } = open;
        let to_send = self.pending.range(*unsent..).next().map(|(number, request)| (*number, request));
        if self.ended && to_send.is_none() {
            // The server answers what it has and ends the stream.
            *sender = None;
        }
        let has_room = !self.ended && self.pending.len() < self.client.options().in_flight;
        let permit = async {
            match sender {
                Some(sender) => sender.reserve().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = answers.message() => match answer {
                Ok(Some(answer)) => Step::Answer(answer),
                Ok(None) => Step::Broken(Status::unavailable("the server ended the stream")),
                Err(status) => Step::Broken(status),
            },
            permit = permit, if to_send.is_some() => match (permit, to_send) {
                (Ok(permit), Some((number, request))) => {
                    permit.send(request.clone());
                    *unsent = number + 1;
                    Step::Sent
                }
                // Nobody takes it: why is what the next answer says.
                _ => match answers.message().await {
                    Ok(Some(answer)) => Step::Answer(answer),
                    Ok(None) => Step::Broken(Status::unavailable("the server ended the stream")),
                    Err(status) => Step::Broken(status),
                },
            },
            request = self.requests.next(), if has_room && to_send.is_none() => Step::Request(request),
        }
    }
}
