//! Repairing a partition of a node that serves, as the service Admin gives it.
//!
//! Must not know: what is damaged, and how it is made whole.

use std::path::Path;

use gapless_engine::{NodeId, RepairError, RepairSource};

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
        let source = source(request)?;
        let partition = self.partition(&request.namespace, request.partition)?;
        let engine = self.engine.clone();
        let repair = tokio::spawn(async move { engine.repair(partition, source).await });
        let report = repair.await.map_err(|_| Problem::shutting_down())?.map_err(|error| problem(&error))?;
        let line =
            |repaired: &gapless_engine::Repaired| format!("{}: {}", repaired.path.display(), repaired.what);
        Ok(v1::RepairPartitionResponse { repaired: report.repaired.iter().map(line).collect() })
    }
}

/// What it is to be repaired from: one thing.
fn source(request: &v1::RepairPartitionRequest) -> Result<RepairSource, Problem> {
    let mut check = Check::default();
    let from = Path::new(&request.source);
    let source = match (request.source.as_str(), request.node, request.any_node) {
        ("", 0, false) => RepairSource::OwnLog,
        ("", node, false) => RepairSource::Node(NodeId::new(node)),
        ("", 0, true) => RepairSource::AnyNode,
        ("", _, true) => {
            check.add("any_node", "cannot be given together with a node");
            RepairSource::AnyNode
        }
        (source, 0, false) => {
            if !from.is_absolute() || source.contains('\0') {
                let wrong =
                    "has to be an absolute path of a directory of backups on the machine of the server";
                check.add("source", wrong);
            }
            RepairSource::Backup(from.to_path_buf())
        }
        _ => {
            check.add("source", "cannot be given together with a node");
            RepairSource::OwnLog
        }
    };
    check.end()?;
    Ok(source)
}

fn problem(error: &RepairError) -> Problem {
    let (kind, reason) = match error {
        RepairError::NoPartition(_) => (ProblemKind::NotFound, "UNKNOWN_PARTITION"),
        RepairError::NoBackup(_) | RepairError::NotInBackup { .. } => {
            (ProblemKind::Precondition, "NO_BACKUP")
        }
        RepairError::NoPeer { .. } | RepairError::Peer { .. } => (ProblemKind::Precondition, "NO_NODE"),
        RepairError::Differs { .. } => (ProblemKind::Precondition, "DIFFERS"),
        RepairError::Lost { .. } => (ProblemKind::Precondition, "LOST"),
        RepairError::Verify(_) | RepairError::Backup(_) | RepairError::Failed { .. } => {
            (ProblemKind::Precondition, "NOT_REPAIRED")
        }
    };
    Problem::new(kind, reason, error.to_string())
}
