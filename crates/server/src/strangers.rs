//! Connections on which nobody was believed yet, in the order in which they came. When there is no room for another one, the first of
//! them goes: however many hold a connection and say nothing, whoever has something to say gets one.
//!
//! Must not know: who is believed, and why.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All of them. There are as many entries as such connections.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<Here>);

#[derive(Debug, Default)]
struct Here {
    came: u64,
    in_order: BTreeMap<u64, Arc<Notify>>,
}

/// A connection. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    go: Arc<Notify>,
    is_believed: AtomicBool,
}

impl Strangers {
    /// Somebody came.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Stranger> {
        let go = Arc::new(Notify::new());
        let mut here = self.here();
        here.came += 1;
        let number = here.came;
        here.in_order.insert(number, go.clone());
        drop(here);
        Arc::new(Stranger { strangers: self.clone(), number, go, is_believed: AtomicBool::new(false) })
    }

    /// Has the one go that is here longest. Whether there was one.
    pub(crate) fn make_room(&self) -> bool {
        let first = self.here().in_order.pop_first();
        first.inspect(|(_, go)| go.notify_one()).is_some()
    }

    fn here(&self) -> MutexGuard<'_, Here> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// Somebody on this connection said who he is: it stays.
    pub(crate) fn believe(&self) {
        if !self.is_believed.swap(true, Relaxed) {
            self.strangers.here().in_order.remove(&self.number);
        }
    }

    /// Ready when it has to make room for another one.
    pub(crate) async fn goes(&self) {
        self.go.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.here().in_order.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn whoever_is_here_longest_goes_unless_he_was_believed_or_left() {
        let strangers = Arc::new(Strangers::default());
        let [first, second, third, fourth] = [(); 4].map(|()| strangers.enter());
        first.believe();
        first.believe();
        drop(second);
        assert!(strangers.make_room());
        let goes = |stranger: &Stranger| stranger.goes().now_or_never().is_some();
        assert_eq!([&first, &third, &fourth].map(|stranger| goes(stranger)), [false, true, false]);
        // Who was asked to go and is believed a moment later goes all the same, and makes room once.
        third.believe();
        assert!(strangers.make_room());
        assert!(goes(&fourth));
        assert!(!strangers.make_room());
        drop((first, third, fourth));
        assert!(strangers.here().in_order.is_empty());
    }
}
