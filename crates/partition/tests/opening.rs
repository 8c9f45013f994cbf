//! What opening answers when log and store do not fit each other, or the rows are not those of this program.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use std::path::Path;
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{Entry, OpenError, Partition};
use gapless_store::{Batch, Offset, Store, Synced};
use harness::{Bench, DIR, ID, event, options, workspace};

/// A partition of three outcomes with a checkpoint, stopped.
fn stopped() -> (Arc<MemoryIo>, Bench, [u8; 32]) {
    let disk = Arc::new(MemoryIo::new());
    let mut bench = Bench::on(disk.clone() as Arc<dyn Io>, options());
    bench.apply(harness::define_command(&harness::definition()));
    bench.commit(&event(1));
    bench.commit(&event(2));
    let digest = bench.digest();
    bench.partition().checkpoint().unwrap();
    bench.stop();
    (disk, bench, digest)
}

/// Changes rows behind the partition's back.
fn change_rows(disk: &Arc<MemoryIo>, rows: &[(&[u8], &[u8])]) {
    let (mut store, _) =
        Store::open(disk.clone(), format!("{DIR}/store"), options().store, &options().budget).unwrap();
    let mut batch = Batch::new();
    for (key, value) in rows {
        batch.put(key, value).unwrap();
    }
    store.apply(&batch).unwrap();
    store.checkpoint(Offset::new(3), Synced::by_a_sync_up_to(Offset::new(3))).unwrap();
}

#[test]
fn a_log_that_ends_in_front_of_the_checkpoint_is_not_opened() {
    let (disk, bench, _) = stopped();
    let log = Path::new(DIR).join("log");
    for entry in disk.list(&log).unwrap() {
        disk.remove(&log.join(entry)).unwrap();
    }
    let opened = Partition::open(&bench.io, DIR, ID, &bench.options);
    assert!(matches!(opened, Err(OpenError::LogTooShort { checkpoint: 3, next: 1 })), "{opened:?}");
}

#[test]
fn rows_of_a_newer_version_are_left_alone() {
    let (disk, bench, _) = stopped();
    change_rows(&disk, &[(&[0], &3_u32.to_le_bytes())]);
    let opened = Partition::open(&bench.io, DIR, ID, &bench.options);
    assert!(matches!(opened, Err(OpenError::UnknownRows(3))), "{opened:?}");
}

#[test]
fn rows_of_an_older_version_are_made_anew_from_the_log() {
    let (disk, mut bench, digest) = stopped();
    change_rows(&disk, &[(&[0], &1_u32.to_le_bytes())]);
    let opened = bench.open();
    assert_eq!(
        opened.rebuilt.as_deref(),
        Some("the rows of the store have version 1; this program knows version 2")
    );
    assert_eq!((opened.checkpoint, opened.folded), (None, 3));
    assert_eq!(bench.digest(), digest);
    assert_eq!(bench.commit(&event(1)).workspace_offset.get(), 2);
}

#[test]
fn a_store_that_turns_out_to_lack_a_leaf_while_folding_is_rebuilt_and_goes_on() {
    let disk = Arc::new(MemoryIo::new());
    let mut bench = Bench::on(disk.clone() as Arc<dyn Io>, options());
    bench.apply(harness::define_command(&harness::definition()));
    for _ in 0..255 {
        bench.commit(&event(1));
    }
    bench.partition().checkpoint().unwrap();
    bench.commit(&event(1));
    bench.partition().flush().unwrap();
    let digest = bench.digest();
    bench.stop();
    let (mut store, opened) =
        Store::open(disk, format!("{DIR}/store"), options().store, &options().budget).unwrap();
    let mut batch = Batch::new();
    batch.delete(&Entry::Event(workspace(1), 100).key(ID)).unwrap();
    store.apply(&batch).unwrap();
    store.checkpoint(opened.offset, Synced::by_a_sync_up_to(opened.offset)).unwrap();
    drop(store);
    // The 256th event makes the root of a subtree, and there is a leaf missing below it.
    let opened = bench.open();
    assert!(opened.rebuilt.is_some_and(|why| why.contains("a hash missing")));
    assert_eq!((opened.checkpoint, opened.folded), (None, 257));
    assert_eq!(bench.digest(), digest);
    assert_eq!(bench.commit(&event(1)).workspace_offset.get(), 257);
    bench.partition().sync().unwrap();
}

#[test]
fn a_store_whose_rows_have_another_form_is_rebuilt() {
    let schema = [1, 0, 0, 0, 7];
    for rows in [(&[0][..], &b"no version"[..]), (&schema, b"no schema")] {
        let (disk, mut bench, digest) = stopped();
        change_rows(&disk, &[rows]);
        let opened = bench.open();
        assert_eq!((opened.checkpoint, opened.folded), (None, 3));
        assert!(opened.rebuilt.is_some());
        assert_eq!(bench.digest(), digest);
        assert_eq!(bench.commit(&event(1)).workspace_offset.get(), 2);
    }
}
