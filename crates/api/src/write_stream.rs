//! A stream of writes: thousands in flight, their answers in any order, and no more memory than was agreed on.
//!
//! ```text
//!  requests ──▶ submitted one after the other ──▶ in flight (bounded) ──▶ answers (bounded) ──▶ the client
//! ```
//!
//! Whoever does not take his answers is not read from any more. A node that has too much to do does not end the stream: the next
//! write waits. Everything else that goes wrong ends it, after everything before it was answered; what got no answer is to be
//! sent again with the same keys.
//!
//! Must not know: how a write walks the corridor.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use gapless_engine::types::IdempotencyKey;
use gapless_engine::{Acknowledgement, Ended, Numbered, Pipeline, WriteError, WriteOptions};
use prost::Message;
use tokio::sync::mpsc;

use crate::ledger::{LedgerCalls, named};
use crate::problem::Problem;
use crate::v1;
use crate::write::{checked, response};

/// Requests that are taken, and answers that are handed on, together, at most.
const TOGETHER: usize = 256;
/// So many times that wait for the client.
const WAITING: usize = 16;

/// What one stream may have in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Writes.
    pub writes: usize,
    /// Bytes of them.
    pub bytes: usize,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { writes: 4096, bytes: 16 << 20 }
    }
}

type Answer = Result<v1::WriteResponse, Problem>;

pub(crate) fn answers(
    calls: LedgerCalls,
    requests: impl Stream<Item = Result<v1::WriteRequest, Problem>> + Send + 'static,
    most: InFlight,
    patience: Duration,
) -> impl Stream<Item = Answer> + Send + 'static {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(run(Writing::new(calls, most, patience), requests, sender));
    let batches = stream::unfold(receiver, |mut receiver| async move {
        let batch: Vec<Answer> = receiver.recv().await?;
        Some((stream::iter(batch), receiver))
    });
    batches.flatten()
}

async fn run(
    mut writing: Writing,
    requests: impl Stream<Item = Result<v1::WriteRequest, Problem>> + Send,
    sender: mpsc::Sender<Vec<Answer>>,
) {
    let mut requests = pin!(requests);
    while writing.end.is_none() || writing.is_busy() {
        tokio::select! {
            () = writing.answered(), if writing.is_busy() => {}
            mut request = requests.next(), if writing.has_room() => {
                writing.take(&mut request).await;
                // Those that came with it, without asking for anything else in between.
                for _ in 0..TOGETHER {
                    let next = if writing.has_room() { requests.next().now_or_never() } else { None };
                    let Some(mut request) = next else { break };
                    writing.take(&mut request).await;
                }
                continue;
            }
            // Nobody wants the answers any more: what is in flight goes its way without us.
            () = sender.closed() => return,
        }
        if !writing.answers.is_empty() && sender.send(std::mem::take(&mut writing.answers)).await.is_err() {
            return;
        }
    }
    if let Some(Err(problem)) = writing.end {
        let _ = sender.send(vec![Err(problem)]).await;
    }
}

/// A stream of writes, and how far it is.
struct Writing {
    calls: LedgerCalls,
    most: InFlight,
    patience: Duration,
    pipeline: Pipeline,
    /// By the numbers of the pipeline.
    asked: Numbered<Asked>,
    /// Written, and their proofs are looked up.
    proving: FuturesUnordered<BoxFuture<'static, (usize, Answer)>>,
    bytes: usize,
    answers: Vec<Answer>,
    /// Nothing more is read, and why.
    end: Option<Result<(), Problem>>,
}

/// What has to be known of a request until it is answered.
struct Asked {
    bytes: usize,
    namespace: String,
    key: IdempotencyKey,
    /// The request itself, if a proof is wanted.
    to_prove: Option<Box<v1::WriteRequest>>,
}

impl Writing {
    fn new(calls: LedgerCalls, most: InFlight, patience: Duration) -> Self {
        let pipeline = calls.engine.pipeline(WriteOptions { patience });
        Self {
            calls,
            most,
            patience,
            pipeline,
            asked: Numbered::default(),
            proving: FuturesUnordered::new(),
            bytes: 0,
            answers: Vec::new(),
            end: None,
        }
    }

    fn is_busy(&self) -> bool {
        !self.pipeline.is_empty() || !self.proving.is_empty()
    }

