//! Work as a stream: slots are granted as long as there are credits, and what becomes of them is told on the same stream.
//!
//! ```text
//!  requests ──▶ orders, one at a time for each slot ──▶ commands (bounded) ──▶ the log ──▶ answers ─┐
//!  credits  ──▶ one lease at a time ──▶ grants ─────────────────────────────────────────────────────┼─▶ responses (bounded)
//!  watermarks of partitions that were worked on ────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants
//! - Never more slots are out on a stream than it has credits.
//! - A stream that breaks ends no lease. What was granted and never sent is given back, since nobody can work on it.
//! - Commands about one slot are carried out in the order in which they came.
//!
//! Must not know: sockets, how leases are decided.

mod orders;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use gapless_engine::projection::{Answer, Command, Done, Held, Refusal, Waiter};
use gapless_engine::types::PartitionIndex;
use gapless_engine::{LeaseRequest, Leased, ProjectionError};
use tokio::sync::{mpsc, watch};

use self::orders::{Order, Orders};
use super::{ProjectionCalls, WAIT, grants, messages, names, worker};
use crate::check::Check;
use crate::problem::Problem;
use crate::v1;
use crate::v1::work_request::Request;
use crate::v1::work_response::Response;
use crate::write_stream::InFlight;

/// Responses that wait for the worker.
const RESPONSES: usize = 256;
/// How long is waited before work is asked for again, if the node could not say.
const SOON: Duration = Duration::from_millis(100);
/// How long what was granted and never sent is tried to be given back.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// What one stream bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// Commands without an answer, and their bytes.
    pub in_flight: InFlight,
    /// How long one command may take.
    pub patience: Duration,
    /// How long what is held can be finished when the node shuts down.
    pub grace: Duration,
}

impl ProjectionCalls {
    /// Work as a stream. The first problem ends it, once everything before it was answered.
    pub fn work(
        &self,
        requests: impl Stream<Item = Result<v1::WorkRequest, Problem>> + Send + 'static,
        limits: WorkLimits,
        closing: watch::Receiver<bool>,
    ) -> impl Stream<Item = Result<v1::WorkResponse, Problem>> + Send + 'static {
        let (sender, receiver) = mpsc::channel(RESPONSES);
        let calls = self.clone();
        tokio::spawn(async move {
            let mut requests = pin!(requests);
            let begun = Working::begin(calls, requests.as_mut(), limits, sender.clone()).await;
            let ended = match begun {
                Ok(Some(working)) => working.run(requests, closing).await,
                Ok(None) => Ok(()),
                Err(problem) => Err(problem),
            };
            if let Err(problem) = ended {
                // Who is gone needs no reason.
                let _ = sender.send(Err(problem)).await;
            }
        });
        stream::unfold(receiver, |mut receiver| async move {
            let response = receiver.recv().await?;
            Some((response, receiver))
        })
    }
}

type Responses = mpsc::Sender<Result<v1::WorkResponse, Problem>>;
type Watermark = (PartitionIndex, Option<(u64, Waiter)>);

/// A slot of a partition.
type Slot = (u32, u64);

/// One stream.
struct Working {
    calls: ProjectionCalls,
    hello: v1::WorkHello,
    partition: Option<PartitionIndex>,
    credits: usize,
    /// What the worker holds, by the tokens it was told.
    out: BTreeMap<Slot, u64>,
    orders: Orders,
    leasing: Option<BoxFuture<'static, Result<Granted, Problem>>>,
    watermarks: FuturesUnordered<BoxFuture<'static, Watermark>>,
    watched: BTreeSet<PartitionIndex>,
    responses: Responses,
    limits: WorkLimits,
}

/// Nobody listens any more.
struct Gone;

