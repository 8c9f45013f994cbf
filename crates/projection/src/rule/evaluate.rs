//! Evaluating a rule on one row and its event.
//!
//! Invariants
//! - The same row and event give the same answer or the same error, everywhere and always.
//! - Integers are checked: what does not fit 64 bits is an error, never another number.

use std::cmp::Ordering;

use thiserror::Error;

use super::{Assignments, Comparison, Expression, Operator, Predicate};
use crate::value::{Row, Value};

/// Why a rule has no answer. It costs an attempt and writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// Values of different types beside each other, or of one that has no place there.
    #[error("values whose types do not fit")]
    TypeError,
    /// A number beyond 64 bits.
    #[error("a number beyond 64 bits")]
    Overflow,
    /// More rows, or bytes of rows, than one slot can change.
    #[error("more rows than one slot can change")]
    TooManyRows,
    /// A row, or an id, that is too long.
    #[error("a row that is too long")]
    RowTooLarge,
}

impl EvaluationError {
    /// Its name.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TypeError => "TYPE_ERROR",
            Self::Overflow => "OVERFLOW",
            Self::TooManyRows => "TOO_MANY_ROWS",
            Self::RowTooLarge => "ROW_TOO_LARGE",
        }
    }
}

/// What expressions refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) event: &'a Row,
    /// None where there is none yet: all its columns are null.
    pub(crate) row: Option<&'a Row>,
}

impl Expression {
    pub(crate) fn value(&self, scope: Scope<'_>) -> Result<Value, EvaluationError> {
        let found = match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Event(field) => scope.event.get(field).cloned(),
            Self::Row(column) => scope.row.and_then(|row| row.get(column)).cloned(),
            Self::Arithmetic(operator, operands) => {
                return operator.apply(&operands[0].value(scope)?, &operands[1].value(scope)?);
            }
        };
        Ok(found.unwrap_or(Value::Null))
    }
}

impl Operator {
    fn apply(self, one: &Value, other: &Value) -> Result<Value, EvaluationError> {
        let (one, other) = match (one, other) {
            (Value::Integer(one), Value::Integer(other)) => (*one, *other),
            (Value::Null, _) | (_, Value::Null) => return Ok(Value::Null),
            _ => return Err(EvaluationError::TypeError),
        };
        let result = match self {
            Self::Add => one.checked_add(other),
            Self::Subtract => one.checked_sub(other),
            Self::Multiply => one.checked_mul(other),
        };
        result.map(Value::Integer).ok_or(EvaluationError::Overflow)
    }
}

impl Predicate {
    /// True, false, or unknown.
    pub(crate) fn holds(&self, scope: Scope<'_>) -> Result<Option<bool>, EvaluationError> {
        match self {
            Self::Constant(value) => Ok(Some(*value)),
            Self::Compare(comparison, sides) => {
                let order = compare(&sides[0].value(scope)?, &sides[1].value(scope)?)?;
                Ok(order.map(|order| comparison.is(order)))
            }
            Self::In(column, list) => {
                let value = column.value(scope)?;
                let items =
                    list.iter().map(|item| Ok(compare(&value, &item.value(scope)?)?.map(Ordering::is_eq)));
                decided_by(true, items)
            }
            Self::IsNull(column) => Ok(Some(column.value(scope)? == Value::Null)),
            Self::And(all) => decided_by(false, all.iter().map(|predicate| predicate.holds(scope))),
            Self::Or(any) => decided_by(true, any.iter().map(|predicate| predicate.holds(scope))),
            Self::Not(predicate) => Ok(predicate.holds(scope)?.map(|holds| !holds)),
        }
    }

    /// Whether a row is taken: unknown is not enough.
    pub(crate) fn takes(&self, scope: Scope<'_>) -> Result<bool, EvaluationError> {
        Ok(self.holds(scope)? == Some(true))
    }
}

