//! The leader's clock: the time that is stamped on entries, and whether it can be trusted.
//!
//! Invariants
//! - Log time is never less than the last. A leader starts from its own clock or from the last log time, whichever is later.
//! - Within a term it advances by the monotonic clock alone: setting the machine's clock changes nothing before the next term.
//!
//! A leader compares the clock it started its term with, not log time itself: a cluster whose log time an earlier leader has
//! driven ahead could not keep any leader otherwise.
//!
//! Must not know: partitions, what is stamped, how clocks of other nodes are asked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;

use crate::NodeId;
use crate::limits::MAX_CLOCK_READING_AGE;

/// Time in the log: milliseconds since 1970 by the leader's clock. Never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogTime(u64);

impl LogTime {
    /// Before every entry.
    pub const ZERO: Self = Self(0);
    /// The last one: answers carry it as a signed number.
    pub const LAST: Self = Self(i64::MAX as u64);

    /// The time so many milliseconds after 1970; none beyond [`Self::LAST`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Option<Self> {
        if millis <= Self::LAST.0 { Some(Self(millis)) } else { None }
    }

    /// Milliseconds since 1970, as a partition takes them.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time this much later, at most [`Self::LAST`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis).min(Self::LAST.0))
    }
}

impl fmt::Display for LogTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ms", self.0)
    }
}

/// The clocks of a machine. Handed in, so that tests and simulations decide when time passes.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since 1970. Somebody may set it, to any value.
    fn wall(&self) -> Duration;

    /// Time since some fixed moment; never falls.
    fn monotonic(&self) -> Duration;
}

/// The clocks of this machine.
#[derive(Debug)]
pub struct MachineClock(Instant);

impl Default for MachineClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MachineClock {
    fn wall(&self) -> Duration {
        // Before 1970 is a clock that was never set.
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Stamps the entries of one term.
#[derive(Debug)]
pub struct LeaderClock {
    clock: Arc<dyn Clock>,
    /// The machine's clock when the term began.
    started_wall: LogTime,
    started: Duration,
    /// What the first entry of the term was stamped with.
    base: LogTime,
    last: LogTime,
}

impl LeaderClock {
    /// The clock of a term that begins now, behind this last log time.
    pub fn begin(clock: Arc<dyn Clock>, last: LogTime) -> Self {
        let started_wall = LogTime::ZERO.after(clock.wall());
        let started = clock.monotonic();
        let base = started_wall.max(last);
        Self { clock, started_wall, started, base, last: base }
    }

    /// The time of the next entry.
    pub fn stamp(&mut self) -> LogTime {
        let time = self.base.after(self.elapsed());
        assert!(time >= self.last, "log time never goes back: {time} after {}", self.last);
        self.last = time;
        time
    }

    /// The time that an entry would get now.
    #[must_use]
    pub fn now(&self) -> LogTime {
        self.base.after(self.elapsed()).max(self.last)
    }

    /// The last time stamped, or the one the term began with.
    #[must_use]
    pub fn last(&self) -> LogTime {
        self.last
    }

    /// How far log time is ahead of this leader's own clock: an earlier leader's was.
    #[must_use]
    pub fn ahead(&self) -> Duration {
        Duration::from_millis(self.base.0 - self.started_wall.0)
    }

    /// Whether this leader's clock is where those of the voters are.
    ///
    /// # Errors
    /// If it is further than `max_skew` from their median: the leader has to give up. Without recent readings of a majority of
    /// the voters there is no verdict.
    pub fn check_skew(&self, voters: &VoterClocks, max_skew: Duration) -> Result<(), ClockSkew> {
        let Some(median) = voters.median(self.clock.monotonic()) else { return Ok(()) };
        let own = self.started_wall.after(self.elapsed());
        let skew = Duration::from_millis(own.0.abs_diff(median.0));
        if skew > max_skew { Err(ClockSkew { own, median, skew, max_skew }) } else { Ok(()) }
    }

    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started)
    }
}

/// A leader's clock is too far from those of the voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the leader's clock says {own}, the median of the voters' {median}: {skew:?} apart, more than {max_skew:?}"
)]
pub struct ClockSkew {
    /// The leader's.
    pub own: LogTime,
    /// That of the voters.
    pub median: LogTime,
    /// How far they are apart.
    pub skew: Duration,
    /// How far they may be.
    pub max_skew: Duration,
}

