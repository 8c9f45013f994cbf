//! What it costs a partition to know keys, to trust nobody, and to be able to prove its history.
//!
//! Must not know: how figures are shown.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use gapless_partition::proof::{Hash, Height, TreeSize, verify_consistency, verify_inclusion};
use gapless_partition::{Direction, TrustLevel, View};
use gapless_types::{WorkspaceId, WorkspaceOffset};
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit};
use crate::memory::{peak_bytes, reset_peak};
use crate::partition_feed::{Feed, Order, Shape, thread_time};
use crate::samples::Spread;

const MIB: u64 = 1 << 20;
const MEMTABLES: u64 = 256 * MIB;
const CACHE: u64 = 256 * MIB;
/// Workspaces that events go to at random.
const WORKSPACES: u64 = 10_000;
/// Proofs of each kind that are timed in a round.
const PROOFS: usize = 500;
/// Leaves that are hashed in a round.
const LEAVES: usize = 100_000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Events of a round.
    pub(crate) events: u64,
    pub(crate) rounds: usize,
    /// Keys in the window.
    pub(crate) keys: u64,
    /// Events of the workspace that proofs are made of.
    pub(crate) leaves: u64,
}

/// Everything of this file.
#[derive(Debug, Serialize)]
pub(crate) struct Evidence {
    pub(crate) windows: Vec<Window>,
    pub(crate) trust: Vec<Trust>,
    pub(crate) proofs: Proofs,
}

/// Applies with so many keys known.
#[derive(Debug, Serialize)]
pub(crate) struct Window {
    pub(crate) keys: u64,
    /// Microseconds of the processor for each apply.
    pub(crate) cpu_microseconds: Spread,
    /// Memory of the whole process that was resident at most meanwhile.
    pub(crate) resident_bytes: u64,
    pub(crate) ceiling_bytes: u64,
}

/// The same events at the level that checks everything and at the one that checks nothing.
#[derive(Debug, Serialize)]
pub(crate) struct Trust {
    pub(crate) shape: String,
    /// Microseconds of the processor for each apply at level 0, and at level 2.
    pub(crate) level_0: Spread,
    pub(crate) level_2: Spread,
    /// Throughput of level 0 divided by that of level 2 in the same round.
    pub(crate) throughput: Spread,
}

/// Microseconds of the processor for each.
#[derive(Debug, Serialize)]
pub(crate) struct Proofs {
    pub(crate) leaves: u64,
    pub(crate) bytes_of_a_leaf: usize,
    pub(crate) hash_of_a_leaf: Spread,
    pub(crate) root: Spread,
    pub(crate) inclusion: Spread,
    pub(crate) consistency: Spread,
    pub(crate) verify_inclusion: Spread,
    pub(crate) verify_consistency: Spread,
}

impl Evidence {
    pub(crate) fn measure(
        directory: &Path,
        effort: Effort,
        say: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<Self> {
        let mut windows = Vec::new();
        for keys in [effort.events, effort.keys] {
            say(&format!("applies with {keys} keys in the window"))?;
            windows.push(window(directory, keys, effort)?);
        }
        let mut trust = Vec::new();
        for (name, shape) in [("plain event", Shape::Plain), ("three records", Shape::ThreeRecords)] {
            say(&format!("trust levels, {name}"))?;
            trust.push(compare_levels(directory, name, shape, effort)?);
        }
        say(&format!("proofs over {} events", effort.leaves))?;
        let proofs = proofs(directory, effort)?;
        Ok(Self { windows, trust, proofs })
    }

    pub(crate) fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        for row in &self.trust {
            let subject = format!("throughput at trust level 0 / at level 2, {}", row.shape);
            bars.push(Bar::new(subject, Unit::Ratio, Limit::AtLeast(0.85), row.throughput));
        }
        if let [.., full] = &self.windows[..] {
            let subject = format!("a plain apply takes of one core, {} keys in the window", full.keys);
            bars.push(Bar::new(subject, Unit::Microseconds, Limit::AtMost(5.0), full.cpu_microseconds));
        }
        bars
    }
}

/// Log time goes on by a millisecond with each event, so all keys are within the window of a day.
fn window(directory: &Path, keys: u64, effort: Effort) -> Result<Window> {
    let folder = tempfile::tempdir_in(directory)?;
    reset_peak()?;
    let (mut feed, _) = Feed::open(folder.path(), MEMTABLES, CACHE)?;
    feed.feed(Shape::Plain, Order::Random(WORKSPACES), keys)?;
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        rounds.push(each(
            feed.feed(Shape::Plain, Order::Random(WORKSPACES), effort.events)?.cpu,
            effort.events,
        ));
    }
    let resident_bytes = peak_bytes()?;
    let known = feed.known_keys();
    anyhow::ensure!(known >= keys, "{known} keys are known");
    feed.close()?;
    Ok(Window {
        keys: known,
        cpu_microseconds: Spread::of(rounds),
        resident_bytes,
        ceiling_bytes: MEMTABLES + CACHE,
    })
}

