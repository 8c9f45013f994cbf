//! Rules from JSON, and from the same shape in TOML.
//!
//! ```text
//! {"ItemSold": {"kind": "upsert", "entity": "daily", "id": {"event": "day"}, "set": {"n": {"add": [{"row": "n"}, 1]}}}}
//! ```
//!
//! Invariants
//! - What is not understood is refused: a misspelt rule does not become one that does nothing.
//! - Depth and size are limited before anything is evaluated.

use serde_json::{Map, Value as Json};
use thiserror::Error;

use super::{Action, Assignments, Comparison, Expression, Operator, Predicate, Rule, Rules};
use crate::limits::{MAX_COLUMNS, MAX_NAME_BYTES, MAX_RULE_DEPTH, MAX_RULE_NODES, MAX_RULES};
use crate::value::Value;

/// Why something is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct RuleError {
    /// Where, from the event type on.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

impl RuleError {
    fn new(place: &str, what: impl Into<String>) -> Self {
        Self { place: place.to_owned(), what: what.into() }
    }
}

impl Rules {
    /// Rules of JSON: an object with one rule per event type.
    ///
    /// # Errors
    /// The first thing that is wrong, and where.
    pub fn from_json(json: &Json) -> Result<Self, RuleError> {
        let rules = json.as_object().ok_or_else(|| RuleError::new("rules", "not an object"))?;
        if rules.len() > MAX_RULES {
            return Err(RuleError::new("rules", format!("more than {MAX_RULES}")));
        }
        let parsed = rules.iter().map(|(name, rule)| {
            let mut parser = Parser { place: name.as_str(), nodes: 0 };
            Ok((parser.name(name)?, parser.rule(rule)?))
        });
        let mut parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        parsed.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self(parsed))
    }

    /// The same of a text of JSON.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_json_text(text: &str) -> Result<Self, RuleError> {
        let json: Json =
            serde_json::from_str(text).map_err(|error| RuleError::new("rules", error.to_string()))?;
        Self::from_json(&json)
    }

    /// The same shape in TOML, where there is no null.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_toml_text(text: &str) -> Result<Self, RuleError> {
        let table: toml::Table =
            toml::from_str(text).map_err(|error| RuleError::new("rules", error.message().to_owned()))?;
        Self::from_json(&from_toml(toml::Value::Table(table))?)
    }
}

fn from_toml(value: toml::Value) -> Result<Json, RuleError> {
    Ok(match value {
        toml::Value::String(text) => Json::String(text),
        toml::Value::Integer(integer) => Json::from(integer),
        toml::Value::Boolean(value) => Json::Bool(value),
        toml::Value::Array(items) => Json::Array(items.into_iter().map(from_toml).collect::<Result<_, _>>()?),
        toml::Value::Table(table) => {
            let fields = table.into_iter().map(|(name, value)| Ok((name, from_toml(value)?)));
            Json::Object(fields.collect::<Result<_, _>>()?)
        }
        toml::Value::Float(_) => return Err(RuleError::new("rules", "a number that is no integer")),
        toml::Value::Datetime(_) => return Err(RuleError::new("rules", "a date: write it as text")),
    })
}

struct Parser<'a> {
    /// The event type, to say where something is wrong.
    place: &'a str,
    nodes: usize,
}

