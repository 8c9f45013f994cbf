//! What an owner sees: reading, buckets, snapshots, checkpoints, refusals.

use std::ops::Bound;
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, FaultyIo};
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::real::RealIo;
use gapless_store::limits::{MAX_BUCKETS, MAX_RUNS_PER_SPACE};
use gapless_store::{
    ApplyError, Batch, BucketId, CheckpointError, Direction, Maintained, Offset, OpenError, Options, Rows,
    Space, Store, Synced,
};

use crate::model::{Change, DIR, Model, batch_of, budget, delete, drop_bucket, open_on, put, put_in, synced};

fn keys(rows: Rows) -> Vec<String> {
    rows.map(|row| String::from_utf8(row.unwrap().0.to_vec()).unwrap()).collect()
}

fn checkpoint(store: &mut Store, offset: u64) {
    let (offset, proof) = synced(offset);
    store.checkpoint(offset, proof).unwrap();
}

fn settle(store: &mut Store) {
    while store.maintain(1 << 20).unwrap() != Maintained::Idle {}
}

/// The same rows in memory, in a checkpoint, and spread over both.
fn spread(rows: &[Change]) -> Vec<Store> {
    [0, rows.len() / 2, rows.len()]
        .map(|durable| {
            let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
            store.apply(&batch_of(&rows[..durable])).unwrap();
            checkpoint(&mut store, 1);
            store.apply(&batch_of(&rows[durable..])).unwrap();
            store
        })
        .into()
}

#[test]
fn ranges_and_prefixes_are_read_from_both_ends() {
    let rows: Vec<_> = ["a", "b/1", "b/2", "b/3", "c"].iter().map(|key| put(key, "v")).collect();
    for store in spread(&rows) {
        let all = |direction| keys(store.range::<&str>(.., direction));
        assert_eq!(all(Direction::Forward), ["a", "b/1", "b/2", "b/3", "c"]);
        assert_eq!(all(Direction::Backward), ["c", "b/3", "b/2", "b/1", "a"]);
        assert_eq!(keys(store.prefix(b"b/", Direction::Forward)), ["b/1", "b/2", "b/3"]);
        assert_eq!(keys(store.prefix(b"b/", Direction::Backward)), ["b/3", "b/2", "b/1"]);
        assert_eq!(keys(store.range("b/2"..="b/3", Direction::Backward)), ["b/3", "b/2"]);
        let between = (Bound::Excluded("b/1"), Bound::Excluded("c"));
        assert_eq!(keys(store.range::<&str>(between, Direction::Forward)), ["b/2", "b/3"]);
        assert_eq!(store.range("b/2"..="b/3", Direction::Forward).take(1).count(), 1);
        for empty in ["b/3".."b/1", "x".."y", "a".."a"] {
            assert_eq!(store.range(empty.clone(), Direction::Forward).count(), 0, "{empty:?}");
            assert_eq!(store.range(empty.clone(), Direction::Backward).count(), 0, "{empty:?}");
        }
    }
}

#[test]
fn ranges_over_many_blocks_find_their_ends() {
    let rows: Vec<_> = (0..500).map(|number| put(&format!("{:04}", number * 2), &"v".repeat(90))).collect();
    for store in spread(&rows) {
        for start in (0..1000).step_by(37) {
            let range = format!("{start:04}")..format!("{:04}", start + 60);
            let expected: Vec<_> = (start..start + 60)
                .filter(|key| key % 2 == 0 && *key < 1000)
                .map(|key| format!("{key:04}"))
                .collect();
            assert_eq!(keys(store.range(range.clone(), Direction::Forward)), expected);
            let mut backward = keys(store.range(range, Direction::Backward));
            backward.reverse();
            assert_eq!(backward, expected);
        }
    }
}

#[test]
fn a_deleted_row_is_gone_above_and_below_a_checkpoint() {
    for store in spread(&[put("a", "1"), put("b", "1"), delete("a"), put("b", "2")]) {
        assert_eq!(store.get(b"a").unwrap(), None);
        assert_eq!(&store.get(b"b").unwrap().unwrap()[..], b"2");
        assert_eq!(keys(store.range::<&str>(.., Direction::Forward)), ["b"]);
    }
}

#[test]
fn empty_keys_and_values_are_rows_like_others() {
    for store in spread(&[put("", "empty key"), put("empty value", "")]) {
        assert_eq!(&store.get(b"").unwrap().unwrap()[..], b"empty key");
        assert_eq!(&store.get(b"empty value").unwrap().unwrap()[..], b"");
        assert_eq!(keys(store.prefix(b"", Direction::Backward)), ["empty value", ""]);
    }
}

