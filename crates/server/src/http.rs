//! HTTP beside gRPC on the same port: the same operations as JSON under `/v1/`, health, metrics, and a description of it all.
//!
//! A route is a line of a table: a method, a path, a call. Its request is made from path, query and body; its answer is the
//! answer's JSON. So a route cannot mean anything else than the call it names.
//!
//! Must not know: what a call means.

mod answer;
mod console;
mod events;
mod following;
pub(crate) mod headers;
mod openapi;
pub(crate) mod origin;
mod parts;
mod projections;
pub(crate) mod routes;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::middleware::Next;
use gapless_api::json::to_json;
use gapless_api::{AdminCalls, LedgerCalls, Problem, ProblemKind, ProjectionCalls, v1};
use prost::Message;
use tokio::sync::watch;

use self::answer::{json, refused, with_type};
use crate::access::gate::{Gate, caller};
use crate::access::rules::Asked;
use crate::metrics::{CallId, Metrics};
use crate::rate::Rates;
use crate::readiness::Readiness;
use crate::server::Limits;

/// What every route has at hand.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    pub(crate) ledger: Gate<LedgerCalls>,
    pub(crate) admin: Gate<AdminCalls>,
    pub(crate) projections: Gate<ProjectionCalls>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    /// How often barriers are waited for.
    pub(crate) barriers: Arc<Rates>,
    pub(crate) readiness: watch::Receiver<Readiness>,
    pub(crate) closing: watch::Receiver<bool>,
}

impl Http {
    fn patience(&self) -> Duration {
        self.limits.patience
    }
}

/// Everything that is not gRPC.
pub(crate) fn router(http: Http) -> Router {
    let http = Arc::new(http);
    let mut guarded = Router::new();
    for route in routes::routes() {
        let call = http.metrics.traffic.http_call(route.call);
        let named = axum::middleware::map_response(move |response| async move { with_call(response, call) });
        guarded = guarded.route(route.path, route.handler.route_layer(named));
    }
    for page in routes::pages() {
        guarded = guarded.route(page.path, page.handler);
    }
    guarded
        .layer(axum::middleware::from_fn(legible))
        .merge(console::router())
        .method_not_allowed_fallback(async || answer::wrong_method())
        .with_state(http)
}

/// The path of everything that is no call.
#[cfg(test)]
pub(crate) fn open_paths() -> Vec<String> {
    let pages = routes::pages().into_iter().map(|page| page.path.to_owned());
    pages.chain(console::paths()).collect()
}

/// How a problem is told to whoever speaks this: HTTP, or gRPC.
pub(crate) fn refusal(is_grpc: bool, problem: Problem) -> Response<Body> {
    if is_grpc {
        return tonic::Status::from(problem).into_http();
    }
    refused(&problem)
}

pub(crate) fn is_grpc<B>(request: &axum::http::Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|content_type| content_type.starts_with(b"application/grpc"))
}

/// What is answered where there is no route. Who speaks gRPC is told in gRPC.
pub(crate) async fn nowhere(request: Request) -> Response<Body> {
    if is_grpc(&request) {
        refusal(true, Problem::new(ProblemKind::Unimplemented, "NO_SUCH_SERVICE", "there is no such service"))
    } else {
        answer::no_route(request.uri().path())
    }
}

/// Refuses what is written in a path and is no text.
async fn legible(request: Request, next: Next) -> Response<Body> {
    match percent_encoding::percent_decode_str(request.uri().path()).decode_utf8() {
        Ok(_) => next.run(request).await,
        Err(_) => refused(&Problem::violation("path", "is not UTF-8")),
    }
}

/// An answer that says which call it is of, unless it does already.
fn with_call(mut response: Response<Body>, call: CallId) -> Response<Body> {
    response.extensions_mut().get_or_insert(call);
    response
}

/// `GET /metrics`.
fn metrics(http: &Http) -> Response<Body> {
    with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", http.metrics.page())
}

/// A call with one answer.
async fn answered<Q, A, F>(
    path: &RawPathParams,
    query: Option<&str>,
    ask: impl FnOnce(Q) -> F,
) -> Response<Body>
where
    Q: Message + Default + Asked,
    A: Message,
    F: Future<Output = Result<A, Problem>>,
{
    let asked = async { ask(parts::request(Q::RULE.call, path, query)?).await };
    told(Q::RULE.call, asked.await)
}

/// The same, asked by a body of JSON.
async fn answered_body<Q, A, F>(request: Request, ask: impl FnOnce(Q) -> F) -> Response<Body>
where
    Q: Message + Default + Asked,
    A: Message,
    F: Future<Output = Result<A, Problem>>,
{
    let asked = async { ask(parts::body(Q::RULE.call, request).await?).await };
    told(Q::RULE.call, asked.await)
}

async fn apply_namespace(State(http): State<Arc<Http>>, request: Request) -> Response<Body> {
    let applied = async {
        let caller = caller(request.extensions())?.clone();
        let definition = parts::text(request).await?;
        let request = v1::ApplyNamespaceRequest { definition };
        let opened = http.admin.open(&caller, &request).await?;
        let answer = opened.calls().apply_namespace(&request).await;
        opened.told(answer).await
    };
    told("ApplyNamespace", applied.await)
}

async fn wait_barrier(State(http): State<Arc<Http>>, request: Request) -> Response<Body> {
    let waited = async {
        let caller = caller(request.extensions())?.clone();
        let client = http.barriers.caller(&caller)?;
        let request = parts::body("WaitBarrier", request).await?;
        http.admin
            .open(&caller, &request)
            .await?
            .calls()
            .wait_barrier(&client, &request, http.patience())
            .await
    };
    told("WaitBarrier", waited.await)
}

/// An answer, or why there is none.
fn told(call: &str, answer: Result<impl Message, Problem>) -> Response<Body> {
    match answer {
        Ok(answer) => json(StatusCode::OK, &to_json(&format!("{call}Response"), &answer)),
        Err(problem) => refused(&problem),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_description_has_every_route_and_no_other() {
        let calls = routes::routes()
            .into_iter()
            .map(|route| (route.path.replace("{*", "{"), route.method.to_owned()));
        let pages = routes::pages().into_iter().map(|page| (page.path.to_owned(), "get".to_owned()));
        let routed: BTreeSet<_> = calls.chain(pages).collect();
        let document = openapi::document();
        let mut described = BTreeSet::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            described
                .extend(operations.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())));
        }
        assert_eq!(routed, described);
    }

    #[test]
    fn every_call_of_the_protocol_that_is_no_stream_of_requests_has_a_route() {
        let pool = prost_reflect::DescriptorPool::decode(gapless_api::FILE_DESCRIPTORS).unwrap();
        let routed: BTreeSet<_> = routes::routes().iter().map(|route| route.call.to_owned()).collect();
        let called: BTreeSet<_> = pool
            .services()
            .flat_map(|service| service.methods().map(|method| method.name().to_owned()).collect::<Vec<_>>())
            // A stream of writes or of work is many requests; a subscription is what `follow` asks for.
            .filter(|name| !["WriteStream", "Work", "Subscribe", "SubscribeEffects"].contains(&name.as_str()))
            .collect();
        assert_eq!(routed, called);
    }
}
