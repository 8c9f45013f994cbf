//! A snapshot that is sent: its header, and of its pieces those that the receiver does not have yet.
//!
//! A snapshot can be read again, so nothing is remembered about who has which part of it: after a break it is read from the beginning,
//! and what the receiver says it has is left out if its checksum is that of the same pieces here. What it holds of what they say is
//! left out by the machine; it is the same after a break as before it.
//!
//! Must not know: what the body means, how bytes travel.

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt};

use super::spool::SnapshotStream;
use crate::format::snapshot::{BodyChecksum, PIECE_PREFIX_BYTES, SnapshotHeader};
use crate::limits::MAX_SNAPSHOT_CHUNK_BYTES;
use crate::machine::{MachineFault, SnapshotBody};
use crate::message::Received;

/// A snapshot on its way out.
pub(crate) struct Outgoing {
    body: Box<dyn SnapshotBody>,
    /// What is left of a piece that was longer than a message.
    rest: Bytes,
    checksum: BodyChecksum,
}

impl Outgoing {
    /// What comes behind `received`; everything if that is something else than what would be sent.
    pub(crate) async fn behind(
        received: Received,
        body: impl Fn() -> Box<dyn SnapshotBody>,
    ) -> Result<Self, MachineFault> {
        let mut outgoing = Self::new(body());
        while outgoing.checksum.received().pieces < received.pieces && outgoing.next().await?.is_some() {}
        Ok(if outgoing.checksum.received() == received { outgoing } else { Self::new(body()) })
    }

    fn new(body: Box<dyn SnapshotBody>) -> Self {
        Self { body, rest: Bytes::new(), checksum: BodyChecksum::default() }
    }

    /// Header, pieces and end, one after the other; and what they come behind.
    pub(crate) fn stream(self, header: &SnapshotHeader) -> (Received, SnapshotStream) {
        let behind = self.checksum.received();
        let encoded = header.encode();
        let mut first = BytesMut::with_capacity(encoded.len() + 4);
        first.extend_from_slice(&u32::try_from(encoded.len()).expect("headers are short").to_le_bytes());
        first.extend_from_slice(&encoded);
        let first = first.freeze();
        let header: Vec<_> =
            first.chunks(MAX_SNAPSHOT_CHUNK_BYTES).map(|part| Ok(first.slice_ref(part))).collect();
        let pieces = stream::unfold(Some(self), |outgoing| async move {
            let mut outgoing = outgoing?;
            match outgoing.next().await {
                Ok(Some(part)) => Some((Ok(part), Some(outgoing))),
                Ok(None) => Some((Ok(Bytes::copy_from_slice(&outgoing.checksum.end())), None)),
                Err(fault) => Some((Err(fault), None)),
            }
        });
        (behind, stream::iter(header).chain(pieces).boxed())
    }

    async fn next(&mut self) -> Result<Option<Bytes>, MachineFault> {
        while self.rest.is_empty() {
            match self.body.next().await? {
                Some(piece) => self.rest = piece,
                None => return Ok(None),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(MAX_SNAPSHOT_CHUNK_BYTES));
        let mut part = BytesMut::with_capacity(PIECE_PREFIX_BYTES + piece.len());
        part.extend_from_slice(&self.checksum.add(&piece));
        part.extend_from_slice(&piece);
        Ok(Some(part.freeze()))
    }
}