#[test]
fn large_rows_have_a_block_to_themselves() {
    let large = "x".repeat(3 << 20);
    for mut store in spread(&[put("a", "small"), put("large", &large), put("z", "small")]) {
        checkpoint(&mut store, 2);
        assert_eq!(store.get(b"large").unwrap().unwrap().len(), large.len());
        assert_eq!(keys(store.range::<&str>(.., Direction::Backward)), ["z", "large", "a"]);
    }
}

#[test]
fn the_same_key_means_different_rows_in_different_spaces() {
    for store in spread(&[put("k", "main"), put_in(1, "k", "one"), put_in(2, "k", "two")]) {
        assert_eq!(&store.get(b"k").unwrap().unwrap()[..], b"main");
        assert_eq!(&store.get_in(BucketId(1), b"k").unwrap().unwrap()[..], b"one");
        let (bucket, value) = store.find_in_buckets(b"k").unwrap().unwrap();
        assert_eq!((bucket, &value[..]), (BucketId(2), &b"two"[..]), "the highest bucket has it");
        assert_eq!(store.find_in_buckets(b"other").unwrap(), None);
        assert_eq!(store.get_in(BucketId(3), b"k").unwrap(), None);
        let spaces: Vec<_> = store.everything().map(|row| row.unwrap().0).collect();
        assert_eq!(spaces, [Space::Main, Space::Bucket(BucketId(1)), Space::Bucket(BucketId(2))]);
    }
}

#[test]
fn a_dropped_bucket_is_gone_with_its_rows_and_can_begin_again() {
    let changes =
        [put_in(1, "a", "1"), put_in(1, "b", "1"), put_in(2, "a", "2"), drop_bucket(1), put_in(1, "c", "3")];
    for store in spread(&changes) {
        assert_eq!(store.buckets().collect::<Vec<_>>(), [(BucketId(1), 1), (BucketId(2), 1)]);
        assert_eq!(store.get_in(BucketId(1), b"a").unwrap(), None);
        assert_eq!(keys(store.range_in::<&str>(BucketId(1), .., Direction::Forward)), ["c"]);
        assert_eq!(keys(store.prefix_in(BucketId(2), b"a", Direction::Forward)), ["a"]);
    }
}

#[test]
fn dropping_a_bucket_reads_and_rewrites_none_of_its_rows() {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    for bucket in 0..4 {
        let rows = (0..2000).map(|number| put_in(bucket, &format!("{number}"), &"v".repeat(100)));
        store.apply(&batch_of(&rows.collect::<Vec<_>>())).unwrap();
    }
    checkpoint(&mut store, 1);
    let (before, length) = (io.counters(), store.statistics().disk_bytes);
    store.apply(&batch_of(&[drop_bucket(0), drop_bucket(1), drop_bucket(2)])).unwrap();
    checkpoint(&mut store, 2);
    let after = io.counters();
    assert_eq!(after.bytes_read, before.bytes_read);
    assert!(after.bytes_written - before.bytes_written < 1000);
    assert_eq!(after.removes - before.removes, 3);
    assert!(store.statistics().disk_bytes < length / 3);
    assert_eq!(store.buckets().collect::<Vec<_>>(), [(BucketId(3), 2000)]);
}

#[test]
fn a_drop_behind_the_checkpoint_is_undone_by_a_crash() {
    let io = FaultyIo::new(1);
    let (mut store, _) = open_on(&io).unwrap();
    store.apply(&batch_of(&[put_in(1, "a", "1")])).unwrap();
    checkpoint(&mut store, 1);
    store.apply(&batch_of(&[drop_bucket(1)])).unwrap();
    assert_eq!(store.buckets().count(), 0);
    drop(store);
    io.restart(Crash::LoseAll);
    let (store, opened) = open_on(&io).unwrap();
    assert_eq!(opened.offset, Offset::new(1));
    assert_eq!(&store.get_in(BucketId(1), b"a").unwrap().unwrap()[..], b"1");
}

#[test]
fn a_checkpoint_costs_what_changed_and_not_what_is_there() {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    let rows: Vec<_> = (0..10_000).map(|number| put(&format!("{number}"), &"v".repeat(100))).collect();
    store.apply(&batch_of(&rows)).unwrap();
    checkpoint(&mut store, 1);
    let before = io.counters();
    store.apply(&batch_of(&[put("77", "new")])).unwrap();
    checkpoint(&mut store, 2);
    let written = io.counters().bytes_written - before.bytes_written;
    assert!(written < 1000, "{written} bytes for one row");
    assert_eq!(io.counters().bytes_read, before.bytes_read);
}

