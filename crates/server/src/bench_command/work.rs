//! What the clients of a load do, until it is over: writes, streams of writes, reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use gapless_client::{Client, Error, Ledger, v1};

use super::load::Load;
use super::pace::Due;

/// How long a client waits after a stream of its failed.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// One write, one answer.
pub(super) async fn write(load: Arc<Load>, client: Client, number: usize) {
    while let Some(due) = load.pace.next().await {
        let ended = client.write(load.event(number, due.number)).await;
        load.note(number, due, 1, ended.as_ref().map(|_| ()));
    }
}

/// What was sent and is without an answer, by number.
type Sent = Arc<Mutex<HashMap<u64, Due>>>;

fn of(sent: &Sent) -> MutexGuard<'_, HashMap<u64, Due>> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream of writes. One that fails is begun again; what it left without an answer counts as failed.
pub(super) async fn stream(load: Arc<Load>, client: Client, number: usize) {
    while !load.pace.is_over() {
        let sent = Sent::default();
        let requests = stream::unfold((load.clone(), sent.clone()), move |(load, sent)| async move {
            let due = load.pace.next().await?;
            of(&sent).insert(due.number, due);
            let request = load.event(number, due.number);
            Some((request, (load, sent)))
        });
        let mut answers = client.write_stream(requests.boxed());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(answer) => answered(&load, number, &sent, answer),
                Err(error) => {
                    let left: Vec<Due> = of(&sent).drain().map(|(_, due)| due).collect();
                    left.into_iter().for_each(|due| load.note(number, due, 1, Err(&error)));
                    tokio::time::sleep(AFTER_FAILURE).await;
                    break;
                }
            }
        }
    }
}

fn answered(load: &Load, client: usize, sent: &Sent, answer: v1::WriteResponse) {
    let Some(due) = Load::number(&answer.idempotency_key).and_then(|number| of(sent).remove(&number)) else {
        return;
    };
    match answer.result {
        Some(v1::write_response::Result::Error(refused)) => {
            load.note(client, due, 1, Err(&Error::Refused(Box::new(refused))));
        }
        _ => load.note(client, due, 1, Ok(())),
    }
}

/// Reads of so many events from anywhere in a workspace that has at least so many.
pub(super) async fn read(load: Arc<Load>, client: Client, number: usize, events: u64, there: Arc<Vec<u64>>) {
    while let Some(due) = load.pace.next().await {
        let place = usize::try_from(due.number).unwrap_or(0) % there.len();
        // Places that have nothing to do with each other, without a generator that clients would share.
        let last_first = there[place].saturating_sub(events) + 1;
        let from = 1 + due.number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % last_first;
        let request = v1::ReadWorkspaceRequest {
            namespace: load.namespace(),
            workspace: 1 + place as u64,
            from,
            limit: events,
            ..Default::default()
        };
        let ended = count(&client, request).await;
        let read = *ended.as_ref().unwrap_or(&0);
        load.note(number, due, read, ended.as_ref().map(|_| ()));
    }
}

async fn count(client: &Client, request: v1::ReadWorkspaceRequest) -> Result<u64, Error> {
    let mut events = client.read_workspace(request).await?;
    let mut count = 0;
    while let Some(event) = events.next().await {
        event?;
        count += 1;
    }
    Ok(count)
}
