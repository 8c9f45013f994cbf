//! Damage of every file at every place: what is read is right or an error, never wrong, never a panic.

use std::path::{Path, PathBuf};

use gapless_log::io::faulty::FaultyIo;
use gapless_log::io::{Io, OpenMode, read_exact_at, write_all_at};
use gapless_store::{BucketId, Direction, OpenError, ReadError, Space, Store};

use crate::model::{Change, DIR, Model, batch_of, get, open_on, put, synced};

/// A store of several runs, one of them with many blocks, and buckets.
fn sample() -> (FaultyIo, Model) {
    let io = FaultyIo::new(1);
    let (mut store, _) = open_on(&io).unwrap();
    let mut model = Model::default();
    let bucket = Space::Bucket(BucketId(4));
    let many: Vec<_> = (0..120).map(|number| put(&format!("key/{number:03}"), &"x".repeat(60))).collect();
    let few = vec![put("key/007", "new"), Change::Delete(Space::Main, b"key/008".to_vec())];
    let rows = vec![Change::Put(bucket, b"a".to_vec(), b"1".to_vec())];
    for (number, changes) in [many, few, rows].into_iter().enumerate() {
        store.apply(&batch_of(&changes)).unwrap();
        model.apply(&changes);
        let (offset, proof) = synced(number as u64 + 1);
        store.checkpoint(offset, proof).unwrap();
    }
    model.check(&store).unwrap();
    (io, model)
}

fn files(io: &FaultyIo) -> Vec<PathBuf> {
    let mut names = io.list(Path::new(DIR)).unwrap();
    names.sort_unstable();
    names.into_iter().map(|name| Path::new(DIR).join(name)).collect()
}

/// Opens and reads everything; whether anything was noticed.
fn is_noticed(io: &FaultyIo, model: &Model, context: &str) -> bool {
    let store = match open_on(io) {
        Ok((store, _)) => store,
        Err(OpenError::Damaged(damage)) => {
            assert!(damage.path.starts_with(DIR), "{context}: {damage}");
            return true;
        }
        Err(error) => panic!("{context}: {error}"),
    };
    let scanned = model.check(&store);
    // A scan stops at the first damage. Each key alone is right or an error, too.
    let mut noticed = false;
    for (space, key, value) in model.everything() {
        match get(&store, space, &key) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "{context}"),
            Err(error) => noticed |= is_damage(&error, context),
        }
    }
    for missing in ["key/008", "key/", "zzz"] {
        match store.get(missing.as_bytes()) {
            Ok(found) => assert_eq!(found, None, "{context}"),
            Err(error) => noticed |= is_damage(&error, context),
        }
    }
    match scanned {
        Ok(()) => noticed,
        Err(error) => is_damage(&error, context),
    }
}

fn is_damage(error: &ReadError, context: &str) -> bool {
    assert!(matches!(error, ReadError::Damaged(_)), "{context}: {error}");
    true
}

#[test]
fn every_flipped_bit_is_noticed_by_whoever_reads_it() {
    let (io, model) = sample();
    assert!(!is_noticed(&io.fork(0), &model, "whole"));
    for path in files(&io) {
        let length = io.memory().bytes_of(&path).unwrap().len() as u64;
        assert!(length > 50);
        for offset in 0..length {
            let fork = io.fork(offset);
            let bit = u8::try_from(offset % 8).unwrap();
            fork.flip_bit(&path, offset, bit).unwrap();
            let context = format!("{} at {offset}", path.display());
            assert!(is_noticed(&fork, &model, &context), "{context}: nobody noticed");
        }
    }
}

#[test]
fn every_shorter_or_longer_file_is_noticed() {
    let (io, model) = sample();
    for path in files(&io) {
        let length = io.memory().bytes_of(&path).unwrap().len() as u64;
        let lengths = (0..length).step_by(13).chain([length - 1, length + 1, length + 4096]);
        for changed in lengths {
            let fork = io.fork(changed);
            fork.truncate_file(&path, changed).unwrap();
            let context = format!("{} cut to {changed} of {length}", path.display());
            assert!(is_noticed(&fork, &model, &context), "{context}: nobody noticed");
        }
    }
}

#[test]
fn zeroed_sectors_are_noticed() {
    let (io, model) = sample();
    for path in files(&io) {
        let length = io.memory().bytes_of(&path).unwrap().len() as u64;
        for start in (0..length).step_by(512) {
            let fork = io.fork(start);
            fork.zero_range(&path, start..start + 512).unwrap();
            assert!(is_noticed(&fork, &model, &format!("{} zeros at {start}", path.display())));
        }
    }
}

