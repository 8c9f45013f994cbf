//! What a log should hold: a plain map, and the operations that change it.

use std::collections::BTreeMap;

use bytes::Bytes;
use gapless_log::{Log, ReadError, StateKey};
use gapless_types::Position;

/// The whole visible state of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub first: u64,
    pub next: u64,
    pub records: BTreeMap<u64, Bytes>,
    pub states: BTreeMap<u16, Vec<u8>>,
}

/// Something that changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Append { first: u64, payloads: Vec<Bytes> },
    Truncate { from: u64 },
    Release { first: u64 },
    SetState { key: u16, value: Vec<u8> },
}

impl Model {
    pub fn starting_at(first: u64) -> Self {
        Self { first, next: first, ..Self::default() }
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Append { first, payloads } => {
                assert_eq!(*first, self.next, "the model itself appends at its end only");
                for payload in payloads {
                    self.records.insert(self.next, payload.clone());
                    self.next += 1;
                }
            }
            Op::Truncate { from } => {
                self.records.split_off(from);
                self.next = *from;
            }
            Op::Release { first } => {
                self.records = self.records.split_off(first);
                self.first = *first;
                self.next = self.next.max(*first);
            }
            Op::SetState { key, value } => {
                self.states.insert(*key, value.clone());
            }
        }
    }

    /// What a log holds, as a model; positions that cannot be read are listed beside it.
    pub fn of(log: &Log) -> (Self, Vec<u64>) {
        let (first, next) = (log.first().get(), log.next().get());
        let mut model = Self { first, next, ..Self::default() };
        let mut unreadable = Vec::new();
        let mut at = first;
        while at < next {
            match log.read_range(Position::new(at), Position::new(next), 10_000) {
                Ok(found) => {
                    assert!(!found.is_empty(), "a read at {at} below {next} returned nothing");
                    for record in found {
                        assert_eq!(record.position.get(), at, "positions ascend one by one");
                        model.records.insert(at, record.payload);
                        at += 1;
                    }
                }
                Err(ReadError::Corrupt { position, .. } | ReadError::Lost { position }) => {
                    assert_eq!(position.get(), at);
                    unreadable.push(at);
                    at += 1;
                }
                Err(error) => panic!("reading {at}: {error}"),
            }
        }
        for key in 0..4 {
            if let Some(value) = log.state(StateKey(key)) {
                model.states.insert(key, value.to_vec());
            }
        }
        (model, unreadable)
    }
}
