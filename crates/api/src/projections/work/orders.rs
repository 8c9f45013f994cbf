//! What a worker has told to be done about its slots: carried out one at a time for each slot, and many at a time for all.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gapless_engine::projection::{Answer, Command, Held};
use gapless_engine::types::PartitionIndex;

use super::{Slot, WorkLimits};
use crate::check::Check;
use crate::problem::{Problem, ProblemKind};
use crate::projections::content::{Part, parts};
use crate::projections::{Place, ProjectionCalls, error_text, ttl};
use crate::v1;
use crate::v1::work_request::Request;

/// Something to be done about a slot.
pub(super) struct Order {
    pub(super) held: v1::HeldSlot,
    pub(super) index: PartitionIndex,
    what: What,
}

enum What {
    Commit(Vec<Part>),
    Renew { ttl_ms: i64 },
    Release,
    Fail(String),
}

/// What became of an order.
pub(super) struct Carried {
    pub(super) held: v1::HeldSlot,
    pub(super) answer: Result<Answer, Problem>,
    bytes: usize,
}

/// Everything that was ordered and is not answered.
pub(super) struct Orders {
    calls: ProjectionCalls,
    namespace: String,
    projection: String,
    limits: WorkLimits,
    carrying: FuturesUnordered<BoxFuture<'static, Carried>>,
    /// Slots that something is being done about, and what comes after it.
    waiting: BTreeMap<Slot, VecDeque<Order>>,
    count: usize,
    bytes: usize,
}

impl Order {
    /// What a request about a slot says.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn read(request: Request) -> Result<Self, Problem> {
        let (held, what) = match request {
            Request::Commit(commit) => (commit.held, What::Commit(parts(commit.content.as_ref())?)),
            Request::Renew(renew) => (renew.held, What::Renew { ttl_ms: ttl(renew.ttl_ms) }),
            Request::Release(held) => (Some(held), What::Release),
            Request::Fail(fail) => {
                error_text("fail.error", &fail.error)?;
                (fail.held, What::Fail(fail.error))
            }
            Request::Hello(_) | Request::Credits(_) | Request::Resume(_) => {
                unreachable!("it is about no slot, or about many")
            }
        };
        let held = held.ok_or_else(|| Problem::violation("held", "is missing"))?;
        let mut check = Check::default();
        let index = check.partition("held.partition", held.partition);
        check.end()?;
        Ok(Self { held, index, what })
    }

    fn bytes(&self) -> usize {
        match &self.what {
            What::Commit(parts) => parts.iter().map(|part| part.bytes.len()).sum(),
            What::Fail(error) => error.len(),
            What::Renew { .. } | What::Release => 0,
        }
    }

    fn slot(&self) -> Slot {
        (self.held.partition, self.held.slot)
    }
}

impl Orders {
    pub(super) fn new(calls: ProjectionCalls, hello: &v1::WorkHello, limits: WorkLimits) -> Self {
        Self {
            calls,
            namespace: hello.namespace.clone(),
            projection: hello.projection.clone(),
            limits,
            carrying: FuturesUnordered::new(),
            waiting: BTreeMap::new(),
            count: 0,
            bytes: 0,
        }
    }

    /// Whether one more can be taken.
    pub(super) fn has_room(&self) -> bool {
        self.count < self.limits.in_flight.writes && self.bytes < self.limits.in_flight.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether something is to be done about a slot.
    pub(super) fn is_about(&self, slot: Slot) -> bool {
        self.waiting.contains_key(&slot)
    }

    /// Takes an order; it is carried out at once unless another one about its slot is.
    ///
    /// # Errors
    /// If there is no such partition.
    pub(super) fn take(&mut self, order: Order) -> Result<(), Problem> {
        let place = self.calls.place_at(&self.namespace, &self.projection, order.index)?;
        self.count += 1;
        self.bytes += order.bytes();
        match self.waiting.get_mut(&order.slot()) {
            Some(before) => before.push_back(order),
            None => {
                self.waiting.insert(order.slot(), VecDeque::new());
                self.carry(place, order);
            }
        }
        Ok(())
    }

    fn carry(&mut self, place: Place, order: Order) {
        let (calls, patience) = (self.calls.clone(), self.limits.patience);
        self.carrying.push(Box::pin(async move {
            let bytes = order.bytes();
            let answer = carried_out(&calls, &place, &order, patience).await;
            let slot = format!("{}/{}", order.held.partition, order.held.slot);
            // In a stream, whose problem it is has to be said.
            Carried { held: order.held, answer: answer.map_err(|problem| problem.with("slot", slot)), bytes }
        }));
    }

    /// The next one that is answered; none if there is none.
    pub(super) async fn next(&mut self) -> Option<Carried> {
        let carried = self.carrying.next().await?;
        self.count -= 1;
        self.bytes -= carried.bytes;
        let slot = (carried.held.partition, carried.held.slot);
        let Some(next) = self.waiting.get_mut(&slot).and_then(VecDeque::pop_front) else {
            self.waiting.remove(&slot);
            return Some(carried);
        };
        match self.calls.place_at(&self.namespace, &self.projection, next.index) {
            Ok(place) => {
                self.carry(place, next);
                Some(carried)
            }
            // Dropped since: so is everything that was to come.
            Err(problem) => {
                let rest = self.waiting.remove(&slot).unwrap_or_default();
                self.count -= 1 + rest.len();
                self.bytes -= next.bytes() + rest.iter().map(Order::bytes).sum::<usize>();
                Some(Carried { answer: Err(problem), ..carried })
            }
        }
    }
}

/// Tries as long as there is patience: a node that is busy is asked again.
async fn carried_out(
    calls: &ProjectionCalls,
    place: &Place,
    order: &Order,
    patience: Duration,
) -> Result<Answer, Problem> {
    let started = tokio::time::Instant::now();
    let held = Held { slot: order.held.slot, token: order.held.token };
    loop {
        let left = patience.saturating_sub(started.elapsed());
        let answer = match &order.what {
            What::Commit(parts) => calls.commit_parts(place, held, parts, left).await,
            What::Renew { ttl_ms } => {
                calls.command(place, &Command::Renew { held, ttl_ms: *ttl_ms }, left).await
            }
            What::Release => calls.command(place, &Command::Release { held }, left).await,
            What::Fail(error) => calls.command(place, &Command::Fail { held, error }, left).await,
        };
        let delay = match &answer {
            Err(problem) if problem.kind == ProblemKind::Exhausted => problem.retry_after,
            _ => None,
        };
        match delay {
            Some(delay) if started.elapsed() + delay < patience => tokio::time::sleep(delay).await,
            _ => return answer,
        }
    }
}
