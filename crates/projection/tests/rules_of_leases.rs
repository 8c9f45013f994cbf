//! What the rules of leases say and random schedules would hardly meet by chance.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod harness;

use gapless_projection::{
    Command, CommitStatus, Done, Held, Next, OnExhausted, OnExpiry, Payload, Refusal, Settings, Stage,
};
use harness::{Driver, WORKSPACE, applied, held, result, slots, status, write};
use serde_json::json;

fn settings() -> Settings {
    Settings { window: 4, ..Settings::default() }
}

#[test]
fn every_refusal_leaves_the_state_untouched() {
    let mut driver = Driver::with(Settings { max_renewals: 1, ..settings() });
    driver.open_plain(6);
    let grants = driver.lease(4);
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|at: usize| held(&grants[at]));
    let renew = |held, ttl_ms| Command::Renew { held, ttl_ms };
    driver.command(&renew(second, 50));
    assert!(applied(&driver.commit(first, &result(1))));
    driver.command(&Command::Release { held: third });
    let staged = result(4).to_bytes();
    driver.command(&Command::commit(fourth, &staged));
    driver.command(&Command::Skip { slot: 3 });
    let other = result(99).to_bytes();
    let old = Held { token: second.token - 1, ..second };
    let unknown = Held { token: 99, ..second };
    let nothing = Held { slot: 7, token: 1 };
    for (command, refusal) in [
        (Command::commit(old, &other), Refusal::StaleToken),
        (Command::commit(unknown, &other), Refusal::UnknownToken),
        (Command::commit(nothing, &other), Refusal::UnknownSlot),
        (Command::commit(Held { slot: 0, token: 1 }, &other), Refusal::UnknownSlot),
        (Command::commit(Held { slot: 6, token: 1 }, &other), Refusal::UnknownToken),
        (Command::commit(first, &other), Refusal::PayloadMismatch),
        (Command::commit(fourth, &other), Refusal::PayloadMismatch),
        (Command::commit(third, &other), Refusal::SlotFilled),
        (Command::commit(second, b"garbage"), Refusal::InvalidPayload),
        (Command::Commit { held: second, part: 2, is_last: true, bytes: &other }, Refusal::InvalidPart),
        (Command::Commit { held: second, part: 0, is_last: true, bytes: &other }, Refusal::InvalidPart),
        (renew(second, 50), Refusal::RenewalLimit),
        (renew(second, 0), Refusal::InvalidTtl),
        (renew(fourth, 50), Refusal::AlreadyCommitted),
        (Command::Release { held: first }, Refusal::AlreadyCommitted),
        (Command::Fail { held: fourth, error: "" }, Refusal::AlreadyCommitted),
        (Command::Release { held: third }, Refusal::SlotFilled),
        (Command::Skip { slot: 1 }, Refusal::AlreadyResolved),
        (Command::Skip { slot: 3 }, Refusal::AlreadyResolved),
        (Command::Skip { slot: 0 }, Refusal::UnknownSlot),
        (Command::Skip { slot: 7 }, Refusal::UnknownSlot),
        (Command::Lease { worker: "w", ttl_ms: 0, max: 1 }, Refusal::InvalidTtl),
        (Command::Lease { worker: "w", ttl_ms: -5, max: 1 }, Refusal::InvalidTtl),
        (Command::Allocate { worker: "w", ttl_ms: 0, workspace: WORKSPACE }, Refusal::InvalidTtl),
        (Command::Allocate { worker: "w", ttl_ms: 1, workspace: WORKSPACE }, Refusal::WindowFull),
    ] {
        let before = (driver.stored(), driver.domain.status());
        assert_eq!(driver.refusal(&command), Some(refusal), "{command:?}");
        assert_eq!((driver.stored(), driver.domain.status()), before, "{command:?}");
    }
    let counters = driver.domain.counters();
    assert_eq!((counters.fenced, counters.window_refusals), (1, 1));
}

