//! Writing and reading events over HTTP. What is read comes as lines of JSON; what is followed, as server-sent events.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{Stream, StreamExt};
use gapless_api::check::Check;
use gapless_api::json::{from_json, is_json, to_json};
use gapless_api::key::key_of;
use gapless_api::write::checked;
use gapless_api::{Problem, Unsent, v1};
use gapless_types::IdempotencyKey;
use serde_json::Value;
use serde_json::value::RawValue;
use v1::subscribe_request::What;

use super::answer::{json, refused, shown, with_type};
use super::following::followed;
use super::{Http, parts};
use crate::access::Caller;
use crate::access::gate::caller;
use crate::call::until_over;

/// `POST .../events`: a write.
pub(super) async fn write(
    State(http): State<Arc<Http>>,
    path: RawPathParams,
    request: Request,
) -> Response<Body> {
    let written = async {
        let caller = caller(request.extensions())?.clone();
        let headers = request.headers().clone();
        let body = parts::text(request).await?;
        let request = write_request(&path, &headers, &body)?;
        http.ledger.open(&caller, &request).await?.calls().write(&request, http.patience()).await
    };
    use v1::write_response::Result as Answer;
    match written.await.map(|response| response.result) {
        Ok(Some(Answer::Success(success))) => json(StatusCode::OK, &to_json("WriteSuccess", &success)),
        Ok(Some(Answer::Error(error))) => {
            let reused = error.code() == v1::WriteErrorCode::IdempotencyKeyReused;
            let status = if reused { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::CONFLICT };
            json(status, &to_json("WriteError", &error))
        }
        Ok(None) => unreachable!("a write is committed or refused"),
        Err(problem) => refused(&problem),
    }
}

/// The write that path, header and body ask for.
///
/// # Errors
/// Everything that is wrong with any of them.
fn write_request(path: &RawPathParams, headers: &HeaderMap, body: &str) -> Result<v1::WriteRequest, Problem> {
    let key = key(headers);
    // Nobody writes with this one: it stands in for the one that is missing until everything else was looked at.
    let bytes = key.as_ref().map_or(&[0xff; 16], IdempotencyKey::as_bytes);
    let request = body_request(path, bytes, body);
    let Err(missing) = key else { return request };
    let also = request.and_then(|request| checked(&request).map(drop)).err();
    let mut check = Check::default();
    check.extend(missing.violations);
    check.extend(also.into_iter().flat_map(|problem| problem.violations));
    Err(check.end().err().unwrap_or_else(|| Problem::violation(KEY, "is needed")))
}

/// The header that has the key of a write.
const KEY: &str = "Idempotency-Key";

fn key(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let text = headers.get(KEY).map_or(Ok(""), HeaderValue::to_str);
    let text = text.map_err(|_| Problem::violation(KEY, "is not ASCII"))?;
    key_of(text).map_err(|error| Problem::violation(KEY, error.to_string()))
}

/// The body is a `WriteRequest` without what path and header say. A payload of JSON stands in it as it is, and is kept byte for byte.
fn body_request(path: &RawPathParams, key: &[u8], body: &str) -> Result<v1::WriteRequest, Problem> {
    let wrong = |error: serde_json::Error| Problem::violation("body", error.to_string());
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(body).map_err(wrong)?;
    let content_type: String = match fields.get("content_type") {
        Some(raw) => serde_json::from_str(raw.get()).map_err(wrong)?,
        None => String::new(),
    };
    let payload =
        if content_type.is_empty() || is_json(&content_type) { fields.remove("payload") } else { None };
    let mut message = serde_json::Map::new();
    for (name, raw) in fields {
        message.insert(name, serde_json::from_str(raw.get()).map_err(wrong)?);
    }
    let mut check = Check::default();
    for name in ["namespace", "workspace", "idempotency_key"] {
        if message.contains_key(name) {
            check.add(name, "is said by path and header");
        }
    }
    check.end()?;
    for (name, value) in path {
        message.insert(name.to_owned(), Value::from(value));
    }
    message.insert("idempotency_key".to_owned(), Value::from(STANDARD.encode(key)));
    if let Some(payload) = payload {
        message.insert("payload".to_owned(), Value::from(STANDARD.encode(payload.get())));
    }
    parts::decoded(&from_json("WriteRequest", &Value::Object(message))?)
}

