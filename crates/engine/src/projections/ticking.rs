//! A leader's duty: when time alone changes something in a domain, a lease that ran out or a slot that has rested, it lets the log
//! know. Nobody would notice otherwise until the next command.
//!
//! Must not know: what expires.

use std::sync::Arc;
use std::time::Duration;

use gapless_projection::Command;

use super::asking::ask;
use super::slot::{DomainSlot, DomainState};
use crate::node::Node;

/// How long the answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a node rests whose tick was not taken.
const REST: Duration = Duration::from_millis(100);

/// Ticks until the domain closes.
pub(super) async fn run(node: Arc<Node>, slot: Arc<DomainSlot>) {
    let mut closing = slot.closing.subscribe();
    tokio::select! {
        _ = closing.wait_for(|closing| *closing) => {}
        () = tick(&node, &slot) => {}
    }
}

async fn tick(node: &Arc<Node>, slot: &Arc<DomainSlot>) {
    let (mut sight, mut leads) = (slot.sight.subscribe(), node.leads.subscribe());
    let mut state = slot.state.subscribe();
    loop {
        let is_serving = *state.borrow_and_update() == DomainState::Serving;
        let (is_leading, seen) = (*leads.borrow_and_update(), *sight.borrow_and_update());
        let due =
            seen.filter(|_| is_leading && is_serving).and_then(|sight| Some((sight.due?, sight.offset)));
        let wait = due.and_then(|(due, offset)| Some(until(due, offset, node.leader_time()?)));
        tokio::select! {
            biased;
            changed = sight.changed() => if changed.is_err() { return },
            changed = leads.changed() => if changed.is_err() { return },
            changed = state.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {
                if ask(node, slot, &Command::Tick, PATIENCE).await.is_err() {
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
}

/// How long it takes until the clock of a domain says so.
fn until(due: u64, offset: i64, now: u64) -> Duration {
    let clock = i128::from(now) + i128::from(offset);
    let left = i128::from(due) - clock;
    Duration::from_millis(u64::try_from(left.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_not_waited_for() {
        assert_eq!(until(100, 0, 40), Duration::from_millis(60));
        assert_eq!(until(100, 50, 40), Duration::from_millis(10));
        assert_eq!(until(100, -50, 140), Duration::from_millis(10));
        assert_eq!((until(100, 0, 100), until(100, 0, 500)), (Duration::ZERO, Duration::ZERO));
        assert_eq!(until(u64::MAX, i64::MIN, 0), Duration::from_millis(u64::MAX));
    }
}
