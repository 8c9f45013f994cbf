//! Stories of retries.

mod model;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use bytes::Bytes;
use gapless_partition::Refusal;
use gapless_types::PartitionOffset;

use super::*;

const WINDOW: Window = Window { now: LogTime::ZERO, millis: 1000 };
const LIMITS: RecallLimits = RecallLimits { outcomes: 100, outcome_bytes: 1 << 20, in_flight: 100 };

fn identity(key: u8) -> WriteIdentity {
    WriteIdentity {
        namespace: NamespaceId::new(1),
        workspace: WorkspaceId::new(1),
        client: ClientId::new("till").unwrap(),
        key: IdempotencyKey::new([key + 1; 16]).unwrap(),
    }
}

fn digest(of: u8) -> RequestDigest {
    RequestDigest::of(&[of])
}

fn outcome(message: &str) -> Arc<Outcome> {
    refused(RefusalCode::KeyExists, message)
}

fn refused(code: RefusalCode, message: &str) -> Arc<Outcome> {
    let (key, message) = (Bytes::new(), message.to_owned());
    Arc::new(Outcome::Refused(Refusal {
        code,
        operation: None,
        key,
        current_version: None,
        current_value: None,
        message,
    }))
}

fn leading() -> Recall {
    let recall = Recall::new(LIMITS);
    recall.lead();
    recall
}

fn fly(recall: &Recall, key: u8, request: u8) -> Flight {
    match recall.lookup(&identity(key), digest(request), WINDOW).unwrap() {
        Recalled::New(flight) => flight,
        other => panic!("expected a new flight, found {other:?}"),
    }
}

fn wait(recall: &Recall, key: u8, request: u8) -> Waiter {
    match recall.lookup(&identity(key), digest(request), WINDOW).unwrap() {
        Recalled::InFlight(waiter) => waiter,
        other => panic!("expected a flight, found {other:?}"),
    }
}

