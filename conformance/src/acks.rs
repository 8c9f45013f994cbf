//! The vectors about acknowledgements: each case is one tracker and the steps it is taken through.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use gapless_engine::NodeId;
use gapless_engine::acknowledgements::{AckError, Acknowledgements, Quorum, Rule};
use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::report::{Failure, Report};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "the file says which suite it is")]
    suite: Option<String>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[expect(dead_code, reason = "for people")]
    note: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    op: String,
    args: Vec<Value>,
    #[serde(default)]
    expect: Value,
}

pub(crate) fn run(text: &str) -> Result<Report> {
    let file: File = serde_json::from_str(text)?;
    let mut report = Report::default();
    for case in &file.cases {
        report.add(&case.id, run_case(case).with_context(|| format!("case {}", case.id))?);
    }
    Ok(report)
}

fn run_case(case: &Case) -> Result<Result<(), Failure>> {
    let mut tracker = Acknowledgements::default();
    for (at, step) in case.steps.iter().enumerate() {
        let got = step.run(&mut tracker).with_context(|| format!("step {}", at + 1))?;
        if !as_expected(&step.expect, &got) {
            let (expected, got) = (step.expect.to_string(), got.to_string());
            return Ok(Err(Failure { step: at + 1, expected, got }));
        }
    }
    Ok(Ok(()))
}

/// What has no result of its own is written as `null` or as `"ok"`.
fn as_expected(expected: &Value, got: &Value) -> bool {
    let nothing = |value: &Value| value.is_null() || *value == json!("ok");
    expected == got || (nothing(expected) && nothing(got))
}

impl Step {
    fn run(&self, tracker: &mut Acknowledgements) -> Result<Value> {
        let result = match (self.op.as_str(), &self.args[..]) {
            ("register", [partition, quorum]) => {
                tracker.register(partition_id(partition)?, quorum_of(quorum)?);
                Ok(Value::Null)
            }
            ("durable", [index]) => Ok(json!(tracker.durable(log_index(index)?).get())),
            ("append", [partition, offset, index]) => {
                nothing(tracker.append(partition_id(partition)?, offset_of(offset)?, log_index(index)?))
            }
            ("ack", [partition, offset, index, replica]) => tracker
                .acknowledge(
                    partition_id(partition)?,
                    offset_of(offset)?,
                    log_index(index)?,
                    NodeId::new(number(replica)?),
                )
                .map(|found| {
                    json!({"ack_count": found.count, "satisfied": found.satisfied, "newly": found.newly,
                        "raft": found.index.get()})
                }),
            ("applied", [partition, offset]) => {
                nothing(tracker.applied(partition_id(partition)?, offset_of(offset)?))
            }
            ("pmin", [partition]) => {
                tracker.min_required(partition_id(partition)?).map(|index| json!(index.get()))
            }
            ("marks", [first]) => {
                let marks = tracker.marks(log_index(first)?);
                Ok(json!({"durable": marks.durable.get(), "min_required": marks.min_required.get(),
                    "truncate_upto": marks.truncate_upto.get(), "can_truncate": marks.can_truncate}))
            }
            ("truncate_from", [index]) => {
                tracker.truncate_from(log_index(index)?);
                Ok(Value::Null)
            }
            ("remove", [partition]) => nothing(tracker.remove(partition_id(partition)?)),
            ("release", [partition, offset]) => {
                nothing(tracker.release(partition_id(partition)?, offset_of(offset)?))
            }
            (op, arguments) => bail!("cannot do `{op}` with {} arguments", arguments.len()),
        };
        Ok(result.unwrap_or_else(|error| json!(code(&error))))
    }
}

fn nothing(result: Result<(), AckError>) -> Result<Value, AckError> {
    result.map(|()| json!("ok"))
}

fn code(error: &AckError) -> &'static str {
    match error {
        AckError::PartitionMissing { .. } => "PartitionMissing",
        AckError::EntryMissing { .. } => "EntryMissing",
        AckError::AckAhead { .. } => "AckAhead",
    }
}

