//! The only way to the calls: whoever has a gate has to name a caller and a request, and gets the calls if that is allowed.
//!
//! What is administered is audited before it is done; if that cannot be, it is not done. How it ended is audited behind it.
//!
//! Must not know: what a call does.

use axum::http::Extensions;
use gapless_api::{Problem, ProblemKind};

use super::clock::Expiry;
use super::rules::{Asked, Rule, Scope};
use super::{Caller, decide};
use crate::audit::{Audit, Begun};

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
    pub(crate) async fn open<M: Asked>(
        &self,
        caller: &Caller,
        message: &M,
    ) -> Result<Opened<'_, C>, Problem> {
        let scope = message.scope();
        if let Err(problem) = decide(&caller.principal, M::RULE, &scope) {
            self.audit.denied(caller, M::RULE);
            return Err(problem);
        }
        let begun = match M::RULE.audited {
            true => self.audit.begin(caller, M::RULE, &scope).await?,
            false => Begun::unaudited(),
        };
        Ok(Opened { calls: &self.calls, begun })
    }

    /// The calls, for a stream of requests each of which is asked for by [`allows`].
    ///
    /// # Errors
    /// If whoever asks has this right nowhere.
    pub(crate) fn open_stream(&self, caller: &Caller, rule: &Rule) -> Result<&C, Problem> {
        if let Err(problem) = decide(&caller.principal, rule, &Scope::Something) {
            self.audit.denied(caller, rule);
            return Err(problem);
        }
        Ok(&self.calls)
    }
}

/// The calls, for a request that is allowed. What was audited has an end, which [`Opened::told`] or [`Opened::begun`] is for.
#[derive(Debug)]
pub(crate) struct Opened<'a, C> {
    calls: &'a C,
    begun: Begun,
}

impl<'a, C> Opened<'a, C> {
    /// The calls, which outlive what is written about this one.
    pub(crate) fn calls(&self) -> &'a C {
        self.calls
    }

    /// The answer, once it is written down whether there is one.
    ///
    /// # Errors
    /// The same that it is told.
    pub(crate) async fn told<T>(self, answer: Result<T, Problem>) -> Result<T, Problem> {
        self.begun.ended(answer.as_ref().err()).await;
        answer
    }

    /// What has its end later.
    pub(crate) fn begun(self) -> Begun {
        self.begun
    }
}

/// Whether a caller may do what a request of a stream asks for, and still is who he was.
///
/// # Errors
/// If not.
pub(crate) fn allows(caller: &Caller, rule: &Rule, scope: &Scope<'_>) -> Result<(), Problem> {
    if caller.expires.as_ref().is_some_and(Expiry::is_over) {
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
