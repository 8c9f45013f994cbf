//! How fast what is in the page cache is read again: frames by a scan, records by a reader.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use gapless_log::io::real::RealIo;
use gapless_log::{Depth, Log, Options, inspect};
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::samples::Spread;

const READ_BYTES: u64 = 1 << 20;
const SCAN_GIGABYTES_PER_SECOND: f64 = 0.5;
const READ_GIGABYTES_PER_SECOND: f64 = 1.0;

/// The way something is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// As recovery does; bytes of the files count.
    Scan,
    /// As a reader of all records does; bytes of payloads count.
    Records,
}

/// How fast it went.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reading {
    way: Way,
    what: &'static str,
    gigabytes_per_second: Spread,
}

impl Reading {
    /// Reads everything once for the page cache and then `rounds` times for the clock.
    pub(crate) fn measure(way: Way, what: &'static str, dir: &Path, rounds: usize) -> Result<Self> {
        let read = match way {
            Way::Scan => scan,
            Way::Records => read_records,
        };
        read(dir)?;
        let rates: Result<Vec<f64>> = (0..rounds).map(|_| read(dir)).collect();
        Ok(Self { way, what, gigabytes_per_second: Spread::of(rates?) })
    }

    pub(crate) fn bar(&self) -> Bar {
        let (name, limit) = match self.way {
            Way::Scan => ("scan", SCAN_GIGABYTES_PER_SECOND),
            Way::Records => ("sequential reading", READ_GIGABYTES_PER_SECOND),
        };
        let subject = format!("{name}, {}", self.what);
        Bar::new(subject, Unit::GigabytesPerSecond, Limit::AtLeast(limit), self.gigabytes_per_second)
    }
}

/// Gigabytes per second of a scan of every frame.
fn scan(dir: &Path) -> Result<f64> {
    let mut frames = 0;
    let start = Instant::now();
    let survey = inspect(&RealIo, dir, Depth::EveryFrame, &mut |_| frames += 1)?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(survey.damage.is_empty(), "the log is damaged: {:?}", survey.damage);
    ensure!(frames == survey.frames_scanned, "{frames} of {} frames were seen", survey.frames_scanned);
    // What the frames take, however often the scan read it.
    let bytes: u64 = survey.segments.iter().map(|segment| u64::from(segment.end_offset)).sum();
    Ok(bytes as f64 / 1e9 / seconds)
}

/// Gigabytes per second of payload when all records are read in order.
fn read_records(dir: &Path) -> Result<f64> {
    // Nothing comes from memory: a log that was just opened has no hot tail, and this one never gets one.
    let (log, report) = Log::open(Arc::new(RealIo), dir, Options { hot_bytes: 0, ..Options::replicated() })?;
    let (mut from, end) = (report.first, report.next);
    let mut bytes = 0;
    let start = Instant::now();
    while from < end {
        let records = log.read_range(from, end, READ_BYTES)?;
        bytes += records.iter().map(|record| record.payload.len()).sum::<usize>();
        let last = records.last().and_then(|record| record.position.next());
        ensure!(last > Some(from), "a reader stands still at {from:?}");
        from = last.unwrap_or(end);
    }
    let seconds = start.elapsed().as_secs_f64();
    log.close()?;
    Ok(bytes as f64 / 1e9 / seconds)
}