impl Working {
    /// After the hello; none if there was nothing at all.
    async fn begin(
        calls: ProjectionCalls,
        mut requests: Pin<&mut (impl Stream<Item = Result<v1::WorkRequest, Problem>> + Send)>,
        limits: WorkLimits,
        responses: Responses,
    ) -> Result<Option<Self>, Problem> {
        let first = tokio::select! {
            first = requests.next() => first,
            () = responses.closed() => return Ok(None),
        };
        let Some(first) = first else { return Ok(None) };
        let Some(Request::Hello(hello)) = first?.request else {
            return Err(Problem::violation("request", "a stream begins with a hello"));
        };
        let mut check = Check::default();
        names(&hello.namespace, &hello.projection, &mut check);
        worker(&hello.worker, &mut check);
        grants("credits", hello.credits, &mut check);
        let partition = hello.partition.map(|index| check.partition("partition", index));
        check.end()?;
        calls.report(&hello.namespace, &hello.projection)?;
        let orders = Orders::new(calls.clone(), &hello, limits);
        Ok(Some(Self {
            credits: usize::try_from(hello.credits).unwrap_or(0),
            calls,
            hello,
            partition,
            out: BTreeMap::new(),
            orders,
            leasing: None,
            watermarks: FuturesUnordered::new(),
            watched: BTreeSet::new(),
            responses,
            limits,
        }))
    }

    /// Until the worker has said everything, or something went wrong.
    async fn run(
        mut self,
        mut requests: Pin<&mut (impl Stream<Item = Result<v1::WorkRequest, Problem>> + Send)>,
        mut closing: watch::Receiver<bool>,
    ) -> Result<(), Problem> {
        let mut end: Option<Result<(), Problem>> = None;
        let mut grace = pin!(tokio::time::sleep(self.limits.grace));
        let mut drained: Option<Problem> = None;
        loop {
            if end.is_none() && drained.is_none() {
                self.lease();
            }
            if self.orders.is_empty() {
                match (&end, &drained) {
                    (Some(_), _) => return end.unwrap_or(Ok(())),
                    (None, Some(problem)) if self.out.is_empty() => return Err(problem.clone()),
                    _ => {}
                }
            }
            let is_open = end.is_none();
            let told = tokio::select! {
                Some(carried) = self.orders.next() => match carried.answer {
                    Ok(answer) => self.answer(carried.held, answer).await,
                    Err(problem) => {
                        end = Some(Err(problem));
                        Ok(())
                    }
                },
                granted = leased(&mut self.leasing), if is_open => {
                    self.leasing = None;
                    match granted {
                        Ok(granted) => self.grant(granted).await,
                        Err(problem) => {
                            let told = self.drain(&problem).await;
                            grace.as_mut().reset(tokio::time::Instant::now() + self.limits.grace);
                            drained = Some(problem);
                            told
                        }
                    }
                }
                request = requests.next(), if is_open && self.orders.has_room() => match request {
                    None => {
                        end = Some(Ok(()));
                        Ok(())
                    }
                    Some(request) => match request.and_then(|request| self.take(request)) {
                        Ok(()) => Ok(()),
                        Err(problem) => {
                            end = Some(Err(problem));
                            Ok(())
                        }
                    },
                },
                Some((partition, watermark)) = self.watermarks.next(), if is_open => {
                    self.pass(partition, watermark).await
                }
                () = closed(&mut closing), if is_open && drained.is_none() => {
                    let problem = Problem::shutting_down();
                    let told = self.drain(&problem).await;
                    grace.as_mut().reset(tokio::time::Instant::now() + self.limits.grace);
                    drained = Some(problem);
                    told
                }
                () = grace.as_mut(), if is_open && drained.is_some() => {
                    end = drained.clone().map(Err);
                    Ok(())
                }
                () = self.responses.closed() => Err(Gone),
            };
            if told.is_err() {
                return Ok(());
            }
        }
    }

    /// Asks for as many slots as there are credits for.
    fn lease(&mut self) {
        let free = self.credits.saturating_sub(self.out.len());
        if free == 0 || self.leasing.is_some() {
            return;
        }
        let (calls, hello, partition) = (self.calls.clone(), self.hello.clone(), self.partition);
        let max = u32::try_from(free).unwrap_or(u32::MAX);
        // A task of its own: a lease that is given up half-way could be granted to nobody.
        let asking = tokio::spawn(async move { ask(calls, hello, partition, max).await });
        self.leasing =
            Some(Box::pin(async move { asking.await.unwrap_or_else(|_| Err(Problem::shutting_down())) }));
    }

