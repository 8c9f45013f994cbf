//! The vectors about leases: each case is one domain and the steps it is taken through, or functions with arguments and results.

mod compare;
mod domain;
mod pure;
mod steps;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::leases::compare::Bindings;
use crate::leases::steps::Subject;
use crate::report::{Failure, Report};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "the file says which suite it is")]
    suite: Option<String>,
    #[expect(dead_code, reason = "there is one format so far")]
    format: Option<u64>,
    #[expect(dead_code, reason = "for people")]
    note: Option<String>,
    #[serde(default)]
    defaults: Map<String, Value>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    kind: String,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    rules: Option<Value>,
    steps: Vec<Map<String, Value>>,
}

pub(crate) fn run(text: &str) -> Result<Report> {
    let file: File = serde_json::from_str(text)?;
    let mut report = Report::default();
    for case in &file.cases {
        let mut at = 0;
        let outcome = match case.kind.as_str() {
            "engine" => run_steps(case, &file.defaults, &mut at),
            "pure" => run_functions(case, &mut at),
            other => bail!("case {}: there is no kind `{other}`", case.id),
        };
        match outcome {
            Ok(outcome) => report.add(&case.id, outcome),
            Err(error) if error.is::<UnknownOperation>() => {
                return Err(error.context(format!("case {} step {at}", case.id)));
            }
            // Something is wrong with this case alone.
            Err(error) => {
                let expected = "a step that can be done".to_owned();
                report.add(&case.id, Err(Failure { step: at, expected, got: format!("{error:#}") }));
            }
        }
    }
    Ok(report)
}

/// An operation that nobody here knows: the file is of another time, and says nothing about this program.
#[derive(Debug, thiserror::Error)]
#[error("there is no `{0}`")]
struct UnknownOperation(String);

fn run_steps(case: &Case, defaults: &Map<String, Value>, at: &mut usize) -> Result<Result<(), Failure>> {
    let mut config = defaults.clone();
    config.extend(case.config.clone().unwrap_or_default());
    let mut subject = Subject::new(&config, case.rules.as_ref())?;
    let mut bindings = Bindings::default();
    for step in &case.steps {
        *at += 1;
        let arguments = bindings.resolve(step)?;
        let got = subject.step(&arguments)?;
        // An assertion says by itself what it expects.
        let holds = Value::Bool(true);
        let asserts = step.get("op").is_some_and(|op| op == "assert_gt");
        let expected = if asserts { Some(&holds) } else { step.get("expect") };
        if let Some(failure) = judge(*at, expected, &got, &mut bindings) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

fn run_functions(case: &Case, at: &mut usize) -> Result<Result<(), Failure>> {
    for step in &case.steps {
        *at += 1;
        let got = pure::call(step)?;
        if let Some(failure) = judge(*at, step.get("expect"), &got, &mut Bindings::default()) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

fn judge(step: usize, expected: Option<&Value>, got: &Value, bindings: &mut Bindings) -> Option<Failure> {
    let expected = expected?;
    if bindings.matches(expected, got) {
        return None;
    }
    Some(Failure { step, expected: bindings.show(expected), got: got.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(steps: &str) -> Result<String> {
        let case = format!(r#"{{"cases": [{{"id": "case", "kind": "engine", "steps": [{steps}]}}]}}"#);
        Ok(run(&case)?.to_string())
    }

    const LEASED: &str = r#"{"op": "open", "t": 0, "count": 2},
        {"op": "lease", "t": 0, "worker": "A", "ttl": 10, "max": 1, "expect": {"grants": [{"slot": 1, "token": "?a"}]}}"#;

    #[test]
    fn what_is_right_passes() {
        let steps = format!(
            r#"{LEASED}, {{"op": "commit", "slot": 1, "token": "$a", "result": {{"z": 1, "a": [2]}}, "expect": {{"status": "applied"}}}},
            {{"op": "restart"}}, {{"op": "read", "expect": {{"entries": [{{"slot": 1, "result": {{"a": [2], "z": 1}}}}]}}}},
            {{"op": "commit", "slot": 2, "token": "$a", "result": 1, "expect": {{"error": "UNKNOWN_TOKEN"}}}}"#
        );
        assert_eq!(report(&steps).unwrap(), "1 passed, 0 failed\n");
    }

    #[test]
    fn every_kind_of_wrong_expectation_is_noticed() {
        for wrong in [
            r#"{"op": "commit", "slot": 1, "token": "$a", "result": 1, "expect": {"status": "staged"}}"#,
            r#"{"op": "commit", "slot": 1, "token": "$a", "result": 1, "expect": {"error": "STALE_TOKEN"}}"#,
            r#"{"op": "commit", "slot": 1, "token": 99, "result": 1, "expect": {"status": "applied"}}"#,
            r#"{"op": "tick", "t": 11, "expect": {"expired": []}}"#,
            r#"{"op": "status", "expect": {"leased": [1, 2]}}"#,
            r#"{"op": "metrics", "expect": {"efficiency": 0.5}}"#,
            r#"{"op": "get", "entity": "t", "id": "x", "expect": {"row": {}}}"#,
            r#"{"op": "assert_gt", "of": ["$a", "$a"]}"#,
            r#"{"op": "state", "expect": {"hash": "?h", "state": {"t": {}}}}"#,
        ] {
            let report = report(&format!("{LEASED}, {wrong}")).unwrap();
            assert!(report.starts_with("case step 3: expected "), "{wrong}: {report}");
        }
    }

    #[test]
    fn an_unknown_operation_is_an_error_of_the_file() {
        assert!(report(r#"{"op": "dance"}"#).is_err());
        assert!(
            run(r#"{"cases": [{"id": "case", "kind": "pure", "steps": [{"fn": "dance", "args": {}}]}]}"#)
                .is_err()
        );
    }

    #[test]
    fn a_step_that_cannot_be_done_fails_its_case_alone() {
        for wrong in [
            r#"{"op": "commit", "slot": "first", "token": 1}"#,
            r#"{"op": "renew", "slot": 1, "token": "$unbound", "ttl": 1}"#,
        ] {
            let report = report(&format!("{LEASED}, {wrong}")).unwrap();
            assert!(
                report.starts_with("case step 3: expected a step that can be done, got "),
                "{wrong}: {report}"
            );
        }
    }
}
