//! What every answer of HTTP says to a browser: not to guess, not to frame, not to keep, not to tell where it came from.
//!
//! Must not know: what is answered.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// What answers get that say nothing else themselves.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// Whoever came by TLS once comes by TLS for a year.
const TRANSPORT: &str = "max-age=31536000";

/// Adds them.
pub(crate) fn secure(headers: &mut HeaderMap, is_tls: bool) {
    let is_grpc = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|content_type| content_type.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        return;
    }
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TRANSPORT));
    }
}
