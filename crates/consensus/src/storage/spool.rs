//! The file in which a snapshot waits until it is complete.
//!
//! Nothing is installed before every byte has arrived and matches its checksum. Pieces are checked again when they are read from
//! the file. What arrived before a break stays: the sender asks how much it is, and goes on behind it. It came behind what this node
//! said that it holds, so that is said again.
//!
//! Must not know: what the body means, how bytes travel.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_log::io::{File, Io, OpenMode, read_exact_at, write_all_at};

use crate::error::{ENDS_EARLY, InstallError};
use crate::format::snapshot::{BodyChecksum, END_BYTES, PIECE_PREFIX_BYTES, SnapshotHeader};
use crate::limits::{MAX_HELD_BYTES, MAX_SNAPSHOT_CHUNK_BYTES};
use crate::machine::{MachineFault, SnapshotBody};
use crate::message::{EntryId, Received};

const NAME: &str = "snapshot.received";
/// Longer than any header.
const MAX_HEADER_BYTES: u32 = 2 << 20;
const _: () =
    assert!(MAX_HELD_BYTES + (1 << 20) <= MAX_HEADER_BYTES as usize, "a header fits with what is held");

/// The bytes of a snapshot as they travel, in parts of limited length.
pub type SnapshotStream = BoxStream<'static, Result<Bytes, MachineFault>>;

/// A snapshot that arrived completely.
#[derive(Debug)]
pub(crate) struct Spool {
    io: Arc<dyn Io>,
    path: PathBuf,
    file: Arc<dyn File>,
    /// Where the pieces begin.
    body_at: u64,
    pub(crate) header: SnapshotHeader,
}

impl Spool {
    /// How much of a snapshot is here, whole pieces of the one that contains exactly the entries up to `snapshot`, and what was said to
    /// be held when they were sent. None if nothing of it is here.
    pub(crate) fn received(io: &dyn Io, dir: &Path, snapshot: EntryId) -> Option<(Received, Bytes)> {
        let part = Part::open(io, &dir.join(NAME)).ok();
        let mut part = part.filter(|part| part.header.standing.last == Some(snapshot))?;
        let received = part.pieces.skip_whole();
        (received != Received::default()).then_some((received, part.header.held))
    }

    /// Takes in a stream, or what of it comes `behind` what is here, and checks all of it. What is damaged is not kept.
    pub(crate) async fn receive(
        io: Arc<dyn Io>,
        dir: &Path,
        behind: Received,
        stream: SnapshotStream,
    ) -> Result<Self, InstallError> {
        let path = dir.join(NAME);
        let received = Self::take_in(&io, &path, behind, stream).await;
        if received.as_ref().is_err_and(|error| !error.is_break()) {
            // If it stays, the next one overwrites it.
            let _ = io.remove(&path);
        }
        received
    }

    async fn take_in(
        io: &Arc<dyn Io>,
        path: &Path,
        behind: Received,
        stream: SnapshotStream,
    ) -> Result<Self, InstallError> {
        let failed = |action| move |source| InstallError::Io { action, path: path.to_owned(), source };
        let (file, mut length, mut stream) = if behind == Received::default() {
            (io.open(path, OpenMode::Create).map_err(failed("create"))?, 0, stream)
        } else {
            let (expected, stream) = take_header(stream).await?;
            let mut part = Part::open(&**io, path)?;
            if part.header != expected || part.pieces.skip_whole() != behind {
                return Err(InstallError::Elsewhere);
            }
            (part.pieces.file, part.pieces.at, stream)
        };
        while let Some(bytes) = stream.next().await {
            let bytes = bytes.map_err(InstallError::Sender)?;
            write_all_at(&*file, &bytes, length).map_err(failed("write"))?;
            length += bytes.len() as u64;
        }
        let (header, body_at) = read_header(&*file, length)?;
        // Before there is a spool, which removes its file when it is dropped: what is only short stays.
        Pieces::new(file.clone(), body_at).check(length)?;
        Ok(Self { io: io.clone(), path: path.to_owned(), file, body_at, header })
    }

    fn pieces(&self) -> Pieces {
        Pieces::new(self.file.clone(), self.body_at)
    }

    /// Its body, from the beginning.
    pub(crate) fn body(&self) -> Box<dyn SnapshotBody> {
        Box::new(self.pieces())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // If it stays, the next one overwrites it.
        let _ = self.io.remove(&self.path);
    }
}

/// A snapshot of which not everything has arrived.
struct Part {
    header: SnapshotHeader,
    pieces: Pieces,
}

impl Part {
    fn open(io: &dyn Io, path: &Path) -> Result<Self, InstallError> {
        let failed = |source| InstallError::Io { action: "open", path: path.to_owned(), source };
        let file = io.open(path, OpenMode::Write).map_err(failed)?;
        let (header, body_at) = read_header(&*file, file.len().map_err(failed)?)?;
        Ok(Self { header, pieces: Pieces::new(file, body_at) })
    }
}

