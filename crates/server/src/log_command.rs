//! `gapless log`: looks at the files of a log from outside, and accepts losses on an operator's word.
//!
//! Everything here but `accept-loss` changes nothing, takes no lock and creates nothing.
//!
//! Must not know: the bytes of the format; that is the log's own business.

mod accept_loss;
pub(crate) mod aftermath;
pub(crate) mod case;
mod dump;
mod inspect;
mod payload;
mod segments;
pub(crate) mod trouble;
mod verify;

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use gapless_log::io::real::RealIo;
use gapless_log::{Depth, FrameView, LogId, Survey};

use crate::cli::LogCommand;

/// Runs one of the commands.
pub(crate) fn run(command: &LogCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        LogCommand::Inspect { dir, frames, output } => inspect::run(dir, *frames, *output, out),
        LogCommand::Verify { dir, output } => verify::run(dir, *output, out),
        LogCommand::Dump(arguments) => dump::run(arguments, out),
        LogCommand::AcceptLoss { dir, yes, output } => accept_loss::run(dir, *yes, *output, out),
    }
}

/// Looks at the log in a directory; `on_frame` sees every good frame that is read. Refused if there is no log.
fn survey(dir: &Path, depth: Depth, on_frame: &mut dyn FnMut(&FrameView<'_>)) -> Result<(LogId, Survey)> {
    let survey = gapless_log::inspect(&RealIo, dir, depth, on_frame)
        .map_err(|error| trouble::explained(&error, dir))?;
    match survey.log {
        Some(log) => Ok((log, survey)),
        None => Err(trouble::no_log(dir).into()),
    }
}
