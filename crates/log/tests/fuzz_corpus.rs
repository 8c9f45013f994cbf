//! The fuzz targets of `fuzz/` on a stable compiler and in bounded time: over the seeds that are checked in, and over
//! some thousand inputs that are random or seeds with changes.
//!
//! The inputs follow from one number, which is printed. Another one is tried with
//! `GAPLESS_FUZZ_SEED=7 cargo test -p gapless-log --test fuzz_corpus`. An input that fails is printed; once the fault
//! behind it is repaired, it becomes a file `fuzz/corpus/TARGET/seed-NAME`.

#![expect(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]
#![expect(clippy::print_stdout, reason = "seeds and failing inputs are printed")]

#[path = "../../../fuzz/harness/log.rs"]
pub mod log;

use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;

use fastrand::Rng;

const DEFAULT_SEED: u64 = 1;
/// Random inputs are shorter than this.
const MAX_RANDOM_BYTES: usize = 300;

type Target = fn(&[u8]);

/// Runs a target on one input; says which one it was if something does not hold.
fn run(name: &str, target: Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(|| target(input)) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("target {name}, input {hex}");
        resume_unwind(panic);
    }
}

/// The seeds that are checked in. What a run of the fuzzer adds to the folder has other names.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-")));
    paths.sort();
    assert!(!paths.is_empty(), "{name} has seeds");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// All seeds, then as many inputs again as `count` says, half of them random and half of them changed seeds.
fn exercise(name: &str, target: Target, count: usize) {
    let seeds = seeds(name);
    seeds.iter().for_each(|seed| run(name, target, seed));

    let number = std::env::var("GAPLESS_FUZZ_SEED").map_or(DEFAULT_SEED, |number| number.parse().unwrap());
    println!("target {name}, GAPLESS_FUZZ_SEED={number}");
    let mut rng = Rng::with_seed(number);
    for index in 0..count {
        let input = if index % 2 == 0 { random(&mut rng) } else { changed(&mut rng, &seeds) };
        run(name, target, &input);
    }
}

fn random(rng: &mut Rng) -> Vec<u8> {
    let length = rng.usize(1..MAX_RANDOM_BYTES).min(rng.usize(1..MAX_RANDOM_BYTES));
    (0..length).map(|_| rng.u8(..)).collect()
}

/// A seed after a few changes: bits, bytes, edges of integers, pieces that are cut out, doubled or taken from another.
fn changed(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[rng.usize(..seeds.len())].clone();
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=input.len().saturating_sub(1));
        let end = (at + rng.usize(1..17)).min(input.len());
        match rng.u8(..6) {
            0 if !input.is_empty() => input[at] ^= 1 << rng.u8(..8),
            1 if !input.is_empty() => input[at] = rng.u8(..),
            2 => {
                let edge: u32 = rng.choice([0, 1, 1 << 31, u32::MAX - 71, u32::MAX]).unwrap();
                let bytes = edge.to_le_bytes();
                input[at..end].iter_mut().zip(bytes).for_each(|(byte, edge)| *byte = edge);
            }
            3 => drop(input.drain(at..end)),
            4 => input.extend_from_within(at..end),
            _ => {
                let other = &seeds[rng.usize(..seeds.len())];
                input.extend_from_slice(&other[rng.usize(..=other.len())..]);
            }
        }
    }
    input
}

#[test]
fn segment_headers() {
    exercise("segment_header", log::segment_header, 4000);
}

#[test]
fn frame_headers() {
    exercise("frame_header", log::frame_header, 20_000);
}

#[test]
fn records() {
    exercise("record", log::record, 20_000);
}

#[test]
fn controls() {
    exercise("control", log::control, 20_000);
}

#[test]
fn footers() {
    exercise("footer", log::footer, 20_000);
}

#[test]
fn directories() {
    exercise("directory", log::directory, 3000);
}
