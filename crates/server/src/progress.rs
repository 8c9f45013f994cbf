//! How far something is: a bar with rate and time left where stderr is a terminal, a plain line now and then elsewhere.
//!
//! Must not know: what is being done.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Bytes;
use crate::refusal::note;

/// A plain line is written each time so many percent are done.
const STEP: u64 = 10;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes.
    Bytes,
    /// Outcomes.
    Outcomes,
    /// Whatever the step is about.
    Items,
}

/// How far something is.
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: bool,
    unit: Unit,
    what: String,
    told: u64,
}

impl Progress {
    pub(crate) fn new(unit: Unit) -> Self {
        let template = match unit {
            Unit::Bytes => "{msg:10} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            Unit::Outcomes => "{msg:10} {bar:40} {human_pos}/{human_len} outcomes {per_sec} {eta}",
            Unit::Items => "{msg:24} {bar:40} {human_pos}/{human_len} {per_sec} {eta}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let plain = !std::io::stderr().is_terminal();
        Self { bar: ProgressBar::new(0).with_style(style), plain, unit, what: String::new(), told: 0 }
    }

    /// So much of so much is done of this.
    pub(crate) fn show(&mut self, what: &str, done: u64, of: u64) {
        if what != self.what {
            (self.what, self.told) = (what.to_owned(), 0);
            self.bar.reset();
            self.bar.set_message(what.to_owned());
        }
        self.bar.set_length(of);
        self.bar.set_position(done.min(of));
        let percent = done.saturating_mul(100) / of.max(1);
        if self.plain && percent >= self.told + STEP {
            self.told = percent / STEP * STEP;
            match self.unit {
                Unit::Bytes => note(format_args!("{what} {} % of {}", self.told, Bytes(of))),
                Unit::Outcomes => note(format_args!("{what} {} % of {of} outcomes", self.told)),
                Unit::Items => note(format_args!("{what} {} % of {of}", self.told)),
            }
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
