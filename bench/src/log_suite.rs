//! The benchmarks of the log, in order: appends in rounds, what they cost the disk, and reading a large log again.

use std::fs;
use std::io::{self, Write};

use anyhow::{Context, Result};

use crate::appending;
use crate::cli::LogArguments;
use crate::large_log::{LargeLog, Left};
use crate::machine::Machine;
use crate::reading::{Reading, Way};
use crate::report::Report;
use crate::rival::Rivals;
use crate::workload::{PAYLOAD_BYTES, Shape};
use crate::writing_cost;

/// The log whose opening the design speaks of.
const LARGE_LOG_BYTES: u64 = 1 << 30;
const LARGE_RECORD_BYTES: usize = 16 << 10;

/// How much is measured. Appends of one run stay within what is prepared when it begins.
struct Effort {
    shapes: [Shape; 3],
    append_rounds: usize,
    batches: usize,
    large_record_log_bytes: u64,
    read_rounds: usize,
}

impl Effort {
    fn of(quick: bool) -> Self {
        let shapes = |appends: [usize; 3]| {
            [(1, appends[0]), (16, appends[1]), (64, appends[2])]
                .map(|(writers, appends)| Shape { writers, appends })
        };
        if quick {
            return Self {
                shapes: shapes([2_000, 16_000, 20_000]),
                append_rounds: 3,
                batches: 2_000,
                large_record_log_bytes: 128 << 20,
                read_rounds: 3,
            };
        }
        Self {
            shapes: shapes([8_000, 32_000, 40_000]),
            append_rounds: 9,
            batches: 16_000,
            large_record_log_bytes: 512 << 20,
            read_rounds: 7,
        }
    }
}

pub(crate) fn run(arguments: &LogArguments) -> Result<()> {
    let rivals = Rivals::new(&arguments.rivals)?;
    let dir = arguments.report.directory();
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let machine = Machine::of(&dir)?;
    let effort = Effort::of(arguments.report.is_quick());

    let rounds = effort.append_rounds;
    let on_round = |number| say(&format!("appends, round {} of {rounds}", number + 1));
    let appends = appending::measure(&dir, &rivals, &effort.shapes, rounds, on_round)?;

    say("what appends cost the disk")?;
    let writing_cost = writing_cost::measure(&dir, effort.batches)?;

    say("opening, scanning and reading a log of 1 GiB")?;
    let rounds = effort.read_rounds;
    let large = LargeLog::build(&dir, PAYLOAD_BYTES, LARGE_LOG_BYTES)?;
    let unclean = large.measure_opening(Left::Unclean, rounds)?;
    let scan = Reading::measure(Way::Scan, "frames of 1 MiB", large.path(), rounds)?;
    let closed = large.measure_opening(Left::Closed, rounds)?;
    let small_records = Reading::measure(Way::Records, "records of 1 KiB", large.path(), rounds)?;
    drop(large);

    say("scanning small frames, reading large records")?;
    let small_frames = LargeLog::of_small_frames(&dir, PAYLOAD_BYTES)?;
    let small_scan = Reading::measure(Way::Scan, "frames of 4 KiB", small_frames.path(), rounds)?;
    drop(small_frames);
    let large = LargeLog::build(&dir, LARGE_RECORD_BYTES, effort.large_record_log_bytes)?;
    let large_records = Reading::measure(Way::Records, "records of 16 KiB", large.path(), rounds)?;
    drop(large);

    let readings = vec![scan, small_scan, small_records, large_records];
    let report = Report::new(
        machine,
        arguments.report.is_quick(),
        appends,
        writing_cost,
        vec![unclean, closed],
        readings,
    );
    let json = arguments.report.json("log");
    report.write_json(&json)?;
    let mut output = io::stdout().lock();
    report.write_tables(&mut output)?;
    writeln!(output, "All figures: {}", json.display())?;
    Ok(())
}

/// Progress goes where it does not get between the results.
fn say(what: &str) -> Result<()> {
    writeln!(io::stderr().lock(), "{what} ...")?;
    Ok(())
}
