//! The span of a request: the place of a call in the trace that its caller began, or in one of its own.
//!
//! A span that nobody wants costs a comparison: ids are made and headers are read only if somebody listens, or if the caller sent a
//! place to begin with, which he gets back with the server's span in it.
//!
//! Must not know: where spans go, what a call means.

use std::num::{NonZeroU64, NonZeroU128};

use axum::http::{HeaderMap, HeaderValue};
use gapless_api::trace::{TRACEPARENT, TraceContext};
use tracing::{Span, debug_span, field};

/// A request that is traced.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) span: Span,
    /// Where it stands, if its caller asked for it.
    given_back: Option<TraceContext>,
}

impl Traced {
    pub(crate) fn new(headers: &HeaderMap) -> Self {
        let told = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()?.parse().ok());
        let span = debug_span!(
            "request",
            method = field::Empty,
            status = field::Empty,
            trace_id = field::Empty,
            span_id = field::Empty,
            parent_span_id = field::Empty,
            sampled = field::Empty,
        );
        let given_back = match told {
            Some(told) => Some(join(&span, told)),
            None => {
                begin(&span);
                None
            }
        };
        Self { span, given_back }
    }

    /// Says which call it is, once that is known.
    pub(crate) fn name(&self, method: Option<&str>) {
        if let Some(method) = method {
            self.span.record("method", method);
        }
    }

    /// Tells the caller where in his trace this was.
    pub(crate) fn give_back(&self, headers: &mut HeaderMap) {
        if let Some(context) = self.given_back
            && let Ok(value) = HeaderValue::try_from(context.to_string())
        {
            headers.insert(TRACEPARENT, value);
        }
    }
}

/// Goes on with the trace of the caller.
fn join(span: &Span, told: TraceContext) -> TraceContext {
    let here = told.with_span(NonZeroU64::new(fastrand::u64(1..)).unwrap_or(NonZeroU64::MAX));
    if !span.is_disabled() {
        span.record("trace_id", field::display(format_args!("{:032x}", here.trace)));
        span.record("span_id", field::display(format_args!("{:016x}", here.span)));
        span.record("parent_span_id", field::display(format_args!("{:016x}", told.span)));
        span.record("sampled", here.sampled);
    }
    here
}

/// Begins a trace; whoever keeps spans decides whether it is kept.
fn begin(span: &Span) {
    if !span.is_disabled() {
        let trace = NonZeroU128::new(fastrand::u128(1..)).unwrap_or(NonZeroU128::MAX);
        span.record("trace_id", field::display(format_args!("{trace:032x}")));
    }
}
