//! Commands that ask a server.
//!
//! Must not know: how answers come about.

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
use gapless_client::{AddressError, Client, Credentials, Error, Options, Problem, ProblemKind, Retry, v1};

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

/// What went wrong, with what to do next.
pub(crate) fn explained(error: Error, connection: &Connection) -> anyhow::Error {
    let refusal = match error {
        Error::Refused(refused) => {
            let code = refused.code().as_str_name().trim_start_matches("WRITE_ERROR_CODE_").to_owned();
            Refusal::new(format!("refused: {code}: {}", refused.message), next_after_refusal(&refused))
        }
        Error::Problem(problem) => {
            let next = next_after(&problem, connection);
            // A connection that could not be made does not say where it was to go.
            let where_to = if problem.reason == "UNAVAILABLE" {
                format!("no answer from {}: ", connection.server.join(", "))
            } else {
                String::new()
            };
            Refusal::new(format!("{where_to}{}", problem.message), next)
        }
        Error::Protocol(_) => {
            Refusal::new(error.to_string(), "see that server and program have the same version")
        }
    };
    refusal.into()
}

fn next_after_refusal(refused: &v1::WriteError) -> String {
    use v1::WriteErrorCode as Code;
    match refused.code() {
        Code::IdempotencyKeyReused => {
            "choose another --key: this one was used for another request".to_owned()
        }
        Code::OffsetMismatch | Code::VersionMismatch => match refused.current_version {
            Some(version) => format!("read again, and decide with {version} in mind; it needs another --key"),
            None => "read again, and decide anew; it needs another --key".to_owned(),
        },
        Code::KeyExists | Code::KeyNotFound | Code::ValueMismatch => {
            "read the entity, and decide anew; it needs another --key".to_owned()
        }
        Code::UnknownSequence => "see which sequences there are: gapless namespace show NAME".to_owned(),
        _ => "nothing was written; mend the request and use another --key".to_owned(),
    }
}

fn next_after(problem: &Problem, connection: &Connection) -> String {
    let servers = connection.server.join(", ");
    match problem.kind {
        ProblemKind::Invalid => "mend what is named; nothing was done".to_owned(),
        ProblemKind::NotFound if problem.reason == "UNKNOWN_NAMESPACE" => {
            "see which there are: gapless namespace list".to_owned()
        }
        ProblemKind::NotFound if problem.reason == "UNKNOWN_PROJECTION" => {
            "see which there are: gapless projection list NAMESPACE".to_owned()
        }
        ProblemKind::NotFound if problem.reason == "NO_SUCH_NODE" => {
            "see which there are: gapless cluster status".to_owned()
        }
        ProblemKind::AlreadyExists if problem.reason == "NODE_ID_USED" => {
            "choose a higher id, and start the node with it".to_owned()
        }
        ProblemKind::NotFound if problem.reason == "NO_SUCH_RECORD" => {
            "see which there are: gapless record list NAMESPACE/WORKSPACE".to_owned()
        }
        ProblemKind::NotFound if problem.reason == "NO_SUCH_EVENT" => {
            "see which there are: gapless read NAMESPACE/WORKSPACE".to_owned()
        }
        ProblemKind::NotFound => "see that it is spelled as it was created".to_owned(),
        ProblemKind::AlreadyExists => "choose another name".to_owned(),
        ProblemKind::Exhausted => "try again later, with the same key".to_owned(),
        ProblemKind::Unavailable => {
            format!(
                "see that a server runs at {servers} (`gapless dev` starts one), or name another one: --server ADDR"
            )
        }
        ProblemKind::Deadline => "ask again with the same key, or with a longer --timeout".to_owned(),
        ProblemKind::Precondition if problem.reason == "NO_PEER_NETWORK" => {
            "ask a server that is a member of a cluster: --server ADDR".to_owned()
        }
        ProblemKind::Precondition => "see how the partition does: gapless partitions".to_owned(),
        ProblemKind::Unimplemented => "use a server that can".to_owned(),
        ProblemKind::Unauthenticated => {
            "say who you are: --token or GAPLESS_TOKEN (`gapless token inspect` shows what one says), or --cert and --key-file"
                .to_owned()
        }
        ProblemKind::Denied => "ask whoever runs the server for that right".to_owned(),
        ProblemKind::Internal => "see what the server says on its stderr".to_owned(),
    }
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
