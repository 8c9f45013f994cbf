//! The table of routes: everything that can be asked over HTTP, and nothing else. Router and description are both made from it.
//!
//! Must not know: what a call means.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::routing::{MethodRouter, delete, get, post};
use gapless_api::Unsent;

use super::answer::{json, plain, ready};
use super::{
    Http, answered, answered_body, apply_namespace, events, metrics, openapi, projections, wait_barrier,
};

use crate::access::Caller;
use crate::admin_service::{may_see, seen};

/// One line of the table of calls.
pub(crate) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The call, as the protocol names it.
    pub(crate) call: &'static str,
    /// The content type of its body, if it has one.
    pub(super) body: Option<&'static str>,
    pub(super) handler: MethodRouter<Arc<Http>>,
}

/// One line of the table of everything that is no call.
pub(super) struct Page {
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) content_type: &'static str,
    pub(super) handler: MethodRouter<Arc<Http>>,
}

pub(super) const JSON: Option<&str> = Some("application/json");
const TOML: Option<&str> = Some("application/toml");
const WORKSPACE: &str = "/v1/namespaces/{namespace}/workspaces/{workspace}";

/// A path below that of a workspace.
macro_rules! in_workspace {
    ($path:literal) => {
        concat!("/v1/namespaces/{namespace}/workspaces/{workspace}", $path)
    };
}

/// A route with a handler of its own.
macro_rules! own {
    ($method:ident, $path:expr, $call:literal, $body:expr, $handler:expr) => {
        Route {
            method: stringify!($method),
            path: $path,
            call: $call,
            body: $body,
            handler: $method($handler),
        }
    };
}

/// A route whose call takes a message and a deadline.
macro_rules! read {
    ($path:expr, $call:literal, $name:ident) => {
        own!(get, $path, $call, None, |State(http): State<Arc<Http>>,
                                       Extension(caller): Extension<Caller>,
                                       Extension(unsent): Extension<Unsent>,
                                       path: RawPathParams,
                                       RawQuery(query): RawQuery| async move {
            let (http, caller) = (&http, &caller);
            let ask = |request| async move {
                let calls = http.ledger.open(caller, &request).await?.calls().within(unsent);
                calls.$name(request, http.patience()).await
            };
            answered(&path, query.as_deref(), ask).await
        })
    };
}

/// A route of the service Admin, asked by path and query.
macro_rules! administer {
    ($method:ident, $path:expr, $call:literal, |$http:ident, $calls:ident, $request:ident| $answer:expr) => {
        administer!($method, $path, $call, |$http, $calls, _caller, $request| $answer)
    };
    ($method:ident, $path:expr, $call:literal, |$http:ident, $calls:ident, $caller:ident, $request:ident| $answer:expr) => {
        own!($method, $path, $call, None, |State($http): State<Arc<Http>>,
                                           Extension(caller): Extension<Caller>,
                                           path: RawPathParams,
                                           RawQuery(query): RawQuery| async move {
            let ($http, $caller) = (&$http, &caller);
            answered(&path, query.as_deref(), |$request| async move {
                let opened = $http.admin.open($caller, &$request).await?;
                let $calls = opened.calls();
                let answer = $answer;
                opened.told(answer).await
            })
            .await
        })
    };
}

/// A route of the service Admin, asked by a body.
macro_rules! administer_body {
    ($path:expr, $call:literal, |$http:ident, $calls:ident, $request:ident| $answer:expr) => {
        own!(post, $path, $call, JSON, |State($http): State<Arc<Http>>,
                                        Extension(caller): Extension<Caller>,
                                        request: Request| async move {
            let ($http, caller) = (&$http, &caller);
            answered_body(request, |$request| async move {
                let opened = $http.admin.open(caller, &$request).await?;
                let $calls = opened.calls();
                let answer = $answer;
                opened.told(answer).await
            })
            .await
        })
    };
}

/// Every route that is a call.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = ledger();
    routes.extend(namespaces());
    routes.extend(projections::routes());
    routes.extend(cluster());
    routes
}

