//! Repairing a partition of a node that serves, as the service Admin gives it.
//!
//! Must not know: what is damaged, and how it is made whole.

use std::path::PathBuf;

use gapless_engine::RepairError;

use crate::admin::AdminCalls;
use crate::check::Check;
use crate::problem::{Problem, ProblemKind};
use crate::v1;

impl AdminCalls {
    /// Makes a partition of this node anew, while the others serve. It goes on if nobody listens any more.
    ///
    /// # Errors
    /// If there is no such partition, or it was not repaired: then it is opened as it is.
    pub async fn repair_partition(
        &self,
        request: &v1::RepairPartitionRequest,
    ) -> Result<v1::RepairPartitionResponse, Problem> {
        let mut check = Check::default();
        let source = match request.source.as_str() {
            "" => None,
            source => Some(PathBuf::from(source)),
        };
        let is_fine = |source: &PathBuf| source.is_absolute() && !request.source.contains('\0');
        if !source.as_ref().is_none_or(is_fine) {
            let wrong = "has to be an absolute path of a directory of backups on the machine of the server";
            check.add("source", wrong);
        }
        check.end()?;
        let partition = self.partition(&request.namespace, request.partition)?;
        let engine = self.engine.clone();
        let repair = tokio::spawn(async move { engine.repair(partition, source).await });
        let report = repair.await.map_err(|_| Problem::shutting_down())?.map_err(|error| problem(&error))?;
        let line =
            |repaired: &gapless_engine::Repaired| format!("{}: {}", repaired.path.display(), repaired.what);
        Ok(v1::RepairPartitionResponse { repaired: report.repaired.iter().map(line).collect() })
    }
}

fn problem(error: &RepairError) -> Problem {
    let (kind, reason) = match error {
        RepairError::NoPartition(_) => (ProblemKind::NotFound, "UNKNOWN_PARTITION"),
        RepairError::NoBackup(_) | RepairError::NotInBackup { .. } => {
            (ProblemKind::Precondition, "NO_BACKUP")
        }
        RepairError::Lost { .. } => (ProblemKind::Precondition, "LOST"),
        RepairError::Verify(_) | RepairError::Backup(_) | RepairError::Failed { .. } => {
            (ProblemKind::Precondition, "NOT_REPAIRED")
        }
    };
    Problem::new(kind, reason, error.to_string())
}
