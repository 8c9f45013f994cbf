//! A snapshot on its way: the stream that is sent, and the file in which it waits until it is complete.
//!
//! Nothing is installed before every byte has arrived and matches its checksum. Pieces are checked again when they are read from
//! the file.
//!
//! Must not know: what the body means, how bytes travel.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_log::io::{File, Io, OpenMode, read_exact_at, write_all_at};

use crate::error::InstallError;
use crate::format::snapshot::{BodyChecksum, END_BYTES, PIECE_PREFIX_BYTES, SnapshotHeader};
use crate::limits::MAX_SNAPSHOT_CHUNK_BYTES;
use crate::machine::{MachineFault, SnapshotBody};

const NAME: &str = "snapshot.received";
/// Longer than any header.
const MAX_HEADER_BYTES: u32 = 1 << 20;

/// The bytes of a snapshot as they travel, in parts of limited length.
pub type SnapshotStream = BoxStream<'static, Result<Bytes, MachineFault>>;

/// Header, pieces and end of a snapshot, one after the other.
pub(crate) fn stream_of(header: &SnapshotHeader, body: Box<dyn SnapshotBody>) -> SnapshotStream {
    let encoded = header.encode();
    let mut first = BytesMut::with_capacity(encoded.len() + 4);
    first.extend_from_slice(&u32::try_from(encoded.len()).expect("headers are short").to_le_bytes());
    first.extend_from_slice(&encoded);
    let sending = Sending { body, rest: Bytes::new(), checksum: BodyChecksum::default() };
    let pieces = stream::unfold(Some(sending), |sending| async move {
        let mut sending = sending?;
        match sending.next().await {
            Ok(Some(part)) => Some((Ok(part), Some(sending))),
            Ok(None) => Some((Ok(Bytes::copy_from_slice(&sending.checksum.end())), None)),
            Err(fault) => Some((Err(fault), None)),
        }
    });
    stream::iter([Ok(first.freeze())]).chain(pieces).boxed()
}

struct Sending {
    body: Box<dyn SnapshotBody>,
    /// What is left of a piece that was longer than a message.
    rest: Bytes,
    checksum: BodyChecksum,
}

impl Sending {
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
    /// Takes in a whole stream and checks it. What is not whole is not kept.
    pub(crate) async fn receive(
        io: Arc<dyn Io>,
        dir: &Path,
        stream: SnapshotStream,
    ) -> Result<Self, InstallError> {
        let path = dir.join(NAME);
        let received = Self::take_in(&io, &path, stream).await;
        if received.is_err() {
            // If it stays, the next one overwrites it.
            let _ = io.remove(&path);
        }
        received
    }

    async fn take_in(
        io: &Arc<dyn Io>,
        path: &Path,
        mut stream: SnapshotStream,
    ) -> Result<Self, InstallError> {
        let failed = |action| move |source| InstallError::Io { action, path: path.to_owned(), source };
        let file = io.open(path, OpenMode::Create).map_err(failed("create"))?;
        let mut length = 0;
        while let Some(part) = stream.next().await {
            let part = part.map_err(InstallError::Sender)?;
            write_all_at(&*file, &part, length).map_err(failed("write"))?;
            length += part.len() as u64;
        }
        let (header, body_at) = read_header(&*file, length)?;
        let spool = Self { io: io.clone(), path: path.to_owned(), file, body_at, header };
        spool.check(length)?;
        Ok(spool)
    }

    /// Reads every piece once.
    fn check(&self, length: u64) -> Result<(), InstallError> {
        let mut pieces = self.pieces();
        while pieces.read_next().map_err(|error| pieces.refusal(&error))?.is_some() {}
        match pieces.at == length {
            true => Ok(()),
            false => Err(InstallError::Body("it goes on behind its end")),
        }
    }

