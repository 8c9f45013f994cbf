//! The only way to the calls: whoever has a gate has to name a caller and a request, and gets the calls if that is allowed.
//!
//! What is administered is audited before it is done; if that cannot be, it is not done. How it ended is audited behind it.
//!
//! Must not know: what a call does.

use axum::http::Extensions;
use gapless_api::{Problem, ProblemKind, Unsent};

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
        self.decide(caller, M::RULE, &scope)?;
        let begun = match M::RULE.audited {
            true => self.audit.begin(caller, message).await?,
            false => Begun::unaudited(),
        };
        Ok(Opened { calls: &self.calls, begun })
    }

    /// The calls, for a stream of requests each of which is asked for by [`Gate::allows`].
    ///
    /// # Errors
    /// If whoever asks has this right nowhere.
    pub(crate) fn open_stream(&self, caller: &Caller, rule: &Rule) -> Result<&C, Problem> {
        self.decide(caller, rule, &Scope::Something)?;
        Ok(&self.calls)
    }

    /// Whether a caller may do what a request of a stream asks for, and still is who he was.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn allows(&self, caller: &Caller, rule: &Rule, scope: &Scope<'_>) -> Result<(), Problem> {
        if caller.expires.as_ref().is_some_and(Expiry::is_over) {
            return Err(expired());
        }
        self.decide(caller, rule, scope)
    }

    /// Decides, and has refusals audited.
    fn decide(&self, caller: &Caller, rule: &Rule, scope: &Scope<'_>) -> Result<(), Problem> {
        decide(&caller.principal, rule, scope).inspect_err(|_| self.audit.denied(caller, rule))
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

/// Whoever was known until now: a stream ends with it, whichever way its credential became void.
pub(crate) fn expired() -> Problem {
    let message = "the token or certificate has expired, or is not taken any more";
    Problem::new(ProblemKind::Unauthenticated, super::tokens::TokenError::Expired.reason(), message)
}

/// The caller of a request, whom the accept loop has found out.
///
/// # Errors
/// If nobody did: then it is nobody's.
pub(crate) fn caller(extensions: &Extensions) -> Result<&Caller, Problem> {
    extensions.get().ok_or_else(nobody)
}

/// What is read for the caller of a request and not sent yet.
///
/// # Errors
/// If there is no caller.
pub(crate) fn unsent(extensions: &Extensions) -> Result<Unsent, Problem> {
    extensions.get().cloned().ok_or_else(nobody)
}

fn nobody() -> Problem {
    Problem::new(ProblemKind::Internal, "NO_CALLER", "a call that came from nowhere")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::access::rules::{WORK, WRITE_STREAM};
    use crate::access::{Action, Principal, Rights};

    fn caller(namespaces: &[&str], actions: &[Action]) -> Caller {
        let namespaces = namespaces.iter().map(|pattern| pattern.parse().unwrap()).collect();
        let rights = Rights { namespaces, actions: actions.to_vec() };
        let principal = Arc::new(Principal { name: "till".to_owned(), rights });
        Caller { principal, peer: ([127, 0, 0, 1], 5).into(), expires: None }
    }

    #[test]
    fn whoever_may_not_begin_a_stream_or_go_on_with_it_is_in_the_audit() {
        let gate = Gate::new((), Audit::off());
        let denied = || gate.audit.counters().denied.load(Relaxed);
        let reader = caller(&["shop"], &[Action::Read]);
        for (count, rule) in (1..).zip([&WRITE_STREAM, &WORK]) {
            assert_eq!(gate.open_stream(&reader, rule).unwrap_err().reason, "PERMISSION_DENIED");
            assert_eq!(denied(), count, "{}", rule.call);
        }
        let writer = caller(&["shop"], &[Action::Write]);
        gate.open_stream(&writer, &WRITE_STREAM).unwrap();
        gate.allows(&writer, &WRITE_STREAM, &Scope::Namespace("shop".into())).unwrap();
        assert_eq!(denied(), 2);
        gate.allows(&writer, &WRITE_STREAM, &Scope::Namespace("well".into())).unwrap_err();
        assert_eq!(denied(), 3, "in the middle of a stream");
    }
}
