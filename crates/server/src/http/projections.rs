//! Routes of projections. Commands about a slot have what path and body say together.

use std::future::Future;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::http::Response;
use axum::routing::{get, post};
use gapless_api::{Problem, Unsent};
use prost::Message;

use super::routes::{JSON, Route};
use super::{Http, answered, parts, told};
use crate::access::Caller;
use crate::access::rules::Asked;

/// A path below that of a projection.
macro_rules! in_projection {
    ($($path:literal),*) => {
        concat!("/v1/namespaces/{namespace}/projections/{projection}", $($path),*)
    };
}

/// A path below that of a slot.
macro_rules! of_slot {
    ($path:literal) => {
        in_projection!("/partitions/{partition}/slots/{slot}", $path)
    };
}

/// A route that is asked by path and query.
macro_rules! asked {
    ($method:ident, $path:expr, $call:literal, |$http:ident, $calls:ident, $request:ident| $answer:expr) => {
        Route {
            method: stringify!($method),
            path: $path,
            call: $call,
            body: None,
            handler: $method(
                |State($http): State<Arc<Http>>,
                 Extension(caller): Extension<Caller>,
                 Extension(unsent): Extension<Unsent>,
                 path: RawPathParams,
                 RawQuery(query): RawQuery| async move {
                    let ($http, caller) = (&$http, &caller);
                    answered(&path, query.as_deref(), |$request| async move {
                        let opened = $http.projections.open(caller, &$request).await?;
                        let $calls = opened.calls().within(unsent);
                        let answer = $answer;
                        opened.told(answer).await
                    })
                    .await
                },
            ),
        }
    };
}

/// A route that is asked by path and body.
macro_rules! ordered {
    ($path:expr, $call:literal, $name:ident) => {
        Route {
            method: "post",
            path: $path,
            call: $call,
            body: JSON,
            handler: post(
                |State(http): State<Arc<Http>>,
                 Extension(caller): Extension<Caller>,
                 path: RawPathParams,
                 request: Request| async move {
                    let (http, caller) = (&http, &caller);
                    let ask = |request| async move {
                        let opened = http.projections.open(caller, &request).await?;
                        let answer = opened.calls().$name(request, http.patience()).await;
                        opened.told(answer).await
                    };
                    done(&path, request, ask).await
                },
            ),
        }
    };
}

/// What is not possible yet.
macro_rules! not_yet {
    ($path:expr, $call:literal, $name:ident) => {
        asked!(post, $path, $call, |http, calls, request| calls.$name(&request))
    };
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        asked!(get, "/v1/namespaces/{namespace}/projections", "List", |http, calls, request| calls
            .list(&request)),
        asked!(get, in_projection!(), "Describe", |http, calls, request| calls.describe(&request)),
        asked!(get, in_projection!("/tables/{table}/rows"), "Query", |http, calls, request| calls
            .query(request, http.patience())
            .await),
        asked!(get, in_projection!("/dead-letters"), "ListDeadLetters", |http, calls, request| calls
            .list_dead_letters(request, http.patience())
            .await),
        asked!(post, of_slot!("/skip"), "Skip", |http, calls, request| calls
            .skip(request, http.patience())
            .await),
        ordered!(in_projection!("/lease"), "Lease", lease),
        ordered!(in_projection!("/allocate"), "Allocate", allocate),
        ordered!(of_slot!("/commit"), "Commit", commit),
        ordered!(of_slot!("/renew"), "Renew", renew),
        ordered!(of_slot!("/release"), "Release", release),
        ordered!(of_slot!("/fail"), "Fail", fail),
        not_yet!(in_projection!("/pause"), "Pause", pause),
        not_yet!(in_projection!("/resume"), "Resume", resume),
        not_yet!(in_projection!("/dead-letters/replay"), "ReplayDeadLetters", replay_dead_letters),
        not_yet!(in_projection!("/rebuild"), "Rebuild", rebuild),
        not_yet!(in_projection!("/switch"), "Switch", switch),
        not_yet!(in_projection!("/audit"), "Audit", audit),
    ]
}

/// A call that is asked by a path and a body together.
async fn done<Q, A, F>(path: &RawPathParams, request: Request, ask: impl FnOnce(Q) -> F) -> Response<Body>
where
    Q: Message + Default + Asked,
    A: Message,
    F: Future<Output = Result<A, Problem>>,
{
    let asked = async { ask(parts::path_and_body(Q::RULE.call, path, request).await?).await };
    told(Q::RULE.call, asked.await)
}
