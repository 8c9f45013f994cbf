//! The server's figures for people and for programs, and the bars that are set for them.
//!
//! Must not know: how anything is measured.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::machine::Machine;
use crate::report::{right_aligned, show, table, write_bars, write_json};
use crate::samples::Spread;
use crate::server_process::Figures;
use crate::server_suite::{Load, Round, Series};

/// The rate of 256 clients, as a share of what an echo does that is nothing but tonic.
const OF_BARE: f64 = 0.7;
/// What a single client may wait beyond one sync, in microseconds.
const BEYOND_SYNC_US: f64 = 300.0;
/// Durable events a second of one stream.
const STREAM_PER_SECOND: f64 = 150_000.0;

/// Everything that one run measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    quick: bool,
    series: Vec<Series>,
    bars: Vec<Bar>,
}

impl Report {
    pub(crate) fn new(machine: Machine, quick: bool, series: Vec<Series>) -> Self {
        let bars = series.iter().filter_map(bar).collect();
        Self { machine, quick, series, bars }
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        write_json(self, path)
    }

    pub(crate) fn write_tables(&self, output: &mut impl Write) -> Result<()> {
        writeln!(output, "{}\n", self.machine.line())?;
        writeln!(output, "Events of 256 bytes: medians over rounds\n\n{}\n", self.figures())?;
        writeln!(output, "Ratios within a round: median (lowest to highest)\n\n{}\n", self.ratios())?;
        write_bars(&self.bars, output)
    }

    fn figures(&self) -> Table {
        let headings = ["load", "who", "events/s", "p50 us", "p99 us", "p99.9 us", "server's CPUs", "errors"];
        let mut figures = table(headings);
        for series in &self.series {
            type Of = fn(&Round) -> Option<Figures>;
            let who: [(&str, Of); 3] = [
                ("bare tonic", |round| round.bare),
                ("echo", |round| Some(round.echo)),
                ("gapless", |round| Some(round.gapless)),
            ];
            for (name, of) in who {
                let all: Vec<Figures> = series.rounds.iter().filter_map(of).collect();
                if all.is_empty() {
                    continue;
                }
                let median = |value: fn(&Figures) -> f64| Spread::of(all.iter().map(value)).median;
                let errors: u64 = all.iter().map(|figures| figures.errors).sum();
                figures.add_row([
                    series.load.name(),
                    name.to_owned(),
                    format!("{:.0}", median(|figures| figures.per_second)),
                    format!("{:.0}", median(|figures| figures.p50_us)),
                    format!("{:.0}", median(|figures| figures.p99_us)),
                    format!("{:.0}", median(|figures| figures.p999_us)),
                    format!("{:.2}", median(|figures| figures.busy_cpus)),
                    errors.to_string(),
                ]);
            }
        }
        right_aligned(figures, [2, 3, 4, 5, 6, 7])
    }

    fn ratios(&self) -> Table {
        let mut ratios =
            table(["load", "rate / bare tonic", "rate / echo", "p50 / echo", "p50 beyond a sync"]);
        for series in &self.series {
            let spread = |value: fn(&Round) -> f64| Spread::of(series.rounds.iter().map(value));
            let of_bare = match series.load {
                Load::Unary(_) => show(Unit::Ratio, spread(of_bare)),
                Load::Stream(_) | Load::Read(_) => String::new(),
            };
            ratios.add_row([
                series.load.name(),
                of_bare,
                show(Unit::Ratio, spread(|round| round.gapless.per_second / round.echo.per_second)),
                show(Unit::Ratio, spread(|round| round.gapless.p50_us / round.echo.p50_us)),
                show(Unit::Microseconds, spread(beyond_sync)),
            ]);
        }
        right_aligned(ratios, [1, 2, 3, 4])
    }
}

/// Not a number where there is no bare one.
fn of_bare(round: &Round) -> f64 {
    round.gapless.per_second / round.bare.map_or(f64::NAN, |bare| bare.per_second)
}

fn beyond_sync(round: &Round) -> f64 {
    round.gapless.p50_us - round.sync.p50_us
}

fn bar(series: &Series) -> Option<Bar> {
    let spread = |value: fn(&Round) -> f64| Spread::of(series.rounds.iter().map(value));
    let name = series.load.name();
    match series.load {
        Load::Unary(256) => Some(Bar::new(
            format!("{name}: rate / bare tonic"),
            Unit::Ratio,
            Limit::AtLeast(OF_BARE),
            spread(of_bare),
        )),
        Load::Unary(1) => Some(Bar::new(
            format!("{name}: p50 beyond a sync"),
            Unit::Microseconds,
            Limit::AtMost(BEYOND_SYNC_US),
            spread(beyond_sync),
        )),
        Load::Stream(_) => Some(Bar::new(
            format!("{name}: events a second"),
            Unit::Count,
            Limit::AtLeast(STREAM_PER_SECOND),
            spread(|round| round.gapless.per_second),
        )),
        Load::Unary(_) | Load::Read(_) => None,
    }
}
