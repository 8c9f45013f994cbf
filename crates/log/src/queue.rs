//! What waits for the writer, and how much of it becomes the next frame.
//!
//! Group commit without a timer: whatever queued up while the last frame was synced is the next frame.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use gapless_types::{Position, SegmentNumber};

use crate::format::Layout;
use crate::ticket::Completion;

/// What an item does to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Adds records from this position on.
    Data { first: Position, count: u32, payload_bytes: u64 },
    /// Cuts off everything from a position on.
    Truncate { from: Position },
    /// Lets go of everything below a position, and of the segments before one; `moves` if that lies behind the end.
    Release { first: Position, first_segment: SegmentNumber, moves: bool },
    /// Restores a damaged position.
    Repair { position: Position },
    /// Sets something that has no position.
    Control,
}

impl Action {
    /// Positions in a frame ascend, so what moves the end of the log must come first in its frame.
    fn opens_a_frame(&self) -> bool {
        matches!(self, Action::Truncate { .. } | Action::Release { moves: true, .. })
    }
}

/// Something to write.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) action: Action,
    /// Its records, encoded.
    pub(crate) body: Bytes,
    pub(crate) records: u32,
    pub(crate) completion: Arc<Completion>,
    /// Its place in the order of all items.
    pub(crate) ordinal: u64,
}

/// Items in the order they were accepted.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: VecDeque<Item>,
    bytes: u64,
    accepted: u64,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes in an item; returns its ordinal.
    pub(crate) fn push(
        &mut self,
        action: Action,
        body: Bytes,
        records: u32,
        completion: Arc<Completion>,
    ) -> u64 {
        self.accepted += 1;
        self.bytes += body.len() as u64;
        self.items.push_back(Item { action, body, records, completion, ordinal: self.accepted });
        self.accepted
    }

    /// The lowest position that a waiting truncation cuts at.
    pub(crate) fn lowest_truncation(&self) -> Option<Position> {
        let cuts = self.items.iter().filter_map(|item| match item.action {
            Action::Truncate { from } => Some(from),
            _ => None,
        });
        cuts.min()
    }

    /// The items of the next frame: as many as fit into `room` bytes of the segment and into a frame. Empty if the first
    /// one does not fit.
    pub(crate) fn take_group(&mut self, layout: Layout, room: u32, max_body: u32) -> Vec<Item> {
        let mut body = 0;
        let mut count = 0;
        for item in &self.items {
            let with_item = body + u64::from(u32::try_from(item.body.len()).unwrap_or(u32::MAX));
            let Ok(frame_body) = u32::try_from(with_item) else { break };
            let too_long = frame_body > max_body && count > 0;
            if (count > 0 && item.action.opens_a_frame()) || too_long || layout.frame_bytes(frame_body) > room
            {
                break;
            }
            body = with_item;
            count += 1;
        }
        self.bytes -= body;
        self.items.drain(..count).collect()
    }

    /// Everything, because nothing will be written any more.
    pub(crate) fn drain(&mut self) -> Vec<Item> {
        self.bytes = 0;
        self.items.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &mut Queue, action: Action, bytes: usize) {
        queue.push(action, vec![0; bytes].into(), 1, Arc::default());
    }

    #[test]
    fn a_group_is_what_fits_the_frame_and_the_segment() {
        let mut queue = Queue::default();
        for _ in 0..5 {
            push(&mut queue, Action::Control, 1000);
        }
        assert_eq!(
            queue.take_group(Layout::Aligned, 4096, 1 << 20).len(),
            4,
            "64 + 4000 bytes are one block"
        );
        assert_eq!(queue.take_group(Layout::Aligned, 0, 1 << 20).len(), 0);
        push(&mut queue, Action::Control, 1000);
        assert_eq!(queue.take_group(Layout::Aligned, 4096, 1500).len(), 1);
        assert_eq!(queue.bytes(), 1000);
    }

    #[test]
    fn a_truncation_starts_a_frame() {
        let mut queue = Queue::default();
        push(&mut queue, Action::Control, 8);
        push(&mut queue, Action::Truncate { from: Position::new(3) }, 24);
        push(&mut queue, Action::Control, 8);
        assert_eq!(queue.lowest_truncation(), Some(Position::new(3)));
        assert_eq!(queue.take_group(Layout::Packed, 4096, 4096).len(), 1);
        assert_eq!(queue.take_group(Layout::Packed, 4096, 4096).len(), 2);
    }
}
