//! Clients: they write and retry for ever, race, reuse keys, read, follow and wait, and work on a projection.
//!
//! Must not know: how trouble is made; what must be true, beyond what each is told.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gapless_partition::{Definition, IdempotencyRule};
use gapless_types::Name;
use tokio::sync::watch;

use crate::checkers::Checkers;
use crate::world::World;

pub(crate) mod intent;
pub(crate) mod reader;
pub(crate) mod worker;
pub(crate) mod writer;

/// The namespace that is always there, and whose keys are never forgotten in a run.
pub(crate) const SHOP: &str = "shop";
/// One whose keys are forgotten soon.
pub(crate) const BRIEF: &str = "brief";
/// One that comes and goes.
pub(crate) const SEASONAL: &str = "seasonal";

/// How long keys of [`BRIEF`] are known, in milliseconds.
pub(crate) const BRIEF_WINDOW: u64 = 1_500;

/// Writes that each writer asks for once there is no trouble any more.
pub(crate) const CALM_WRITES: u64 = 3;

/// What clients share.
pub(crate) struct Stage {
    pub(crate) world: Arc<World>,
    pub(crate) checkers: Arc<Checkers>,
    /// Numbers intents.
    intents: AtomicU64,
    calm: watch::Sender<bool>,
    /// Held by whoever changes the members.
    pub(crate) operating: tokio::sync::Mutex<()>,
}

impl Stage {
    pub(crate) fn new(world: Arc<World>, checkers: Arc<Checkers>) -> Self {
        Self {
            world,
            checkers,
            intents: AtomicU64::new(0),
            calm: watch::Sender::new(false),
            operating: tokio::sync::Mutex::new(()),
        }
    }

    /// There is no trouble any more.
    pub(crate) fn calm_down(&self) {
        self.calm.send_replace(true);
    }

    pub(crate) fn is_calm(&self) -> bool {
        *self.calm.borrow()
    }

    pub(crate) fn next_intent(&self) -> u64 {
        self.intents.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Goes on as soon as a namespace is defined.
    pub(crate) async fn define(&self, name: &str, window: Option<u64>, partitions: u16) -> bool {
        for _ in 0..3_000 {
            if let Some(leader) = self.world.leader()
                && leader.engine.define(definition(name, window, partitions)).await.is_ok()
            {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }
}

/// A namespace with two sequences.
pub(crate) fn definition(namespace: &str, window: Option<u64>, partitions: u16) -> Definition {
    let name = |text: &str| Name::new(text).expect("a valid name");
    let partitions = NonZeroU16::new(partitions).expect("at least one partition");
    let mut definition = Definition::new(name(namespace), partitions)
        .with_sequence(name("invoice"), 1)
        .with_sequence(name("ticket"), 1);
    if let Some(window_ms) = window {
        definition.idempotency = IdempotencyRule { window_ms, ..IdempotencyRule::default() };
    }
    if namespace == SHOP {
        definition = definition.with_projection(name(worker::TALLY), worker::plan());
    }
    definition
}
