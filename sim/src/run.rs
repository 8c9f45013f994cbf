//! One seed, from founding a cluster to its last check: the same seed gives the same trace.
//!
//! ```text
//!  found ──▶ define ──▶ trouble, while clients write and read ──▶ calm ──▶ everybody finishes ──▶ everything is read ──▶ at rest
//! ```
//!
//! Each run has a thread and a runtime of its own, with paused time and a seed for its chance: nothing of one run reaches another.
//!
//! Must not know: what is checked.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic;
use std::path::PathBuf;
use std::sync::{Arc, Once, mpsc};
use std::thread;
use std::time::Duration;

use gapless_engine::Consistency;
use gapless_types::{PartitionId, mistakes};
use tokio::runtime::{Builder, RngSeed};
use tokio::task::JoinHandle;

use crate::checkers::{Checkers, Counts, Reading, log_1};
use crate::findings::Finding;
use crate::plan::Plan;
use crate::sometimes::{Occurrences, Situation};
use crate::trace::{Fingerprint, note};
use crate::workload::{BRIEF, BRIEF_WINDOW, SEASONAL, SHOP, Stage, reader, worker, writer};
use crate::world::{Running, SeatState, World};
use crate::{operator, supervisor, troubles};

/// Longest simulated time that everything takes once there is no trouble any more.
const CALM: Duration = Duration::from_secs(180);

/// Longest real time of a run. It decides nothing but when a run is given up that would never end.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the seed decided.
    pub plan: Plan,
    /// What was found wrong.
    pub findings: Vec<Finding>,
    /// Over everything that happened.
    pub fingerprint: Fingerprint,
    /// What occurred.
    pub occurrences: Occurrences,
    /// How much was written and read.
    pub counts: Counts,
    /// Simulated milliseconds.
    pub simulated: u64,
    /// Every event, if they were kept.
    pub lines: Vec<String>,
}

thread_local! {
    /// Panics of the run on this thread. A task that panics would end unseen.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs a seed.
#[must_use]
pub fn run(plan: Plan, keep_lines: bool) -> Report {
    watch_panics();
    let (name, given) = (format!("seed {}", plan.seed), plan.clone());
    let (tell, told) = mpsc::channel();
    let thread = thread::Builder::new().name(name).spawn(move || {
        PANICS.set(Some(Vec::new()));
        fastrand::seed(plan.seed);
        mistakes::make(plan.mistake);
        let seed = RngSeed::from_bytes(&plan.seed.to_le_bytes());
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).rng_seed(seed).build();
        let runtime = runtime.expect("a runtime without threads needs nothing that can be missing");
        let report = runtime.block_on(simulate(plan, keep_lines));
        drop(runtime);
        PANICS.set(None);
        // Nobody waits for a run that took too long.
        let _ = tell.send(report);
    });
    let thread = thread.expect("the machine has room for a thread");
    match told.recv_timeout(PATIENCE) {
        Ok(report) => report,
        Err(mpsc::RecvTimeoutError::Timeout) => Report::of_one_without_end(given),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(()) => unreachable!("a run that ends tells what came of it"),
            Err(panic) => panic::resume_unwind(panic),
        },
    }
}

impl Report {
    /// Tasks kept each other awake for ever, so that simulated time stood still.
    fn of_one_without_end(plan: Plan) -> Self {
        let what = format!("no end after {PATIENCE:?} of real time: simulated time stands still");
        Self {
            plan,
            findings: vec![Finding { invariant: "LIVE", what, at: 0 }],
            fingerprint: Fingerprint { hash: 0, events: 0 },
            occurrences: Occurrences::new(),
            counts: Counts::default(),
            simulated: 0,
            lines: Vec::new(),
        }
    }
}

/// Panics of threads that run a seed are findings; those of others go where they always went.
fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let noted = PANICS.with(|panics| match &mut *panics.borrow_mut() {
                Some(panics) => {
                    panics.push(info.to_string().replace('\n', " "));
                    true
                }
                None => false,
            });
            if !noted {
                before(info);
            }
        }));
    });
}

async fn simulate(plan: Plan, keep_lines: bool) -> Report {
    let world = World::new(plan, keep_lines);
    let checkers = Arc::new(Checkers::new(&world));
    let stage = Arc::new(Stage::new(world.clone(), checkers.clone()));
    let background =
        [tokio::spawn(supervisor::run(world.clone())), tokio::spawn(look_at_steps(stage.clone()))];
    live(&stage).await;
    for task in &background {
        task.abort();
    }
    tell_panics(&world);
    let report = Report {
        plan: world.plan.clone(),
        findings: world.findings.all(),
        fingerprint: world.trace.fingerprint(),
        occurrences: world.sometimes.occurrences(),
        counts: checkers.counts(),
        simulated: world.trace.millis(),
        lines: world.trace.lines(),
    };
    world.dissolve();
    report
}

