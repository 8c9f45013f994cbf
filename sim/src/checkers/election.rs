//! At most one node leads in a term: what everything else rests on.
//!
//! Must not know: how one is elected.

use std::collections::BTreeMap;

use gapless_consensus::{Leadership, NodeId, Term};

/// Who led when.
#[derive(Debug, Default)]
pub(crate) struct Election {
    leaders: BTreeMap<Term, NodeId>,
}

impl Election {
    /// Looks at what a node says of itself.
    pub(crate) fn look(&mut self, node: NodeId, leadership: &Leadership) -> Result<(), String> {
        if !leadership.is_self {
            return Ok(());
        }
        let leader = *self.leaders.entry(leadership.term).or_insert(node);
        match leader == node {
            true => Ok(()),
            false => Err(format!("nodes {leader} and {node} both lead in term {}", leadership.term)),
        }
    }

    /// The newest term in which somebody led.
    pub(crate) fn newest(&self) -> Option<Term> {
        self.leaders.last_key_value().map(|(term, _)| *term)
    }
}
