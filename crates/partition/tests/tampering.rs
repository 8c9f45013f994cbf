//! What a client checks of an event, and that nothing can be changed without its noticing: not a bit of the event, of the header
//! it kept, of a proof, or of what proofs are made from. The verifier in another language comes to the same verdicts.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fastrand::Rng;
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::real::RealIo;
use gapless_partition::proof::{
    BlockHeader, Frontier, Hash, Head, Subtree, verify_consistency, verify_inclusion,
};
use gapless_partition::{
    Direction, Entry, Header, NewId, Operation, OutcomeKind, Partition, TrustLevel, View, Write,
};
use gapless_store::{Batch, Store, Synced};
use gapless_types::{Position, WorkspaceId, WorkspaceOffset};
use harness::{Bench, DIR, ID, define_command, definition, event, options, record, workspace, write_command};
use serde_json::{Value, json};

/// All that a client has of an event, and the later head that it trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    event: Vec<u8>,
    header: Vec<u8>,
    head: Head,
    inclusion: Vec<Hash>,
    consistency: Vec<Hash>,
}

impl Claim {
    fn of(view: &View, id: WorkspaceId, offset: WorkspaceOffset, head: Head) -> Self {
        let header = view.block_header(id, offset).unwrap();
        let event = view.events(id, offset, 1, Direction::Forward).unwrap().remove(0);
        Self {
            event: event.bytes().to_vec(),
            header: header.encode().to_vec(),
            head,
            inclusion: view.inclusion_proof(id, offset, head.size).unwrap(),
            consistency: view.consistency_proof(id, header.head().size, head.size).unwrap(),
        }
    }

    /// The check, in a few lines.
    fn holds(&self) -> bool {
        let Ok(header) = BlockHeader::decode(&self.header) else { return false };
        let Ok((event, _)) = Header::decode(&self.event) else { return false };
        event.kind == OutcomeKind::Event
            && Hash::of_leaf(&self.event) == header.leaf
            && event.workspace_offset.is_some_and(|offset| offset.get() == header.height.get())
            && (event.time, event.log_index.get()) == (header.time, header.log_index)
            && verify_inclusion(header.leaf, header.height.index(), &self.head, &self.inclusion).is_ok()
            && verify_consistency(&header.head(), &self.head, &self.consistency).is_ok()
    }

    fn to_json(&self) -> Value {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let texts = |proof: &[Hash]| proof.iter().map(Hash::to_string).collect::<Vec<_>>();
        json!({
            "kind": "block",
            "event": hex(&self.event),
            "header": hex(&self.header),
            "size": self.head.size.get(),
            "root": self.head.root.to_string(),
            "proof": texts(&self.inclusion),
            "consistency": texts(&self.consistency),
        })
    }

    /// How many bits it has that are not the client's own knowledge of the head.
    fn bits(&self) -> usize {
        8 * (self.event.len() + self.header.len() + 32 * (self.inclusion.len() + self.consistency.len()))
    }

    /// With one bit changed.
    fn with_bit(&self, bit: usize) -> Self {
        let mut claim = self.clone();
        let flipped = flip(&mut claim.event, bit)
            .and_then(|bit| flip(&mut claim.header, bit))
            .and_then(|bit| flip_in(&mut claim.inclusion, bit))
            .and_then(|bit| flip_in(&mut claim.consistency, bit));
        assert_eq!(flipped, None, "there is such a bit");
        claim
    }
}

/// Changes a bit; if it lies behind the end, how far.
fn flip(bytes: &mut [u8], bit: usize) -> Option<usize> {
    match bytes.get_mut(bit / 8) {
        Some(byte) => *byte ^= 1 << (bit % 8),
        None => return Some(bit - 8 * bytes.len()),
    }
    None
}

fn flip_in(proof: &mut [Hash], bit: usize) -> Option<usize> {
    match proof.get_mut(bit / 256) {
        Some(hash) => {
            let mut bytes = *hash.as_bytes();
            flip(&mut bytes, bit % 256);
            *hash = Hash::from_bytes(bytes);
        }
        None => return Some(bit - 256 * proof.len()),
    }
    None
}