    /// Tells the worker of what it was granted. What it has no credits for any more is given back.
    async fn grant(&mut self, mut granted: Granted) -> Result<(), Gone> {
        let free = self.credits.saturating_sub(self.out.len());
        let sent = granted.take(free);
        if sent.is_empty() {
            return Ok(());
        }
        for leased in &sent {
            self.watch(leased.domain.partition.index);
            self.out.insert(slot_of(leased), leased.grant.token);
        }
        let slots = sent.iter().map(|leased| messages::granted(leased, self.calls.watermark(&leased.domain)));
        send(&self.responses, Response::Granted(v1::WorkGranted { slots: slots.collect() })).await
    }

    /// What the worker asks for.
    fn take(&mut self, request: v1::WorkRequest) -> Result<(), Problem> {
        match request.request {
            None => Err(Problem::violation("request", "says nothing: set one of its fields")),
            Some(Request::Hello(_)) => Err(Problem::violation("hello", "was said already")),
            Some(Request::Credits(credits)) => {
                let mut check = Check::default();
                grants("credits", credits.credits, &mut check);
                check.end()?;
                self.credits = usize::try_from(credits.credits).unwrap_or(0);
                Ok(())
            }
            Some(Request::Resume(resume)) => {
                let mut check = Check::default();
                grants("resume.held", u32::try_from(resume.held.len()).unwrap_or(u32::MAX), &mut check);
                check.end()?;
                for held in resume.held {
                    self.out.insert((held.partition, held.slot), held.token);
                    let renew = v1::WorkRenew { held: Some(held), ttl_ms: resume.ttl_ms };
                    let order = Order::read(Request::Renew(renew))?;
                    self.watch(order.index);
                    self.orders.take(order)?;
                }
                Ok(())
            }
            Some(request) => self.orders.take(Order::read(request)?),
        }
    }

    /// What became of an order: the lease goes on, or a credit is free again.
    async fn answer(&mut self, held: v1::HeldSlot, answer: Answer) -> Result<(), Gone> {
        let slot = (held.partition, held.slot);
        let Answer { watermark, done } = answer;
        let refusal = match &done {
            Done::Refused(refusal) => Some(*refusal),
            _ => None,
        };
        let goes_on = match &done {
            Done::Refused(refusal) => messages::holds_nevertheless(*refusal),
            Done::PartReceived { .. } | Done::Renewed { .. } => true,
            _ => false,
        };
        if !goes_on && self.out.get(&slot) == Some(&held.token) {
            self.out.remove(&slot);
        }
        let response = match refusal {
            Some(refusal) if !goes_on => Response::Fenced(v1::WorkFenced {
                held: Some(held),
                watermark,
                refused: Some(messages::refused(refusal)),
            }),
            _ => Response::Answered(v1::WorkAnswered {
                held: Some(held),
                watermark,
                result: Some(messages::answered(done)),
            }),
        };
        send(&self.responses, response).await
    }

    /// The watermark of a partition has grown. Whoever still holds what it has passed holds it in vain.
    async fn pass(&mut self, partition: PartitionIndex, reached: Option<(u64, Waiter)>) -> Result<(), Gone> {
        let Some((watermark, waiter)) = reached else {
            self.watched.remove(&partition);
            return Ok(());
        };
        self.watermarks.push(Box::pin(reached_next(partition, watermark, waiter)));
        let index = u32::from(partition.get());
        let passed = self.out.range((index, 0)..=(index, watermark));
        let passed: Vec<(Slot, u64)> = passed
            .map(|(slot, token)| (*slot, *token))
            // What was ordered about it has an answer of its own.
            .filter(|(slot, _)| !self.orders.is_about(*slot))
            .collect();
        for ((partition, slot), token) in passed {
            self.out.remove(&(partition, slot));
            let fenced = v1::WorkFenced {
                held: Some(v1::HeldSlot { partition, slot, token }),
                watermark,
                refused: Some(messages::refused(Refusal::AlreadyResolved)),
            };
            send(&self.responses, Response::Fenced(fenced)).await?;
        }
        send(&self.responses, Response::Watermark(v1::WorkWatermark { partition: index, watermark })).await
    }

