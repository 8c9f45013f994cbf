//! Shortcuts for a program that keeps its ledger in its own process. Nothing here is a second path: each is a few calls of what a
//! server uses, too.
//!
//! Must not know: anything that the calls it makes keep to themselves.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;

use gapless_partition::proof::{Hash, Head, LeafIndex, TreeSize, VerifyError, verify_inclusion};
use gapless_partition::{Committed, Direction, Outcome, ProofError, Refusal, StoredOutcome, View};
use gapless_types::{IdempotencyKey, WorkspaceId, WorkspaceOffset};
use sha2::{Digest, Sha256};

use crate::engine::{Config, Engine};
use crate::error::{OpenError, ReadError};
use crate::reads::ReadOptions;
use crate::write::Acknowledgement;

/// The key of an intended write that has a name of its own: an order number, the id of a message. The same name gives the same key
/// in every process and on every machine, so that a program that knows what it wanted can retry without having kept a key.
#[must_use]
pub fn named_key(name: &str) -> IdempotencyKey {
    let mut hash = Sha256::new();
    hash.update(b"gapless key 1\0");
    hash.update(name);
    let hash = hash.finalize();
    let key = IdempotencyKey::try_from(&hash[..IdempotencyKey::BYTES]);
    key.expect("nobody has found a text whose SHA-256 begins with 128 zeros")
}

/// How many threads a runtime should have that an engine runs on, if it does little else: three quarters as many as there are
/// processors. Partitions are applied, and logs are written, on threads of the engine's own. With as many of the runtime's as there are
/// processors, each of those that it wakes for one more task displaces another that was about to do it.
#[must_use]
pub fn runtime_threads() -> NonZeroUsize {
    let processors = available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(processors * 3 / 4).unwrap_or(NonZeroUsize::MIN)
}

/// An event, with what shows that it stands at its place in its workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventProof {
    /// The event as it stands in the partition log: what is proven is every byte of it.
    pub event: StoredOutcome,
    /// The hashes beside its way to the root.
    pub hashes: Vec<Hash>,
}

impl EventProof {
    /// Checks that the event is in the tree with this head, which is one that the verifier kept or has from somebody he trusts.
    ///
    /// # Errors
    /// If the proof does not show it.
    pub fn verify(&self, head: &Head) -> Result<(), VerifyError> {
        let offset = self.event.header().workspace_offset.expect("an event has a place in its workspace");
        let leaf = self.event.leaf_hash().expect("an event is a leaf");
        verify_inclusion(leaf, LeafIndex::new(offset.get() - 1), head, &self.hashes)
    }
}

impl Engine {
    /// Opens a node of its own in a directory, and waits until it takes writes.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub async fn embed(dir: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let engine = Self::open(Config::embedded(dir)).await?;
        engine.wait_for_leader().await;
        engine.wait_until_actualized().await;
        Ok(engine)
    }

    /// Size and root of the tree over all events of a workspace: what somebody keeps who wants to have something proven later.
    ///
    /// # Errors
    /// If there is no such namespace, or it cannot be read.
    pub async fn head_of(&self, namespace: &str, workspace: WorkspaceId) -> Result<Head, ReadError> {
        self.prove(namespace, workspace, move |view| view.head(workspace)).await
    }

    /// An event, with a proof that it is in the tree over the first `size` events of its workspace.
    ///
    /// # Errors
    /// If it is not, or it cannot be read.
    pub async fn proof_of(
        &self,
        namespace: &str,
        workspace: WorkspaceId,
        offset: WorkspaceOffset,
        size: TreeSize,
    ) -> Result<EventProof, ReadError> {
        let prove = move |view: &View| {
            let hashes = view.inclusion_proof(workspace, offset, size)?;
            let event = view.events(workspace, offset, 1, Direction::Forward)?.pop();
            Ok(EventProof { event: event.expect("NUM-1: what is in the tree is an event"), hashes })
        };
        self.prove(namespace, workspace, prove).await
    }

    async fn prove<T: Send + 'static>(
        &self,
        namespace: &str,
        workspace: WorkspaceId,
        prove: impl FnOnce(&View) -> Result<T, ProofError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let view = self.view_of(namespace, workspace, ReadOptions::default()).await?;
        Ok(self.node().workers.run(move || prove(&view)).await?)
    }
}

impl Acknowledgement {
    /// The numbers that the write was given.
    ///
    /// # Errors
    /// If it was refused: that is decided, too, and a retry gets the same refusal.
    pub fn committed(&self) -> Result<&Committed, Refusal> {
        match &*self.outcome {
            Outcome::Committed(committed) => Ok(committed),
            Outcome::Refused(refusal) => Err(refusal.clone()),
            other => unreachable!("a write is committed or refused, not {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_same_key_for_ever_and_another_name_another() {
        assert_eq!(named_key("order 1").to_string(), "112672006de516b935135cf97bb8595f");
        assert_ne!(named_key("order 1"), named_key("order 2"));
    }
}
