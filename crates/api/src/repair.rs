//! Repairing a partition of a node that serves, as the service Admin gives it.
//!
//! Must not know: what is damaged, and how it is made whole.

use gapless_engine::{NodeId, RepairError, RepairSource};

use crate::admin::AdminCalls;
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
        let source = self.source(request)?;
        let partition = self.partition(&request.namespace, request.partition)?;
        let engine = self.engine.clone();
        let repair = tokio::spawn(async move { engine.repair(partition, source).await });
        let report = repair.await.map_err(|_| Problem::shutting_down())?.map_err(|error| problem(&error))?;
        let line =
            |repaired: &gapless_engine::Repaired| format!("{}: {}", repaired.path.display(), repaired.what);
        Ok(v1::RepairPartitionResponse { repaired: report.repaired.iter().map(line).collect() })
    }
}

impl AdminCalls {
    /// What a partition is to be repaired from: one thing.
    fn source(&self, request: &v1::RepairPartitionRequest) -> Result<RepairSource, Problem> {
        match (request.source.as_str(), request.node, request.any_node) {
            ("", 0, false) => Ok(RepairSource::OwnLog),
            ("", node, false) => Ok(RepairSource::Node(NodeId::new(node))),
            ("", 0, true) => Ok(RepairSource::AnyNode),
            ("", _, true) => Err(Problem::violation("any_node", "cannot be given together with a node")),
            (source, 0, false) => self.backups.directory("source", source).map(RepairSource::Backup),
            _ => Err(Problem::violation("source", "cannot be given together with a node")),
        }
    }
}

fn problem(error: &RepairError) -> Problem {
    let (kind, reason) = match error {
        RepairError::NoPartition(_) | RepairError::UnknownPartition(_) => {
            (ProblemKind::NotFound, "UNKNOWN_PARTITION")
        }
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