    /// Nothing more is granted here.
    async fn drain(&mut self, problem: &Problem) -> Result<(), Gone> {
        self.leasing = None;
        let leader = problem.leader().unwrap_or_default().to_owned();
        send(&self.responses, Response::Drain(v1::WorkDrain { reason: problem.message.clone(), leader }))
            .await
    }

    fn watch(&mut self, partition: PartitionIndex) {
        if !self.watched.insert(partition) {
            return;
        }
        let watermark = self
            .calls
            .place_at(&self.hello.namespace, &self.hello.projection, partition)
            .ok()
            .and_then(|place| self.calls.engine.watermark(&place.domain).ok());
        match watermark {
            Some(waiter) => self.watermarks.push(Box::pin(reached_next(partition, 0, waiter))),
            None => {
                self.watched.remove(&partition);
            }
        }
    }
}

/// When the node shuts down.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // Whoever would say so is gone: so is the node.
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn send(responses: &Responses, response: Response) -> Result<(), Gone> {
    responses.send(Ok(v1::WorkResponse { response: Some(response) })).await.map_err(|_| Gone)
}

/// The lease that is asked for; never, if none is.
async fn leased(
    leasing: &mut Option<BoxFuture<'static, Result<Granted, Problem>>>,
) -> Result<Granted, Problem> {
    match leasing {
        Some(leasing) => leasing.await,
        None => std::future::pending().await,
    }
}

/// The watermark of a partition, once it is beyond what was seen.
async fn reached_next(partition: PartitionIndex, seen: u64, mut waiter: Waiter) -> Watermark {
    let reached = waiter.reached(seen.saturating_add(1), std::future::pending()).await;
    (partition, reached.ok().map(|watermark| (watermark, waiter)))
}

fn slot_of(leased: &Leased) -> Slot {
    (u32::from(leased.domain.partition.index.get()), leased.grant.slot)
}

/// Asks until there is work, or a reason that does not pass.
async fn ask(
    calls: ProjectionCalls,
    hello: v1::WorkHello,
    partition: Option<PartitionIndex>,
    max: u32,
) -> Result<Granted, Problem> {
    let ttl = super::duration(hello.ttl_ms);
    let request = LeaseRequest { worker: &hello.worker, max, ttl, wait: WAIT, partition };
    let leased = calls.engine.lease(&hello.namespace, &hello.projection, request).await;
    let passes = |error: &ProjectionError| {
        use ProjectionError as Error;
        matches!(
            error,
            Error::Overloaded(_) | Error::NotOpen { .. } | Error::DeadlineExceeded | Error::Uncertain
        )
    };
    match leased {
        Ok(leased) => Ok(Granted { calls, leased }),
        Err(error) if passes(&error) => {
            let problem = calls.named(error, &hello.namespace, &hello.projection);
            tokio::time::sleep(problem.retry_after.unwrap_or(SOON)).await;
            Ok(Granted { calls, leased: Vec::new() })
        }
        Err(error) => Err(calls.named(error, &hello.namespace, &hello.projection)),
    }
}

/// Slots that were granted. What nobody takes is given back.
struct Granted {
    calls: ProjectionCalls,
    leased: Vec<Leased>,
}

impl Granted {
    /// At most so many of them.
    fn take(&mut self, most: usize) -> Vec<Leased> {
        let rest = self.leased.split_off(most.min(self.leased.len()));
        std::mem::replace(&mut self.leased, rest)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let leased = std::mem::take(&mut self.leased);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if leased.is_empty() {
            return;
        }
        let calls = self.calls.clone();
        runtime.spawn(async move {
            for leased in leased {
                let held = Held { slot: leased.grant.slot, token: leased.grant.token };
                let released =
                    calls.engine.command(&leased.domain, &Command::Release { held }, GIVING_BACK).await;
                if released.is_err() {
                    // It expires instead; the rest would not fare better.
                    return;
                }
            }
        });
    }
}
