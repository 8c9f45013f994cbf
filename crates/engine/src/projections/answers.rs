//! Who is told what became of a command for a domain.
//!
//! A request is registered before it is proposed, and taken out on every exit: its answer, a proposal that was refused, a domain
//! that is gone, a change of leader. Whoever is not told finds its end of the channel closed: nothing is known of what he asked for.
//!
//! Must not know: queues, tasks, how an order is agreed on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gapless_projection::{Answer, OpenEvent};
use tokio::sync::oneshot;

use super::request::RequestId;
use crate::admission::Permit;
use crate::retention::Domain;

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) answer: Answer,
    /// The events of what was granted, in the order of the grants; of the first ones if all of them would be too long.
    pub(crate) events: Vec<Option<OpenEvent>>,
}

/// Somebody who asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) domain: Domain,
    pub(crate) reply: oneshot::Sender<Told>,
    pub(crate) permit: Permit,
}

/// Requests that were proposed and have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<BTreeMap<RequestId, Asked>>);

impl Answers {
    pub(crate) fn register(&self, requests: Vec<(RequestId, Asked)>) {
        self.lock().extend(requests);
    }

    /// Whether somebody here waits for this one.
    pub(crate) fn is_awaited(&self, id: RequestId) -> bool {
        self.lock().contains_key(&id)
    }

    pub(crate) fn tell(&self, told: Vec<(RequestId, Told)>) {
        let taken: Vec<(Asked, Told)> = {
            let mut asked = self.lock();
            told.into_iter().filter_map(|(id, told)| Some((asked.remove(&id)?, told))).collect()
        };
        for (Asked { reply, permit, .. }, told) in taken {
            // Given back first: whoever is told may come again at once.
            drop(permit);
            let _ = reply.send(told);
        }
    }

    /// These were not proposed, or nothing will be heard of them.
    pub(crate) fn forget(&self, ids: &[RequestId]) {
        let mut asked = self.lock();
        let forgotten: Vec<Asked> = ids.iter().filter_map(|id| asked.remove(id)).collect();
        drop(asked);
        drop(forgotten);
    }

    /// A domain answers nobody any more.
    pub(crate) fn give_up(&self, domain: &Domain) {
        let mut asked = self.lock();
        let forgotten: Vec<(RequestId, Asked)> =
            asked.extract_if(.., |_, asked| asked.domain == *domain).collect();
        drop(asked);
        drop(forgotten);
    }

    /// Nobody leads here any more.
    pub(crate) fn clear(&self) {
        let forgotten = std::mem::take(&mut *self.lock());
        drop(forgotten);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