fn ledger() -> Vec<Route> {
    vec![
        own!(post, in_workspace!("/events"), "Write", JSON, events::write),
        own!(get, in_workspace!("/events"), "ReadWorkspace", None, events::workspace),
        own!(get, "/v1/namespaces/{namespace}/events", "ReadAll", None, events::all),
        own!(
            get,
            "/v1/namespaces/{namespace}/partitions/{partition}/outcomes",
            "ReadPartition",
            None,
            events::partition
        ),
        read!(WORKSPACE, "GetWorkspace", get_workspace),
        read!(in_workspace!("/entities"), "ListEntities", list_entities),
        read!(in_workspace!("/entities/{*key}"), "GetEntity", get_entity),
        // Not every key is text that a path can have.
        read!(in_workspace!("/entity"), "GetEntity", get_entity),
        read!(in_workspace!("/records"), "ListRecords", list_records),
        read!(in_workspace!("/records/{record_id}"), "GetRecord", get_record),
        read!(in_workspace!("/sequences"), "ListSequences", list_sequences),
        read!(in_workspace!("/clients/{client_id}"), "GetClientState", get_client_state),
        read!(in_workspace!("/blocks/{height}"), "GetBlock", get_block),
        read!(in_workspace!("/proofs/{workspace_offset}"), "GetInclusionProof", get_inclusion_proof),
        read!(in_workspace!("/consistency"), "GetConsistencyProof", get_consistency_proof),
        read!(in_workspace!("/root"), "GetRoot", get_root),
    ]
}

fn namespaces() -> Vec<Route> {
    vec![
        own!(post, "/v1/namespaces", "ApplyNamespace", TOML, apply_namespace),
        administer!(get, "/v1/namespaces", "ListNamespaces", |http, calls, caller, request| calls
            .list_namespaces(&request, may_see(caller))),
        administer!(get, "/v1/namespaces/{namespace}", "GetNamespace", |http, calls, request| calls
            .get_namespace(&request)),
        administer!(delete, "/v1/namespaces/{namespace}", "DropNamespace", |http, calls, request| calls
            .drop_namespace(&request)
            .await),
        administer!(get, "/v1/partitions", "ListPartitions", |http, calls, caller, request| calls
            .list_partitions(&request, may_see(caller))),
        administer!(
            post,
            "/v1/namespaces/{namespace}/partitions/{partition}/freeze",
            "FreezePartition",
            |http, calls, request| calls.freeze_partition(&request).await
        ),
        administer!(
            post,
            "/v1/namespaces/{namespace}/partitions/{partition}/thaw",
            "ThawPartition",
            |http, calls, request| calls.thaw_partition(&request).await
        ),
        administer!(
            post,
            "/v1/namespaces/{namespace}/partitions/{partition}/repair",
            "RepairPartition",
            |http, calls, request| calls.repair_partition(&request).await
        ),
    ]
}

fn cluster() -> Vec<Route> {
    vec![
        own!(post, "/v1/barrier", "WaitBarrier", JSON, wait_barrier),
        administer!(post, "/v1/snapshot", "Snapshot", |http, calls, request| calls.snapshot(&request).await),
        administer_body!("/v1/backup", "Backup", |http, calls, request| calls
            .backup_to_its_end(&request)
            .await),
        administer!(get, "/v1/cluster", "ClusterStatus", |http, calls, caller, request| Ok(seen(
            calls.cluster_status(&request),
            caller
        ))),
        administer_body!("/v1/cluster/nodes", "AddNode", |http, calls, request| calls
            .add_node(&request, http.patience())
            .await),
        administer!(delete, "/v1/cluster/nodes/{node_id}", "RemoveNode", |http, calls, request| calls
            .remove_node(&request, http.patience())
            .await),
        administer!(post, "/v1/cluster/nodes/{node_id}/lead", "TransferLeader", |http, calls, request| calls
            .transfer_leader(&request)
            .await),
    ]
}

/// Everything else that can be asked.
pub(super) fn pages() -> [Page; 4] {
    use axum::http::StatusCode;
    const TEXT: &str = "text/plain";
    [
        Page {
            path: "/openapi.json",
            summary: "This description",
            content_type: "application/json",
            handler: get(async || json(StatusCode::OK, &openapi::document())),
        },
        Page {
            path: "/metrics",
            summary: "What the node counts, for Prometheus",
            content_type: TEXT,
            handler: get(|State(http): State<Arc<Http>>| async move { metrics(&http) }),
        },
        Page {
            path: "/healthz",
            summary: "Whether the process runs",
            content_type: TEXT,
            handler: get(async || plain(StatusCode::OK, "the process runs\n")),
        },
        Page {
            path: "/readyz",
            summary: "Whether it serves",
            content_type: TEXT,
            handler: get(|State(http): State<Arc<Http>>| async move { ready(&http) }),
        },
    ]
}
