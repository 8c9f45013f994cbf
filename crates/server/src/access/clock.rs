//! The clock that credentials expire by: the machine's, or one that is told what time it is.
//!
//! Invariants
//! - A machine that does not know the time believes no credential that ends.
//! - Whoever waits for a moment notices within 30 s that the machine's clock was set.
//! - A credential is over as soon as what it was believed by is gone, whatever time it is.
//!
//! Must not know: what expires.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// How long the machine's clock is not looked at while somebody waits for it.
const LOOK: Duration = Duration::from_secs(30);

/// A clock. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Whatever this says.
    Machine(fn() -> SystemTime),
    /// Seconds since 1970.
    Told(watch::Receiver<u64>),
}

impl Default for Clock {
    /// The machine's.
    fn default() -> Self {
        Self(Source::Machine(SystemTime::now))
    }
}

impl Clock {
    /// One that is told: seconds since 1970.
    pub fn told_by(seconds: watch::Receiver<u64>) -> Self {
        Self(Source::Told(seconds))
    }

    /// That of a machine that was never told the time: it stands a second before 1970.
    #[cfg(test)]
    pub(super) fn unset() -> Self {
        Self(Source::Machine(|| UNIX_EPOCH - Duration::from_secs(1)))
    }

    /// Seconds since 1970. Before that, it is as late as can be, so that everything that ends has ended.
    pub(crate) fn now(&self) -> u64 {
        match &self.0 {
            Source::Machine(now) => {
                now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
            }
            Source::Told(told) => *told.borrow(),
        }
    }

    async fn reach(&self, seconds: u64) {
        if let Source::Told(mut told) = self.0.clone() {
            // Nobody tells any more: it stays as it is.
            if told.wait_for(|now| *now >= seconds).await.is_err() {
                std::future::pending::<()>().await;
            }
            return;
        }
        loop {
            let left = Duration::from_secs(seconds.saturating_sub(self.now()));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK)).await;
        }
    }
}

/// What a credential was believed by, which may be taken away: a key, a line of a file.
pub(crate) trait Standing: fmt::Debug + Send + Sync {
    /// Whether it is still there.
    fn stands(&self) -> bool;
    /// Told whenever that may have changed.
    fn renewed(&self) -> watch::Receiver<()>;
}

/// When a credential is void: at a time, or when what it was believed by is gone.
#[derive(Clone, Debug)]
pub(crate) struct Expiry {
    at: u64,
    clock: Clock,
    standing: Option<Arc<dyn Standing>>,
}

impl Expiry {
    /// At this second since 1970, by this clock.
    pub(crate) fn new(at: u64, clock: &Clock) -> Self {
        Self { at, clock: clock.clone(), standing: None }
    }

    /// The same, or when this is gone.
    pub(crate) fn while_stands(self, standing: Arc<dyn Standing>) -> Self {
        Self { standing: Some(standing), ..self }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.clock.now() >= self.at || self.standing.as_ref().is_some_and(|standing| !standing.stands())
    }

    /// Ready when it is over.
    pub(crate) async fn over(self) {
        tokio::select! {
            () = self.clock.reach(self.at) => {}
            () = gone(self.standing) => {}
        }
    }
}

async fn gone(standing: Option<Arc<dyn Standing>>) {
    let Some(standing) = standing else { return std::future::pending().await };
    let mut renewed = standing.renewed();
    while standing.stands() {
        // Nobody renews it any more: it stays as it is.
        if renewed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_ends_is_over_when_the_clock_says_so() {
        let (tell, told) = watch::channel(100);
        let expiry = Expiry::new(102, &Clock::told_by(told));
        let waits = tokio::spawn(expiry.clone().over());
        tell.send_replace(101);
        assert!(!expiry.is_over() && !waits.is_finished());
        tell.send_replace(102);
        waits.await.unwrap();
        assert!(expiry.is_over());
    }

    #[derive(Debug)]
    struct Told(watch::Receiver<bool>, watch::Sender<()>);

    impl Standing for Told {
        fn stands(&self) -> bool {
            *self.0.borrow()
        }

        fn renewed(&self) -> watch::Receiver<()> {
            self.1.subscribe()
        }
    }

    #[tokio::test]
    async fn what_was_believed_by_something_is_over_when_that_is_gone() {
        let (_tell, told) = watch::channel(100);
        let (stands, standing) = watch::channel(true);
        let (renewed, _) = watch::channel(());
        let standing = Arc::new(Told(standing, renewed.clone()));
        let expiry = Expiry::new(102, &Clock::told_by(told)).while_stands(standing);
        let mut waits = Box::pin(expiry.clone().over());
        assert!(!expiry.is_over() && futures_util::poll!(&mut waits).is_pending());
        renewed.send_replace(());
        assert!(!expiry.is_over() && futures_util::poll!(&mut waits).is_pending(), "it is there as before");
        stands.send_replace(false);
        renewed.send_replace(());
        assert!(expiry.is_over());
        waits.await;
    }

    #[tokio::test]
    async fn a_machine_that_does_not_know_the_time_lets_everything_end() {
        for ends in [0, 1, 1_800_000_000, u64::MAX] {
            let expiry = Expiry::new(ends, &Clock::unset());
            assert!(expiry.is_over(), "{ends}");
            expiry.over().await;
        }
    }

    #[tokio::test]
    async fn the_clock_of_the_machine_goes_on() {
        let clock = Clock::default();
        assert!(clock.now() > 1_700_000_000);
        clock.reach(clock.now()).await;
    }
}
