//! A log of many segments on disk, and what opening it reads.
//!
//! The active segment is left in the worst place for opening: almost half full, where no footer covers any of it yet.
//! Everything in it has to be scanned.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use gapless_log::io::real::RealIo;
use gapless_log::{Depth, Drive, Log, Options, SyncPolicy, inspect};
use gapless_types::limits::SEGMENT_BYTES;
use serde::Serialize;
use tempfile::TempDir;

use crate::bars::{Bar, Limit, Unit};
use crate::counting_io::{Asked, CountingIo};
use crate::samples::Spread;

const BATCH_BYTES: usize = 1 << 20;
const SHARE_READ_PERCENT: f64 = 5.0;

/// A log that nobody has open. Its files go when it does.
#[derive(Debug)]
pub(crate) struct LargeLog(TempDir);

/// How a log was left before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Left {
    /// As after a crash: without the footer that closing writes.
    Unclean,
    Closed,
}

/// What opening took.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Opening {
    left: Left,
    /// Bytes of all segments up to the end of their frames.
    log_bytes: u64,
    /// As the log itself reports.
    reported_bytes: u64,
    /// As the files were asked.
    read_bytes: u64,
    /// Blocks of the files that were touched at all.
    touched_bytes: u64,
    milliseconds: Spread,
}

impl LargeLog {
    /// Appends at least `payload_bytes` in batches of 1 MiB, and leaves the log as a crash would.
    pub(crate) fn build(parent: &Path, record_bytes: usize, payload_bytes: u64) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("large-").tempdir_in(parent)?;
        let (log, _) = Log::open(Arc::new(RealIo), home.path(), Options::replicated())?;
        let mut random = fastrand::Rng::with_seed(2);
        let mut batch = vec![vec![0; record_bytes]; BATCH_BYTES / record_bytes];
        let mut append = || -> Result<()> {
            batch.iter_mut().for_each(|payload| random.fill(payload));
            log.append_next(&batch)?.wait()?;
            Ok(())
        };
        while log.statistics().payload_bytes < payload_bytes {
            append()?;
        }
        let full = log.statistics().segments;
        while log.statistics().segments == full {
            append()?;
        }
        // The full segment gets its footer now, so that every run leaves the same files.
        log.maintain()?;
        let begun = log.statistics().bytes_written;
        let almost_half = u64::from(SEGMENT_BYTES / 2) - 4 * BATCH_BYTES as u64;
        while log.statistics().bytes_written - begun < almost_half {
            append()?;
        }
        drop(log);
        Ok(Self(home))
    }

    /// One segment of frames with one record each, as a single writer leaves it.
    pub(crate) fn of_small_frames(parent: &Path, record_bytes: usize) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("small-").tempdir_in(parent)?;
        // Not synced frame by frame: only what is in the files matters here.
        let options = Options { sync: SyncPolicy::OnRequest, drive: Drive::Caller, ..Options::replicated() };
        let (log, _) = Log::open(Arc::new(RealIo), home.path(), options)?;
        let mut random = fastrand::Rng::with_seed(3);
        let mut payload = vec![0; record_bytes];
        while log.statistics().bytes_written < u64::from(SEGMENT_BYTES / 4 * 3) {
            random.fill(&mut payload);
            let _durable_later = log.append_next(&[&payload])?;
            log.flush()?;
        }
        log.sync()?;
        Ok(Self(home))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Opens the log as it was left, once to count and then `rounds` times to take the time.
    pub(crate) fn measure_opening(&self, left: Left, rounds: usize) -> Result<Opening> {
        if left == Left::Closed {
            let (log, _) = Log::open(Arc::new(RealIo), self.path(), Options::replicated())?;
            log.close()?;
        }
        let survey = inspect(&RealIo, self.path(), Depth::Opening, &mut |_| {})?;
        let log_bytes = survey.segments.iter().map(|segment| u64::from(segment.end_offset)).sum();
        let disk = Arc::new(CountingIo::default());
        let (log, report) = Log::open(disk.clone(), self.path(), Options::replicated())?;
        let Asked { read_bytes, touched_bytes, .. } = disk.asked();
        leave(log, left)?;
        let mut milliseconds = Vec::new();
        for _ in 0..rounds {
            let start = Instant::now();
            let (log, _) = Log::open(Arc::new(RealIo), self.path(), Options::replicated())?;
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
            leave(log, left)?;
        }
        let reported_bytes = report.bytes_read;
        let milliseconds = Spread::of(milliseconds);
        Ok(Opening { left, log_bytes, reported_bytes, read_bytes, touched_bytes, milliseconds })
    }
}

fn leave(log: Log, left: Left) -> Result<()> {
    match left {
        Left::Unclean => drop(log),
        Left::Closed => log.close()?,
    }
    Ok(())
}

impl Opening {
    /// The bar on what opening reads, as the files see it: that is a little more than the log reports.
    pub(crate) fn bar(&self) -> Bar {
        let share = Spread::exact(100.0 * self.read_bytes as f64 / self.log_bytes as f64);
        let subject = format!("opening 1 GiB, {}: bytes read", self.name());
        Bar::new(subject, Unit::Percent, Limit::AtMost(SHARE_READ_PERCENT), share)
    }

    /// What no bar asks for.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let Spread { median, lowest, highest } = self.milliseconds;
        let figures = format!(
            "{median:.1} ms ({lowest:.1} to {highest:.1}); of {:.0} MiB {:.1} read ({:.1} reported), blocks of {:.1} touched",
            mebibytes(self.log_bytes),
            mebibytes(self.read_bytes),
            mebibytes(self.reported_bytes),
            mebibytes(self.touched_bytes),
        );
        vec![(format!("opening 1 GiB, {}", self.name()), figures)]
    }

    fn name(&self) -> &'static str {
        match self.left {
            Left::Unclean => "left unclean",
            Left::Closed => "closed",
        }
    }
}
