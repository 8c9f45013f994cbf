//! `[projections.NAME]`: the plan of a projection as people write it, with durations that have units, and back.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_engine::projection::Plan;
use gapless_engine::types::Name;
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::name_of;
use crate::check::Check;
use crate::settings::Section;

/// Durations: written with a unit, planned in milliseconds.
const DURATIONS: [&str; 3] = ["max_ttl", "backoff", "backoff_cap"];
/// What ends the name of a duration in a plan.
const MILLISECONDS: &str = "_ms";

/// The plans of all projections, each as its one text.
pub(super) fn read(section: Section, check: &mut Check) -> BTreeMap<Name, Box<str>> {
    let mut plans = BTreeMap::new();
    for (projection, section) in section.sections(check) {
        let path = format!("projections.{projection}");
        let name = name_of(&path, &projection, check);
        let plan = plan(section, &path, check);
        if let (Some(name), Some(plan)) = (name, plan) {
            plans.insert(name, plan.to_text().into());
        }
    }
    plans
}

fn plan(mut section: Section, path: &str, check: &mut Check) -> Option<Plan> {
    let mut fields = Map::new();
    for key in section.keys() {
        if DURATIONS.contains(&key.as_str()) {
            if let Some(duration) = section.duration(&key, check) {
                let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                fields.insert(format!("{key}{MILLISECONDS}"), milliseconds.into());
            }
            continue;
        }
        let Some(value) = section.value(&key) else { continue };
        let json = match (key.as_str(), value) {
            // A duration without a unit is none.
            (key, _) if key.ends_with(MILLISECONDS) => Err("is not known here".to_owned()),
            ("rules", Value::String(text)) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            (_, value) => json_of(value),
        };
        match json {
            Ok(json) => {
                fields.insert(key, json);
            }
            Err(problem) => check.add(format_args!("{path}.{key}"), problem),
        }
    }
    match Plan::from_json(&Json::Object(fields)) {
        Ok(plan) => Some(plan),
        Err(errors) => {
            for error in errors {
                let field = match error.field.strip_suffix(MILLISECONDS) {
                    Some(duration) if DURATIONS.contains(&duration) => duration,
                    _ => error.field.as_str(),
                };
                let dot = if field.is_empty() { "" } else { "." };
                check.add(format_args!("{path}{dot}{field}"), error.what);
            }
            None
        }
    }
}

fn json_of(value: Value) -> Result<Json, String> {
    Ok(match value {
        Value::String(text) => Json::String(text),
        Value::Integer(integer) => Json::from(integer),
        Value::Boolean(value) => Json::Bool(value),
        Value::Array(items) => Json::Array(items.into_iter().map(json_of).collect::<Result<_, _>>()?),
        Value::Table(table) => {
            let fields = table.into_iter().map(|(name, value)| Ok((name, json_of(value)?)));
            Json::Object(fields.collect::<Result<_, String>>()?)
        }
        Value::Float(float) => return Err(format!("{float} is no integer")),
        Value::Datetime(date) => return Err(format!("{date} is a date: write it as text")),
    })
}

/// The plans of all projections, as they are written.
pub(super) fn tables(plans: &BTreeMap<Name, Box<str>>) -> Table {
    let table = |text: &str| serde_json::from_str(text).map_or_else(|_| Table::new(), |json| table_of(&json));
    plans.iter().map(|(name, plan)| (name.to_string(), Value::Table(table(plan)))).collect()
}

/// The plan of a projection as it is written.
pub fn projection_toml(plan: &Json) -> String {
    table_of(plan).to_string()
}

fn table_of(plan: &Json) -> Table {
    let fields = plan.as_object().into_iter().flatten();
    fields
        .map(|(name, json)| {
            let duration = name.strip_suffix(MILLISECONDS).filter(|name| DURATIONS.contains(name));
            match (duration, json.as_u64()) {
                (Some(name), Some(milliseconds)) => {
                    let duration = humantime::format_duration(Duration::from_millis(milliseconds));
                    (name.to_owned(), Value::String(duration.to_string()))
                }
                // What TOML has no form for stands there as a text of JSON.
                _ => (name.clone(), toml_of(json).unwrap_or_else(|| Value::String(json.to_string()))),
            }
        })
        .collect()
}

/// The same in TOML; none if there is a null in it, or a number that TOML has not.
fn toml_of(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => Value::Integer(number.as_i64()?),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(toml_of).collect::<Option<_>>()?),
        Json::Object(fields) => {
            let field = |(name, json): (&String, &Json)| Some((name.clone(), toml_of(json)?));
            Value::Table(fields.iter().map(field).collect::<Option<_>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{from_toml, to_toml};

    const SHOP: &str = r#"
        name = "shop"
        [projections.work]
        events = ["ItemSold", "ItemReturned"]
        key = "customer"
        scope = "namespace"
        window = 64
        max_ttl = "2m"
        backoff = "250ms"
        backoff_cap = "5s"
        max_renewals = 2
        max_attempts = 3
        on_exhausted = "halt"
        on_expiry = "fill"
        key_serial = true
        park_key = true
        chunk = 10
        [projections.sales.rules.ItemSold]
        kind = "upsert"
        entity = "daily"
        id = { event = "day" }
        set.n.add = [{ row = "n" }, 1]
        [projections.text]
        rules = '{"ItemSold": {"kind": "update", "entity": "daily", "set": {"n": null}}}'
        [projections.everything]
    "#;

    #[test]
    fn plans_are_read_and_written_back() {
        let shop = from_toml(SHOP).unwrap();
        let plan = |name: &str| Plan::from_text(&shop.projections[name]).unwrap();
        let work = plan("work");
        assert!(work.takes("ItemReturned") && !work.takes("Other") && !work.has_rules());
        assert_eq!(
            (work.settings.max_ttl_ms, work.settings.backoff_ms, work.settings.backoff_cap_ms),
            (120_000, 250, 5000)
        );
        assert!(plan("sales").has_rules() && plan("text").has_rules());
        assert!(plan("everything").takes("anything"));
        let written = to_toml(&shop);
        assert!(written.contains("max_ttl = \"2m\""), "{written}");
        assert_eq!(from_toml(&written).unwrap(), shop);
    }

    #[test]
    fn everything_that_is_wrong_with_plans_is_told_at_once() {
        let problem = from_toml(
            r#"
            name = "shop"
            [projections.Bad]
            [projections.work]
            events = []
            window = 0
            max_ttl = "soon"
            max_ttl_ms = 7
            chunk = 1.5
            on_expiry = "explode"
            colour = "red"
            [projections.sales]
            rules = "{"
            [projections.old.rules.ItemSold]
            kind = "merge"
            entity = "daily"
            [projections.short]
            max_ttl = "0s"
            "#,
        )
        .unwrap_err();
        let mut fields: Vec<&str> =
            problem.violations.iter().map(|violation| violation.field.as_str()).collect();
        fields.sort_unstable();
        let expected = [
            "projections.Bad",
            "projections.old.rules.ItemSold",
            "projections.sales.rules",
            "projections.short.max_ttl",
            "projections.work.chunk",
            "projections.work.colour",
            "projections.work.events",
            "projections.work.max_ttl",
            "projections.work.max_ttl_ms",
            "projections.work.on_expiry",
            "projections.work.window",
        ];
        assert_eq!(fields, expected);
    }
}
