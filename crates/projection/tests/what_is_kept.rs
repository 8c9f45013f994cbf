//! What is kept of a domain: in memory, in the store, in an image, and of slots that are resolved for long.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod harness;

use gapless_projection::{
    Applied, Audit, Command, CommitStatus, Done, Event, Input, Payload, Place, Refusal, Settings, Stamp,
};
use gapless_types::LogIndex;
use harness::{Driver, WORKSPACE, applied, held, result, slots, write};
use serde_json::json;

fn settings() -> Settings {
    Settings { window: 4, ..Settings::default() }
}

#[test]
fn a_duplicate_of_an_old_commit_is_answered_from_its_effect() {
    let mut driver = Driver::with(settings());
    driver.open_plain(1);
    let first = held(&driver.lease(1)[0]);
    driver.commit(first, &result(1));
    for _ in 0..50 {
        driver.open_plain(1);
        let next = held(&driver.lease(1)[0]);
        driver.commit(next, &result(2));
    }
    let mut driver = driver.reopen();
    let again = Done::Committed { status: CommitStatus::Applied, is_duplicate: true };
    assert_eq!(driver.commit(first, &result(1)), again);
    assert_eq!(driver.commit(first, &result(2)), Done::Refused(Refusal::PayloadMismatch));
}

#[test]
fn inputs_up_to_the_last_one_change_nothing_when_they_come_again() {
    let mut driver = Driver::with(settings());
    let tick = Command::Tick.to_bytes();
    let place = |index, position| Place { index: LogIndex::new(index), position };
    let mut apply = |index, position| {
        driver.domain.apply(place(index, position), Stamp::first(0), Input::Command(&tick)).unwrap()
    };
    assert_ne!(apply(5, 1), Applied::Again);
    assert_eq!(apply(5, 1), Applied::Again);
    assert_eq!(apply(5, 0), Applied::Again);
    assert_eq!(apply(4, 9), Applied::Again);
    assert_ne!(apply(5, 2), Applied::Again);
    // Of the entry with the last input more may come: it is needed until it is passed.
    assert_eq!(driver.domain.next_entry(), LogIndex::new(5));
    driver.domain.passed(LogIndex::new(5));
    assert_eq!(driver.domain.next_entry(), LogIndex::new(6));
    driver.domain.checkpoint(LogIndex::new(5)).unwrap();
    assert_eq!(driver.domain.checkpointed_entry(), LogIndex::new(6));
}

#[test]
fn after_a_restart_a_domain_is_ahead_of_what_is_dispatched_again_and_can_be_checkpointed() {
    let mut driver = Driver::with(settings());
    let tick = Command::Tick.to_bytes();
    let place = Place { index: LogIndex::new(5), position: 0 };
    driver.domain.apply(place, Stamp::first(0), Input::Command(&tick)).unwrap();
    driver.domain.passed(LogIndex::new(5));
    driver.domain.checkpoint(LogIndex::new(5)).unwrap();
    let mut driver = driver.reopen();
    // The node begins with what its slowest partition has not applied.
    driver.domain.checkpoint(LogIndex::new(3)).unwrap();
    assert_eq!(driver.domain.checkpointed_entry(), LogIndex::new(6));
}

