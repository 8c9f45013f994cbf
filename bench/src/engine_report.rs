//! The engine's figures for people and for programs, and the bars that the design sets.
//!
//! Must not know: how anything is measured.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::engine_isolation::{self, Pair};
use crate::engine_load::Figures;
use crate::engine_suite::{PARTITIONS, Round, Series};
use crate::machine::Machine;
use crate::report::{right_aligned, show, table, write_bars, write_json};
use crate::samples::Spread;

/// What a row of a table takes from a round.
type Of<R, T> = fn(&R) -> T;

/// What a single writer may wait beyond two syncs, in microseconds.
const LATENCY_BEYOND_SYNCS_US: f64 = 200.0;
/// Writers that are many.
const MANY: usize = 256;
/// So many times the rate of a single writer they should have, unless there is no more processor.
const SCALING: f64 = 100.0;
/// There is no more of it if more writers write no more than this many times as much.
const SATURATED: (usize, f64) = (1024, 1.1);
/// The rate with many partitions, as a share of that with one.
const MANY_PARTITIONS: f64 = 0.9;

/// Everything that one run measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    quick: bool,
    series: Vec<Series>,
    isolation: Vec<engine_isolation::Round>,
    bars: Vec<Bar>,
}

impl Report {
    pub(crate) fn new(
        machine: Machine,
        quick: bool,
        series: Vec<Series>,
        isolation: Vec<engine_isolation::Round>,
    ) -> Self {
        let bars =
            series.iter().filter(|series| series.nodes == 1).flat_map(|one| bars(one, &series)).collect();
        Self { machine, quick, series, isolation, bars }
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        write_json(self, path)
    }

    pub(crate) fn write_tables(&self, output: &mut impl Write) -> Result<()> {
        writeln!(output, "{}\n", self.machine.line())?;
        if !self.series.is_empty() {
            writeln!(output, "Events of 256 bytes: medians over rounds\n")?;
            writeln!(output, "{}\n", self.figures())?;
            writeln!(output, "Ratios within a round: median (lowest to highest)\n")?;
            writeln!(output, "{}\n", self.ratios())?;
        }
        if !self.isolation.is_empty() {
            writeln!(
                output,
                "63 partitions with a small writer each, beside one with 16 writers of 1 MiB\n"
            )?;
            writeln!(output, "{}\n", self.isolation())?;
        }
        write_bars(&self.bars, output)
    }

    fn figures(&self) -> Table {
        let mut figures = table([
            "nodes",
            "load",
            "who",
            "events/s",
            "p50 us",
            "p99 us",
            "log syncs",
            "log bytes",
            "all syncs",
            "all bytes",
            "CPU us",
            "busy CPUs",
            "applying",
            "runtime",
            "log",
            "machine",
        ]);
        for series in &self.series {
            let [one, many] = PARTITIONS;
            let who: [(String, Of<Round, Figures>); 3] = [
                ("bare log".to_owned(), |round| round.bare_log),
                (format!("{one} partition"), |round| round.engine[0]),
                (format!("{many} partitions"), |round| round.engine[1]),
            ];
            for (name, of) in who {
                let median = |figure: fn(&Figures) -> f64| series.spread(|round| figure(&of(round))).median;
                figures.add_row([
                    series.nodes.to_string(),
                    series.load.name(),
                    name,
                    format!("{:.0}", median(|figures| figures.per_second)),
                    format!("{:.0}", median(|figures| figures.p50_us)),
                    format!("{:.0}", median(|figures| figures.p99_us)),
                    format!("{:.3}", median(|figures| figures.log_syncs_per_event)),
                    format!("{:.0}", median(|figures| figures.log_bytes_per_event)),
                    format!("{:.3}", median(|figures| figures.syncs_per_event)),
                    format!("{:.0}", median(|figures| figures.bytes_per_event)),
                    format!("{:.1}", median(|figures| figures.cpu_us_per_event)),
                    format!("{:.2}", median(|figures| figures.busy_cpus)),
                    format!("{:.2}", median(|figures| figures.busy.applying)),
                    format!("{:.2}", median(|figures| figures.busy.runtime)),
                    format!("{:.2}", median(|figures| figures.busy.log)),
                    format!("{:.2}", median(|figures| figures.busy.machine)),
                ]);
            }
        }
        right_aligned(figures, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    }

    fn ratios(&self) -> Table {
        let mut ratios =
            table(["nodes", "load", "p50 / sync", "rate / bare log", "rate / 1 writer", "64 partitions / 1"]);
        for series in &self.series {
            let single = of_writers(&self.series, series.nodes, 1);
            let scaling = single.map(|single| series.rate_over(single, 0));
            ratios.add_row([
                series.nodes.to_string(),
                series.load.name(),
                show(Unit::Ratio, series.spread(|round| round.engine[0].p50_us / round.sync.p50_us)),
                show(
                    Unit::Ratio,
                    series.spread(|round| round.engine[0].per_second / round.bare_log.per_second),
                ),
                scaling.map_or_else(String::new, |scaling| show(Unit::Ratio, scaling)),
                show(Unit::Ratio, series.spread(Round::many_over_one)),
            ]);
        }
        right_aligned(ratios, [2, 3, 4, 5])
    }

    fn isolation(&self) -> Table {
        let mut figures = table([
            "who",
            "p50 us alone",
            "p99 us alone",
            "p50 us beside",
            "p99 us beside",
            "p99 ratio",
            "large writes/s",
        ]);
        let who: [(&str, Of<engine_isolation::Round, Pair>); 2] =
            [("engine", |round| round.engine), ("bare log", |round| round.bare_log)];
        for (name, of) in who {
            let spread =
                |figure: fn(&Pair) -> f64| Spread::of(self.isolation.iter().map(|round| figure(&of(round))));
            let whole = |figure| format!("{:.0}", spread(figure).median);
            figures.add_row([
                name.to_owned(),
                whole(|pair| pair.alone.p50_us),
                whole(|pair| pair.alone.p99_us),
                whole(|pair| pair.beside.p50_us),
                whole(|pair| pair.beside.p99_us),
                show(Unit::Ratio, spread(Pair::p99_ratio)),
                whole(|pair| pair.large.per_second),
            ]);
        }
        right_aligned(figures, [1, 2, 3, 4, 5, 6])
    }
}

/// So many writers that each wait for every event.
fn of_writers(series: &[Series], nodes: u64, writers: usize) -> Option<&Series> {
    let is_it =
        |series: &&Series| series.nodes == nodes && (series.load.writers, series.load.batch) == (writers, 1);
    series.iter().find(is_it)
}

impl Series {
    /// One figure over all rounds.
    fn spread(&self, figure: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(figure))
    }

