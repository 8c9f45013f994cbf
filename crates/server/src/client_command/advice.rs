//! What went wrong with a command that asked a server, and what to do next.
//!
//! Must not know: any command.

use gapless_client::{Error, Problem, ProblemKind, v1};

use crate::cli::Connection;
use crate::refusal::Refusal;

/// What went wrong, with what to do next.
pub(crate) fn explained(error: Error, connection: &Connection) -> anyhow::Error {
    refusal(error, connection, None).into()
}

/// The same for a write: whoever wants to have its outcome needs its key, which he may not have chosen himself.
pub(super) fn explained_write(error: Error, connection: &Connection, key: &str) -> anyhow::Error {
    refusal(error, connection, Some(key)).into()
}

fn refusal(error: Error, connection: &Connection, key: Option<&str>) -> Refusal {
    match error {
        Error::Refused(refused) => {
            let code = refused.code().as_str_name().trim_start_matches("WRITE_ERROR_CODE_").to_owned();
            Refusal::new(format!("refused: {code}: {}", refused.message), after_refusal(&refused))
        }
        Error::Problem(problem) => {
            let servers = connection.server.join(", ");
            let mut next = after(&problem, &servers);
            if let Some(key) = key.filter(|_| problem.can_be_retried()) {
                next.push_str(&format!("; then the same command with --key {key}, which writes it once"));
            }
            // A connection that could not be made does not say where it was to go.
            let is_nobody = problem.reason == "UNAVAILABLE";
            let where_to = if is_nobody { format!("no answer from {servers}: ") } else { String::new() };
            Refusal::new(format!("{where_to}{}", problem.message), next)
        }
        Error::Protocol(_) => {
            Refusal::new(error.to_string(), "see that server and program have the same version")
        }
    }
}

fn after_refusal(refused: &v1::WriteError) -> String {
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

fn after(problem: &Problem, servers: &str) -> String {
    match problem.kind {
        ProblemKind::Invalid => "mend what is named; nothing was done",
        ProblemKind::NotFound => after_not_found(&problem.reason),
        ProblemKind::AlreadyExists if problem.reason == "NODE_ID_USED" => {
            "choose a higher id, and start the node with it"
        }
        ProblemKind::AlreadyExists => "choose another name",
        ProblemKind::Exhausted => match problem.retry_after {
            Some(delay) => return format!("try again in {}", humantime::format_duration(delay)),
            None => "try again later",
        },
        ProblemKind::Unavailable => return after_unavailable(problem, servers),
        ProblemKind::Deadline => "give it longer: --timeout",
        ProblemKind::Precondition if problem.reason == "NO_PEER_NETWORK" => {
            "ask a server that is a member of a cluster: --server ADDR"
        }
        ProblemKind::Precondition => "see how the partition does: gapless partitions",
        ProblemKind::Unimplemented => "use a server that can",
        ProblemKind::Unauthenticated => {
            "say who you are: --token or GAPLESS_TOKEN (`gapless token inspect` shows what one says), or --cert and --key-file"
        }
        ProblemKind::Denied => "ask whoever runs the server for that right",
        ProblemKind::Internal => "see what the server says on its stderr",
    }
    .to_owned()
}

fn after_not_found(reason: &str) -> &'static str {
    match reason {
        "UNKNOWN_NAMESPACE" => "see which there are: gapless namespace list",
        "UNKNOWN_PROJECTION" => "see which there are: gapless projection list NAMESPACE",
        "NO_SUCH_NODE" => "see which there are: gapless cluster status",
        "NO_SUCH_RECORD" => "see which there are: gapless record list NAMESPACE/WORKSPACE",
        "NO_SUCH_EVENT" => "see which there are: gapless read NAMESPACE/WORKSPACE",
        _ => "see that it is spelled as it was created",
    }
}

/// Somebody answered, unless the connection itself is the problem: that a server runs need not be looked for.
fn after_unavailable(problem: &Problem, servers: &str) -> String {
    let next = match (&*problem.reason, problem.leader()) {
        ("UNAVAILABLE", _) => {
            return format!(
                "see that a server runs at {servers} (`gapless dev` starts one), or name another one: --server ADDR"
            );
        }
        ("NOT_LEADER", Some(leader)) => return format!("ask the node that leads: --server {leader}"),
        ("NOT_LEADER" | "NO_QUORUM", _) => {
            "see that a majority of the nodes runs (`gapless cluster status`), and try again"
        }
        ("ACTUALIZING" | "PARTITION_NOT_OPEN" | "PROJECTION_NOT_OPEN", _) => {
            "wait until the node has read its log (`gapless partitions` shows how far it is), or give it longer: --timeout"
        }
        ("PARTITION_FAILED", _) => {
            "see how the partition does (`gapless partitions`), and why on the server's stderr; it is opened again by itself"
        }
        ("NODE_STOPPED", _) => {
            "see why on the server's stderr, mend that, and start it again; or name another node: --server ADDR"
        }
        ("SHUTTING_DOWN", _) => "wait until it is started again, or name another node: --server ADDR",
        _ => "try again",
    };
    next.to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn unavailable(reason: &'static str) -> Problem {
        Problem::new(ProblemKind::Unavailable, reason, "not now")
    }

    #[test]
    fn only_where_nobody_answers_a_server_is_looked_for() {
        assert!(after(&unavailable("UNAVAILABLE"), "here:1").contains("a server runs at here:1"));
        for reason in [
            "NOT_LEADER",
            "ACTUALIZING",
            "PARTITION_FAILED",
            "PARTITION_NOT_OPEN",
            "NODE_STOPPED",
            "SHUTTING_DOWN",
            "NO_QUORUM",
            "CHANGE_UNCERTAIN",
        ] {
            let next = after(&unavailable(reason), "here:1");
            assert!(!next.contains("here:1"), "{reason}: {next}");
        }
        let elsewhere = unavailable("NOT_LEADER").with("leader", "there:1");
        assert_eq!(after(&elsewhere, "here:1"), "ask the node that leads: --server there:1");
    }

    #[test]
    fn who_is_told_to_come_back_is_told_when() {
        let busy = Problem::new(ProblemKind::Exhausted, "OVERLOADED", "busy");
        assert_eq!(after(&busy.clone().after(Duration::from_millis(1500)), ""), "try again in 1s 500ms");
        assert_eq!(after(&busy, ""), "try again later");
    }
}
