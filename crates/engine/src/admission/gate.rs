//! The gate itself: one short lock around what is in use, claimed and behind.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_types::{IdempotencyKey, PartitionId};

use super::clients::{ClientHash, ClientPlace, Clients, Found};
use super::pool::{Pool, Size};
use super::{
    AdmissionError, AdmissionLimits, Backlog, Budget, Limit, LimitsError, Overloaded, Request, Scope, Signal,
};
use crate::keyed::{KeyedHash, KeyedMap};
use crate::limits::MAX_COMMAND_BYTES;
use crate::log_time::Clock;

/// Lets writes in. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Admission {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: AdmissionLimits,
    clock: Arc<dyn Clock>,
    signal: Option<Arc<dyn Signal>>,
    hash: KeyedHash,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    node: Pool,
    node_backlog: Backlog,
    log_too_long: Option<LogLength>,
    partitions: KeyedMap<PartitionId, PartitionState>,
    /// Of all partitions: a map for each would be made anew whenever one has been idle.
    clients: Clients,
    /// One for a partition and for a client at most.
    claims: KeyedMap<PartitionId, Claim>,
    /// No claim ends before this.
    claims_end: Duration,
}

/// How long the replicated log is, and may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLength {
    /// Its bytes.
    pub bytes: u64,
    /// How many there may be.
    pub max_bytes: u64,
}

#[derive(Debug)]
struct PartitionState {
    pool: Pool,
    /// Clients that hold something.
    clients: u64,
    backlog: Backlog,
    frozen: bool,
}

/// Who asks for what.
#[derive(Clone, Copy, Debug)]
struct Asking {
    partition: PartitionId,
    size: Size,
    key: IdempotencyKey,
    client: ClientPlace,
}

/// Room that a large write waits for.
#[derive(Clone, Copy, Debug)]
struct Claim {
    key: IdempotencyKey,
    client: ClientHash,
    size: Size,
    ends: Duration,
}

impl PartitionState {
    fn new(budget: &Budget) -> Self {
        Self { pool: Pool::new(budget), clients: 0, backlog: Backlog::default(), frozen: false }
    }

    /// Whether nothing would be lost by forgetting it.
    fn is_idle(&self) -> bool {
        self.pool.is_empty() && !self.frozen && self.backlog == Backlog::default()
    }
}

impl Admission {
    /// Lets in what the limits allow.
    ///
    /// # Errors
    /// If the limits contradict each other.
    pub fn new(
        limits: AdmissionLimits,
        clock: Arc<dyn Clock>,
        signal: Option<Arc<dyn Signal>>,
    ) -> Result<Self, LimitsError> {
        limits.check()?;
        let node = Pool::new(&limits.node);
        let state = State {
            node,
            node_backlog: Backlog::default(),
            log_too_long: None,
            partitions: KeyedMap::default(),
            clients: Clients::default(),
            claims: KeyedMap::default(),
            claims_end: Duration::MAX,
        };
        let (hash, state) = (KeyedHash::default(), Mutex::new(state));
        Ok(Self { shared: Arc::new(Shared { limits, clock, signal, hash, state }) })
    }

    /// Admits a write, until its permit is dropped.
    ///
    /// # Errors
    /// If it has to wait, or can never be admitted. Nothing is counted then; a large write that found no room has claimed some.
    pub fn admit<C: Hash>(&self, request: Request<C>) -> Result<Permit, AdmissionError> {
        let Request { partition, bytes, key, client } = request;
        if bytes > MAX_COMMAND_BYTES as u64 {
            return Err(AdmissionError::TooLarge { bytes });
        }
        if let Some(signal) = &self.shared.signal {
            signal.check(partition)?;
        }
        let asking = Asking {
            partition,
            size: Size::of(bytes),
            key,
            client: ClientPlace::of(&self.shared.hash, partition, &client),
        };
        let now = self.shared.clock.monotonic();
        let mut state = self.shared.lock();
        state.end_claims(now);
        self.check_backlog(&state, partition, now)?;
        if let Err(overloaded) = self.find_room(&state, &asking) {
            // Whoever has his part already has nothing to wait for but his own.
            if overloaded.limit != Limit::Client {
                state.claim(&asking, now + self.shared.claim_life(), &self.shared.limits);
            }
            return Err(overloaded.into());
        }
        if state.claims.get(&partition).is_some_and(|claim| claim.key == key) {
            state.end_claim(partition);
        }
        state.take(&asking, &self.shared.limits);
        let Asking { size, client, .. } = asking;
        let holding = Some(Holding { partition, size, client });
        Ok(Permit { shared: self.shared.clone(), holding })
    }

    /// What is let in.
    pub(crate) fn limits(&self) -> &AdmissionLimits {
        &self.shared.limits
    }

    /// How far a partition is behind. Without a report it is not.
    pub fn report(&self, partition: PartitionId, backlog: Backlog) {
        self.change(partition, |state| state.backlog = backlog);
    }

