//! `gapless verify`: a node, a directory of backups, or one partition, computed anew from its log.
//!
//! Must not know: how outcomes and rows are computed; that is the partition's own business.

mod whole;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use gapless_log::io::Io;
use gapless_log::io::real::RealIo;
use gapless_partition::{Difference, Phase, Place, Scratch, StoreCheck, Verified, VerifyError};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::{DumpForm, VerifyArguments};
use crate::log_command::trouble::{explained, no_log, shell_word};
use crate::output::{counted, time, write_json};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(arguments: &VerifyArguments, out: &mut dyn Write) -> Result<()> {
    let dir = &arguments.dir;
    let io: Arc<dyn Io> = Arc::new(RealIo);
    let scratch_dir = scratch_dir(arguments.scratch.as_deref())?;
    let scratch = Scratch { io: io.clone(), dir: scratch_dir.path().to_path_buf() };
    if let Some(answered) = whole::run(arguments, &io, &scratch, out) {
        return answered;
    }
    let bar = Bar::new();
    let began = Instant::now();
    let verified = gapless_partition::verify(&io, dir, &scratch, &mut |phase| bar.show(phase));
    bar.0.finish_and_clear();
    let verified = verified.map_err(|error| not_verified(&error, dir))?;
    let result = Answer { dir, verified: &verified, took: began.elapsed() };
    match arguments.output {
        DumpForm::Json => write_json(out, &result.report())?,
        DumpForm::Table => result.write(out)?,
        DumpForm::Raw => writeln!(out, "{}", word(verified.is_sound()))?,
    }
    result.verdict()
}

/// What was found, in a word.
fn word(is_sound: bool) -> &'static str {
    if is_sound { "sound" } else { "damaged" }
}

/// A directory for what is computed; removed when this is dropped.
pub(crate) fn scratch_dir(place: Option<&Path>) -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("gapless-verify-");
    let place = place.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let made = builder.tempdir_in(&place).map_err(|error| {
        Refusal::new(
            format!("no scratch directory can be made in {}: {error}", place.display()),
            "name another one: --scratch OTHER",
        )
    })?;
    Ok(made)
}

/// The bar that shows how far it is, on stderr, and only if that is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} {msg} {eta}");
        Self(ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    fn show(&self, phase: Phase) {
        match phase {
            Phase::Outcomes { done, of } => {
                self.0.set_length(of);
                self.0.set_position(done);
                self.0.set_message("outcomes");
            }
            Phase::Rows { done } => self.0.set_message(format!("outcomes, {}", counted(done, "row"))),
        }
    }
}

/// Everything that was found.
struct Answer<'a> {
    dir: &'a Path,
    verified: &'a Verified,
    took: Duration,
}

