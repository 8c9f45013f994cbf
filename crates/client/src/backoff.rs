//! How long to wait before the next attempt: longer each time, never in step with others, and never shorter than the server asks for.
//!
//! A deadline bounds attempts, not what goes well between them: it counts from the first attempt after something was reached.

use std::time::Duration;

use gapless_api::Problem;
use tokio::time::Instant;

/// How retries are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The first delay, about.
    pub first: Duration,
    /// The longest delay, unless the server asks for a longer one.
    pub longest: Duration,
    /// How long all attempts together may take. For what goes on for long, a subscription or a stream of writes: how long it may be
    /// broken; a stream that is open and silent is not.
    pub deadline: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(20),
            longest: Duration::from_secs(2),
            deadline: Duration::from_secs(30),
        }
    }
}

/// The attempts at one call, or at opening one stream again and again.
#[derive(Debug)]
pub(crate) struct Attempts {
    retry: Retry,
    /// None until an attempt is made.
    until: Option<Instant>,
    /// When a stream was opened that has not broken off yet.
    opened: Option<Instant>,
    made: u32,
    random: fastrand::Rng,
}

impl Attempts {
    pub(crate) fn new(retry: Retry) -> Self {
        Self { retry, until: None, opened: None, made: 0, random: fastrand::Rng::new() }
    }

    /// How long this attempt may take. The first one begins now.
    pub(crate) fn left(&mut self) -> Duration {
        let now = Instant::now();
        self.until.get_or_insert_with(|| now + self.retry.deadline).saturating_duration_since(now)
    }

    /// What was reached counts: whatever breaks next starts anew.
    pub(crate) fn progressed(&mut self) {
        self.until = None;
        self.made = 0;
    }

    /// A stream is open. That alone is not progress, for a server may open every stream and break it off at once; having stayed open
    /// for longer than any delay is.
    pub(crate) fn opened(&mut self) {
        self.opened = Some(Instant::now());
    }

    /// Waits until the next attempt.
    ///
    /// # Errors
    /// With the problem itself, if another attempt does not help or comes too late.
    pub(crate) async fn wait(&mut self, problem: Problem) -> Result<(), Problem> {
        if !problem.can_be_retried() {
            return Err(problem);
        }
        if self.opened.take().is_some_and(|opened| opened.elapsed() > self.retry.longest) {
            self.progressed();
        }
        let delay = self.delay(&problem);
        if delay >= self.left() {
            return Err(problem);
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }

    fn delay(&mut self, problem: &Problem) -> Duration {
        // Who is told where to go has nothing to wait for.
        if problem.leader().is_some() && self.made == 0 {
            self.made = 1;
            return Duration::ZERO;
        }
        let most = self.retry.first.saturating_mul(1 << self.made.min(16)).min(self.retry.longest);
        self.made += 1;
        let share = self.random.f64().mul_add(0.5, 0.5);
        most.mul_f64(share).max(problem.retry_after.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use gapless_api::ProblemKind;

    use super::*;

    fn unavailable() -> Problem {
        Problem::new(ProblemKind::Unavailable, "UNAVAILABLE", "away")
    }

    #[test]
    fn delays_grow_up_to_the_longest_and_are_never_in_step() {
        let retry = Retry { deadline: Duration::from_secs(60), ..Retry::default() };
        let mut attempts = Attempts { random: fastrand::Rng::with_seed(1), ..Attempts::new(retry) };
        for made in 0..12 {
            let most = Duration::from_millis(20 << made).min(Duration::from_secs(2));
            let delay = attempts.delay(&unavailable());
            assert!(most / 2 <= delay && delay <= most, "{made}: {delay:?}");
        }
    }

    #[test]
    fn the_server_s_delay_counts_and_a_leader_is_asked_at_once() {
        let mut attempts = Attempts::new(Retry::default());
        let asked = Duration::from_secs(5);
        assert_eq!(attempts.delay(&unavailable().after(asked)), asked);
        let mut attempts = Attempts::new(Retry::default());
        assert_eq!(attempts.delay(&unavailable().with("leader", "node:1").after(asked)), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_on_an_open_stream_uses_up_no_time() {
        let mut attempts = Attempts::new(Retry::default());
        assert_eq!(attempts.left(), Retry::default().deadline);
        attempts.opened();
        tokio::time::advance(Duration::from_secs(3600)).await;
        attempts.wait(unavailable()).await.unwrap();
        // From then on it counts, also if streams open and break off at once.
        let since = Instant::now();
        let ended = loop {
            attempts.opened();
            if let Err(problem) = attempts.wait(unavailable()).await {
                break problem;
            }
        };
        assert_eq!(ended, unavailable());
        assert!(since.elapsed() <= Retry::default().deadline, "{:?}", since.elapsed());
        assert!(since.elapsed() >= Retry::default().deadline - Retry::default().longest * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_arrives_begins_the_deadline_anew() {
        let mut attempts = Attempts::new(Retry::default());
        for _ in 0..5 {
            attempts.wait(unavailable()).await.unwrap();
            attempts.opened();
            tokio::time::advance(Duration::from_secs(1)).await;
            attempts.progressed();
            assert_eq!(attempts.left(), Retry::default().deadline);
            tokio::time::advance(Duration::from_secs(29)).await;
        }
        assert_eq!(attempts.left(), Duration::from_secs(1));
    }

    #[tokio::test]
    async fn what_retrying_does_not_mend_or_comes_too_late_is_told_at_once() {
        let mut attempts = Attempts::new(Retry { deadline: Duration::ZERO, ..Retry::default() });
        assert_eq!(attempts.wait(unavailable()).await, Err(unavailable()));
        let invalid = Problem::violation("payload", "too long");
        let mut attempts = Attempts::new(Retry::default());
        assert_eq!(attempts.wait(invalid.clone()).await, Err(invalid));
        let asked = unavailable().after(Duration::from_secs(3600));
        assert_eq!(attempts.wait(asked.clone()).await, Err(asked), "later than the deadline");
    }
}