    /// How far the node is behind: proposed, and not dispatched.
    pub fn report_node(&self, backlog: Backlog) {
        self.shared.lock().node_backlog = backlog;
    }

    /// The replicated log is longer than it may be, or is not any more.
    pub fn report_log(&self, too_long: Option<LogLength>) {
        self.shared.lock().log_too_long = too_long;
    }

    /// Whether writes are refused because the replicated log is too long.
    #[must_use]
    pub fn is_log_too_long(&self) -> bool {
        self.shared.lock().log_too_long.is_some()
    }

    /// An operator stops writes to a partition, or lets them in again.
    pub fn set_frozen(&self, partition: PartitionId, frozen: bool) {
        self.change(partition, |state| state.frozen = frozen);
    }

    /// A partition is gone: what was reported of it does not count any more. Permits stay valid.
    pub fn forget(&self, partition: PartitionId) {
        self.change(partition, |state| (state.backlog, state.frozen) = (Backlog::default(), false));
    }

    /// Operations and bytes in use, in a partition or on the node.
    #[must_use]
    pub fn in_use(&self, scope: Scope) -> (u64, u64) {
        let state = self.shared.lock();
        match scope {
            Scope::Node => state.node.in_use(),
            Scope::Partition(partition) => {
                state.partitions.get(&partition).map_or((0, 0), |state| state.pool.in_use())
            }
        }
    }

    /// Partitions of which something is remembered.
    #[cfg(test)]
    pub(super) fn shared_partitions(&self) -> usize {
        self.shared.lock().partitions.len()
    }

    /// Clients of which something is remembered, once for each partition.
    #[cfg(test)]
    pub(super) fn shared_clients(&self) -> usize {
        self.shared.lock().clients.len()
    }

    fn change(&self, partition: PartitionId, change: impl FnOnce(&mut PartitionState)) {
        let budget = &self.shared.limits.partition;
        let mut state = self.shared.lock();
        change(state.partitions.entry(partition).or_insert_with(|| PartitionState::new(budget)));
        state.forget_if_idle(partition);
    }

    fn check_backlog(
        &self,
        state: &State,
        partition: PartitionId,
        now: Duration,
    ) -> Result<(), AdmissionError> {
        let limits = &self.shared.limits;
        let known = state.partitions.get(&partition);
        let backlog = known.map_or(Backlog::default(), |known| known.backlog);
        let age =
            |backlog: Backlog| backlog.oldest.map_or(Duration::ZERO, |oldest| now.saturating_sub(oldest));
        if known.is_some_and(|known| known.frozen) || age(backlog) > limits.frozen_age {
            return Err(AdmissionError::Frozen { partition });
        }
        if let Some(LogLength { bytes: current, max_bytes: maximum }) = state.log_too_long {
            let (scope, limit, retry_after) = (Scope::Node, Limit::LogBytes, limits.max_retry);
            return Err(Overloaded { scope, limit, current, maximum, retry_after }.into());
        }
        let scopes = [
            (Scope::Partition(partition), backlog, limits.partition),
            (Scope::Node, state.node_backlog, limits.node),
        ];
        for (scope, backlog, budget) in scopes {
            let age = age(backlog);
            if age > budget.age {
                let (current, maximum) = (millis(age), millis(budget.age));
                let retry_after = self.shared.clamp(age.saturating_sub(budget.age));
                return Err(Overloaded { scope, limit: Limit::Age, current, maximum, retry_after }.into());
            }
            if backlog.lag > budget.lag {
                let retry_after = limits.max_retry;
                let (current, maximum) = (backlog.lag, budget.lag);
                return Err(Overloaded { scope, limit: Limit::Lag, current, maximum, retry_after }.into());
            }
        }
        Ok(())
    }

