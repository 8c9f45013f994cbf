//! The power goes, or an operation fails, at every operation of the life of a single voter. Whatever is left of the disk, every
//! entry that was acknowledged is there afterwards, at the same index.

use std::sync::Arc;

use bytes::Bytes;
use gapless_consensus::Replicator;
use gapless_log::io::faulty::{Crash, Fault, FaultyIo};
use gapless_types::LogIndex;

use crate::harness::{entry, open_alone};
use crate::ledger::{Ledger, Survives};

/// What was acknowledged, and what the machine kept.
#[derive(Default)]
struct Life {
    acknowledged: Vec<(LogIndex, Bytes)>,
    survives: Survives,
}

impl Life {
    /// Opens, proposes, makes a snapshot, cuts, proposes on, closes; as far as it gets.
    async fn live(&mut self, disk: &FaultyIo, from: u64) -> Option<()> {
        let ledger = Ledger::new(&self.survives);
        let node = open_alone(Arc::new(disk.clone()), ledger.clone()).await.ok()?;
        let mut leadership = node.leadership();
        leadership.wait_for(|now| now.is_ready() || now.stopped.is_some()).await.ok()?;
        let mut done = None;
        for number in from..from + 8 {
            let tickets = [number * 2, number * 2 + 1].map(|number| (number, node.propose(entry(number))));
            for (number, ticket) in tickets {
                if let Ok(index) = ticket.await {
                    self.acknowledged.push((index, entry(number)));
                    done = Some(index);
                }
            }
            if let Some(index) = done.filter(|_| number % 4 == 3) {
                let _ = node.purge_to(index).await;
            }
        }
        let _ = node.close().await;
        node.kill().await;
        disk.has_power().then_some(())
    }

    /// Everything acknowledged is in what the machine has now.
    async fn check(&self, disk: &FaultyIo, context: &str) {
        let ledger = Ledger::new(&self.survives);
        let node = open_alone(Arc::new(disk.clone()), ledger.clone()).await;
        let node = node.unwrap_or_else(|error| panic!("{context}: {error:?}"));
        crate::harness::leads(&node).await;
        let entries = ledger.entries();
        for (index, entry) in &self.acknowledged {
            let found = entries.iter().find(|kept| kept.0 == index.get());
            assert_eq!(found.and_then(|kept| kept.2.as_ref()), Some(entry), "ACK-1: {context}");
        }
        node.close().await.unwrap();
    }
}

/// How many operations two lives take.
async fn operations() -> u64 {
    let (disk, mut life) = (FaultyIo::new(0), Life::default());
    life.live(&disk, 0).await.unwrap();
    life.live(&disk, 100).await.unwrap();
    assert_eq!(life.acknowledged.len(), 32);
    disk.operations()
}

#[tokio::test(start_paused = true)]
async fn nothing_acknowledged_is_lost_when_the_power_goes_at_any_operation() {
    let operations = operations().await;
    assert!(operations > 100, "{operations} operations");
    for number in 1..=operations {
        for style in Crash::ALL {
            let (disk, mut life) = (FaultyIo::new(number), Life::default());
            disk.cut_at(number);
            if life.live(&disk, 0).await.is_some() {
                life.live(&disk, 100).await;
            }
            disk.restart(style);
            life.check(&disk, &format!("power cut at operation {number}, {style:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_operation_ends_the_node_or_changes_nothing() {
    let operations = operations().await;
    for number in 1..=operations {
        let (disk, mut life) = (FaultyIo::new(number), Life::default());
        disk.fail_at(number, Fault::Any);
        life.live(&disk, 0).await;
        life.live(&disk, 100).await;
        disk.cancel_faults();
        disk.restart(Crash::LoseAll);
        life.check(&disk, &format!("operation {number} fails")).await;
    }
}
