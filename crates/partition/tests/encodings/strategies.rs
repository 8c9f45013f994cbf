//! Writes, definitions and headers of every shape. Texts are leaked: writes borrow, and a test does not live long.

use std::num::NonZeroU16;

use gapless_partition::{
    AtCap, Condition, Definition, Header, IdempotencyRule, NewId, Operation, OutcomeKind, RecordRule,
    RequestDigest, TrustLevel, Value, Write,
};
use gapless_types::{
    ClientSequence, IdempotencyKey, LogIndex, Name, PartitionOffset, RecordId, SequenceId, WorkspaceId,
    WorkspaceKind, WorkspaceOffset,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = &'static str> {
    prop_oneof!["[a-z]{1,8}", ".{0,6}"].prop_map(|text| &*text.leak())
}

fn bytes() -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..12).prop_map(|bytes| &*bytes.leak())
}

fn name() -> impl Strategy<Value = Name> {
    "[a-z0-9_-]{1,10}".prop_map(|text| Name::new(&text).unwrap())
}

fn value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<i64>().prop_map(Value::Integer),
        text().prop_map(Value::Text),
        bytes().prop_map(Value::Blob),
        any::<u64>().prop_map(Value::Record),
    ]
}

fn fields() -> impl Strategy<Value = Vec<(&'static str, Value<'static>)>> {
    btree_map(text(), value(), 0..4).prop_map(|fields| fields.into_iter().collect())
}

fn condition() -> impl Strategy<Value = Condition<'static>> {
    prop_oneof![
        Just(Condition::None),
        Just(Condition::MustNotExist),
        Just(Condition::MustExist),
        any::<u64>().prop_map(Condition::VersionEquals),
        bytes().prop_map(Condition::ValueEquals),
    ]
}

fn operation() -> impl Strategy<Value = Operation<'static>> {
    let id = prop_oneof![any::<u16>().prop_map(NewId::Raw), any::<u64>().prop_map(NewId::Explicit)];
    prop_oneof![
        (id, text(), fields(), option::of(any::<u64>())).prop_map(|(id, record_type, fields, parent)| {
            Operation::CreateRecord { id, record_type, fields, parent }
        }),
        (any::<u64>(), fields(), option::of(any::<bool>()))
            .prop_map(|(record, fields, active)| Operation::UpdateRecord { record, fields, active }),
        (bytes(), bytes(), condition(), option::of(any::<u64>())).prop_map(
            |(key, value, condition, expires_at)| Operation::SetEntity { key, value, condition, expires_at }
        ),
        (bytes(), condition()).prop_map(|(key, condition)| Operation::DeleteEntity { key, condition }),
        text().prop_map(|sequence| Operation::NextNumber { sequence }),
    ]
}

pub(crate) fn write() -> impl Strategy<Value = Write<'static>> {
    let texts = (prop_oneof![Just("default"), text()], text(), text(), text());
    let metadata = btree_map(text(), text(), 0..4);
    let expected = option::of(any::<u64>());
    let workspace = prop_oneof![0..3_u64, any::<u64>()];
    (workspace, texts, bytes(), metadata, expected, vec(operation(), 0..5)).prop_map(
        |(
            workspace,
            (kind, client, event_type, content_type),
            payload,
            metadata,
            expected_offset,
            operations,
        )| {
            Write {
                workspace: WorkspaceId::new(workspace),
                kind,
                client,
                event_type,
                content_type,
                payload,
                metadata: metadata.into_iter().collect(),
                expected_offset,
                operations,
            }
        },
    )
}

pub(crate) fn definition() -> impl Strategy<Value = Definition> {
    let trust =
        prop_oneof![Just(TrustLevel::CheckAll), Just(TrustLevel::CheckEvents), Just(TrustLevel::TrustAll)];
    let rule = (any::<u64>(), any::<u64>(), prop_oneof![Just(AtCap::Refuse), Just(AtCap::ForgetOldest)]);
    let kinds = btree_map(name(), btree_map(name(), any::<u64>(), 0..3), 0..3);
    let records = btree_map(name(), any::<bool>().prop_map(|singleton| RecordRule { singleton }), 0..3);
    let projections = btree_map(name(), "[ -~]{0,20}".prop_map(Box::from), 0..3);
    (name(), 1..=u16::MAX, trust, rule, kinds, records, projections).prop_map(
        |(name, partitions, trust_level, (window_ms, max_keys, at_cap), kinds, records, projections)| {
            Definition {
                name,
                partitions: NonZeroU16::new(partitions).unwrap(),
                trust_level,
                idempotency: IdempotencyRule { window_ms, max_keys, at_cap },
                kinds,
                records,
                projections,
            }
        },
    )
}

pub(crate) fn header() -> impl Strategy<Value = Header<'static>> {
    let kind = prop_oneof![
        Just(OutcomeKind::Event),
        Just(OutcomeKind::Refusal),
        Just(OutcomeKind::Duplicate),
        Just(OutcomeKind::Definition),
        Just(OutcomeKind::DefinitionRefusal),
    ];
    let ids = vec((any::<u16>(), 1..u64::MAX), 0..4);
    let numbers = vec((any::<u16>(), any::<u64>()), 0..4);
    let counts = (1..=u64::MAX, any::<[u64; 6]>(), any::<u16>(), any::<[u8; 16]>());
    (kind, counts, bytes(), text(), ids, numbers).prop_map(
        |(kind, (offset, some, workspace_kind, key), digest, client, ids, numbers)| Header {
            kind,
            partition_offset: PartitionOffset::new(offset).unwrap(),
            log_index: LogIndex::new(some[0]),
            time: some[1],
            workspace: WorkspaceId::new(some[2]),
            workspace_kind: Some(workspace_kind).filter(|id| *id != 0).map(WorkspaceKind::new),
            workspace_offset: WorkspaceOffset::new(some[3] % 3),
            client_sequence: ClientSequence::new(some[4] % 3),
            highest_record: RecordId::new(some[5] % 3),
            key: IdempotencyKey::new(if key[0] < 50 { [0; 16] } else { key }).ok(),
            digest: RequestDigest::of(digest),
            client,
            record_ids: ids.into_iter().map(|(raw, id)| (raw, RecordId::new(id).unwrap())).collect(),
            numbers: numbers
                .into_iter()
                .map(|(sequence, number)| (SequenceId::new(sequence), number))
                .collect(),
        },
    )
}

/// A few changes of bytes: replaced, cut off, put in between, taken out.
#[derive(Clone, Debug)]
pub(crate) struct Mutation(Vec<(u8, prop::sample::Index, u8)>);

pub(crate) fn mutation() -> impl Strategy<Value = Mutation> {
    let small = prop_oneof![3 => 0..9_u8, 1 => any::<u8>()];
    vec((0..6_u8, any::<prop::sample::Index>(), small), 1..4).prop_map(Mutation)
}

impl Mutation {
    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        for (what, at, byte) in &self.0 {
            if bytes.is_empty() {
                return;
            }
            let at = at.index(bytes.len());
            match what {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, *byte),
                2 => drop(bytes.remove(at)),
                3 => bytes[at] ^= 1 << (byte % 8),
                _ => bytes[at] = *byte,
            }
        }
    }
}
