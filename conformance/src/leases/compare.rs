//! Comparing what was expected with what was got: listed fields only, values bound by `"?X"` and referred to by `"$X"`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// Figures for people are compared up to this.
const TOLERANCE: f64 = 1e-6;

/// Values that were bound.
#[derive(Debug, Default)]
pub(crate) struct Bindings(BTreeMap<String, Value>);

impl Bindings {
    /// A step with values in place of references. What it expects stays as it is.
    pub(crate) fn resolve(&self, step: &Map<String, Value>) -> Result<Map<String, Value>> {
        let arguments = step.iter().filter(|(name, _)| *name != "expect");
        arguments.map(|(name, value)| Ok((name.clone(), self.value(value)?))).collect()
    }

    fn value(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => {
                    self.0.get(name).with_context(|| format!("nothing is bound to {name}"))?.clone()
                }
                None => value.clone(),
            },
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_>>()?)
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| Ok((name.clone(), self.value(value)?)));
                Value::Object(fields.collect::<Result<_>>()?)
            }
            _ => value.clone(),
        })
    }

    /// Whether what was got has everything that was expected; binds what is to be bound.
    pub(crate) fn matches(&mut self, expected: &Value, got: &Value) -> bool {
        match (expected, got) {
            (Value::String(text), _) if text.starts_with('?') => {
                self.0.insert(text[1..].to_owned(), got.clone());
                true
            }
            (Value::String(text), _) if text.starts_with('$') => {
                self.0.get(&text[1..]).is_some_and(|bound| bound == got)
            }
            (Value::Object(expected), Value::Object(got)) => {
                expected.iter().all(|(name, value)| got.get(name).is_some_and(|got| self.matches(value, got)))
            }
            (Value::Array(expected), Value::Array(got)) => {
                expected.len() == got.len()
                    && expected.iter().zip(got).all(|(expected, got)| self.matches(expected, got))
            }
            (Value::Number(expected), Value::Number(got)) if expected.is_f64() || got.is_f64() => {
                let (Some(expected), Some(got)) = (expected.as_f64(), got.as_f64()) else { return false };
                (expected - got).abs() <= TOLERANCE
            }
            _ => expected == got,
        }
    }

    /// What was expected, with values in place of references.
    pub(crate) fn show(&self, expected: &Value) -> String {
        self.value(expected).unwrap_or_else(|_| expected.clone()).to_string()
    }
}
