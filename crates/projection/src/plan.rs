//! The plan of a projection: which events it takes, what it does with them, how its domains behave. Data, as JSON with one form.
//!
//! ```text
//! {"events": ["ItemSold"], "key": "customer", "scope": "workspace", "window": 1024, "max_ttl_ms": 600000, ...}
//! {"rules": {"ItemSold": {"kind": "upsert", ...}}, ...}
//! ```
//!
//! A plan has rules, which the leader's own worker computes, or takes events for workers: those it names, or all.
//!
//! Invariants
//! - What is not understood is refused; everything that is wrong is told at once.
//! - One plan has one text.
//!
//! Must not know: namespaces, partitions, files.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::domain::Definition;
use crate::limits::{MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_PLAN_BYTES, MAX_RULES};
use crate::rule::Rules;
use crate::settings::{OnExhausted, OnExpiry, Settings};
use crate::value::canonical_json;

/// What a projection is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which events open slots.
    pub events: Routing,
    /// The field of an event that it is kept in order by; its workspace without one.
    pub key: Option<Box<str>>,
    /// Whose rows there are.
    pub scope: Scope,
    /// How its domains behave.
    pub settings: Settings,
    /// What events do; none if workers compute that.
    pub rules: Rules,
    /// The rules as they were given.
    rules_json: Json,
}

/// Which events a projection takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routing {
    /// All of them.
    All,
    /// Those of these types.
    Types(BTreeSet<Box<str>>),
}

/// Whose rows a projection has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every workspace has its own, and every partition a domain.
    #[default]
    Workspace,
    /// The namespace has them, in one domain over all partitions.
    Namespace,
}

/// Something that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {what}")]
pub struct PlanError {
    /// Where.
    pub field: String,
    /// What.
    pub what: String,
}

impl Plan {
    /// A plan from its JSON.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_json(json: &Json) -> Result<Self, Vec<PlanError>> {
        let Some(fields) = json.as_object() else {
            return Err(vec![PlanError { field: String::new(), what: "a plan is an object".to_owned() }]);
        };
        let mut reading = Reading { fields: fields.clone(), errors: Vec::new() };
        let plan = reading.plan();
        for unknown in std::mem::take(&mut reading.fields).keys() {
            reading.wrong(unknown, "is no setting of a projection");
        }
        if canonical_json(json).len() > MAX_PLAN_BYTES {
            reading.wrong("", format!("it is longer than {MAX_PLAN_BYTES} bytes"));
        }
        if reading.errors.is_empty() { Ok(plan) } else { Err(reading.errors) }
    }

    /// A plan from the text of its JSON.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_text(text: &str) -> Result<Self, Vec<PlanError>> {
        let json = serde_json::from_str(text)
            .map_err(|error| vec![PlanError { field: String::new(), what: error.to_string() }])?;
        Self::from_json(&json)
    }

    /// Its JSON, with everything that was left to defaults.
    pub fn to_json(&self) -> Json {
        let settings = &self.settings;
        let mut json = json!({
            "scope": match self.scope {
                Scope::Workspace => "workspace",
                Scope::Namespace => "namespace",
            },
            "window": settings.window,
            "max_ttl_ms": settings.max_ttl_ms,
            "max_renewals": settings.max_renewals,
            "max_attempts": settings.max_attempts,
            "on_exhausted": match settings.on_exhausted {
                OnExhausted::Fill => "fill",
                OnExhausted::Halt => "halt",
            },
            "on_expiry": match settings.on_expiry {
                OnExpiry::Reclaim => "reclaim",
                OnExpiry::Fill => "fill",
            },
            "backoff_ms": settings.backoff_ms,
            "backoff_cap_ms": settings.backoff_cap_ms,
            "key_serial": settings.key_serial,
            "park_key": settings.park_key,
            "chunk": settings.chunk,
        });
        if let Some(key) = &self.key {
            json["key"] = Json::from(&**key);
        }
        match &self.events {
            _ if self.has_rules() => json["rules"] = self.rules_json.clone(),
            Routing::All => {}
            Routing::Types(types) => json["events"] = types.iter().map(|name| Json::from(&**name)).collect(),
        }
        json
    }

    /// Its one text.
    pub fn to_text(&self) -> String {
        canonical_json(&self.to_json())
    }

    /// Whether the leader's own worker computes it.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether events of a type open slots.
    pub fn takes(&self, event_type: &str) -> bool {
        match &self.events {
            Routing::All => true,
            Routing::Types(types) => types.contains(event_type),
        }
    }

    /// What an event is kept in order by, where that is asked for. A value that is too long for a key is known by its hash.
    pub fn key_of(&self, workspace: u64, payload: &[u8]) -> Option<String> {
        if !self.settings.key_serial && !self.settings.park_key {
            return None;
        }
        let Some(field) = &self.key else { return Some(workspace.to_string()) };
        let Ok(Json::Object(fields)) = serde_json::from_slice::<Json>(payload) else { return None };
        let key = match fields.get(&**field)? {
            Json::Null => return None,
            Json::String(text) => text.clone(),
            other => canonical_json(other),
        };
        if key.len() <= MAX_KEY_BYTES {
            return Some(key);
        }
        let hash = Sha256::digest(key.as_bytes());
        Some(hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}")))
    }

    /// What its domains are opened with.
    pub fn definition(&self) -> Definition {
        Definition { settings: self.settings.clone(), rules: self.rules.clone() }
    }
}

