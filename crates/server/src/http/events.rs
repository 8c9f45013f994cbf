//! Writing and reading events over HTTP. What is read comes as lines of JSON; what is followed, as server-sent events.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{Stream, StreamExt};
use gapless_api::json::{from_json, is_json, to_json};
use gapless_api::{Problem, v1};
use gapless_engine::named_key;
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
        let key = key(request.headers())?;
        let caller = caller(request.extensions())?.clone();
        let body = parts::text(request).await?;
        let request = write_request(&path, &key, &body)?;
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

/// The key of a write: a UUID, 32 hexadecimal digits, or any name of what is intended.
fn key(headers: &HeaderMap) -> Result<Vec<u8>, Problem> {
    let missing = || Problem::violation("Idempotency-Key", "one key for each intended write is needed");
    let text = headers.get("idempotency-key").ok_or_else(missing)?;
    let text = text
        .to_str()
        .map_err(|_| Problem::violation("Idempotency-Key", "is not ASCII"))?
        .trim()
        .trim_matches('"');
    if text.is_empty() {
        return Err(missing());
    }
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if digits.len() == 32 => Ok(number.to_be_bytes().to_vec()),
        _ => Ok(named_key(text).as_bytes().to_vec()),
    }
}

/// The body is a `WriteRequest` without what path and header say. A payload of JSON stands in it as it is, and is kept byte for byte.
fn write_request(path: &RawPathParams, key: &[u8], body: &str) -> Result<v1::WriteRequest, Problem> {
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
    for name in ["namespace", "workspace", "idempotency_key"] {
        if message.contains_key(name) {
            return Err(Problem::violation(name, "is said by path and header"));
        }
    }
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
    path: RawPathParams,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let asked = async {
        let (follow, query) = follow(query.as_deref())?;
        let request: v1::ReadWorkspaceRequest = parts::request("ReadWorkspace", &path, Some(&query))?;
        if follow {
            no_end(request.limit, request.direction)?;
            let what = What::Workspace(request.workspace);
            return followed(&http, &caller, request.namespace, what, request.from, &headers).await;
        }
        let events = http
            .ledger
            .open(&caller, &request)
            .await?
            .calls()
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
    path: RawPathParams,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let asked = async {
        let (follow, query) = follow(query.as_deref())?;
        let request: v1::ReadAllRequest = parts::request("ReadAll", &path, Some(&query))?;
        if follow {
            no_end(request.limit, request.direction)?;
            return followed(&http, &caller, request.namespace, What::All(true), request.from, &headers)
                .await;
        }
        let events =
            http.ledger.open(&caller, &request).await?.calls().read_all(request, http.patience()).await?;
        Ok(lines(&http, &caller, events, "Event", |answer| answer.event))
    };
    asked.await.unwrap_or_else(|problem: Problem| refused(&problem))
}

/// `GET .../outcomes`: every outcome of a partition, and with `follow=true` those that come.
pub(super) async fn partition(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Caller>,
    path: RawPathParams,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let asked = async {
        let (follow, query) = follow(query.as_deref())?;
        let request: v1::ReadPartitionRequest = parts::request("ReadPartition", &path, Some(&query))?;
        if follow {
            no_end(request.limit, request.direction)?;
            let what = What::Partition(request.partition);
            return followed(&http, &caller, request.namespace, what, request.from, &headers).await;
        }
        let outcomes = http
            .ledger
            .open(&caller, &request)
            .await?
            .calls()
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

/// What is followed goes forward and has no end.
fn no_end(limit: u64, direction: i32) -> Result<(), Problem> {
    if limit != 0 {
        return Err(Problem::violation("limit", "what is followed has no end"));
    }
    if direction == i32::from(v1::Direction::Backward) {
        return Err(Problem::violation("direction", "what is followed goes forward"));
    }
    Ok(())
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
        let value = match answer {
            Ok(answer) => content(answer).map_or(Value::Null, |content| to_json(name, &content)),
            Err(problem) => serde_json::json!({"problem": shown(&problem)}),
        };
        Ok::<_, std::convert::Infallible>(format!("{value}\n"))
    };
    let lines = until_over(answers, http.closing.clone(), caller.expires.clone()).map(line);
    with_type(StatusCode::OK, "application/x-ndjson", Body::from_stream(lines))
}