#[test]
fn blocks_and_files_in_each_others_place_are_noticed() {
    let (io, model) = sample();
    let files = files(&io);
    let bytes_of = |path: &PathBuf| io.memory().bytes_of(path).unwrap();
    for (to, from) in files.iter().flat_map(|to| files.iter().map(move |from| (to, from))) {
        if to == from {
            continue;
        }
        let fork = io.fork(1);
        let file = fork.open(to, OpenMode::Create).unwrap();
        write_all_at(&*file, &bytes_of(from), 0).unwrap();
        assert!(is_noticed(&fork, &model, &format!("{} in {}", from.display(), to.display())));
    }
    // The longest file has several blocks of rows of the same length.
    let path = files.iter().max_by_key(|path| bytes_of(path).len()).unwrap();
    let fork = io.fork(1);
    let file = fork.open(path, OpenMode::Write).unwrap();
    let mut block = vec![0; 1000];
    read_exact_at(&*file, &mut block, 16).unwrap();
    write_all_at(&*file, &block, 4300).unwrap();
    assert!(is_noticed(&fork, &model, "a part of the first block behind the first"));
}

#[test]
fn a_run_of_another_store_under_the_same_name_is_noticed() {
    let ios = ["one", "two"].map(|value| {
        let io = FaultyIo::new(1);
        let (mut store, _) = open_on(&io).unwrap();
        store.apply(&batch_of(&[put("key", value)])).unwrap();
        let (offset, proof) = synced(1);
        store.checkpoint(offset, proof).unwrap();
        io
    });
    let run = files(&ios[0]).remove(0);
    let others = ios[1].memory().bytes_of(&run).unwrap();
    assert_eq!(others.len(), ios[0].memory().bytes_of(&run).unwrap().len());
    ios[0].memory().overwrite(&run, 0, &others).unwrap();
    assert!(matches!(open_on(&ios[0]), Err(OpenError::Damaged(damage)) if damage.path == run));
}

#[test]
fn a_missing_run_is_damage_and_a_missing_checkpoint_an_empty_store() {
    let (io, model) = sample();
    for path in files(&io) {
        let fork = io.fork(0);
        fork.delete_file(&path).unwrap();
        if path.ends_with("CHECKPOINT") {
            let (store, opened) = open_on(&fork).unwrap();
            assert_eq!(opened.offset.get(), 0, "the owner folds its whole log");
            Model::default().check(&store).unwrap();
        } else {
            assert!(is_noticed(&fork, &model, "missing"));
        }
    }
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (io, _) = sample();
    let path = Path::new(DIR).join("CHECKPOINT");
    let mut bytes = io.memory().bytes_of(&path).unwrap();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    io.memory().overwrite(&path, 0, &bytes).unwrap();
    let error = open_on(&io).unwrap_err();
    assert!(matches!(error, OpenError::UnknownVersion { version: 2, .. }));
    assert_eq!(error.to_string(), "state/CHECKPOINT has format version 2; this program knows version 1");
}

#[test]
fn a_damaged_store_is_discarded_and_built_anew() {
    let (io, model) = sample();
    let path = files(&io).pop().unwrap();
    assert!(path.ends_with("CHECKPOINT"));
    io.flip_bit(&path, 20, 1).unwrap();
    assert!(matches!(open_on(&io), Err(OpenError::Damaged(_))));
    Store::discard(std::sync::Arc::new(io.clone()), DIR).unwrap();
    assert_eq!(files(&io), Vec::<PathBuf>::new());
    let (mut store, opened) = open_on(&io).unwrap();
    assert_eq!(opened.offset.get(), 0);
    let rows = model.everything().into_iter().map(|(space, key, value)| Change::Put(space, key, value));
    store.apply(&batch_of(&rows.collect::<Vec<_>>())).unwrap();
    let (offset, proof) = synced(3);
    store.checkpoint(offset, proof).unwrap();
    model.check(&store).unwrap();
}

#[test]
fn damage_found_by_a_merge_or_a_scan_is_an_error_and_the_rest_goes_on() {
    let (io, model) = sample();
    let (mut store, _) = open_on(&io).unwrap();
    let longest =
        files(&io).into_iter().max_by_key(|path| io.memory().bytes_of(path).unwrap().len()).unwrap();
    io.flip_bit(&longest, 5000, 3).unwrap();
    let rows: Vec<_> = store.range::<&[u8]>(.., Direction::Forward).collect();
    assert!(rows.iter().rev().skip(1).all(Result::is_ok) && rows.last().unwrap().is_err());
    for number in 4..8 {
        store.apply(&batch_of(&[put(&format!("more/{number}"), &"y".repeat(9000))])).unwrap();
        let (offset, proof) = synced(number);
        store.checkpoint(offset, proof).unwrap();
    }
    let mut failed = false;
    for _ in 0..100 {
        match store.maintain(1 << 20) {
            Ok(gapless_store::Maintained::Idle) => break,
            Ok(_) => {}
            Err(error) => {
                assert!(error.to_string().contains("is damaged"), "{error}");
                failed = true;
                break;
            }
        }
    }
    assert!(failed, "the merge reads the damaged run");
    assert_eq!(store.get(b"more/7").unwrap().unwrap().len(), 9000);
    assert_eq!(get(&store, Space::Bucket(BucketId(4)), b"a").unwrap(), Some(b"1".to_vec()));
    assert_eq!(model.get(Space::Main, b"key/007"), Some(&b"new"[..]));
}
