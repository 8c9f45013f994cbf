//! Commands that ask a server.
//!
//! Must not know: how answers come about.

mod advice;
pub(crate) mod cluster;
pub(crate) mod entity;
pub(crate) mod namespace;
pub(crate) mod partitions;
pub(crate) mod projection;
pub(crate) mod proof;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod sequences;
pub(crate) mod top;
pub(crate) mod write;

use std::future::Future;

use anyhow::Result;
use gapless_client::{AddressError, Client, Credentials, Error, Options, Retry, v1};

pub(crate) use self::advice::explained;
use crate::cli::Connection;
use crate::refusal::Refusal;
use crate::serve_command::runtime;

/// Runs something that asks, until it is done.
pub(crate) fn ask<T>(connection: &Connection, asking: impl AsyncFnOnce(Client) -> Result<T>) -> Result<T> {
    let addresses = connection.server.clone();
    let client = Client::connecting(&addresses, credentials(connection)?)
        .map_err(|error| Refusal::new(error.to_string(), next_after_address(&error)))?;
    let retry = Retry { deadline: connection.timeout, ..Retry::default() };
    let client = client.with(Options { retry, ..Options::default() });
    // Whoever runs a step of a trace says so by this variable; one that says nothing of use is no reason to fail.
    let trace = std::env::var("TRACEPARENT").ok().and_then(|text| text.parse().ok());
    let client = match trace {
        Some(trace) => client.traced(trace),
        None => client,
    };
    runtime()?.block_on(asking(client))
}

/// What proves server and client to each other, from files and flags.
pub(crate) fn credentials(connection: &Connection) -> Result<Credentials> {
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path).map_err(|error| {
            let problem = format!("{}: {error}", path.display());
            Refusal::new(problem, "name a file that can be read: --ca, --cert, --key-file")
        })
    };
    let mut credentials = Credentials::default();
    if let Some(token) = &connection.token {
        credentials = credentials.with_token(token.reveal())?;
    }
    if let Some(ca) = &connection.ca {
        credentials = credentials.with_ca(read(ca)?);
    }
    if let (Some(certificate), Some(key)) = (&connection.cert, &connection.key_file) {
        credentials = credentials.with_certificate(read(certificate)?, read(key)?);
    }
    Ok(credentials)
}

fn next_after_address(error: &AddressError) -> &'static str {
    match error {
        AddressError::Tls { .. } => {
            "give the authority of the server's certificate: --ca FILE; certificates and keys are PEM"
        }
        _ => "give one with --server or GAPLESS_SERVER",
    }
}

/// An answer, or why there is none and what to do next.
pub(crate) async fn answer<T>(
    asked: impl Future<Output = std::result::Result<T, Error>>,
    connection: &Connection,
) -> Result<T> {
    asked.await.map_err(|error| explained(error, connection))
}

/// Bytes as text, where they are text; as hexadecimal digits otherwise.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("0x{}", hexadecimal(bytes)),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value of a record's field.
fn value(value: &v1::Value) -> String {
    use v1::value::Kind;
    match &value.kind {
        None | Some(Kind::Null(_)) => "null".to_owned(),
        Some(Kind::Boolean(value)) => value.to_string(),
        Some(Kind::Integer(value)) => value.to_string(),
        Some(Kind::Text(value)) => format!("{value:?}"),
        Some(Kind::Blob(value)) => format!("0x{}", hexadecimal(value)),
        Some(Kind::Record(value)) => format!("record {value}"),
    }
}

/// Names and numbers on one line.
fn pairs<K: std::fmt::Display, V: std::fmt::Display>(pairs: impl IntoIterator<Item = (K, V)>) -> String {
    let shown: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join(" ") }
}