/// Polls once, with a waker that does nothing.
fn poll(waiter: Waiter) -> Poll<Answer> {
    pin!(waiter.answer()).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_retry_waits_for_the_first_and_gets_its_outcome_then_and_later() {
    let recall = leading();
    let flight = fly(&recall, 1, 1);
    let (own, retry) = (flight.waiter(), wait(&recall, 1, 1));
    assert_eq!(poll(retry.clone()), Poll::Pending);
    let proposed = flight.proposed();
    proposed.decided(&outcome("first"), LogTime::ZERO);
    assert_eq!(poll(own), Poll::Ready(Answer::Outcome(outcome("first"))));
    assert_eq!(retry.try_answer(), Some(Answer::Outcome(outcome("first"))));
    let known = recall.lookup(&identity(1), digest(1), WINDOW).unwrap();
    assert!(matches!(known, Recalled::Known(known) if known == outcome("first")));
    assert!(matches!(recall.lookup(&identity(1), digest(2), WINDOW).unwrap(), Recalled::Reused));
    assert_eq!(recall.in_flight(), 0);
}

#[test]
fn a_key_reused_while_in_flight_is_refused_only_if_the_first_one_was_decided() {
    let recall = leading();
    let flight = fly(&recall, 1, 1);
    let other = wait(&recall, 1, 2);
    flight.proposed().decided(&outcome("first"), LogTime::ZERO);
    assert_eq!(other.try_answer(), Some(Answer::Reused));

    let flight = fly(&recall, 2, 1);
    let other = wait(&recall, 2, 2);
    flight.proposed().vanished();
    assert_eq!(other.try_answer(), Some(Answer::Again));
    let second = fly(&recall, 2, 2);
    second.proposed().decided(&outcome("second"), LogTime::ZERO);
    assert!(matches!(recall.lookup(&identity(2), digest(1), WINDOW).unwrap(), Recalled::Reused));
}

#[test]
fn a_refusal_because_the_key_was_used_before_decides_nothing() {
    let recall = leading();
    let flight = fly(&recall, 1, 1);
    let (same, other) = (wait(&recall, 1, 1), wait(&recall, 1, 2));
    let reused = refused(RefusalCode::IdempotencyKeyReused, "used");
    flight.proposed().decided(&reused, LogTime::ZERO);
    assert_eq!(same.try_answer(), Some(Answer::Outcome(reused)));
    assert_eq!(other.try_answer(), Some(Answer::Again), "it may be the one that used the key");
    let _ = fly(&recall, 1, 2);
}

#[test]
fn a_duplicate_uses_the_key_and_its_first_outcome_is_known_if_its_time_is() {
    let recall = leading();
    let flight = fly(&recall, 1, 1);
    let other = wait(&recall, 1, 2);
    let first = Box::new((*outcome("long ago")).clone());
    let duplicate = Arc::new(Outcome::Duplicate { first_offset: PartitionOffset::FIRST, first });
    flight.proposed().decided(&duplicate, LogTime::ZERO);
    assert_eq!(other.try_answer(), Some(Answer::Reused));
    assert_eq!(recall.known(), 0);
}

#[test]
fn a_flight_that_is_dropped_gives_the_key_back() {
    let recall = leading();
    let flight = fly(&recall, 1, 1);
    let retry = wait(&recall, 1, 1);
    drop(flight);
    assert_eq!(retry.try_answer(), Some(Answer::Again));
    assert_eq!(recall.in_flight(), 0);
    let _ = fly(&recall, 1, 1);
}

#[test]
fn an_unknown_outcome_stays_in_flight_until_its_fate_is_known() {
    let recall = leading();
    let flight = fly(&recall, 1, 1);
    drop(flight.waiter());
    drop(flight.proposed());
    let retry = wait(&recall, 1, 1);
    assert_eq!(poll(retry.clone()), Poll::Pending);
    recall.decided(&identity(1), digest(1), &outcome("late"), LogTime::ZERO);
    assert_eq!(retry.try_answer(), Some(Answer::Outcome(outcome("late"))));
    assert_eq!(recall.in_flight(), 0);
}

#[test]
fn nothing_is_known_longer_than_the_window() {
    let recall = leading();
    fly(&recall, 1, 1).proposed().decided(&outcome("first"), LogTime::from_millis(500).unwrap());
    let at = |now| Window { now: LogTime::from_millis(now).unwrap(), millis: 1000 };
    let lookup = |now| recall.lookup(&identity(1), digest(1), at(now)).unwrap();
    assert!(matches!(lookup(400), Recalled::Known(_)));
    assert!(matches!(lookup(1499), Recalled::Known(_)));
    let Recalled::New(flight) = lookup(1500) else { panic!("a key after its window is a new write") };
    flight.proposed().decided(&outcome("second"), LogTime::from_millis(1500).unwrap());
    assert!(matches!(lookup(1501), Recalled::Known(known) if known == outcome("second")));
}

#[test]
fn a_change_of_leader_sends_everybody_away_and_forgets() {
    let recall = leading();
    fly(&recall, 1, 1).proposed().decided(&outcome("first"), LogTime::ZERO);
    let (early, late) = (fly(&recall, 2, 1), fly(&recall, 3, 1));
    let (early_retry, late_retry) = (wait(&recall, 2, 1), wait(&recall, 3, 1));
    let late = late.proposed();
    recall.step_down();
    assert_eq!(early_retry.try_answer(), Some(Answer::NotLeading));
    assert_eq!(late_retry.try_answer(), Some(Answer::NotLeading));
    let refused = recall.lookup(&identity(1), digest(1), WINDOW).unwrap_err();
    assert_eq!(refused, RecallRefused::NotLeading);
    recall.lead();
    let again = fly(&recall, 2, 1);
    drop(early);
    late.vanished();
    assert_eq!(recall.in_flight(), 1, "guards of an earlier term do not end later flights");
    drop(again);
    let _ = fly(&recall, 1, 1);
}

#[test]
fn a_recall_that_goes_away_leaves_nobody_waiting() {
    let recall = leading();
    let flight = fly(&recall, 1, 1);
    let waiter = flight.waiter();
    drop(flight.proposed());
    drop(recall);
    assert_eq!(poll(waiter), Poll::Ready(Answer::NotLeading));
}

/// Counts how often somebody is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whoever_waits_for_many_gets_them_in_one_queue_and_is_woken_once() {
    let recall = leading();
    let arrivals = Arc::<Arrivals>::default();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let flights: Vec<_> = (1..=3).map(|key| fly(&recall, key, 1)).collect();
    for (flight, number) in flights.iter().zip([10, 20, 30]) {
        flight.waiter().forward(&arrivals, number);
    }
    // Beside them somebody waits for the second alone, and the queue for a reuse of its key.
    let mut alone = pin!(wait(&recall, 2, 1).answer());
    assert!(alone.as_mut().poll(&mut context).is_pending());
    wait(&recall, 2, 2).forward(&arrivals, 40);
    let mut came = VecDeque::new();
    assert!(arrivals.poll_take(&context, &mut came).is_pending());
    let told: Vec<_> =
        flights.into_iter().map(|flight| (flight.proposed(), outcome("done"), LogTime::ZERO)).collect();
    Proposed::all_decided(&told);
    assert_eq!(woken.0.load(Ordering::Relaxed), 2, "the queue once, and the one beside it");
    assert_eq!(alone.as_mut().poll(&mut context), Poll::Ready(Answer::Outcome(outcome("done"))));
    assert!(arrivals.poll_take(&context, &mut came).is_ready());
    let done = || Answer::Outcome(outcome("done"));
    assert_eq!(came, [(10, done()), (20, done()), (40, Answer::Reused), (30, done())]);
    // What is known already comes at once, and behind what was not taken yet.
    let flight = fly(&recall, 4, 1);
    let late = flight.waiter();
    drop(flight);
    late.forward(&arrivals, 50);
    assert!(arrivals.poll_take(&context, &mut came).is_ready());
    assert_eq!(came.back(), Some(&(50, Answer::Again)));
}