#[test]
fn the_last_holder_is_told_how_the_lease_ended() {
    let mut driver = Driver::with(settings());
    driver.open_plain(4);
    let grants = driver.lease(4);
    let bytes = result(1).to_bytes();
    driver.command(&Command::Release { held: held(&grants[1]) });
    driver.fail(held(&grants[2]));
    driver.tick(101);
    for (at, refusal) in
        [(0, Refusal::LeaseExpired), (1, Refusal::LeaseReleased), (2, Refusal::LeaseReleased)]
    {
        let held = held(&grants[at]);
        assert_eq!(driver.refusal(&Command::commit(held, &bytes)), Some(refusal));
        assert_eq!(driver.refusal(&Command::Renew { held, ttl_ms: 5 }), Some(refusal));
        assert_eq!(driver.refusal(&Command::Release { held }), Some(refusal));
    }
}

#[test]
fn a_lease_holds_at_its_deadline_and_a_new_grant_begins_anew() {
    let mut driver = Driver::with(Settings { max_renewals: 1, max_attempts: 3, ..settings() });
    driver.open_plain(1);
    let first = driver.lease(1)[0];
    assert_eq!((first.expires_at, first.attempt), (100, 1));
    assert_eq!(driver.tick(100), [] as [u64; 0]);
    let renew = |grant| Command::Renew { held: held(grant), ttl_ms: 10 };
    assert_eq!(driver.command(&renew(&first)).done, Done::Renewed { expires_at: 110, renewals: 1 });
    assert_eq!(driver.tick(111), [1]);
    let second = driver.lease(1)[0];
    assert_eq!((second.expires_at, second.attempt), (211, 2));
    assert!(second.token > first.token);
    assert_eq!(
        driver.command(&renew(&second)).done,
        Done::Renewed { expires_at: 211, renewals: 1 },
        "never shorter"
    );
    // What is given back costs no attempt.
    driver.command(&Command::Release { held: held(&second) });
    assert_eq!(driver.lease(1)[0].attempt, 2);
}

#[test]
fn a_lease_at_its_deadline_holds_while_an_earlier_one_expires() {
    let mut driver = Driver::with(settings());
    driver.open_plain(2);
    driver.lease(1);
    driver.tick(10);
    assert_eq!(driver.lease(1)[0].expires_at, 110);
    assert_eq!(driver.tick(110), [1]);
    assert_eq!(driver.tick(111), [2]);
}

#[test]
fn a_commit_in_parts_is_staged_by_the_last_one() {
    let mut driver = Driver::with(settings());
    driver.open_plain(1);
    let first = held(&driver.lease(1)[0]);
    let bytes = Payload::result(&json!("x".repeat(10_000))).to_bytes();
    let part = |held, part, is_last, bytes| Command::Commit { held, part, is_last, bytes };
    let received = |driver: &mut Driver, command: &Command<'_>| match driver.command(command).done {
        Done::PartReceived { parts } => parts,
        other => panic!("{other:?}"),
    };
    assert_eq!(received(&mut driver, &part(first, 1, false, &bytes[..4000])), 1);
    assert_eq!(received(&mut driver, &part(first, 1, false, &bytes[..4000])), 1, "the same again");
    let other = part(first, 1, false, b"something else");
    assert_eq!(driver.refusal(&other), Some(Refusal::InvalidPart));
    assert_eq!(driver.refusal(&part(first, 3, true, b"")), Some(Refusal::InvalidPart));
    // Whoever holds the slot next begins anew.
    driver.tick(101);
    let second = held(&driver.lease(1)[0]);
    assert_eq!(driver.refusal(&part(second, 2, false, b"")), Some(Refusal::InvalidPart));
    assert_eq!(received(&mut driver, &part(second, 1, false, &bytes[..2000])), 1);
    assert_eq!(received(&mut driver, &part(second, 2, false, &bytes[2000..9000])), 2);
    let mut driver = driver.reopen();
    let last = part(second, 3, true, &bytes[9000..]);
    assert!(applied(&driver.command(&last).done));
    let again = Done::Committed { status: CommitStatus::Applied, is_duplicate: true };
    assert_eq!(driver.command(&last).done, again);
    assert_eq!(driver.refusal(&part(second, 3, true, b"other")), Some(Refusal::PayloadMismatch));
    let stored = driver.stored();
    assert!(stored.iter().all(|(key, _)| key[0] == b'e'), "only its effect is left of a resolved slot");
}