    fn pieces(&self) -> Pieces {
        Pieces { file: self.file.clone(), at: self.body_at, checksum: BodyChecksum::default(), ended: false }
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

fn read_header(file: &dyn File, length: u64) -> Result<(SnapshotHeader, u64), InstallError> {
    let early = |_| InstallError::Header("it ends too early");
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
            io::ErrorKind::UnexpectedEof => InstallError::Body("it ends too early"),
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
mod tests {
    use std::collections::VecDeque;

    use gapless_log::io::memory::MemoryIo;
    use gapless_types::{GroupId, LogIndex};

    use super::*;
    use crate::format::control::Standing;
    use crate::identity::{ClusterId, Identity, NodeId, Term};
    use crate::members::Members;
    use crate::message::EntryId;

    struct Given(VecDeque<Bytes>);

    impl SnapshotBody for Given {
        fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
            Box::pin(std::future::ready(Ok(self.0.pop_front())))
        }
    }

    fn header() -> SnapshotHeader {
        let identity =
            Identity { cluster: ClusterId::from_bytes([3; 16]), group: GroupId::FIRST, node: NodeId::new(1) };
        let at = EntryId { term: Term::new(2), index: LogIndex::new(9) };
        let members = Members::alone(NodeId::new(1), "here").unwrap();
        let standing =
            Standing { last: Some(at), members_at: Some(at), members, highest_node: NodeId::new(4) };
        SnapshotHeader::new(&identity, standing)
    }

    fn disk() -> MemoryIo {
        let io = MemoryIo::new();
        io.create_dir(Path::new("node")).unwrap();
        io
    }

    async fn parts(pieces: &[&[u8]]) -> Vec<Bytes> {
        let body = Given(pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect());
        stream_of(&header(), Box::new(body)).map(Result::unwrap).collect().await
    }

    async fn receive(bytes: &[u8]) -> Result<Spool, InstallError> {
        // However the bytes are cut on their way.
        let parts: Vec<_> = bytes.chunks(7).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
        Spool::receive(Arc::new(disk()), Path::new("node"), stream::iter(parts).boxed()).await
    }

    async fn body_of(spool: &Spool) -> Vec<u8> {
        let (mut body, mut bytes) = (spool.body(), Vec::new());
        while let Some(piece) = body.next().await.unwrap() {
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    #[tokio::test]
    async fn a_snapshot_arrives_as_it_was_sent() {
        let long = vec![5; MAX_SNAPSHOT_CHUNK_BYTES + 1];
        for pieces in [vec![], vec![&b"first"[..], b"", b"second"], vec![&long[..], b"x"]] {
            let sent = parts(&pieces).await;
            assert!(sent.iter().all(|part| part.len() <= MAX_SNAPSHOT_CHUNK_BYTES + PIECE_PREFIX_BYTES));
            let spool = receive(&sent.concat()).await.unwrap();
            assert_eq!(spool.header, header());
            assert_eq!(body_of(&spool).await, pieces.concat());
            assert_eq!(body_of(&spool).await, pieces.concat(), "it can be read again");
        }
    }

    #[tokio::test]
    async fn a_snapshot_that_is_damaged_short_or_long_is_refused() {
        let whole = parts(&[b"first", b"second"]).await.concat();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(receive(&damaged).await.is_err(), "byte {at} flipped");
            assert!(receive(&whole[..at]).await.is_err(), "{at} bytes arrived");
        }
        let long = [&whole[..], b"x"].concat();
        assert!(matches!(receive(&long).await, Err(InstallError::Body("it goes on behind its end"))));
    }

    #[tokio::test]
    async fn a_sender_that_breaks_off_is_told_from_damage_and_leaves_no_file() {
        let io = disk();
        let broken = stream::iter([Err(MachineFault::new("gone"))]).boxed();
        let refused = Spool::receive(Arc::new(io.clone()), Path::new("node"), broken).await;
        assert!(matches!(refused, Err(InstallError::Sender(_))));
        assert!(io.list(Path::new("node")).unwrap().is_empty());
        let whole = parts(&[b"first"]).await.concat();
        let parts = stream::iter([Ok(Bytes::from(whole))]).boxed();
        drop(Spool::receive(Arc::new(io.clone()), Path::new("node"), parts).await.unwrap());
        assert!(io.list(Path::new("node")).unwrap().is_empty());
    }
}
