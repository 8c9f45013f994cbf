//! What a program is told when it does not get its way.

use gapless_api::{Problem, v1};
use thiserror::Error;

/// Why there is no success.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Error {
    /// The write was refused: decided, durable, and the same for every retry. No number was taken.
    #[error("{}", .0.message)]
    Refused(Box<v1::WriteError>),
    /// There is no answer. If it could have been retried, it was, for as long as was allowed.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// What was answered is not what the protocol says.
    #[error("the server's answer is not of the protocol: {0}")]
    Protocol(&'static str),
}

impl Error {
    /// The problem, if it is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}

/// The success in an answer.
pub(crate) fn success(response: v1::WriteResponse) -> Result<v1::WriteSuccess, Error> {
    match response.result {
        Some(v1::write_response::Result::Success(success)) => Ok(success),
        Some(v1::write_response::Result::Error(error)) => Err(Error::Refused(Box::new(error))),
        None => Err(Error::Protocol("a write that neither succeeded nor was refused")),
    }
}
