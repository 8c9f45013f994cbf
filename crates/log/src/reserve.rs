//! Room that has been promised: a batch is accepted only if a segment on disk has place for it.
//!
//! So the commit path never meets a full disk: the refusal comes before anything is queued, and it heals when the next
//! segment could be prepared. The promise assumes that each item becomes a frame of its own; the writer joins them and
//! needs less.

/// Bytes kept free in each segment, so that releasing works when the disk is full.
const RELEASE_ROOM: u32 = 16 * 1024;

/// Bytes that the repeated state at the start of a segment may take.
pub(crate) const OPENING_ROOM: u32 = 32 * 1024;

/// What the writer may still fill.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Bytes left in the segment that the last accepted item goes to.
    remaining: u32,
    /// Whether that is the prepared segment.
    in_prepared: bool,
    /// Bytes of frames that fit into the prepared segment, if there is one.
    prepared: Option<u32>,
}

/// Who asks for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Leaves room for a release.
    Data,
    /// May take the last room.
    Control,
}

impl Reserve {
    pub(crate) fn new(remaining: u32) -> Self {
        Self { remaining, in_prepared: false, prepared: None }
    }

    /// Promises `bytes`, or says that another segment is needed.
    pub(crate) fn take(&mut self, bytes: u32, urgency: Urgency) -> bool {
        let kept_free = if urgency == Urgency::Data { RELEASE_ROOM } else { 0 };
        if self.remaining >= bytes.saturating_add(kept_free) {
            self.remaining -= bytes;
            return true;
        }
        let fresh =
            self.prepared.filter(|_| !self.in_prepared).map(|content| content.saturating_sub(OPENING_ROOM));
        match fresh {
            Some(content) if content >= bytes.saturating_add(kept_free) => {
                self.in_prepared = true;
                self.remaining = content - bytes;
                true
            }
            _ => false,
        }
    }

    /// Content that a segment needs so that `bytes` fit.
    pub(crate) fn content_for(bytes: u32) -> u32 {
        bytes.saturating_add(OPENING_ROOM + RELEASE_ROOM)
    }

    /// Whether what was promised last goes to the prepared segment, so that a further one is needed.
    pub(crate) fn is_in_prepared(&self) -> bool {
        self.in_prepared
    }

    /// A segment with this much room for frames is ready, or no longer is.
    pub(crate) fn set_prepared(&mut self, content: Option<u32>) {
        self.prepared = content;
    }

    /// The writer goes on to the prepared segment, with this much room for frames.
    pub(crate) fn rotated(&mut self, content: u32) {
        self.prepared = None;
        if !self.in_prepared {
            self.remaining = content.saturating_sub(OPENING_ROOM);
        }
        self.in_prepared = false;
    }

    /// Everything accepted is written: what is left is what the segment says.
    pub(crate) fn settle(&mut self, room: u32) {
        self.in_prepared = false;
        self.remaining = room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_leaves_room_for_a_release_and_then_waits_for_a_segment() {
        let mut reserve = Reserve::new(RELEASE_ROOM + 8192);
        assert!(reserve.take(8192, Urgency::Data));
        assert!(!reserve.take(4096, Urgency::Data));
        assert!(reserve.take(4096, Urgency::Control));
        reserve.set_prepared(Some(OPENING_ROOM + RELEASE_ROOM + 4096));
        assert!(!reserve.take(8192, Urgency::Data), "too large for the prepared one");
        assert!(reserve.take(4096, Urgency::Data));
        assert!(reserve.is_in_prepared());
        assert!(!reserve.take(4096, Urgency::Data), "nothing is prepared behind it");
        reserve.rotated(1 << 20);
        assert!(!reserve.take(4096, Urgency::Data), "the promises still count");
        reserve.settle(1 << 20);
        assert!(reserve.take(4096, Urgency::Data));
    }
}
