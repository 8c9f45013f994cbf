//! Values of columns, from what programs have and back.

use crate::v1::ColumnValue;
use crate::v1::column_value::Kind;

impl From<i64> for ColumnValue {
    fn from(value: i64) -> Self {
        Self { kind: Some(Kind::Integer(value)) }
    }
}

impl From<bool> for ColumnValue {
    fn from(value: bool) -> Self {
        Self { kind: Some(Kind::Boolean(value)) }
    }
}

impl From<&str> for ColumnValue {
    fn from(value: &str) -> Self {
        Self { kind: Some(Kind::Text(value.to_owned())) }
    }
}

impl From<String> for ColumnValue {
    fn from(value: String) -> Self {
        Self { kind: Some(Kind::Text(value)) }
    }
}

impl ColumnValue {
    /// None.
    pub fn null() -> Self {
        Self { kind: Some(Kind::Null(true)) }
    }

    /// The integer, if it is one.
    pub fn as_integer(&self) -> Option<i64> {
        match &self.kind {
            Some(Kind::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Some(Kind::Text(value)) => Some(value),
            _ => None,
        }
    }
}
