//! Random schedules of a domain, as many as somebody has time for: `cargo xtask soak leases --schedules N --from SEED`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this program talks to a terminal, and a seed that cannot go on has failed"
)]

#[path = "../tests/schedule/mod.rs"]
mod schedule;

use std::process::ExitCode;

use schedule::{Purpose, run};

/// Schedules between two signs of life.
const REPORT_EVERY: u64 = 10_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let (from, count) = (value("--from", 0), value("--schedules", REPORT_EVERY));
    for seed in from..from.saturating_add(count) {
        for purpose in [Purpose::Everything, Purpose::TenEvents] {
            if let Err(wrong) = run(seed, purpose, None) {
                println!("seed {seed} ({purpose:?}): {wrong}");
                println!("alone: cargo xtask soak leases --schedules 1 --from {seed}");
                return ExitCode::FAILURE;
            }
        }
        if (seed - from + 1).is_multiple_of(REPORT_EVERY) {
            println!("{} schedules", seed - from + 1);
        }
    }
    println!("{count} schedules passed, from seed {from} on");
    ExitCode::SUCCESS
}