/// A workspace whose events have everything in them.
fn bench(events: u64) -> Bench {
    let mut bench = Bench::new();
    for at in 1..=events {
        let record = Operation::CreateRecord {
            id: NewId::Raw(1),
            record_type: "order",
            fields: Vec::new(),
            parent: None,
        };
        let operations = vec![record, Operation::NextNumber { sequence: "invoice" }];
        bench.time += at % 3;
        bench.commit(&Write { operations, ..event(1) });
        bench.commit(&event(2));
    }
    bench
}

fn offset(value: u64) -> WorkspaceOffset {
    WorkspaceOffset::new(value).unwrap()
}

#[test]
fn every_bit_of_an_event_a_header_and_a_proof_counts() {
    let mut bench = bench(9);
    let view = bench.partition().view().unwrap();
    let head = view.head(workspace(1)).unwrap();
    let mut changes = 0;
    for at in 1..=9 {
        let claim = Claim::of(&view, workspace(1), offset(at), head);
        assert!(claim.holds(), "{claim:?}");
        for bit in 0..claim.bits() {
            assert!(!claim.with_bit(bit).holds(), "bit {bit} of {claim:?}");
        }
        changes += claim.bits();
    }
    assert!(changes > 25_000, "{changes} bits");
}

/// Runs the verifier in another language; a line for each claim.
fn independent(claims: &[Value]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, claims).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verify_proof.py");
    let output = Command::new("python3").arg(&script).arg(file.path()).output().unwrap_or_else(|error| {
        panic!("this test runs {} and needs python3 on the PATH: {error}", script.display())
    });
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "the script has nothing to complain about");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_independent_verifier_accepts_the_partitions_proofs_and_nothing_else() {
    let mut bench = bench(300);
    let view = bench.partition().view().unwrap();
    let mut random = Rng::with_seed(4);
    let mut claims = Vec::new();
    for size in [1, 2, 7, 255, 256, 257, 300] {
        let head = view.head_of(workspace(1), gapless_partition::proof::TreeSize::new(size)).unwrap();
        for at in [1, 2, 6, 255, 256, 300].into_iter().filter(|at| *at <= size) {
            let claim = Claim::of(&view, workspace(1), offset(at), head);
            let bits: Vec<usize> = (0..20).map(|_| random.usize(..claim.bits())).collect();
            claims.extend(bits.into_iter().map(|bit| claim.with_bit(bit)));
            claims.push(claim);
        }
    }
    let lines = independent(&claims.iter().map(Claim::to_json).collect::<Vec<_>>());
    assert_eq!(lines.len(), claims.len());
    let mut accepted = 0;
    for (claim, line) in claims.iter().zip(&lines) {
        assert_eq!(line.ends_with(": ok"), claim.holds(), "{line}: {claim:?}");
        accepted += u32::from(claim.holds());
    }
    assert_eq!(accepted, 26, "as many as there are pairs of size and event above");
}

