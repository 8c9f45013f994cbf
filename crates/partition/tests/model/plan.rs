//! What the model is tried with: few workspaces, clients, keys and ids, so that writes collide.

use gapless_partition::{Condition, NewId, Operation, Value, Write};
use gapless_types::WorkspaceId;
use proptest::prelude::*;

pub(crate) const KINDS: [&str; 4] = ["default", "till", "bank", "unknown"];
pub(crate) const TYPES: [&str; 3] = ["order", "profile", "settings"];
pub(crate) const SEQUENCES: [&str; 3] = ["a", "b", "c"];
pub(crate) const CLIENTS: [&str; 2] = ["ann", "bob"];
pub(crate) const KEYS: [&[u8]; 3] = [b"a", b"a/1", b"b"];
pub(crate) const VALUES: [&[u8]; 3] = [b"", b"1", b"2"];
const FIELDS: [&str; 3] = ["x", "y", "z"];

/// One step of a life.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write(Plan),
    /// An earlier write once more, under its key: so many writes ago.
    Retry(usize),
    /// The key of an earlier write, with another one to the same workspace by the same client.
    Reuse(usize, Plan),
    Define(Vec<Edit>),
    Garbage(Vec<u8>),
    Time(i64),
    Checkpoint,
    /// The power goes, with or without a sync in front.
    Crash(bool),
    Close,
    Discard,
    Look,
}

/// A change of the definition that stands.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Sequence(usize, usize, u64),
    NoSequence(usize, usize),
    Kind(usize),
    NoKind(usize),
    Type(usize, bool),
    NoType(usize),
    Partitions(u16),
    Window(u64),
    Rename,
}

/// A write; what depends on the state is said relative to it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) workspace: u64,
    pub(crate) kind: usize,
    pub(crate) client: usize,
    /// Expected offset: behind the end by this much.
    pub(crate) expect: Option<u64>,
    pub(crate) operations: Vec<Change>,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create(NewId, usize, Vec<(usize, Field)>, Option<u64>),
    Update(u64, Vec<(usize, Field)>, Option<bool>),
    /// Key, value, condition, and expiry relative to log time.
    Set(usize, usize, When, Option<i64>),
    Delete(usize, When),
    Number(usize),
    UnknownNumber,
}

#[derive(Clone, Debug)]
pub(crate) enum Field {
    Null,
    Integer(i64),
    Record(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Always,
    Absent,
    Present,
    /// Behind the end of the workspace log by this much.
    Version(u64),
    Value(usize),
}

impl Plan {
    pub(crate) fn write(&self, last: u64, time: u64) -> Write<'static> {
        let mut write = Write::new(WorkspaceId::new(self.workspace), CLIENTS[self.client], "Sold");
        write.kind = KINDS[self.kind];
        write.expected_offset = self.expect.map(|off| last + off);
        write.operations = self.operations.iter().map(|change| change.operation(last, time)).collect();
        write
    }
}

impl Change {
    fn operation(&self, last: u64, time: u64) -> Operation<'static> {
        match self {
            Change::Create(id, record_type, given, parent) => Operation::CreateRecord {
                id: *id,
                record_type: TYPES[*record_type],
                fields: fields(given),
                parent: *parent,
            },
            Change::Update(record, given, active) => {
                Operation::UpdateRecord { record: *record, fields: fields(given), active: *active }
            }
            Change::Set(key, value, when, expires) => Operation::SetEntity {
                key: KEYS[*key],
                value: VALUES[*value],
                condition: when.condition(last),
                expires_at: expires.map(|after| time.saturating_add_signed(after)),
            },
            Change::Delete(key, when) => {
                Operation::DeleteEntity { key: KEYS[*key], condition: when.condition(last) }
            }
            Change::Number(sequence) => Operation::NextNumber { sequence: SEQUENCES[*sequence] },
            Change::UnknownNumber => Operation::NextNumber { sequence: "nobody-declared-it" },
        }
    }
}

impl When {
    fn condition(self, last: u64) -> Condition<'static> {
        match self {
            When::Always => Condition::None,
            When::Absent => Condition::MustNotExist,
            When::Present => Condition::MustExist,
            When::Version(behind) => Condition::VersionEquals((last + 1).saturating_sub(behind)),
            When::Value(value) => Condition::ValueEquals(VALUES[value]),
        }
    }
}

