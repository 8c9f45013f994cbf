//! What waits to be proposed, and how much of it fits the next entry.
//!
//! Invariants
//! - What fits is counted when something comes, and anew when something goes: asking for it costs nothing, however much waits.
//!
//! Must not know: when something is proposed.

use std::collections::VecDeque;

use super::{Asking, Request};
use crate::entry::EntryRoom;
use crate::projections::encoded_bytes;

/// Requests in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    requests: VecDeque<Request>,
    /// So many in front fit one entry.
    fitting: usize,
    /// What they leave of it.
    room: EntryRoom,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn front(&self) -> Option<&Request> {
        self.requests.front()
    }

    pub(super) fn push_back(&mut self, request: Request) {
        self.requests.push_back(request);
        self.count();
    }

    /// One that was taken and could not be proposed comes first again.
    pub(super) fn push_front(&mut self, request: Request) {
        self.requests.push_front(request);
        self.count_anew();
    }

    pub(super) fn pop_front(&mut self) -> Option<Request> {
        let request = self.requests.pop_front();
        self.count_anew();
        request
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&Request) -> bool) {
        self.requests.retain(keeps);
        self.count_anew();
    }

    /// How many of those in front fit one entry. Changes of the catalog and of the machine version have entries of their own.
    pub(super) fn fitting(&self) -> usize {
        self.fitting
    }

    /// Those that fit one entry.
    pub(super) fn iter_fitting(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().take(self.fitting)
    }

    /// Takes them out.
    pub(super) fn take_fitting(&mut self) -> Vec<Request> {
        let taken = self.requests.drain(..self.fitting).collect();
        self.count_anew();
        taken
    }

    pub(super) fn take_all(&mut self) -> VecDeque<Request> {
        std::mem::take(self).requests
    }

    fn count_anew(&mut self) {
        (self.fitting, self.room) = (0, EntryRoom::default());
        self.count();
    }

    /// Goes on counting behind those that fit.
    fn count(&mut self) {
        while let Some(request) = self.requests.get(self.fitting) {
            let fits = match request {
                Request::Write(submission) => self.room.take(submission.command.len()),
                Request::Domain(Asking { asked, command }) => {
                    self.room.take(encoded_bytes(&asked.domain, command))
                }
                Request::Catalog(..) | Request::Raise => false,
            };
            if !fits {
                return;
            }
            self.fitting += 1;
        }
    }
}
