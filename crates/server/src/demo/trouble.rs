//! Why the demonstration cannot go on, in words that say what to do next.
//!
//! Must not know: what is written, what is shown.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;

use gapless_log::{AppendError, OpenError as LogOpenError};
use gapless_partition::{ApplyError, CheckpointFailed, Fault, OpenError};

use super::ledger::log_dir;
use crate::log_command::trouble::explained;
use crate::refusal::Refusal;

const ANOTHER_DIRECTORY: &str = "choose another directory: gapless demo --data DIR";
const CHECK_THE_DISK: &str = "check the disk and the messages of the system, then run it again";

/// The ledger in this directory did not open.
pub(super) fn not_opened(error: &OpenError, dir: &Path) -> anyhow::Error {
    let next = match error {
        // Not the log's own trouble: the directory it should lie in cannot be made.
        OpenError::Log(LogOpenError::Io { path, source, .. }) if path == dir => {
            return Refusal::new(format!("{} cannot be used: {source}", dir.display()), ANOTHER_DIRECTORY)
                .into();
        }
        OpenError::Log(error) => return explained(error, &log_dir(dir)),
        OpenError::Fold(error) => return fault(error),
        OpenError::Store(_) => "check that nobody else uses the directory, and the disk; then run it again",
        OpenError::UnknownRows(_) => "use the version of gapless that wrote it, or a newer one",
        OpenError::LogTooShort { .. } => {
            "files of the log are gone: put them back, or choose another directory with --data"
        }
    };
    let reason = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    Refusal::new(format!("{error}{reason}"), next).into()
}

/// The log did not take something.
pub(super) fn log_refused(error: &AppendError) -> anyhow::Error {
    Refusal::new(format!("the log refused: {error}"), after_append(error)).into()
}

/// The partition stopped.
pub(super) fn fault(error: &Fault) -> anyhow::Error {
    let next = match error {
        Fault::Append(error) => after_append(error),
        Fault::Violation(_) => {
            "`gapless verify` on the ledger says what else differs; if you trust its log, remove its directory `store`, which is \
             made anew from the log at the next start"
        }
        _ => CHECK_THE_DISK,
    };
    Refusal::new(format!("the partition stopped: {error}"), next).into()
}

/// A record got no outcome.
pub(super) fn apply_failed(error: &ApplyError) -> anyhow::Error {
    match error {
        ApplyError::Stopped(error) => fault(error),
        other => must_not_happen(other),
    }
}

/// A checkpoint was not made.
pub(super) fn checkpoint_failed(error: &CheckpointFailed) -> anyhow::Error {
    match error {
        CheckpointFailed::Stopped(error) => fault(error),
        other => {
            let next = "free some space or check the disk; nothing is lost, the log has everything";
            Refusal::new(format!("no checkpoint could be made: {other}"), next).into()
        }
    }
}

/// A promise was broken.
pub(super) fn must_not_happen(problem: &dyn Display) -> anyhow::Error {
    let next = "this must never happen: keep the directory as it is, and report it as a bug";
    Refusal::new(format!("the ledger broke its promise: {problem}"), next).into()
}

fn after_append(error: &AppendError) -> &'static str {
    match error {
        AppendError::DiskFull { .. } => "free some space, or choose another disk: gapless demo --data DIR",
        AppendError::ReadOnly(_) => ANOTHER_DIRECTORY,
        _ => CHECK_THE_DISK,
    }
}
