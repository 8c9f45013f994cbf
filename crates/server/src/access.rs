//! Who may do what, decided in one function, and denied unless a rule allows it.
//!
//! ```text
//!  request ──▶ authentication: a token, a certificate, or refused ──▶ Caller ──▶ gate ──▶ decide(principal, rule, scope) ──▶ the calls
//! ```
//!
//! Invariants
//! - A call is reached through a gate alone, and a gate asks `decide`.
//! - What is decided depends on names alone, never on what exists: a stranger learns nothing from a refusal.
//!
//! Must not know: what a call does; how a credential is checked.

pub(crate) mod authentication;
pub mod certificates;
pub mod clock;
mod crypto;
mod failures;
pub(crate) mod fairness;
pub(crate) mod gate;
pub mod keys;
pub(crate) mod lobby;
pub(crate) mod reload;
pub(crate) mod rules;
pub mod tokens;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use gapless_api::{Problem, ProblemKind};
use serde::{Deserialize, Serialize};

use self::clock::Expiry;
use self::rules::{Need, Rule, Scope};

/// The namespace of the node itself: its audit. Nobody else's events are there.
pub(crate) const SYSTEM: &str = "_system";
/// Who asks a server that asks nobody who he is.
const ANYBODY: &str = "anybody";
/// Longest name of a principal, in bytes.
pub(crate) const MAX_PRINCIPAL_BYTES: usize = 128;

/// What can be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Reading and following.
    Read,
    /// Writing events.
    Write,
    /// Computing projections.
    Work,
    /// Everything that concerns namespaces, partitions and nodes as such.
    Admin,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Work, Self::Admin];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|action| action.name() == text);
        known.ok_or_else(|| format!("`{text}` is not one of read, write, work and admin"))
    }
}

/// Namespaces by name, or by how their name begins: `shop`, `shop*`, `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamespacePattern(String);

impl NamespacePattern {
    fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.0 == name,
        }
    }
}

impl FromStr for NamespacePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let beginning = text.strip_suffix('*');
        match (beginning, gapless_types::Name::check(beginning.unwrap_or(text))) {
            (Some(""), _) | (_, Ok(())) => Ok(Self(text.to_owned())),
            (_, Err(error)) => {
                Err(format!("`{text}` is not a namespace, nor the beginning of one and *: {error}"))
            }
        }
    }
}

impl TryFrom<String> for NamespacePattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NamespacePattern> for String {
    fn from(pattern: NamespacePattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for NamespacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What somebody may do: each of these actions in each of these namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Where.
    pub namespaces: Vec<NamespacePattern>,
    /// What.
    pub actions: Vec<Action>,
}

impl Rights {
    /// Everything, everywhere.
    pub fn all() -> Self {
        Self { namespaces: vec![NamespacePattern("*".to_owned())], actions: Action::ALL.to_vec() }
    }

    /// The same everywhere.
    fn everywhere(&self) -> bool {
        self.namespaces.iter().any(|pattern| pattern.0 == "*")
    }
}

/// Somebody, and what he may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) name: String,
    pub(crate) rights: Rights,
}

impl Principal {
    /// Whoever asks a server that asks nobody who he is.
    pub(crate) fn anybody() -> Self {
        Self { name: ANYBODY.to_owned(), rights: Rights::all() }
    }

    /// Whether it may do this there, as far as names tell. The system's namespace is for those who administer everything.
    pub(crate) fn may(&self, action: Action, namespace: &str) -> bool {
        if namespace == SYSTEM {
            return action == Action::Read && self.may_everywhere(Action::Admin);
        }
        let rights = &self.rights;
        rights.actions.contains(&action) && rights.namespaces.iter().any(|pattern| pattern.matches(namespace))
    }

    pub(crate) fn may_everywhere(&self, action: Action) -> bool {
        self.rights.actions.contains(&action) && self.rights.everywhere()
    }

    fn may_somewhere(&self, action: Action) -> bool {
        self.rights.actions.contains(&action) && !self.rights.namespaces.is_empty()
    }
}