/// Takes the header off a stream, however the bytes were cut on their way.
async fn take_header(mut stream: SnapshotStream) -> Result<(SnapshotHeader, SnapshotStream), InstallError> {
    let mut bytes = BytesMut::new();
    loop {
        if let Some((&length, rest)) = bytes.split_first_chunk() {
            let length = u32::from_le_bytes(length);
            if length > MAX_HEADER_BYTES {
                return Err(InstallError::Header("its header is too long"));
            }
            if let Some(header) = rest.get(..length as usize) {
                let header =
                    SnapshotHeader::decode(header).map_err(|malformed| InstallError::Header(malformed.0))?;
                let rest = bytes.split_off(4 + length as usize).freeze();
                return Ok((header, stream::iter([Ok(rest)]).chain(stream).boxed()));
            }
        }
        match stream.next().await {
            Some(part) => bytes.extend_from_slice(&part.map_err(InstallError::Sender)?),
            None => return Err(InstallError::Header(ENDS_EARLY)),
        }
    }
}

fn read_header(file: &dyn File, length: u64) -> Result<(SnapshotHeader, u64), InstallError> {
    let early = |_| InstallError::Header(ENDS_EARLY);
    let mut prefix = [0; 4];
    read_exact_at(file, &mut prefix, 0).map_err(early)?;
    let header_bytes = u32::from_le_bytes(prefix);
    if header_bytes > MAX_HEADER_BYTES || u64::from(header_bytes) > length {
        return Err(InstallError::Header("its header is too long"));
    }
    let mut header = vec![0; header_bytes as usize];
    read_exact_at(file, &mut header, 4).map_err(early)?;
    let header = SnapshotHeader::decode(&header).map_err(|malformed| InstallError::Header(malformed.0))?;
    Ok((header, 4 + u64::from(header_bytes)))
}

/// Reads pieces from a file, and checks each.
struct Pieces {
    file: Arc<dyn File>,
    at: u64,
    checksum: BodyChecksum,
    ended: bool,
}

impl Pieces {
    fn new(file: Arc<dyn File>, at: u64) -> Self {
        Self { file, at, checksum: BodyChecksum::default(), ended: false }
    }

    /// Goes behind the last piece that is whole.
    fn skip_whole(&mut self) -> Received {
        while matches!(self.read_next(), Ok(Some(_))) {}
        if self.ended {
            // The end is sent again: it is short, and says that everything was meant.
            self.at -= END_BYTES as u64;
            self.ended = false;
        }
        self.checksum.received()
    }

    /// Reads every piece once.
    fn check(mut self, length: u64) -> Result<(), InstallError> {
        while self.read_next().map_err(|error| self.refusal(&error))?.is_some() {}
        match self.at == length {
            true => Ok(()),
            false => Err(InstallError::Body("it goes on behind its end")),
        }
    }

    fn read_next(&mut self) -> io::Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        let mut prefix = [0; PIECE_PREFIX_BYTES];
        read_exact_at(&*self.file, &mut prefix, self.at)?;
        let [length, sum] = [&prefix[..4], &prefix[4..]]
            .map(|field| u32::from_le_bytes(field.try_into().expect("half of eight bytes")));
        if length == 0 {
            return self.read_end();
        }
        if length as usize > MAX_SNAPSHOT_CHUNK_BYTES {
            return Err(damaged("a piece is too long"));
        }
        let mut piece = vec![0; length as usize];
        read_exact_at(&*self.file, &mut piece, self.at + PIECE_PREFIX_BYTES as u64)?;
        if crc32c::crc32c(&piece) != sum {
            return Err(damaged("a piece does not match its checksum"));
        }
        self.checksum.add(&piece);
        self.at += PIECE_PREFIX_BYTES as u64 + u64::from(length);
        Ok(Some(piece.into()))
    }

    fn read_end(&mut self) -> io::Result<Option<Bytes>> {
        let mut end = [0; END_BYTES];
        read_exact_at(&*self.file, &mut end, self.at)?;
        if end != self.checksum.end() {
            return Err(damaged("pieces are missing"));
        }
        self.at += END_BYTES as u64;
        self.ended = true;
        Ok(None)
    }

    fn refusal(&self, error: &io::Error) -> InstallError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => InstallError::Body(ENDS_EARLY),
            io::ErrorKind::InvalidData => InstallError::Body("a piece is damaged or missing"),
            kind => InstallError::Io { action: "read", path: NAME.into(), source: kind.into() },
        }
    }
}

impl SnapshotBody for Pieces {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
        let piece = self.read_next().map_err(MachineFault::new);
        Box::pin(std::future::ready(piece))
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