/// What the clocks of the voters said when they were last asked.
#[derive(Debug)]
pub struct VoterClocks {
    voters: BTreeMap<NodeId, Option<Reading>>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: LogTime,
    /// When it was read, by the monotonic clock of this node.
    read: Duration,
}

impl VoterClocks {
    /// Clocks of these voters, the leader among them; none has been read yet.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> Self {
        Self { voters: voters.into_iter().map(|voter| (voter, None)).collect() }
    }

    /// The membership is another one; readings of those who stay are kept.
    pub fn set_voters(&mut self, voters: impl IntoIterator<Item = NodeId>) {
        self.voters =
            voters.into_iter().map(|voter| (voter, self.voters.get(&voter).copied().flatten())).collect();
    }

    /// A voter's clock said `wall` when this node's monotonic clock said `read`. A stranger's does not count.
    pub fn read(&mut self, voter: NodeId, wall: Duration, read: Duration) {
        if let Some(reading) = self.voters.get_mut(&voter) {
            *reading = Some(Reading { wall: LogTime::ZERO.after(wall), read });
        }
    }

    /// Whether a voter's clock was read not long ago, and is no further than this from a time.
    pub fn is_near(&self, voter: NodeId, time: LogTime, now: Duration, max_skew: Duration) -> bool {
        let reading = self.voters.get(&voter).copied().flatten();
        reading.is_some_and(|reading| {
            let age = now.saturating_sub(reading.read);
            let skew = reading.wall.after(age).0.abs_diff(time.0);
            age <= MAX_CLOCK_READING_AGE && u128::from(skew) <= max_skew.as_millis()
        })
    }

    /// The median of what the clocks say now, if a majority of them was read not long ago.
    fn median(&self, now: Duration) -> Option<LogTime> {
        let mut times: Vec<LogTime> = (self.voters.values().flatten())
            .map(|reading| (reading.wall, now.saturating_sub(reading.read)))
            .filter(|(_, age)| *age <= MAX_CLOCK_READING_AGE)
            .map(|(wall, age)| wall.after(age))
            .collect();
        if times.is_empty() || times.len() * 2 <= self.voters.len() {
            return None;
        }
        times.sort_unstable();
        let middle = times.len() / 2;
        let lower = if times.len().is_multiple_of(2) { times[middle - 1] } else { times[middle] };
        Some(LogTime(lower.0.midpoint(times[middle].0)))
    }
}

#[cfg(test)]
pub(crate) mod manual {
    //! A clock that stands still until a test moves it.

    use std::sync::{Mutex, PoisonError};

    use super::*;

    #[derive(Debug, Default)]
    pub(crate) struct ManualClock(Mutex<(Duration, Duration)>);

    impl ManualClock {
        /// Time passes: both clocks go on.
        pub(crate) fn advance(&self, by: Duration) {
            let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            clocks.0 += by;
            clocks.1 += by;
        }