/// Takes the fields of a plan one by one.
struct Reading {
    fields: Map<String, Json>,
    errors: Vec<PlanError>,
}

impl Reading {
    fn wrong(&mut self, field: &str, what: impl Into<String>) {
        self.errors.push(PlanError { field: field.to_owned(), what: what.into() });
    }

    fn plan(&mut self) -> Plan {
        let default = Settings::default();
        let settings = Settings {
            window: self.number("window", default.window),
            max_ttl_ms: self.number("max_ttl_ms", default.max_ttl_ms),
            max_renewals: self.small("max_renewals", default.max_renewals),
            max_attempts: self.small("max_attempts", default.max_attempts),
            on_exhausted: self
                .choice("on_exhausted", &[("fill", OnExhausted::Fill), ("halt", OnExhausted::Halt)]),
            on_expiry: self.choice("on_expiry", &[("reclaim", OnExpiry::Reclaim), ("fill", OnExpiry::Fill)]),
            backoff_ms: self.number("backoff_ms", default.backoff_ms),
            backoff_cap_ms: self.number("backoff_cap_ms", default.backoff_cap_ms),
            key_serial: self.switch("key_serial"),
            park_key: self.switch("park_key"),
            chunk: usize::try_from(self.number("chunk", default.chunk as u64)).unwrap_or(usize::MAX),
        };
        if let Err(invalid) = settings.check() {
            self.wrong(
                invalid.name,
                format!("{}, not from {} to {}", invalid.value, invalid.least, invalid.most),
            );
        }
        let key = self.text("key");
        let scope = self.choice("scope", &[("workspace", Scope::Workspace), ("namespace", Scope::Namespace)]);
        let events = self.events();
        let rules_json = self.fields.remove("rules");
        let rules = self.rules(rules_json.as_ref());
        let events = match (events, rules.is_empty()) {
            (Some(_), false) => {
                self.wrong("events", "a projection with rules takes the events that it has rules for");
                Routing::All
            }
            (None, false) => Routing::Types(rules.event_types().map(Box::from).collect()),
            (Some(types), true) => Routing::Types(types),
            (None, true) => Routing::All,
        };
        Plan { events, key, scope, settings, rules, rules_json: rules_json.unwrap_or_default() }
    }

    fn rules(&mut self, json: Option<&Json>) -> Rules {
        let Some(json) = json else { return Rules::default() };
        match Rules::from_json(json) {
            Ok(rules) => {
                if rules.is_empty() {
                    self.wrong("rules", "there is none");
                }
                rules
            }
            Err(error) => {
                self.wrong(&format!("rules.{}", error.place), error.what);
                Rules::default()
            }
        }
    }

    fn events(&mut self) -> Option<BTreeSet<Box<str>>> {
        let json = self.fields.remove("events")?;
        let names = json.as_array().filter(|names| (1..=MAX_RULES).contains(&names.len()));
        let Some(names) = names else {
            self.wrong("events", format!("is no list of 1 to {MAX_RULES} names"));
            return None;
        };
        let mut types = BTreeSet::new();
        for name in names {
            match name.as_str().filter(|name| (1..=MAX_NAME_BYTES).contains(&name.len())) {
                Some(name) => {
                    types.insert(name.into());
                }
                None => self.wrong("events", format!("{name} is no name of 1 to {MAX_NAME_BYTES} bytes")),
            }
        }
        Some(types)
    }

