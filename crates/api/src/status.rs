//! A problem as a status of gRPC, and back: what is lost on the way is nothing but the types.

use std::borrow::Cow;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::problem::{Problem, ProblemKind, Violation};

/// Who says what a reason means.
const DOMAIN: &str = "gapless.v1";

/// Most violations that are told; a status travels in a header.
const MAX_TOLD: usize = 32;
/// Longest message that is told, in bytes.
const MAX_MESSAGE_BYTES: usize = 2048;

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let mut details = ErrorDetails::new();
        details.set_error_info(
            problem.reason,
            DOMAIN,
            problem.details.into_iter().collect::<std::collections::HashMap<_, _>>(),
        );
        if let Some(delay) = problem.retry_after {
            details.set_retry_info(Some(delay));
        }
        for violation in problem.violations.into_iter().take(MAX_TOLD) {
            details.add_bad_request_violation(violation.field, violation.problem);
        }
        Status::with_error_details(code(problem.kind), shortened(problem.message), details)
    }
}

impl From<&Status> for Problem {
    fn from(status: &Status) -> Self {
        let details = status.get_error_details();
        let (kind, reason) = kind(status.code());
        let mut problem = Problem::new(kind, reason, status.message());
        if let Some(info) = details.error_info() {
            problem.reason = Cow::Owned(info.reason.clone());
            problem.details.extend(info.metadata.clone());
        }
        problem.retry_after = details.retry_info().and_then(|info| info.retry_delay);
        if let Some(request) = details.bad_request() {
            let violation = |violation: &tonic_types::FieldViolation| Violation {
                field: violation.field.clone(),
                problem: violation.description.clone(),
            };
            problem.violations = request.field_violations.iter().map(violation).collect();
        }
        problem
    }
}

impl Problem {
    /// The seconds of a `Retry-After`, never 0.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|delay| (delay + Duration::from_millis(999)).as_secs().max(1))
    }
}

/// The code that a kind of problem travels under.
fn code(kind: ProblemKind) -> Code {
    match kind {
        ProblemKind::Invalid => Code::InvalidArgument,
        ProblemKind::NotFound => Code::NotFound,
        ProblemKind::AlreadyExists => Code::AlreadyExists,
        ProblemKind::Exhausted => Code::ResourceExhausted,
        ProblemKind::Unavailable => Code::Unavailable,
        ProblemKind::Deadline => Code::DeadlineExceeded,
        ProblemKind::Precondition => Code::FailedPrecondition,
        ProblemKind::Unimplemented => Code::Unimplemented,
        ProblemKind::Unauthenticated => Code::Unauthenticated,
        ProblemKind::Denied => Code::PermissionDenied,
        ProblemKind::Internal => Code::Internal,
    }
}

/// What a code means here, with the reason of those that carry none: a transport, or another program.
fn kind(code: Code) -> (ProblemKind, &'static str) {
    match code {
        Code::InvalidArgument | Code::OutOfRange => (ProblemKind::Invalid, "INVALID_REQUEST"),
        Code::NotFound => (ProblemKind::NotFound, "NOT_FOUND"),
        Code::AlreadyExists => (ProblemKind::AlreadyExists, "ALREADY_EXISTS"),
        Code::ResourceExhausted => (ProblemKind::Exhausted, "EXHAUSTED"),
        Code::DeadlineExceeded | Code::Cancelled => (ProblemKind::Deadline, "OUTCOME_UNKNOWN"),
        Code::FailedPrecondition => (ProblemKind::Precondition, "FAILED_PRECONDITION"),
        Code::Unimplemented => (ProblemKind::Unimplemented, "UNIMPLEMENTED"),
        Code::Unauthenticated => (ProblemKind::Unauthenticated, "UNAUTHENTICATED"),
        Code::PermissionDenied => (ProblemKind::Denied, "DENIED"),
        // A connection that breaks is told as either of these: the outcome is not known, and a retry gets it.
        Code::Unavailable | Code::Unknown | Code::Aborted => (ProblemKind::Unavailable, "UNAVAILABLE"),
        Code::Internal | Code::DataLoss | Code::Ok => (ProblemKind::Internal, "INTERNAL"),
    }
}

fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|&end| message.is_char_boundary(end)).unwrap_or(0);
        message.truncate(end);
        message.push_str(" ...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_survives_the_wire() {
        let problem = Problem::new(ProblemKind::Exhausted, "OVERLOADED", "too much")
            .with("partition", "16/3")
            .with("limit", "bytes")
            .after(Duration::from_millis(250));
        assert_eq!(Problem::from(&Status::from(problem.clone())), problem);
        let violations = vec![
            Violation { field: "payload".into(), problem: "too long".into() },
            Violation { field: "operations[3].key".into(), problem: "empty".into() },
        ];
        let invalid = Problem::invalid(violations);
        assert_eq!(Problem::from(&Status::from(invalid.clone())), invalid);
    }

    #[test]
    fn a_message_fits_a_header() {
        let problem = Problem::new(ProblemKind::Internal, "STORAGE_FAULT", "é".repeat(5000));
        assert!(Status::from(problem).message().len() < 2100);
    }
}
