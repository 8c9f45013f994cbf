//! Proofs: what anyone can hold against a root that they kept, for any event and any two sizes, at any time.
//!
//! Everything is computed when it is asked for, from hashes that were stored once. The tree of a size never changes, so a proof
//! for a size that a client knows is the same whenever it is asked for, and on every replica.
//!
//! Must not know: who verifies, whether the client asked for a proof when it wrote.

use gapless_proof::{BlockHeader, Hash, Head, Height, Tree, TreeSize};
use gapless_types::{WorkspaceId, WorkspaceOffset};
use thiserror::Error;

use crate::error::Fault;
use crate::hashes::{self, Hashes};
use crate::rows;
use crate::schema::WORKSPACE_OFFSET;
use crate::stored::StoredOutcome;
use crate::view::View;

/// Why there is no such proof.
#[derive(Clone, Debug, Error)]
pub enum ProofError {
    /// The workspace has fewer events.
    #[error("workspace {workspace} has {events} events, and so no tree of {size}")]
    TooLarge {
        /// Which workspace.
        workspace: WorkspaceId,
        /// The size that was asked for.
        size: TreeSize,
        /// How many events it has.
        events: u64,
    },
    /// The event came later than the size.
    #[error("event {offset} is not in a tree of {size} events")]
    NotIncluded {
        /// Which event.
        offset: WorkspaceOffset,
        /// The size that was asked for.
        size: TreeSize,
    },
    /// The tree that should be the older one is larger.
    #[error("a tree of {old} events cannot become one of {new}")]
    OutOfOrder {
        /// The size that should be the smaller one.
        old: TreeSize,
        /// The size that should be the larger one.
        new: TreeSize,
    },
    /// Store or log cannot be read.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl View {
    /// Size and root of the tree over all events of a workspace; of the empty tree, if it does not exist.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn head(&self, workspace: WorkspaceId) -> Result<Head, ProofError> {
        self.head_of(workspace, self.tree_size(workspace)?)
    }

    /// Size and root of the tree over the first events of a workspace.
    ///
    /// # Errors
    /// If it has fewer, or the store cannot be read.
    pub fn head_of(&self, workspace: WorkspaceId, size: TreeSize) -> Result<Head, ProofError> {
        self.check_size(workspace, size)?;
        Ok(Tree::over(&self.hashes(workspace)).head(size).map_err(hashes::fault)?)
    }

    /// Proof that an event is in the tree over the first `size` events of its workspace.
    ///
    /// # Errors
    /// If it is not, if there are fewer, or the store cannot be read.
    pub fn inclusion_proof(
        &self,
        workspace: WorkspaceId,
        offset: WorkspaceOffset,
        size: TreeSize,
    ) -> Result<Vec<Hash>, ProofError> {
        self.check_size(workspace, size)?;
        let height = height(offset);
        if height.size() > size {
            return Err(ProofError::NotIncluded { offset, size });
        }
        let hashes = self.hashes(workspace);
        Ok(Tree::over(&hashes).inclusion_proof(height.index(), size).map_err(hashes::fault)?)
    }

    /// Proof that the tree over the first `new` events of a workspace begins with the one over the first `old` events.
    ///
    /// # Errors
    /// If there are fewer, if `old` is the larger one, or the store cannot be read.
    pub fn consistency_proof(
        &self,
        workspace: WorkspaceId,
        old: TreeSize,
        new: TreeSize,
    ) -> Result<Vec<Hash>, ProofError> {
        self.check_size(workspace, new)?;
        if old > new {
            return Err(ProofError::OutOfOrder { old, new });
        }
        Ok(Tree::over(&self.hashes(workspace)).consistency_proof(old, new).map_err(hashes::fault)?)
    }

    /// The block of an event: what a client keeps of it.
    ///
    /// # Errors
    /// If there is no such event, or store or log cannot be read.
    pub fn block_header(
        &self,
        workspace: WorkspaceId,
        offset: WorkspaceOffset,
    ) -> Result<BlockHeader, ProofError> {
        let head = self.head_of(workspace, height(offset).size())?;
        let row = self.rows.get(&rows::index::key(self.partition.namespace, workspace, offset.get()))?;
        let row = row.ok_or(Fault::row("an event without a place"))?;
        let (place, leaf) = rows::index::decode(&row).ok_or(Fault::row("a place that is none"))?;
        let event = StoredOutcome::read(&self.log, place)?;
        let header = event.header();
        Ok(BlockHeader {
            height: height(offset),
            leaf,
            root: head.root,
            time: header.time,
            log_index: header.log_index.get(),
        })
    }

    fn tree_size(&self, workspace: WorkspaceId) -> Result<TreeSize, Fault> {
        Ok(TreeSize::new(self.number(workspace, WORKSPACE_OFFSET)?.unwrap_or(0)))
    }

    fn check_size(&self, workspace: WorkspaceId, size: TreeSize) -> Result<(), ProofError> {
        let events = self.tree_size(workspace)?;
        if size <= events {
            return Ok(());
        }
        Err(ProofError::TooLarge { workspace, size, events: events.get() })
    }

    fn hashes(&self, workspace: WorkspaceId) -> Hashes<'_> {
        Hashes { rows: &self.rows, namespace: self.partition.namespace, workspace, newest: &[] }
    }
}

impl From<gapless_store::ReadError> for ProofError {
    fn from(error: gapless_store::ReadError) -> Self {
        Fault::from(error).into()
    }
}

fn height(offset: WorkspaceOffset) -> Height {
    Height::new(offset.get()).expect("offsets start at 1")
}