#[test]
fn applies_and_reads_between_checkpoints_write_nothing() {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    let before = io.counters();
    for number in 0..1000 {
        store.apply(&batch_of(&[put(&format!("{number}"), "v"), put_in(number % 3, "k", "v")])).unwrap();
    }
    assert_eq!(store.range::<&str>(.., Direction::Forward).count(), 1000);
    assert_eq!(io.counters(), before);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    let mut model = Model::default();
    let mut held = Vec::new();
    for round in 0..12_u64 {
        let mut changes = vec![put("hot", &format!("{round}")), put(&format!("key {round}"), "v")];
        changes.push(put_in(round / 4, &format!("{round}"), "v"));
        if round % 5 == 4 {
            changes.extend([drop_bucket(round / 4), delete("key 1")]);
        }
        store.apply(&batch_of(&changes)).unwrap();
        model.apply(&changes);
        held.push((store.snapshot(), model.clone()));
        if round % 3 == 2 {
            checkpoint(&mut store, round);
        }
        settle(&mut store);
        for (snapshot, model) in &held {
            model.check(snapshot).unwrap();
        }
    }
    drop(store);
    for (snapshot, model) in &held {
        model.check(snapshot).unwrap();
    }
}

#[test]
fn merging_keeps_every_row_and_gives_room_back() {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    let mut model = Model::default();
    for round in 1..=40_u64 {
        let mut changes: Vec<_> = (0..50)
            .map(|number| put(&format!("{:03}", number * round % 200), &format!("{round}").repeat(20)))
            .collect();
        changes.push(delete(&format!("{:03}", round % 200)));
        changes.push(put_in(round / 10, &format!("{round}"), "v"));
        store.apply(&batch_of(&changes)).unwrap();
        model.apply(&changes);
        checkpoint(&mut store, round);
        while store.maintain(3000).unwrap() != Maintained::Idle {
            model.check(&store).unwrap();
        }
    }
    let statistics = store.statistics();
    assert!(statistics.compactions >= 10, "{statistics:?}");
    assert!(statistics.runs < 20, "{statistics:?}");
    let names = io.list(DIR.as_ref()).unwrap();
    assert_eq!(names.len() as u64, statistics.runs + 1, "no file is left behind: {names:?}");
    drop(store);
    let (store, opened) = open_on(&io).unwrap();
    assert_eq!((opened.offset, opened.removed_files), (Offset::new(40), 0));
    model.check(&store).unwrap();
}

#[test]
fn deletions_go_once_they_hide_nothing() {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    for (number, change) in [put("a", ""), delete("a"), put("b", ""), delete("b")].iter().enumerate() {
        store.apply(&batch_of(std::slice::from_ref(change))).unwrap();
        checkpoint(&mut store, number as u64 + 1);
    }
    assert_eq!(store.statistics().disk_rows, 4);
    settle(&mut store);
    assert_eq!((store.statistics().disk_rows, store.statistics().runs), (0, 0));
    assert_eq!(io.list(DIR.as_ref()).unwrap(), ["CHECKPOINT"]);
}

#[test]
fn a_merge_that_finishes_after_its_bucket_was_dropped_is_forgotten() {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    for round in 1..=4 {
        store.apply(&batch_of(&[put_in(1, &format!("{round}"), "v")])).unwrap();
        checkpoint(&mut store, round);
    }
    let mut merge = store.begin_compaction().unwrap();
    assert!(store.begin_compaction().is_none(), "one at a time");
    assert_eq!(merge.step(1 << 20).unwrap(), Maintained::Finished);
    store.apply(&batch_of(&[drop_bucket(1), put_in(1, "new", "v")])).unwrap();
    checkpoint(&mut store, 5);
    store.install_compaction(merge).unwrap();
    assert_eq!(keys(store.range_in::<&str>(BucketId(1), .., Direction::Forward)), ["new"]);
    checkpoint(&mut store, 6);
    assert_eq!(io.list(DIR.as_ref()).unwrap().len(), 2, "one run and the checkpoint");
}

