//! Backups, as the service Admin gives them: a stream that says how far it is, and last what was made.
//!
//! Must not know: what is in a backup.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use gapless_engine::{BackupError, BackupOptions, BackupProgress, BackupReport, Engine};
use tokio::sync::{oneshot, watch};

use crate::admin::AdminCalls;
use crate::problem::{Problem, ProblemKind};
use crate::v1;

/// What is told of a backup.
pub type BackupAnswers = BoxStream<'static, Result<v1::BackupResponse, Problem>>;

impl AdminCalls {
    /// Backs everything up into a directory of this machine. The backup goes on if nobody listens any more.
    ///
    /// # Errors
    /// If the target cannot be one.
    pub fn backup(&self, request: &v1::BackupRequest) -> Result<BackupAnswers, Problem> {
        let target = target(&self.engine, &self.backups, &request.target)?;
        let (progress, told) = watch::channel(BackupProgress::default());
        let (made, ended) = oneshot::channel();
        let engine = self.engine.clone();
        tokio::spawn(async move {
            let tell = Arc::new(move |now| {
                progress.send_replace(now);
            });
            // Whoever asked may be gone.
            let _ = made.send(engine.backup(&target, BackupOptions::default(), tell).await);
        });
        Ok(stream::unfold(Some((told, ended)), next).boxed())
    }

    /// The same, for those who wait for its end.
    ///
    /// # Errors
    /// If there is no backup.
    pub async fn backup_to_its_end(
        &self,
        request: &v1::BackupRequest,
    ) -> Result<v1::BackupResponse, Problem> {
        let mut answers = self.backup(request)?;
        let mut last = v1::BackupResponse::default();
        while let Some(answer) = answers.next().await {
            last = answer?;
        }
        Ok(last)
    }
}

type Ended = oneshot::Receiver<Result<BackupReport, BackupError>>;
type Told = watch::Receiver<BackupProgress>;

/// The next answer: how far it is, each time that has changed since the last one was taken; then what was made.
async fn next(
    state: Option<(Told, Ended)>,
) -> Option<(Result<v1::BackupResponse, Problem>, Option<(Told, Ended)>)> {
    let (mut told, mut ended) = state?;
    let report = tokio::select! {
        biased;
        report = &mut ended => report,
        Ok(()) = told.changed() => {
            let now = response(&told.borrow_and_update());
            return Some((Ok(now), Some((told, ended))));
        }
        // Nobody tells any more: the end is near.
        else => ended.await,
    };
    let answer = match report {
        Ok(Ok(report)) => {
            let now = response(&told.borrow());
            Ok(v1::BackupResponse { made: Some(backup_made(&report)), ..now })
        }
        Ok(Err(error)) => Err(problem(&error)),
        Err(_) => Err(Problem::shutting_down()),
    };
    Some((answer, None))
}

fn response(progress: &BackupProgress) -> v1::BackupResponse {
    let BackupProgress { outcomes, of, bytes } = *progress;
    v1::BackupResponse { outcomes, all_outcomes: of, bytes, made: None }
}

/// A backup that was made, as it is told.
pub fn backup_made(report: &BackupReport) -> v1::BackupMade {
    v1::BackupMade {
        target: report.dir.display().to_string(),
        number: report.number,
        log_index: report.index.get(),
        log_time_ms: report.time,
        partitions: u32::try_from(report.partitions).unwrap_or(u32::MAX),
        outcomes: report.outcomes,
        files: report.files as u64,
        added_files: report.added_files as u64,
        added_bytes: report.added_bytes,
        continuous: report.continuous,
    }
}

/// Where backups are made and looked for: whoever may ask for one would otherwise write and read wherever the server's user can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackupPlaces {
    /// Wherever the process may.
    #[default]
    Anywhere,
    /// In this directory and below it.
    Below(PathBuf),
    /// Nowhere: nobody said a directory.
    Nowhere,
}

