//! The channel: tokio's, as it is used here.

use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Sender(watch::Sender<u64>);

#[derive(Clone, Debug)]
pub(super) struct Receiver(watch::Receiver<u64>);

impl Sender {
    pub(super) fn new(value: u64) -> Self {
        Self(watch::Sender::new(value))
    }

    pub(super) fn raise(&self, value: u64) {
        self.0.send_if_modified(|current| {
            let grows = value > *current;
            *current = value.max(*current);
            grows
        });
    }

    pub(super) fn subscribe(&self) -> Receiver {
        Receiver(self.0.subscribe())
    }

    #[cfg(feature = "faults")]
    pub(super) fn latest(&self) -> u64 {
        *self.0.borrow()
    }
}

impl Receiver {
    /// The newest value; only what comes behind it counts as a change from now on.
    pub(super) fn latest(&mut self) -> u64 {
        *self.0.borrow_and_update()
    }

    /// Waits for a change. False if there will be none.
    pub(super) async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
