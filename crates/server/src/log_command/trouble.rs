//! Why a log could not be looked at or opened, in words that say what to do next.
//!
//! Must not know: damage that leaves a log readable; that is a `case`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gapless_log::OpenError;
use gapless_log::format::parse_segment_file_name;

use crate::refusal::Refusal;

/// The refusal of a directory that holds no log.
pub(crate) fn no_log(dir: &Path) -> Refusal {
    let next = match log_below(dir) {
        Some(below) => format!("there is one in {}", below.display()),
        None => {
            "give the directory with the .segment files; `gapless demo` makes one in ./gapless-demo/demo/log"
                .to_owned()
        }
    };
    Refusal::new(format!("there is no log in {}", dir.display()), next)
}

/// What an error of the log means for whoever typed the command.
pub(crate) fn explained(error: &OpenError, dir: &Path) -> anyhow::Error {
    let next = match error {
        OpenError::Io { source, path, .. } if path == dir => {
            if let Some(refusal) = unreachable_directory(dir, source.kind()) {
                return refusal.into();
            }
            "check the disk and the messages of the system".to_owned()
        }
        OpenError::Io { source, .. } => match source.kind() {
            io::ErrorKind::PermissionDenied => "run this as the user who owns the log".to_owned(),
            io::ErrorKind::StorageFull => "free some space on that disk, then try again".to_owned(),
            io::ErrorKind::NotFound => {
                "a process that uses the log has just removed it; look again".to_owned()
            }
            _ => "check the disk and the messages of the system".to_owned(),
        },
        OpenError::InUse(_) => "stop the process that uses it, then try again".to_owned(),
        OpenError::ForeignFile(_) => {
            format!("check that {} is the directory of a log", dir.display())
        }
        OpenError::ForeignSegment { .. } => {
            "move the segment back to the log it came from; nothing was changed".to_owned()
        }
        OpenError::UnknownVersion { .. } | OpenError::UnknownRecord { .. } => {
            "use the version of gapless that wrote it, or a newer one; nothing was changed".to_owned()
        }
        OpenError::FirstPosition(_) => "start the log at a lower position".to_owned(),
        OpenError::HeaderLost(_) => {
            "restore the file of that segment from another node or a backup".to_owned()
        }
        OpenError::MissingSegments(_) => format!(
            "put the files back; if there is no copy, see `gapless log accept-loss {}`",
            shell_word(dir)
        ),
    };
    let problem = match error {
        OpenError::Io { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    Refusal::new(problem, next).into()
}

fn unreachable_directory(dir: &Path, kind: io::ErrorKind) -> Option<Refusal> {
    let shown = dir.display();
    match kind {
        io::ErrorKind::NotFound => Some(Refusal::new(
            format!("{shown} does not exist"),
            "check the path; `gapless demo` makes a log to look at in ./gapless-demo/demo/log",
        )),
        io::ErrorKind::NotADirectory => Some(Refusal::new(
            format!("{shown} is not a directory"),
            "give the directory with the .segment files",
        )),
        io::ErrorKind::PermissionDenied => {
            Some(Refusal::new(format!("{shown} may not be read"), "run this as the user who owns the log"))
        }
        _ => None,
    }
}

/// A directory directly below that looks like a log.
fn log_below(dir: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && holds_segments(path))
        .collect();
    found.sort();
    found.into_iter().next()
}

fn holds_segments(dir: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(dir) else { return false };
    entries.any(|entry| {
        entry.is_ok_and(|entry| parse_segment_file_name(&entry.file_name().to_string_lossy()).is_some())
    })
}

/// A path as one word of a shell's command line.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_one_word_in_a_shell() {
        assert_eq!(shell_word(Path::new("./gapless-demo/demo/log")), "./gapless-demo/demo/log");
        assert_eq!(shell_word(Path::new("my data/log")), "'my data/log'");
        assert_eq!(shell_word(Path::new("it's")), r"'it'\''s'");
        assert_eq!(shell_word(Path::new("$HOME")), "'$HOME'");
    }
}
