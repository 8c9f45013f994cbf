//! What clients send, as arbitrary bytes, and what must hold whatever they are: nothing panics, and what is taken says the same again.
//!
//! Plain functions, one per fuzz target, so that the fuzzer and the bounded test of `crates/api` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use gapless_api::definition::{from_toml, to_toml};
use gapless_api::fuzzing::{page_token, page_token_again};
use gapless_api::json::{from_fields, from_json, to_json};
use gapless_api::{v1, write};
use prost::Message;

/// Names of requests that can be asked for as JSON.
const REQUESTS: [&str; 6] = [
    "WriteRequest",
    "ListEntitiesRequest",
    "WaitBarrierRequest",
    "CommitRequest",
    "LeaseRequest",
    "AddNodeRequest",
];

/// A write as a message: it is refused with everything that is wrong, or says the same as JSON.
pub fn write_request(data: &[u8]) {
    let Ok(request) = v1::WriteRequest::decode(data) else { return };
    if let Err(problem) = write::checked(&request) {
        assert!(!problem.violations.is_empty(), "a refusal says what is wrong");
        return;
    }
    let json = to_json("WriteRequest", &request);
    let bytes = from_json("WriteRequest", &json).expect("what was taken can be said as JSON");
    assert_eq!(v1::WriteRequest::decode(bytes.as_slice()).as_ref(), Ok(&request));
}

/// A body of HTTP, or a query, for one of the requests.
pub fn http_json(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let name = REQUESTS[usize::from(*choice) % REQUESTS.len()];
    let Ok(text) = std::str::from_utf8(rest) else { return };
    if let Ok(value) = serde_json::from_str(text) {
        let _ = from_json(name, &value);
    }
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let _ = from_fields(name, pairs);
}

/// A definition: what is taken is written such that it says the same again.
pub fn definition(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match from_toml(text) {
        Ok(definition) => {
            let again = from_toml(&to_toml(&definition)).expect("what is written is a definition");
            assert_eq!(to_toml(&again), to_toml(&definition));
        }
        Err(problem) => assert!(!problem.message.is_empty()),
    }
}

/// The token of a page, as it is, and one that was made with these bytes and then changed.
pub fn page_token_of(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(again) = page_token_again(b"shop", &text) {
        assert_eq!(again, text, "a token has one spelling");
    }
    let issued = page_token(b"shop", data);
    assert_eq!(page_token_again(b"shop", &issued), Some(issued.clone()));
    assert_eq!(page_token_again(b"other", &issued), None, "a token is of one question");
}