fn number(value: &Value) -> Result<u64> {
    value.as_u64().with_context(|| format!("{value} is no number"))
}

/// Partitions of these files have one number each: its lower 16 bits are the index, the others the namespace.
fn partition_id(value: &Value) -> Result<PartitionId> {
    let number = number(value)?;
    let namespace = NamespaceId::new(u32::try_from(number >> 16)?);
    Ok(PartitionId { namespace, index: PartitionIndex::new(u16::try_from(number & 0xffff)?) })
}

fn offset_of(value: &Value) -> Result<PartitionOffset> {
    Ok(PartitionOffset::try_from(number(value)?)?)
}

fn log_index(value: &Value) -> Result<LogIndex> {
    Ok(LogIndex::new(number(value)?))
}

/// `[members, "majority"]` or `[members, "threshold", n]`.
fn quorum_of(value: &Value) -> Result<Quorum> {
    let parts = value.as_array().context("a quorum is a list")?;
    let (members, rule) = match &parts[..] {
        [members, name] if name == "majority" => (members, Rule::Majority),
        [members, name, count] if name == "threshold" => {
            (members, Rule::Threshold(usize::try_from(number(count)?)?))
        }
        _ => bail!("{value} is no quorum"),
    };
    let members = members.as_array().context("members are a list")?;
    let members: Result<BTreeSet<NodeId>> =
        members.iter().map(|member| Ok(NodeId::new(number(member)?))).collect();
    Ok(Quorum { members: members?, rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(steps: &str) -> Result<String> {
        Ok(run(&format!(r#"{{"cases": [{{"id": "case", "steps": [{steps}]}}]}}"#))?.to_string())
    }

    const REGISTERED: &str = r#"{"op": "register", "args": [1, [[1, 2, 3], "majority"]], "expect": null},
        {"op": "append", "args": [1, 1, 5], "expect": "ok"}"#;

    #[test]
    fn what_is_right_passes() {
        let steps = format!(
            r#"{REGISTERED}, {{"op": "ack", "args": [1, 1, 6, 1], "expect": "AckAhead"}},
            {{"op": "release", "args": [1, 1], "expect": "ok"}}, {{"op": "release", "args": [1, 1], "expect": "EntryMissing"}},
            {{"op": "remove", "args": [1], "expect": null}}, {{"op": "pmin", "args": [1], "expect": "PartitionMissing"}}"#
        );
        assert_eq!(report(&steps).unwrap(), "1 passed, 0 failed\n");
    }

    #[test]
    fn every_kind_of_wrong_expectation_is_noticed() {
        for wrong in [
            r#"{"op": "append", "args": [1, 2, 6], "expect": "PartitionMissing"}"#,
            r#"{"op": "append", "args": [2, 1, 6], "expect": "ok"}"#,
            r#"{"op": "durable", "args": [4], "expect": 5}"#,
            r#"{"op": "pmin", "args": [1], "expect": 4}"#,
            r#"{"op": "marks", "args": [1], "expect": {"durable": 0}}"#,
            r#"{"op": "ack", "args": [1, 1, 5, 1], "expect": {"ack_count": 1, "satisfied": true, "newly": false, "raft": 5}}"#,
            r#"{"op": "applied", "args": [1, 1], "expect": "EntryMissing"}"#,
        ] {
            let report = report(&format!("{REGISTERED}, {wrong}")).unwrap();
            assert!(report.starts_with("case step 3: expected "), "{wrong}: {report}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for unknown in [
            r#"{"op": "dance", "args": []}"#,
            r#"{"op": "append", "args": [1, 1]}"#,
            r#"{"op": "append", "args": [1, 0, 1]}"#,
            r#"{"op": "register", "args": [1, [[1], "unanimity"]]}"#,
        ] {
            assert!(report(unknown).is_err(), "{unknown}");
        }
    }
}