/// What proofs are made from lies in the store. Changed there, no proof that uses it holds against a head that somebody kept.
#[test]
fn every_bit_of_a_tile_counts() {
    const EVENTS: u64 = 257;
    let disk = Arc::new(MemoryIo::new());
    let mut bench = Bench::on(disk.clone(), options());
    bench.apply(define_command(&definition()));
    for _ in 0..EVENTS {
        bench.commit(&event(1));
    }
    let view = bench.partition().view().unwrap();
    let head = view.head(workspace(1)).unwrap();
    drop(view);
    bench.partition().checkpoint().unwrap();
    bench.stop();
    let mut random = Rng::with_seed(9);
    let leaf = |at| (Entry::Event(workspace(1), at), 8);
    let root = (Entry::Subtree(workspace(1), Subtree { level: 1, number: 0 }), 0);
    let changes =
        (0..256).map(|bit| (root, bit)).chain((1..=EVENTS).map(|at| (leaf(at), random.usize(..256))));
    for ((entry, start), bit) in changes {
        let fork = Arc::new(disk.fork());
        let dir = Path::new(DIR).join("store");
        let (mut store, opened) =
            Store::open(fork.clone(), &dir, options().store, &options().budget).unwrap();
        let mut row = store.get(&entry.key(ID)).unwrap().unwrap().to_vec();
        row[start + bit / 8] ^= 1 << (bit % 8);
        let mut batch = Batch::new();
        batch.put(&entry.key(ID), &row).unwrap();
        store.apply(&batch).unwrap();
        store.checkpoint(opened.offset, Synced::by_a_sync_up_to(opened.offset)).unwrap();
        drop(store);
        let io: Arc<dyn Io> = fork;
        let (mut partition, _) = Partition::open(&io, DIR, ID, &options()).unwrap();
        let view = partition.view().unwrap();
        match entry {
            // Beside the way of the last event.
            Entry::Subtree(..) => {
                assert_ne!(view.head(workspace(1)).unwrap(), head, "{entry}, bit {bit}");
                assert!(!Claim::of(&view, workspace(1), offset(EVENTS), head).holds(), "{entry}, bit {bit}");
            }
            Entry::Event(_, at) => {
                assert!(!Claim::of(&view, workspace(1), offset(at), head).holds(), "{entry}, bit {bit}");
                let beside = if at == EVENTS { at } else { ((at - 1) ^ 1) + 1 };
                assert!(!Claim::of(&view, workspace(1), offset(beside), head).holds(), "{entry}, bit {bit}");
            }
            Entry::Outcome(_) | Entry::Record(..) => unreachable!(),
        }
    }
}

/// Three levels of tiles. Proofs of any event under any size hold, and changed ones do not.
#[test]
fn a_workspace_of_a_million_events_proves_any_of_them() {
    const EVENTS: u64 = 1_000_000;
    const SAMPLES: usize = 120;
    // On real files: in memory it would be a gigabyte.
    let dir = tempfile::tempdir().unwrap();
    let io: Arc<dyn Io> = Arc::new(RealIo);
    let (mut partition, _) = Partition::open(&io, dir.path(), ID, &options()).unwrap();
    let mut definition = definition();
    definition.trust_level = TrustLevel::TrustAll;
    definition.idempotency.window_ms = 10;
    partition.apply(&record(0, 1, &define_command(&definition))).unwrap();
    let mut random = Rng::with_seed(11);
    let mut sizes: Vec<u64> = (0..SAMPLES).map(|_| random.u64(1..=EVENTS)).chain([EVENTS]).collect();
    sizes.sort_unstable();
    let mut wanted = sizes.iter().peekable();
    let (mut tree, mut heads) = (Frontier::default(), Vec::new());
    for at in 1..=EVENTS {
        partition.apply(&record(at, at, &write_command(at, &event(1)))).unwrap();
        if partition.wants_checkpoint() {
            partition.checkpoint().unwrap();
        }
    }
    partition.flush().unwrap();
    let (log, mut position) = (partition.log(), Position::new(2));
    while position < log.next() {
        for outcome in log.read_range(position, log.next(), 1 << 20).unwrap() {
            tree.append(Hash::of_leaf(&outcome.payload)).unwrap();
            while wanted.next_if(|size| **size == tree.size().get()).is_some() {
                heads.push(tree.head());
            }
            position = position.next().unwrap();
        }
    }
    let view = partition.view().unwrap();
    assert_eq!(heads.last(), Some(&view.head(workspace(1)).unwrap()));
    for head in heads {
        assert_eq!(view.head_of(workspace(1), head.size).unwrap(), head);
        let at = random.u64(1..=head.size.get());
        let claim = Claim::of(&view, workspace(1), offset(at), head);
        assert!(claim.holds(), "event {at} in {}", head.size);
        for _ in 0..50 {
            let bit = random.usize(..claim.bits());
            assert!(!claim.with_bit(bit).holds(), "event {at} in {}, bit {bit}", head.size);
        }
    }
}
