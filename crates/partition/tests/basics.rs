//! What a user sees of a partition: numbers, records, entities, refusals, definitions, restarts.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use gapless_partition::{Condition, NewId, Operation, Outcome, RefusalCode, Value, Write};
use gapless_store::Direction;
use gapless_types::limits::MAX_READ_BYTES;
use gapless_types::{PartitionOffset, RecordId, WorkspaceOffset};
use harness::{Bench, definition, event, name, workspace};

fn create(raw: u16, parent: Option<u64>) -> Operation<'static> {
    Operation::CreateRecord { id: NewId::Raw(raw), record_type: "order", fields: Vec::new(), parent }
}

/// The write of the vectors: three records, the third below the first.
fn three_records(id: u64) -> Write<'static> {
    Write { operations: vec![create(1, None), create(2, None), create(3, Some(1))], ..event(id) }
}

fn singleton(id: u64) -> Write<'static> {
    let settings = Operation::CreateRecord {
        id: NewId::Raw(1),
        record_type: "settings",
        fields: vec![("theme", Value::Text("dark"))],
        parent: None,
    };
    Write { operations: vec![settings], ..event(id) }
}

#[test]
fn numbers_go_on_after_every_restart() {
    let mut bench = Bench::new();
    for id in [1, 2] {
        let first = bench.commit(&singleton(id));
        assert_eq!(first.workspace_offset, WorkspaceOffset::FIRST);
        // Types are given their ids in the order of their names: profile, settings.
        assert_eq!(first.record_ids, [(1, RecordId::new(65_537).unwrap())]);
    }
    let ids = |first: u64| {
        (0..3).map(|at| (1 + at, RecordId::new(first + u64::from(at)).unwrap())).collect::<Vec<_>>()
    };
    let second = bench.commit(&three_records(1));
    assert_eq!((second.workspace_offset.get(), second.record_ids), (2, ids(200_001)));
    bench.restart();
    let third = bench.commit(&three_records(1));
    assert_eq!((third.workspace_offset.get(), third.record_ids), (3, ids(200_004)));
    bench.restart();
    let other = bench.commit(&three_records(2));
    assert_eq!((other.workspace_offset.get(), other.record_ids), (2, ids(200_001)));
    let view = bench.partition().view().unwrap();
    let record = view.record(workspace(2), RecordId::new(200_003).unwrap()).unwrap().unwrap();
    assert_eq!(record.row().unwrap().parent, RecordId::new(200_001));
}

#[test]
fn a_record_that_has_an_outcome_gets_it_again_and_nothing_is_written() {
    let mut bench = Bench::new();
    let outcomes: Vec<Outcome> =
        [three_records(1), singleton(2), singleton(2)].iter().map(|w| bench.write(w)).collect();
    assert!(matches!(&outcomes[2], Outcome::Refused(refusal) if refusal.code == RefusalCode::InvalidRecord));
    let digest = bench.digest();
    bench.restart();
    let commands = bench.commands.clone();
    for (at, (time, command)) in commands.iter().enumerate().skip(1) {
        let again = bench.partition().apply(&harness::record(at as u64, *time, command)).unwrap();
        assert_eq!(again, outcomes[at - 1]);
    }
    assert_eq!(bench.digest(), digest);
    let mut other = commands[1].1.clone();
    *other.last_mut().unwrap() ^= 1;
    let diverged = bench.partition().apply(&harness::record(1, commands[1].0, &other));
    assert!(matches!(diverged, Err(gapless_partition::ApplyError::Diverged { .. })), "{diverged:?}");
}