fn tell_panics(world: &World) {
    let panics = PANICS.with(|panics| panics.borrow_mut().as_mut().map(std::mem::take));
    for panic in panics.unwrap_or_default() {
        world.findings.add("PANIC", panic);
    }
}

async fn look_at_steps(stage: Arc<Stage>) {
    // What was found is told, and that happens, too: it is looked at no more.
    while !stage.world.findings.any() {
        stage.world.trace.happened().await;
        stage.checkers.look(&stage.world);
        tell_panics(&stage.world);
    }
}

async fn live(stage: &Arc<Stage>) {
    let world = &stage.world;
    let partitions = world.plan.partitions;
    for (name, window) in [(SHOP, None), (BRIEF, Some(BRIEF_WINDOW)), (SEASONAL, None)] {
        if !stage.define(name, window, partitions).await {
            return world.findings.add("LIVE", format!("namespace {name} could not be defined"));
        }
    }
    let mut clients: Vec<JoinHandle<()>> = (1..=world.plan.writers)
        .map(|number| tokio::spawn(writer::run(stage.clone(), number, world.fork_chance())))
        .collect();
    clients.extend((0..2).map(|_| tokio::spawn(reader::run(stage.clone(), world.fork_chance()))));
    clients.push(tokio::spawn(reader::follow(stage.clone(), world.fork_chance())));
    let workers = (1..=world.plan.workers)
        .map(|number| AbortOnDrop(tokio::spawn(worker::run(stage.clone(), number, world.fork_chance()))));
    let _workers: Vec<_> = workers.collect();
    let troubled = tokio::spawn(troubles::run(stage.clone(), world.fork_chance()));
    // What it found by a panic is told by its hook.
    let _ = troubled.await;
    troubles::calm_down(stage);
    stage.calm_down();
    if world.findings.any() {
        clients.iter().for_each(JoinHandle::abort);
        return;
    }
    if tokio::time::timeout(CALM, finish(stage, clients)).await.is_err() {
        if stands_still_by_design(world) {
            return world.sometimes.saw(Situation::StoodStill);
        }
        let (counts, nodes) = (stage.checkers.counts(), nodes(world));
        world.findings.add("LIVE", format!("{CALM:?} without trouble were not enough: {counts:?}, {nodes}"));
        return;
    }
    if world.findings.any() {
        return;
    }
    rest(stage).await;
}

