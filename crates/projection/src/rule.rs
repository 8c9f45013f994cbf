//! Rules: what an event of a type does to a table, as data.
//!
//! An update or a delete names its rows by a predicate over one row and the event; an upsert names its row by an expression. The
//! predicate is three-valued: a row is taken where it is true, not where it is unknown.
//!
//! Must not know: slots, leases, where rows are stored.

mod evaluate;
mod parse;

use crate::value::Value;

pub use evaluate::EvaluationError;
pub(crate) use evaluate::{Scope, assigned};
pub use parse::RuleError;

/// The rules of a projection by event type, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<(Box<str>, Rule)>);

/// Place of a rule among those of its projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleNumber(pub(crate) u16);

/// What an event of one type does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The table.
    pub table: Box<str>,
    /// What happens there.
    pub action: Action,
}

/// What happens to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// One row is merged with what is set, or made of it.
    Upsert {
        /// Its id.
        id: Expression,
        /// Its new columns.
        set: Assignments,
    },
    /// Every row that matches gets new columns.
    Update {
        /// Which rows.
        filter: Predicate,
        /// Their new columns.
        set: Assignments,
    },
    /// Every row that matches goes.
    Delete {
        /// Which rows.
        filter: Predicate,
    },
}

/// Columns and what they are set to, on the row as it was before all of them.
pub type Assignments = Vec<(Box<str>, Expression)>;

/// What has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Itself.
    Literal(Value),
    /// A field of the event.
    Event(Box<str>),
    /// A column of the row.
    Row(Box<str>),
    /// Of two integers; null if either is.
    Arithmetic(Operator, Box<[Expression; 2]>),
}

/// What is done to two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Their sum.
    Add,
    /// Their difference.
    Subtract,
    /// Their product.
    Multiply,
}

/// What is true, false or unknown of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predicate {
    /// Always the same.
    Constant(bool),
    /// Two values beside each other; unknown if either is null.
    Compare(Comparison, Box<[Expression; 2]>),
    /// Equal to one of the list.
    In(Expression, Vec<Expression>),
    /// Null; never unknown.
    IsNull(Expression),
    /// All of them.
    And(Vec<Predicate>),
    /// Any of them.
    Or(Vec<Predicate>),
    /// The opposite; of unknown, unknown.
    Not(Box<Predicate>),
}

/// How two values lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same.
    Equal,
    /// Not the same.
    NotEqual,
    /// The first comes before.
    Less,
    /// The first does not come after.
    LessOrEqual,
    /// The first comes after.
    Greater,
    /// The first does not come before.
    GreaterOrEqual,
}

impl Rules {
    /// The rule for events of a type.
    pub fn get(&self, event_type: &str) -> Option<&Rule> {
        self.number_of(event_type).map(|number| self.at(number))
    }

    pub(crate) fn number_of(&self, event_type: &str) -> Option<RuleNumber> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(event_type)).ok()?;
        Some(RuleNumber(u16::try_from(found).expect("there are at most a thousand rules")))
    }

    /// # Panics
    /// If the number is one of other rules.
    pub(crate) fn at(&self, number: RuleNumber) -> &Rule {
        &self.0[usize::from(number.0)].1
    }

    /// The event types that there are rules for, in order.
    pub fn event_types(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