    fn has_room(&self) -> bool {
        let writes = self.pipeline.len() + self.proving.len();
        self.end.is_none() && writes < self.most.writes && self.bytes < self.most.bytes
    }

    /// Waits until something is answered, and takes what came with it. Can be dropped at any time.
    async fn answered(&mut self) {
        tokio::select! {
            Some(ended) = self.pipeline.next() => self.ended(ended),
            Some((bytes, answer)) = self.proving.next() => {
                self.bytes -= bytes;
                self.answer(answer);
            }
            else => {}
        }
        while self.answers.len() < TOGETHER
            && let Some(ended) = self.pipeline.next_of_those()
        {
            self.ended(ended);
        }
    }

    fn answer(&mut self, answer: Answer) {
        match answer {
            Ok(answer) => self.answers.push(Ok(answer)),
            // The first problem is the one that is told.
            Err(problem) => match &self.end {
                Some(Err(_)) => {}
                _ => self.end = Some(Err(problem)),
            },
        }
    }

    fn ended(&mut self, (number, written): Ended) {
        let asked = self.asked.remove(number).expect("it was asked for under this number");
        let Asked { bytes, namespace, key, to_prove } = asked;
        let named = |error| of_request(named(&self.calls.engine, error, &namespace), key.as_bytes());
        match (written.map_err(named), to_prove) {
            (Ok(acknowledgement), Some(request)) => {
                let proved = prove(self.calls.clone(), request, key, acknowledgement, self.patience);
                self.proving.push(Box::pin(async move { (bytes, proved.await) }));
            }
            (written, _) => {
                self.bytes -= bytes;
                self.answer(written.map(|acknowledgement| response(key, &acknowledgement)));
            }
        }
    }

    /// What is taken is left where it is: to move it from one future into the next costs more than to look at it.
    async fn take(&mut self, request: &mut Option<Result<v1::WriteRequest, Problem>>) {
        match request {
            None => self.end = Some(Ok(())),
            Some(Err(problem)) => self.end = Some(Err(problem.clone())),
            Some(Ok(request)) => {
                if let Err(problem) = self.submit(request).await {
                    self.end = Some(Err(problem));
                }
            }
        }
    }

    /// Hands a write over. A node that is busy is asked again as long as there is patience.
    async fn submit(&mut self, request: &mut v1::WriteRequest) -> Result<(), Problem> {
        let bytes = request.encoded_len();
        let started = tokio::time::Instant::now();
        let (number, key) = {
            let checked =
                checked(request).map_err(|problem| of_request(problem, &request.idempotency_key))?;
            loop {
                let submitted = self.pipeline.submit(checked.namespace, checked.key, &checked.write).await;
                let delay = match submitted {
                    Ok(number) => break (number, checked.key),
                    Err(error) => match delay(&error) {
                        Some(delay) if started.elapsed() + delay < self.patience => delay,
                        _ => {
                            let problem = named(&self.calls.engine, error, checked.namespace);
                            return Err(of_request(problem, &request.idempotency_key));
                        }
                    },
                };
                tokio::time::sleep(delay).await;
            }
        };
        let namespace = match request.include_tx_proof {
            true => request.namespace.clone(),
            false => std::mem::take(&mut request.namespace),
        };
        let to_prove = request.include_tx_proof.then(|| Box::new(std::mem::take(request)));
        self.asked.push(number, Asked { bytes, namespace, key, to_prove });
        self.bytes += bytes;
        Ok(())
    }
}

async fn prove(
    calls: LedgerCalls,
    request: Box<v1::WriteRequest>,
    key: IdempotencyKey,
    acknowledgement: Acknowledgement,
    patience: Duration,
) -> Answer {
    let mut answer = response(key, &acknowledgement);
    match calls.prove(&request, &acknowledgement, &mut answer, patience).await {
        Ok(()) => Ok(answer),
        Err(problem) => Err(of_request(problem, &request.idempotency_key)),
    }
}

/// How long to wait if the node has too much to do.
fn delay(error: &WriteError) -> Option<Duration> {
    match error {
        WriteError::Admission(gapless_engine::admission::AdmissionError::Overloaded(overloaded)) => {
            Some(overloaded.retry_after)
        }
        WriteError::TooManyInFlight { .. } => Some(Duration::from_millis(10)),
        _ => None,
    }
}

/// In a stream, whose problem it is has to be said.
fn of_request(problem: Problem, key: &[u8]) -> Problem {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    problem.with("idempotency_key", key)
}
