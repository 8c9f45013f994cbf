//! The figures for people, as tables that can be pasted into a text, and for programs, as JSON.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use crate::appending::{self, Appends, Round};
use crate::bars::{Bar, Unit, Verdict};
use crate::large_log::Opening;
use crate::machine::Machine;
use crate::reading::Reading;
use crate::rival;
use crate::samples::Spread;
use crate::writing_cost::WritingCost;

/// Everything that one run of the log's suite measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    quick: bool,
    appends: Vec<Appends>,
    writing_cost: WritingCost,
    openings: Vec<Opening>,
    readings: Vec<Reading>,
    bars: Vec<Bar>,
}

impl Report {
    pub(crate) fn new(
        machine: Machine,
        quick: bool,
        appends: Vec<Appends>,
        writing_cost: WritingCost,
        openings: Vec<Opening>,
        readings: Vec<Reading>,
    ) -> Self {
        let mut bars = appending::bars(&appends);
        bars.extend(writing_cost.bars());
        bars.extend(openings.iter().map(Opening::bar));
        bars.extend(readings.iter().map(Reading::bar));
        Self { machine, quick, appends, writing_cost, openings, readings, bars }
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        write_json(self, path)
    }

    pub(crate) fn write_tables(&self, output: &mut impl Write) -> Result<()> {
        writeln!(output, "{}\n", self.machine.line())?;
        writeln!(output, "Appends of 1 KiB, each durable before the next: medians over rounds\n")?;
        writeln!(output, "{}\n", self.appends_table())?;
        writeln!(output, "Ratios within a round: median (lowest to highest)\n")?;
        writeln!(output, "{}\n", self.ratios_table())?;
        writeln!(output, "Beside the bars\n")?;
        writeln!(output, "{}\n", self.notes_table())?;
        write_bars(&self.bars, output)
    }

    fn appends_table(&self) -> Table {
        let mut table = table(["writers", "who", "p50 us", "p99 us", "appends/s", "lowest", "highest"]);
        for appends in &self.appends {
            type Pick = fn(&Round) -> crate::workload::Run;
            let who: [(&str, Pick); 3] = [
                ("raw loop, 1 thread", |round| round.raw),
                ("gapless", |round| round.ours),
                (rival::NAME, |round| round.rival),
            ];
            for (name, run) in who {
                let rate = appends.spread(|round| run(round).per_second);
                table.add_row([
                    appends.shape.writers.to_string(),
                    name.to_owned(),
                    format!("{:.0}", appends.spread(|round| run(round).p50_us).median),
                    format!("{:.0}", appends.spread(|round| run(round).p99_us).median),
                    format!("{:.0}", rate.median),
                    format!("{:.0}", rate.lowest),
                    format!("{:.0}", rate.highest),
                ]);
            }
        }
        right_aligned(table, [0, 2, 3, 4, 5, 6])
    }

    fn ratios_table(&self) -> Table {
        let rival_heading = format!("rate / {}", rival::NAME);
        let mut table = table(["writers", "p50 / raw loop", "rate / 1 writer", &rival_heading]);
        for appends in &self.appends {
            table.add_row([
                appends.shape.writers.to_string(),
                show(Unit::Ratio, appends.latency_over_raw()),
                self.appends
                    .first()
                    .map_or_else(String::new, |one| show(Unit::Ratio, appends.rate_over(one))),
                show(Unit::Ratio, appends.rate_over_rival()),
            ]);
        }
        right_aligned(table, [0, 1, 2, 3])
    }

    fn notes_table(&self) -> Table {
        let mut table = table(["what", "figures"]);
        let notes =
            self.writing_cost.notes().into_iter().chain(self.openings.iter().flat_map(Opening::notes));
        for (what, figures) in notes {
            table.add_row([what, figures]);
        }
        table
    }
}

/// All figures, for programs.
pub(crate) fn write_json(report: &impl Serialize, path: &Path) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(failed)?;
    }
    let mut json = serde_json::to_vec_pretty(report)?;
    json.push(b'\n');
    fs::write(path, json).with_context(failed)
}

/// The bars, if there are any, and how many of them are met.
pub(crate) fn write_bars(bars: &[Bar], output: &mut impl Write) -> Result<()> {
    if bars.is_empty() {
        return Ok(());
    }
    let missed = bars.iter().filter(|bar| bar.verdict != Verdict::Met).count();
    writeln!(output, "Bars\n\n{}\n", bars_table(bars))?;
    Ok(writeln!(output, "{} of {} bars met", bars.len() - missed, bars.len())?)
}

/// Every bar with its verdict.
pub(crate) fn bars_table(bars: &[Bar]) -> Table {
    let mut table = table(["bar", "asked", "measured", "verdict"]);
    for Bar { subject, unit, limit, measured, verdict } in bars {
        let row = [subject.clone(), unit.show_limit(*limit), show(*unit, *measured), verdict.to_string()];
        table.add_row(row);
    }
    right_aligned(table, [1, 2])
}

pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(headings.map(Cell::new));
    table
}

pub(crate) fn right_aligned<const N: usize>(mut table: Table, columns: [usize; N]) -> Table {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A figure over all rounds; one that was counted stands alone.
pub(crate) fn show(unit: Unit, spread: Spread) -> String {
    let Spread { median, lowest, highest } = spread;
    if lowest == highest {
        return unit.show(median);
    }
    format!("{} ({lowest:.2} to {highest:.2})", unit.show(median))
}
