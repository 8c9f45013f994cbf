//! HTTP beside gRPC on the same port: the same operations as JSON under `/v1/`, health, metrics, and a description of it all.
//!
//! A route is a line of a table: a method, a path, a call. Its request is made from path, query and body; its answer is the
//! answer's JSON. So a route cannot mean anything else than the call it names.
//!
//! Must not know: what a call means.

mod answer;
mod events;
mod openapi;
mod origin;
mod parts;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::http::Response;
use axum::routing::{MethodRouter, delete, get, post};
use gapless_api::json::{from_json, to_json};
use gapless_api::{AdminCalls, LedgerCalls, Problem, v1};
use gapless_engine::Engine;
use prost::Message;
use tokio::sync::watch;

use self::answer::{json, refused, with_type};
use crate::metrics::{CallId, Metrics};
use crate::rate::Rates;
use crate::server::Limits;

/// What every route has at hand.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    pub(crate) engine: Engine,
    pub(crate) ledger: LedgerCalls,
    pub(crate) admin: AdminCalls,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    /// How often barriers are waited for.
    pub(crate) barriers: Arc<Rates>,
    pub(crate) serving: watch::Receiver<bool>,
    pub(crate) closing: watch::Receiver<bool>,
}

impl Http {
    fn patience(&self) -> Duration {
        self.limits.patience
    }
}

/// One line of the table.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The call, as the protocol names it.
    pub(crate) call: &'static str,
    handler: MethodRouter<Arc<Http>>,
}

const WORKSPACE: &str = "/v1/namespaces/{namespace}/workspaces/{workspace}";

/// A path below that of a workspace.
macro_rules! in_workspace {
    ($path:literal) => {
        concat!("/v1/namespaces/{namespace}/workspaces/{workspace}", $path)
    };
}

/// A route whose call takes a message and a deadline.
macro_rules! read {
    ($path:expr, $call:literal, $name:ident) => {
        Route {
            method: "get",
            path: $path,
            call: $call,
            handler: get(
                |State(http): State<Arc<Http>>, path: RawPathParams, RawQuery(query): RawQuery| async move {
                    let ask = |request| async { http.ledger.$name(request, http.patience()).await };
                    answered($call, &path, query.as_deref(), ask).await
                },
            ),
        }
    };
}

/// A route of the service Admin.
macro_rules! administer {
    ($method:ident, $path:expr, $call:literal, |$http:ident, $request:ident| $answer:expr) => {
        Route {
            method: stringify!($method),
            path: $path,
            call: $call,
            handler: $method(
                |State($http): State<Arc<Http>>, path: RawPathParams, RawQuery(query): RawQuery| async move {
                    let $http = &$http;
                    answered($call, &path, query.as_deref(), |$request| async move { $answer }).await
                },
            ),
        }
    };
}

/// Every route that is one call with one answer, or one stream.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route { method: "post", path: in_workspace!("/events"), call: "Write", handler: post(events::write) },
        Route {
            method: "get",
            path: in_workspace!("/events"),
            call: "ReadWorkspace",
            handler: get(events::workspace),
        },
        Route {
            method: "get",
            path: "/v1/namespaces/{namespace}/events",
            call: "ReadAll",
            handler: get(events::all),
        },
        Route {
            method: "get",
            path: "/v1/namespaces/{namespace}/partitions/{partition}/outcomes",
            call: "ReadPartition",
            handler: get(events::partition),
        },
        read!(WORKSPACE, "GetWorkspace", get_workspace),
        read!(in_workspace!("/entities"), "ListEntities", list_entities),
        read!(in_workspace!("/entities/{*key}"), "GetEntity", get_entity),
        read!(in_workspace!("/records"), "ListRecords", list_records),
        read!(in_workspace!("/records/{record_id}"), "GetRecord", get_record),
        read!(in_workspace!("/sequences"), "ListSequences", list_sequences),
        read!(in_workspace!("/clients/{client_id}"), "GetClientState", get_client_state),
        read!(in_workspace!("/blocks/{height}"), "GetBlock", get_block),
        read!(in_workspace!("/proofs/{workspace_offset}"), "GetInclusionProof", get_inclusion_proof),
        read!(in_workspace!("/consistency"), "GetConsistencyProof", get_consistency_proof),
        read!(in_workspace!("/root"), "GetRoot", get_root),
        Route {
            method: "post",
            path: "/v1/namespaces",
            call: "ApplyNamespace",
            handler: post(apply_namespace),
        },
        administer!(get, "/v1/namespaces", "ListNamespaces", |http, request| http
            .admin
            .list_namespaces(&request)),
        administer!(get, "/v1/namespaces/{namespace}", "GetNamespace", |http, request| http
            .admin
            .get_namespace(&request)),
        administer!(delete, "/v1/namespaces/{namespace}", "DropNamespace", |http, request| http
            .admin
            .drop_namespace(&request)
            .await),
        administer!(get, "/v1/partitions", "ListPartitions", |http, request| http
            .admin
            .list_partitions(&request)),
        administer!(
            post,
            "/v1/namespaces/{namespace}/partitions/{partition}/freeze",
            "FreezePartition",
            |http, request| http.admin.freeze_partition(&request).await
        ),
        administer!(
            post,
            "/v1/namespaces/{namespace}/partitions/{partition}/thaw",
            "ThawPartition",
            |http, request| http.admin.thaw_partition(&request).await
        ),
        administer!(post, "/v1/snapshot", "Snapshot", |http, request| http.admin.snapshot(&request).await),
        administer!(get, "/v1/cluster", "ClusterStatus", |http, request| Ok(http
            .admin
            .cluster_status(&request))),
        Route { method: "post", path: "/v1/barrier", call: "WaitBarrier", handler: post(wait_barrier) },
    ]
}

