//! What the steps of a run came to: a table, the remarks, one closing line.

use std::time::Duration;

use anyhow::Result;

/// How one step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Nothing wrong was found, but something could not be looked at. Never silent.
    Warned(Vec<String>),
    Failed(Vec<String>),
    /// Failed because the code does not build: steps that run it have nothing to run.
    Unbuilt,
    /// Left out because of an earlier failure.
    NotRun,
}

impl Outcome {
    pub(crate) fn of(succeeded: bool) -> Self {
        if succeeded { Self::Passed } else { Self::Failed(Vec::new()) }
    }

    /// The outcome of a step that may also have ended with an error.
    pub(crate) fn of_step(result: Result<Self>) -> Self {
        result.unwrap_or_else(|error| Self::Failed(vec![format!("{error:#}")]))
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Warned(_) => "warning",
            Self::Failed(_) | Self::Unbuilt => "FAILED",
            Self::NotRun => "not run",
        }
    }

    fn remarks(&self) -> &[String] {
        match self {
            Self::Warned(remarks) | Self::Failed(remarks) => remarks,
            Self::Passed | Self::Unbuilt | Self::NotRun => &[],
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) step: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
}

/// All rows, in the order of the steps.
#[derive(Debug, Default)]
pub(crate) struct Summary(pub(crate) Vec<Row>);

impl Summary {
    pub(crate) fn succeeded(&self) -> bool {
        self.0.iter().all(|row| matches!(row.outcome, Outcome::Passed | Outcome::Warned(_)))
    }

    /// Whether a step found that the code does not build.
    pub(crate) fn unbuilt(&self) -> bool {
        self.0.iter().any(|row| row.outcome == Outcome::Unbuilt)
    }

    pub(crate) fn print(&self) {
        println!("\n{:<15}{:<10}{:>8}", "step", "result", "seconds");
        for Row { step, outcome, took } in &self.0 {
            println!("{step:<15}{:<10}{:>8.1}", outcome.word(), took.as_secs_f64());
        }
        println!();
        for Row { step, outcome, .. } in &self.0 {
            for remark in outcome.remarks() {
                println!("{step}: {}: {remark}", outcome.word());
            }
        }
        println!("{}", self.closing_line());
    }

    fn closing_line(&self) -> String {
        let steps = self.0.len();
        let named = |wanted: fn(&Outcome) -> bool| {
            self.0.iter().filter(|row| wanted(&row.outcome)).map(|row| row.step).collect::<Vec<_>>()
        };
        let failed = named(|outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Unbuilt));
        let not_run = named(|outcome| matches!(outcome, Outcome::NotRun));
        let warned = named(|outcome| matches!(outcome, Outcome::Warned(_)));

        let mut line = if self.succeeded() {
            format!("xtask test: all {steps} steps passed")
        } else {
            format!("xtask test: {} of {steps} steps failed: {}", failed.len(), failed.join(", "))
        };
        if !not_run.is_empty() {
            line += &format!("; not run: {}", not_run.join(", "));
        }
        if !warned.is_empty() {
            line += &format!("; with a warning: {}", warned.join(", "));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(rows: impl IntoIterator<Item = (&'static str, Outcome)>) -> Summary {
        let row = |(step, outcome)| Row { step, outcome, took: Duration::ZERO };
        Summary(rows.into_iter().map(row).collect())
    }

    #[test]
    fn a_clean_run_says_that_all_steps_passed() {
        let summary = summary([("format", Outcome::Passed), ("lint", Outcome::Passed)]);
        assert!(summary.succeeded());
        assert_eq!(summary.closing_line(), "xtask test: all 2 steps passed");
    }

    #[test]
    fn a_warning_passes_and_is_named() {
        let summary =
            summary([("format", Outcome::Passed), ("deny", Outcome::Warned(vec!["no network".into()]))]);
        assert!(summary.succeeded());
        assert_eq!(summary.closing_line(), "xtask test: all 2 steps passed; with a warning: deny");
    }

    #[test]
    fn failures_are_counted_and_named_with_what_they_prevented() {
        let summary =
            summary([("lint", Outcome::of(false)), ("test", Outcome::Unbuilt), ("vectors", Outcome::NotRun)]);
        assert!(!summary.succeeded());
        assert!(summary.unbuilt());
        assert_eq!(summary.closing_line(), "xtask test: 2 of 3 steps failed: lint, test; not run: vectors");
    }
}
