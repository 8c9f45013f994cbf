//! The only way to the calls: whoever has a gate has to name a caller and a request, and gets the calls if that is allowed.
//!
//! What is administered is audited before it is done; if that cannot be, it is not done.
//!
//! Must not know: what a call does.

use axum::http::Extensions;
use gapless_api::{Problem, ProblemKind};

use super::rules::{Asked, Rule, Scope};
use super::{Caller, decide};
use crate::audit::Audit;

/// Calls behind a gate.
#[derive(Clone, Debug)]
pub(crate) struct Gate<C> {
    calls: C,
    audit: Audit,
}

impl<C> Gate<C> {
    pub(crate) fn new(calls: C, audit: Audit) -> Self {
        Self { calls, audit }
    }

    /// The calls, for one request.
    ///
    /// # Errors
    /// If whoever asks may not; or if what he does has to be audited, and that fails.
    pub(crate) async fn open<M: Asked>(&self, caller: &Caller, message: &M) -> Result<&C, Problem> {
        let scope = message.scope();
        if let Err(problem) = decide(&caller.principal, M::RULE, &scope) {
            self.audit.denied(caller, M::RULE);
            return Err(problem);
        }
        if M::RULE.audited {
            self.audit.action(caller, M::RULE, &scope).await?;
        }
        Ok(&self.calls)
    }

    /// The calls, for a stream of requests each of which is asked for by [`allows`].
    ///
    /// # Errors
    /// If whoever asks has this right nowhere.
    pub(crate) fn open_stream(&self, caller: &Caller, rule: &Rule) -> Result<&C, Problem> {
        decide(&caller.principal, rule, &Scope::Something)?;
        Ok(&self.calls)
    }
}

/// Whether a caller may do what a request of a stream asks for, and still is who he was.
///
/// # Errors
/// If not.
pub(crate) fn allows(caller: &Caller, rule: &Rule, scope: &Scope<'_>) -> Result<(), Problem> {
    if caller.expires.is_some_and(|expires| super::authentication::unix_seconds() >= expires) {
        return Err(expired());
    }
    decide(&caller.principal, rule, scope)
}

/// Whoever was known until now.
pub(crate) fn expired() -> Problem {
    let error = super::tokens::TokenError::Expired;
    Problem::new(ProblemKind::Unauthenticated, error.reason(), error.to_string())
}

/// The caller of a request, whom the accept loop has found out.
///
/// # Errors
/// If nobody did: then it is nobody's.
pub(crate) fn caller(extensions: &Extensions) -> Result<&Caller, Problem> {
    let nobody = || Problem::new(ProblemKind::Internal, "NO_CALLER", "a call that came from nowhere");
    extensions.get().ok_or_else(nobody)
}
