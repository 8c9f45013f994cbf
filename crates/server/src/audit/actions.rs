//! An action from its beginning to its end, each an event of the audit.
//!
//! ```text
//!  begun ──▶ done or failed: written down here, behind it
//!       ├──▶ dropped: abandoned
//!       └──▶ done, and this node leads no more: whoever leads then says so
//! ```
//!
//! Must not know: what an action does; who may do it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gapless_api::{Problem, v1};
use gapless_engine::Engine;
use serde_json::{Value, json};

use super::writing::{not_written, written};
use super::{Audit, Kept, Later};
use crate::access::Caller;
use crate::access::rules::{Asked, Rule, Scope};

/// Longest name of something that is told, in characters: a request may be wrong, and say anything.
const MAX_NAME_CHARS: usize = 256;

/// An action that is about to be done. Whoever does it says how it ended.
#[derive(Debug)]
#[must_use = "dropped, nobody knows how it ended"]
pub(crate) struct Begun(Option<Action>);

#[derive(Debug)]
struct Action {
    audit: Audit,
    kept: Arc<Kept>,
    /// Which event says that it begun; none if only the lines of the node do.
    number: Option<u64>,
    principal: String,
    call: &'static str,
    /// Whether this node leads no more when it is done.
    ends_leadership: bool,
}

impl Begun {
    pub(super) fn new<M: Asked>(
        audit: Audit,
        kept: Arc<Kept>,
        number: Option<u64>,
        caller: &Caller,
        message: &M,
    ) -> Self {
        let ends_leadership = ends_leadership(&kept.engine, message);
        let (principal, call) = (caller.principal.name.clone(), M::RULE.call);
        Self(Some(Action { audit, kept, number, principal, call, ends_leadership }))
    }

    /// What is not audited.
    pub(crate) fn unaudited() -> Self {
        Self(None)
    }

    /// It was done, or was not. Ready when that is written down, or cannot be: what is done is done.
    pub(crate) async fn ended(mut self, problem: Option<&Problem>) {
        let Some(action) = self.0.take() else { return };
        let Some((event_type, event)) = action.outcome(problem) else { return };
        if problem.is_none() && action.ends_leadership {
            // Whoever leads from now on says so, which is its end.
            return;
        }
        // Whoever asked may go away now: how it ended is written all the same.
        let writing = tokio::spawn(async move {
            let Action { audit, kept, .. } = action;
            if let Err(unwritten) = written(&kept.engine, event_type, &event).await {
                not_written(audit.counters(), event_type, &unwritten);
            }
        });
        let _ = writing.await;
    }
}

impl Action {
    /// What is written down about how it ended.
    fn outcome(&self, problem: Option<&Problem>) -> Option<(&'static str, Value)> {
        let Some(number) = self.number else {
            let reason = problem.map(|problem| &*problem.reason);
            tracing::warn!(
                principal = self.principal,
                call = self.call,
                reason,
                "ended on a node that does not lead"
            );
            return None;
        };
        let mut event = self.referring_to(number);
        match problem {
            None => Some(("AdminActionDone", event)),
            Some(problem) => {
                event["reason"] = Value::from(&*problem.reason);
                Some(("AdminActionFailed", event))
            }
        }
    }

    fn referring_to(&self, number: u64) -> Value {
        json!({"action": number, "principal": self.principal, "call": self.call})
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let Some(action) = self.0.take() else { return };
        let Some(number) = action.number else { return };
        let later = Later { event_type: "AdminActionAbandoned", event: action.referring_to(number) };
        if action.kept.later.try_send(later).is_err() {
            action.audit.counters().unwritten.fetch_add(1, Relaxed);
        }
    }
}

/// The calls after which somebody else may lead.
const TRANSFER_LEADER: &str = <v1::TransferLeaderRequest as Asked>::RULE.call;
const REMOVE_NODE: &str = <v1::RemoveNodeRequest as Asked>::RULE.call;

/// Whether this is that another node is to lead, or that this one is to go.
fn ends_leadership<M: Asked>(engine: &Engine, message: &M) -> bool {
    let node = message.objects().into_iter().find_map(|(name, node)| (name == "node_id").then_some(node));
    let is_about_self = node.is_some_and(|node| node == engine.id().get());
    match M::RULE.call {
        TRANSFER_LEADER => !is_about_self,
        REMOVE_NODE => is_about_self,
        _ => false,
    }
}

/// What concerns one node alone, whoever leads.
pub(super) fn is_local(rule: &Rule) -> bool {
    matches!(rule.call, "Snapshot" | "Backup" | "RepairPartition")
}

/// What is written down about an action that is about to be done.
pub(super) fn action<M: Asked>(caller: &Caller, message: &M) -> Value {
    let mut event = json!({
        "principal": caller.principal.name,
        "address": caller.peer.ip().to_string(),
        "call": M::RULE.call,
        "namespace": Value::Null,
    });
    if let Scope::Namespace(name) = message.scope() {
        event["namespace"] = cut(&name);
    }
    for (name, object) in message.objects() {
        match object.as_str() {
            Some("") => {}
            Some(text) => event[name] = cut(text),
            None if object == 0 => {}
            None => event[name] = object,
        }
    }
    event
}

fn cut(name: &str) -> Value {
    Value::from(name.chars().take(MAX_NAME_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Principal;

    fn operator() -> Caller {
        let peer = ([10, 0, 0, 7], 5).into();
        Caller { principal: Arc::new(Principal::anybody()), peer, expires: None }
    }

    #[test]
    fn an_action_says_what_it_is_about_and_no_more_of_it_than_a_name() {
        let repair = v1::RepairPartitionRequest {
            namespace: "shop".to_owned(),
            partition: 3,
            any_node: true,
            ..Default::default()
        };
        let told = json!({
            "principal": "anybody", "address": "10.0.0.7", "call": "RepairPartition",
            "namespace": "shop", "partition": 3,
        });
        assert_eq!(action(&operator(), &repair), told);
        let lead = v1::TransferLeaderRequest { node_id: 4 };
        assert_eq!(action(&operator(), &lead)["node_id"], 4);
        let long = v1::RebuildRequest { namespace: "é".repeat(1 << 20), projection: "p".repeat(1 << 20) };
        let told = action(&operator(), &long);
        for name in ["namespace", "projection"] {
            assert_eq!(told[name].as_str().unwrap().chars().count(), MAX_NAME_CHARS, "{name}");
        }
    }
}
