//! The sequencer against plain maps: any sequence of events, failures, evictions and restarts, with the process dying
//! before or after any storage call, shrunk when it fails.
//!
//! The model is the log alone: what was appended, and so the last number of every workspace and sequence.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_sequencer::memory::{Call, Disturbance, MemoryStorage};
use gapless_sequencer::{BackgroundStep, Drive, Params, Sequencer, StartError};
use proptest::prelude::*;
use support::{KIND, Stepped, offset, params, sequence, value, workspace};

/// What one transaction does with one sequence.
#[derive(Clone, Copy, Debug)]
enum Take {
    Next(u16),
    /// An imported id: this far above or below the last number.
    Import(u16, i64),
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Flush,
    /// The event is not in the log.
    Actualize,
    /// The event is in the log, but nobody knew.
    ActualizeAppended,
    /// The process dies: before the event is in the log, or after.
    Die {
        appended: bool,
    },
}

#[derive(Clone, Debug)]
enum Step {
    Event {
        workspace: u64,
        takes: Vec<Take>,
        end: End,
    },
    Background(u8),
    PassTime(u16),
    DropCache,
    Close,
    /// Ends the process without a word.
    Kill,
    /// Disturbs the n-th storage call of whatever kind from now on.
    Disturb(u64, Disturbance),
    FailWrites(bool),
    /// An old checkpoint is restored: values and offset as they were.
    ForgetOffset,
}

