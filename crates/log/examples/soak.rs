//! Runs any number of seeds of the faulty disk: `cargo xtask soak log --seeds N --from S`.
//!
//! Seeds take turns: even ones on an honest disk, odd ones on a lying one. A failing seed is printed and ends the run
//! with exit code 1; the same seed fails again in the same way.

#[path = "../tests/torture/mod.rs"]
mod torture;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use torture::{Disk, Run, Sightings};

const LIVES: u32 = 8;

fn main() -> std::io::Result<()> {
    let mut seeds = 1000;
    let mut from = 0;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        match (argument.as_str(), value) {
            ("--seeds", Some(value)) => seeds = value,
            ("--from", Some(value)) => from = value,
            _ => {
                writeln!(std::io::stderr(), "usage: soak [--seeds N] [--from S]")?;
                std::process::exit(2);
            }
        }
    }
    let mut out = std::io::stdout();
    let mut total = Sightings::default();
    for seed in from..from + seeds {
        let disk = if seed % 2 == 0 { Disk::Honest } else { Disk::Lying };
        let mut run = Run::new(seed, disk);
        if catch_unwind(AssertUnwindSafe(|| run.live(LIVES))).is_err() {
            writeln!(
                out,
                "seed {seed} failed on a disk that is {disk:?}; run it again with --from {seed} --seeds 1"
            )?;
            std::process::exit(1);
        }
        total.add(&run.sightings);
        if (seed - from + 1) % 1000 == 0 {
            writeln!(out, "{} of {seeds} seeds passed", seed - from + 1)?;
        }
    }
    writeln!(out, "{total:#?}\nseeds {from}..{}: {seeds} passed, 0 failed", from + seeds)
}