#[test]
fn work_on_an_allocated_slot_that_fails_fills_it() {
    let mut driver = Driver::with(settings());
    let [failed, released, expired] = [(); 3].map(|()| driver.allocate());
    assert_eq!(driver.fail(failed), Next::Filled);
    driver.command(&Command::Release { held: released });
    assert_eq!(driver.tick(101), [expired.slot]);
    assert_eq!(driver.why(), [(1, "failed"), (2, "released"), (3, "expired")]);
    assert_eq!(driver.domain.counters().dead_letters, 0);
}

#[test]
fn a_claimed_slot_that_expires_can_be_made_a_dead_letter() {
    let mut driver = Driver::with(Settings { on_expiry: OnExpiry::Fill, ..settings() });
    driver.open_plain(2);
    driver.lease(1);
    assert_eq!(driver.tick(101), [1]);
    assert_eq!(driver.why(), [(1, "expired")]);
    assert_eq!(driver.domain.counters().dead_letters, 1);
    assert_eq!(slots(&driver.lease(5)), [2]);
}

#[test]
fn a_halted_domain_goes_on_with_what_is_at_work_and_starts_nothing() {
    let mut driver =
        Driver::with(Settings { max_attempts: 1, on_exhausted: OnExhausted::Halt, ..settings() });
    driver.open_plain(3);
    let grants = driver.lease(2);
    assert_eq!(driver.fail(held(&grants[1])), Next::Halted);
    assert_eq!(
        driver.refusal(&Command::Lease { worker: "w", ttl_ms: 1, max: 1 }),
        Some(Refusal::DomainHalted)
    );
    let allocate = Command::Allocate { worker: "w", ttl_ms: 1, workspace: WORKSPACE };
    assert_eq!(driver.refusal(&allocate), Some(Refusal::DomainHalted));
    assert!(applied(&driver.commit(held(&grants[0]), &result(1))));
    let mut driver = driver.reopen();
    assert!(driver.domain.status().is_halted);
    driver.command(&Command::Skip { slot: 2 });
    assert_eq!(slots(&driver.lease(5)), [3]);
    assert_eq!(driver.why(), [(2, "skipped")]);
}

#[test]
fn key_serial_grants_one_slot_of_a_key_at_a_time() {
    let mut driver = Driver::with(Settings { key_serial: true, backoff_ms: 1000, ..settings() });
    for key in [Some("a"), Some("a"), None, Some("b")] {
        driver.open("Note", key, &json!({}));
    }
    let grants = driver.lease(9);
    assert_eq!(slots(&grants), [1, 3, 4]);
    // Staged and resting slots are unresolved as well.
    assert_eq!(driver.fail(held(&grants[0])), Next::Retry(1000));
    assert_eq!(slots(&driver.lease(9)), [] as [u64; 0]);
    driver.tick(1000);
    let again = driver.lease(9);
    assert_eq!(slots(&again), [1, 3, 4], "the others have expired");
    assert!(applied(&driver.commit(held(&again[0]), &result(1))));
    assert_eq!(slots(&driver.lease(9)), [2]);
}

#[test]
fn a_poisoned_key_takes_slots_behind_the_window_along() {
    let mut driver = Driver::with(Settings { window: 2, max_attempts: 1, park_key: true, ..settings() });
    for key in ["k", "j", "k", "j", "k"] {
        driver.open("Note", Some(key), &json!({}));
    }
    let grants = driver.lease(2);
    assert_eq!(driver.fail(held(&grants[0])), Next::Filled);
    let stages: Vec<Stage> = driver.domain.open_slots(0, 9).unwrap().iter().map(|open| open.stage).collect();
    let parked = Stage::Filled(gapless_projection::Why::Parked);
    assert_eq!(stages, [Stage::Leased, parked, Stage::Ready, parked]);
    assert_eq!(driver.refusal(&Command::Skip { slot: 5 }), Some(Refusal::AlreadyResolved));
    driver.commit(held(&grants[1]), &result(1));
    let mut driver = driver.reopen();
    let last = held(&driver.lease(9)[0]);
    driver.commit(last, &result(1));
    assert_eq!(driver.domain.watermark(), 5);
    assert_eq!(driver.why(), [(1, "exhausted"), (3, "parked"), (5, "parked")]);
    assert_eq!(driver.domain.counters().dead_letters, 3);
}

