//! Proofs of a partition's own events: against a tree that is computed from nothing but the bytes of the partition log, whatever
//! was checkpointed, restarted or rebuilt in between.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod harness;

use gapless_partition::proof::{
    Frontier, Hash, Head, LeafIndex, TreeSize, verify_consistency, verify_inclusion,
};
use gapless_partition::{Direction, ProofError, View};
use gapless_types::{WorkspaceId, WorkspaceOffset};
use harness::{Bench, event, workspace};

/// More than two tiles, and a part of one.
const EVENTS: u64 = 600;

fn offset(value: u64) -> WorkspaceOffset {
    WorkspaceOffset::new(value).unwrap()
}

/// Leaves and heads of a workspace, from the log alone; the head at place n is that of size n.
fn from_the_log(view: &View, id: WorkspaceId) -> (Vec<Hash>, Vec<Head>) {
    let mut frontier = Frontier::default();
    let (mut leaves, mut heads) = (Vec::new(), vec![frontier.head()]);
    for outcome in view.events(id, offset(1), usize::MAX, Direction::Forward).unwrap() {
        assert_eq!(outcome.leaf_hash(), Some(Hash::of_leaf(outcome.bytes())));
        leaves.push(outcome.leaf_hash().unwrap());
        frontier.append(*leaves.last().unwrap()).unwrap();
        heads.push(frontier.head());
    }
    (leaves, heads)
}

/// Two workspaces whose events alternate, with a checkpoint on the way.
fn bench(events: u64) -> Bench {
    let mut bench = Bench::new();
    for at in 0..events {
        bench.time += 7;
        bench.commit(&event(1));
        if at % 5 == 0 {
            bench.commit(&event(2));
        }
        if at == events / 2 {
            bench.partition().checkpoint().unwrap();
        }
    }
    bench
}

#[test]
fn every_head_of_every_size_follows_from_the_bytes_of_the_log() {
    let mut bench = bench(EVENTS);
    for restarted in [false, true] {
        let view = bench.partition().view().unwrap();
        for id in [1, 2] {
            let (_, heads) = from_the_log(&view, workspace(id));
            for head in &heads {
                assert_eq!(view.head_of(workspace(id), head.size).unwrap(), *head, "restarted: {restarted}");
            }
            assert_eq!(view.head(workspace(id)).unwrap(), *heads.last().unwrap());
        }
        drop(view);
        bench.restart();
    }
}

#[test]
fn every_event_is_proved_under_every_later_size() {
    let mut bench = bench(300);
    let view = bench.partition().view().unwrap();
    let (leaves, heads) = from_the_log(&view, workspace(1));
    for (at, leaf) in leaves.iter().enumerate() {
        let index = LeafIndex::new(at as u64);
        for head in &heads[at + 1..] {
            let proof = view.inclusion_proof(workspace(1), offset(index.get() + 1), head.size).unwrap();
            verify_inclusion(*leaf, index, head, &proof).unwrap();
        }
    }
}

#[test]
fn every_size_is_shown_to_begin_with_every_smaller_one() {
    let mut bench = bench(270);
    let view = bench.partition().view().unwrap();
    let (_, heads) = from_the_log(&view, workspace(1));
    for (at, old) in heads.iter().enumerate() {
        for new in &heads[at..] {
            let proof = view.consistency_proof(workspace(1), old.size, new.size).unwrap();
            verify_consistency(old, new, &proof).unwrap();
        }
    }
}

#[test]
fn a_block_header_names_its_event_and_the_tree_that_ends_with_it() {
    let mut bench = bench(20);
    let view = bench.partition().view().unwrap();
    let (leaves, heads) = from_the_log(&view, workspace(1));
    for outcome in view.events(workspace(1), offset(1), 100, Direction::Forward).unwrap() {
        let event = outcome.header();
        let height = event.workspace_offset.unwrap();
        let header = view.block_header(workspace(1), height).unwrap();
        let place = usize::try_from(height.get()).unwrap();
        assert_eq!(header.height.get(), height.get());
        assert_eq!((header.leaf, header.root), (leaves[place - 1], heads[place].root));
        assert_eq!((header.time, header.log_index), (event.time, event.log_index.get()));
        assert_eq!(header.head(), heads[place]);
    }
}

#[test]
fn what_is_not_there_has_no_proof_and_says_so() {
    let mut bench = bench(20);
    let view = bench.partition().view().unwrap();
    let size = TreeSize::new;
    let too_large = |result: Result<(), ProofError>| {
        assert!(matches!(result, Err(ProofError::TooLarge { events: 20, .. })), "{result:?}");
    };
    too_large(view.head_of(workspace(1), size(21)).map(|_| ()));
    too_large(view.inclusion_proof(workspace(1), offset(1), size(21)).map(|_| ()));
    too_large(view.consistency_proof(workspace(1), size(1), size(21)).map(|_| ()));
    too_large(view.block_header(workspace(1), offset(21)).map(|_| ()));
    let later = view.inclusion_proof(workspace(1), offset(8), size(7));
    assert!(matches!(later, Err(ProofError::NotIncluded { .. })), "{later:?}");
    let backwards = view.consistency_proof(workspace(1), size(8), size(7));
    assert!(matches!(backwards, Err(ProofError::OutOfOrder { .. })), "{backwards:?}");
    // A workspace that does not exist has the tree without leaves.
    assert_eq!(view.head(workspace(9)).unwrap(), Frontier::default().head());
}

#[test]
fn a_view_proves_what_it_knows_whatever_is_applied_afterwards() {
    let mut bench = bench(255);
    let view = bench.partition().view().unwrap();
    let head = view.head(workspace(1)).unwrap();
    for _ in 0..10 {
        bench.commit(&event(1));
    }
    assert_eq!(view.head(workspace(1)).unwrap(), head);
    let later = bench.partition().view().unwrap();
    let proof = later.consistency_proof(workspace(1), head.size, TreeSize::new(265)).unwrap();
    verify_consistency(&head, &later.head(workspace(1)).unwrap(), &proof).unwrap();
}
