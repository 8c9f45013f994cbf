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

use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use gapless_engine::types::IdempotencyKey;
use gapless_engine::{Submitted, WriteError, WriteOptions};
use prost::Message;
use tokio::sync::mpsc;

use crate::ledger::{LedgerCalls, named};
use crate::problem::Problem;
use crate::v1;
use crate::write::{checked, response};

/// Answers that wait for the client.
const ANSWERS: usize = 256;

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

type Answer = (usize, Result<v1::WriteResponse, Problem>);

pub(crate) fn answers(
    calls: LedgerCalls,
    requests: impl Stream<Item = Result<v1::WriteRequest, Problem>> + Send + 'static,
    most: InFlight,
    patience: Duration,
) -> impl Stream<Item = Result<v1::WriteResponse, Problem>> + Send + 'static {
    let (sender, receiver) = mpsc::channel(ANSWERS);
    tokio::spawn(run(calls, requests, most, patience, sender));
    stream::unfold(receiver, |mut receiver| async move {
        let answer = receiver.recv().await?;
        Some((answer, receiver))
    })
}

async fn run(
    calls: LedgerCalls,
    requests: impl Stream<Item = Result<v1::WriteRequest, Problem>> + Send,
    most: InFlight,
    patience: Duration,
    sender: mpsc::Sender<Result<v1::WriteResponse, Problem>>,
) {
    let mut requests = pin!(requests);
    let mut in_flight: FuturesUnordered<BoxFuture<'static, Answer>> = FuturesUnordered::new();
    let mut bytes = 0;
    let mut end = None;
    while end.is_none() {
        let has_room = in_flight.len() < most.writes && bytes < most.bytes;
        let request = tokio::select! {
            Some((size, answer)) = in_flight.next(), if !in_flight.is_empty() => {
                bytes -= size;
                match answer {
                    Ok(answer) => if sender.send(Ok(answer)).await.is_err() { return },
                    Err(problem) => end = Some(Err(problem)),
                }
                continue;
            }
            request = requests.next(), if has_room => request,
            // Nobody wants the answers any more: what is in flight goes its way without us.
            () = sender.closed() => return,
        };
        match request {
            None => end = Some(Ok(())),
            Some(Err(problem)) => end = Some(Err(problem)),
            Some(Ok(request)) => {
                let size = request.encoded_len();
                match submitted(&calls, &request, patience).await {
                    Ok(submitted) => {
                        bytes += size;
                        in_flight.push(Box::pin(outcome(calls.clone(), request, submitted, patience, size)));
                    }
                    Err(problem) => end = Some(Err(problem)),
                }
            }
        }
    }
    while let Some((_, answer)) = in_flight.next().await {
        match answer {
            Ok(answer) => {
                if sender.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
            Err(problem) => end = Some(end.and_then(Result::err).map_or(Err(problem), Err)),
        }
    }
    if let Some(Err(problem)) = end {
        let _ = sender.send(Err(problem)).await;
    }
}

/// Hands a write over. A node that is busy is asked again as long as there is patience.
async fn submitted(
    calls: &LedgerCalls,
    request: &v1::WriteRequest,
    patience: Duration,
) -> Result<(IdempotencyKey, Submitted), Problem> {
    let checked = checked(request).map_err(|problem| of_request(problem, request))?;
    let started = tokio::time::Instant::now();
    loop {
        let options = WriteOptions { patience };
        let submitted = calls.engine.submit(checked.namespace, checked.key, &checked.write, options).await;
        let delay = match submitted {
            Ok(submitted) => return Ok((checked.key, submitted)),
            Err(error) => match delay(&error) {
                Some(delay) if started.elapsed() + delay < patience => delay,
                _ => return Err(of_request(named(&calls.engine, error, checked.namespace), request)),
            },
        };
        tokio::time::sleep(delay).await;
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

async fn outcome(
    calls: LedgerCalls,
    request: v1::WriteRequest,
    (key, submitted): (IdempotencyKey, Submitted),
    patience: Duration,
    size: usize,
) -> Answer {
    let answer = async {
        let acknowledgement =
            submitted.outcome().await.map_err(|error| named(&calls.engine, error, &request.namespace))?;
        let mut answer = response(key, &acknowledgement);
        if request.include_tx_proof {
            calls.prove(&request, &acknowledgement, &mut answer, patience).await?;
        }
        Ok(answer)
    };
    (size, answer.await.map_err(|problem| of_request(problem, &request)))
}

/// In a stream, whose problem it is has to be said.
fn of_request(problem: Problem, request: &v1::WriteRequest) -> Problem {
    let key: String = request.idempotency_key.iter().map(|byte| format!("{byte:02x}")).collect();
    problem.with("idempotency_key", key)
}
