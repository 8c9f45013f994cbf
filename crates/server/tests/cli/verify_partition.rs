//! `gapless verify`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::real::RealIo;
use gapless_partition::Entry;
use gapless_store::{Batch, Budget, Store, Synced};
use gapless_types::{NamespaceId, PartitionId, PartitionIndex, PartitionOffset, WorkspaceId};
use tempfile::TempDir;

use crate::support::{Run, gapless};

/// The ledger that `gapless demo` leaves, and a place for scratch directories.
struct Demonstration {
    root: TempDir,
}

impl Demonstration {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        gapless(["demo", "--data", data.to_str().unwrap(), "--writes", "50"]).exits_with(0);
        fs::create_dir(root.path().join("scratch")).unwrap();
        Self { root }
    }

    fn ledger(&self) -> PathBuf {
        self.root.path().join("data/demo")
    }

    fn verify(&self, more: &[&str]) -> Run {
        let (ledger, scratch) = (self.ledger(), self.root.path().join("scratch"));
        let mut arguments = vec!["verify", ledger.to_str().unwrap(), "--scratch", scratch.to_str().unwrap()];
        arguments.extend(more);
        let run = gapless(arguments);
        assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "the scratch directory is gone");
        run
    }
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = ["log", "store"]
        .iter()
        .flat_map(|part| fs::read_dir(dir.join(part)).unwrap())
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_ledger_of_a_demonstration_is_sound_and_stays_as_it_is() {
    let demonstration = Demonstration::new();
    let before = files(&demonstration.ledger());
    let run = demonstration.verify(&[]).exits_with(0);
    run.says("\nSound.\n");
    run.says("all as they should be");
    assert_eq!(run.stderr, "", "no progress bar where there is no terminal");
    let report = demonstration.verify(&["-o", "json"]).exits_with(0).json();
    assert_eq!((&report["sound"], &report["store"]), (&true.into(), &"compared".into()));
    assert!(report["outcomes"].as_u64().unwrap() > 50, "{report}");
    assert_eq!(report["first_difference"], serde_json::Value::Null);
    assert!(files(&demonstration.ledger()) == before, "a file has changed");
}

const PARTITION: PartitionId = PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(0) };

impl Demonstration {
    /// Puts a row into the store, behind the ledger's back; it may depend on the store.
    fn plant(&self, row: impl FnOnce(&Store) -> (Vec<u8>, Vec<u8>)) {
        let dir = self.ledger().join("store");
        let budget = Budget::new(1 << 20, 1 << 20);
        let (mut store, opened) =
            Store::open(Arc::new(RealIo), dir, gapless_store::Options::default(), &budget).unwrap();
        let (key, value) = row(&store);
        let mut batch = Batch::new();
        batch.put(&key, &value).unwrap();
        store.apply(&batch).unwrap();
        store.checkpoint(opened.offset, Synced::by_a_sync_up_to(opened.offset)).unwrap();
    }
}

#[test]
fn a_changed_row_is_named_with_its_outcome() {
    let demonstration = Demonstration::new();
    let mut outcome = 0;
    demonstration.plant(|store| {
        let workspace = store.prefix(&[4], gapless_store::Direction::Forward).next().unwrap().unwrap().0;
        let workspace = WorkspaceId::new(u64::from_be_bytes(workspace[5..].try_into().unwrap()));
        let key = Entry::Event(workspace, 1).key(PARTITION);
        let mut place = store.get(&key).unwrap().unwrap().to_vec();
        outcome = u64::from_le_bytes(place[..8].try_into().unwrap());
        place[20] ^= 1;
        (key, place)
    });
    let run = demonstration.verify(&[]).exits_with(1);
    run.says("with another value in the store, from byte 20 on");
    run.says("\nNot sound.\n");
    run.warns("next: if you trust the log, remove");
    let report = demonstration.verify(&["-o", "json"]).exits_with(1).json();
    assert_eq!((&report["sound"], &report["differing_rows"]), (&false.into(), &1.into()));
    let difference = &report["first_difference"];
    assert_eq!((&difference["place"], &difference["byte"]), (&"store".into(), &20.into()));
    assert_eq!(difference["outcome"], outcome);
}

#[test]
fn a_quarantined_ledger_says_what_to_do_and_doing_it_helps() {
    let demonstration = Demonstration::new();
    let outcomes = demonstration.verify(&["-o", "json"]).exits_with(0).json()["outcomes"].as_u64().unwrap();
    let next = PartitionOffset::new(outcomes + 1).unwrap();
    demonstration.plant(|_| (Entry::Outcome(next).key(PARTITION), b"foreign".to_vec()));
    let data = demonstration.root.path().join("data");
    let dev = || gapless(["demo", "--data", data.to_str().unwrap(), "--writes", "50"]);
    let run = dev().exits_with(1);
    run.warns(&format!("the store has outcome {next} already"));
    run.warns("next: `gapless verify` on the ledger");
    demonstration.verify(&[]).exits_with(1).says("that should not be there in the store");
    fs::remove_dir_all(demonstration.ledger().join("store")).unwrap();
    dev().exits_with(0);
    demonstration.verify(&[]).exits_with(0);
}

#[test]
fn what_is_no_partition_is_refused_with_advice() {
    let root = tempfile::tempdir().unwrap();
    let nowhere = root.path().join("nowhere");
    let run = gapless(["verify", nowhere.to_str().unwrap()]).exits_with(1);
    run.warns("does not exist");
    fs::create_dir_all(nowhere.join("log")).unwrap();
    gapless(["verify", nowhere.to_str().unwrap()]).exits_with(1).warns("there is no log in");
    let demonstration = Demonstration::new();
    let ledger = demonstration.ledger();
    let run =
        gapless(["verify", ledger.to_str().unwrap(), "--scratch", nowhere.join("none").to_str().unwrap()]);
    run.exits_with(1).warns("no scratch directory can be made");
}