    fn text(&mut self, field: &str) -> Option<Box<str>> {
        let json = self.fields.remove(field)?;
        let text = json.as_str().filter(|text| (1..=MAX_NAME_BYTES).contains(&text.len())).map(Box::from);
        if text.is_none() {
            self.wrong(field, format!("is no name of 1 to {MAX_NAME_BYTES} bytes"));
        }
        text
    }

    fn number(&mut self, field: &str, default: u64) -> u64 {
        match self.fields.remove(field) {
            None => default,
            Some(json) => json.as_u64().unwrap_or_else(|| {
                self.wrong(field, format!("{json} is no whole number from 0 on"));
                default
            }),
        }
    }

    fn small(&mut self, field: &str, default: u32) -> u32 {
        let number = self.number(field, u64::from(default));
        u32::try_from(number).unwrap_or_else(|_| {
            self.wrong(field, format!("{number} is more than {}", u32::MAX));
            default
        })
    }

    fn switch(&mut self, field: &str) -> bool {
        match self.fields.remove(field) {
            None => false,
            Some(json) => json.as_bool().unwrap_or_else(|| {
                self.wrong(field, format!("{json} is neither true nor false"));
                false
            }),
        }
    }

    /// One of several words; the first one is the default.
    fn choice<T: Copy>(&mut self, field: &str, choices: &[(&str, T)]) -> T {
        let default = choices.first().expect("there is something to choose").1;
        let Some(json) = self.fields.remove(field) else { return default };
        let found = choices.iter().find(|(name, _)| json == **name);
        found.map(|(_, choice)| *choice).unwrap_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.wrong(field, format!("{json}; there are {}", names.join(" and ")));
            default
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_one_text_and_comes_back_from_it() {
        let rules = json!({"Sold": {"kind": "upsert", "entity": "daily", "id": {"event": "day"},
            "set": {"n": {"add": [{"row": "n"}, 1]}}}});
        for json in [
            json!({}),
            json!({"events": ["B", "A"], "window": 8, "key": "customer", "key_serial": true}),
            json!({"rules": rules, "scope": "namespace", "on_exhausted": "halt", "on_expiry": "fill"}),
        ] {
            let plan = Plan::from_json(&json).unwrap();
            assert_eq!(Plan::from_text(&plan.to_text()).unwrap(), plan);
            assert_eq!(Plan::from_text(&plan.to_text()).unwrap().to_text(), plan.to_text());
        }
        let plan = Plan::from_json(&json!({ "rules": rules })).unwrap();
        assert!(plan.has_rules() && plan.takes("Sold") && !plan.takes("Bought"));
        let workers = Plan::from_json(&json!({"events": ["A"]})).unwrap();
        assert!(!workers.has_rules() && workers.takes("A") && !workers.takes("B"));
        assert!(Plan::from_json(&json!({})).unwrap().takes("anything"));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let errors = Plan::from_json(&json!({
            "window": 0, "max_attempts": -1, "scope": "planet", "key_serial": 1, "events": [], "colour": "red",
            "rules": {"Sold": {"kind": "merge"}},
        }))
        .unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            fields,
            ["max_attempts", "key_serial", "window", "scope", "events", "rules.Sold", "colour"]
        );
        assert!(Plan::from_json(&json!([])).is_err() && Plan::from_text("{").is_err());
        let both = json!({"events": ["A"], "rules": {"A": {"kind": "delete", "entity": "t"}}});
        assert_eq!(Plan::from_json(&both).unwrap_err()[0].field, "events");
    }

    #[test]
    fn events_are_kept_in_order_by_workspace_or_by_a_field() {
        let plan = |json| Plan::from_json(&json).unwrap();
        assert_eq!(plan(json!({})).key_of(7, b"{}"), None);
        assert_eq!(plan(json!({"key_serial": true})).key_of(7, b"{}").as_deref(), Some("7"));
        let by_customer = plan(json!({"park_key": true, "key": "customer"}));
        let key = |payload: &str| by_customer.key_of(7, payload.as_bytes());
        assert_eq!(key(r#"{"customer":"ann"}"#).as_deref(), Some("ann"));
        assert_eq!(key(r#"{"customer":17}"#).as_deref(), Some("17"));
        assert_eq!((key(r#"{"customer":null}"#), key("{}"), key("no JSON")), (None, None, None));
        let long = format!(r#"{{"customer":"{}"}}"#, "x".repeat(MAX_KEY_BYTES + 1));
        let hashed = key(&long).unwrap();
        assert!(hashed.starts_with("sha256:") && hashed.len() == 71);
    }
}