#[test]
fn a_large_match_is_one_slot_and_one_effect() {
    let rules =
        json!({"Bump": {"kind": "update", "entity": "acc", "set": {"n": {"add": [{"row": "n"}, 1]}}}});
    let mut driver = Driver::new(Settings { chunk: 1000, ..settings() }, &rules);
    driver.open_plain(1);
    driver.open("Bump", None, &json!({}));
    let grants = driver.lease(2);
    let Payload::Effects { effects, .. } = write("x", 5, None) else { panic!("effects") };
    let many = (0..2500).map(|number| {
        let mut write = effects[0].clone();
        write.id = format!("id-{number:05}").into();
        write
    });
    assert!(applied(
        &driver.commit(held(&grants[0]), &Payload::Effects { effects: many.collect(), reads: vec![] })
    ));
    assert!(applied(&driver.commit_rule(held(&grants[1]))));
    let mut driver = driver.reopen();
    let view = driver.domain.view();
    let effect = view.effect(2).unwrap().unwrap();
    assert_eq!(effect.writes().count(), 2500);
    assert!(effect.to_json(1000).starts_with("{\"chunks\":3,\"entity\":\"acc\",\"ids\":[\"id-00000\","));
    assert_eq!(view.slots_of_table("acc", WORKSPACE, 0).map(Result::unwrap).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(view.rows("acc", WORKSPACE, "id-024", gapless_store::Direction::Forward).count(), 100);
    assert_eq!(driver.stored().iter().filter(|(key, _)| key[0] == b't').count(), 6);
}

#[test]
fn an_image_is_the_same_domain_on_another_node() {
    let mut driver = Driver::with(settings());
    driver.open_plain(7);
    let grants = driver.lease(4);
    driver.commit(held(&grants[1]), &write("x", 1, Some(0)));
    driver.commit(held(&grants[0]), &write("x", 1, Some(0)));
    driver.command(&Command::Skip { slot: 3 });
    let mut other = driver.copy();
    assert_eq!(other.domain.next_entry(), driver.domain.next_entry());
    assert_eq!((other.stored(), other.domain.status()), (driver.stored(), driver.domain.status()));
    for domain in [&mut driver, &mut other] {
        assert_eq!(slots(&domain.lease(9)), [2, 5], "the conflicted one first, up to the window");
    }
    assert_eq!((other.stored(), *other.domain.counters()), (driver.stored(), *driver.domain.counters()));
}

#[test]
fn memory_follows_the_window_and_not_the_backlog() {
    let mut driver = Driver::with(settings());
    driver.open_plain(5000);
    assert_eq!(driver.domain.slots_in_memory(), 4);
    assert_eq!(driver.domain.blocking(5001, 3).unwrap(), [1, 2, 3]);
    let mut driver = driver.reopen();
    assert_eq!(driver.domain.slots_in_memory(), 4);
    while driver.domain.watermark() < 5000 {
        for grant in driver.lease(4) {
            driver.commit(held(&grant), &result(1));
        }
        assert!(driver.domain.slots_in_memory() <= 4);
    }
    assert_eq!(driver.domain.slots_in_memory(), 0);
    assert_eq!(driver.domain.blocking(5001, 3).unwrap(), [] as [u64; 0]);
}

#[test]
fn an_audit_names_the_first_slot_that_differs() {
    let rules = json!({"Open": {"kind": "upsert", "entity": "t", "id": {"event": "id"}, "set": {"n": {"event": "n"}}}});
    let mut driver = Driver::new(settings(), &rules);
    for n in 1..=4 {
        driver.open("Open", None, &json!({"id": "x", "n": n}));
    }
    for grant in driver.lease(4) {
        assert!(applied(&driver.commit_rule(held(&grant))));
    }
    let audit = |changed: u64| {
        driver.domain.view().audit(|source| {
            // The event log says something else than when the slot was committed.
            let payload: &'static [u8] = match (source.get(), source.get() == changed) {
                (1, false) => br#"{"id": "x", "n": 1}"#,
                (2, false) => br#"{"id": "x", "n": 2}"#,
                (3, false) => br#"{"id": "x", "n": 3}"#,
                (4, false) => br#"{"id": "x", "n": 4}"#,
                _ => br#"{"id": "x", "n": 99}"#,
            };
            Some(Event { source, workspace: WORKSPACE, event_type: "Open", key: None, payload })
        })
    };
    assert_eq!(audit(0).unwrap(), Audit::Same);
    let Audit::Differs { slot, stored, computed } = audit(3).unwrap() else { panic!("a difference") };
    assert_eq!(slot, 3);
    assert!(stored.contains("\"n\":3") && computed.contains("\"n\":99"), "{stored} {computed}");
}