/// Everything that is not gRPC.
pub(crate) fn router(http: Http) -> Router {
    let http = Arc::new(http);
    let mut router = Router::new();
    for route in routes() {
        let call = http.metrics.traffic.http_call(route.call);
        let named = axum::middleware::map_response(move |response| async move { with_call(response, call) });
        router = router.route(route.path, route.handler.route_layer(named));
    }
    let router =
        router.route("/openapi.json", get(async || json(axum::http::StatusCode::OK, &openapi::document())));
    let router = router.layer(axum::middleware::from_fn(origin::check));
    router
        .route("/metrics", get(|State(http): State<Arc<Http>>| async move { metrics(&http) }))
        .route("/healthz", get(async || answer::plain(axum::http::StatusCode::OK, "the process runs\n")))
        .route("/readyz", get(|State(http): State<Arc<Http>>| async move { answer::ready(&http) }))
        .with_state(http)
}

/// An answer that says which call it is of, unless it does already.
fn with_call(mut response: Response<Body>, call: CallId) -> Response<Body> {
    response.extensions_mut().get_or_insert(call);
    response
}

/// `GET /metrics`.
fn metrics(http: &Http) -> Response<Body> {
    let page = http.metrics.page(&http.engine);
    with_type(axum::http::StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
}

/// A call with one answer.
async fn answered<Q, A, F>(
    call: &str,
    path: &RawPathParams,
    query: Option<&str>,
    ask: impl FnOnce(Q) -> F,
) -> Response<Body>
where
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<A, Problem>>,
{
    let asked = async { ask(parts::request(call, path, query)?).await };
    match asked.await {
        Ok(answer) => json(axum::http::StatusCode::OK, &to_json(&format!("{call}Response"), &answer)),
        Err(problem) => refused(&problem),
    }
}

async fn apply_namespace(State(http): State<Arc<Http>>, request: Request) -> Response<Body> {
    let applied = async {
        let definition = parts::text(request.into_body()).await?;
        http.admin.apply_namespace(&v1::ApplyNamespaceRequest { definition }).await
    };
    match applied.await {
        Ok(answer) => json(axum::http::StatusCode::OK, &to_json("ApplyNamespaceResponse", &answer)),
        Err(problem) => refused(&problem),
    }
}

async fn wait_barrier(State(http): State<Arc<Http>>, request: Request) -> Response<Body> {
    let waited = async {
        let client = http.barriers.caller(request.extensions())?;
        let body = parts::text(request.into_body()).await?;
        let value =
            serde_json::from_str(&body).map_err(|error| Problem::violation("body", error.to_string()))?;
        let request: v1::WaitBarrierRequest = parts::decoded(&from_json("WaitBarrierRequest", &value)?)?;
        http.admin.wait_barrier(&client, &request, http.patience()).await
    };
    match waited.await {
        Ok(answer) => json(axum::http::StatusCode::OK, &to_json("WaitBarrierResponse", &answer)),
        Err(problem) => refused(&problem),
    }
}
