//! What a sequencer is told when it is made.

use std::sync::Arc;
use std::time::Duration;

use gapless_types::{SequenceId, WorkspaceKind};

use crate::budget::CacheBudget;
use crate::error::ParamsError;
use crate::time::{Clock, MonotonicClock};

/// A sequence of a workspace kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceParams {
    /// Which one.
    pub sequence: SequenceId,
    /// The first number it issues, at least 1. Smaller numbers in the log or the store do not move it.
    pub initial_number: u64,
}

/// How a sequencer behaves. Start from [`Params::new`].
#[derive(Clone, Debug)]
pub struct Params {
    /// The sequences of each workspace kind, up to 65 535 each.
    pub kinds: Vec<(WorkspaceKind, Vec<SequenceParams>)>,
    /// Values that may wait for the storage; with more, no transaction starts.
    pub max_unflushed: usize,
    /// Offsets that the stored one may be behind; with more, no transaction starts. It bounds the tail that the next
    /// start has to read, also when one busy workspace changes the same few values over and over.
    pub max_lag: u64,
    /// Memory for the cache, counted in entries (a number of one sequence of one workspace); one budget may be shared by
    /// many sequencers.
    pub cache: Arc<CacheBudget>,
    /// Longest time that something changed waits for more before it is written. What is a quarter of the way to a limit
    /// does not wait.
    pub flush_delay: Duration,
    /// How long actualization rests before it looks again whether a full unflushed set has room.
    pub full_delay: Duration,
    /// Longest time between two tries of a storage call that fails; it is approached by doubling, with jitter.
    pub retry_delay: Duration,
    /// How long `close` waits for a storage call that does not return.
    pub close_timeout: Duration,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where jitter and the hashing of ids begin. The same seed gives the same delays. Where strangers choose workspace
    /// ids, give a random one.
    pub seed: u64,
}

impl Params {
    /// Default of `max_unflushed`.
    pub const MAX_UNFLUSHED: usize = 500;
    /// Default of `max_lag`: a tail that is read in tens of milliseconds, and half a second of the fastest writer that
    /// waits for a disk.
    pub const MAX_LAG: u64 = 100_000;
    /// Default size of the cache.
    pub const CACHE_ENTRIES: usize = 100_000;

    /// Defaults, and no kinds yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kinds: Vec::new(),
            max_unflushed: Self::MAX_UNFLUSHED,
            max_lag: Self::MAX_LAG,
            cache: Arc::new(CacheBudget::new(Self::CACHE_ENTRIES)),
            flush_delay: Duration::from_millis(1),
            full_delay: Duration::from_millis(5),
            retry_delay: Duration::from_millis(500),
            close_timeout: Duration::from_secs(5),
            clock: Arc::new(MonotonicClock::default()),
            seed: 0,
        }
    }

    /// The same with a kind more: its sequences and their initial numbers.
    #[must_use]
    pub fn with_kind(
        mut self,
        kind: WorkspaceKind,
        sequences: impl IntoIterator<Item = (SequenceId, u64)>,
    ) -> Self {
        let sequences = sequences
            .into_iter()
            .map(|(sequence, initial_number)| SequenceParams { sequence, initial_number })
            .collect();
        self.kinds.push((kind, sequences));
        self
    }

    /// The same with a cache of its own of this many entries.
    #[must_use]
    pub fn with_cache_entries(mut self, entries: usize) -> Self {
        self.cache = Arc::new(CacheBudget::new(entries));
        self
    }

    pub(crate) fn check_limits(&self) -> Result<(), ParamsError> {
        self.cache.check()?;
        if self.max_unflushed == 0 {
            return Err(ParamsError::LimitIsZero { limit: "max_unflushed" });
        }
        if self.max_lag == 0 {
            return Err(ParamsError::LimitIsZero { limit: "max_lag" });
        }
        Ok(())
    }
}

impl Default for Params {
    fn default() -> Self {
        Self::new()
    }
}
