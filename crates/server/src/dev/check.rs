//! Compares what came back after the kill with what was acknowledged before it.
//!
//! Nothing acknowledged may be missing or changed; nothing that nobody wrote may be there; each writer's records must
//! stand in the order in which it wrote them.
//!
//! Must not know: processes, what is shown.

use std::collections::BTreeMap;

use anyhow::Result;
use gapless_log::{Log, Record};
use gapless_types::Position;

use super::demo_record::DemoRecord;
use super::kill::Acknowledged;
use crate::refusal::Refusal;

/// Bytes read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Reads everything that the run wrote; returns how many records that are.
pub(super) fn check(log: &Log, run: u64, next: Position, acknowledged: Vec<Acknowledged>) -> Result<u64> {
    let mut comparison = Comparison::new(run, acknowledged);
    let mut at = Position::new(run);
    while at < next {
        let records = log.read_range(at, next, READ_BYTES).map_err(|error| must_not_happen(&error))?;
        for record in &records {
            comparison.take(record).map_err(|problem| must_not_happen(&problem))?;
        }
        at = records.last().and_then(|last| last.position.next()).unwrap_or(next);
    }
    comparison.finish().map_err(|problem| must_not_happen(&problem))
}

fn must_not_happen(problem: &dyn std::fmt::Display) -> anyhow::Error {
    let next = "this must never happen: keep the directory as it is, and report it as a bug";
    Refusal::new(format!("the log broke its promise: {problem}"), next).into()
}

/// What is still expected, and what was seen.
struct Comparison {
    run: u64,
    /// Acknowledged and not seen yet, by position.
    expected: BTreeMap<u64, DemoRecord>,
    /// The last record seen of each writer.
    last: BTreeMap<u64, u64>,
    seen: u64,
}

impl Comparison {
    fn new(run: u64, acknowledged: Vec<Acknowledged>) -> Self {
        let expected = acknowledged
            .into_iter()
            .map(|Acknowledged { position, writer, count }| (position, DemoRecord { run, writer, count }))
            .collect();
        Self { run, expected, last: BTreeMap::new(), seen: 0 }
    }

    fn take(&mut self, record: &Record) -> Result<(), String> {
        let position = record.position;
        let found = DemoRecord::decode(&record.payload).filter(|found| found.run == self.run);
        let Some(found) = found else {
            return Err(format!("position {position} holds bytes that nobody wrote there"));
        };
        if self.expected.remove(&position.get()).is_some_and(|expected| expected != found) {
            return Err(format!("position {position} holds another record than was acknowledged there"));
        }
        let before = self.last.insert(found.writer, found.count).unwrap_or(0);
        if found.count != before + 1 {
            let DemoRecord { writer, count, .. } = found;
            return Err(format!("record {count} of writer {writer} follows its record {before}"));
        }
        self.seen += 1;
        Ok(())
    }

    fn finish(self) -> Result<u64, String> {
        match self.expected.first_key_value() {
            None => Ok(self.seen),
            Some((position, _)) => {
                let missing = self.expected.len();
                Err(format!("{missing} acknowledged records are missing, the first at position {position}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(position: u64, writer: u64, count: u64) -> Acknowledged {
        Acknowledged { position, writer, count }
    }

    fn record(position: u64, writer: u64, count: u64) -> Record {
        let payload = DemoRecord { run: 1, writer, count }.encode().into_bytes().into();
        Record { position: Position::new(position), payload }
    }

    #[test]
    fn what_was_on_its_way_may_be_there_and_what_was_acknowledged_must() {
        let mut comparison = Comparison::new(1, vec![acknowledged(1, 1, 1), acknowledged(3, 1, 2)]);
        comparison.take(&record(1, 1, 1)).unwrap();
        comparison.take(&record(2, 2, 1)).unwrap();
        assert!(Comparison { expected: comparison.expected.clone(), ..comparison }.finish().is_err());
    }

    #[test]
    fn a_record_in_anothers_place_or_out_of_order_is_noticed() {
        let expect = vec![acknowledged(1, 1, 1)];
        assert!(Comparison::new(1, expect.clone()).take(&record(1, 2, 1)).is_err());
        assert!(Comparison::new(1, expect.clone()).take(&record(1, 1, 2)).is_err());
        assert!(Comparison::new(1, Vec::new()).take(&record(5, 1, 2)).is_err());
        assert!(Comparison::new(2, Vec::new()).take(&record(5, 1, 1)).is_err());
        let mut comparison = Comparison::new(1, expect);
        comparison.take(&record(1, 1, 1)).unwrap();
        assert_eq!(comparison.finish(), Ok(1));
    }
}
