//! Following as server-sent events. Each has an id, and a browser that was interrupted says which one it had last: it goes on behind
//! that, and gets nothing twice.
//!
//! ```text
//!  of a workspace   its workspace offset                  of a partition  its partition offset
//!  of a namespace   log index, partition, partition offset: several events can stand in one entry
//! ```
//!
//! Must not know: how a subscription is made.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use futures_util::future;
use futures_util::stream::StreamExt;
use gapless_api::json::to_json;
use gapless_api::v1::subscribe_request::What;
use gapless_api::v1::subscribe_response::Item;
use gapless_api::{Problem, Unsent, v1};

use super::Http;
use super::answer::{shown, with_type};
use crate::access::Caller;
use crate::call::until_over;

/// Server-sent events from `from` on, or behind the last one that the caller had.
pub(super) async fn followed(
    http: &Http,
    (caller, unsent): (&Caller, Unsent),
    namespace: String,
    what: What,
    from: u64,
    headers: &HeaderMap,
) -> Result<Response<Body>, Problem> {
    let last = last_event(headers, what)?;
    let from = match (last, what) {
        (None, _) => from,
        // The entry of the last one can have more.
        (Some((index, ..)), What::All(_)) => index,
        (Some((offset, ..)), _) => offset.saturating_add(1),
    };
    let request = v1::SubscribeRequest { namespace, what: Some(what), from };
    let items = http.ledger.open(caller, &request).await?.calls().within(unsent).subscribe(&request)?;
    let items = until_over(items, http.closing.clone(), caller.expires.clone());
    let is_new = move |item: &Result<v1::SubscribeResponse, Problem>| {
        let place = item.as_ref().ok().and_then(|item| place(item, what));
        future::ready(place.is_none() || place > last)
    };
    let sent = items.filter(is_new).map(move |item| Ok::<_, Infallible>(text(item, what)));
    let mut response = with_type(StatusCode::OK, "text/event-stream", Body::from_stream(sent));
    response.extensions_mut().insert(http.metrics.traffic.http_subscribe());
    Ok(response)
}

/// Where something stands in what is followed.
type Place = (u64, u64, u64);

fn place(item: &v1::SubscribeResponse, what: What) -> Option<Place> {
    match item.item.as_ref()? {
        Item::Event(event) => Some(match what {
            What::All(_) => (event.log_index, u64::from(event.partition), event.partition_offset),
            _ => (event.workspace_offset, 0, 0),
        }),
        Item::Outcome(outcome) => Some((outcome.partition_offset, 0, 0)),
    }
}

fn text(item: Result<v1::SubscribeResponse, Problem>, what: What) -> String {
    let item = match item {
        Ok(item) => item,
        Err(problem) => return format!("event: problem\ndata: {}\n\n", shown(&problem)),
    };
    let id = match (place(&item, what), what) {
        (None, _) => return String::new(),
        (Some((index, partition, offset)), What::All(_)) => format!("{index}-{partition}-{offset}"),
        (Some((offset, ..)), _) => offset.to_string(),
    };
    let data = match &item.item {
        Some(Item::Event(event)) => to_json("Event", event),
        Some(Item::Outcome(outcome)) => to_json("Outcome", outcome),
        None => return String::new(),
    };
    format!("id: {id}\ndata: {data}\n\n")
}

/// The last one that the caller had.
fn last_event(headers: &HeaderMap, what: What) -> Result<Option<Place>, Problem> {
    let Some(header) = headers.get("last-event-id") else { return Ok(None) };
    let text = header.to_str().unwrap_or_default();
    let numbers: Option<Vec<u64>> = text.split('-').map(|number| number.parse().ok()).collect();
    let place = match (what, numbers.as_deref()) {
        (What::All(_), Some(&[index, partition, offset])) => Some((index, partition, offset)),
        (What::Workspace(_) | What::Partition(_), Some(&[offset])) => Some((offset, 0, 0)),
        _ => None,
    };
    match place {
        Some(place) => Ok(Some(place)),
        None => Err(Problem::violation("Last-Event-ID", "is no id that an event had here")),
    }
}