/// The first answer that decides, from left to right; else unknown if any was; else the opposite.
fn decided_by(
    decisive: bool,
    answers: impl Iterator<Item = Result<Option<bool>, EvaluationError>>,
) -> Result<Option<bool>, EvaluationError> {
    let mut all_known = true;
    for answer in answers {
        match answer? {
            Some(answer) if answer == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => all_known = false,
        }
    }
    Ok(all_known.then_some(!decisive))
}

fn compare(one: &Value, other: &Value) -> Result<Option<Ordering>, EvaluationError> {
    one.compare(other).map_err(|_| EvaluationError::TypeError)
}

impl Comparison {
    fn is(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// The row after all assignments, each evaluated on the row as it was.
pub(crate) fn assigned(set: &Assignments, scope: Scope<'_>) -> Result<Row, EvaluationError> {
    let mut row = scope.row.cloned().unwrap_or_default();
    for (column, expression) in set {
        let value = expression.value(scope)?;
        if matches!(value, Value::Opaque(_)) {
            return Err(EvaluationError::TypeError);
        }
        row.insert(column.clone(), value);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::rule::{Action, Rules};
    use crate::value::row_from_json;

    fn holds(filter: &Json, row: &Json) -> Result<Option<bool>, EvaluationError> {
        let rules =
            Rules::from_json(&json!({"E": {"kind": "delete", "entity": "t", "where": filter}})).unwrap();
        let Action::Delete { filter } = &rules.get("E").unwrap().action else { panic!("a delete") };
        let event = row_from_json(&json!({"five": 5, "text": "five"})).unwrap();
        filter.holds(Scope { event: &event, row: row_from_json(row).as_ref() })
    }

    #[test]
    fn logic_has_three_values() {
        let row = json!({"n": 5, "s": "a", "z": null});
        let (yes, no, unknown) = (json!({"eq": ["n", 5]}), json!({"eq": ["n", 6]}), json!({"eq": ["z", 5]}));
        for (filter, expected) in [
            (json!({"and": [yes, unknown]}), None),
            (json!({"and": [unknown, no]}), Some(false)),
            (json!({"or": [unknown, yes]}), Some(true)),
            (json!({"or": [unknown, no]}), None),
            (json!({"not": unknown}), None),
            (json!({"not": no}), Some(true)),
            (json!({"and": []}), Some(true)),
            (json!({"or": []}), Some(false)),
            (json!({"in": ["n", [1, null]]}), None),
            (json!({"in": ["n", [null, 5]]}), Some(true)),
            (json!({"in": ["z", []]}), Some(false)),
            (json!({"is_null": "z"}), Some(true)),
            (json!({"is_null": "absent"}), Some(true)),
            (json!({"is_null": "n"}), Some(false)),
            (json!({"ne": ["n", {"event": "five"}]}), Some(false)),
            (json!({"ge": ["n", {"event": "absent"}]}), None),
            (json!({"gt": ["n", {"sub": [{"row": "n"}, 1]}]}), Some(true)),
            (json!(false), Some(false)),
        ] {
            assert_eq!(holds(&filter, &row), Ok(expected), "{filter}");
        }
    }

    #[test]
    fn types_and_numbers_are_checked() {
        let row = json!({"n": i64::MAX, "s": "a"});
        for (filter, error) in [
            (json!({"lt": ["s", 3]}), EvaluationError::TypeError),
            (json!({"in": ["n", ["x"]]}), EvaluationError::TypeError),
            (json!({"eq": ["n", {"add": [{"row": "n"}, 1]}]}), EvaluationError::Overflow),
            (json!({"eq": ["n", {"mul": [{"row": "n"}, 2]}]}), EvaluationError::Overflow),
            (json!({"eq": ["n", {"add": [{"row": "s"}, 1]}]}), EvaluationError::TypeError),
        ] {
            assert_eq!(holds(&filter, &row), Err(error), "{filter}");
        }
        assert_eq!(holds(&json!({"eq": ["n", {"add": [null, 1]}]}), &row), Ok(None));
        // What is decided is not looked at any further.
        assert_eq!(holds(&json!({"and": [false, {"lt": ["s", 3]}]}), &row), Ok(Some(false)));
    }
}
