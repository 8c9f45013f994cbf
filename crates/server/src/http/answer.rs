//! Answers of HTTP: JSON with a status, and why there is none.

use std::fmt::Display;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use gapless_api::{Problem, ProblemKind};
use serde_json::{Value, json as object};

use super::Http;
use super::parts::BODY_TOO_LARGE;
use crate::readiness::Readiness;

/// A status and JSON.
pub(super) fn json(status: StatusCode, value: &impl Display) -> Response<Body> {
    with_type(status, "application/json", value.to_string())
}

/// A status and a text.
pub(super) fn plain(status: StatusCode, text: &str) -> Response<Body> {
    with_type(status, "text/plain; charset=utf-8", text.to_owned())
}

pub(super) fn with_type(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Why there is no answer.
pub(super) fn refused(problem: &Problem) -> Response<Body> {
    let mut response = json(status(problem), &shown(problem));
    if let Some(seconds) = problem.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// There is nothing under this path.
pub(super) fn no_route(path: &str) -> Response<Body> {
    let message = format!("there is nothing under {path:.200}; /openapi.json describes what there is");
    refused(&Problem::new(ProblemKind::NotFound, "NO_SUCH_ROUTE", message))
}

/// There is something under this path, but not for this method.
pub(super) fn wrong_method() -> Response<Body> {
    let message = "this path is not asked with this method; /openapi.json describes what there is";
    let problem = Problem::new(ProblemKind::Invalid, "WRONG_METHOD", message);
    json(StatusCode::METHOD_NOT_ALLOWED, &shown(&problem))
}

/// A problem as JSON.
pub(super) fn shown(problem: &Problem) -> Value {
    let violation = |violation: &gapless_api::Violation| object!({"field": violation.field, "problem": violation.problem});
    object!({
        "reason": problem.reason,
        "message": problem.message,
        "details": problem.details,
        "violations": problem.violations.iter().map(violation).collect::<Vec<_>>(),
        "retry_after_ms": problem.retry_after.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
    })
}

/// Whether it serves.
pub(super) fn ready(http: &Http) -> Response<Body> {
    let readiness = if *http.closing.borrow() { Readiness::Closing } else { *http.readiness.borrow() };
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    plain(status, &format!("{}\n", readiness.told()))
}

fn status(problem: &Problem) -> StatusCode {
    match problem.kind {
        ProblemKind::Invalid if problem.reason == BODY_TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
        ProblemKind::Invalid => StatusCode::BAD_REQUEST,
        ProblemKind::NotFound => StatusCode::NOT_FOUND,
        ProblemKind::AlreadyExists => StatusCode::CONFLICT,
        ProblemKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        ProblemKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ProblemKind::Deadline => StatusCode::GATEWAY_TIMEOUT,
        ProblemKind::Precondition => StatusCode::PRECONDITION_FAILED,
        ProblemKind::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        ProblemKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ProblemKind::Denied => StatusCode::FORBIDDEN,
        ProblemKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
