//! What is known of workspaces that were written to lately: spares two reads of the store for most events. May forget, and never
//! changes a result.

use std::collections::HashMap;

use gapless_types::{ClientSequence, WorkspaceId, WorkspaceKind};

/// Workspaces that are known at most; with more, all are forgotten.
const MOST_WORKSPACES: usize = 16 << 10;
/// Clients that are known of one workspace at most.
const MOST_CLIENTS: usize = 4;

/// Workspaces that were written to lately.
#[derive(Debug, Default)]
pub(crate) struct Recent(HashMap<WorkspaceId, Workspace>);

#[derive(Debug)]
struct Workspace {
    kind: WorkspaceKind,
    clients: Vec<(Box<str>, ClientSequence)>,
}

impl Recent {
    pub(crate) fn kind(&self, workspace: WorkspaceId) -> Option<WorkspaceKind> {
        self.0.get(&workspace).map(|known| known.kind)
    }

    pub(crate) fn client(&self, workspace: WorkspaceId, client: &str) -> Option<ClientSequence> {
        let known = self.0.get(&workspace)?;
        known.clients.iter().find(|(name, _)| **name == *client).map(|(_, last)| *last)
    }

    /// Takes note of a committed event.
    pub(crate) fn learn(
        &mut self,
        workspace: WorkspaceId,
        kind: WorkspaceKind,
        client: &str,
        last: ClientSequence,
    ) {
        if self.0.len() >= MOST_WORKSPACES && !self.0.contains_key(&workspace) {
            self.0.clear();
        }
        let known = self.0.entry(workspace).or_insert_with(|| Workspace { kind, clients: Vec::new() });
        match known.clients.iter_mut().find(|(name, _)| **name == *client) {
            Some((_, sequence)) => *sequence = last,
            None => {
                if known.clients.len() >= MOST_CLIENTS {
                    known.clients.clear();
                }
                known.clients.push((client.into(), last));
            }
        }
    }
}
