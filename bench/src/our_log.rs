//! Our side of the append benchmarks: threads that append one record each and wait for their ticket.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use gapless_log::io::real::RealIo;
use gapless_log::{Log, Options};

use crate::workload::{Run, Shape};

/// Appends to a fresh log that is opened as the replicated log of a node is.
pub(crate) fn measure(parent: &Path, shape: Shape) -> Result<Run> {
    let home = tempfile::Builder::new().prefix("log-").tempdir_in(parent)?;
    let (log, _) = Log::open(Arc::new(RealIo), home.path(), Options::replicated())?;
    // The next segment is ready, as it is in a log that has been running for a while; rivals get the same favour.
    log.maintain()?;
    let run = shape.run(|| {
        let log = &log;
        move |payload: &[u8]| Ok(log.append_next(&[payload])?.wait()?)
    })?;
    log.close()?;
    Ok(run)
}
