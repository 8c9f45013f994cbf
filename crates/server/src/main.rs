//! The program `gapless`: everything a person or a service manager starts.
//!
//! Reads the command line, runs one command, and turns its ending into an exit code: 0 done, 1 refused or failed,
//! 2 wrong usage. Results go to stdout, reasons and progress to stderr.
//!
//! Must not know: how any command does its work.

mod backup_command;
mod bench_command;
mod cli;
mod client_command;
mod config;
mod demo;
mod dev_command;
mod log_command;
mod output;
mod private_file;
mod progress;
mod reference_command;
mod refusal;
mod repair_command;
mod restore_command;
mod serve_command;
mod tls_command;
mod token_command;
mod verify_command;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};

/// What a thread allocates here, another one often frees: a write is taken in, applied and answered by three of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        Command::Dev(arguments) => dev_command::run(arguments, out),
        Command::Serve(arguments) => serve_command::run(arguments, out),
        Command::Write(arguments) => client_command::write::run(arguments, out),
        Command::Read(arguments) => client_command::read::run(arguments, out),
        Command::Entity { command } => client_command::entity::run(command, out),
        Command::Record { command } => client_command::record::run(command, out),
        Command::Sequences(arguments) => client_command::sequences::run(arguments, out),
        Command::Namespace { command } => client_command::namespace::run(command, out),
        Command::Partitions(arguments) => client_command::partitions::run(arguments, out),
        Command::Projection { command } => client_command::projection::run(command, out),
        Command::Top(arguments) => client_command::top::run(arguments, out),
        Command::Cluster { command } => client_command::cluster::run(command, out),
        Command::Token { command } => token_command::run(command, out),
        Command::Tls { command } => tls_command::run(command, out),
        Command::Proof(arguments) => client_command::proof::run(arguments, out),
        Command::Bench { command } => bench_command::run(command, out),
        Command::Demo(arguments) => demo::run(arguments, out),
        Command::DemoWriter { ledger } => demo::writer::run(ledger, out),
        Command::Backup(arguments) => backup_command::run(arguments, out),
        Command::Restore(arguments) => restore_command::run(arguments, out),
        Command::Repair(arguments) => repair_command::run(arguments, out),
        Command::Verify(arguments) => verify_command::run(arguments, out),
        Command::Log { command } => log_command::run(command, out),
        Command::Reference { page } => reference_command::run(*page, out),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "gapless", &mut script);
            Ok(out.write_all(&script)?)
        }
    }
}
