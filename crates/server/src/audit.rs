//! The audit: what was administered, and who was not let in, as events of the namespace of the node itself. So they are ordered,
//! durable and provable like everything else.
//!
//! ```text
//!  an action   ──▶ AdminAction, acknowledged ──▶ the action ──▶ AdminActionDone, or ...Failed with the reason    (no event: it is not done)
//!                                                          └──▶ AdminActionAbandoned: whoever asked did not wait for its end
//!  leadership  ──▶ LeaderElected, by whoever leads from now on, which is also how a TransferLeader that went well ends
//!  a stranger  ──▶ counted; now and then an event with how many more there were
//! ```
//!
//! Invariants
//! - Nothing of a request is in it but its call and the names of what it is about, cut where they are too long; nothing of a
//!   credential is.
//! - An action that begun and did not end in it before somebody else leads is one of which nobody knows: the process, or its
//!   leadership, ended first.
//! - Whatever strangers do, there is at most one event of theirs in a while.
//!
//! Must not know: who may do what.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gapless_api::{Problem, ProblemKind, v1};
use gapless_engine::partition::{Definition, Outcome, Write};
use gapless_engine::types::{IdempotencyKey, Name, WorkspaceId};
use gapless_engine::{Engine, WriteOptions};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::access::rules::{Asked, Rule, Scope};
use crate::access::{Caller, SYSTEM};

/// Where the audit is, in the namespace of the node.
const WORKSPACE: u64 = 1;
/// Who writes it.
const WRITER: &str = "audit";
/// How long an action waits for its event.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Why whoever does not lead writes nothing.
const NOT_LEADER: &str = "NOT_LEADER";
/// Events of strangers that are written at once, and how long it takes until one more is.
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(5);
/// Events that nobody waits for and that wait to be written.
const WAITING: usize = 32;
/// Longest name of something that is told, in characters: a request may be wrong, and say anything.
const MAX_NAME_CHARS: usize = 256;

/// What became of what strangers did.
#[derive(Debug, Default)]
pub(crate) struct AuditCounters {
    /// Requests without a credible credential.
    pub(crate) refused: AtomicU64,
    /// Requests of somebody who may not.
    pub(crate) denied: AtomicU64,
    /// What is in no event.
    pub(crate) unwritten: AtomicU64,
}

/// The audit of a node. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Audit(Option<Arc<Kept>>, Arc<AuditCounters>);

#[derive(Debug)]
struct Kept {
    engine: Engine,
    /// What nobody waits for.
    later: mpsc::Sender<Later>,
    bucket: Mutex<Bucket>,
}

/// An event that is written when its turn comes.
#[derive(Debug)]
struct Later {
    event_type: &'static str,
    event: Value,
}

#[derive(Debug)]
struct Bucket {
    left: u32,
    since: Instant,
    /// How many were not written since one was.
    more: u64,
}

impl Audit {
    /// One that only counts.
    pub(crate) fn off() -> Self {
        Self(None, Arc::default())
    }

    /// One that is kept in this engine.
    pub(crate) fn kept(engine: Engine) -> Self {
        let (later, waiting) = mpsc::channel(WAITING);
        let counters: Arc<AuditCounters> = Arc::default();
        tokio::spawn(write_later(engine.clone(), waiting, counters.clone()));
        let bucket = Mutex::new(Bucket { left: BURST, since: Instant::now(), more: 0 });
        Self(Some(Arc::new(Kept { engine, later, bucket })), counters)
    }

    pub(crate) fn counters(&self) -> &AuditCounters {
        &self.1
    }

