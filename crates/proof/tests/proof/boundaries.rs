//! Trees that end just before, at and just after the end of a tile.

use crate::model::Dense;
use crate::properties::{check_consistency, check_inclusion};
use crate::sources::{Sparse, stored};

#[test]
fn proofs_hold_across_the_ends_of_tiles() {
    let model = Dense::numbered(1025);
    let stored = stored(&model.0);
    let places = [0, 1, 127, 128, 254, 255, 256, 257, 510, 511, 512, 513, 767, 768, 769, 1023, 1024, 1025];
    for size in places {
        for place in places.into_iter().filter(|&place| place <= size) {
            check_consistency(&model, &stored, place, size);
            if place < size {
                check_inclusion(&model, &stored, place, size);
            }
        }
    }
}

#[test]
fn proofs_hold_across_the_ends_of_tiles_of_tiles() {
    let model = Dense::numbered(65_537);
    let stored = stored(&model.0);
    let sizes = [255, 256, 257, 65_279, 65_280, 65_281, 65_535, 65_536, 65_537];
    for size in [65_535, 65_536, 65_537] {
        for old in sizes.into_iter().filter(|&old| old <= size) {
            check_consistency(&model, &stored, old, size);
            check_inclusion(&model, &stored, old - 1, size);
        }
        check_inclusion(&model, &stored, 0, size);
        check_consistency(&model, &stored, 1, size);
    }
}

#[test]
fn proofs_hold_at_every_power_of_two_and_beside_it() {
    let places: Vec<u64> =
        (1..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]).collect();
    for (at, &size) in places.iter().enumerate() {
        for &place in places[..at].iter().step_by(16).chain(&places[at.saturating_sub(4)..at]) {
            let model = Sparse::new(size, [0, place - 1, place, size - 1]);
            check_consistency(&model, &model, place, size);
            if place < size {
                check_inclusion(&model, &model, place, size);
            }
        }
    }
}
