//! Locks and atomics: those of the standard library, or those of the scheduler that tries interleavings.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};

use std::time::Duration;

/// Waits until notified, at most so long. May return early for no reason, like every condition variable.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn wait_timeout<'a, T>(
    _: &'a Mutex<T>,
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    condvar.wait_timeout(guard, timeout).expect(NO_PANIC).0
}

/// Time does not pass under that scheduler: any wait may end at once, and another thread goes first.
#[cfg(feature = "shuttle")]
pub(crate) fn wait_timeout<'a, T>(
    mutex: &'a Mutex<T>,
    _: &Condvar,
    guard: MutexGuard<'a, T>,
    _: Duration,
) -> MutexGuard<'a, T> {
    drop(guard);
    shuttle::thread::yield_now();
    mutex.lock().expect(NO_PANIC)
}

/// Why a lock of ours is never poisoned.
pub(crate) const NO_PANIC: &str = "no thread panics while it holds the state of a sequencer";
