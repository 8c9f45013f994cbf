//! Reading TOML so that every problem is found at once: unknown keys, wrong types, values out of range.
//!
//! Whoever reads takes what he knows out of a section; what is left at the end is unknown.
//!
//! Must not know: what is set.

use std::time::Duration;

use toml::{Table, Value};

use crate::check::Check;

/// A table with the path that leads to it.
#[derive(Debug)]
pub struct Section {
    path: String,
    table: Table,
}

impl Section {
    /// The whole text. None if it is no TOML; where it stops being some is noted.
    pub fn parse(text: &str, check: &mut Check) -> Option<Self> {
        match text.parse::<Table>() {
            Ok(table) => Some(Self::new(table)),
            Err(error) => {
                let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or(text);
                let line = before.matches('\n').count() + 1;
                check.add(format_args!("line {line}"), error.message());
                None
            }
        }
    }

    /// A table that was read already.
    pub fn new(table: Table) -> Self {
        Self { path: String::new(), table }
    }

    /// Where a key of it is.
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Takes a section out; an empty one if there is none.
    pub fn section(&mut self, key: &str, check: &mut Check) -> Self {
        let path = self.path(key);
        let table = match self.table.remove(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(other) => {
                check.add(&path, format_args!("is {}; a table is needed", other.type_str()));
                Table::new()
            }
        };
        Self { path, table }
    }

    /// Takes all sections out of a section, by name.
    pub fn sections(mut self, check: &mut Check) -> Vec<(String, Self)> {
        let names: Vec<String> = self.table.keys().cloned().collect();
        names.into_iter().map(|name| (name.clone(), self.section(&name, check))).collect()
    }

    /// The keys that are left.
    pub fn keys(&self) -> Vec<String> {
        self.table.keys().cloned().collect()
    }

    /// Takes anything out.
    pub fn value(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    /// Takes a text out.
    pub fn text(&mut self, key: &str, check: &mut Check) -> Option<String> {
        self.take(key, check, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// Takes a switch out.
    pub fn switch(&mut self, key: &str, check: &mut Check) -> Option<bool> {
        self.take(key, check, "true or false", Value::as_bool)
    }

    /// Takes a number out.
    pub fn number(&mut self, key: &str, check: &mut Check) -> Option<u64> {
        let number = |value: &Value| value.as_integer().and_then(|number| u64::try_from(number).ok());
        self.take(key, check, "a number that is not negative", number)
    }

    /// Takes a duration out: a text with a unit.
    pub fn duration(&mut self, key: &str, check: &mut Check) -> Option<Duration> {
        let duration = |value: &Value| value.as_str().and_then(|text| humantime::parse_duration(text).ok());
        self.take(key, check, "a duration with a unit such as \"10s\" or \"24h\"", duration)
    }

    fn take<T>(
        &mut self,
        key: &str,
        check: &mut Check,
        needed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.table.remove(key)?;
        let read = read(&value);
        if read.is_none() {
            check.add(self.path(key), format_args!("is {}; {needed} is needed", shown(&value)));
        }
        read
    }

    /// Notes every key that nobody took.
    pub fn end(self, check: &mut Check) {
        for key in self.table.keys() {
            check.add(self.path(key), "is not known here");
        }
    }
}

fn shown(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > 60 {
        text = format!("a long {}", value.type_str());
    }
    text
}
