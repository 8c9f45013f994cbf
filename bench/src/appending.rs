//! Appends of one record each by one and by many writers: the raw loop, our log and a rival, in turns.
//!
//! The machine gets slower and faster while this runs. So the three run one after another for each shape, in every round,
//! and only figures of the same round are divided by each other; who goes first changes from round to round.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::rival::{self, Rivals};
use crate::samples::Spread;
use crate::workload::{Run, Shape};
use crate::{our_log, raw_loop};

/// A log's design asks for so many times the rate of a single writer.
const SCALING: [(usize, f64); 2] = [(16, 5.0), (64, 9.0)];
/// And for a median latency of at most so many times that of the raw loop.
const LATENCY_OVER_RAW: f64 = 1.4;

/// One shape, measured once by all three.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) raw: Run,
    pub(crate) ours: Run,
    pub(crate) rival: Run,
}

/// One shape in all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Appends {
    pub(crate) shape: Shape,
    pub(crate) rounds: Vec<Round>,
}

/// Measures all shapes; the first one must be that of a single writer.
pub(crate) fn measure(
    parent: &Path,
    rivals: &Rivals,
    shapes: &[Shape],
    rounds: usize,
    mut on_round: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<Appends>> {
    let mut measured: Vec<Appends> =
        shapes.iter().map(|&shape| Appends { shape, rounds: Vec::new() }).collect();
    let raw_appends = shapes.first().map_or(0, |shape| shape.appends);
    for number in 0..rounds {
        on_round(number)?;
        for appends in &mut measured {
            let shape = appends.shape;
            let raw = settled(parent, || raw_loop::measure(parent, raw_appends))?;
            let ours_first = number % 2 == 0;
            let before =
                if ours_first { None } else { Some(settled(parent, || rivals.measure(parent, shape))?) };
            let ours = settled(parent, || our_log::measure(parent, shape))?;
            let rival = match before {
                Some(run) => run,
                None => settled(parent, || rivals.measure(parent, shape))?,
            };
            appends.rounds.push(Round { raw, ours, rival });
        }
    }
    Ok(measured)
}

/// Measures, and then waits until the file system is done with the files that were removed: else whoever is next would
/// pay for it.
fn settled(parent: &Path, measure: impl FnOnce() -> Result<Run>) -> Result<Run> {
    let run = measure()?;
    File::open(parent).and_then(|dir| dir.sync_all()).context("cannot sync the directory to measure in")?;
    Ok(run)
}

impl Appends {
    /// One figure over all rounds.
    pub(crate) fn spread(&self, figure: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(figure))
    }

    pub(crate) fn latency_over_raw(&self) -> Spread {
        self.spread(|round| round.ours.p50_us / round.raw.p50_us)
    }

    pub(crate) fn rate_over_rival(&self) -> Spread {
        self.spread(|round| round.ours.per_second / round.rival.per_second)
    }

    /// Our rate as a multiple of our single writer's in the same round.
    pub(crate) fn rate_over(&self, single: &Appends) -> Spread {
        let rounds = self.rounds.iter().zip(&single.rounds);
        Spread::of(rounds.map(|(many, one)| many.ours.per_second / one.ours.per_second))
    }
}

/// The bars that concern appends.
pub(crate) fn bars(measured: &[Appends]) -> Vec<Bar> {
    let Some(single) = measured.first() else { return Vec::new() };
    let latency = Limit::AtMost(LATENCY_OVER_RAW);
    let mut bars =
        vec![Bar::new("1 writer: p50 over the raw loop", Unit::Ratio, latency, single.latency_over_raw())];
    for (writers, factor) in SCALING {
        for appends in measured.iter().filter(|appends| appends.shape.writers == writers) {
            let subject = format!("{writers} writers: rate over 1 writer");
            bars.push(Bar::new(subject, Unit::Ratio, Limit::AtLeast(factor), appends.rate_over(single)));
        }
    }
    bars.extend(measured.iter().map(|appends| {
        let writers = appends.shape.writers;
        let subject =
            format!("{writers} writer{}: rate over {}", if writers == 1 { "" } else { "s" }, rival::NAME);
        Bar::new(subject, Unit::Ratio, Limit::AtLeast(1.0), appends.rate_over_rival())
    }));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Verdict;

    fn run(per_second: f64, p50_us: f64) -> Run {
        Run { per_second, p50_us, p99_us: 0.0 }
    }

    fn appends(writers: usize, rates: [f64; 3]) -> Appends {
        let rounds = rates.map(|rate| Round {
            raw: run(1000.0, 100.0),
            ours: run(rate, 130.0),
            rival: run(2000.0, 200.0),
        });
        Appends { shape: Shape { writers, appends: 1 }, rounds: rounds.to_vec() }
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_only_then_over_rounds() {
        let single = appends(1, [100.0, 1000.0, 10.0]);
        let many = appends(16, [600.0, 5000.0, 70.0]);
        assert_eq!(many.rate_over(&single), Spread { median: 6.0, lowest: 5.0, highest: 7.0 });
    }

    #[test]
    fn every_shape_is_held_against_the_rival_and_many_writers_against_one() {
        let bars = bars(&[appends(1, [2500.0; 3]), appends(16, [10_000.0; 3]), appends(64, [25_000.0; 3])]);
        let verdicts: Vec<_> = bars.iter().map(|bar| bar.verdict == Verdict::Met).collect();
        assert_eq!(verdicts, [true, false, true, true, true, true]);
        assert_eq!(bars[1].subject, "16 writers: rate over 1 writer");
    }
}