/// Whoever makes a call, as far as it was found out.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Arc<Principal>,
    pub(crate) peer: SocketAddr,
    /// When the credential is void; never, if it is not one that ends.
    pub(crate) expires: Option<Expiry>,
}

/// Whether somebody may make a call. The only place where that is decided.
///
/// # Errors
/// If nothing allows it: the right that is missing.
pub(crate) fn decide(principal: &Principal, rule: &Rule, scope: &Scope<'_>) -> Result<(), Problem> {
    let action = match rule.need {
        Need::Nothing => return Ok(()),
        Need::Anything => return Ok(()),
        Need::Action(action) => action,
    };
    let allowed = match scope {
        Scope::Namespace(name) => principal.may(action, name),
        Scope::Each(names) => names.iter().all(|name| principal.may(action, name)),
        Scope::Everything => principal.may_everywhere(action),
        Scope::Something => principal.may_somewhere(action),
    };
    if allowed { Ok(()) } else { Err(denied(rule.call, action, scope)) }
}

/// The answer says what would be needed, and only repeats what was asked: nothing of what exists.
fn denied(call: &str, action: Action, scope: &Scope<'_>) -> Problem {
    let action = action.name();
    let right = match scope {
        Scope::Namespace(name) if name == SYSTEM => {
            "the right to `admin` in every namespace, and is never written".to_owned()
        }
        Scope::Namespace(name) => format!("the right to `{action}` in namespace `{name:.63}`"),
        Scope::Each(_) => format!("the right to `{action}` in every namespace it names"),
        Scope::Everything => format!("the right to `{action}` in every namespace"),
        Scope::Something => format!("the right to `{action}`"),
    };
    Problem::new(ProblemKind::Denied, "PERMISSION_DENIED", format!("{call} needs {right}"))
        .with("action", action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(namespaces: &[&str], actions: &[Action]) -> Principal {
        let namespaces = namespaces.iter().map(|pattern| pattern.parse().unwrap()).collect();
        Principal { name: "till".to_owned(), rights: Rights { namespaces, actions: actions.to_vec() } }
    }

    #[test]
    fn a_pattern_is_a_name_or_its_beginning() {
        let till = principal(&["shop", "eu-*"], &[Action::Read]);
        for (name, may) in
            [("shop", true), ("shop2", false), ("eu-1", true), ("eu-", true), ("eu", false), ("", false)]
        {
            assert_eq!(till.may(Action::Read, name), may, "{name}");
            assert!(!till.may(Action::Write, name), "{name}");
        }
        for wrong in ["", "Shop", "a*b", "**", "../x", "a b*"] {
            assert!(wrong.parse::<NamespacePattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_rights_nothing_is_allowed() {
        let nobody = principal(&[], &[]);
        let idle = principal(&["*"], &[]);
        let homeless = principal(&[], &Action::ALL);
        for rule in rules::RULES {
            let Need::Action(_) = rule.need else { continue };
            let named = |name: &'static str| Scope::Namespace(name.into());
            for scope in [named("shop"), named(""), Scope::Everything, Scope::Something] {
                for principal in [&nobody, &idle, &homeless] {
                    let refused = decide(principal, rule, &scope).unwrap_err();
                    assert_eq!(refused.kind, ProblemKind::Denied, "{} {scope:?}", rule.call);
                }
            }
        }
    }

    #[test]
    fn the_namespace_of_the_node_is_read_by_those_who_administer_everything_and_written_by_nobody() {
        let anybody = Principal::anybody();
        assert!(anybody.may(Action::Read, SYSTEM));
        for action in [Action::Write, Action::Work, Action::Admin] {
            assert!(!anybody.may(action, SYSTEM), "{action:?}");
        }
        assert!(!principal(&["*"], &[Action::Read, Action::Write]).may(Action::Read, SYSTEM));
        assert!(!principal(&["_system"], &Action::ALL).may(Action::Read, SYSTEM));
    }
}