/// A task that goes on until nobody needs it any more.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Everybody comes to an end, and everything is read once more.
async fn finish(stage: &Arc<Stage>, clients: Vec<JoinHandle<()>>) {
    let world = &stage.world;
    {
        let _operating = stage.operating.lock().await;
        let damaged: Vec<_> =
            world.seats().iter().filter(|(_, seat)| seat.damaged).map(|(node, _)| *node).collect();
        for node in damaged {
            match world.plan.nodes {
                // Nobody else has anything; and what was damaged follows from what was not.
                1 => {
                    operator::repair_all(stage, node).await;
                    world.with_seat(node, |seat| seat.damaged = false);
                }
                _ if is_retired(world, node) => {}
                _ => operator::replace(stage, node).await,
            }
        }
    }
    operator::thaw_all(stage).await;
    for client in clients {
        let _ = client.await;
    }
    note!(world.trace, "all clients are done");
    while !all_run(world) {
        if world.findings.any() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let Some(leader) = await_leader(world).await else { return };
    let partitions: Vec<PartitionId> =
        leader.engine.partitions().iter().map(|report| report.partition).collect();
    for partition in &partitions {
        read_everywhere(stage, *partition).await;
    }
    if !world.findings.any() {
        stage.checkers.finish(|partition| partitions.contains(&partition));
    }
}

/// Every node shows the same, up to the newest outcome.
async fn read_everywhere(stage: &Stage, partition: PartitionId) {
    let newest = loop {
        if stage.world.findings.any() {
            return;
        }
        if let Some(leader) = stage.world.leader() {
            let least = stage.checkers.acknowledged(partition);
            let view =
                reader::view(&leader, partition, Consistency::Linearizable, Duration::from_secs(5)).await;
            if let Some(Ok(view)) = view {
                if view.applied() < least {
                    let what = format!(
                        "partition {partition} ends at {:?}, but {least:?} was acknowledged",
                        view.applied()
                    );
                    stage.world.findings.add("ACK-1", what);
                }
                let how = Reading { all_rows: true, damaged: false, settled: true };
                stage.checkers.read(&leader.life, &view, how);
                break view;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let Some(applied) = newest.applied() else { return };
    for Running { life, engine } in stage.world.running() {
        let node = Running { life, engine };
        loop {
            let view =
                reader::view(&node, partition, Consistency::AtLeast(applied), Duration::from_secs(5)).await;
            match view {
                None => break,
                Some(Ok(view)) => {
                    let how = Reading { all_rows: true, damaged: false, settled: true };
                    stage.checkers.read(&node.life, &view, how);
                    break;
                }
                Some(Err(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        worker::read_all(stage, &node, partition, applied).await;
    }
}

/// All nodes are closed, and what they leave on their disks is computed anew.
async fn rest(stage: &Stage) {
    let world = &stage.world;
    for running in world.running() {
        // Not to be started again.
        running.engine.close().await;
        let node = running.life.node;
        let disk = world.with_seat(node, |seat| {
            seat.state = SeatState::Retired;
            seat.disk.clone()
        });
        if let Some(disk) = disk
            && let Err(what) = log_1::check(&disk, &PathBuf::from(format!("node-{node}")))
        {
            world.findings.add("LOG-1", format!("node {node} at rest: {what}"));
        }
        running.life.end();
    }
}

fn is_retired(world: &World, node: gapless_consensus::NodeId) -> bool {
    world.with_seat(node, |seat| matches!(seat.state, SeatState::Retired)).unwrap_or(true)
}

/// Whether all nodes run that are to. One that does not open although its disk is sound is a finding.
fn all_run(world: &World) -> bool {
    let seats = world.seats();
    for (node, seat) in seats.iter() {
        if let (Some(reason), SeatState::Down { .. }) = (&seat.refused, &seat.state)
            && seat.lives > 20
        {
            world.findings.add("LIVE", format!("node {node} does not open: {reason}"));
        }
    }
    seats.values().all(|seat| matches!(seat.state, SeatState::Running(_) | SeatState::Retired))
}

async fn await_leader(world: &World) -> Option<Running> {
    loop {
        if let Some(leader) = world.leader() {
            return Some(leader);
        }
        if world.findings.any() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A voter is gone with its disk, or does not open because that is damaged, and another one lost the end of its log: it does not vote
/// before it has passed that, unless all voters are there. Nobody can go on until somebody decides what is to be given up.
fn stands_still_by_design(world: &World) -> bool {
    let running = world.running();
    let voters: BTreeSet<_> =
        running.iter().flat_map(|node| node.engine.replicator().members().all_voters()).collect();
    let is_gone = |seat: &crate::world::Seat| {
        matches!(seat.state, SeatState::Retired) || (seat.damaged && seat.refused.is_some())
    };
    let gone = world.seats().iter().any(|(node, seat)| voters.contains(node) && is_gone(seat));
    let is_suspect = |node: &Running| node.engine.replicator().statistics().suspect.is_some();
    gone && world.leader().is_none() && running.iter().any(is_suspect)
}

/// What every node says of itself, for whoever has to find out why nothing goes on.
fn nodes(world: &World) -> String {
    let shown = |(node, seat): (&gapless_consensus::NodeId, &crate::world::Seat)| match &seat.state {
        SeatState::Down { .. } => format!("node {node} is down: {:?}", seat.refused),
        SeatState::Opening(_) => format!("node {node} is being opened"),
        SeatState::Ending => format!("node {node} is ending"),
        SeatState::Retired => format!("node {node} is retired"),
        SeatState::Running(running) => {
            let engine = &running.engine;
            let leadership = engine.replicator().leadership().borrow().clone();
            let partitions: Vec<_> = engine
                .partitions()
                .into_iter()
                .map(|report| {
                    (report.partition.to_string(), report.state, report.marks.applied.map(|at| at.get()))
                })
                .collect();
            let voters = engine.replicator().members().all_voters();
            let (progress, suspect) =
                (*engine.replicator().progress().borrow(), engine.replicator().statistics().suspect);
            let alarm = engine.alarms().pop();
            format!("node {node} {leadership:?} {voters:?} {progress:?} {suspect:?} {partitions:?} {alarm:?}")
        }
    };
    world.seats().iter().map(shown).collect::<Vec<_>>().join("; ")
}
