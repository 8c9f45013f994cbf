//! The fuzz targets of `fuzz/` for the engine, on a stable compiler and in bounded time.
//!
//! The inputs follow from one number, which is printed. Another one is tried with
//! `GAPLESS_FUZZ_SEED=7 cargo test -p gapless-engine --test fuzz_corpus`. An input that fails is printed; once the fault
//! behind it is repaired, it becomes a file `fuzz/corpus/TARGET/seed-NAME`.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]
#![expect(clippy::print_stdout, reason = "seeds and failing inputs are printed")]

#[path = "../../../fuzz/harness/backup.rs"]
pub mod backup;
#[path = "../../../fuzz/harness/engine.rs"]
pub mod engine;
#[path = "../../../fuzz/harness/exercise.rs"]
mod exercise;

use exercise::exercise;

#[test]
fn entries() {
    exercise("entry", engine::entry, 20_000);
}

#[test]
fn catalogs() {
    exercise("catalog", engine::catalog, 20_000);
}

#[test]
fn manifests() {
    exercise("manifest", engine::manifest, 20_000);
}

#[test]
fn pieces() {
    exercise("piece", engine::piece, 2_000);
}

#[test]
fn backups() {
    exercise("backup", backup::backup, 1_500);
}

#[test]
fn questions() {
    exercise("question", engine::question, 20_000);
}

#[test]
fn the_seeds_of_backups_and_questions_are_read() {
    let seed = |name: &str| {
        std::fs::read(format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    use gapless_engine::fuzzing::{manifest_again, piece_items, question_again};
    let manifest = seed("manifest/seed-two-backups");
    assert_eq!(manifest_again(&manifest), Some(manifest));
    for (kind, name) in [(0, "outcomes"), (1, "entries"), (2, "rows")] {
        assert!(piece_items(&seed(&format!("piece/seed-{name}")), kind).is_some(), "{name}");
    }
    assert!(question_again(&seed("question/seed-question")).0.is_some());
    for name in ["same", "outcomes"] {
        assert!(question_again(&seed(&format!("question/seed-{name}"))).1.is_some(), "{name}");
    }
}

#[test]
fn the_seeds_of_catalogs_are_catalogs() {
    for name in ["nothing", "garbage", "namespaces", "raised"] {
        let path = format!("{}/../../fuzz/corpus/catalog/seed-{name}", env!("CARGO_MANIFEST_DIR"));
        let seed = std::fs::read(path).unwrap();
        assert_eq!(gapless_engine::fuzzing::catalog_again(&seed), Some(seed), "{name}");
    }
}