fn fields(given: &[(usize, Field)]) -> Vec<(&'static str, Value<'static>)> {
    let mut fields: Vec<_> = given
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Field::Null => Value::Null,
                Field::Integer(number) => Value::Integer(*number),
                Field::Record(id) => Value::Record(*id),
            };
            (FIELDS[*name], value)
        })
        .collect();
    fields.sort_by_key(|(name, _)| *name);
    fields.dedup_by_key(|(name, _)| *name);
    fields
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => plan().prop_map(Step::Write),
        8 => (0..12_usize).prop_map(Step::Retry),
        3 => (0..12_usize, plan()).prop_map(|(ago, plan)| Step::Reuse(ago, plan)),
        3 => proptest::collection::vec(edit(), 1..4).prop_map(Step::Define),
        1 => proptest::collection::vec(0..3_u8, 0..24).prop_map(Step::Garbage),
        3 => (-20..30_i64).prop_map(Step::Time),
        1 => Just(Step::Checkpoint),
        1 => any::<bool>().prop_map(Step::Crash),
        1 => Just(Step::Close),
        1 => Just(Step::Discard),
        1 => Just(Step::Look),
    ];
    proptest::collection::vec(step, 1..80)
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        8 => (0..3_usize, 0..3_usize, prop_oneof![9 => Just(1), 3 => Just(7), 1 => Just(0), 1 => Just(u64::MAX - 1)])
            .prop_map(|(kind, sequence, first)| Edit::Sequence(kind, sequence, first)),
        1 => (0..3_usize, 0..3_usize).prop_map(|(kind, sequence)| Edit::NoSequence(kind, sequence)),
        4 => (0..3_usize).prop_map(Edit::Kind),
        1 => (0..3_usize).prop_map(Edit::NoKind),
        3 => (0..3_usize, any::<bool>()).prop_map(|(record, singleton)| Edit::Type(record, singleton)),
        1 => (0..3_usize).prop_map(Edit::NoType),
        1 => (1..3_u16).prop_map(Edit::Partitions),
        4 => prop_oneof![Just(4_u64), Just(15), Just(60), Just(1000)].prop_map(Edit::Window),
        1 => Just(Edit::Rename),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let kind = prop_oneof![12 => Just(0), 5 => Just(1), 2 => Just(2), 1 => Just(3)];
    let expect = prop_oneof![6 => Just(None), 3 => Just(Some(0)), 1 => Just(Some(1))];
    let operations = proptest::collection::vec(change(), 0..5);
    (0..4_u64, kind, 0..2_usize, expect, operations).prop_map(
        |(workspace, kind, client, expect, operations)| Plan { workspace, kind, client, expect, operations },
    )
}

/// Names a record: a raw id, a singleton or a record of the user range.
fn record() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..4_u64, 1 => 65_535..65_539_u64, 4 => 200_000..200_012_u64]
}

fn change() -> impl Strategy<Value = Change> {
    let id = prop_oneof![
        8 => (1..4_u16).prop_map(NewId::Raw),
        3 => (200_000..200_015_u64).prop_map(NewId::Explicit),
        1 => prop_oneof![Just(65_536), Just(0), (1 << 53) - 1..(1 << 53) + 2_u64].prop_map(NewId::Explicit),
    ];
    let parent = prop_oneof![3 => Just(None), 1 => record().prop_map(Some)];
    let active = prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let expires = prop_oneof![2 => Just(None), 1 => (-5..20_i64).prop_map(Some)];
    prop_oneof![
        5 => (id, 0..3_usize, given(), parent)
            .prop_map(|(id, record_type, fields, parent)| Change::Create(id, record_type, fields, parent)),
        3 => (record(), given(), active)
            .prop_map(|(record, fields, active)| Change::Update(record, fields, active)),
        5 => (0..3_usize, 0..3_usize, when(), expires)
            .prop_map(|(key, value, when, expires)| Change::Set(key, value, when, expires)),
        2 => (0..3_usize, when()).prop_map(|(key, when)| Change::Delete(key, when)),
        4 => (0..3_usize).prop_map(Change::Number),
        1 => Just(Change::UnknownNumber),
    ]
}

fn given() -> impl Strategy<Value = Vec<(usize, Field)>> {
    let field = prop_oneof![
        2 => Just(Field::Null),
        2 => (0..5_i64).prop_map(Field::Integer),
        3 => record().prop_map(Field::Record),
    ];
    proptest::collection::vec((0..3_usize, field), 0..3)
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => Just(When::Always),
        1 => Just(When::Absent),
        1 => Just(When::Present),
        2 => (0..5_u64).prop_map(When::Version),
        2 => (0..3_usize).prop_map(When::Value),
    ]
}
