//! The bars that the design sets, and whether a figure reaches them.
//!
//! The median is judged. A bar that is missed in a noisy minute is no failure of the program, so that a verdict is only
//! ever text.
//!
//! Must not know: how anything is measured.

use std::fmt;

use serde::Serialize;

use crate::samples::Spread;

/// Which side of the bar is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Ratio,
    Percent,
    GigabytesPerSecond,
    Microseconds,
    Bytes,
    /// A plain count.
    Count,
}

/// A figure and what the design asks of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bar {
    pub(crate) subject: String,
    pub(crate) unit: Unit,
    pub(crate) limit: Limit,
    pub(crate) measured: Spread,
    pub(crate) verdict: Verdict,
}

impl Bar {
    pub(crate) fn new(subject: impl Into<String>, unit: Unit, limit: Limit, measured: Spread) -> Self {
        Self { subject: subject.into(), unit, limit, measured, verdict: Verdict::of(measured.median, limit) }
    }
}

/// Whether a bar is reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    /// By this share of the limit.
    Missed {
        by_percent: f64,
    },
}

impl Verdict {
    fn of(measured: f64, limit: Limit) -> Self {
        let (missed, limit) = match limit {
            Limit::AtMost(limit) => (measured - limit, limit),
            Limit::AtLeast(limit) => (limit - measured, limit),
        };
        // Written so that a figure that is not a number misses.
        if missed <= 0.0 { Verdict::Met } else { Verdict::Missed { by_percent: 100.0 * missed / limit } }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Met => f.write_str("met"),
            // Of a limit of 0 there is no share.
            Verdict::Missed { by_percent } if by_percent.is_infinite() => f.write_str("MISSED"),
            Verdict::Missed { by_percent } => write!(f, "MISSED by {by_percent:.0} %"),
        }
    }
}

impl Unit {
    /// A value with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Ratio => format!("{value:.2} x"),
            Unit::Percent => format!("{value:.1} %"),
            Unit::GigabytesPerSecond => format!("{value:.2} GB/s"),
            Unit::Microseconds => format!("{value:.3} us"),
            Unit::Bytes => format!("{value:.1} bytes"),
            Unit::Count => format!("{value:.4}"),
        }
    }

    /// A limit with its unit and its direction.
    pub(crate) fn show_limit(self, limit: Limit) -> String {
        match limit {
            Limit::AtMost(value) => format!("at most {}", self.show(value)),
            Limit::AtLeast(value) => format!("at least {}", self.show(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_on_the_bar_meets_it_from_either_side() {
        assert_eq!(Verdict::of(1.4, Limit::AtMost(1.4)), Verdict::Met);
        assert_eq!(Verdict::of(5.0, Limit::AtLeast(5.0)), Verdict::Met);
    }

    #[test]
    fn a_missed_bar_says_by_how_much_of_itself() {
        assert_eq!(Verdict::of(3.0, Limit::AtMost(2.0)).to_string(), "MISSED by 50 %");
        assert_eq!(Verdict::of(4.5, Limit::AtLeast(9.0)).to_string(), "MISSED by 50 %");
        assert_eq!(Verdict::of(8.0, Limit::AtMost(9.0)).to_string(), "met");
    }

    #[test]
    fn what_could_not_be_measured_is_never_met() {
        assert_ne!(Verdict::of(f64::NAN, Limit::AtMost(1.0)), Verdict::Met);
        assert_ne!(Verdict::of(f64::NAN, Limit::AtLeast(1.0)), Verdict::Met);
    }

    #[test]
    fn a_bar_is_judged_by_the_median_and_not_by_the_worst_round() {
        let measured = Spread::of([1.1, 1.2, 9.0]);
        assert_eq!(Bar::new("p50", Unit::Ratio, Limit::AtMost(1.4), measured).verdict, Verdict::Met);
    }
}