impl BackupPlaces {
    /// The directory that is meant, without symbolic links and ways back up.
    ///
    /// # Errors
    /// If it is no directory that backups may lie in.
    pub(crate) fn directory(&self, field: &'static str, named: &str) -> Result<PathBuf, Problem> {
        let path = Path::new(named);
        if !path.is_absolute() || named.contains('\0') {
            let wrong = "has to be an absolute path of a directory on the machine of the server";
            return Err(Problem::violation(field, wrong));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(Problem::violation(field, "may not lead back up with `..`"));
        }
        let real = resolved(path);
        match self {
            Self::Anywhere => Ok(real),
            Self::Below(root) if real.starts_with(resolved(root)) => Ok(real),
            Self::Below(root) => {
                let wrong = format!("has to lie below {} (backup.root)", root.display());
                Err(Problem::violation(field, wrong))
            }
            Self::Nowhere => {
                let wrong = "this server can be reached from other machines, and nobody said where backups may lie: backup.root";
                Err(Problem::new(ProblemKind::Precondition, "NO_BACKUP_ROOT", wrong))
            }
        }
    }
}

/// The directory that is meant, which is not that of the node by any other name.
fn target(engine: &Engine, places: &BackupPlaces, target: &str) -> Result<PathBuf, Problem> {
    let (real, data) = (places.directory("target", target)?, resolved(engine.dir()));
    if real.starts_with(&data) || data.starts_with(&real) {
        let wrong = "lies inside the directory of the node, or around it; a backup belongs on another disk";
        return Err(Problem::violation("target", wrong));
    }
    Ok(real)
}

/// A path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for ancestor in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(ancestor) {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return real.join(rest);
        }
    }
    path
}

fn problem(error: &BackupError) -> Problem {
    let (kind, reason) = match error {
        BackupError::InsideData(_) | BackupError::NotAbsolute(_) => {
            return Problem::violation("target", error.to_string());
        }
        BackupError::Busy(_) => (ProblemKind::Precondition, "BACKUP_BUSY"),
        BackupError::NotOurs(_) => (ProblemKind::Precondition, "NOT_A_BACKUP_DIRECTORY"),
        BackupError::OtherCluster { .. } => (ProblemKind::Precondition, "OTHER_CLUSTER"),
        BackupError::Damaged { .. } => (ProblemKind::Precondition, "BACKUP_DAMAGED"),
        BackupError::Partition { .. } => (ProblemKind::Precondition, "PARTITION_NOT_WELL"),
        BackupError::Domain { .. } => (ProblemKind::Precondition, "PROJECTION_NOT_WELL"),
        BackupError::NothingYet | BackupError::Behind { .. } | BackupError::Installing => {
            (ProblemKind::Precondition, "NOT_READY")
        }
        BackupError::Closing => return Problem::shutting_down(),
        BackupError::Io { .. } => (ProblemKind::Precondition, "BACKUP_FAILED"),
    };
    Problem::new(kind, reason, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field that is wrong, or the reason of a refusal.
    fn refused(places: &BackupPlaces, named: &str) -> String {
        let problem = places.directory("target", named).unwrap_err();
        problem.to_string()
    }

    #[test]
    fn a_backup_lies_below_its_root_whatever_the_path_pretends() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, outside) = (base.join("root"), base.join("outside"));
        std::fs::create_dir_all(root.join("here")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("out")).unwrap();
        std::os::unix::fs::symlink(root.join("here"), base.join("in")).unwrap();
        std::os::unix::fs::symlink(&root, base.join("the root")).unwrap();
        let named = |path: &Path| path.to_str().unwrap().to_owned();
        // The root itself may be named by a link, too.
        for root in [root.clone(), base.join("the root")] {
            let places = BackupPlaces::Below(root.clone());
            let fine = |path: PathBuf| places.directory("target", &named(&path)).unwrap();
            assert_eq!(fine(root.clone()), base.join("root"));
            assert_eq!(fine(root.join("new/deeper")), base.join("root/new/deeper"));
            assert_eq!(fine(base.join("in/x")), base.join("root/here/x"));
            for path in [
                outside.clone(),
                base.join("rooter"),
                root.join("out/x"),
                root.join("../outside"),
                root.join("new/../../outside"),
                PathBuf::from("/"),
            ] {
                let told = refused(&places, &named(&path));
                assert!(told.contains("backup.root") || told.contains("`..`"), "{}: {told}", path.display());
            }
        }
        assert!(refused(&BackupPlaces::Anywhere, "here").contains("absolute"));
        assert!(refused(&BackupPlaces::Anywhere, "/a/../b").contains("`..`"));
        assert!(refused(&BackupPlaces::Nowhere, &named(&root)).contains("backup.root"));
        assert_eq!(BackupPlaces::Anywhere.directory("target", &named(&outside)).unwrap(), outside);
    }
}