fn take() -> impl Strategy<Value = Take> {
    prop_oneof![
        6 => (1..=3_u16).prop_map(Take::Next),
        2 => Just(Take::Next(9)),
        2 => (prop_oneof![Just(1_u16), Just(9)], -9..10_i64).prop_map(|(seq, by)| Take::Import(seq, by)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        8 => Just(End::Flush),
        1 => Just(End::Actualize),
        1 => Just(End::ActualizeAppended),
        1 => any::<bool>().prop_map(|appended| End::Die { appended }),
    ];
    let disturbance = prop_oneof![
        Just(Disturbance::Fail),
        Just(Disturbance::FailAfter),
        Just(Disturbance::Crash),
        Just(Disturbance::CrashAfter),
    ];
    prop_oneof![
        12 => (0..4_u64, prop::collection::vec(take(), 0..5), end)
            .prop_map(|(workspace, takes, end)| Step::Event { workspace, takes, end }),
        5 => (1..6_u8).prop_map(Step::Background),
        4 => (1..700_u16).prop_map(Step::PassTime),
        1 => Just(Step::DropCache),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
        3 => (1..8_u64, disturbance).prop_map(|(nth, how)| Step::Disturb(nth, how)),
        1 => any::<bool>().prop_map(Step::FailWrites),
        1 => Just(Step::ForgetOffset),
    ]
}

struct World {
    stepped: Stepped,
    /// The last number of each workspace and sequence, as the log tells it.
    last: BTreeMap<(u64, u16), u64>,
    log_end: u64,
}

impl World {
    fn new(params: Params) -> Self {
        let stepped = Stepped::new(&MemoryStorage::new(), params);
        Self { stepped, last: BTreeMap::new(), log_end: 1 }
    }

    fn reopen(&mut self) {
        let params = self.stepped.params.clone();
        // The old handle dies with its process: what it still tries does nothing.
        self.stepped = Stepped::new(&self.stepped.storage, params);
    }

    fn initial(seq: u16) -> u64 {
        if seq == 9 { 200_001 } else { 1 }
    }

    fn append(&mut self, id: u64, taken: &[(u16, u64)]) {
        let values: Vec<_> = taken.iter().map(|(seq, number)| value(id, *seq, *number)).collect();
        self.stepped.storage.append(offset(self.log_end), values);
        self.log_end += 1;
        for (seq, number) in taken.iter().filter(|(seq, number)| *number >= Self::initial(*seq)) {
            let last = self.last.entry((id, *seq)).or_default();
            *last = (*last).max(*number);
        }
    }

    fn event(&mut self, id: u64, takes: &[Take], end: End) -> Result<(), TestCaseError> {
        let mut transaction = match self.stepped.sequencer.start(KIND, workspace(id)) {
            Ok(transaction) => transaction,
            Err(StartError::Busy(_)) => return Ok(()),
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        prop_assert_eq!(transaction.offset(), offset(self.log_end));
        let mut own = BTreeMap::new();
        let mut taken = Vec::new();
        for take in takes {
            let (Take::Next(seq) | Take::Import(seq, _)) = *take;
            let before: Option<u64> = own.get(&seq).or(self.last.get(&(id, seq))).copied();
            match *take {
                Take::Next(_) => {
                    let expected = before.map_or(Self::initial(seq), |last| last + 1);
                    // A read that failed took nothing; the process behind it may be dead.
                    let Ok(number) = transaction.next(sequence(seq)) else { continue };
                    prop_assert_eq!(number, expected, "workspace {}, sequence {}", id, seq);
                    own.insert(seq, number);
                    taken.push((seq, number));
                }
                Take::Import(_, by) => {
                    let number = before.unwrap_or(Self::initial(seq)).saturating_add_signed(by);
                    if transaction.observe(sequence(seq), number).is_err() {
                        continue;
                    }
                    if number >= Self::initial(seq) {
                        own.insert(seq, before.unwrap_or(0).max(number));
                    }
                    taken.push((seq, number));
                }
            }
        }
        match end {
            End::Flush => {
                transaction.flush();
                self.append(id, &taken);
            }
            End::Actualize => transaction.actualize(),
            End::ActualizeAppended => {
                drop(transaction);
                self.append(id, &taken);
            }
            End::Die { appended } => {
                drop(transaction);
                if appended {
                    self.append(id, &taken);
                }
                self.reopen();
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Event { workspace, takes, end } => self.event(*workspace, takes, *end)?,
            Step::Background(steps) => {
                for _ in 0..*steps {
                    if self.stepped.sequencer.step_background() != BackgroundStep::Worked {
                        break;
                    }
                }
            }
            Step::PassTime(milliseconds) => {
                self.stepped.clock.advance(Duration::from_millis(u64::from(*milliseconds)));
                self.stepped.sequencer.run_background();
            }
            Step::DropCache => self.stepped.sequencer.drop_cache(),
            Step::Close => {
                self.stepped.sequencer.close();
                self.reopen();
            }
            Step::Kill => self.reopen(),
            Step::Disturb(nth, how) => self.stepped.storage.disturb_nth_of_any(*nth, *how),
            Step::FailWrites(true) => self.stepped.storage.disturb(Call::Write, Disturbance::Fail),
            Step::FailWrites(false) => self.stepped.storage.heal(Call::Write),
            Step::ForgetOffset => {
                let stored = self.stepped.storage.stored_offset();
                self.stepped.storage.set_stored_offset(stored / 2);
                // Only a new process reads it.
                self.reopen();
            }
        }
        self.check_store()
    }

    /// Stored values are never behind the stored offset, and the stored offset never ahead of the log.
    fn check_store(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.stepped.storage.stored_offset() <= self.log_end);
        for ((id, seq), last) in &self.last {
            let stored = self.stepped.storage.stored_number(workspace(*id), sequence(*seq));
            prop_assert!(stored <= *last, "stored {} of {}/{}, but the log has {}", stored, id, seq, last);
        }
        Ok(())
    }

    /// Another process, on a storage that works: it continues exactly where the log ends.
    fn check_continuation(&mut self) -> Result<(), TestCaseError> {
        self.stepped.storage.heal_all();
        self.reopen();
        self.stepped.settle();
        prop_assert_eq!(self.stepped.storage.stored_offset().max(1), self.log_end);
        for ((id, seq), last) in &self.last {
            prop_assert_eq!(self.stepped.storage.stored_number(workspace(*id), sequence(*seq)), *last);
        }
        for id in 0..4 {
            let takes = [1, 2, 3, 9].map(Take::Next);
            self.event(id, &takes, End::Flush)?;
            self.stepped.settle();
        }
        Ok(())
    }
}

fn small_params() -> impl Strategy<Value = Params> {
    (1..8_usize, 1..8_u64, 1..12_usize, any::<u64>()).prop_map(|(max_unflushed, max_lag, entries, seed)| {
        Params { max_unflushed, max_lag, seed, ..params() }.with_cache_entries(entries)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn numbers_are_those_of_a_plain_map(params in small_params(), steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new(params);
        for step in &steps {
            world.step(step)?;
        }
        world.check_continuation()?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// The same numbers with a thread doing the background work, whatever it is doing when.
    #[test]
    fn a_thread_gives_the_same_numbers(
        params in small_params(),
        events in prop::collection::vec((0..4_u64, 0..3_usize, any::<bool>()), 1..60),
        failing in 0..20_u64,
    ) {
        let storage = MemoryStorage::new();
        storage.disturb_nth(Call::Write, failing, Disturbance::Fail);
        storage.disturb_nth(Call::Scan, failing / 2, Disturbance::Fail);
        let params = Params { retry_delay: Duration::from_millis(1), flush_delay: Duration::ZERO, ..params };
        let mut sequencer = Sequencer::new(params, storage.clone(), Drive::OS_THREAD).unwrap();
        let (mut last, mut log_end) = ([0_u64; 4], 1);
        for (id, numbers, committed) in events {
            sequencer.wait_ready(Duration::from_secs(60)).unwrap();
            let mut transaction = sequencer.start(KIND, workspace(id)).unwrap();
            prop_assert_eq!(transaction.offset(), offset(log_end));
            let place = &mut last[usize::try_from(id).unwrap()];
            for taken in 1..=numbers as u64 {
                prop_assert_eq!(transaction.next(sequence(1)).unwrap(), *place + taken);
            }
            if committed {
                *place += numbers as u64;
                let values = if numbers > 0 { vec![value(id, 1, *place)] } else { Vec::new() };
                storage.append(transaction.offset(), values);
                transaction.flush();
                log_end += 1;
            }
        }
    }
}