impl Parser<'_> {
    fn wrong(&self, what: impl Into<String>) -> RuleError {
        RuleError::new(self.place, what)
    }

    fn name(&self, name: &str) -> Result<Box<str>, RuleError> {
        match name.len() {
            1..=MAX_NAME_BYTES => Ok(name.into()),
            _ => Err(self.wrong(format!("a name has from 1 to {MAX_NAME_BYTES} bytes"))),
        }
    }

    fn rule(&mut self, json: &Json) -> Result<Rule, RuleError> {
        let rule = json.as_object().ok_or_else(|| self.wrong("a rule is an object"))?;
        let kind = rule.get("kind").and_then(Json::as_str).ok_or_else(|| self.wrong("no kind"))?;
        let table = rule.get("entity").and_then(Json::as_str).ok_or_else(|| self.wrong("no entity"))?;
        let known: &[&str] = match kind {
            "upsert" => &["kind", "entity", "id", "set"],
            "update" => &["kind", "entity", "where", "set"],
            "delete" => &["kind", "entity", "where"],
            other => return Err(self.wrong(format!("no kind is called `{other}`"))),
        };
        if let Some(unknown) = rule.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(self.wrong(format!("an {kind} has no `{unknown}`")));
        }
        let action = match kind {
            "upsert" => {
                let id = rule.get("id").ok_or_else(|| self.wrong("an upsert without an id"))?;
                Action::Upsert { id: self.expression(id, 0)?, set: self.assignments(rule)? }
            }
            "update" => Action::Update { filter: self.filter(rule)?, set: self.assignments(rule)? },
            _ => Action::Delete { filter: self.filter(rule)? },
        };
        Ok(Rule { table: self.name(table)?, action })
    }

    fn assignments(&mut self, rule: &Map<String, Json>) -> Result<Assignments, RuleError> {
        let Some(set) = rule.get("set") else { return Ok(Vec::new()) };
        let set = set.as_object().ok_or_else(|| self.wrong("`set` is an object"))?;
        if set.len() > MAX_COLUMNS {
            return Err(self.wrong(format!("more than {MAX_COLUMNS} columns")));
        }
        set.iter().map(|(column, value)| Ok((self.name(column)?, self.expression(value, 0)?))).collect()
    }

    fn filter(&mut self, rule: &Map<String, Json>) -> Result<Predicate, RuleError> {
        rule.get("where").map_or(Ok(Predicate::Constant(true)), |filter| self.predicate(filter, 0))
    }

    /// Counts something that is evaluated, so deep.
    fn count(&mut self, depth: usize) -> Result<usize, RuleError> {
        self.nodes += 1;
        if depth >= MAX_RULE_DEPTH {
            return Err(self.wrong(format!("nested deeper than {MAX_RULE_DEPTH}")));
        }
        if self.nodes > MAX_RULE_NODES {
            return Err(self.wrong(format!("more than {MAX_RULE_NODES} expressions")));
        }
        Ok(depth + 1)
    }

    fn expression(&mut self, json: &Json, depth: usize) -> Result<Expression, RuleError> {
        let deeper = self.count(depth)?;
        if !json.is_object() {
            return match Value::from_json(json) {
                Value::Opaque(json) => Err(self.wrong(format!("{json} is no value"))),
                literal => Ok(Expression::Literal(literal)),
            };
        }
        let (name, argument) = self.only_field(json)?;
        match name {
            "event" => self.text(argument).map(Expression::Event),
            "row" => self.text(argument).map(Expression::Row),
            "add" => self.arithmetic(Operator::Add, argument, deeper),
            "sub" => self.arithmetic(Operator::Subtract, argument, deeper),
            "mul" => self.arithmetic(Operator::Multiply, argument, deeper),
            other => Err(self.wrong(format!("no value is called `{other}`"))),
        }
    }

    fn arithmetic(&mut self, operator: Operator, json: &Json, depth: usize) -> Result<Expression, RuleError> {
        let [one, other] = self.pair(json)?;
        let operands = [self.expression(one, depth)?, self.expression(other, depth)?];
        Ok(Expression::Arithmetic(operator, Box::new(operands)))
    }

    fn predicate(&mut self, json: &Json, depth: usize) -> Result<Predicate, RuleError> {
        let deeper = self.count(depth)?;
        match json {
            Json::Bool(value) => return Ok(Predicate::Constant(*value)),
            Json::String(word) if word == "true" => return Ok(Predicate::Constant(true)),
            Json::String(word) if word == "false" => return Ok(Predicate::Constant(false)),
            _ => {}
        }
        let (name, argument) = self.only_field(json)?;
        let comparison = match name {
            "true" => return Ok(Predicate::Constant(true)),
            "false" => return Ok(Predicate::Constant(false)),
            "and" => return self.predicates(argument, deeper).map(Predicate::And),
            "or" => return self.predicates(argument, deeper).map(Predicate::Or),
            "not" => {
                let inner = match argument.as_array().map(Vec::as_slice) {
                    Some([inner]) => inner,
                    _ => argument,
                };
                return Ok(Predicate::Not(Box::new(self.predicate(inner, deeper)?)));
            }
            "is_null" => return self.column(argument, deeper).map(Predicate::IsNull),
            "in" => {
                let [column, list] = self.pair(argument)?;
                let list = list.as_array().ok_or_else(|| self.wrong("`in` wants a list"))?;
                let column = self.column(column, deeper)?;
                let list = list.iter().map(|item| self.expression(item, deeper)).collect::<Result<_, _>>()?;
                return Ok(Predicate::In(column, list));
            }
            "eq" => Comparison::Equal,
            "ne" => Comparison::NotEqual,
            "lt" => Comparison::Less,
            "le" => Comparison::LessOrEqual,
            "gt" => Comparison::Greater,
            "ge" => Comparison::GreaterOrEqual,
            other => return Err(self.wrong(format!("no predicate is called `{other}`"))),
        };
        let [column, value] = self.pair(argument)?;
        let sides = [self.column(column, deeper)?, self.expression(value, deeper)?];
        Ok(Predicate::Compare(comparison, Box::new(sides)))
    }

    fn predicates(&mut self, json: &Json, depth: usize) -> Result<Vec<Predicate>, RuleError> {
        let list = json.as_array().ok_or_else(|| self.wrong("`and` and `or` want a list"))?;
        list.iter().map(|item| self.predicate(item, depth)).collect()
    }

    /// A column by its name, or any other value.
    fn column(&mut self, json: &Json, depth: usize) -> Result<Expression, RuleError> {
        match json {
            Json::String(_) => {
                self.count(depth)?;
                self.text(json).map(Expression::Row)
            }
            Json::Object(_) => self.expression(json, depth),
            other => Err(self.wrong(format!("{other} is no column"))),
        }
    }

    fn text(&self, json: &Json) -> Result<Box<str>, RuleError> {
        self.name(json.as_str().ok_or_else(|| self.wrong(format!("{json} is no name")))?)
    }

    fn pair<'j>(&self, json: &'j Json) -> Result<&'j [Json; 2], RuleError> {
        let pair = json.as_array().and_then(|items| items.as_slice().try_into().ok());
        pair.ok_or_else(|| self.wrong(format!("{json} is no list of two")))
    }

    fn only_field<'j>(&self, json: &'j Json) -> Result<(&'j str, &'j Json), RuleError> {
        let fields = json.as_object().filter(|fields| fields.len() == 1);
        let only = fields.and_then(|fields| fields.iter().next());
        only.map(|(name, value)| (name.as_str(), value))
            .ok_or_else(|| self.wrong(format!("{json} is no object with one field")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_and_toml_of_the_same_shape_are_the_same_rules() {
        let json = json!({"Sold": {"kind": "update", "entity": "daily", "set": {"n": {"add": [{"row": "n"}, 1]}},
            "where": {"and": [{"eq": ["day", {"event": "day"}]}, {"not": {"in": ["st", ["x", "y"]]}}, {"is_null": "z"}]}}});
        let toml = r#"
            [Sold]
            kind = "update"
            entity = "daily"
            set.n.add = [{ row = "n" }, 1]
            where.and = [{ eq = ["day", { event = "day" }] }, { not = { in = ["st", ["x", "y"]] } }, { is_null = "z" }]
        "#;
        assert_eq!(Rules::from_toml_text(toml).unwrap(), Rules::from_json(&json).unwrap());
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (rule, what) in [
            (json!({"entity": "t"}), "no kind"),
            (json!({"kind": "merge", "entity": "t"}), "no kind is called"),
            (json!({"kind": "update", "entity": "t", "were": true, "set": {}}), "has no `were`"),
            (json!({"kind": "upsert", "entity": "t", "set": {}}), "without an id"),
            (json!({"kind": "upsert", "entity": "t", "id": 1.5, "set": {}}), "no value"),
            (json!({"kind": "update", "entity": "t", "where": {"like": ["a", "b"]}}), "no predicate"),
            (json!({"kind": "update", "entity": "t", "where": {"eq": ["a"]}}), "no list of two"),
            (json!({"kind": "update", "entity": "t", "where": {"eq": [5, 1]}}), "no column"),
            (json!({"kind": "delete", "entity": "", "where": true}), "a name has"),
        ] {
            let error = Rules::from_json(&json!({"Sold": rule})).unwrap_err();
            assert!(error.place == "Sold" && error.what.contains(what), "{rule}: {error}");
        }
    }

    #[test]
    fn depth_and_size_are_limited() {
        let mut deep = json!(true);
        for _ in 0..MAX_RULE_DEPTH {
            deep = json!({ "not": deep });
        }
        let rule = |filter: Json| {
            Rules::from_json(&json!({"E": {"kind": "delete", "entity": "t", "where": filter}}))
        };
        assert!(rule(deep.clone()).unwrap_err().what.contains("deeper"));
        assert!(rule(deep["not"].clone()).is_ok());
        let wide = |count| json!({"in": ["a", vec![1; count]]});
        assert!(rule(wide(MAX_RULE_NODES)).unwrap_err().what.contains("more than"));
        assert!(rule(wide(MAX_RULE_NODES - 2)).is_ok());
    }
}
