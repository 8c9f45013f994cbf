//! stub: what a projection does, as its definition says.

use serde_json::{Map, Value as Json, json};
use thiserror::Error;

use crate::rule::Rules;
use crate::settings::{OnExhausted, OnExpiry, Settings};

/// Which events are routed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routing {
    /// All.
    All,
    /// Those of these types.
    Types(Vec<Box<str>>),
}

/// Whose rows they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each workspace's own.
    Workspace,
    /// The namespace's.
    Namespace,
}

/// What a projection does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Events.
    pub events: Routing,
    /// Payload field that is the key.
    pub key: Option<Box<str>>,
    /// Whose rows.
    pub scope: Scope,
    /// Settings.
    pub settings: Settings,
    /// Rules.
    pub rules: Rules,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct PlanError {
    /// Where.
    pub place: String,
    /// What.
    pub what: String,
}

impl Plan {
    /// A plan of JSON.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn from_json(json: &Json) -> Result<Self, Vec<PlanError>> {
        let empty = Map::new();
        let fields = json.as_object().unwrap_or(&empty);
        let mut wrong = Vec::new();
        let number = |name: &str, default: u64| fields.get(name).and_then(Json::as_u64).unwrap_or(default);
        let default = Settings::default();
        let rules = match fields.get("rules").map(Rules::from_json) {
            Some(Ok(rules)) => rules,
            Some(Err(error)) => {
                wrong.push(PlanError { place: format!("rules.{}", error.place), what: error.what });
                Rules::default()
            }
            None => Rules::default(),
        };
        let events = match fields.get("events").and_then(Json::as_array) {
            Some(types) => Routing::Types(types.iter().filter_map(Json::as_str).map(Box::from).collect()),
            None => match fields.get("rules").and_then(Json::as_object) {
                Some(rules) => Routing::Types(rules.keys().map(|name| name.as_str().into()).collect()),
                None => Routing::All,
            },
        };
        let settings = Settings {
            window: number("window", default.window),
            max_ttl_ms: number("max_ttl_ms", default.max_ttl_ms),
            max_renewals: u32::try_from(number("max_renewals", 6)).unwrap_or(0),
            max_attempts: u32::try_from(number("max_attempts", 10)).unwrap_or(0),
            on_exhausted: if fields.get("on_exhausted") == Some(&json!("halt")) { OnExhausted::Halt } else { OnExhausted::Fill },
            on_expiry: if fields.get("on_expiry") == Some(&json!("fill")) { OnExpiry::Fill } else { OnExpiry::Reclaim },
            backoff_ms: number("backoff_ms", 0),
            backoff_cap_ms: number("backoff_cap_ms", default.backoff_cap_ms),
            key_serial: fields.get("key_serial") == Some(&json!(true)),
            park_key: fields.get("park_key") == Some(&json!(true)),
            chunk: usize::try_from(number("chunk", 1000)).unwrap_or(0),
        };
        if let Err(error) = settings.check() {
            wrong.push(PlanError { place: error.name.to_owned(), what: error.to_string() });
        }
        let scope = if fields.get("scope") == Some(&json!("namespace")) { Scope::Namespace } else { Scope::Workspace };
        let key = fields.get("key").and_then(Json::as_str).map(Box::from);
        if wrong.is_empty() { Ok(Self { events, key, scope, settings, rules }) } else { Err(wrong) }
    }

    /// Its JSON.
    pub fn to_json(&self) -> Json {
        json!({})
    }
}
