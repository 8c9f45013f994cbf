//! The power goes, or an operation fails, at every operation of the life of a single voter. Whatever is left of the disk, every
//! entry that was acknowledged is there afterwards, at the same index.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gapless_consensus::{Refusal, Replicator};
use gapless_log::io::faulty::{Crash, Fault, FaultyIo};
use gapless_types::LogIndex;

use crate::harness::{entry, eventually, leads, open_alone};
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
        leads(&node).await;
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

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_waited_for_and_then_ends_the_node_with_everything_acknowledged_kept() {
    let (disk, mut life) = (FaultyIo::new(1), Life::default());
    let ledger = Ledger::new(&life.survives);
    let node = open_alone(Arc::new(disk.clone()), ledger.clone()).await.unwrap();
    leads(&node).await;
    // Nothing more is given out, so that the next segment finds no room.
    disk.set_capacity(Some(0));
    let propose = |number: u64| {
        let bytes = Bytes::from(vec![u8::try_from(number).unwrap(); 50_000]);
        (bytes.clone(), node.propose(bytes))
    };
    let tickets: Vec<_> = (0..12).map(propose).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(ledger.proposals().len() < 12, "some wait for room");
    disk.set_capacity(None);
    for (bytes, ticket) in tickets {
        life.acknowledged.push((ticket.await.unwrap(), bytes));
    }
    assert_eq!(ledger.proposals().len(), 12);

    disk.set_capacity(Some(0));
    let tickets: Vec<_> = (12..24).map(propose).collect();
    eventually("the node gives up", || node.leadership().borrow().stopped.is_some()).await;
    for (bytes, ticket) in tickets {
        match ticket.await {
            Ok(index) => life.acknowledged.push((index, bytes)),
            Err(refusal) => assert!(matches!(refusal, Refusal::Unknown | Refusal::Stopped), "{refusal}"),
        }
    }
    assert_eq!(node.propose(entry(0)).await, Err(Refusal::Stopped));
    node.kill().await;
    disk.set_capacity(None);
    life.check(&disk, "after a full disk").await;
}
