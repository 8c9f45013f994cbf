//! Snapshots that arrive whole, damaged, short, long, and in several attempts.

use std::collections::VecDeque;

use gapless_log::io::memory::MemoryIo;
use gapless_types::{GroupId, LogIndex};

use super::*;
use crate::format::control::Standing;
use crate::identity::{ClusterId, Identity, NodeId, Term};
use crate::members::Members;
use crate::storage::outgoing::Outgoing;

struct Given(VecDeque<Bytes>);

impl SnapshotBody for Given {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
        Box::pin(std::future::ready(Ok(self.0.pop_front())))
    }
}

fn header(at: u64) -> SnapshotHeader {
    let identity =
        Identity { cluster: ClusterId::from_bytes([3; 16]), group: GroupId::FIRST, node: NodeId::new(1) };
    let at = entry(at);
    let members = Members::alone(NodeId::new(1), "here").unwrap();
    let standing = Standing { last: Some(at), members_at: Some(at), members, highest_node: NodeId::new(4) };
    SnapshotHeader::new(&identity, standing).behind(&Bytes::from_static(b"what is held"))
}

fn entry(index: u64) -> EntryId {
    EntryId { term: Term::new(2), index: LogIndex::new(index) }
}

fn disk() -> MemoryIo {
    let io = MemoryIo::new();
    io.create_dir(Path::new("node")).unwrap();
    io
}

/// What is sent of a snapshot of the entry 9 to somebody who has nothing.
async fn parts(pieces: &[&[u8]]) -> Vec<Bytes> {
    parts_behind(9, Received::default(), pieces).await.1
}

async fn parts_behind(at: u64, received: Received, pieces: &[&[u8]]) -> (Received, Vec<Bytes>) {
    let body: VecDeque<Bytes> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
    let outgoing = Outgoing::behind(received, || Box::new(Given(body.clone()))).await.unwrap();
    let (behind, stream) = outgoing.stream(&header(at));
    (behind, stream.map(Result::unwrap).collect().await)
}

fn cut(bytes: &[u8]) -> Vec<Result<Bytes, MachineFault>> {
    bytes.chunks(7).map(|part| Ok(Bytes::copy_from_slice(part))).collect()
}

async fn receive_on(
    io: &MemoryIo,
    behind: Received,
    parts: Vec<Result<Bytes, MachineFault>>,
) -> Result<Spool, InstallError> {
    Spool::receive(Arc::new(io.clone()), Path::new("node"), behind, stream::iter(parts).boxed()).await
}

fn received(io: &MemoryIo, at: u64) -> Received {
    match Spool::received(io, Path::new("node"), entry(at)) {
        Some((received, held)) => {
            assert_eq!(held, header(at).held, "what was said to be held is said again");
            assert!(received.pieces > 0);
            received
        }
        None => Received::default(),
    }
}

async fn receive(bytes: &[u8]) -> Result<Spool, InstallError> {
    // However the bytes are cut on their way.
    receive_on(&disk(), Received::default(), cut(bytes)).await
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
        assert_eq!(spool.header, header(9));
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
async fn what_arrived_before_a_break_is_not_sent_again_wherever_it_breaks() {
    let pieces: [&[u8]; 4] = [b"first", b"second", b"third", b"and the fourth"];
    let whole = parts(&pieces).await.concat();
    for at in 0..=whole.len() {
        let io = disk();
        let mut broken = cut(&whole[..at]);
        broken.push(Err(MachineFault::new("gone")));
        let refused = receive_on(&io, Received::default(), broken).await;
        assert!(matches!(refused, Err(InstallError::Sender(_))), "{refused:?}");
        let here = received(&io, 9);
        let (behind, rest) = parts_behind(9, here, &pieces).await;
        assert_eq!(behind, here);
        let rest = rest.concat();
        let kept =
            usize::try_from(here.bytes).unwrap() + PIECE_PREFIX_BYTES * usize::try_from(here.pieces).unwrap();
        assert_eq!(rest.len() + kept, whole.len(), "{at} bytes arrived, and all whole pieces of it are kept");
        let spool = receive_on(&io, behind, cut(&rest)).await.unwrap();
        assert_eq!(body_of(&spool).await, pieces.concat());
        drop(spool);
        assert!(io.list(Path::new("node")).unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_snapshot_of_another_entry_or_with_other_pieces_starts_anew() {
    let io = disk();
    let whole = parts(&[b"first", b"second"]).await.concat();
    let broken = receive_on(&io, Received::default(), cut(&whole[..whole.len() - END_BYTES])).await;
    assert!(matches!(broken, Err(InstallError::Body(ENDS_EARLY))), "{broken:?}");
    let here = received(&io, 9);
    assert_eq!(here.pieces, 2);
    assert_eq!(received(&io, 10), Received::default(), "nothing is here of that one");
    assert_eq!(parts_behind(9, here, &[b"first", b"other."]).await.0, Received::default());
    assert_eq!(parts_behind(9, here, &[b"first"]).await.0, Received::default());

    // What comes behind something else than is here changes nothing.
    let (behind, rest) = parts_behind(10, here, &[b"first", b"second", b"third"]).await;
    let refused = receive_on(&io, behind, cut(&rest.concat())).await;
    assert!(matches!(refused, Err(InstallError::Elsewhere)), "{refused:?}");
    assert_eq!(received(&io, 9), here);
    let (_, anew) = parts_behind(10, Received::default(), &[b"another"]).await;
    let spool = receive_on(&io, Received::default(), cut(&anew.concat())).await.unwrap();
    assert_eq!((body_of(&spool).await, &spool.header), (b"another".to_vec(), &header(10)));
}

#[tokio::test]
async fn damage_leaves_no_file() {
    let io = disk();
    let mut whole = parts(&[b"first"]).await.concat();
    let last = whole.len() - END_BYTES - 1;
    whole[last] ^= 1;
    assert!(matches!(receive_on(&io, Received::default(), cut(&whole)).await, Err(InstallError::Body(_))));
    assert!(io.list(Path::new("node")).unwrap().is_empty());
}