#[test]
fn a_checkpoint_in_steps_leaves_room_for_applies_in_between() {
    let io = FaultyIo::new(1);
    let (mut store, _) = open_on(&io).unwrap();
    store.apply(&batch_of(&[put("a", "1"), put("b", "1")])).unwrap();
    let frozen = store.rotate(Offset::new(1)).unwrap();
    store.apply(&batch_of(&[put("a", "2"), delete("b")])).unwrap();
    let again = store.rotate(Offset::new(2));
    assert!(matches!(again, Err(CheckpointError::Underway)));
    let written = frozen.write_out().unwrap();
    assert_eq!(written.offset(), Offset::new(1));
    assert_eq!(store.checkpoint_offset(), Offset::ZERO);
    store.publish(written, Synced::by_a_sync_up_to(Offset::new(1))).unwrap();
    assert_eq!(store.checkpoint_offset(), Offset::new(1));
    assert_eq!(&store.get(b"a").unwrap().unwrap()[..], b"2");
    drop(store);
    io.restart(Crash::LoseAll);
    let (store, _) = open_on(&io).unwrap();
    assert_eq!(&store.get(b"a").unwrap().unwrap()[..], b"1");
    assert_eq!(&store.get(b"b").unwrap().unwrap()[..], b"1");
}

#[test]
fn a_checkpoint_that_is_dropped_on_the_way_is_taken_along_by_the_next() {
    let io = FaultyIo::new(1);
    let (mut store, _) = open_on(&io).unwrap();
    store.apply(&batch_of(&[put("a", "1"), put_in(1, "x", "1")])).unwrap();
    drop(store.rotate(Offset::new(1)).unwrap());
    store.apply(&batch_of(&[put("b", "2"), drop_bucket(1)])).unwrap();
    drop(store.rotate(Offset::new(2)).unwrap().write_out().unwrap());
    store.apply(&batch_of(&[put("a", "3")])).unwrap();
    checkpoint(&mut store, 3);
    assert_eq!(store.statistics().frozen_bytes, 0);
    drop(store);
    io.restart(Crash::LoseAll);
    let (store, opened) = open_on(&io).unwrap();
    assert_eq!(opened.offset, Offset::new(3));
    assert_eq!(keys(store.range::<&str>(.., Direction::Forward)), ["a", "b"]);
    assert_eq!((&store.get(b"a").unwrap().unwrap()[..], store.buckets().count()), (&b"3"[..], 0));
}

#[test]
fn nobody_opens_a_store_whose_checkpoint_or_merge_is_still_written() {
    let io = MemoryIo::new();
    let (mut store, _) = open_on(&io).unwrap();
    store.apply(&batch_of(&[put("a", "1")])).unwrap();
    let frozen = store.rotate(Offset::new(1)).unwrap();
    drop(store);
    assert!(matches!(open_on(&io), Err(OpenError::InUse(_))));
    drop(frozen.write_out().unwrap());
    let (store, opened) = open_on(&io).unwrap();
    assert_eq!((opened.offset, store.get(b"a").unwrap()), (Offset::ZERO, None));
}

#[test]
#[should_panic(expected = "LOG-2")]
fn a_checkpoint_ahead_of_the_synced_log_is_a_bug() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    let _ = store.checkpoint(Offset::new(2), Synced::by_a_sync_up_to(Offset::new(1)));
}

#[test]
#[should_panic(expected = "WM-1")]
fn a_checkpoint_behind_the_last_is_a_bug() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    checkpoint(&mut store, 2);
    checkpoint(&mut store, 1);
}

#[test]
fn a_full_disk_loses_nothing_and_heals() {
    let io = FaultyIo::new(1);
    let (mut store, _) = open_on(&io).unwrap();
    let mut model = Model::default();
    let rows: Vec<_> = (0..200).map(|number| put(&format!("{number}"), &"v".repeat(50))).collect();
    store.apply(&batch_of(&rows)).unwrap();
    model.apply(&rows);
    checkpoint(&mut store, 1);
    let used: u64 = store.statistics().disk_bytes;
    for room in (0..used + 500).step_by(200) {
        io.set_capacity(Some(used + room));
        let change = [put(&format!("{room}"), &"w".repeat(60)), put_in(1, &format!("{room}"), "w")];
        store.apply(&batch_of(&change)).unwrap();
        model.apply(&change);
        let (offset, proof) = synced(2 + room);
        match store.checkpoint(offset, proof) {
            Ok(()) => {}
            Err(CheckpointError::Disk(error)) => assert!(error.is_full(), "{error}"),
            Err(error) => panic!("{error}"),
        }
        model.check(&store).unwrap();
    }
    io.set_capacity(None);
    checkpoint(&mut store, 1_000_000);
    assert_eq!(io.list(DIR.as_ref()).unwrap().len() as u64, store.statistics().runs + 1);
    drop(store);
    io.restart(Crash::LoseAll);
    let (store, opened) = open_on(&io).unwrap();
    assert_eq!(opened.offset, Offset::new(1_000_000));
    model.check(&store).unwrap();
}