    /// The rate as a multiple of that of another load in the same round, with as many partitions as that place of [`PARTITIONS`] says.
    fn rate_over(&self, other: &Series, place: usize) -> Spread {
        let rounds = self.rounds.iter().zip(&other.rounds);
        Spread::of(rounds.map(|(this, other)| this.engine[place].per_second / other.engine[place].per_second))
    }
}

impl Round {
    fn many_over_one(&self) -> f64 {
        self.engine[1].per_second / self.engine[0].per_second
    }
}

/// The bars of one load on one node.
fn bars(series: &Series, all: &[Series]) -> Vec<Bar> {
    let load = series.load;
    let mut bars = Vec::new();
    if (load.writers, load.batch) == (1, 1) {
        let beyond = series.spread(|round| round.engine[0].p50_us - 2.0 * round.sync.p50_us);
        let limit = Limit::AtMost(LATENCY_BEYOND_SYNCS_US);
        bars.push(Bar::new("1 writer: p50 beyond two syncs", Unit::Microseconds, limit, beyond));
    }
    let (most, more) = SATURATED;
    if load.writers == MANY
        && let Some(single) = of_writers(all, series.nodes, 1)
    {
        let subject = format!("{MANY} writers: rate over 1 writer, if there is processor left");
        bars.push(Bar::new(subject, Unit::Ratio, Limit::AtLeast(SCALING), series.rate_over(single, 0)));
    }
    if load.writers == most
        && let Some(many) = of_writers(all, series.nodes, MANY)
    {
        for (place, partitions) in PARTITIONS.into_iter().enumerate() {
            let subject =
                format!("{most} writers, {partitions} partition(s): rate over {MANY}, if none is left");
            bars.push(Bar::new(subject, Unit::Ratio, Limit::AtMost(more), series.rate_over(many, place)));
        }
    }
    let subject = format!("{}: rate with 64 partitions over 1", load.name());
    let limit = Limit::AtLeast(MANY_PARTITIONS);
    bars.push(Bar::new(subject, Unit::Ratio, limit, series.spread(Round::many_over_one)));
    bars
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bars::Verdict;
    use crate::engine_load::Load;
    use crate::workload::Run;

    fn series(writers: usize, rates: [[f64; 2]; 2], p50_us: f64) -> Series {
        let figures = |per_second| Figures { per_second, p50_us, ..Figures::default() };
        let round = |rates: [f64; 2]| Round {
            sync: Run { per_second: 1000.0, p50_us: 100.0, p99_us: 100.0 },
            bare_log: figures(5000.0),
            engine: rates.map(figures),
        };
        let load = Load::of(writers, 1, Duration::from_secs(1));
        Series { nodes: 1, load, rounds: rates.map(round).to_vec() }
    }

    #[test]
    fn bars_are_held_against_figures_of_the_same_round() {
        let all = [
            series(1, [[100.0, 95.0], [10.0, 9.0]], 350.0),
            series(256, [[12_000.0; 2], [900.0; 2]], 1.0),
            series(1024, [[12_600.0, 12_000.0], [945.0, 909.0]], 1.0),
        ];
        let of: Vec<Bar> = all.iter().flat_map(|series| bars(series, &all)).collect();
        let measured: Vec<f64> = of.iter().map(|bar| (bar.measured.median * 1000.0).round()).collect();
        assert_eq!(measured, [150_000.0, 925.0, 105_000.0, 1000.0, 1050.0, 1005.0, 957.0]);
        assert!(of.iter().all(|bar| bar.verdict == Verdict::Met));
    }
}