/// Two partitions get the same events in turn, so that a busy minute is one for both.
fn compare_levels(directory: &Path, name: &str, shape: Shape, effort: Effort) -> Result<Trust> {
    let folders = (tempfile::tempdir_in(directory)?, tempfile::tempdir_in(directory)?);
    let open = |folder: &tempfile::TempDir, level| Feed::open_at(folder.path(), MEMTABLES, CACHE, level);
    let (mut checked, _) = open(&folders.0, TrustLevel::CheckAll)?;
    let (mut trusted, _) = open(&folders.1, TrustLevel::TrustAll)?;
    let (mut level_0, mut level_2) = (Vec::new(), Vec::new());
    for round in 0..=effort.rounds {
        let order = Order::Random(WORKSPACES);
        let took = (checked.feed(shape, order, effort.events)?, trusted.feed(shape, order, effort.events)?);
        // The first one warms up.
        if round > 0 {
            level_0.push(each(took.0.cpu, effort.events));
            level_2.push(each(took.1.cpu, effort.events));
        }
    }
    checked.close()?;
    trusted.close()?;
    let throughput = Spread::of(level_0.iter().zip(&level_2).map(|(checked, trusted)| trusted / checked));
    let (level_0, level_2) = (Spread::of(level_0), Spread::of(level_2));
    Ok(Trust { shape: name.to_owned(), level_0, level_2, throughput })
}

/// One workspace, everything in a checkpoint.
fn proofs(directory: &Path, effort: Effort) -> Result<Proofs> {
    let folder = tempfile::tempdir_in(directory)?;
    let (mut feed, _) = Feed::open(folder.path(), MEMTABLES, CACHE)?;
    feed.feed(Shape::Plain, Order::Random(1), effort.leaves)?;
    feed.checkpoint()?;
    let view = feed.view()?;
    let event = view.events(WorkspaceId::new(0), WorkspaceOffset::FIRST, 1, Direction::Forward)?;
    let leaf = event.first().context("the first event is there")?.bytes().clone();
    let mut rng = Rng::with_seed(7);
    let mut columns: [Vec<f64>; 6] = Default::default();
    for _ in 0..effort.rounds {
        for (column, figure) in columns.iter_mut().zip(proof_round(&view, effort.leaves, &leaf, &mut rng)?) {
            column.push(figure);
        }
    }
    drop(view);
    feed.close()?;
    let [hash, root, inclusion, consistency, check_inclusion, check_consistency] = columns.map(Spread::of);
    Ok(Proofs {
        leaves: effort.leaves,
        bytes_of_a_leaf: leaf.len(),
        hash_of_a_leaf: hash,
        root,
        inclusion,
        consistency,
        verify_inclusion: check_inclusion,
        verify_consistency: check_consistency,
    })
}

/// Events at a third of random sizes; what each kind of work takes for one.
fn proof_round(view: &View, leaves: u64, leaf: &[u8], rng: &mut Rng) -> Result<[f64; 6]> {
    let id = WorkspaceId::new(0);
    let places: Vec<(u64, u64)> = std::iter::repeat_with(|| rng.u64(1..=leaves))
        .map(|size| (1 + size / 3, size))
        .take(PROOFS)
        .collect();
    let (hash, ()) = timed(LEAVES, || {
        for _ in 0..LEAVES {
            std::hint::black_box(Hash::of_leaf(std::hint::black_box(leaf)));
        }
    });
    let (root, heads) = timed(PROOFS, || {
        places.iter().map(|(_, size)| view.head_of(id, TreeSize::new(*size))).collect::<Result<Vec<_>, _>>()
    });
    let heads = heads?;
    let offset = |at: u64| WorkspaceOffset::new(at).expect("events are counted from 1");
    let (inclusion, inclusions) = timed(PROOFS, || {
        let proof = |(at, size): &(u64, u64)| view.inclusion_proof(id, offset(*at), TreeSize::new(*size));
        places.iter().map(proof).collect::<Result<Vec<_>, _>>()
    });
    let inclusions = inclusions?;
    let (consistency, consistencies) = timed(PROOFS, || {
        let proof =
            |(at, size): &(u64, u64)| view.consistency_proof(id, TreeSize::new(*at), TreeSize::new(*size));
        places.iter().map(proof).collect::<Result<Vec<_>, _>>()
    });
    let consistencies = consistencies?;
    let blocks = places.iter().map(|(at, _)| view.block_header(id, offset(*at)));
    let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
    let (check_inclusion, held) = timed(PROOFS, || {
        let mut claims = places.iter().zip(&blocks).zip(heads.iter().zip(&inclusions));
        claims.try_for_each(|(((at, _), block), (head, proof))| {
            let height = Height::new(*at).expect("events are counted from 1");
            verify_inclusion(block.leaf, height.index(), head, proof)
        })
    });
    held?;
    let (check_consistency, held) = timed(PROOFS, || {
        let mut claims = blocks.iter().zip(heads.iter().zip(&consistencies));
        claims.try_for_each(|(block, (head, proof))| verify_consistency(&block.head(), head, proof))
    });
    held?;
    Ok([hash, root, inclusion, consistency, check_inclusion, check_consistency])
}

/// Microseconds of the processor for one of so many.
fn timed<T>(count: usize, work: impl FnOnce() -> T) -> (f64, T) {
    let began = thread_time();
    let result = std::hint::black_box(work());
    (each(thread_time().saturating_sub(began), count as u64), result)
}

fn each(total: Duration, count: u64) -> f64 {
    total.as_secs_f64() * 1e6 / count as f64
}
