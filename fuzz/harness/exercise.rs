//! Runs a fuzz target on a stable compiler and in bounded time: over the seeds that are checked in, and over inputs that are
//! random or seeds with changes. All of them follow from one number, which is printed.

use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;

use fastrand::Rng;

const DEFAULT_SEED: u64 = 1;
/// Random inputs are shorter than this.
const MAX_RANDOM_BYTES: usize = 300;

/// A fuzz target.
type Target = fn(&[u8]);

/// All seeds of a target, then as many inputs again as `count` says, half of them random and half of them changed seeds.
pub(crate) fn exercise(name: &str, target: Target, count: usize) {
    // From the folder of any crate.
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let seeds = seeds(&corpora.join(name));
    assert!(!seeds.is_empty(), "{name} has seeds");
    seeds.iter().for_each(|seed| run(name, target, seed));
    let number = std::env::var("GAPLESS_FUZZ_SEED").map_or(DEFAULT_SEED, |number| number.parse().unwrap());
    println!("target {name}, GAPLESS_FUZZ_SEED={number}");
    let mut rng = Rng::with_seed(number);
    for index in 0..count {
        let input = if index % 2 == 0 { random(&mut rng) } else { changed(&mut rng, &seeds) };
        run(name, target, &input);
    }
}

/// Runs a target on one input; says which one it was if something does not hold.
fn run(name: &str, target: Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(|| target(input)) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("target {name}, input {hex}");
        resume_unwind(panic);
    }
}

/// What a run of the fuzzer adds to the folder has other names.
fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-")));
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
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
                input[at..end].iter_mut().zip(edge.to_le_bytes()).for_each(|(byte, edge)| *byte = edge);
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
