//! The project's own commands, run as `cargo xtask COMMAND`: what a contributor and a build server both do.
//!
//! Must not know: anything of the ledger. It starts programs and tells how they ended.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "these commands talk to a terminal")]

mod arguments;
mod bench;
mod deny;
mod dev;
mod docs;
mod fuzz;
mod process;
mod sim;
mod soak;
mod summary;
mod test;
mod tools;
mod vectors;
mod workspace;

use std::process::ExitCode;

use crate::arguments::Arguments;
use crate::workspace::Workspace;

const HELP: &str = "\
The project's own commands. Usage: cargo xtask COMMAND

  test                                everything that must hold before a change is merged
  sim [--seeds N] [--from S] [--nodes K] [--twice] [--mistakes]
                                      whole clusters, simulated, N seeds (500) starting with S (0); `sim --help` says more
  sim --seed S --nodes K              one seed again
  soak log [--seeds N] [--from S]     the log on a faulty disk, N seeds (1000) starting with S (0)
  soak properties [--seeds N] [--from S]
                                      the property tests, N seeds (20) starting with S (2)
  soak kill [--cycles N] [--from S]   a server killed in the middle of writes, N times (500), with seed S (1)
  bench log [--json FILE] [--quick]   the log against a raw file and against its rivals
  bench sequencer [--json FILE] [--quick]
                                      the sequencer: transactions, memory, first number after opening
  bench partition [--json FILE] [--quick]
                                      the partition: applies, restart, memory
  bench server [--json FILE] [--quick]
                                      the server beside one that does nothing with the same messages
  bench store [--applies N] [--quick] the store of derived state beside its rivals
  fuzz [TARGET] [--seconds N]         one fuzz target or all, N seconds each (60)
  docs                                writes the pages of docs/operations that are made from the program
  help                                this text";

fn main() -> ExitCode {
    let mut arguments = Arguments::of_this_process();
    let workspace = Workspace::of_this_process();
    let result = match arguments.word().as_deref() {
        Some("test") => test::run(&workspace, arguments),
        Some("sim") => sim::run(&workspace, arguments),
        Some("soak") => soak::run(&workspace, arguments),
        Some("bench") => bench::run(&workspace, arguments),
        Some("docs") => docs::run(&workspace, arguments),
        Some("fuzz") => fuzz::run(&workspace, arguments),
        Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => Err(anyhow::anyhow!("there is no command `{other}`; `cargo xtask help` lists them")),
        None => Err(anyhow::anyhow!("which command?\n\n{HELP}")),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::from(2)
    })
}
