//! Namespaces and partitions at run time: defined, dropped, frozen and thawed through the log, so that every replica agrees.
//!
//! Must not know: how a definition is written down.

use std::time::Duration;

use gapless_partition::Definition;
use gapless_types::{LogIndex, NamespaceId, PartitionId};
use tokio::sync::oneshot;

use crate::barriers::Target;
use crate::catalog::{CatalogCommand, Namespace};
use crate::engine::Engine;
use crate::error::{CatalogError, NotLeader};
use crate::proposing::{CatalogRefused, CatalogRequest, Request};

/// How long a change of the catalog is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

impl Engine {
    /// Defines a namespace, or defines it anew. Ready when every partition of it here has taken it.
    ///
    /// # Errors
    /// Everything that is wrong with the definition or cannot change; or if this node does not lead.
    pub async fn define(&self, definition: Definition) -> Result<NamespaceId, CatalogError> {
        let (index, namespace) = self.change(CatalogRequest::Define(definition)).await?;
        let id = namespace.ok_or(CatalogError::Uncertain)?;
        let catalog = self.node().catalog();
        let namespace = catalog.by_id(id).ok_or(CatalogError::Uncertain)?;
        let targets: Vec<_> =
            namespace.partitions().map(|partition| (partition, Target::Index(index))).collect();
        self.reach_all(&targets, PATIENCE).await.map_err(|_| CatalogError::DeadlineExceeded)?;
        Ok(id)
    }

    /// Drops a namespace with everything in it. Another one can take its name afterwards.
    ///
    /// # Errors
    /// If there is none, or this node does not lead.
    pub async fn drop_namespace(&self, name: &str) -> Result<(), CatalogError> {
        let id = self.node().catalog().by_name(name).map(|namespace| namespace.id);
        let id = id.ok_or(CatalogError::Unknown)?;
        self.change(CatalogRequest::Command(CatalogCommand::Drop(id))).await.map(|_| ())
    }

    /// Lets a partition take no writes any more.
    ///
    /// # Errors
    /// If there is none, or this node does not lead.
    pub async fn freeze(&self, partition: PartitionId) -> Result<(), CatalogError> {
        self.alter(partition, CatalogCommand::Freeze(partition)).await
    }

    /// Lets a partition take writes again.
    ///
    /// # Errors
    /// If there is none, or this node does not lead.
    pub async fn thaw(&self, partition: PartitionId) -> Result<(), CatalogError> {
        self.alter(partition, CatalogCommand::Thaw(partition)).await
    }

    /// All namespaces, by id.
    pub fn namespaces(&self) -> Vec<Namespace> {
        self.node().catalog().namespaces().cloned().collect()
    }

    /// A namespace by its name.
    pub fn namespace(&self, name: &str) -> Option<Namespace> {
        self.node().catalog().by_name(name).cloned()
    }

    async fn alter(&self, partition: PartitionId, command: CatalogCommand) -> Result<(), CatalogError> {
        self.node().slot(partition).ok_or(CatalogError::Unknown)?;
        self.change(CatalogRequest::Command(command)).await.map(|_| ())
    }

    /// Proposes a change, and waits until it was dispatched here.
    async fn change(&self, request: CatalogRequest) -> Result<(LogIndex, Option<NamespaceId>), CatalogError> {
        let (reply, answer) = oneshot::channel();
        let changed = async {
            self.requests()
                .send(Request::Catalog(request, reply))
                .await
                .map_err(|_| CatalogError::Closing)?;
            let answer = answer.await.unwrap_or(Err(CatalogRefused::NotLeading));
            let (index, namespace) = answer.map_err(|refused| self.refused(refused))?;
            let mut dispatched = self.node().dispatched.subscribe();
            let reached = dispatched.wait_for(|dispatched| *dispatched >= Some(index)).await;
            reached.map_err(|_| CatalogError::Closing)?;
            Ok((index, namespace))
        };
        tokio::time::timeout(PATIENCE, changed).await.unwrap_or(Err(CatalogError::Uncertain))
    }

    fn refused(&self, refused: CatalogRefused) -> CatalogError {
        match refused {
            CatalogRefused::Reasons(reasons) => CatalogError::Refused(reasons),
            CatalogRefused::NotLeading => {
                let leader = self.node().replicator().leadership().borrow().leader.clone();
                NotLeader { leader }.into()
            }
            CatalogRefused::Unknown => CatalogError::Uncertain,
        }
    }
}
