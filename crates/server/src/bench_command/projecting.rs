//! Workers of a projection under load: each computes one slot at a time, and leases ahead of itself.
//!
//! ```text
//!  feeder: writes events, a little ahead ──▶ the server ──▶ leases ──▶ a worker: the time of the work ──▶ commits, several on their way
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use gapless_client::{Client, Error, Ledger, Projections, v1};
use tokio::task::JoinSet;

use super::load::Load;
use super::pace::Due;

/// The projection that is worked for.
pub(super) const PROJECTION: &str = "bench";
/// Slots that a worker holds ahead of the one it works on.
const AHEAD: usize = 8;
/// Commits of a worker that are without an answer.
const COMMITS: usize = 16;
/// Events that lie ready beyond what was committed.
const READY: u64 = 4096;
/// How long a lease waits for work.
const WAIT_MS: u64 = 500;

/// How many events there are, and how many of them are done.
#[derive(Debug, Default)]
pub(super) struct Fed {
    written: AtomicU64,
    done: AtomicU64,
}

/// Writes events, so that there is always work, until the load is over.
pub(super) async fn feed(load: Arc<Load>, client: Client, fed: Arc<Fed>) {
    while !load.pace.is_over() {
        let from = fed.written.load(Ordering::Relaxed);
        let missing = (fed.done.load(Ordering::Relaxed) + READY).saturating_sub(from);
        if missing == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        let events: Vec<_> = (from..from + missing).map(|number| load.event(0, number)).collect();
        let mut answers = client.write_stream(stream::iter(events).boxed());
        while let Some(answer) = answers.next().await {
            if answer.is_err() {
                // What is missing is written by the next round, with the same keys.
                break;
            }
            fed.written.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A worker, until the load is over; what it holds then is given back.
pub(super) async fn work(load: Arc<Load>, client: Client, number: usize, time: Duration, fed: Arc<Fed>) {
    let mut held: VecDeque<v1::GrantedSlot> = VecDeque::new();
    let mut commits = JoinSet::new();
    let mut leasing = JoinSet::new();
    while !load.pace.is_over() {
        while let Some(leased) = leasing.try_join_next() {
            held.extend(leased.unwrap_or_default());
        }
        if held.len() <= AHEAD / 2 && leasing.is_empty() {
            leasing.spawn(lease(client.clone(), load.namespace(), number));
        }
        let Some(slot) = held.pop_front() else {
            if let Some(leased) = leasing.join_next().await {
                held.extend(leased.unwrap_or_default());
            }
            continue;
        };
        let Some(due) = load.pace.next().await else {
            held.push_front(slot);
            break;
        };
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        if commits.len() >= COMMITS {
            commits.join_next().await;
        }
        commits.spawn(commit(load.clone(), client.clone(), number, slot, due, fed.clone()));
    }
    while let Some(leased) = leasing.join_next().await {
        held.extend(leased.unwrap_or_default());
    }
    for slot in held {
        let request = v1::ReleaseRequest {
            namespace: load.namespace(),
            projection: PROJECTION.to_owned(),
            partition: slot.partition,
            slot: slot.slot,
            token: slot.token,
        };
        commits.spawn({
            let client = client.clone();
            // What cannot be given back expires.
            async move { drop(client.release(request).await) }
        });
    }
    while commits.join_next().await.is_some() {}
}

async fn lease(client: Client, namespace: String, number: usize) -> Vec<v1::GrantedSlot> {
    let request = v1::LeaseRequest {
        namespace,
        projection: PROJECTION.to_owned(),
        worker: format!("bench-{number}"),
        max: u32::try_from(AHEAD).unwrap_or(1),
        ttl_ms: 0,
        wait_ms: WAIT_MS,
        partition: None,
    };
    client.lease(request).await.map(|answer| answer.slots).unwrap_or_default()
}

async fn commit(
    load: Arc<Load>,
    client: Client,
    number: usize,
    slot: v1::GrantedSlot,
    due: Due,
    fed: Arc<Fed>,
) {
    let request = v1::CommitRequest {
        namespace: load.namespace(),
        projection: PROJECTION.to_owned(),
        partition: slot.partition,
        slot: slot.slot,
        token: slot.token,
        content: Some(v1::CommitContent::default()),
    };
    let ended = client.commit(request).await;
    let refused = Error::Protocol("a commit that was refused");
    let ended = match ended.as_ref().map(|answer| &answer.result) {
        Ok(Some(v1::commit_response::Result::Committed(_))) => {
            fed.done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Ok(_) => Err(&refused),
        Err(error) => Err(error),
    };
    load.note(number, due, 1, ended);
}
