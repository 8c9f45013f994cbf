//! What a log can be told when it is opened, and the two uses it is made for.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gapless_types::Position;
use gapless_types::limits::{
    MAX_FRAME_BYTES, MAX_QUEUED_BYTES, MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES, SEGMENT_BYTES,
};

use crate::damage::Damage;
use crate::format::{Layout, LogId};

/// When frames are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// After each frame: what a ticket says is on stable storage.
    EveryFrame,
    /// When [`Log::sync`](crate::Log::sync) is called; tickets wait for it.
    OnRequest,
}

/// Who does the writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// A writer thread and a maintenance thread of the log's own.
    Threads,
    /// Whoever calls [`Log::flush`](crate::Log::flush), [`Log::sync`](crate::Log::sync),
    /// [`Log::maintain`](crate::Log::maintain) or waits for a ticket. Nothing happens by itself, so that a test or a
    /// simulation decides every step.
    Caller,
}

/// What happens to appends while the log has damage that nobody repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagePolicy {
    /// They are refused: the log is read-only until repaired.
    ReadOnly,
    /// They go on; whoever owns the log decides who may write.
    KeepAppending,
}

/// Time as the log sees it: latencies of syncs, and how long the log has been idle.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since some fixed moment; never falls.
    fn now(&self) -> Duration;

    /// How long a write takes where nobody waits for a disk. Only a simulation has something to say here: whoever drives a log
    /// without threads waits for so long before it writes.
    fn write_takes(&self) -> Duration {
        Duration::ZERO
    }
}

/// The clock of the machine.
#[derive(Debug)]
pub struct MonotonicClock(Instant);

impl Default for MonotonicClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Called with every damage that is found after the log was opened, on the thread that found it.
pub type Alarm = Arc<dyn Fn(&Damage) + Send + Sync>;

/// How a log behaves. Start from [`Options::replicated`] or [`Options::partition`].
#[derive(Clone)]
pub struct Options {
    /// How frames lie in segments that are created from now on.
    pub layout: Layout,
    /// When frames are synced.
    pub sync: SyncPolicy,
    /// Who does the writing.
    pub drive: Drive,
    /// Length of the first segment in bytes.
    pub first_segment_bytes: u32,
    /// Segments double in length up to this.
    pub segment_bytes: u32,
    /// Longest body of a frame, and so the largest batch.
    pub max_frame_bytes: u32,
    /// Bytes that may wait for the writer; more are refused.
    pub max_queued_bytes: u64,
    /// Bytes of the newest records kept in memory for readers.
    pub hot_bytes: u64,
    /// Indexes of sealed segments kept in memory.
    pub cached_indexes: usize,
    /// Payloads of at least this many bytes are compressed, where that makes them smaller.
    pub compress_from: Option<u32>,
    /// Position of the first record of a new log.
    pub first_position: Position,
    /// An idle log certifies its last frame after this long (threads only).
    pub certify_after: Duration,
    /// Bytes per second that the background scrub reads (threads only); 0 turns it off.
    pub scrub_bytes_per_second: u64,
    /// What happens to appends while there is damage.
    pub damage: DamagePolicy,
    /// Open although segments are missing or short, and record the loss. An operator's word, never a default.
    pub accept_loss: bool,
    /// Id of a new log; random if not given.
    pub log_id: Option<LogId>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Told of damage found while running.
    pub alarm: Option<Alarm>,
}

impl Options {
    /// For the log whose sync stands in front of every acknowledgement.
    pub fn replicated() -> Self {
        Self {
            layout: Layout::Aligned,
            sync: SyncPolicy::EveryFrame,
            drive: Drive::Threads,
            first_segment_bytes: SEGMENT_BYTES,
            segment_bytes: SEGMENT_BYTES,
            max_frame_bytes: MAX_FRAME_BYTES,
            max_queued_bytes: MAX_QUEUED_BYTES,
            hot_bytes: 8 << 20,
            cached_indexes: 16,
            compress_from: None,
            first_position: Position::FIRST,
            certify_after: Duration::from_millis(5),
            scrub_bytes_per_second: 16 << 20,
            damage: DamagePolicy::ReadOnly,
            accept_loss: false,
            log_id: None,
            clock: Arc::new(MonotonicClock::default()),
            alarm: None,
        }
    }

    /// For the many logs that are synced in the background: packed, small and growing, without threads of their own.
    pub fn partition() -> Self {
        Self {
            layout: Layout::Packed,
            sync: SyncPolicy::OnRequest,
            drive: Drive::Caller,
            first_segment_bytes: 1 << 20,
            segment_bytes: 32 << 20,
            hot_bytes: 256 << 10,
            cached_indexes: 4,
            ..Self::replicated()
        }
    }

    /// Brings every value into the limits.
    pub(crate) fn within_limits(mut self) -> Self {
        let block = |bytes: u32| bytes.clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES).next_multiple_of(4096);
        self.segment_bytes = block(self.segment_bytes);
        self.first_segment_bytes = block(self.first_segment_bytes).min(self.segment_bytes);
        self.max_frame_bytes = self.max_frame_bytes.clamp(4096, MAX_FRAME_BYTES);
        self.cached_indexes = self.cached_indexes.max(1);
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("layout", &self.layout)
            .field("sync", &self.sync)
            .field("drive", &self.drive)
            .field("segment_bytes", &self.segment_bytes)
            .finish_non_exhaustive()
    }
}
