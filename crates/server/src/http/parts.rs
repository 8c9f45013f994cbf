//! Requests from what HTTP has: a path, a query, a body.

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::header;
use futures_util::StreamExt;
use gapless_api::json::{from_fields, from_json};
use gapless_api::{Problem, ProblemKind};
use hyper::body::Body as _;
use percent_encoding::percent_decode_str;
use prost::Message;
use serde_json::Value;

use crate::slow_body::given_up;

/// Longest body that is read, in bytes: a write of 4 MiB, with what JSON and base64 add to it.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Why a longer one is not.
pub(super) const BODY_TOO_LARGE: &str = "BODY_TOO_LARGE";

/// The request of a call, from path and query.
pub(super) fn request<Q: Message + Default>(
    call: &str,
    path: &RawPathParams,
    query: Option<&str>,
) -> Result<Q, Problem> {
    let query = pairs(query.unwrap_or_default())?;
    let in_query = query.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    decoded(&from_fields(&format!("{call}Request"), path.iter().chain(in_query))?)
}

/// The request of a call, from a body of JSON.
pub(super) async fn body<Q: Message + Default>(call: &str, request: Request) -> Result<Q, Problem> {
    decoded(&from_json(&format!("{call}Request"), &json(request).await?)?)
}

/// The request of a call, from a path and a body of JSON, which does not say again what the path says.
pub(super) async fn path_and_body<Q: Message + Default>(
    call: &str,
    path: &RawPathParams,
    request: Request,
) -> Result<Q, Problem> {
    let mut value = json(request).await?;
    let fields = value.as_object_mut().ok_or_else(|| Problem::violation("body", "is no object"))?;
    for (name, text) in path {
        if fields.insert(name.to_owned(), Value::from(text)).is_some() {
            return Err(Problem::violation(name, "is said by the path"));
        }
    }
    decoded(&from_json(&format!("{call}Request"), &value)?)
}

/// A body of JSON. An empty one says nothing.
async fn json(request: Request) -> Result<Value, Problem> {
    let text = text(request).await?;
    match text.trim() {
        "" => Ok(Value::Object(serde_json::Map::new())),
        text => serde_json::from_str(text).map_err(|error| Problem::violation("body", error.to_string())),
    }
}

/// A message from its bytes.
pub(super) fn decoded<Q: Message + Default>(bytes: &[u8]) -> Result<Q, Problem> {
    Q::decode(bytes).map_err(|error| Problem::new(ProblemKind::Internal, "INTERNAL", error.to_string()))
}

/// The names and values of a query.
fn pairs(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        let decoded = percent_decode_str(&spaced).decode_utf8().map(std::borrow::Cow::into_owned);
        decoded.map_err(|_| Problem::violation("query", "is not UTF-8"))
    };
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name)?, decode(value)?))
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

/// A body as text.
pub(super) async fn text(request: Request) -> Result<String, Problem> {
    if request.headers().get_all(header::CONTENT_ENCODING).iter().any(|encoding| encoding != "identity") {
        return Err(Problem::violation(
            "Content-Encoding",
            "bodies are sent as they are, without compression",
        ));
    }
    let bytes = whole(request.into_body()).await?;
    String::from_utf8(bytes).map_err(|_| Problem::violation("body", "is not UTF-8"))
}

/// All bytes of a body. Of one that says how long it is, nothing is read if that is too long.
async fn whole(body: Body) -> Result<Vec<u8>, Problem> {
    let length = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if length > MAX_BODY_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(length);
    let mut parts = body.into_data_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| given_up(&error).unwrap_or_else(broke_off))?;
        if part.len() > MAX_BODY_BYTES - bytes.len() {
            return Err(too_large());
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

fn too_large() -> Problem {
    let message = format!("the body is longer than {MAX_BODY_BYTES} bytes");
    let problem = Problem::new(ProblemKind::Invalid, BODY_TOO_LARGE, message);
    problem.with("limit", "body_bytes").with("maximum", MAX_BODY_BYTES)
}

fn broke_off() -> Problem {
    Problem::new(
        ProblemKind::Invalid,
        "BODY_BROKE_OFF",
        "the body broke off before its end, and nothing was done",
    )
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn a_body_is_whole_too_long_or_broke_off() {
        let parts = |count: usize, breaks: bool| {
            let parts = std::iter::repeat_n(Ok(vec![b' '; 1 << 20]), count);
            let end = breaks.then_some(Err(std::io::ErrorKind::UnexpectedEof));
            Body::from_stream(stream::iter(parts.chain(end)).map(|part| part.map_err(std::io::Error::from)))
        };
        let reason = |read: Result<Vec<u8>, Problem>| read.map_err(|problem| problem.reason.into_owned());
        assert_eq!(reason(whole(parts(8, false)).await).map(|bytes| bytes.len()), Ok(8 << 20));
        assert_eq!(reason(whole(parts(9, false)).await), Err(BODY_TOO_LARGE.to_owned()));
        assert_eq!(
            reason(whole(Body::from(vec![b' '; (8 << 20) + 1])).await),
            Err(BODY_TOO_LARGE.to_owned())
        );
        assert_eq!(reason(whole(parts(2, true)).await), Err("BODY_BROKE_OFF".to_owned()));
        assert_eq!(whole(Body::empty()).await.unwrap(), b"");
    }
}
