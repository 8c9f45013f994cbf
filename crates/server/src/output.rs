//! What output looks like: tables, numbers, ranges, and emphasis where a terminal shows it.
//!
//! Must not know: what the numbers mean.

use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use gapless_types::Position;
use serde::Serialize;

pub(crate) use indicatif::{HumanBytes as Bytes, HumanCount as Count};

/// Columns of a screen that does not say how many it has.
const DEFAULT_COLUMNS: usize = 100;

/// Home, and everything below it cleared: the next frame takes the place of the one before on a terminal.
pub(crate) const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// On which side the cells of a column line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table without lines.
pub(crate) fn table<const N: usize>(columns: [(&str, Side); N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns.map(|(name, _)| name));
    for (column, (_, side)) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2)).set_cell_alignment(match side {
            Side::Left => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        });
    }
    table
}

/// Writes a table, indented by two.
pub(crate) fn write_table(out: &mut dyn Write, table: &Table) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "  {}", line.trim_end()))
}

/// Writes a value as JSON that people can read as well.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Writes a value as one line of JSON.
pub(crate) fn write_json_line(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Numbers from the first to the last one of a half-open range: `7`, `7-9`, or `-` if there is none.
pub(crate) struct Span(pub(crate) Range<u64>);

impl Span {
    pub(crate) fn of(range: &Range<Position>) -> Self {
        Self(range.start.get()..range.end.get())
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.end.saturating_sub(self.0.start) {
            0 => f.pad("-"),
            1 => f.pad(&self.0.start.to_string()),
            _ => f.pad(&format!("{}-{}", self.0.start, self.0.end - 1)),
        }
    }
}

/// Several ranges, separated by commas.
pub(crate) fn spans(ranges: &[Range<Position>]) -> String {
    ranges.iter().map(|range| Span::of(range).to_string()).collect::<Vec<_>>().join(", ")
}

/// Several ranges with the noun in front of them: `position 7`, `positions 7-9, 12`.
pub(crate) fn positions(ranges: &[Range<Position>]) -> String {
    let count: u64 = ranges.iter().map(|range| range.end.get().saturating_sub(range.start.get())).sum();
    format!("position{} {}", plural(count), spans(ranges))
}

/// A range with the noun in front of it: `frame 7`, `frames 7-9`.
pub(crate) fn numbered(noun: &str, range: Range<u64>) -> String {
    let count = range.end.saturating_sub(range.start);
    format!("{noun}{} {}", plural(count), Span(range))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// How many there are, with the noun in the right number.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", Count(count), plural(count))
}

/// A duration with a unit that suits it.
pub(crate) fn time(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1e3;
    match milliseconds {
        ..0.01 => format!("{:.1} µs", milliseconds * 1e3),
        ..1.0 => format!("{:.0} µs", milliseconds * 1e3),
        ..10.0 => format!("{milliseconds:.1} ms"),
        ..1000.0 => format!("{milliseconds:.0} ms"),
        _ => format!("{:.1} s", milliseconds / 1e3),
    }
}

/// Bytes per second.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, and a rate is rounded anyway"
)]
pub(crate) fn rate(bytes: u64, duration: Duration) -> String {
    let per_second = bytes as f64 / duration.as_secs_f64().max(1e-9);
    format!("{}/s", Bytes(per_second as u64))
}

/// Columns of the screen.
pub(crate) fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    told.filter(|&columns| columns >= 40).unwrap_or(DEFAULT_COLUMNS)
}

/// A heading: bold on a terminal, plain elsewhere and for those who set `NO_COLOR`.
pub(crate) fn heading(text: &str) -> String {
    let plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|no| !no.is_empty());
    if plain { text.to_owned() } else { format!("\u{1b}[1m{text}\u{1b}[0m") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_names_its_first_and_its_last_number() {
        assert_eq!(Span(3..3).to_string(), "-");
        assert_eq!(Span(3..4).to_string(), "3");
        assert_eq!(Span(3..6).to_string(), "3-5");
        assert_eq!(format!("{:>6}|", Span(3..6)), "   3-5|");
    }

    #[test]
    fn a_noun_follows_its_count() {
        assert_eq!(numbered("frame", 7..8), "frame 7");
        assert_eq!(numbered("frame", 7..10), "frames 7-9");
        let at = |first, next| Position::new(first)..Position::new(next);
        assert_eq!(positions(&[at(7, 8)]), "position 7");
        assert_eq!(positions(&[at(7, 8), at(10, 12)]), "positions 7, 10-11");
        assert_eq!(counted(1, "segment"), "1 segment");
        assert_eq!(counted(0, "segment"), "0 segments");
        assert_eq!(counted(12_345, "frame"), "12,345 frames");
    }

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        let shown = [3, 250, 1500, 12_345, 2_500_000].map(|us| time(Duration::from_micros(us)));
        assert_eq!(shown, ["3.0 µs", "250 µs", "1.5 ms", "12 ms", "2.5 s"]);
    }
}