        /// Somebody sets the machine's clock.
        pub(crate) fn set_wall(&self, wall: Duration) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = wall;
        }
    }

    impl Clock for ManualClock {
        fn wall(&self) -> Duration {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).0
        }

        fn monotonic(&self) -> Duration {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).1
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::manual::ManualClock;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MAX_SKEW: Duration = crate::limits::MAX_CLOCK_SKEW;

    fn nodes(count: u64) -> impl Iterator<Item = NodeId> {
        (1..=count).map(NodeId::new)
    }

    fn millis(time: u64) -> LogTime {
        LogTime::from_millis(time).unwrap()
    }

    #[test]
    fn setting_the_clock_changes_nothing_within_a_term() {
        let clock = Arc::new(ManualClock::default());
        clock.set_wall(100 * SECOND);
        let mut leader = LeaderClock::begin(clock.clone(), LogTime::ZERO);
        assert_eq!(leader.stamp(), millis(100_000));
        clock.set_wall(3 * SECOND);
        clock.advance(2 * SECOND);
        assert_eq!(leader.stamp(), millis(102_000));
        clock.set_wall(900 * SECOND);
        assert_eq!(leader.stamp(), millis(102_000));
        assert_eq!(LeaderClock::begin(clock, leader.last()).stamp(), millis(900_000));
    }

    #[test]
    fn a_leader_whose_clock_is_behind_goes_on_from_the_last_log_time() {
        let clock = Arc::new(ManualClock::default());
        clock.set_wall(100 * SECOND);
        let mut leader = LeaderClock::begin(clock.clone(), millis(500_000));
        assert_eq!(leader.stamp(), millis(500_000));
        clock.advance(SECOND);
        assert_eq!(leader.stamp(), millis(501_000));
        assert_eq!(leader.ahead(), 400 * SECOND);
    }

    #[test]
    fn the_last_time_is_the_last() {
        let clock = Arc::new(ManualClock::default());
        clock.set_wall(Duration::MAX);
        let mut leader = LeaderClock::begin(clock, LogTime::ZERO);
        assert_eq!(leader.stamp(), LogTime::LAST);
        assert_eq!(LogTime::from_millis(LogTime::LAST.as_millis() + 1), None);
    }

    #[test]
    fn a_leader_ten_seconds_off_stays_and_one_millisecond_more_is_too_much() {
        for (voter_ahead, ok) in [(10_000, true), (10_001, false)] {
            for sign in [1, -1] {
                let clock = Arc::new(ManualClock::default());
                clock.set_wall(100 * SECOND);
                let leader = LeaderClock::begin(clock.clone(), LogTime::ZERO);
                let mut voters = VoterClocks::new(nodes(3));
                let other =
                    Duration::from_millis(100_000_u64.checked_add_signed(sign * voter_ahead).unwrap());
                voters.read(NodeId::new(1), clock.wall(), clock.monotonic());
                voters.read(NodeId::new(2), other, clock.monotonic());
                voters.read(NodeId::new(3), other, clock.monotonic());
                assert_eq!(leader.check_skew(&voters, MAX_SKEW).is_ok(), ok, "{voter_ahead} {sign}");
            }
        }
    }

    #[test]
    fn one_wrong_clock_of_three_is_not_the_leaders_fault() {
        let clock = Arc::new(ManualClock::default());
        let leader = LeaderClock::begin(clock, LogTime::ZERO);
        let mut voters = VoterClocks::new(nodes(3));
        voters.read(NodeId::new(1), Duration::ZERO, Duration::ZERO);
        voters.read(NodeId::new(2), 1_000_000 * SECOND, Duration::ZERO);
        voters.read(NodeId::new(3), SECOND, Duration::ZERO);
        voters.read(NodeId::new(9), 1_000_000 * SECOND, Duration::ZERO);
        assert_eq!(leader.check_skew(&voters, MAX_SKEW), Ok(()));
    }

    #[test]
    fn log_time_that_an_earlier_leader_drove_ahead_is_not_skew() {
        let clock = Arc::new(ManualClock::default());
        let leader = LeaderClock::begin(clock.clone(), millis(3_600_000));
        let mut voters = VoterClocks::new(nodes(1));
        voters.read(NodeId::new(1), clock.wall(), clock.monotonic());
        assert_eq!(leader.check_skew(&voters, MAX_SKEW), Ok(()));
    }

    #[test]
    fn there_is_no_verdict_without_recent_readings_of_a_majority() {
        let clock = Arc::new(ManualClock::default());
        clock.set_wall(100 * SECOND);
        let leader = LeaderClock::begin(clock.clone(), LogTime::ZERO);
        let mut voters = VoterClocks::new(nodes(4));
        let wrong = 1_000_000 * SECOND;
        voters.read(NodeId::new(2), wrong, Duration::ZERO);
        voters.read(NodeId::new(3), wrong, Duration::ZERO);
        assert_eq!(leader.check_skew(&voters, MAX_SKEW), Ok(()));
        voters.read(NodeId::new(4), wrong, Duration::ZERO);
        assert!(leader.check_skew(&voters, MAX_SKEW).is_err());
        clock.advance(MAX_CLOCK_READING_AGE + SECOND);
        assert_eq!(leader.check_skew(&voters, MAX_SKEW), Ok(()));
        voters.set_voters([]);
        assert_eq!(leader.check_skew(&voters, MAX_SKEW), Ok(()));
    }

    proptest! {
        /// Terms follow each other on machines whose clocks say anything.
        #[test]
        fn log_time_never_goes_back(steps in proptest::collection::vec((any::<u32>(), 0..10_000_u64, any::<bool>()), 1..50)) {
            let clock = Arc::new(ManualClock::default());
            let mut leader = LeaderClock::begin(clock.clone(), LogTime::ZERO);
            let mut last = LogTime::ZERO;
            for (wall, passes, new_term) in steps {
                clock.set_wall(Duration::from_millis(u64::from(wall)));
                clock.advance(Duration::from_millis(passes));
                if new_term {
                    leader = LeaderClock::begin(clock.clone(), last);
                }
                let time = leader.stamp();
                prop_assert!(time >= last);
                last = time;
            }
        }
    }
}
