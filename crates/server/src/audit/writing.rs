//! Getting an event of the audit to stable storage, and what to wait for on the way.
//!
//! Must not know: what events say.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use gapless_api::{Problem, ProblemKind};
use gapless_engine::partition::{Definition, Outcome, Write};
use gapless_engine::types::{IdempotencyKey, Name, WorkspaceId};
use gapless_engine::{Engine, WriteOptions};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{AuditCounters, Later};
use crate::access::SYSTEM;

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

/// Writes what nobody waits for, one after the other.
pub(super) async fn write_later(
    engine: Engine,
    mut waiting: mpsc::Receiver<Later>,
    counters: Arc<AuditCounters>,
) {
    while let Some(Later { event_type, event }) = waiting.recv().await {
        if let Err(unwritten) = written(&engine, event_type, &event).await {
            not_written(&counters, event_type, &unwritten);
        }
    }
}

/// What is in no event is counted, and told in the lines of the node.
pub(super) fn not_written(counters: &AuditCounters, event_type: &str, unwritten: &Unwritten) {
    let (Unwritten::NotLeader(problem) | Unwritten::Other(problem)) = unwritten;
    counters.unwritten.fetch_add(1, Relaxed);
    tracing::warn!("not in the audit: {event_type}: {problem}");
}

/// Why there is no event.
pub(super) enum Unwritten {
    NotLeader(Problem),
    Other(Problem),
}

/// Writes an event. Its number in the audit. What passes by is waited for: a partition that is not up yet, a node that was just elected.
pub(super) async fn written(engine: &Engine, event_type: &str, event: &Value) -> Result<u64, Unwritten> {
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
