//! Entries that memory no longer holds are read by threads that may wait for a disk, never by one that runs tasks.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use gapless_consensus::network::Network;
use gapless_consensus::network::switchboard::Switchboard;
use gapless_consensus::{
    ClusterId, Committed, Config, Identity, Members, Node, NodeId, Replicator, Settings, Start,
};
use gapless_log::Options;
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{DirectoryLock, File, Io, OpenMode};
use gapless_types::{GroupId, LogIndex};

#[allow(dead_code, reason = "shared with other tests, which use all of it")]
#[path = "group/ledger.rs"]
mod ledger;

use ledger::{Ledger, Survives};

/// A disk that notes which threads read from it.
#[derive(Clone, Debug, Default)]
struct Watched {
    disk: MemoryIo,
    readers: Arc<Mutex<Vec<ThreadId>>>,
}

#[derive(Debug)]
struct WatchedFile(Arc<dyn File>, Watched);

impl Io for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(WatchedFile(self.disk.open(path, mode)?, self.clone())))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list_dirs(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock(dir)
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.1.readers.lock().unwrap().push(thread::current().id());
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.0.reserve(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn forget_cache(&self) -> io::Result<()> {
        self.0.forget_cache()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

async fn open(node: u64, disk: &Watched, board: &Switchboard, ledger: &Arc<Ledger>) -> Node {
    let members = Members::voting((1..=3).map(|node| (NodeId::new(node), node.to_string()))).unwrap();
    let cluster = ClusterId::from_bytes([1; 16]);
    let identity = Identity { cluster, group: GroupId::FIRST, node: NodeId::new(node) };
    let log = Options {
        first_segment_bytes: 256 << 10,
        segment_bytes: 256 << 10,
        hot_bytes: 4096,
        ..Options::replicated()
    };
    // Who leads goes on leading, also if the machine holds everybody up for a while.
    let settings = Settings { seed: node, election_timeout: Duration::from_secs(3), ..Settings::default() };
    let config =
        Config { log, settings, ..Config::new(identity, format!("node-{node}"), Start::Found(members)) };
    let network: Arc<dyn Network> = Arc::new(board.clone());
    let opened = Node::open(Arc::new(disk.clone()), network, ledger.clone(), config).await.unwrap();
    board.attach(NodeId::new(node), opened.inbound());
    opened
}

async fn leader(nodes: &[Node]) -> &Node {
    for _ in 0..10_000 {
        if let Some(leader) = nodes.iter().find(|node| node.leadership().borrow().is_ready()) {
            return leader;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody leads");
}

async fn caught_up(ledger: &Ledger, last: LogIndex) {
    for _ in 0..10_000 {
        if ledger.last() >= Some(last.get()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never got entry {last}");
}

fn entry(number: u64) -> Bytes {
    Bytes::from(vec![u8::try_from(number).unwrap(); 2000])
}

#[tokio::test]
async fn no_thread_that_runs_tasks_waits_for_the_disk() {
    let disks: Vec<Watched> = (1..=3).map(|_| Watched::default()).collect();
    let survives: Vec<Survives> = (1..=3).map(|_| Survives::default()).collect();
    let (mut indexes, mut applied) = (Vec::new(), Vec::new());
    // One of them is away each time and gets everything later; the second time everything is dispatched again, too, from a log of
    // which nothing is in memory.
    for round in 0..2 {
        let board = Switchboard::new(7);
        let (mut nodes, mut ledgers) = (Vec::new(), Vec::new());
        for node in 1..=3 {
            let at = usize::try_from(node - 1).unwrap();
            let ledger = Ledger::new(&survives[at]);
            nodes.push(open(node, &disks[at], &board, &ledger).await);
            ledgers.push(ledger);
        }
        let leader = leader(&nodes).await;
        let away = nodes.iter().find(|node| node.identity() != leader.identity()).unwrap();
        board.isolate(away.identity().node);
        for number in round * 100..(round + 1) * 100 {
            indexes.push(leader.propose(entry(number)).await.unwrap());
        }
        board.heal();
        let last = *indexes.last().unwrap();
        for ledger in &ledgers {
            caught_up(ledger, last).await;
        }
        let mut read: Vec<Committed> = Vec::new();
        while read.last().map(|entry| entry.index) < Some(last) {
            let from = read.last().map_or(LogIndex::FIRST, |entry| entry.index.next().unwrap());
            read.extend(leader.entries(from, LogIndex::MAX, 10_000).await.unwrap());
        }
        assert!(read.iter().map(|entry| entry.index.get()).eq(0..=last.get()), "in order, and all of them");
        applied = ledgers.iter().map(|ledger| ledger.proposals()).collect();
        for node in &nodes {
            node.close().await.unwrap();
        }
    }
    let expected: Vec<Bytes> = (0..200).map(entry).collect();
    assert!(applied.iter().all(|proposals| *proposals == expected));
    let here = thread::current().id();
    for disk in &disks {
        let readers = disk.readers.lock().unwrap();
        let (total, waited) = (readers.len(), readers.iter().filter(|&&reader| reader == here).count());
        assert!(
            total > 20 && waited == 0,
            "{waited} of {total} reads were made by the thread that runs tasks"
        );
    }
}
