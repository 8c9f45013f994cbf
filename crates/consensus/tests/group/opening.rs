//! Directories that do not belong to the node, or are not whole.

use std::path::Path;
use std::sync::Arc;

use gapless_consensus::network::Nobody;
use gapless_consensus::{Node, OpenError, Replicator};
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;

use crate::harness::{alone, config, entry, identity, leads, open_alone};
use crate::ledger::{Ledger, Survives};

const CONTROL: &str = "node-1/CONTROL";

/// A disk with a node that has voted and acknowledged, and what its machine kept.
async fn used_disk() -> (MemoryIo, Survives) {
    let (io, survives) = (MemoryIo::new(), Survives::default());
    let ledger = Ledger::new(&survives);
    let node = open_alone(Arc::new(io.clone()), ledger.clone()).await.unwrap();
    leads(&node).await;
    for number in 0..5 {
        node.propose(entry(number)).await.unwrap();
    }
    node.purge_to(node.read_point().await.unwrap()).await.unwrap();
    node.close().await.unwrap();
    (io, survives)
}

async fn open(io: &MemoryIo, survives: &Survives) -> Result<Node, OpenError> {
    open_alone(Arc::new(io.clone()), Ledger::new(survives)).await
}

#[tokio::test(start_paused = true)]
async fn a_damaged_control_file_is_found_at_every_byte() {
    let (io, survives) = used_disk().await;
    let whole = io.bytes_of(Path::new(CONTROL)).unwrap();
    for (at, byte) in whole.iter().enumerate() {
        let damaged = io.fork();
        damaged.overwrite(Path::new(CONTROL), at as u64, &[byte ^ 0x10]).unwrap();
        let refused = open(&damaged, &survives).await;
        assert!(matches!(refused, Err(OpenError::ControlDamaged { .. })), "byte {at}: {refused:?}");
        let torn = io.fork();
        torn.set_len(Path::new(CONTROL), at as u64).unwrap();
        let refused = open(&torn, &survives).await;
        assert!(matches!(refused, Err(OpenError::ControlDamaged { .. })), "{at} bytes: {refused:?}");
    }
    open(&io, &survives).await.unwrap().close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_control_file_and_a_lost_log_are_found() {
    let (io, survives) = used_disk().await;
    let without_control = io.fork();
    without_control.remove(Path::new(CONTROL)).unwrap();
    assert!(matches!(open(&without_control, &survives).await, Err(OpenError::ControlMissing(_))));

    let without_log = io.fork();
    for name in without_log.list(Path::new("node-1/log")).unwrap() {
        without_log.remove(&Path::new("node-1/log").join(name)).unwrap();
    }
    assert!(matches!(open(&without_log, &survives).await, Err(OpenError::OtherLog { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_directory_of_another_node_is_not_opened() {
    let (io, survives) = used_disk().await;
    let mut other = config(1, 1, alone());
    other.identity = identity(2);
    let refused = Node::open(Arc::new(io), Arc::new(Nobody), Ledger::new(&survives), other).await;
    assert!(matches!(refused, Err(OpenError::Foreign { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_lost_what_the_log_no_longer_holds_is_not_opened() {
    let (io, _) = used_disk().await;
    let refused = open(&io, &Survives::default()).await;
    assert!(matches!(refused, Err(OpenError::MachineAstray { .. })), "{refused:?}");
}