#[test]
fn gap_free_numbers_are_taken_with_the_event_and_never_by_a_refusal() {
    let mut bench = Bench::new();
    let invoice = || Operation::NextNumber { sequence: "invoice" };
    let two = Write {
        operations: vec![invoice(), Operation::NextNumber { sequence: "credit" }, invoice()],
        ..event(1)
    };
    let numbers = bench.commit(&two).numbers;
    assert_eq!(numbers, [(name("invoice"), 1), (name("credit"), 5000), (name("invoice"), 2)]);
    let refused = Write { expected_offset: Some(9), ..two.clone() };
    let refusal = bench.refuse(&refused);
    assert_eq!((refusal.code, refusal.current_version), (RefusalCode::OffsetMismatch, Some(1)));
    bench.restart();
    assert_eq!(bench.commit(&two).numbers[0].1, 3);
    let unknown = Write { operations: vec![Operation::NextNumber { sequence: "receipt" }], ..event(1) };
    let refusal = bench.refuse(&unknown);
    assert_eq!((refusal.code, refusal.operation), (RefusalCode::UnknownSequence, Some(0)));
    let till = Write { kind: "till", operations: unknown.operations, ..event(3) };
    assert_eq!(bench.commit(&till).numbers, [(name("receipt"), 100)]);
    let sequences = bench.partition().view().unwrap().sequences(workspace(1)).unwrap();
    let last: Vec<_> = sequences.iter().map(|state| (state.name.as_str(), state.last)).collect();
    assert_eq!(last, [("credit", Some(5001)), ("invoice", Some(4))]);
}

#[test]
fn explicit_ids_move_the_sequence_and_bad_ones_are_refused() {
    let mut bench = Bench::new();
    let import = |id: u64| Operation::CreateRecord {
        id: NewId::Explicit(id),
        record_type: "order",
        fields: Vec::new(),
        parent: None,
    };
    let write = |operations: Vec<Operation<'static>>| Write { operations, ..event(1) };
    let ids = bench.commit(&write(vec![create(1, None), import(200_005), create(2, None)])).record_ids;
    assert_eq!(ids.iter().map(|(_, id)| id.get()).collect::<Vec<_>>(), [200_006, 200_007]);
    bench.commit(&write(vec![import(200_002)]));
    assert_eq!(bench.commit(&write(vec![create(1, None)])).record_ids[0].1.get(), 200_008);
    for (id, why) in [(200_002, "exists"), (200_000, "below"), ((1 << 53) + 1, "above"), (65_540, "below")] {
        let refusal = bench.refuse(&write(vec![create(1, None), import(id)]));
        assert_eq!((refusal.code, refusal.operation), (RefusalCode::InvalidRecord, Some(1)));
        assert!(refusal.message.contains(why), "{}", refusal.message);
    }
    bench.commit(&write(vec![import(1 << 53)]));
    let refusal = bench.refuse(&write(vec![create(1, None)]));
    assert!(refusal.message.contains("no record ids left"), "{}", refusal.message);
}

#[test]
fn records_are_merged_and_references_become_stored_ids() {
    let mut bench = Bench::new();
    let order = Operation::CreateRecord {
        id: NewId::Raw(1),
        record_type: "order",
        fields: vec![("line", Value::Record(2)), ("total", Value::Integer(3))],
        parent: None,
    };
    let line = Operation::CreateRecord {
        id: NewId::Raw(2),
        record_type: "line",
        fields: Vec::new(),
        parent: Some(1),
    };
    let update = Operation::UpdateRecord { record: 2, fields: vec![("n", Value::Integer(1))], active: None };
    bench.commit(&Write { operations: vec![order, line, update], ..event(1) });
    let change = Operation::UpdateRecord {
        record: 200_001,
        fields: vec![("note", Value::Null), ("total", Value::Integer(4))],
        active: Some(false),
    };
    bench.commit(&Write { operations: vec![change], ..event(1) });
    let view = bench.partition().view().unwrap();
    let records = view.records(workspace(1), None, 10).unwrap();
    let order = records[0].row().unwrap();
    assert_eq!(
        order.fields,
        [("line", Value::Record(200_002)), ("note", Value::Null), ("total", Value::Integer(4))]
    );
    assert_eq!((order.active, order.created, order.changed), (false, 1, 2));
    assert_eq!(records[1].row().unwrap().fields, [("n", Value::Integer(1))]);
    let unknown = Operation::UpdateRecord { record: 200_003, fields: Vec::new(), active: None };
    assert_eq!(
        bench.refuse(&Write { operations: vec![unknown], ..event(1) }).code,
        RefusalCode::InvalidRecord
    );
    let dangling =
        Operation::UpdateRecord { record: 200_001, fields: vec![("line", Value::Record(9))], active: None };
    assert_eq!(
        bench.refuse(&Write { operations: vec![dangling], ..event(1) }).code,
        RefusalCode::InvalidRecord
    );
}

