//! The table against a model of what was decided first, under random steps.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Lookup(u8, u8),
    Propose(prop::sample::Index),
    DropFlight(prop::sample::Index),
    Decide(prop::sample::Index),
    Vanish(prop::sample::Index),
    Lose(prop::sample::Index),
    DecideLost(prop::sample::Index),
    ChangeLeader,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = any::<prop::sample::Index>;
    let step = prop_oneof![
        10 => (0..3_u8, 0..2_u8).prop_map(|(key, request)| Step::Lookup(key, request)),
        5 => any().prop_map(Step::Propose),
        1 => any().prop_map(Step::DropFlight),
        4 => any().prop_map(Step::Decide),
        1 => any().prop_map(Step::Vanish),
        1 => any().prop_map(Step::Lose),
        1 => any().prop_map(Step::DecideLost),
        1 => Just(Step::ChangeLeader),
    ];
    proptest::collection::vec(step, 1..100)
}

/// What is flying, and what was decided first.
#[derive(Default)]
struct World {
    flights: Vec<((u8, u8), Flight)>,
    proposed: Vec<((u8, u8), Proposed)>,
    lost: Vec<(u8, u8)>,
    /// Request and outcome that decided a key in this term.
    decided: HashMap<u8, (u8, String)>,
    waiters: Vec<((u8, u8), Waiter)>,
    count: usize,
}

impl World {
    fn take<T>(from: &mut Vec<T>, at: &prop::sample::Index) -> Option<T> {
        if from.is_empty() { None } else { Some(from.remove(at.index(from.len()))) }
    }

    /// The partition decides: the first request of a key gets an outcome, the same again a duplicate of it, another a refusal.
    fn decide(&mut self, (key, request): (u8, u8)) -> Arc<Outcome> {
        self.count += 1;
        let message = format!("outcome {}", self.count);
        match self.decided.get(&key) {
            None => {
                self.decided.insert(key, (request, message.clone()));
                outcome(&message)
            }
            Some((first, message)) if *first == request => outcome(message),
            Some(_) => refused(RefusalCode::IdempotencyKeyReused, "used"),
        }
    }

    fn in_flight(&self, key: u8) -> usize {
        let of = |(other, _): &(u8, u8)| *other == key;
        self.flights.iter().filter(|(id, _)| of(id)).count()
            + self.proposed.iter().filter(|(id, _)| of(id)).count()
            + self.lost.iter().filter(|id| of(id)).count()
    }

    fn lookup(&mut self, recall: &Recall, key: u8, request: u8) {
        let flying = self.in_flight(key);
        match recall.lookup(&identity(key), digest(request), WINDOW).unwrap() {
            Recalled::New(flight) => {
                assert_eq!(flying, 0, "IDEM-1: a key is in flight at most once");
                self.waiters.push(((key, request), flight.waiter()));
                self.flights.push(((key, request), flight));
            }
            Recalled::InFlight(waiter) => {
                assert_eq!(flying, 1);
                self.waiters.push(((key, request), waiter));
            }
            Recalled::Known(found) => {
                let (first, message) = &self.decided[&key];
                assert_eq!((request, found), (*first, outcome(message)), "IDEM-1: the first outcome");
            }
            Recalled::Reused => assert_ne!(self.decided[&key].0, request),
        }
    }

    /// Whoever waits for something that is over has been told, and was told right.
    fn check(&mut self, recall: &Recall) {
        let flying: usize = (0..3).map(|key| self.in_flight(key)).sum();
        assert_eq!(recall.in_flight(), flying, "every exit removes its key");
        let waiters = std::mem::take(&mut self.waiters);
        for ((key, request), waiter) in waiters {
            match (waiter.try_answer(), self.decided.get(&key)) {
                (None, _) => {
                    assert_eq!(self.in_flight(key), 1, "nobody waits for nothing");
                    self.waiters.push(((key, request), waiter));
                }
                (Some(Answer::Outcome(found)), Some((first, message))) if *first == request => {
                    assert_eq!(found, outcome(message), "IDEM-1: the first outcome");
                }
                (Some(Answer::Outcome(found)), _) => {
                    assert_eq!(found, refused(RefusalCode::IdempotencyKeyReused, "used"));
                }
                (Some(Answer::Reused), first) => assert_ne!(first.unwrap().0, request),
                (Some(Answer::Again | Answer::NotLeading), _) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_retry_gets_the_first_outcome_and_nobody_waits_for_nothing(steps in steps()) {
        let recall = leading();
        let mut world = World::default();
        for step in &steps {
            match step {
                Step::Lookup(key, request) => world.lookup(&recall, *key, *request),
                Step::Propose(at) => {
                    if let Some((id, flight)) = World::take(&mut world.flights, at) {
                        world.proposed.push((id, flight.proposed()));
                    }
                }
                Step::DropFlight(at) => drop(World::take(&mut world.flights, at)),
                Step::Decide(at) => {
                    if let Some((id, proposed)) = World::take(&mut world.proposed, at) {
                        proposed.decided(&world.decide(id), LogTime::ZERO);
                    }
                }
                Step::Vanish(at) => {
                    if let Some((_, proposed)) = World::take(&mut world.proposed, at) {
                        proposed.vanished();
                    }
                }
                Step::Lose(at) => {
                    if let Some((id, proposed)) = World::take(&mut world.proposed, at) {
                        drop(proposed);
                        world.lost.push(id);
                    }
                }
                Step::DecideLost(at) => {
                    if let Some((key, request)) = World::take(&mut world.lost, at) {
                        let outcome = world.decide((key, request));
                        recall.decided(&identity(key), digest(request), &outcome, LogTime::ZERO);
                    }
                }
                Step::ChangeLeader => {
                    recall.step_down();
                    world.flights.clear();
                    world.proposed.clear();
                    world.lost.clear();
                    recall.lead();
                }
            }
            world.check(&recall);
        }
    }
}
