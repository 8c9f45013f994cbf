//! The same channel on the locks of a scheduler that tries many interleavings: a value, a count of its changes, and who waits.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use shuttle::sync::{Arc, Mutex};

#[derive(Debug)]
pub(super) struct Sender(Arc<Mutex<State>>);

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    state: Arc<Mutex<State>>,
    seen: u64,
}

#[derive(Debug)]
struct State {
    value: u64,
    changes: u64,
    is_open: bool,
    wakers: Vec<Waker>,
}

impl Sender {
    pub(super) fn new(value: u64) -> Self {
        Self(Arc::new(Mutex::new(State { value, changes: 0, is_open: true, wakers: Vec::new() })))
    }

    pub(super) fn raise(&self, value: u64) {
        let mut state = self.0.lock().expect("nothing panics while it holds the value");
        if value > state.value {
            state.value = value;
            state.changes += 1;
            state.wakers.drain(..).for_each(Waker::wake);
        }
    }

    pub(super) fn subscribe(&self) -> Receiver {
        let seen = self.0.lock().expect("nothing panics while it holds the value").changes;
        Receiver { state: Arc::clone(&self.0), seen }
    }

    #[cfg(feature = "faults")]
    pub(super) fn latest(&self) -> u64 {
        self.0.lock().expect("nothing panics while it holds the value").value
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = self.0.lock().expect("nothing panics while it holds the value");
        state.is_open = false;
        state.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Receiver {
    pub(super) fn latest(&mut self) -> u64 {
        let state = self.state.lock().expect("nothing panics while it holds the value");
        self.seen = state.changes;
        state.value
    }

    pub(super) async fn changed(&mut self) -> bool {
        poll_fn(|context| {
            let mut state = self.state.lock().expect("nothing panics while it holds the value");
            if state.changes != self.seen {
                return Poll::Ready(true);
            }
            if !state.is_open {
                return Poll::Ready(false);
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}
