//! What an append costs the disk: bytes written per byte of payload, and syncs per frame.
//!
//! One writer appends batches of eight records, the smallest that the design's bar speaks of; more records per commit
//! share the padding of a frame and cost less.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use gapless_log::{Log, Options};
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::counting_io::CountingIo;
use crate::samples::Spread;
use crate::workload::PAYLOAD_BYTES;

const RECORDS_PER_BATCH: usize = 8;
const BYTES_PER_PAYLOAD: f64 = 1.6;

/// What the log counted, and what the disk was asked for.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct WritingCost {
    records: u64,
    payload_bytes: u64,
    frames: u64,
    /// Frames that only certify the one before, because the log was idle.
    certifying_frames: u64,
    /// On the commit path, as the log counts.
    bytes_written: u64,
    /// On the commit path, as the log counts.
    syncs: u64,
    /// With segments filled with zeros ahead of time, footers and everything else.
    all_bytes_written: u64,
    /// With those of segments and footers off the commit path.
    all_syncs: u64,
}

pub(crate) fn measure(parent: &Path, batches: usize) -> Result<WritingCost> {
    let home = tempfile::Builder::new().prefix("cost-").tempdir_in(parent)?;
    let disk = Arc::new(CountingIo::default());
    let (log, _) = Log::open(disk.clone(), home.path(), Options::replicated())?;
    log.maintain()?;
    // The segments that stand ready now were not paid for by these appends; those that replace them will be.
    let before = disk.asked();
    let mut random = fastrand::Rng::with_seed(1);
    let mut batch = [[0; PAYLOAD_BYTES]; RECORDS_PER_BATCH];
    for _ in 0..batches {
        batch.iter_mut().for_each(|payload| random.fill(payload));
        log.append_next(&batch)?.wait()?;
    }
    log.maintain()?;
    let (counted, after) = (log.statistics(), disk.asked());
    log.close()?;
    Ok(WritingCost {
        records: counted.records,
        payload_bytes: counted.payload_bytes,
        frames: counted.frames,
        certifying_frames: counted.certifying_frames,
        bytes_written: counted.bytes_written,
        syncs: counted.syncs,
        all_bytes_written: after.written_bytes - before.written_bytes,
        all_syncs: after.syncs - before.syncs,
    })
}

impl WritingCost {
    fn bytes_per_payload(&self) -> f64 {
        self.bytes_written as f64 / self.payload_bytes as f64
    }

    fn syncs_per_frame(&self) -> f64 {
        self.syncs as f64 / self.frames as f64
    }

    /// The bars that concern the cost of an append.
    pub(crate) fn bars(&self) -> Vec<Bar> {
        let measured = [
            ("8 records per commit: bytes written over payload", BYTES_PER_PAYLOAD, self.bytes_per_payload()),
            ("8 records per commit: syncs over frames", 1.0, self.syncs_per_frame()),
        ];
        let bar = |(subject, limit, value)| {
            Bar::new(subject, Unit::Ratio, Limit::AtMost(limit), Spread::exact(value))
        };
        measured.map(bar).into()
    }

    /// What no bar asks for, and what one should know beside it.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let all_bytes = self.all_bytes_written as f64 / self.payload_bytes as f64;
        let counts = format!(
            "{} frames ({} of them certifying), {} records, {} syncs",
            self.frames, self.certifying_frames, self.records, self.syncs
        );
        vec![
            ("8 records per commit: counted by the log".to_owned(), counts),
            (
                "8 records per commit: with what is filled and sealed off the commit path".to_owned(),
                format!("{all_bytes:.2} x payload written, {} syncs", self.all_syncs),
            ),
        ]
    }
}
