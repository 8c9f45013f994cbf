//! What anyone can hold against a root that they kept.

use std::time::Duration;

use gapless_engine::Acknowledgement;
use gapless_engine::partition::proof::TreeSize;
use gapless_engine::partition::{Direction, Outcome, View};
use gapless_engine::types::{WorkspaceId, WorkspaceOffset};

use super::LedgerCalls;
use crate::event::{block_header, event, hash};
use crate::problem::{Problem, ProblemKind};
use crate::reading::{Question, off_thread, partition_of};
use crate::v1;

impl LedgerCalls {
    /// The block of an event, with the event.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn get_block(
        &self,
        request: v1::GetBlockRequest,
        patience: Duration,
    ) -> Result<v1::GetBlockResponse, Problem> {
        let offset = offset("height", request.height)?;
        let workspace = WorkspaceId::new(request.workspace);
        let found = partition_of(&self.engine, &request.namespace, request.workspace)?;
        let prove = move |view: &View| {
            let header = view.block_header(workspace, offset)?;
            let stored = view.events(workspace, offset, 1, Direction::Forward)?.pop();
            let stored = stored.ok_or_else(|| no_event(workspace, offset))?;
            Ok(v1::GetBlockResponse {
                header: Some(block_header(&header)),
                event: Some(event(&found.name, found.partition, &stored)?),
                leaf: stored.bytes().clone(),
            })
        };
        self.proven(&request.namespace, request.workspace, request.options, patience, prove).await
    }

    /// An event, with a proof that it is in the tree of a size.
    ///
    /// # Errors
    /// If it is not, or it cannot be read.
    pub async fn get_inclusion_proof(
        &self,
        request: v1::GetInclusionProofRequest,
        patience: Duration,
    ) -> Result<v1::GetInclusionProofResponse, Problem> {
        let offset = offset("workspace_offset", request.workspace_offset)?;
        let workspace = WorkspaceId::new(request.workspace);
        let prove = move |view: &View| {
            let size = size_or_newest(view, workspace, request.tree_size)?;
            let stored = view.events(workspace, offset, 1, Direction::Forward)?.pop();
            let stored = stored.ok_or_else(|| no_event(workspace, offset))?;
            Ok(v1::GetInclusionProofResponse {
                proof: Some(merkle_proof(view, workspace, offset, size)?),
                leaf: stored.bytes().clone(),
            })
        };
        self.proven(&request.namespace, request.workspace, request.options, patience, prove).await
    }

    /// A proof that the tree of one size begins with that of a smaller one.
    ///
    /// # Errors
    /// If there are no such trees, or they cannot be read.
    pub async fn get_consistency_proof(
        &self,
        request: v1::GetConsistencyProofRequest,
        patience: Duration,
    ) -> Result<v1::GetConsistencyProofResponse, Problem> {
        let workspace = WorkspaceId::new(request.workspace);
        let prove = move |view: &View| {
            let old = TreeSize::new(request.old_size);
            let new = size_or_newest(view, workspace, request.new_size)?;
            let hashes = view.consistency_proof(workspace, old, new)?;
            Ok(v1::GetConsistencyProofResponse {
                old_size: old.get(),
                new_size: new.get(),
                old_root: hash(view.head_of(workspace, old)?.root),
                new_root: hash(view.head_of(workspace, new)?.root),
                hashes: hashes.into_iter().map(hash).collect(),
            })
        };
        self.proven(&request.namespace, request.workspace, request.options, patience, prove).await
    }

    /// Size and root of a tree.
    ///
    /// # Errors
    /// If there is no such tree, or it cannot be read.
    pub async fn get_root(
        &self,
        request: v1::GetRootRequest,
        patience: Duration,
    ) -> Result<v1::GetRootResponse, Problem> {
        let workspace = WorkspaceId::new(request.workspace);
        let prove = move |view: &View| {
            let head = view.head_of(workspace, size_or_newest(view, workspace, request.tree_size)?)?;
            Ok(v1::GetRootResponse { tree_size: head.size.get(), root: hash(head.root) })
        };
        self.proven(&request.namespace, request.workspace, request.options, patience, prove).await
    }

    /// Puts the block header of a committed write into its answer, with a proof in the tree that ends with it: every retry gets
    /// the same.
    pub(crate) async fn prove(
        &self,
        request: &v1::WriteRequest,
        acknowledgement: &Acknowledgement,
        answer: &mut v1::WriteResponse,
        patience: Duration,
    ) -> Result<(), Problem> {
        let (Outcome::Committed(committed), Some(v1::write_response::Result::Success(success))) =
            (&*acknowledgement.outcome, &mut answer.result)
        else {
            return Ok(());
        };
        let (workspace, offset) = (WorkspaceId::new(request.workspace), committed.workspace_offset);
        let options =
            v1::ReadOptions { min_partition_offset: committed.partition_offset.get(), ..Default::default() };
        let prove = move |view: &View| {
            let header = view.block_header(workspace, offset)?;
            Ok((block_header(&header), merkle_proof(view, workspace, offset, header.height.size())?))
        };
        let (header, proof) =
            self.proven(&request.namespace, request.workspace, Some(options), patience, prove).await?;
        success.block_header = Some(Box::new(header));
        success.tx_proof = Some(Box::new(proof));
        Ok(())
    }

    async fn proven<T: Send + 'static>(
        &self,
        namespace: &str,
        workspace: u64,
        options: Option<v1::ReadOptions>,
        patience: Duration,
        prove: impl FnOnce(&View) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let question = Question::about(namespace, workspace, options.as_ref());
        let (_, view) = question.view(&self.engine, patience).await?;
        off_thread(move || prove(&view)).await
    }
}

fn merkle_proof(
    view: &View,
    workspace: WorkspaceId,
    offset: WorkspaceOffset,
    size: TreeSize,
) -> Result<v1::MerkleProof, Problem> {
    let hashes = view.inclusion_proof(workspace, offset, size)?;
    let leaf = view.block_header(workspace, offset)?.leaf;
    Ok(v1::MerkleProof {
        leaf_index: offset.get() - 1,
        tree_size: size.get(),
        leaf_hash: hash(leaf),
        hashes: hashes.into_iter().map(hash).collect(),
        root: hash(view.head_of(workspace, size)?.root),
    })
}

fn size_or_newest(view: &View, workspace: WorkspaceId, size: u64) -> Result<TreeSize, Problem> {
    Ok(if size == 0 { view.head(workspace)?.size } else { TreeSize::new(size) })
}

fn offset(field: &str, offset: u64) -> Result<WorkspaceOffset, Problem> {
    WorkspaceOffset::new(offset).ok_or_else(|| Problem::violation(field, "the first event has 1"))
}

fn no_event(workspace: WorkspaceId, offset: WorkspaceOffset) -> Problem {
    let message = format!("workspace {workspace} has no event {offset}");
    Problem::new(ProblemKind::NotFound, "NO_SUCH_EVENT", message)
}
