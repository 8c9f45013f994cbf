//! What all clients of a load share: who sends what when, and what counts.
//!
//! What counts is what was to be sent in the time that is measured, whenever its answer came: a stall at the end is seen, too.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gapless_client::{Error, random_key, v1};

use super::pace::{Due, Pace};
use super::recorder::Recorder;
use crate::cli::LoadArguments;

/// Bytes that events are cut from, so that they are not all the same.
const POOL_BYTES: usize = 1 << 20;

/// A load.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) pace: Pace,
    pub(super) recorder: Recorder,
    pub(super) began: Instant,
    /// From here to there what is sent counts.
    measured: Mutex<(Instant, Instant)>,
    namespace: String,
    pub(super) workspaces: u64,
    size: usize,
    /// Bytes without a pattern.
    pool: Bytes,
    /// What makes the keys of this run different from all others.
    run: Bytes,
}

impl Load {
    pub(super) fn new(arguments: &LoadArguments) -> Self {
        let size = usize::try_from(arguments.size).unwrap_or(POOL_BYTES);
        let pool: Vec<u8> = scattered().take(POOL_BYTES + size).collect();
        let began = Instant::now();
        let from = began + arguments.warm_up;
        Self {
            pace: Pace::new(arguments.rate),
            recorder: Recorder::new(),
            began,
            measured: Mutex::new((from, from + arguments.duration)),
            namespace: arguments.namespace.clone(),
            workspaces: arguments.workspaces,
            size,
            pool: pool.into(),
            run: random_key(),
        }
    }

    /// The event with this number, of this client.
    pub(super) fn event(&self, client: usize, number: u64) -> v1::WriteRequest {
        let place = usize::try_from(number.wrapping_mul(4099)).unwrap_or(0) % POOL_BYTES;
        v1::WriteRequest {
            namespace: self.namespace.clone(),
            workspace: 1 + number % self.workspaces,
            client_id: format!("bench-{client}"),
            idempotency_key: self.key(number),
            event_type: "Measured".to_owned(),
            payload: self.pool.slice(place..place + self.size),
            content_type: "application/octet-stream".to_owned(),
            ..Default::default()
        }
    }

    /// A key that has its number in it.
    fn key(&self, number: u64) -> Bytes {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.run[..8]);
        key[8..].copy_from_slice(&number.to_le_bytes());
        Bytes::copy_from_slice(&key)
    }

    /// The number of the event that has this key.
    pub(super) fn number(key: &[u8]) -> Option<u64> {
        key.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
    }

    pub(super) fn namespace(&self) -> String {
        self.namespace.clone()
    }

    /// Notes how something ended.
    pub(super) fn note(&self, client: usize, due: Due, events: u64, ended: Result<(), &Error>) {
        self.recorder.see(if ended.is_ok() { events } else { 0 });
        if !self.counts(due) {
            return;
        }
        match ended {
            Ok(()) => self.recorder.succeeded(client, due.at.elapsed(), events),
            Err(error) => self.recorder.failed(client, &reason(error)),
        }
    }

    fn counts(&self, due: Due) -> bool {
        let (from, to) = self.window();
        due.at >= from && due.at < to
    }

    pub(super) fn window(&self) -> (Instant, Instant) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, now if that is earlier than was planned.
    pub(super) fn end(&self) {
        let mut window = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        window.1 = window.1.min(Instant::now()).max(window.0);
        self.pace.end();
    }

    /// How long was measured.
    pub(super) fn measured_for(&self) -> Duration {
        let (from, to) = self.window();
        to.saturating_duration_since(from)
    }
}

/// Why something failed, for programs.
fn reason(error: &Error) -> String {
    match error {
        Error::Refused(refused) => {
            refused.code().as_str_name().trim_start_matches("WRITE_ERROR_CODE_").to_owned()
        }
        Error::Problem(problem) => problem.reason.to_string(),
        Error::Protocol(_) => "PROTOCOL".to_owned(),
    }
}

/// Bytes that do not repeat for long: a generator of the simplest kind, because nobody has to be surprised.
fn scattered() -> impl Iterator<Item = u8> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}
