//! `gapless backup`: asks a server for a backup, or makes one of a node that nobody serves.
//!
//! Must not know: what is in a backup.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::StreamExt;
use gapless_api::json::to_json;
use gapless_client::{Error, v1};
use gapless_engine::{BackupOptions, BackupProgress, Config, Engine};

use crate::cli::{BackupArguments, DumpForm};
use crate::client_command::{answer, ask, explained};
use crate::output::{Bytes, counted, time, write_json};
use crate::progress::{Progress, Unit};
use crate::refusal::Refusal;
use crate::serve_command::runtime;

/// Runs the command.
pub(crate) fn run(arguments: &BackupArguments, out: &mut dyn Write) -> Result<()> {
    let began = Instant::now();
    let made = match &arguments.data {
        Some(data) => at_rest(data, &arguments.to)?,
        None => asked(arguments)?,
    };
    show(&made, began.elapsed(), arguments.connection.output, out)
}

/// Asks a server.
fn asked(arguments: &BackupArguments) -> Result<v1::BackupMade> {
    let connection = &arguments.connection;
    let request = v1::BackupRequest { target: arguments.to.display().to_string() };
    ask(connection, async |client| {
        let mut answers = answer(client.backup(request), connection).await?;
        let mut progress = Progress::new(Unit::Outcomes);
        while let Some(next) = answers.next().await {
            let next = next.map_err(|error| refused(error, arguments))?;
            progress.show("copying", next.outcomes, next.all_outcomes);
            if let Some(made) = next.made {
                progress.end();
                return Ok(made);
            }
        }
        let next = "look whether it is there: gapless verify on the machine of the server";
        Err(Refusal::new("the server ended before the backup was reported", next).into())
    })
}

fn refused(error: Error, arguments: &BackupArguments) -> anyhow::Error {
    let Error::Problem(problem) = &error else { return explained(error, &arguments.connection) };
    let to = arguments.to.display();
    let next = match &*problem.reason {
        "BACKUP_BUSY" => "wait until the other one is made".to_owned(),
        "NOT_A_BACKUP_DIRECTORY" | "OTHER_CLUSTER" => "name another directory".to_owned(),
        "BACKUP_DAMAGED" => {
            format!("see what is wrong: gapless verify {to}; then name another directory")
        }
        "PARTITION_NOT_WELL" => "see what it is: gapless partitions".to_owned(),
        "PROJECTION_NOT_WELL" => "see what it is: gapless projection list NAMESPACE".to_owned(),
        "NOT_READY" => "try again in a moment, or ask another node: --server ADDR".to_owned(),
        "BACKUP_FAILED" => {
            "see that the server's user can write there, and that the disk has room; then run it again"
                .to_owned()
        }
        _ => return explained(error, &arguments.connection),
    };
    Refusal::new(problem.message.clone(), next).into()
}

/// Opens a node that nobody serves, and backs it up.
fn at_rest(data: &Path, to: &Path) -> Result<v1::BackupMade> {
    if !data.join("catalog").is_file() {
        let problem = format!("{} is not the directory of a node", data.display());
        return Err(Refusal::new(problem, "name the directory that `gapless serve --data` was given").into());
    }
    let to = std::path::absolute(to)?;
    runtime()?.block_on(async {
        let next = "see that nobody serves it, and that it is whole: gapless verify DIR";
        let failed = |error: &dyn std::fmt::Display| Refusal::new(error.to_string(), next);
        let config = Config::embedded(std::path::absolute(data)?);
        let engine = Engine::open(config).await.map_err(|error| failed(&error))?;
        engine.wait_for_leader().await;
        engine.wait_until_actualized().await;
        let progress = Arc::new(Mutex::new(Progress::new(Unit::Outcomes)));
        let tell = {
            let progress = progress.clone();
            move |now: BackupProgress| {
                let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
                progress.show("copying", now.outcomes, now.of);
            }
        };
        let report = engine.backup(&to, BackupOptions::default(), Arc::new(tell)).await;
        progress.lock().unwrap_or_else(PoisonError::into_inner).end();
        engine.close().await;
        let report = report.map_err(|error| failed(&error))?;
        Ok(gapless_api::backup_made(&report))
    })
}

fn show(made: &v1::BackupMade, took: Duration, form: DumpForm, out: &mut dyn Write) -> Result<()> {
    match form {
        DumpForm::Json => write_json(out, &to_json("BackupMade", made)),
        DumpForm::Raw => Ok(writeln!(out, "{}", made.number)?),
        DumpForm::Table => {
            writeln!(out, "backup      {} in {}, made in {}", made.number, made.target, time(took))?;
            writeln!(
                out,
                "has         {} in {}, up to entry {}",
                counted(made.outcomes, "outcome"),
                counted(u64::from(made.partitions), "partition"),
                made.log_index
            )?;
            writeln!(
                out,
                "added       {}, {} of {}",
                Bytes(made.added_bytes),
                made.added_files,
                counted(made.files, "file")
            )?;
            let between = match (made.number, made.continuous) {
                (1, _) => "the first one here",
                (_, true) => "a restore can stop at every entry since the one before",
                (_, false) => "the log was cut since the one before: see `gapless restore --help`",
            };
            Ok(writeln!(out, "between     {between}")?)
        }
    }
}
