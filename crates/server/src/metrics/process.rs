//! What the system says of this process.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// When the node started, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    instant: Instant,
    time: SystemTime,
}

impl Started {
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }

    pub(super) fn uptime_seconds(&self) -> f64 {
        self.instant.elapsed().as_secs_f64()
    }

    pub(super) fn unix_seconds(&self) -> f64 {
        self.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }
}

/// Memory that the process occupies, in bytes; 0 where the system does not say.
pub(super) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    kibibytes.and_then(|kibibytes| kibibytes.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Files and sockets that are open; 0 where the system does not say.
pub(super) fn open_files() -> usize {
    // Looking opens one more.
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1))
}
