//! Reads partition logs again, a segment at a time, to find rot before a reader does.
//!
//! Every node reads what lies on its own disk: a copy that is well elsewhere says nothing of it. The replicated log looks after itself;
//! the stores need nobody, because a damaged one is found when it is read, and folded anew from its log.
//!
//! Invariants
//! - What is found changes nothing: the partition goes on with what it knows. Whoever runs the node is told, and what mends it.
//! - It reads no faster than it may.
//!
//! Must not know: what outcomes say, how a log is repaired.

use std::sync::Arc;
use std::time::Duration;

use gapless_log::{Scrub, Scrubbed};

use crate::node::Node;
use crate::slot::{Busy, Slot};

/// Time between two looks for something to read, if there is nothing.
const REST: Duration = Duration::from_secs(30);
/// How often a partition that is busy is looked at, and the time in between.
const LOOKS: usize = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Scrubs all partitions, one after the other, again and again, until the node closes.
pub(crate) async fn run(node: Arc<Node>, bytes_per_second: u64) {
    if bytes_per_second == 0 {
        return;
    }
    let mut closing = node.closing.subscribe();
    let round = async {
        loop {
            for slot in node.all_slots() {
                scrub(&node, &slot, bytes_per_second).await;
            }
            tokio::time::sleep(REST).await;
        }
    };
    tokio::select! {
        _ = closing.wait_for(|closing| *closing) => {}
        () = round => {}
    }
}

/// Reads every sealed segment of a partition log once.
async fn scrub(node: &Arc<Node>, slot: &Arc<Slot>, bytes_per_second: u64) {
    let Some(mut scrub) = begin(slot).await else { return };
    loop {
        let (stepped, next) = node.workers.run_long(move || (scrub.step(), scrub)).await;
        scrub = next;
        match stepped {
            Ok(Some(step)) => {
                tell(node, slot, &step);
                tokio::time::sleep(pause(step.bytes, bytes_per_second)).await;
                if step.round_complete || slot.is_closing() {
                    return;
                }
            }
            Ok(None) => return,
            // Whoever needs the disk finds out, too; this one tries again in the next round.
            Err(_) if slot.is_closing() => return,
            Err(error) => {
                node.alarm(format!("the log of partition {} cannot be scrubbed: {error}", slot.id));
                return;
            }
        }
    }
}

/// The scrub of a partition that is open, and not busy for all too long: one that is stuck keeps nobody (ISO-1).
async fn begin(slot: &Slot) -> Option<Scrub> {
    for _ in 0..LOOKS {
        match slot.try_log() {
            Ok(log) => return log.map(|log| log.scrub()),
            Err(Busy) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
    None
}

fn tell(node: &Node, slot: &Slot, step: &Scrubbed) {
    for damage in &step.damage {
        node.alarm(format!(
            "the log of partition {} is damaged: {damage}; `gapless partitions repair` makes it whole",
            slot.id
        ));
    }
}

/// How long it rests after it has read this much.
fn pause(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / bytes_per_second)
}
