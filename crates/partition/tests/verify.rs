//! Verification of a partition at rest: it finds nothing where nothing is wrong, names the outcome where something is, and
//! changes nothing.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::Log;
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{
    Entry, Header, NewId, Operation, Outcome, OutcomeKind, Phase, Place, Scratch, StoreCheck, Verified,
    VerifyError, Write, verify,
};
use gapless_store::{Batch, Offset, Store, Synced};
use gapless_types::{Position, WorkspaceOffset};
use harness::commands::commands;
use harness::{Bench, DIR, ID, define_command, definition, event, options, record, workspace, write_command};

const COMMANDS: usize = 320;

/// A partition with everything in it, stopped; its checkpoint is in front of the end.
fn stopped(disk: &MemoryIo) -> u64 {
    let mut bench = Bench::on(Arc::new(disk.clone()), options());
    for (at, command) in commands(COMMANDS).into_iter().enumerate() {
        bench.time = 1000 + at as u64;
        bench.apply(command);
    }
    for key in 0..300 {
        bench.apply(write_command(key % 7 + 1, &event(4)));
        bench.apply(write_command(1000 + key, &event(4)));
    }
    bench.partition().checkpoint().unwrap();
    for _ in 0..20 {
        bench.commit(&event(1));
    }
    bench.partition().sync().unwrap();
    bench.commands.len() as u64
}

fn scratch() -> Scratch {
    Scratch { io: Arc::new(MemoryIo::new()), dir: "scratch".into() }
}

fn verified(disk: &MemoryIo) -> Verified {
    try_verify(disk).unwrap()
}

fn try_verify(disk: &MemoryIo) -> Result<Verified, VerifyError> {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    verify(&io, DIR, &scratch(), &mut |_| {})
}

/// Every file of a partition.
fn files(disk: &MemoryIo) -> BTreeMap<PathBuf, Vec<u8>> {
    let parts = ["log", "store"].map(|part| Path::new(DIR).join(part));
    let paths = parts.iter().flat_map(|dir| disk.list(dir).unwrap().into_iter().map(|name| dir.join(name)));
    paths.map(|path| (path.clone(), disk.bytes_of(&path).unwrap())).collect()
}

/// Puts rows into the store behind the partition's back.
fn change_store(disk: &MemoryIo, change: impl FnOnce(&Store, &mut Batch)) {
    let dir = Path::new(DIR).join("store");
    let (mut store, opened) =
        Store::open(Arc::new(disk.clone()), dir, options().store, &options().budget).unwrap();
    let mut batch = Batch::new();
    change(&store, &mut batch);
    store.apply(&batch).unwrap();
    store.checkpoint(opened.offset, Synced::by_a_sync_up_to(opened.offset)).unwrap();
}

