//! Decoders of bytes that come from a disk or from another node, for the fuzz targets alone.
//!
//! Must not know: how bytes travel.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;

use crate::format::control::Control;
use crate::format::snapshot::SnapshotHeader;
use crate::message::Received;
use crate::storage::spool::Spool;

/// A control file as it would be written again; none if it is not read.
#[must_use]
pub fn control_again(bytes: &[u8]) -> Option<Vec<u8>> {
    Control::decode(bytes).ok().map(|control| control.encode())
}

/// The header of a snapshot as it would be sent again; none if it is refused.
#[must_use]
pub fn snapshot_header_again(bytes: &[u8]) -> Option<Vec<u8>> {
    SnapshotHeader::decode(bytes).ok().map(|header| header.encode())
}

/// The body of a snapshot that arrives in parts of some length; none if it is refused.
#[must_use]
pub fn snapshot_body(bytes: &[u8], part_length: usize) -> Option<Vec<u8>> {
    let (io, dir) = (MemoryIo::new(), Path::new("node"));
    io.create_dir(dir).ok()?;
    let parts: Vec<_> =
        bytes.chunks(part_length.max(1)).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    let receiving = Spool::receive(Arc::new(io), dir, Received::default(), stream::iter(parts).boxed());
    let spool = receiving.now_or_never()?.ok()?;
    let (mut pieces, mut body) = (spool.body(), Vec::new());
    while let Some(piece) = pieces.next().now_or_never()?.expect("it was checked when it arrived") {
        body.extend_from_slice(&piece);
    }
    Some(body)
}