impl Answer<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Verified { outcomes, events, log_damage, store, first_difference } = self.verified;
        writeln!(out, "partition  {}", self.dir.display())?;
        writeln!(
            out,
            "log        {}, {} among them",
            counted(*outcomes, "outcome"),
            counted(*events, "event")
        )?;
        writeln!(out, "store      {}", store_line(store))?;
        writeln!(out, "computed   in {}", time(self.took))?;
        for damage in log_damage {
            writeln!(out, "damage     {} in segment {}", damage.finding, damage.segment)?;
        }
        if let Some(difference) = first_difference {
            writeln!(out, "\nThe first that differs:\n  {difference}")?;
        }
        writeln!(out, "\n{}", if self.verified.is_sound() { "Sound." } else { "Not sound." })
    }

    /// Bad news if somebody must act.
    fn verdict(&self) -> Result<()> {
        if self.verified.is_sound() {
            return Ok(());
        }
        let problem = match (&self.verified.first_difference, &self.verified.store) {
            (Some(difference), _) => difference.to_string(),
            (None, StoreCheck::Unreadable(reason)) => format!("the store cannot be read: {reason}"),
            (None, _) => "the files of the log are damaged".to_owned(),
        };
        Err(Refusal::new(problem, self.next()).into())
    }

    fn next(&self) -> String {
        let in_log = match &self.verified.first_difference {
            Some(difference) => difference.place == Place::Log,
            None => !matches!(self.verified.store, StoreCheck::Unreadable(_)),
        };
        let log = shell_word(&self.dir.join("log"));
        if in_log {
            return format!(
                "see what `gapless log verify {log}` says; then restore the partition from another node or a backup"
            );
        }
        let store = shell_word(&self.dir.join("store"));
        format!(
            "if you trust the log, remove {store}: it is made anew from the log at the next start; if not, compare the log with \
             that of another node first"
        )
    }

    fn report(&self) -> Report<'_> {
        let verified = self.verified;
        let (checkpoint, rows, differing_rows) = match verified.store {
            StoreCheck::Compared { checkpoint, rows, differing } => (Some(checkpoint.get()), rows, differing),
            StoreCheck::Empty | StoreCheck::NotReached | StoreCheck::Unreadable(_) => (None, 0, 0),
        };
        Report {
            directory: self.dir.display().to_string(),
            sound: verified.is_sound(),
            outcomes: verified.outcomes,
            events: verified.events,
            store: match &verified.store {
                StoreCheck::Empty => "empty",
                StoreCheck::Compared { .. } => "compared",
                StoreCheck::NotReached => "not_reached",
                StoreCheck::Unreadable(_) => "unreadable",
            },
            checkpoint,
            rows,
            differing_rows,
            damaged_places: verified.log_damage.len(),
            seconds: self.took.as_secs_f64(),
            first_difference: verified.first_difference.as_ref().map(DifferenceView::of),
        }
    }
}

fn store_line(store: &StoreCheck) -> String {
    match store {
        StoreCheck::Empty => "no checkpoint, nothing to compare".to_owned(),
        StoreCheck::Compared { checkpoint, rows, differing: 0 } => {
            format!("{} as of outcome {checkpoint}, all as they should be", counted(*rows, "row"))
        }
        StoreCheck::Compared { checkpoint, rows, differing } => {
            format!(
                "{} as of outcome {checkpoint}, {} wrong",
                counted(*rows, "row"),
                counted(*differing, "row")
            )
        }
        StoreCheck::NotReached => "not compared: the log differs in front of its checkpoint".to_owned(),
        StoreCheck::Unreadable(reason) => format!("cannot be read: {reason}"),
    }
}

/// Why nothing could be verified.
fn not_verified(error: &VerifyError, dir: &Path) -> anyhow::Error {
    let next = match error {
        VerifyError::Log(error) => return explained(error, &dir.join("log")),
        VerifyError::NoLog => return no_log(&dir.join("log")).into(),
        VerifyError::Store(_) => "check that nobody else uses the directory, and the disk; then run it again",
        VerifyError::Released(_) => "verify a copy that was never cut",
        VerifyError::LogTooShort { .. } => {
            "files of the log are gone: put them back from another node or a backup"
        }
        VerifyError::Scratch(_) | VerifyError::Fault(_) => {
            "check the disk and its free space, or name another place with --scratch; then run it again"
        }
    };
    let reason = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    Refusal::new(format!("{error}{reason}"), next).into()
}

/// The whole answer as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    directory: String,
    sound: bool,
    outcomes: u64,
    events: u64,
    store: &'static str,
    checkpoint: Option<u64>,
    rows: u64,
    differing_rows: u64,
    damaged_places: usize,
    seconds: f64,
    first_difference: Option<DifferenceView<'a>>,
}

#[derive(Debug, Serialize)]
struct DifferenceView<'a> {
    outcome: u64,
    place: &'static str,
    what: &'a str,
    byte: Option<usize>,
}

impl<'a> DifferenceView<'a> {
    fn of(difference: &'a Difference) -> Self {
        Self {
            outcome: difference.offset.get(),
            place: match difference.place {
                Place::Log => "log",
                Place::Store => "store",
            },
            what: &difference.what,
            byte: difference.byte,
        }
    }
}