/// `GET .../events`: the events of a workspace, and with `follow=true` those that come.
pub(super) async fn workspace(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Caller>,
    Extension(unsent): Extension<Unsent>,
    path: RawPathParams,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let asked = async {
        let (follow, query) = follow(query.as_deref())?;
        let request: v1::ReadWorkspaceRequest = parts::request("ReadWorkspace", &path, Some(&query))?;
        if follow {
            no_end(request.limit, request.direction, request.options)?;
            let what = What::Workspace(request.workspace);
            return followed(&http, (&caller, unsent), request.namespace, what, request.from, &headers).await;
        }
        let events = http
            .ledger
            .open(&caller, &request)
            .await?
            .calls()
            .within(unsent)
            .read_workspace(request, http.patience())
            .await?;
        Ok(lines(&http, &caller, events, "Event", |answer| answer.event))
    };
    asked.await.unwrap_or_else(|problem: Problem| refused(&problem))
}

/// `GET /v1/namespaces/{namespace}/events`: the events of a namespace, and with `follow=true` those that come.
pub(super) async fn all(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Caller>,
    Extension(unsent): Extension<Unsent>,
    path: RawPathParams,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let asked = async {
        let (follow, query) = follow(query.as_deref())?;
        let request: v1::ReadAllRequest = parts::request("ReadAll", &path, Some(&query))?;
        if follow {
            no_end(request.limit, request.direction, request.options)?;
            return followed(
                &http,
                (&caller, unsent),
                request.namespace,
                What::All(true),
                request.from,
                &headers,
            )
            .await;
        }
        let events = http
            .ledger
            .open(&caller, &request)
            .await?
            .calls()
            .within(unsent)
            .read_all(request, http.patience())
            .await?;
        Ok(lines(&http, &caller, events, "Event", |answer| answer.event))
    };
    asked.await.unwrap_or_else(|problem: Problem| refused(&problem))
}

/// `GET .../outcomes`: every outcome of a partition, and with `follow=true` those that come.
pub(super) async fn partition(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Caller>,
    Extension(unsent): Extension<Unsent>,
    path: RawPathParams,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let asked = async {
        let (follow, query) = follow(query.as_deref())?;
        let request: v1::ReadPartitionRequest = parts::request("ReadPartition", &path, Some(&query))?;
        if follow {
            no_end(request.limit, request.direction, request.options)?;
            let what = What::Partition(request.partition);
            return followed(&http, (&caller, unsent), request.namespace, what, request.from, &headers).await;
        }
        let outcomes = http
            .ledger
            .open(&caller, &request)
            .await?
            .calls()
            .within(unsent)
            .read_partition(request, http.patience())
            .await?;
        Ok(lines(&http, &caller, outcomes, "Outcome", |answer| answer.outcome))
    };
    asked.await.unwrap_or_else(|problem: Problem| refused(&problem))
}

/// Whether to follow, and the rest of the query.
fn follow(query: Option<&str>) -> Result<(bool, String), Problem> {
    let (mut follow, mut rest) = (false, Vec::new());
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        match pair {
            "follow=true" => follow = true,
            "follow=false" => follow = false,
            _ if pair.starts_with("follow") => return Err(Problem::violation("follow", "is true or false")),
            _ => rest.push(pair),
        }
    }
    Ok((follow, rest.join("&")))
}

/// What is followed goes forward, has no end, and comes as this node has it: whatever else is asked for is refused, not ignored.
fn no_end(limit: u64, direction: i32, options: Option<v1::ReadOptions>) -> Result<(), Problem> {
    let options = options.unwrap_or_default();
    let mut check = Check::default();
    if limit != 0 {
        check.add("limit", "what is followed has no end");
    }
    if direction == i32::from(v1::Direction::Backward) {
        check.add("direction", "what is followed goes forward");
    }
    if options.consistency() == v1::Consistency::Linearizable {
        check.add("consistency", "what is followed comes as this node has it: leave it out, or say stale");
    }
    if options.min_partition_offset != 0 {
        check.add("min_partition_offset", "what is followed waits for whatever comes: leave it out");
    }
    check.end()
}

/// A line of JSON for each; a problem on the way is the last line, under `problem`.
fn lines<A: Send + 'static, T: prost::Message>(
    http: &Http,
    caller: &Caller,
    answers: impl Stream<Item = Result<A, Problem>> + Send + 'static,
    name: &'static str,
    content: impl Fn(A) -> Option<T> + Send + 'static,
) -> Response<Body> {
    let line = move |answer: Result<A, Problem>| {
        let line = match answer {
            Ok(answer) => {
                content(answer).map_or("null".to_owned(), |content| to_json(name, &content).to_string())
            }
            Err(problem) => serde_json::json!({"problem": shown(&problem)}).to_string(),
        };
        Ok::<_, std::convert::Infallible>(format!("{line}\n"))
    };
    let lines = until_over(answers, http.closing.clone(), caller.expires.clone()).map(line);
    with_type(StatusCode::OK, "application/x-ndjson", Body::from_stream(lines))
}
