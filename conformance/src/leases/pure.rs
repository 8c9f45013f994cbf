//! The functions of the vectors.

use anyhow::{Context, Result};
use gapless_projection::{Alert, LeaseRule, Vitals, global_watermark, lease_ms};
use serde_json::{Map, Value, json};

use crate::leases::UnknownOperation;

pub(crate) fn call(step: &Map<String, Value>) -> Result<Value> {
    let name = step.get("fn").and_then(Value::as_str).context("a step without a function")?;
    let nothing = Map::new();
    let arguments = Arguments(step.get("args").and_then(Value::as_object).unwrap_or(&nothing));
    match name {
        "lease_ms" => lease(&arguments),
        "health" => health(&arguments),
        "global_wm" => global(&arguments),
        other => Err(UnknownOperation(other.to_owned()).into()),
    }
}

struct Arguments<'a>(&'a Map<String, Value>);

impl Arguments<'_> {
    fn number(&self, name: &str, default: u64) -> Result<u64> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value.as_u64().with_context(|| format!("{name} is {value}, no number")),
        }
    }

    fn fraction(&self, name: &str, default: f64) -> Result<f64> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value.as_f64().with_context(|| format!("{name} is {value}, no number")),
        }
    }

    fn list(&self, name: &str) -> Result<&[Value]> {
        let list = self.0.get(name).and_then(Value::as_array);
        list.map(Vec::as_slice).with_context(|| format!("{name} is no list"))
    }
}

fn lease(arguments: &Arguments<'_>) -> Result<Value> {
    let samples = arguments.list("samples_ms")?;
    let samples: Option<Vec<u64>> = samples.iter().map(Value::as_u64).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small factor")]
    let buffer_milli = (arguments.fraction("buffer", 2.0)? * 1000.0).round() as u64;
    let rule = LeaseRule {
        size_milli: arguments.number("size_milli", 1000)?,
        buffer_milli,
        cap_ms: arguments.number("cap", 600_000)?,
        floor_ms: arguments.number("floor", 0)?,
        cold_ms: arguments.number("cold", 0)?,
    };
    Ok(json!(lease_ms(samples.context("samples are numbers")?, rule)))
}

fn health(arguments: &Arguments<'_>) -> Result<Value> {
    let vitals = Vitals {
        committed: arguments.number("committed", 0)?,
        expired: arguments.number("expired", 0)?,
        mean_wait_ms: arguments.fraction("avg_wait_ms", 0.0)?,
        active: arguments.number("active", 0)?,
        fills: arguments.number("gaps", 0)?,
        expired_at_once: arguments.number("concurrent_expired", 0)?,
        recovery_failures: arguments.fraction("recovery_failure", 0.0)?,
        ..Vitals::default()
    };
    let health = vitals.health();
    let alerts: Vec<&str> = health.alerts.into_iter().map(Alert::code).collect();
    Ok(json!({"efficiency": health.efficiency, "performing_well": health.performs_well, "alerts": alerts}))
}

fn global(arguments: &Arguments<'_>) -> Result<Value> {
    let domains = arguments.list("unresolved")?;
    let unresolved: Option<Vec<u64>> = domains
        .iter()
        .flat_map(|domain| domain.as_array().into_iter().flatten())
        .map(Value::as_u64)
        .collect();
    let unresolved = unresolved.context("positions are numbers")?;
    Ok(json!(global_watermark(arguments.number("log_end", 0)?, unresolved)))
}