#[test]
fn entities_are_changed_under_conditions_and_expire_by_log_time() {
    let mut bench = Bench::new();
    let set = |value: &'static [u8], condition: Condition<'static>, expires_at: Option<u64>| Write {
        operations: vec![Operation::SetEntity { key: b"cart", value, condition, expires_at }],
        ..event(1)
    };
    bench.commit(&set(b"a", Condition::MustNotExist, None));
    let refusal = bench.refuse(&set(b"b", Condition::MustNotExist, None));
    assert_eq!((refusal.code, refusal.current_version), (RefusalCode::KeyExists, Some(1)));
    assert_eq!((&refusal.key[..], refusal.current_value.as_deref()), (&b"cart"[..], Some(&b"a"[..])));
    assert_eq!(
        bench.refuse(&set(b"b", Condition::VersionEquals(2), None)).code,
        RefusalCode::VersionMismatch
    );
    assert_eq!(bench.refuse(&set(b"b", Condition::ValueEquals(b"x"), None)).code, RefusalCode::ValueMismatch);
    bench.commit(&set(b"b", Condition::ValueEquals(b"a"), Some(5000)));
    bench.time = 4999;
    bench.commit(&set(b"c", Condition::VersionEquals(2), Some(5000)));
    bench.time = 5000;
    assert_eq!(bench.refuse(&set(b"d", Condition::MustExist, None)).code, RefusalCode::KeyNotFound);
    assert_eq!(bench.partition().view().unwrap().entity(workspace(1), b"cart").unwrap(), None);
    bench.commit(&set(b"d", Condition::MustNotExist, None));
    let both = Write {
        operations: vec![
            Operation::DeleteEntity { key: b"cart", condition: Condition::VersionEquals(4) },
            Operation::SetEntity {
                key: b"cart",
                value: b"e",
                condition: Condition::MustNotExist,
                expires_at: None,
            },
            Operation::SetEntity {
                key: b"card",
                value: b"f",
                condition: Condition::VersionEquals(5),
                expires_at: None,
            },
        ],
        ..event(1)
    };
    let refusal = bench.refuse(&both);
    assert_eq!((refusal.code, refusal.operation), (RefusalCode::KeyNotFound, Some(2)));
    let mut both = both;
    both.operations.truncate(2);
    bench.commit(&both);
    let view = bench.partition().view().unwrap();
    let cart = view.entity(workspace(1), b"cart").unwrap().unwrap();
    assert_eq!((&cart.value[..], cart.version), (&b"e"[..], 5));
}

#[test]
fn what_cannot_change_in_a_definition_is_refused_with_every_reason() {
    let mut bench = Bench::new();
    let mut other = definition();
    other.partitions = std::num::NonZeroU16::new(2).unwrap();
    other.kinds.get_mut("default").unwrap().insert(name("invoice"), 7);
    other.kinds.remove("till");
    other.records.remove("settings");
    let Outcome::DefinitionRefused(reasons) = bench.apply(harness::define_command(&other)) else { panic!() };
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    let mut more = definition();
    more.kinds.get_mut("default").unwrap().insert(name("order"), 1);
    bench.commit(&event(1));
    assert_eq!(bench.apply(harness::define_command(&more)), Outcome::Defined);
    let order = Write { operations: vec![Operation::NextNumber { sequence: "order" }], ..event(1) };
    assert_eq!(bench.commit(&order).numbers, [(name("order"), 1)]);
    bench.restart();
    assert_eq!(bench.commit(&order).numbers, [(name("order"), 2)]);
}

#[test]
fn events_and_outcomes_are_read_in_both_directions() {
    let mut bench = Bench::new();
    for id in [1, 2, 1, 1] {
        bench.commit(&event(id));
    }
    let view = bench.partition().view().unwrap();
    bench.commit(&event(1));
    let offsets = |from: u64, limit, direction| {
        let from = WorkspaceOffset::new(from).unwrap();
        let events = view.events(workspace(1), from, limit, direction).unwrap();
        events.iter().map(|event| event.header().partition_offset.get()).collect::<Vec<_>>()
    };
    assert_eq!(offsets(1, 10, Direction::Forward), [2, 4, 5]);
    assert_eq!(offsets(9, 2, Direction::Backward), [5, 4]);
    let from = PartitionOffset::new(4).unwrap();
    let outcomes = view.outcomes(from, 10, Direction::Forward).unwrap();
    assert_eq!(outcomes.len(), 2, "a view does not move");
    assert_eq!(outcomes[0].write().unwrap().unwrap().event_type, "ItemSold");
    assert_eq!(view.workspaces(None, 10).unwrap().len(), 2);
    assert_eq!(view.client_sequence(workspace(1), "till").unwrap().unwrap().get(), 3);
}

