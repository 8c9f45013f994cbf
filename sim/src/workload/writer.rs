//! Clients that write: each intends something and asks for it until it is told what became of it.
//!
//! Must not know: which node is in trouble.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gapless_engine::{WriteError, WriteOptions};
use gapless_partition::{Outcome, RefusalCode};
use tokio::time::Instant;

use super::intent::Intent;
use super::{BRIEF, BRIEF_WINDOW, CALM_WRITES, SEASONAL, SHOP, Stage};
use crate::sometimes::Situation;
use crate::trace::note;
use crate::world::Running;

/// What became of one request.
enum Attempt {
    Told(Arc<Outcome>),
    /// Nobody knows: the answer was lost, the node ended, or it took too long.
    Unknown,
    /// Nothing was done, or something that a retry finds out.
    TurnedAway(WriteError),
}

/// Writes until there is no trouble any more, and a little longer.
pub(crate) async fn run(stage: Arc<Stage>, number: u64, mut chance: fastrand::Rng) {
    let client = format!("writer {number}");
    let mut left = CALM_WRITES;
    let mut brief: VecDeque<(Instant, Intent)> = VecDeque::new();
    loop {
        if stage.is_calm() {
            if left == 0 {
                return;
            }
            left -= 1;
        }
        let namespace = match chance.u8(..8) {
            0 | 1 => BRIEF,
            2 if !stage.is_calm() => SEASONAL,
            _ => SHOP,
        };
        let mut intent = Intent::new(stage.next_intent(), namespace, &client, &mut chance);
        if namespace == BRIEF {
            // A key that should be forgotten by now is used again, for something else.
            let is_old =
                |(when, _): &mut (Instant, Intent)| when.elapsed() > Duration::from_millis(2 * BRIEF_WINDOW);
            if let Some((_, old)) = brief.pop_front_if(is_old) {
                intent = intent.under_key_of(&old);
            }
            brief.push_back((Instant::now(), intent.clone()));
        }
        stage.checkers.ask(intent.id, intent.key);
        match namespace {
            SHOP => shop(&stage, &intent, &mut chance).await,
            // Its key may be forgotten, so nobody insists for long.
            _ => {
                let _ = ask_briefly(&stage, &intent, &mut chance).await;
            }
        }
        tokio::time::sleep(Duration::from_micros(chance.u64(..40_000))).await;
    }
}

async fn shop(stage: &Arc<Stage>, intent: &Intent, chance: &mut fastrand::Rng) {
    if chance.u8(..6) == 0 {
        stage.world.sometimes.saw(Situation::Raced);
        let (mut one, mut other) = (chance.fork(), chance.fork());
        tokio::join!(insist(stage, intent, &mut one), insist(stage, intent, &mut other));
    } else {
        insist(stage, intent, chance).await;
    }
    if chance.u8(..10) == 0 {
        insist(stage, intent, chance).await;
    }
    // What was found ends the run, and nobody insists any more.
    if chance.u8(..10) == 0 && !stage.world.findings.any() {
        reuse(stage, intent, chance).await;
    }
}

/// Asks until somebody tells the outcome.
async fn insist(stage: &Stage, intent: &Intent, chance: &mut fastrand::Rng) {
    let term = stage.checkers.newest_term();
    loop {
        if let Some(outcome) = ask(stage, intent, chance).await {
            if stage.checkers.newest_term() > term && term.is_some() {
                stage.world.sometimes.saw(Situation::RetryOverLeaderChange);
            }
            if let Outcome::Refused(refusal) = &*outcome {
                if refusal.code == RefusalCode::IdempotencyKeyReused {
                    let what =
                        format!("write {} is told that its key was used for something else", intent.id);
                    stage.world.findings.add("IDEM-1", what);
                }
                stage.world.sometimes.saw(Situation::ConditionRefused);
            }
            return;
        }
        if stage.world.findings.any() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(chance.u64(1..150))).await;
    }
}

/// Asks two times at most, within a time in which no key is forgotten.
async fn ask_briefly(stage: &Stage, intent: &Intent, chance: &mut fastrand::Rng) -> bool {
    for _ in 0..2 {
        if ask(stage, intent, chance).await.is_some() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// Uses the key of a decided write for something else: that must be refused.
async fn reuse(stage: &Stage, intent: &Intent, chance: &mut fastrand::Rng) {
    let other = intent.with_other_body();
    let Some(node) = choose(stage, chance) else { return };
    if let Attempt::Told(outcome) = attempt(stage, &node, &other, chance).await {
        match &*outcome {
            Outcome::Refused(refusal) if refusal.code == RefusalCode::IdempotencyKeyReused => {
                stage.world.sometimes.saw(Situation::KeyReuseRefused);
            }
            told => {
                let what = format!("the key of write {} was used for something else: {told:?}", intent.id);
                stage.world.findings.add("IDEM-1", what);
            }
        }
    }
}

/// Asks once; what was told, if anything was.
async fn ask(stage: &Stage, intent: &Intent, chance: &mut fastrand::Rng) -> Option<Arc<Outcome>> {
    let node = choose(stage, chance)?;
    let attempt = attempt(stage, &node, intent, chance).await;
    let (trace, sometimes) = (&stage.world.trace, &stage.world.sometimes);
    match attempt {
        Attempt::Told(outcome) => {
            note!(trace, "write {} at node {}: {outcome:?}", intent.id, node.life.node);
            stage.checkers.answer(intent.id, &outcome);
            return Some(outcome);
        }
        Attempt::Unknown => {
            note!(trace, "write {} at node {}: nobody knows", intent.id, node.life.node);
            sometimes.saw(Situation::OutcomeUnknown);
        }
        Attempt::TurnedAway(error) => {
            note!(trace, "write {} at node {}: {error}", intent.id, node.life.node);
            match error {
                WriteError::Invalid(reasons) => {
                    stage
                        .world
                        .findings
                        .add("CLIENT", format!("write {} is invalid: {reasons:?}", intent.id));
                }
                WriteError::Admission(_) => sometimes.saw(Situation::AdmissionRefused),
                _ => {}
            }
        }
    }
    None
}

/// The node that leads, usually; any other one now and then.
pub(crate) fn choose(stage: &Stage, chance: &mut fastrand::Rng) -> Option<Running> {
    if chance.u8(..5) > 0
        && let Some(leader) = stage.world.leader()
    {
        return Some(leader);
    }
    let running = stage.world.running();
    chance.choice(running.iter()).cloned()
}

async fn attempt(stage: &Stage, node: &Running, intent: &Intent, chance: &mut fastrand::Rng) -> Attempt {
    tokio::time::sleep(Duration::from_micros(chance.u64(..2_000))).await;
    let options = WriteOptions { patience: Duration::from_millis(chance.u64(50..2_000)) };
    let write = intent.write();
    let told = tokio::select! {
        biased;
        () = node.life.ended() => return Attempt::Unknown,
        told = node.engine.write(intent.namespace, intent.key, &write, options) => told,
    };
    // The node may have ended before it could say anything; and an answer may get lost.
    let lost = stage.world.plan.weather.lost > 0 && !stage.is_calm() && chance.u8(..20) == 0;
    if !node.life.is_on() || lost {
        return Attempt::Unknown;
    }
    match told {
        Ok(acknowledgement) => Attempt::Told(acknowledgement.outcome),
        Err(WriteError::DeadlineExceeded) => Attempt::Unknown,
        Err(error) => Attempt::TurnedAway(error),
    }
}