#[test]
fn a_slot_behind_the_window_can_be_skipped_once() {
    let mut driver = Driver::with(Settings { window: 1, ..settings() });
    driver.open_plain(3);
    driver.command(&Command::Skip { slot: 3 });
    assert_eq!(driver.refusal(&Command::Skip { slot: 3 }), Some(Refusal::AlreadyResolved));
    let mut driver = driver.reopen();
    for slot in [1, 2] {
        let grants = driver.lease(9);
        assert_eq!(slots(&grants), [slot]);
        driver.commit(held(&grants[0]), &result(1));
    }
    assert_eq!((driver.domain.watermark(), driver.why()), (3, vec![(3, "skipped")]));
}

#[test]
fn a_rule_without_an_answer_costs_attempts_and_says_so() {
    let rules = json!({"Open": {"kind": "upsert", "entity": "t", "id": {"event": "id"}, "set": {"n": {"event": "n"}}},
        "Double": {"kind": "update", "entity": "t", "set": {"n": {"mul": [{"row": "n"}, 2]}}}});
    let mut driver = Driver::new(Settings { max_attempts: 2, ..settings() }, &rules);
    driver.open("Open", None, &json!({"id": "x", "n": i64::MAX}));
    driver.open("Double", None, &json!({}));
    let grants = driver.lease(2);
    assert!(applied(&driver.commit_rule(held(&grants[0]))));
    let done = driver.commit_rule(held(&grants[1]));
    assert_eq!(status(&done), CommitStatus::Returned);
    let bytes = result(1).to_bytes();
    assert_eq!(driver.refusal(&Command::commit(held(&grants[1]), &bytes)), Some(Refusal::LeaseReturned));
    let last = held(&driver.lease(1)[0]);
    let done = driver.commit_rule(last);
    assert_eq!(status(&done), CommitStatus::Filled);
    assert_eq!(driver.why(), [(2, "exhausted")]);
    assert_eq!(driver.domain.counters().failed, 2);
    assert_eq!(
        driver.domain.view().state_json(WORKSPACE).unwrap(),
        r#"{"t":{"x":{"n":9223372036854775807}}}"#
    );
}

#[test]
fn a_conflict_costs_no_attempt_and_happens_once() {
    let mut driver = Driver::with(Settings { max_attempts: 1, ..settings() });
    driver.open_plain(2);
    let grants = driver.lease(2);
    assert_eq!(status(&driver.commit(held(&grants[1]), &write("x", 1, Some(0)))), CommitStatus::Staged);
    assert!(applied(&driver.commit(held(&grants[0]), &write("x", 1, Some(0)))));
    assert_eq!(driver.domain.counters().conflicted, 1);
    let redo = driver.lease(1);
    assert_eq!((slots(&redo), redo[0].attempt), (vec![2], 1));
    assert!(applied(&driver.commit(held(&redo[0]), &write("x", 2, Some(1)))));
}

#[test]
fn rows_of_one_workspace_are_not_those_of_another() {
    let rules = json!({"Open": {"kind": "upsert", "entity": "t", "id": "x", "set": {"n": 1}}});
    let mut driver = Driver::new(settings(), &rules);
    driver.open("Open", None, &json!({}));
    let first = held(&driver.lease(1)[0]);
    driver.commit_rule(first);
    let view = driver.domain.view();
    assert_eq!(view.row("t", WORKSPACE, "x").unwrap().0, 1);
    assert_eq!(view.row("t", gapless_types::WorkspaceId::new(2), "x").unwrap(), (0, None));
}

#[test]
fn matches_that_do_not_fit_their_slot_are_refused() {
    let rules = json!({"Open": {"kind": "upsert", "entity": "t", "id": {"event": "id"}, "set": {}}});
    let mut driver = Driver::new(settings(), &rules);
    driver.open("Open", None, &json!({"id": "x"}));
    driver.open("Note", None, &json!({}));
    let grants = driver.lease(2);
    let Payload::Exploded { exploded, .. } = driver.exploded(1) else { panic!("an explosion") };
    let early = Payload::Exploded { read_watermark: 1, exploded: exploded.clone() };
    assert_eq!(driver.commit(held(&grants[0]), &early), Done::Refused(Refusal::InvalidPayload));
    let fits = Payload::Exploded { read_watermark: 0, exploded };
    assert_eq!(driver.commit(held(&grants[1]), &fits), Done::Refused(Refusal::NoRule));
    assert!(applied(&driver.commit(held(&grants[0]), &fits)));
}
