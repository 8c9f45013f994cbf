//! The waiting side: anybody can wait until the watermark reaches a slot, any number of them, without a table of waiters.
//!
//! One channel holds the newest watermark. A waiter subscribes first and looks afterwards, so that what happens in between wakes it:
//! whoever looks first and subscribes then can miss the last change there will ever be.
//!
//! Invariants
//! - No lost wake-up: a waiter whose slot is reached ends, whenever it began.
//! - The watermark never falls.
//!
//! Must not know: clocks. A deadline is a future that the caller gives.

#[cfg_attr(not(feature = "shuttle"), path = "waiting/channel.rs")]
#[cfg_attr(feature = "shuttle", path = "waiting/scheduled_channel.rs")]
mod channel;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use thiserror::Error;

use channel::{Receiver, Sender};

/// The watermark of a domain as those see it who wait for it. Held by whoever applies its inputs.
#[derive(Debug)]
pub struct Progress(Sender);

/// Somebody who can wait. Clones wait on their own.
#[derive(Clone, Debug)]
pub struct Waiter(Receiver);

/// Why a wait ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WaitError {
    /// The deadline came first.
    #[error("slot {slot} is not reached: the watermark is {watermark}")]
    Deadline {
        /// What was waited for.
        slot: u64,
        /// How far it came.
        watermark: u64,
    },
    /// The domain is gone.
    #[error("the domain is closed at watermark {watermark}")]
    Closed {
        /// How far it came.
        watermark: u64,
    },
}

impl Progress {
    /// Begins at a watermark.
    pub fn new(watermark: u64) -> Self {
        Self(Sender::new(watermark))
    }

    /// The watermark is this now. Wakes whoever waits, if it has grown.
    pub fn advance(&self, watermark: u64) {
        self.0.raise(watermark);
    }

    /// Somebody who can wait.
    pub fn waiter(&self) -> Waiter {
        Waiter(self.0.subscribe())
    }

    /// The mistake that this module avoids: looks, and subscribes if there is something to wait for.
    #[cfg(feature = "faults")]
    pub async fn look_then_subscribe(&self, slot: u64) {
        while self.0.latest() < slot {
            let mut receiver = self.0.subscribe();
            if !receiver.changed().await {
                return;
            }
        }
    }
}

impl Waiter {
    /// The watermark as it is now.
    pub fn watermark(&mut self) -> u64 {
        self.0.latest()
    }

    /// Waits until the watermark has grown since it was looked at last. None if the domain is gone.
    pub async fn grown(&mut self) -> Option<u64> {
        if self.0.changed().await { Some(self.0.latest()) } else { None }
    }

    /// Waits until the watermark reaches a slot, or the deadline comes. Which watermark it is then.
    ///
    /// # Errors
    /// If the deadline came first, or the domain is gone.
    pub async fn reached(&mut self, slot: u64, deadline: impl Future<Output = ()>) -> Result<u64, WaitError> {
        let mut deadline = pin!(deadline);
        loop {
            // Looking marks what is seen: only a change behind it ends the wait below.
            let watermark = self.0.latest();
            if watermark >= slot {
                return Ok(watermark);
            }
            let is_open = {
                let mut changed = pin!(self.0.changed());
                poll_fn(|context| match changed.as_mut().poll(context) {
                    Poll::Ready(is_open) => Poll::Ready(Some(is_open)),
                    Poll::Pending => deadline.as_mut().poll(context).map(|()| None),
                })
                .await
            };
            match is_open {
                Some(true) => {}
                Some(false) => {
                    let watermark = self.0.latest();
                    return if watermark >= slot {
                        Ok(watermark)
                    } else {
                        Err(WaitError::Closed { watermark })
                    };
                }
                None => return Err(WaitError::Deadline { slot, watermark }),
            }
        }
    }
}