#[test]
fn a_checkpoint_shortens_what_is_folded_and_changes_nothing() {
    let mut bench = Bench::new();
    for round in 0..50 {
        bench.commit(&three_records(round % 7));
    }
    let digest = bench.digest();
    bench.partition().checkpoint().unwrap();
    bench.commit(&event(1));
    let after = bench.digest();
    assert_ne!(digest, after);
    let opened = bench.restart();
    assert_eq!(opened.checkpoint, PartitionOffset::new(51));
    assert!(opened.folded <= 1, "{opened:?}");
    assert_eq!(bench.digest(), after);
}

#[test]
fn an_outcome_changes_its_own_rows_and_not_those_of_earlier_ones_again() {
    let mut bench = Bench::new();
    // More rows than one batch of the store can hold.
    for round in 0..9000 {
        assert_eq!(bench.commit(&event(1)).workspace_offset.get(), round + 1);
    }
}

#[test]
fn a_page_of_large_events_ends_early_and_always_has_one() {
    const PAYLOAD: &[u8] = &[7; 1 << 20];
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.commit(&Write { payload: PAYLOAD, ..event(1) });
    }
    let view = bench.partition().view().unwrap();
    let most = MAX_READ_BYTES / PAYLOAD.len() + 1;
    for direction in [Direction::Forward, Direction::Backward] {
        let from = match direction {
            Direction::Forward => (PartitionOffset::FIRST, WorkspaceOffset::FIRST),
            Direction::Backward => (view.applied().unwrap(), WorkspaceOffset::new(20).unwrap()),
        };
        for limit in [1, 100] {
            let found = view.outcomes(from.0, limit, direction).unwrap().len();
            assert!((1..=most).contains(&found) && found <= limit, "{found} outcomes");
            let found = view.events(workspace(1), from.1, limit, direction).unwrap().len();
            assert!((1..=most).contains(&found) && found <= limit, "{found} events");
        }
    }
}

#[test]
fn a_page_has_what_single_reads_have_whether_events_are_neighbours_or_far_apart() {
    const EVENTS: u64 = 3000;
    let mut bench = Bench::new();
    let sizes = [0, 1, 300, 5_000, 70_000];
    for round in 1..=EVENTS {
        // Workspace 1 has nearly all of them, workspace 2 one here and there, some next to each other; a few are large.
        let id = if round % 700 < 3 { 2 } else { 1 };
        let payload = vec![b'x'; sizes[if round % 97 == 0 { 4 } else { (round % 4) as usize }]];
        bench.commit(&Write { payload: &payload, ..event(id) });
    }
    bench.close_and_open();
    let view = bench.partition().view().unwrap();
    let last = view.applied().unwrap();
    let single = |offset| view.outcomes(offset, 1, Direction::Forward).unwrap().pop().unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut next = Some(if direction == Direction::Forward { PartitionOffset::FIRST } else { last });
        let mut seen = 0;
        while let Some(from) = next.filter(|from| *from <= last) {
            let page = view.outcomes(from, 1000, direction).unwrap();
            for found in &page {
                assert_eq!(*found, single(found.header().partition_offset));
            }
            seen += page.len() as u64;
            let end = page.last().unwrap().header().partition_offset;
            next = if direction == Direction::Forward { end.next() } else { end.previous() };
        }
        assert_eq!(seen, last.get());
        for id in [1, 2] {
            let events = view.workspace(workspace(id)).unwrap().unwrap().last_offset;
            let from = if direction == Direction::Forward { WorkspaceOffset::FIRST } else { events };
            for found in view.events(workspace(id), from, 500, direction).unwrap() {
                assert_eq!(found, single(found.header().partition_offset));
            }
        }
    }
}