    /// Something is about to be administered. Ready when that is on stable storage.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub(crate) async fn begin<M: Asked>(&self, caller: &Caller, message: &M) -> Result<Begun, Problem> {
        let Some(kept) = &self.0 else { return Ok(Begun::unaudited()) };
        let rule = M::RULE;
        let event = action(caller, message);
        let number = match written(&kept.engine, "AdminAction", &event).await {
            Ok(number) => Some(number),
            // It is the business of this node alone, and the audit is where the leader is: the node's own lines have to do.
            Err(Unwritten::NotLeader(_)) if is_local(rule) => {
                self.1.unwritten.fetch_add(1, Relaxed);
                tracing::warn!(
                    principal = caller.principal.name,
                    call = rule.call,
                    "administered on a node that does not lead"
                );
                None
            }
            Err(Unwritten::NotLeader(problem) | Unwritten::Other(problem)) => return Err(problem),
        };
        let (audit, principal) = (self.clone(), caller.principal.name.clone());
        Ok(Begun(Some(Action { audit, kept: kept.clone(), number, principal, call: rule.call })))
    }

    /// This node leads from now on. It is not waited for.
    pub(crate) fn elected(&self, node: u64, term: u64) {
        let Some(kept) = &self.0 else { return };
        let later = Later { event_type: "LeaderElected", event: json!({"node_id": node, "term": term}) };
        if kept.later.try_send(later).is_err() {
            self.1.unwritten.fetch_add(1, Relaxed);
        }
    }

    /// Somebody asked without a credible credential.
    pub(crate) fn refused(&self, address: std::net::IpAddr, reason: &str) {
        self.1.refused.fetch_add(1, Relaxed);
        self.stranger(
            "AuthenticationRefused",
            |more| json!({"address": address.to_string(), "reason": reason, "more": more}),
        );
    }

    /// Somebody asked for what he may not.
    pub(crate) fn denied(&self, caller: &Caller, rule: &Rule) {
        self.1.denied.fetch_add(1, Relaxed);
        self.stranger("PermissionDenied", |more| {
            json!({
                "principal": caller.principal.name,
                "address": caller.peer.ip().to_string(),
                "call": rule.call,
                "more": more,
            })
        });
    }

    /// Writes it down, or counts it.
    fn stranger(&self, event_type: &'static str, event: impl FnOnce(u64) -> Value) {
        let Some(kept) = &self.0 else { return };
        let mut bucket = kept.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(more) = bucket.take(Instant::now()) else { return };
        if kept.later.try_send(Later { event_type, event: event(more) }).is_err() {
            bucket.more += more + 1;
        }
    }
}

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
}

impl Begun {
    /// What is not audited.
    pub(crate) fn unaudited() -> Self {
        Self(None)
    }

    /// It was done, or was not. Ready when that is written down, or cannot be: what is done is done.
    pub(crate) async fn ended(mut self, problem: Option<&Problem>) {
        let Some(action) = self.0.take() else { return };
        let Some((event_type, event)) = action.outcome(problem) else { return };
        if problem.is_none() && action.is_handed_over() {
            return;
        }
        // Whoever asked may go away now: how it ended is written all the same.
        let writing = tokio::spawn(async move {
            let Action { audit, kept, .. } = action;
            if let Err(unwritten) = written(&kept.engine, event_type, &event).await {
                not_written(&audit.1, event_type, &unwritten);
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

    /// Whether it was that somebody else is to lead, and somebody does: whoever that is says so, which is its end.
    fn is_handed_over(&self) -> bool {
        self.call == TRANSFER_LEADER && !self.kept.engine.replicator().leadership().borrow().is_self
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
            action.audit.1.unwritten.fetch_add(1, Relaxed);
        }
    }
}

impl Bucket {
    /// How many were only counted since the last one, if there may be one more event now.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let steps = now.saturating_duration_since(self.since).as_secs() / REFILL.as_secs();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(steps).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + REFILL * steps };
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.more))
            }
            None => {
                self.more += 1;
                None
            }
        }
    }
}

/// The call after which somebody else leads.
const TRANSFER_LEADER: &str = <v1::TransferLeaderRequest as Asked>::RULE.call;

/// What concerns one node alone, whoever leads.
fn is_local(rule: &Rule) -> bool {
    matches!(rule.call, "Snapshot" | "Backup" | "RepairPartition")
}