#[test]
fn keys_in_flight_are_limited_and_outcomes_too() {
    let recall = Recall::new(RecallLimits { outcomes: 3, outcome_bytes: 1 << 20, in_flight: 2 });
    recall.lead();
    let flights = [fly(&recall, 1, 1), fly(&recall, 2, 1)];
    let refused = recall.lookup(&identity(3), digest(1), WINDOW).unwrap_err();
    assert_eq!(refused, RecallRefused::Full { limit: 2 });
    let _ = wait(&recall, 1, 1);
    drop(flights);
    for key in 0..5 {
        fly(&recall, key, 1).proposed().decided(&outcome("x"), LogTime::ZERO);
    }
    assert_eq!(recall.known(), 3);
    assert!(matches!(recall.lookup(&identity(4), digest(1), WINDOW).unwrap(), Recalled::Known(_)));
    assert!(
        matches!(recall.lookup(&identity(1), digest(1), WINDOW).unwrap(), Recalled::New(_)),
        "the oldest went"
    );
}

#[test]
fn bytes_of_outcomes_are_limited() {
    let recall = Recall::new(RecallLimits { outcomes: 1000, outcome_bytes: 20_000, in_flight: 2 });
    recall.lead();
    for key in 0..200 {
        fly(&recall, key, 1).proposed().decided(&outcome(&"x".repeat(usize::from(key) * 10)), LogTime::ZERO);
        assert!(lock(&recall.table).known.bytes() <= 20_000);
    }
    assert!(recall.known() >= 5);
    fly(&recall, 201, 1).proposed().decided(&outcome(&"x".repeat(20_000)), LogTime::ZERO);
    assert!(matches!(recall.lookup(&identity(201), digest(1), WINDOW).unwrap(), Recalled::New(_)));
}

/// Wakes a thread that is parked.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on(waiter: Waiter) -> Answer {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut answer = pin!(waiter.answer());
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn many_threads_with_one_key_execute_it_once_and_none_is_left_waiting() {
    for round in 0..200 {
        let recall = leading();
        let (barrier, executed) = (Barrier::new(4), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for number in 0..4 {
                let (recall, barrier, executed) = (&recall, &barrier, &executed);
                scope.spawn(move || {
                    barrier.wait();
                    loop {
                        let waiter = match recall.lookup(&identity(1), digest(1), WINDOW).unwrap() {
                            Recalled::Known(outcome) => return assert_eq!(outcome, self::outcome("done")),
                            Recalled::Reused => panic!("all ask for the same"),
                            Recalled::InFlight(waiter) => waiter,
                            Recalled::New(flight) if executed.lock().unwrap().len() < round % 3 => {
                                executed.lock().unwrap().push((number, "gave up"));
                                drop(flight);
                                continue;
                            }
                            Recalled::New(flight) => {
                                executed.lock().unwrap().push((number, "executed"));
                                let waiter = flight.waiter();
                                flight.proposed().decided(&outcome("done"), LogTime::ZERO);
                                waiter
                            }
                        };
                        match block_on(waiter) {
                            Answer::Outcome(outcome) => return assert_eq!(outcome, self::outcome("done")),
                            Answer::Again => {}
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        let executed = executed.into_inner().unwrap();
        assert_eq!(
            executed.iter().filter(|(_, what)| *what == "executed").count(),
            1,
            "IDEM-1: {executed:?}"
        );
    }
}
