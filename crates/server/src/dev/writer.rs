//! The process that is killed: appends with several threads and reports every record once it is durable.
//!
//! It never stops by itself; it ends when it is killed, when nobody reads its reports any more, or when the log fails.
//! Its first line says at which position it begins, every other one `POSITION WRITER COUNT` of one record.
//!
//! Must not know: that it will be killed.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::Result;
use gapless_log::{AppendError, Log};

use super::demo_log::{WRITERS, append_failed, mark, open};
use super::demo_record::DemoRecord;

/// Reports that may wait for the pipe.
const QUEUE: usize = 256;

/// A record and the position it got, or why there are no more.
type Report = Result<(u64, DemoRecord), AppendError>;

/// Runs the command.
pub(crate) fn run(dir: &Path, out: &mut dyn Write) -> Result<()> {
    let (log, _) = open(dir)?;
    mark(&log).map_err(|error| append_failed(&error))?;
    let run = log.next().get();
    writeln!(out, "{run}")?;
    out.flush()?;
    thread::scope(|scope| {
        let (reports, incoming) = sync_channel(QUEUE);
        for writer in 1..=WRITERS {
            let (log, reports) = (&log, reports.clone());
            scope.spawn(move || write(log, run, writer, &reports));
        }
        drop(reports);
        // Returning drops the receiving end, and that ends the writers.
        pass_on(incoming, out)
    })
}

fn write(log: &Log, run: u64, writer: u64, reports: &SyncSender<Report>) {
    for count in 1.. {
        let record = DemoRecord { run, writer, count };
        let report = append(log, &record).map(|position| (position, record));
        let failed = report.is_err();
        if reports.send(report).is_err() || failed {
            return;
        }
    }
}

fn append(log: &Log, record: &DemoRecord) -> Result<u64, AppendError> {
    let ticket = log.append_next(&[record.encode()])?;
    let position = ticket.positions().start.get();
    ticket.wait().map(|()| position)
}

/// Writes the reports as they come.
#[expect(clippy::needless_pass_by_value, reason = "dropping it is what ends the writers")]
fn pass_on(incoming: Receiver<Report>, out: &mut dyn Write) -> Result<()> {
    while let Ok(first) = incoming.recv() {
        let waiting = std::iter::once(first).chain(incoming.try_iter());
        for report in waiting {
            let (position, record) = report.map_err(|error| append_failed(&error))?;
            writeln!(out, "{position} {} {}", record.writer, record.count)?;
        }
        out.flush()?;
    }
    Ok(())
}
