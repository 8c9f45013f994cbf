//! Workers that stall, die and come back while nodes do the same: the read model is the fold of the events, on every node, and equal
//! to what the rules made of the same events.

use std::time::Duration;

use gapless_engine::projection::{Command, Done, Payload, Refusal};
use gapless_engine::{Engine, Freshness, LeaseRequest, Leased, ProjectionError};
use gapless_types::{PartitionIndex, WorkspaceId};
use serde_json::json;

use crate::harness::{Cluster, id, shop};
use crate::projections::{PATIENCE, commit, compute, days, define, fold, held, rules, with, workers, write};

/// A lease that somebody holds, or believes to, with what he has computed.
struct Hand {
    leased: Leased,
    computed: Option<Vec<u8>>,
}

struct Storm {
    cluster: Cluster,
    chance: fastrand::Rng,
    hands: Vec<Hand>,
    zombies: u64,
}

impl Storm {
    async fn engine(&self) -> Engine {
        self.cluster.engine(self.cluster.leader().await)
    }

    /// Somebody takes work, or does a step of it, or forgets it.
    async fn act(&mut self) {
        let engine = self.engine().await;
        let what = self.chance.u8(..10);
        if what < 4 || self.hands.is_empty() {
            let request = LeaseRequest {
                worker: ["ann", "bob", "cid"][self.chance.usize(..3)],
                max: self.chance.u32(1..8),
                ttl: Some(Duration::from_millis(self.chance.u64(50..3000))),
                wait: Duration::ZERO,
                partition: None,
            };
            let leased = engine.lease("shop", "work", request).await.unwrap_or_default();
            self.hands.extend(leased.into_iter().map(|leased| Hand { leased, computed: None }));
            return;
        }
        let at = self.chance.usize(..self.hands.len());
        let domain = self.hands[at].leased.domain.clone();
        match what {
            // Computed now, and committed at some other time, or never.
            4 | 5 => {
                if self.hands[at].leased.event.is_some() && self.hands[at].computed.is_none() {
                    let computed = compute(&engine, &self.hands[at].leased).await;
                    self.hands[at].computed = Some(computed);
                }
            }
            6 | 7 => {
                let hand = &self.hands[at];
                let Some(computed) = hand.computed.clone().or_else(|| allocated(&hand.leased)) else {
                    return;
                };
                match commit(&engine, &hand.leased, &computed).await {
                    Ok(Done::Refused(refusal)) => {
                        assert!(is_of_a_zombie(refusal), "{refusal}");
                        self.zombies += 1;
                        self.hands.swap_remove(at);
                    }
                    Ok(Done::Committed { .. }) => {
                        // Some send it again, as after an answer that was lost.
                        if self.chance.bool() {
                            self.hands.swap_remove(at);
                        }
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => assert!(is_unknown(&error), "{error}"),
                }
            }
            8 => {
                let held = held(&self.hands[at].leased);
                let command = match self.chance.u8(..3) {
                    0 => Command::Release { held },
                    1 => Command::Fail { held, error: "no luck" },
                    _ => Command::Renew { held, ttl_ms: 1000 },
                };
                if let Err(error) = engine.command(&domain, &command, PATIENCE).await {
                    assert!(is_unknown(&error), "{error}");
                }
                if self.chance.bool() {
                    self.hands.swap_remove(at);
                }
            }
            _ => {
                let ttl = Some(Duration::from_millis(self.chance.u64(50..1000)));
                let allocated = engine.allocate(&domain, "planner", WorkspaceId::new(5), ttl, PATIENCE).await;
                if let Ok(Ok(leased)) = allocated {
                    self.hands.push(Hand { leased, computed: None });
                }
            }
        }
    }

    async fn kill_or_start(&mut self, nodes: u64) {
        let running = self.cluster.running();
        if self.chance.bool() && running.len() as u64 > nodes / 2 {
            let victim = running[self.chance.usize(..running.len())];
            self.cluster.kill(victim).await;
            // One alone comes back at once: somebody has to lead.
            if nodes == 1 || self.cluster.running().len() as u64 <= nodes / 2 {
                self.cluster.start(victim).await;
            }
            return;
        }
        for node in (1..=nodes).map(id) {
            if !self.cluster.running().contains(&node) {
                self.cluster.start(node).await;
            }
        }
    }

    /// Does what is left, whoever did it before.
    async fn work_off(&self, tail: u64) {
        for _ in 0..2000 {
            let engine = self.engine().await;
            let Ok(domain) = engine.domain("shop", "work", PartitionIndex::new(0)) else { continue };
            if engine.wait_for_slot(&domain, tail, Duration::ZERO).await.is_ok() {
                return;
            }
            let request = LeaseRequest {
                worker: "last",
                max: 16,
                ttl: Some(Duration::from_secs(5)),
                wait: Duration::from_secs(1),
                partition: None,
            };
            let Ok(leased) = engine.lease("shop", "work", request).await else {
                // The log is short of room for a moment, or nobody leads.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            for leased in leased {
                let computed = match leased.event {
                    Some(_) => Some(compute(&engine, &leased).await),
                    None => allocated(&leased),
                };
                let _ = commit(&engine, &leased, &computed.unwrap()).await;
            }
        }
        panic!("the work never ended");
    }
}

/// What is committed to a slot that has no event.
fn allocated(leased: &Leased) -> Option<Vec<u8>> {
    leased.event.is_none().then(|| Payload::result(&json!({"slot": leased.grant.slot})).to_bytes())
}

fn is_of_a_zombie(refusal: Refusal) -> bool {
    matches!(
        refusal,
        Refusal::StaleToken
            | Refusal::LeaseExpired
            | Refusal::LeaseReleased
            | Refusal::LeaseReturned
            | Refusal::SlotFilled
            | Refusal::AlreadyCommitted
            | Refusal::AlreadyResolved
            | Refusal::PayloadMismatch
    )
}

fn is_unknown(error: &ProjectionError) -> bool {
    matches!(
        error,
        ProjectionError::NotLeader(_)
            | ProjectionError::Uncertain
            | ProjectionError::DeadlineExceeded
            | ProjectionError::Closing
            | ProjectionError::NotOpen { .. }
            | ProjectionError::Overloaded(_)
            | ProjectionError::Stopped { .. }
    )
}

async fn storm(nodes: u64, seed: u64, rounds: u64) -> u64 {
    println!("seed {seed}");
    let cluster = Cluster::found_retaining(nodes, seed, 30, 1).await;
    let plan = workers(&json!({"max_attempts": 1_000_000, "window": 24, "key_serial": seed % 2 == 0}));
    define(&cluster, with(with(shop(1), "work", plan), "sales", rules())).await;
    let mut storm = Storm { cluster, chance: fastrand::Rng::with_seed(seed), hands: Vec::new(), zombies: 0 };
    let mut number = 0;
    for _ in 0..rounds {
        for _ in 0..storm.chance.u64(0..6) {
            write(&storm.cluster, number, 5).await;
            number += 1;
        }
        for _ in 0..storm.chance.u64(0..12) {
            storm.act().await;
        }
        match storm.chance.u8(..6) {
            0 => storm.kill_or_start(nodes).await,
            1 => tokio::time::sleep(Duration::from_millis(storm.chance.u64(0..4000))).await,
            _ => {}
        }
    }
    for node in (1..=nodes).map(id) {
        if !storm.cluster.running().contains(&node) {
            storm.cluster.start(node).await;
        }
    }
    let last = write(&storm.cluster, number, 5).await;
    for node in storm.cluster.running() {
        let alarms = storm.cluster.engine(node).alarms();
        let cut = alarms.iter().find(|alarm| alarm.contains("is cut although projection"));
        assert_eq!(cut, None, "TRUNC-1: seed {seed}, node {node}");
    }
    let engine = storm.engine().await;
    let domain = engine.domain("shop", "work", PartitionIndex::new(0)).unwrap();
    engine.projected(&domain, Freshness::Linearizable, PATIENCE).await.unwrap();
    let tail = engine.projection("shop", "work").unwrap().domains[0].status.clone().unwrap().tail;
    storm.work_off(tail).await;
    let mut seen = Vec::new();
    for node in storm.cluster.running() {
        let engine = storm.cluster.engine(node);
        for projection in ["work", "sales"] {
            let domain = engine.domain("shop", projection, PartitionIndex::new(0)).unwrap();
            let view = engine.projected(&domain, Freshness::AtLeast(last), PATIENCE).await.unwrap();
            assert_eq!(days(&view, 5), fold(0..=number), "ORD-1: seed {seed}, {projection}, node {node}");
            let effects = view.effects(0).map(|effect| effect.unwrap()).take(usize::try_from(tail).unwrap());
            seen.push((projection, format!("{:?}", effects.collect::<Vec<_>>())));
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 2, "NUM-3: seed {seed}: effects are not the same on every node");
    let zombies = storm.zombies;
    drop(engine);
    storm.cluster.close_all().await;
    zombies
}

#[tokio::test(start_paused = true)]
async fn workers_and_three_nodes_in_a_storm() {
    let mut zombies = 0;
    for seed in 0..10 {
        zombies += storm(3, seed, 30).await;
    }
    assert!(zombies > 0, "somebody came too late");
}

#[tokio::test(start_paused = true)]
async fn workers_and_one_node_in_a_storm() {
    for seed in 100..112 {
        storm(1, seed, 30).await;
    }
}
