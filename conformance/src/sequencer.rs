//! The sequencer's vectors: scenarios of transactions, restarts and storage faults.
//!
//! Every scenario runs with a thread doing the background work and real time; and, where no step needs that
//! thread, a second time step by step with a clock that is moved by hand.

mod scenario;
mod world;

use anyhow::{Context, Result};

use crate::report::{Failure, Report};
use scenario::{File, Scenario, Step};
use world::{Driver, World};

pub(crate) fn run(text: &str) -> Result<Report> {
    let file: File = serde_json::from_str(text)?;
    let mut report = Report::default();
    for scenario in &file.scenarios {
        let outcome = run_scenario(scenario).with_context(|| format!("in {}", scenario.id))?;
        report.add(&scenario.id, outcome);
    }
    Ok(report)
}

fn run_scenario(scenario: &Scenario) -> Result<Result<(), Failure>> {
    let both: &[Driver] = &[Driver::Thread, Driver::Caller];
    let drivers = if needs_a_thread(&scenario.steps) { &both[..1] } else { both };
    for driver in drivers {
        if let Err(mut failure) = World::new(scenario, *driver)?.run() {
            if *driver == Driver::Caller {
                failure.got += " (driven by its caller)";
            }
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

/// Whether a storage call blocks, or something is to be stored while a transaction holds the sequencer: only another
/// thread can do the background work then.
fn needs_a_thread(steps: &[Step]) -> bool {
    let mut open = false;
    steps.iter().any(|step| {
        match step {
            Step::Start { expect, .. } => open |= expect.as_ref().is_none_or(serde_json::Value::is_u64),
            Step::Flush { .. } | Step::Actualize { .. } | Step::Close {} | Step::Reopen {} => open = false,
            Step::BlockWrites { on } | Step::BlockActualize { on } => return *on,
            Step::Stored { .. } | Step::StoredOffset { .. } => return open,
            _ => (),
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(steps: &str) -> String {
        report_of(&format!(
            r#"{{"id": "case", "params": {{"seq_types": {{"1": {{"1": 1}}}}}},
                "storage": {{"next_offset": 1, "plog": {{"1": [[1, 1, 100]]}}}}, "steps": [{steps}]}}"#
        ))
    }

    fn report_of(scenario: &str) -> String {
        run(&format!(r#"{{"suite": "sequencer", "scenarios": [{scenario}]}}"#)).unwrap().to_string()
    }

    const START: &str = r#"{"op": "start", "kind": 1, "ws": 1, "expect": 2}"#;

    #[test]
    fn what_is_right_passes() {
        let steps = format!(r#"{START}, {{"op": "next", "seq": 1, "expect": 101}}, {{"op": "flush"}}"#);
        assert_eq!(report(&steps), "1 passed, 0 failed\n");
    }

    #[test]
    fn a_wrong_number_fails_at_its_step() {
        let steps = format!(r#"{START}, {{"op": "next", "seq": 1, "expect": 102}}"#);
        assert_eq!(report(&steps), "case step 2: expected 102, got 101\n0 passed, 1 failed\n");
    }

    #[test]
    fn every_kind_of_wrong_expectation_is_noticed() {
        let cases = [
            (r#"{"op": "start", "kind": 1, "ws": 1, "expect": 3}"#.to_owned(), 1),
            (r#"{"op": "start", "kind": 1, "ws": 1, "expect": "misuse"}"#.to_owned(), 1),
            (r#"{"op": "start", "kind": 2, "ws": 1, "expect": 2}"#.to_owned(), 1),
            (format!(r#"{START}, {{"op": "next", "seq": 1, "expect_err": "UnknownSeqID"}}"#), 2),
            (format!(r#"{START}, {{"op": "next", "seq": 7, "expect": 1}}"#), 2),
            (format!(r#"{START}, {{"op": "next", "seq": 7, "expect_err": "Other"}}"#), 2),
            (format!(r#"{START}, {{"op": "flush", "expect": "misuse"}}"#), 2),
            (format!(r#"{START}, {{"op": "actualize"}}, {START}, {START}"#), 4),
            (r#"{"op": "flush"}"#.to_owned(), 1),
            (r#"{"op": "actualize"}"#.to_owned(), 1),
            (r#"{"op": "next", "seq": 1, "expect": 1}"#.to_owned(), 1),
            (r#"{"op": "close"}, {"op": "start", "kind": 1, "ws": 1, "expect": 2}"#.to_owned(), 2),
            (r#"{"op": "stored", "ws": 1, "seq": 1, "value": 99}"#.to_owned(), 1),
            (r#"{"op": "stored_offset", "min": 3, "max": 9}"#.to_owned(), 1),
            (
                format!(
                    r#"{START}, {{"op": "flush"}}, {{"op": "start", "kind": 1, "ws": 1, "expect": "rejected"}}"#
                ),
                3,
            ),
        ];
        for (steps, step) in cases {
            let report = report(&steps);
            assert!(report.starts_with(&format!("case step {step}: expected ")), "{steps}: {report}");
            assert!(report.ends_with("0 passed, 1 failed\n"), "{steps}: {report}");
        }
    }

    #[test]
    fn storage_steps_do_what_they_say() {
        let flushed = r#"{"op": "next", "seq": 1}, {"op": "flush"}"#;
        let steps = format!(
            r#"{START}, {flushed}, {{"op": "plog_add", "offset": 2, "values": [[1, 1, 101]]}},
            {{"op": "stored", "ws": 1, "seq": 1, "value": 101}}, {{"op": "stored_offset", "min": 3, "max": 3}},
            {{"op": "drop_cache"}}, {{"op": "fail_writes", "on": true}}, {{"op": "set_stored_offset", "value": 1}},
            {{"op": "reopen"}}, {{"op": "start", "kind": 1, "ws": 1, "expect": 3}},
            {{"op": "next", "seq": 1, "expect": 102}}, {{"op": "actualize"}},
            {{"op": "fail_writes", "on": false}}, {{"op": "stored_offset", "min": 3, "max": 3}},
            {{"op": "block_actualize", "on": true}}, {{"op": "reopen"}},
            {{"op": "start", "kind": 1, "ws": 1, "expect": "rejected"}}, {{"op": "block_actualize", "on": false}},
            {{"op": "start", "kind": 1, "ws": 1, "expect": 3}}, {{"op": "close"}}, {{"op": "close"}},
            {{"op": "flush", "expect": "misuse"}}, {{"op": "start", "kind": 1, "ws": 1, "expect": "misuse"}}"#
        );
        assert_eq!(report(&steps), "1 passed, 0 failed\n");
    }

    /// Everything at once that files of this form may do, while a transaction is open.
    #[test]
    fn storage_steps_work_beside_an_open_transaction() {
        let steps = format!(
            r#"{START}, {{"op": "stored", "ws": 1, "seq": 1, "value": 100}}, {{"op": "drop_cache"}},
            {{"op": "next", "seq": 1, "expect": 101}}, {{"op": "fail_writes", "on": true}}, {{"op": "flush"}},
            {{"op": "start", "kind": 1, "ws": 1, "expect": 3}}, {{"op": "fail_writes", "on": false}},
            {{"op": "stored", "ws": 1, "seq": 1, "value": 101}}, {{"op": "stored_offset", "min": 3, "max": 3}},
            {{"op": "start", "kind": 1, "ws": 1, "expect": "misuse"}}, {{"op": "next", "seq": 1, "expect": 102}},
            {{"op": "reopen"}}, {{"op": "start", "kind": 1, "ws": 1, "expect": 3}}"#
        );
        assert_eq!(report(&steps), "1 passed, 0 failed\n");
    }

    /// What is blocked when the sequencer is closed or reopened holds nobody up, and changes nothing later.
    #[test]
    fn blocked_writes_are_left_behind() {
        let steps = format!(
            r#"{{"op": "block_writes", "on": true}}, {START}, {{"op": "next", "seq": 1, "expect": 101}}, {{"op": "flush"}},
            {{"op": "plog_add", "offset": 2, "values": [[1, 1, 101]]}}, {{"op": "reopen"}},
            {{"op": "block_writes", "on": false}}, {{"op": "start", "kind": 1, "ws": 1, "expect": 3}},
            {{"op": "next", "seq": 1, "expect": 102}}, {{"op": "flush"}},
            {{"op": "stored", "ws": 1, "seq": 1, "value": 102}}, {{"op": "stored_offset", "min": 4, "max": 4}}"#
        );
        assert_eq!(report(&steps), "1 passed, 0 failed\n");
    }

    #[test]
    fn a_constructor_is_expected_to_refuse_or_not() {
        let scenario = |lru: i32, initial: u32, expect: &str| {
            report_of(&format!(
                r#"{{"id": "new", "params": {{"seq_types": {{"1": {{"1": {initial}}}}}, "lru": {lru}}}, "steps": []{expect}}}"#
            ))
        };
        let refused = r#", "expect_new": "panic""#;
        assert_eq!(scenario(0, 1, refused), "1 passed, 0 failed\n");
        assert_eq!(scenario(-1, 1, refused), "1 passed, 0 failed\n");
        assert_eq!(scenario(5, 0, refused), "1 passed, 0 failed\n");
        assert_eq!(scenario(5, 1, ""), "1 passed, 0 failed\n");
        assert!(scenario(5, 1, refused).starts_with("new step 0: expected a refusal, got"));
        assert!(scenario(0, 1, "").starts_with("new step 0: expected a sequencer, got"));
    }

    #[test]
    fn an_unknown_operation_is_an_error_of_the_file() {
        assert!(run(r#"{"scenarios": [{"id": "a", "params": {}, "steps": [{"op": "dance"}]}]}"#).is_err());
        assert!(run("{").is_err());
    }
}