    /// Whether there is room in the partition and on the node, and whether it is this partition's turn, and this client's.
    fn find_room(&self, state: &State, asking: &Asking) -> Result<(), Overloaded> {
        let Asking { partition, size, key, client } = *asking;
        let own = state.claims.get(&partition).filter(|claim| claim.key == key).map(|claim| claim.size);
        let empty = Pool::new(&self.shared.limits.partition);
        let known = state.partitions.get(&partition);
        let pool = known.map_or(&empty, |known| &known.pool);
        for (scope, pool) in [(Scope::Partition(partition), pool), (Scope::Node, &state.node)] {
            if let Some((limit, current, maximum)) = pool.lacks(size, own) {
                let retry_after = self.shared.clamp(pool.time_to_drain(size));
                return Err(Overloaded { scope, limit, current, maximum, retry_after });
            }
        }
        if own.is_some() {
            return Ok(());
        }
        let found = Found {
            in_use: pool.held_in_all(),
            clients: known.map_or(0, |known| known.clients),
            free: pool.free(),
            free_on_node: state.node.free(),
        };
        // Even if all of the partition were this client's: nobody has to be looked up unless there is little room.
        if found.refuses(found.in_use, size).is_none() {
            return Ok(());
        }
        match found.refuses(state.clients.held(client), size) {
            None => Ok(()),
            Some((limit, current, maximum)) => {
                let drains = if limit == Limit::Share { &state.node } else { pool };
                let retry_after = self.shared.clamp(drains.time_to_drain(size));
                let scope = Scope::Partition(partition);
                Err(Overloaded { scope, limit, current, maximum, retry_after })
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while this lock is held leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clamp(&self, delay: Duration) -> Duration {
        delay.clamp(self.limits.min_retry, self.limits.max_retry)
    }

    /// A claim outlives the longest delay that its owner may have been told, and some way to get here.
    fn claim_life(&self) -> Duration {
        self.limits.max_retry * 2
    }

    fn release(&self, held: impl IntoIterator<Item = Holding>) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        held.into_iter().for_each(|holding| state.give_back(holding, now));
    }
}

impl State {
    fn give_back(&mut self, holding: Holding, now: Duration) {
        let Holding { partition, size, client } = holding;
        self.node.give_back(size, now);
        let is_last = self.clients.give_back(client, size);
        if let Some(known) = self.partitions.get_mut(&partition) {
            known.pool.give_back(size, now);
            known.clients -= u64::from(is_last);
        }
        self.forget_if_idle(partition);
    }

    fn take(&mut self, asking: &Asking, limits: &AdmissionLimits) {
        let Asking { partition, size, client, .. } = *asking;
        self.node.take(size);
        let is_first = self.clients.take(client, size);
        let known = self.partitions.entry(partition);
        let known = known.or_insert_with(|| PartitionState::new(&limits.partition));
        known.pool.take(size);
        known.clients += u64::from(is_first);
    }

    /// Whether a client holds no more bytes of a partition than others there do, on average.
    fn is_modest(&self, partition: PartitionId, client: ClientPlace) -> bool {
        let Some(known) = self.partitions.get(&partition) else { return true };
        let (_, bytes) = known.pool.in_use();
        self.clients.held(client).bytes.saturating_mul(known.clients) <= bytes
    }

    /// Room for a large write that found none: one claim for a partition and for a client, and all of them at most half of the node.
    /// None for a client that holds much already: its next write would have the place of somebody else's first.
    fn claim(&mut self, asking: &Asking, ends: Duration, limits: &AdmissionLimits) {
        let Asking { partition, size, key, client } = *asking;
        if size.is_small()
            || self.node.claimed() + size.bytes() > limits.node.bytes / 2
            || !self.is_modest(partition, client)
        {
            return;
        }
        if let Some(claim) = self.claims.get_mut(&partition) {
            // Coming back too early does not lose the place.
            if claim.key == key {
                claim.ends = ends;
            }
            return;
        }
        if self.claims.values().any(|claim| claim.client == client.client) {
            return;
        }
        self.claims.insert(partition, Claim { key, client: client.client, size, ends });
        self.claims_end = self.claims_end.min(ends);
        let known = self.partitions.entry(partition);
        known.or_insert_with(|| PartitionState::new(&limits.partition)).pool.claim(size);
        self.node.claim(size);
    }

    /// Ends claims whose owners did not come back.
    fn end_claims(&mut self, now: Duration) {
        if self.claims_end >= now {
            return;
        }
        let ended: Vec<PartitionId> = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.ends < now)
            .map(|(partition, _)| *partition)
            .collect();
        ended.into_iter().for_each(|partition| self.end_claim(partition));
        self.claims_end = self.claims.values().map(|claim| claim.ends).min().unwrap_or(Duration::MAX);
    }

    fn end_claim(&mut self, partition: PartitionId) {
        let Some(claim) = self.claims.remove(&partition) else { return };
        self.node.end_claim(claim.size);
        if let Some(known) = self.partitions.get_mut(&partition) {
            known.pool.end_claim(claim.size);
        }
        self.forget_if_idle(partition);
    }

    fn forget_if_idle(&mut self, partition: PartitionId) {
        if self.partitions.get(&partition).is_some_and(PartitionState::is_idle) {
            self.partitions.remove(&partition);
        }
    }
}

/// Room in the engine, held until the write is answered. Dropped, it is given back.
#[derive(Debug)]
#[must_use = "dropped, it is given back"]
pub struct Permit {
    shared: Arc<Shared>,
    /// None once it was given back.
    holding: Option<Holding>,
}

/// What a write takes, and of whom.
#[derive(Clone, Copy, Debug)]
struct Holding {
    partition: PartitionId,
    size: Size,
    client: ClientPlace,
}

impl Permit {
    /// Gives all of these back together. They are of one gate.
    pub(crate) fn release_all(mut permits: Vec<Self>) {
        let Some(shared) = permits.first().map(|permit| permit.shared.clone()) else { return };
        shared.release(permits.iter_mut().filter_map(|permit| permit.holding.take()));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(holding) = self.holding.take() {
            self.shared.release([holding]);
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