/// A log with the same records but for one, written as a log writes them: no checksum tells.
fn forge(disk: &MemoryIo, position: u64, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> MemoryIo {
    let dir = Path::new(DIR).join("log");
    let (log, _) = Log::open(Arc::new(disk.fork()), &dir, options().log).unwrap();
    let forged = disk.fork();
    for name in forged.list(&dir).unwrap() {
        forged.remove(&dir.join(name)).unwrap();
    }
    let (copy, _) = Log::open(Arc::new(forged.clone()), &dir, options().log).unwrap();
    let mut change = Some(change);
    let mut at = Position::FIRST;
    while at < log.next() {
        let mut payload = log.read(at).unwrap().payload.to_vec();
        if at.get() == position {
            payload = change.take().unwrap()(payload);
        }
        let _durable_when_closed = copy.append_next(&[payload]).unwrap();
        at = at.next().unwrap();
    }
    copy.close().unwrap();
    forged
}

fn header_and_body(outcome: &[u8]) -> (Header<'_>, &[u8]) {
    Header::decode(outcome).unwrap()
}

/// Offset of an outcome that `wanted` picks, behind `from`.
fn find(disk: &MemoryIo, from: u64, wanted: impl Fn(&Header<'_>) -> bool) -> u64 {
    let (log, _) = Log::open(Arc::new(disk.fork()), Path::new(DIR).join("log"), options().log).unwrap();
    let mut at = Position::new(from);
    while !wanted(&header_and_body(&log.read(at).unwrap().payload).0) {
        at = at.next().unwrap();
    }
    at.get()
}

#[test]
fn a_sound_partition_is_sound_and_stays_as_it_was() {
    let disk = MemoryIo::new();
    let outcomes = stopped(&disk);
    let before = files(&disk);
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let mut phases = Vec::new();
    let verified = verify(&io, DIR, &scratch(), &mut |phase| phases.push(phase)).unwrap();
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!(verified.outcomes, outcomes);
    assert!(verified.events > 400 && verified.events < outcomes, "{verified:?}");
    let StoreCheck::Compared { checkpoint, rows, differing: 0 } = verified.store else {
        panic!("{verified:?}")
    };
    assert_eq!(checkpoint.get(), outcomes - 20);
    assert!(rows > outcomes, "{rows} rows");
    assert_eq!(phases.last(), Some(&Phase::Outcomes { done: outcomes, of: outcomes }));
    assert_eq!(files(&disk), before);
    // It can be opened as if nothing had happened.
    let mut bench = Bench::on(io, options());
    assert_eq!(bench.partition().applied().unwrap().get(), outcomes);
}

#[test]
fn a_partition_without_a_checkpoint_or_without_anything_is_sound() {
    let disk = MemoryIo::new();
    let mut bench = Bench::on(Arc::new(disk.clone()), options());
    bench.stop();
    assert_eq!(verified(&disk).store, StoreCheck::Empty);
    bench.open();
    for command in commands(50) {
        bench.apply(command);
    }
    bench.partition().flush().unwrap();
    bench.stop();
    let verified = verified(&disk);
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!((verified.outcomes, verified.store), (51, StoreCheck::Empty));
}

#[test]
fn a_store_that_is_gone_is_no_difference_and_a_log_that_is_gone_is_no_partition() {
    let disk = MemoryIo::new();
    let outcomes = stopped(&disk);
    let copy = MemoryIo::new();
    copy.create_dir(&Path::new(DIR).join("log")).unwrap();
    for (path, bytes) in files(&disk).into_iter().filter(|(path, _)| path.starts_with("partition/log")) {
        let file = copy.open(&path, gapless_log::io::OpenMode::Create).unwrap();
        gapless_log::io::write_all_at(&*file, &bytes, 0).unwrap();
    }
    let without_store = verified(&copy);
    assert!(without_store.is_sound(), "{without_store:?}");
    assert_eq!((without_store.outcomes, without_store.store), (outcomes, StoreCheck::Empty));
    let empty = MemoryIo::new();
    empty.create_dir(&Path::new(DIR).join("log")).unwrap();
    assert!(matches!(try_verify(&empty), Err(VerifyError::NoLog)));
}

#[test]
fn a_partition_that_somebody_has_open_is_left_alone() {
    let disk = MemoryIo::new();
    let _bench = Bench::on(Arc::new(disk.clone()), options());
    let refused = try_verify(&disk);
    assert!(matches!(refused, Err(VerifyError::Log(_))), "{refused:?}");
}

#[test]
fn every_row_of_the_store_counts_and_the_outcome_of_a_changed_one_is_named() {
    let disk = MemoryIo::new();
    stopped(&disk);
    let mut rows = Vec::new();
    change_store(&disk.fork(), |store, _| {
        rows = store.everything().map(Result::unwrap).collect();
    });
    let mut kinds = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(5);
    let mut changed = 0;
    for (space, key, value) in &rows {
        let kind = if let gapless_store::Space::Bucket(_) = space { 255 } else { key[0] };
        // The version is what tells that a store is ours at all; the offset beside the numbers is only a hint, if lower.
        if kind == 0 || kind == 2 || (random.u8(..20) > 0 && kinds.get(&kind).is_some_and(|seen| *seen > 3)) {
            continue;
        }
        *kinds.entry(kind).or_insert(0) += 1;
        let disk = disk.fork();
        let mut other = value.to_vec();
        let at = random.usize(..other.len());
        other[at] ^= 1 << random.u8(..8);
        change_store(&disk, |_, batch| match space {
            gapless_store::Space::Main => batch.put(key, &other).unwrap(),
            gapless_store::Space::Bucket(bucket) => {
                batch.delete_in(*bucket, key).unwrap();
                batch.put_in(*bucket, key, &other).unwrap();
            }
        });
        let verified = verified(&disk);
        let difference = verified.first_difference.clone().unwrap_or_else(|| panic!("{space:?} {key:?}"));
        assert_eq!(difference.place, Place::Store);
        assert!(!verified.is_sound());
        let StoreCheck::Compared { differing, .. } = verified.store else { panic!("{verified:?}") };
        assert_eq!(differing, 1, "{difference}");
        match kind {
            5 => assert_eq!(difference.offset.get(), u64::from_le_bytes(value[..8].try_into().unwrap())),
            9 => assert_eq!(difference.offset.get(), u64::from_be_bytes(key[7..].try_into().unwrap())),
            255 => assert_eq!(difference.offset.get(), u64::from_le_bytes(value[16..24].try_into().unwrap())),
            _ => {}
        }
        if kind != 3 {
            assert_eq!(difference.byte, Some(at), "{difference}");
        }
        changed += 1;
    }
    assert_eq!(kinds.len(), 10, "every kind of row was changed: {kinds:?}");
    assert!(changed > 60, "{changed} rows were changed");
}

#[test]
fn numbers_that_are_too_low_or_too_high_are_named() {
    let disk = MemoryIo::new();
    stopped(&disk);
    // The events of workspace 1: kind 3, namespace 7, workspace 1, sequence 1.
    let key = [&[3, 0, 0, 0, 7][..], &1_u64.to_be_bytes(), &[0, 1]].concat();
    let last = |store: &Store| u64::from_le_bytes(store.get(&key).unwrap().unwrap()[..].try_into().unwrap());
    for change in [|number: u64| number - 1, |number| number + 1, |_| 0, |_| u64::MAX] {
        let disk = disk.fork();
        let mut other = 0;
        change_store(&disk, |store, batch| {
            other = change(last(store));
            batch.put(&key, &other.to_le_bytes()).unwrap();
        });
        let verified = verified(&disk);
        let difference = verified.first_difference.clone().unwrap_or_else(|| panic!("{other}"));
        assert_eq!(difference.what, format!("number {other} of sequence 1 of workspace 1"));
        assert!(!verified.is_sound());
    }
}

#[test]
fn an_imported_id_below_the_highest_one_takes_nothing_back() {
    let disk = MemoryIo::new();
    let mut bench = Bench::on(Arc::new(disk.clone()), options());
    bench.apply(define_command(&definition()));
    let create = |id| Operation::CreateRecord { id, record_type: "order", fields: Vec::new(), parent: None };
    for id in [NewId::Explicit(300_000), NewId::Explicit(250_000)] {
        bench.commit(&Write { operations: vec![create(id)], ..event(1) });
    }
    bench.partition().checkpoint().unwrap();
    bench.commit(&Write { operations: vec![create(NewId::Raw(1))], ..event(1) });
    bench.partition().sync().unwrap();
    drop(bench);
    let verified = verified(&disk);
    assert_eq!(verified.first_difference, None);
    assert!(verified.is_sound());
}

#[test]
fn rows_that_are_missing_or_too_many_are_named() {
    let disk = MemoryIo::new();
    stopped(&disk);
    let gone = disk.fork();
    let place = Entry::Event(workspace(1), 3).key(ID);
    change_store(&gone, |_, batch| batch.delete(&place).unwrap());
    let difference = verified(&gone).first_difference.unwrap();
    assert_eq!(difference.what, "the index row of an event of workspace 1 missing");
    change_store(&disk, |_, batch| batch.put(&Entry::Event(workspace(1), 9999).key(ID), b"?").unwrap());
    let difference = verified(&disk).first_difference.unwrap();
    assert_eq!(difference.what, "the index row of an event of workspace 1 that should not be there");
}

type Change = fn(&mut Header<'_>);

#[test]
fn a_forged_log_is_found_by_its_own_numbers() {
    let disk = MemoryIo::new();
    stopped(&disk);
    let target = find(&disk, 100, |header| header.kind == OutcomeKind::Event && !header.numbers.is_empty());
    let cases: [(&str, Change); 7] = [
        ("workspace offset", |header| header.workspace_offset = WorkspaceOffset::new(77)),
        ("client sequence", |header| header.client_sequence = None),
        ("number", |header| header.numbers[0].1 += 1),
        ("highest record", |header| header.highest_record = gapless_types::RecordId::new(300_000)),
        ("time", |header| header.time = 3),
        ("workspace kind", |header| header.workspace_kind = None),
        ("outcome", |header| header.kind = OutcomeKind::Definition),
    ];
    for (what, change) in cases {
        let forged = forge(&disk, target, |outcome| {
            let (mut header, body) = header_and_body(&outcome);
            change(&mut header);
            let mut bytes = Vec::new();
            header.encode(body, &mut bytes);
            bytes
        });
        let verified = verified(&forged);
        let difference = verified.first_difference.clone().unwrap_or_else(|| panic!("{what}"));
        assert_eq!((difference.offset.get(), difference.place), (target, Place::Log), "{what}: {difference}");
        assert_eq!((verified.outcomes, verified.store), (target - 1, StoreCheck::NotReached), "{what}");
    }
}

#[test]
fn a_log_that_is_forged_without_a_contradiction_is_found_by_the_leaf_in_the_store() {
    let disk = MemoryIo::new();
    stopped(&disk);
    let target = find(&disk, 100, |header| header.kind == OutcomeKind::Event);
    let forged = forge(&disk, target, |outcome| {
        // Another payload, and a digest that fits it.
        let (header, body) = header_and_body(&outcome);
        let write = Write::decode(body).unwrap();
        let mut body = Vec::new();
        Write { payload: b"forged", ..write }.encode(&mut body);
        let header = Header { digest: gapless_partition::RequestDigest::of(&body), ..header };
        let mut bytes = Vec::new();
        header.encode(&body, &mut bytes);
        bytes
    });
    let verified = verified(&forged);
    let difference = verified.first_difference.unwrap();
    assert_eq!((difference.offset.get(), difference.place), (target, Place::Store), "{difference}");
}

#[test]
fn a_key_that_was_executed_twice_is_found() {
    let disk = MemoryIo::new();
    let mut bench = Bench::on(Arc::new(disk.clone()), options());
    bench.apply(harness::define_command(&harness::definition()));
    bench.apply(write_command(1, &event(1)));
    bench.apply(write_command(2, &event(1)));
    bench.partition().sync().unwrap();
    bench.stop();
    let forged = forge(&disk, 3, |outcome| {
        let (header, body) = header_and_body(&outcome);
        let mut bytes = Vec::new();
        Header { key: Some(harness::idempotency_key(1)), ..header }.encode(body, &mut bytes);
        bytes
    });
    let difference = verified(&forged).first_difference.unwrap();
    assert_eq!(difference.offset.get(), 3);
    assert_eq!(difference.what, "a key that was decided before, elsewhere");
}

#[test]
fn a_record_that_cannot_be_read_is_named() {
    let disk = MemoryIo::new();
    stopped(&disk);
    let sound = verified(&disk);
    let mut named = 0;
    for (path, bytes) in files(&disk) {
        if !path.starts_with(Path::new(DIR).join("log")) {
            continue;
        }
        for place in (0..bytes.len()).step_by(3001).filter(|place| bytes[*place] != 0) {
            let disk = disk.fork();
            disk.overwrite(&path, place as u64, &[bytes[place] ^ 4]).unwrap();
            let verified = match try_verify(&disk) {
                Ok(verified) => verified,
                // Seen as the torn end of a crash; but the checkpoint knows better.
                Err(VerifyError::LogTooShort { .. }) => continue,
                Err(error) => panic!("{} at {place}: {error:?}", path.display()),
            };
            if let Some(difference) = &verified.first_difference {
                assert_eq!((difference.place, difference.offset.get()), (Place::Log, verified.outcomes + 1));
                assert!(difference.what.contains("cannot be read"), "{difference}");
                assert!(!verified.is_sound());
                named += 1;
            } else if verified.outcomes < sound.outcomes {
                assert!(verified.log_damage.iter().any(|damage| damage.segment.get() == 3), "{verified:?}");
            } else {
                assert_eq!(verified.store, sound.store, "{} at {place}", path.display());
            }
        }
    }
    assert!(named > 20, "{named} damaged records were named");
}

#[test]
fn a_damaged_store_is_said_to_be_unreadable_and_the_log_is_verified_all_the_same() {
    let disk = MemoryIo::new();
    let outcomes = stopped(&disk);
    let mut unreadable = 0;
    for (path, bytes) in files(&disk) {
        if !path.starts_with(Path::new(DIR).join("store")) {
            continue;
        }
        for part in 0..8 {
            let disk = disk.fork();
            let place = bytes.len() * part / 8;
            let Some(byte) = bytes.get(place) else { continue };
            disk.overwrite(&path, place as u64, &[byte ^ 0x20]).unwrap();
            let verified = verified(&disk);
            assert_eq!(verified.outcomes, outcomes, "{} at {place}", path.display());
            match &verified.store {
                StoreCheck::Unreadable(_) => {
                    unreadable += 1;
                    assert!(!verified.is_sound());
                }
                other => assert!(verified.is_sound(), "{} at {place}: {other:?}", path.display()),
            }
        }
    }
    assert!(unreadable > 8, "{unreadable} stores could not be read");
}

#[test]
fn numbers_that_lag_behind_the_checkpoint_are_no_difference() {
    let disk = MemoryIo::new();
    let mut options = options();
    // Memory runs full, so that checkpoints are made in the middle of things.
    options.budget = gapless_store::Budget::new(24 << 10, 1 << 20);
    options.store.memtable_bytes = 1 << 30;
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let (mut partition, _) = gapless_partition::Partition::open(&io, DIR, ID, &options).unwrap();
    for (at, command) in commands(COMMANDS).iter().enumerate() {
        let outcome = partition.apply(&record(at as u64, 1000 + at as u64, command)).unwrap();
        assert!(!matches!(outcome, Outcome::Duplicate { .. }));
    }
    assert!(partition.checkpointed().is_some());
    partition.flush().unwrap();
    drop(partition);
    let verified = verified(&disk);
    assert!(verified.is_sound(), "{verified:?}");
    let StoreCheck::Compared { checkpoint, .. } = verified.store else { panic!("{verified:?}") };
    assert!(Offset::new(checkpoint.get()) < Offset::new(COMMANDS as u64));
}

#[test]
fn a_log_without_its_start_cannot_be_verified_and_says_so() {
    let disk = MemoryIo::new();
    let outcomes = stopped(&disk);
    for first in [2, outcomes + 1] {
        let disk = disk.fork();
        let dir = Path::new(DIR).join("log");
        let (log, _) = Log::open(Arc::new(disk.clone()), &dir, options().log).unwrap();
        log.release_to(Position::new(first)).unwrap().wait().unwrap();
        log.close().unwrap();
        let refused = try_verify(&disk);
        assert!(matches!(refused, Err(VerifyError::Released(found)) if found == first), "{refused:?}");
    }
}