#[test]
fn one_bucket_too_many_is_refused_and_changes_nothing() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    let fill: Vec<_> = (0..MAX_BUCKETS as u64).map(|bucket| put_in(bucket, "k", "v")).collect();
    store.apply(&batch_of(&fill)).unwrap();
    let one_more = [put("main", "v"), put_in(9999, "k", "v")];
    let error = store.apply(&batch_of(&one_more)).unwrap_err();
    assert_eq!(error, ApplyError::TooManyBuckets { bucket: BucketId(9999), limit: MAX_BUCKETS });
    assert_eq!(store.get(b"main").unwrap(), None);
    store.apply(&batch_of(&[drop_bucket(7), put_in(9999, "k", "v")])).unwrap();
    assert_eq!(store.buckets().count(), MAX_BUCKETS);
}

#[test]
fn too_many_runs_ask_for_maintenance_before_the_next_checkpoint() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    for round in 1..=MAX_RUNS_PER_SPACE as u64 {
        store.apply(&batch_of(&[put(&format!("{round}"), "v")])).unwrap();
        checkpoint(&mut store, round);
    }
    let (offset, proof) = synced(1000);
    assert!(matches!(store.checkpoint(offset, proof), Err(CheckpointError::MaintenanceDue { .. })));
    settle(&mut store);
    checkpoint(&mut store, 1000);
    assert_eq!(store.range::<&str>(.., Direction::Forward).count(), MAX_RUNS_PER_SPACE);
}

#[test]
fn a_directory_is_held_by_one_store_at_a_time() {
    let io = MemoryIo::new();
    let (store, _) = open_on(&io).unwrap();
    assert!(matches!(open_on(&io), Err(OpenError::InUse(_))));
    assert!(matches!(Store::discard(Arc::new(io.clone()), DIR), Err(OpenError::InUse(_))));
    drop(store);
    open_on(&io).unwrap();
}

#[test]
fn real_files_hold_what_was_checkpointed() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open(Arc::new(RealIo), directory.path().join("a/b"), Options::default(), &budget());
    let (mut store, _) = open().unwrap();
    let mut model = Model::default();
    for round in 1..=9 {
        let changes: Vec<_> =
            (0..100).map(|number| put(&format!("{:04}", number * round), &"v".repeat(40))).collect();
        store.apply(&batch_of(&changes)).unwrap();
        model.apply(&changes);
        checkpoint(&mut store, round);
        settle(&mut store);
    }
    store.apply(&batch_of(&[put("lost", "v")])).unwrap();
    drop(store);
    let stranger = directory.path().join("a/b/notes.txt");
    std::fs::write(&stranger, "mine").unwrap();
    let (store, opened) = open().unwrap();
    assert_eq!(opened.offset, Offset::new(9));
    model.check(&store).unwrap();
    drop(store);
    Store::discard(Arc::new(RealIo), directory.path().join("a/b")).unwrap();
    assert!(stranger.exists(), "files of others are left alone");
    assert_eq!(open().unwrap().1.offset, Offset::ZERO);
}

#[test]
fn a_batch_is_used_again_and_again() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    let mut batch = Batch::new();
    for number in 0..10_u64 {
        batch.clear();
        batch.put(&number.to_be_bytes(), b"v").unwrap();
        store.apply(&batch).unwrap();
    }
    assert_eq!(store.range::<&[u8]>(.., Direction::Forward).count(), 10);
}

#[test]
fn statistics_tell_what_happened() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    let rows: Vec<_> = (0..1000).map(|number| put(&format!("{number}"), "v")).collect();
    store.apply(&batch_of(&rows)).unwrap();
    assert!(store.statistics().memtable_bytes > 100_000);
    checkpoint(&mut store, 1);
    for number in 0..2000 {
        store.get(format!("{number}").as_bytes()).unwrap();
    }
    let statistics = store.statistics();
    assert_eq!((statistics.memtable_bytes, statistics.runs, statistics.disk_rows), (0, 1, 1000));
    assert_eq!((statistics.checkpoints, statistics.bytes_written), (1, statistics.disk_bytes));
    assert_eq!(statistics.filter_right, 1000);
    assert_eq!(statistics.filter_denied + statistics.filter_wrong, 1000);
    assert!(statistics.filter_wrong < 100, "{statistics:?}");
    assert!(statistics.cache_hits > statistics.cache_misses && statistics.cache_misses > 0);
    assert!(statistics.cached_bytes > 0 && statistics.resident_bytes > 0);
}
