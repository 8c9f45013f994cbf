//! Connections, and which of them stay. On whichever nobody was believed yet, in the order in which they came: when there is no room for
//! another one, the first of them goes. So however many hold a connection and say nothing, whoever has something to say gets one.
//!
//! Invariants
//! - Of those that stay, nobody has more than are left for others. What he has beyond that makes room like a stranger's.
//!
//! Must not know: who is believed, and why.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All of them. There are as many entries as connections.
#[derive(Debug)]
pub(crate) struct Strangers {
    limit: usize,
    here: Mutex<Here>,
}

#[derive(Debug, Default)]
struct Here {
    came: u64,
    in_order: BTreeMap<u64, Arc<Notify>>,
    /// How many stay, and whose they are.
    staying: usize,
    by_client: HashMap<Arc<str>, usize>,
}

/// A connection. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    go: Arc<Notify>,
    stays: AtomicBool,
    /// Whose it is, once it stays.
    client: Mutex<Option<Arc<str>>>,
}

impl Strangers {
    /// Where there is room for so many connections.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, here: Mutex::default() }
    }

    /// Somebody came.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Stranger> {
        let go = Arc::new(Notify::new());
        let mut here = self.here();
        here.came += 1;
        let number = here.came;
        here.in_order.insert(number, go.clone());
        drop(here);
        let (strangers, stays, client) = (self.clone(), AtomicBool::new(false), Mutex::default());
        Arc::new(Stranger { strangers, number, go, stays, client })
    }

    /// Has the one go that is here longest. Whether there was one.
    pub(crate) fn make_room(&self) -> bool {
        let first = self.here().in_order.pop_first();
        first.inspect(|(_, go)| go.notify_one()).is_some()
    }

    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// Somebody on this connection said who he is: it stays, unless he has so many that none would be left for others.
    pub(crate) fn believe(&self, client: impl FnOnce() -> Arc<str>) {
        if self.stays.load(Relaxed) {
            return;
        }
        let client = client();
        let mut its = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let mut here = self.strangers.here();
        let has = here.by_client.get(&client).copied().unwrap_or_default();
        // One that was asked to go does so.
        let is_here = here.in_order.contains_key(&self.number);
        if its.is_some() || !is_here || has >= self.strangers.limit.saturating_sub(here.staying) {
            return;
        }
        here.in_order.remove(&self.number);
        here.staying += 1;
        *here.by_client.entry(client.clone()).or_default() += 1;
        *its = Some(client);
        self.stays.store(true, Relaxed);
    }

    /// Ready when it has to make room for another one.
    pub(crate) async fn goes(&self) {
        self.go.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let client = self.client.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut here = self.strangers.here();
        here.in_order.remove(&self.number);
        let Some(client) = client else { return };
        here.staying -= 1;
        if let Some(count) = here.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                here.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn goes(stranger: &Stranger) -> bool {
        stranger.goes().now_or_never().is_some()
    }

    #[test]
    fn whoever_is_here_longest_goes_unless_he_was_believed_or_left() {
        let strangers = Arc::new(Strangers::new(8));
        let [first, second, third, fourth] = [(); 4].map(|()| strangers.enter());
        first.believe(|| "till".into());
        first.believe(|| "somebody else, later".into());
        drop(second);
        assert!(strangers.make_room());
        assert_eq!([&first, &third, &fourth].map(|stranger| goes(stranger)), [false, true, false]);
        // Who was asked to go and is believed a moment later goes all the same, and makes room once.
        third.believe(|| "till".into());
        assert!(strangers.make_room());
        assert!(goes(&fourth));
        assert!(!strangers.make_room());
        assert_eq!(strangers.here().staying, 1);
        drop((first, third, fourth));
        let here = strangers.here();
        assert!(here.in_order.is_empty() && here.by_client.is_empty() && here.staying == 0);
    }

    #[test]
    fn what_one_client_has_beyond_what_is_left_for_others_makes_room() {
        let strangers = Arc::new(Strangers::new(8));
        let greedy: Vec<_> = (0..8).map(|_| strangers.enter()).collect();
        for connection in &greedy {
            connection.believe(|| "greedy".into());
        }
        assert!(strangers.make_room());
        assert!(goes(&greedy[4]), "half of all stay");
        let till = strangers.enter();
        till.believe(|| "till".into());
        for connection in &greedy[5..] {
            assert!(strangers.make_room() && goes(connection));
        }
        assert!(!strangers.make_room(), "those that are left stay");
        // What becomes free is free for him, too.
        drop(greedy);
        let again = strangers.enter();
        again.believe(|| "greedy".into());
        assert!(!strangers.make_room());
    }
}
