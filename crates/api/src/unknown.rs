//! What a node says of something that it does not know.
//!
//! Invariants
//! - A node that has more to learn does not say that something does not exist: one that has just started has the definitions of its
//!   last checkpoint, and the newer ones still before it. A client that comes back first must not take that for an answer.
//!
//! Must not know: what was asked for.

use std::time::Duration;

use gapless_engine::Engine;

use crate::problem::{Problem, ProblemKind};

/// When it is worth asking again.
const SOON: Duration = Duration::from_millis(100);

/// Why a namespace is not found.
pub(crate) fn namespace(engine: &Engine, name: &str) -> Problem {
    not_yet(engine).unwrap_or_else(|| Problem::no_namespace(name))
}

/// That what is not known may have been decided already, if it may.
pub(crate) fn not_yet(engine: &Engine) -> Option<Problem> {
    has_more_to_learn(engine).then(|| {
        let message = "the node does not know all yet that was decided before; ask again";
        Problem::new(ProblemKind::Unavailable, "ACTUALIZING", message).after(SOON)
    })
}

fn has_more_to_learn(engine: &Engine) -> bool {
    let replicator = engine.replicator();
    let (leadership, progress) = (replicator.leadership().borrow().clone(), *replicator.progress().borrow());
    match leadership.leader {
        _ if leadership.is_ready() => false,
        Some(_) if !leadership.is_self => progress.dispatched < progress.committed,
        _ => true,
    }
}
