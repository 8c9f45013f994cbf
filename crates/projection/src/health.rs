//! Whether a domain does well, for people: nothing replicated depends on it.
//!
//! Must not know: slots, how alerts are shown.

use crate::counters::{Counters, share};
use crate::domain::Status;

/// What health is judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vitals {
    /// Slots committed.
    pub committed: u64,
    /// Leases expired.
    pub expired: u64,
    /// Mean time that commits were staged, in milliseconds.
    pub mean_wait_ms: f64,
    /// Leased now.
    pub active: u64,
    /// Slots filled.
    pub fills: u64,
    /// Leases that expired together.
    pub expired_at_once: u64,
    /// Share of recoveries that failed.
    pub recovery_failures: f64,
    /// Requests refused because of an old token.
    pub fenced: u64,
    /// Leases granted.
    pub granted: u64,
    /// Age of the oldest unresolved slot, in milliseconds.
    pub oldest_ms: u64,
    /// Whether the domain waits for an operator.
    pub is_halted: bool,
    /// Whether an audit found a difference.
    pub audit_differs: bool,
}

/// How a domain does.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Committed of what was committed or expired, rounded to six places.
    pub efficiency: f64,
    /// More than 0.95 efficient, with less than a second of waiting.
    pub performs_well: bool,
    /// What somebody should look at.
    pub alerts: Vec<Alert>,
}

/// What somebody should look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alert {
    /// More than 5 % of leases expire.
    ExpiredRate,
    /// Commits wait for more than 5 s.
    WaitTime,
    /// More than 1000 leases at a time.
    ActiveLeases,
    /// More than 100 fills.
    SequenceGaps,
    /// More than 10 leases expired at once.
    Cascade,
    /// More than 1 % of recoveries failed.
    RecoveryFailures,
    /// More than 1 % of grants ended with a fenced request.
    Fenced,
    /// A slot is unresolved for more than 10 minutes.
    OldestSlot,
    /// The domain waits for an operator.
    Halted,
    /// Effects are not what the rules say.
    AuditMismatch,
}

impl Alert {
    /// Its name.
    pub const fn code(self) -> &'static str {
        match self {
            Self::ExpiredRate => "EXPIRED_RATE",
            Self::WaitTime => "WAIT_TIME",
            Self::ActiveLeases => "ACTIVE_LEASES",
            Self::SequenceGaps => "SEQUENCE_GAPS",
            Self::Cascade => "CASCADE",
            Self::RecoveryFailures => "RECOVERY_FAILURES",
            Self::Fenced => "FENCED",
            Self::OldestSlot => "OLDEST_SLOT",
            Self::Halted => "HALTED",
            Self::AuditMismatch => "AUDIT_MISMATCH",
        }
    }
}

impl Vitals {
    /// Those of a domain, as far as it knows them itself.
    pub fn of(counters: &Counters, status: &Status) -> Self {
        Self {
            committed: counters.committed,
            expired: counters.expired,
            mean_wait_ms: counters.mean_wait_ms(),
            active: counters.active,
            fills: counters.filled,
            expired_at_once: counters.expired_at_once,
            recovery_failures: 0.0,
            fenced: counters.fenced,
            granted: counters.granted,
            oldest_ms: status.lag_ms(),
            is_halted: status.is_halted,
            audit_differs: false,
        }
    }

    /// What follows from them.
    pub fn health(&self) -> Health {
        let ended = self.committed + self.expired;
        let efficiency = share(self.committed, ended).unwrap_or(1.0);
        // Shares are compared as integers: 5 of 100 is exactly 5 %.
        let more_than = |part: u64, percent: u64, whole: u64| {
            u128::from(part) * 100 > u128::from(whole) * u128::from(percent)
        };
        let checks = [
            (Alert::ExpiredRate, more_than(self.expired, 5, ended)),
            (Alert::WaitTime, self.mean_wait_ms > 5000.0),
            (Alert::ActiveLeases, self.active > 1000),
            (Alert::SequenceGaps, self.fills > 100),
            (Alert::Cascade, self.expired_at_once > 10),
            (Alert::RecoveryFailures, self.recovery_failures > 0.01),
            (Alert::Fenced, more_than(self.fenced, 1, self.granted)),
            (Alert::OldestSlot, self.oldest_ms > 600_000),
            (Alert::Halted, self.is_halted),
            (Alert::AuditMismatch, self.audit_differs),
        ];
        Health {
            efficiency: (efficiency * 1e6).round() / 1e6,
            performs_well: (ended == 0 || more_than(self.committed, 95, ended)) && self.mean_wait_ms < 1000.0,
            alerts: checks.into_iter().filter(|(_, raised)| *raised).map(|(alert, _)| alert).collect(),
        }
    }
}

/// The position up to which every domain has seen everything: below the lowest that any has not resolved, or the end of the log.
pub fn global_watermark(log_end: u64, unresolved: impl IntoIterator<Item = u64>) -> u64 {
    unresolved.into_iter().min().map_or(log_end, |lowest| lowest.saturating_sub(1).min(log_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alert_begins_right_above_its_bound() {
        let quiet = Vitals { committed: 1000, granted: 1000, ..Vitals::default() };
        assert_eq!(quiet.health().alerts, []);
        for (vitals, alert) in [
            (Vitals { expired: 53, ..quiet }, Alert::ExpiredRate),
            (Vitals { mean_wait_ms: 5000.1, ..quiet }, Alert::WaitTime),
            (Vitals { active: 1001, ..quiet }, Alert::ActiveLeases),
            (Vitals { fills: 101, ..quiet }, Alert::SequenceGaps),
            (Vitals { expired_at_once: 11, ..quiet }, Alert::Cascade),
            (Vitals { recovery_failures: 0.011, ..quiet }, Alert::RecoveryFailures),
            (Vitals { fenced: 11, ..quiet }, Alert::Fenced),
            (Vitals { oldest_ms: 600_001, ..quiet }, Alert::OldestSlot),
            (Vitals { is_halted: true, ..quiet }, Alert::Halted),
            (Vitals { audit_differs: true, ..quiet }, Alert::AuditMismatch),
        ] {
            assert_eq!(vitals.health().alerts, [alert]);
        }
        let on_the_bounds = Vitals {
            committed: 95,
            expired: 5,
            granted: 100,
            fenced: 1,
            mean_wait_ms: 5000.0,
            active: 1000,
            fills: 100,
            expired_at_once: 10,
            recovery_failures: 0.01,
            oldest_ms: 600_000,
            ..Vitals::default()
        };
        assert_eq!(on_the_bounds.health().alerts, []);
    }

    #[test]
    fn the_global_watermark_is_below_what_anybody_has_not_resolved() {
        assert_eq!(global_watermark(40, []), 40);
        assert_eq!(global_watermark(40, [30, 35]), 29);
        assert_eq!(global_watermark(0, []), 0);
    }
}