/// What is written down about an action that is about to be done.
fn action<M: Asked>(caller: &Caller, message: &M) -> Value {
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

async fn write_later(engine: Engine, mut waiting: mpsc::Receiver<Later>, counters: Arc<AuditCounters>) {
    while let Some(Later { event_type, event }) = waiting.recv().await {
        if let Err(unwritten) = written(&engine, event_type, &event).await {
            not_written(&counters, event_type, &unwritten);
        }
    }
}

fn not_written(counters: &AuditCounters, event_type: &str, unwritten: &Unwritten) {
    let (Unwritten::NotLeader(problem) | Unwritten::Other(problem)) = unwritten;
    counters.unwritten.fetch_add(1, Relaxed);
    tracing::warn!("not in the audit: {event_type}: {problem}");
}

/// Why there is no event.
enum Unwritten {
    NotLeader(Problem),
    Other(Problem),
}

/// Writes an event. Its number in the audit. What passes by is waited for: a partition that is not up yet, a node that was just elected.
async fn written(engine: &Engine, event_type: &str, event: &Value) -> Result<u64, Unwritten> {
    let until = Instant::now() + PATIENCE;
    let problem = match key() {
        Ok(key) => loop {
            match attempt(engine, key, event_type, event).await {
                Ok(number) => return Ok(number),
                Err(problem) if passes_by(engine, &problem) && Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(problem) => break problem,
            }
        },
        Err(problem) => problem,
    };
    if problem.reason == NOT_LEADER {
        return Err(Unwritten::NotLeader(problem));
    }
    let message = format!("this cannot be written to the audit, and is not done without: {problem}");
    Err(Unwritten::Other(Problem::new(ProblemKind::Unavailable, "NOT_AUDITED", message)))
}

/// Whether it is worth while to try again in a moment, with the same key.
fn passes_by(engine: &Engine, problem: &Problem) -> bool {
    match &*problem.reason {
        // It was elected, and does not know yet all that was decided before.
        NOT_LEADER => engine.replicator().leadership().borrow().is_self,
        "ACTUALIZING" | "UNKNOWN_NAMESPACE" => true,
        _ => problem.kind == ProblemKind::Exhausted,
    }
}

/// Writes an event, in a namespace that is made when it is first needed.
async fn attempt(
    engine: &Engine,
    key: IdempotencyKey,
    event_type: &str,
    event: &Value,
) -> Result<u64, Problem> {
    if engine.namespace(SYSTEM).is_none() {
        let name = Name::new(SYSTEM).expect("the name of the system is a name");
        engine.define(Definition::new(name, NonZeroU16::MIN)).await?;
    }
    let payload = event.to_string();
    let mut write = Write::new(WorkspaceId::new(WORKSPACE), WRITER, event_type);
    write.payload = payload.as_bytes();
    let acknowledgement = engine.write(SYSTEM, key, &write, WriteOptions { patience: PATIENCE }).await?;
    match &*acknowledgement.outcome {
        Outcome::Committed(committed) => Ok(committed.workspace_offset.get()),
        outcome => Err(Problem::new(ProblemKind::Internal, "INTERNAL", format!("{outcome:?}"))),
    }
}

fn key() -> Result<IdempotencyKey, Problem> {
    let internal = |why: String| Problem::new(ProblemKind::Internal, "INTERNAL", why);
    let mut key = [0; IdempotencyKey::BYTES];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| internal("the system gives no random numbers".to_owned()))?;
    IdempotencyKey::new(key).map_err(|error| internal(error.to_string()))
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

    #[test]
    fn strangers_are_counted_when_they_are_many() {
        let now = Instant::now();
        let mut bucket = Bucket { left: BURST, since: now, more: 0 };
        for _ in 0..BURST {
            assert_eq!(bucket.take(now), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(bucket.take(now), None);
        }
        assert_eq!(bucket.take(now + REFILL), Some(7));
        assert_eq!(bucket.take(now + REFILL), None);
        assert_eq!(bucket.take(now + REFILL * 1000), Some(1));
    }
}
