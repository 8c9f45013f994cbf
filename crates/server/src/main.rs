//! The program `gapless`: everything a person or a service manager starts.
//!
//! Reads the command line, runs one command, and turns its ending into an exit code: 0 done, 1 refused or failed,
//! 2 wrong usage. Results go to stdout, reasons and progress to stderr.
//!
//! Must not know: how any command does its work.

mod cli;
mod dev;
mod log_command;
mod output;
mod refusal;
mod verify_command;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let ended = run(&cli, &mut out);
    // What was found comes out before the word on how it ended.
    let flushed = out.flush();
    refusal::exit_code(ended.and_then(|()| Ok(flushed?)))
}

fn run(cli: &Cli, out: &mut dyn Write) -> Result<()> {
    match &cli.command {
        Command::Dev(arguments) => dev::run(arguments, out),
        Command::DevWriter { ledger } => dev::writer::run(ledger, out),
        Command::Verify(arguments) => verify_command::run(arguments, out),
        Command::Log { command } => log_command::run(command, out),
    }
}
