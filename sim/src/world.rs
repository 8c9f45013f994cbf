//! The world of a run: nodes with their disks and clocks, the network between them, and what was found wrong.
//!
//! ```text
//!  supervisor ──▶ seat: disk, clock ──▶ life ──▶ engine: the real one, over the life's disk, network and clock
//!                   survives              ends once: then nothing it does has an effect
//! ```
//!
//! Must not know: which troubles there are, what clients do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_consensus::{ClusterId, Members, NodeId, Start};
use gapless_engine::{Config, Engine, Leader, Peers, QueueLimits, Report};
use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, FaultyIo};
use gapless_log::{Drive, LogId};
use tokio::time::Instant;

use self::clock::SimulatedClock;
use self::disk::{Broken, LastWrite, Lies, LifeDisk};
use self::life::Life;
use self::network::SimulatedNetwork;
use crate::findings::Findings;
use crate::plan::{Plan, Trouble};
use crate::sometimes::{Situation, Sometimes};
use crate::trace::{Trace, note};

pub mod clock;
pub(crate) mod disk;
pub mod life;
pub mod network;

/// Longest time that opening or ending a node may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Everything there is in a run.
pub struct World {
    /// What the seed decided.
    pub plan: Plan,
    /// What happened.
    pub trace: Trace,
    /// What occurred.
    pub sometimes: Sometimes,
    /// What was found wrong.
    pub findings: Findings,
    pub(crate) network: SimulatedNetwork,
    began: Instant,
    seats: Mutex<BTreeMap<NodeId, Seat>>,
    chance: Mutex<fastrand::Rng>,
}

/// A node, and what survives its lives.
pub(crate) struct Seat {
    pub(crate) disk: FaultyIo,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) broken: Broken,
    /// All that were broken once.
    pub(crate) were_broken: BTreeSet<String>,
    pub(crate) lies: Lies,
    pub(crate) last_log_write: LastWrite,
    pub(crate) start: Start,
    pub(crate) lives: u64,
    pub(crate) state: SeatState,
    /// Its disk lied or rotted: it may refuse to work, but never says anything wrong.
    pub(crate) damaged: bool,
    /// How long everything takes that its partitions do, in microseconds.
    pub(crate) jobs_take: Arc<AtomicU64>,
    /// What it said when it could not be opened last.
    pub(crate) refused: Option<String>,
}

pub(crate) enum SeatState {
    /// To be started at this time.
    Down {
        until: Instant,
    },
    Opening(Arc<Life>),
    Running(Running),
    Ending,
    /// Never to be started again.
    Retired,
}

/// A node that runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) life: Arc<Life>,
    pub(crate) engine: Engine,
}

impl Seat {
    /// Lets one of the next writes lie: it is lost, or lands elsewhere.
    pub(crate) fn arm_lie(&self, lost: bool) {
        self.lies.lock().unwrap_or_else(PoisonError::into_inner).push(lost);
    }

    /// Flips a bit that some store of a partition has on stable storage, if there is one: which one.
    pub(crate) fn flip_in_store(&self, node: NodeId, chance: &mut fastrand::Rng) -> Option<(PathBuf, u64)> {
        let memory = self.disk.memory();
        let below = |dir: PathBuf| -> Vec<PathBuf> {
            let mut names = memory.list_dirs(&dir).unwrap_or_default();
            names.sort_unstable();
            names.into_iter().map(|name| dir.join(name)).collect()
        };
        let partitions = below(PathBuf::from(format!("node-{node}/partitions")));
        let stores = partitions.into_iter().map(|partition| partition.join("store"));
        let mut files: Vec<PathBuf> = stores
            .flat_map(|store| {
                memory.list(&store).unwrap_or_default().into_iter().map(move |name| store.join(name))
            })
            .collect();
        files.sort_unstable();
        let path = chance.choice(files)?;
        let length = memory.bytes_of(&path).ok()?.len() as u64;
        let offset = chance.u64(..length.max(1));
        self.disk.flip_bit(&path, offset, chance.u8(..8)).ok()?;
        Some((path, offset))
    }

    /// No write lies any more.
    pub(crate) fn disarm_lies(&self) {
        self.lies.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl World {
    /// Nodes that are to found a cluster. None of them runs yet.
    #[must_use]
    pub fn new(plan: Plan, keep_lines: bool) -> Arc<Self> {
        let (trace, sometimes) = (Trace::new(keep_lines), Sometimes::default());
        let network = SimulatedNetwork::new(plan.seed ^ 1, plan.weather, trace.clone(), sometimes.clone());
        let chance = Mutex::new(fastrand::Rng::with_seed(plan.seed ^ 2));
        let world = Arc::new(Self {
            findings: Findings::new(trace.clone()),
            trace,
            sometimes,
            network,
            began: Instant::now(),
            seats: Mutex::default(),
            chance,
            plan,
        });
        let address = |node: u64| (NodeId::new(node), format!("node-{node}"));
        let members = Members::voting((1..=world.plan.nodes).map(address)).expect("a few voters are valid");
        for node in 1..=world.plan.nodes {
            world.seat(NodeId::new(node), Start::Found(members.clone()));
        }
        world
    }

    /// A place for a node, to be started at once.
    pub(crate) fn seat(&self, node: NodeId, start: Start) {
        let seed = self.plan.seed.wrapping_mul(1_000_003).wrapping_add(node.get());
        let mut chance = fastrand::Rng::with_seed(seed);
        let clock = SimulatedClock::new(self.began);
        clock.set_drift(chance.i32(-200..200));
        clock.set_off(chance.i64(-2_000..2_000));
        clock.set_write_takes(Duration::from_micros(chance.u64(0..=self.plan.write_takes)));
        let disk = FaultyIo::new(seed);
        disk.short_reads(chance.u8(0..20));
        disk.short_writes(chance.u8(0..20));
        disk.interrupts(chance.u8(0..5));
        let seat = Seat {
            disk,
            clock: Arc::new(clock),
            broken: Broken::default(),
            were_broken: BTreeSet::new(),
            lies: Lies::default(),
            last_log_write: LastWrite::default(),
            start,
            lives: 0,
            state: SeatState::Down { until: Instant::now() },
            damaged: false,
            jobs_take: Arc::default(),
            refused: None,
        };
        self.seats().insert(node, seat);
    }

    pub(crate) fn seats(&self) -> MutexGuard<'_, BTreeMap<NodeId, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number below a bound, from the world's own chance.
    pub(crate) fn draw(&self, bound: u64) -> u64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).u64(..bound.max(1))
    }

    /// A generator of its own for somebody.
    pub(crate) fn fork_chance(&self) -> fastrand::Rng {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).fork()
    }

    /// All nodes that run, by id.
    pub(crate) fn running(&self) -> Vec<Running> {
        let running = |seat: &Seat| match &seat.state {
            SeatState::Running(running) if running.life.is_on() => Some(running.clone()),
            _ => None,
        };
        self.seats().values().filter_map(running).collect()
    }

    /// A node, if it runs.
    pub(crate) fn node(&self, node: NodeId) -> Option<Running> {
        self.running().into_iter().find(|running| running.life.node == node)
    }

    /// The node that leads and can take writes, as far as it says so itself; the one in the highest term if several do.
    pub(crate) fn leader(&self) -> Option<Running> {
        let leads = |running: &Running| {
            let leadership = running.engine.replicator().leadership().borrow().clone();
            leadership.is_ready().then_some(leadership.term)
        };
        let leaders = self.running().into_iter().filter_map(|running| Some((leads(&running)?, running)));
        leaders.max_by_key(|(term, running)| (*term, running.life.node)).map(|(_, running)| running)
    }

    fn config(self: &Arc<Self>, life: &Arc<Life>, seat: &Seat) -> Config {
        let (node, plan) = (life.node, &self.plan);
        let mut config = Config::new(format!("node-{node}"), node, seat.start.clone(), self.network.of(life));
        config.io = Arc::new(LifeDisk {
            disk: seat.disk.clone(),
            life: life.clone(),
            broken: seat.broken.clone(),
            lies: seat.lies.clone(),
            last_log_write: seat.last_log_write.clone(),
            trace: self.trace.clone(),
            sometimes: self.sometimes.clone(),
        });
        let (network, attached) = (self.network.clone(), life.clone());
        config.attach = Some(Arc::new(move |inbound| network.attach(&attached, inbound)));
        config.peers = Arc::new(LifePeers { world: Arc::downgrade(self), life: life.clone() });
        config.clock = seat.clock.clone();
        config.cluster = Some(ClusterId::from_bytes(*b"simulated world!"));
        config.on_threads = false;
        let jobs_take = seat.jobs_take.clone();
        config.jobs_take = Some(Arc::new(move || Duration::from_micros(jobs_take.load(Ordering::Relaxed))));
        config.consensus.seed = plan.seed.wrapping_mul(31) ^ (node.get() << 32) ^ life.number;
        config.consensus.full_disk_patience = Duration::from_secs(2);
        config.reopen_delay = Duration::from_millis(200);
        config.log.drive = Drive::Caller;
        config.log.clock = seat.clock.clone();
        config.log.log_id = Some(log_id(plan.seed, node, 0));
        config.partitions.log.clock = seat.clock.clone();
        config.partitions.log.log_id = Some(log_id(plan.seed, node, 1));
        for log in [&mut config.log, &mut config.partitions.log] {
            log.segment_bytes = 64 << 10;
            log.first_segment_bytes = 64 << 10;
            log.hot_bytes = 16 << 10;
        }
        config.housekeeping.keep_entries = plan.keep_entries;
        config.housekeeping.checkpoint_interval = plan.checkpoint_interval;
        config.housekeeping.max_retained_bytes = plan.max_retained_bytes;
        config.queue = QueueLimits { entries: plan.queue_entries, ..QueueLimits::default() };
        config.recall.outcomes = plan.recalled;
        config.admission.partition.operations = plan.admitted;
        config
    }

    /// Starts a node on what survived it.
    pub(crate) async fn start(self: &Arc<Self>, node: NodeId) {
        let (config, life) = {
            let mut seats = self.seats();
            let seat = seats.get_mut(&node).expect("only nodes that have a seat are started");
            seat.lives += 1;
            let life = Arc::new(Life::new(node, seat.lives));
            let config = self.config(&life, seat);
            seat.state = SeatState::Opening(life.clone());
            (config, life)
        };
        note!(self.trace, "node {node} starts life {}", life.number);
        let opened = tokio::time::timeout(PATIENCE, Engine::open(config)).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(_) => return self.findings.add("LIVE", format!("opening node {node} never ended")),
        };
        match opened {
            Ok(engine) if life.is_on() => {
                note!(self.trace, "node {node} is open");
                if engine.replicator().statistics().suspect.is_some() {
                    self.sometimes.saw(Situation::Probation);
                }
                let mut seats = self.seats();
                let seat = seats.get_mut(&node).expect("seats stay");
                seat.refused = None;
                if matches!(seat.state, SeatState::Opening(_)) {
                    seat.state = SeatState::Running(Running { life, engine });
                }
            }
            Ok(engine) => {
                self.sometimes.saw(Situation::CrashWhileOpening);
                self.end(node, Some(engine)).await;
            }
            Err(error) => {
                let reason = with_causes(&error);
                note!(self.trace, "node {node} does not open: {reason}");
                if life.is_on() {
                    let mut seats = self.seats();
                    let seat = seats.get_mut(&node).expect("seats stay");
                    seat.refused = Some(reason);
                    if seat.damaged {
                        self.sometimes.saw(Situation::DamagedNodeRefused);
                    }
                } else {
                    self.sometimes.saw(Situation::CrashWhileOpening);
                }
                life.end();
                self.end(node, None).await;
            }
        }
    }

    /// Clears away a life that has ended: what its disk keeps is decided, and when the next one begins.
    pub(crate) async fn end(&self, node: NodeId, engine: Option<Engine>) {
        if let Some(engine) = engine {
            self.set_state(node, SeatState::Ending);
            if tokio::time::timeout(PATIENCE, engine.kill()).await.is_err() {
                self.findings.add("LIVE", format!("killing node {node} never ended"));
            }
        }
        let style = Crash::ALL[usize::try_from(self.draw(4)).unwrap_or(0)];
        let wait = Duration::from_millis(self.draw(2_000));
        note!(self.trace, "node {node} is down, {style:?}, for {wait:?}");
        let mut seats = self.seats();
        let seat = seats.get_mut(&node).expect("seats stay");
        seat.disk.restart(style);
        if !matches!(seat.state, SeatState::Retired) {
            seat.state = SeatState::Down { until: Instant::now() + wait };
        }
    }

    /// Ends a node for good.
    pub(crate) async fn retire(&self, node: NodeId) {
        let running = self.node(node);
        note!(self.trace, "node {node} retires");
        if let Some(running) = running {
            running.life.end();
            self.set_state(node, SeatState::Ending);
            let _ = tokio::time::timeout(PATIENCE, running.engine.kill()).await;
        }
        self.set_state(node, SeatState::Retired);
    }

    /// A seat that is retired stays so.
    fn set_state(&self, node: NodeId, state: SeatState) {
        if let Some(seat) = self.seats().get_mut(&node)
            && !matches!(seat.state, SeatState::Retired)
        {
            seat.state = state;
        }
    }

    /// Ends a node for good at once, whatever it is doing. Whoever has it open clears it away.
    pub(crate) fn retire_now(&self, node: NodeId) {
        let running = self.with_seat(node, |seat| std::mem::replace(&mut seat.state, SeatState::Retired));
        match running {
            Some(SeatState::Running(running)) => {
                running.life.end();
                tokio::spawn(async move { running.engine.kill().await });
            }
            Some(SeatState::Opening(life)) => life.end(),
            _ => {}
        }
    }

    /// Does something with a seat.
    pub(crate) fn with_seat<T>(&self, node: NodeId, change: impl FnOnce(&mut Seat) -> T) -> Option<T> {
        self.seats().get_mut(&node).map(change)
    }

    /// Whether the disk of a node lied or rotted.
    pub(crate) fn is_damaged(&self, node: NodeId) -> bool {
        self.with_seat(node, |seat| seat.damaged).unwrap_or(false)
    }

    /// Lets the files of one partition fail, or none.
    pub(crate) fn break_partition(&self, node: NodeId, dir: Option<String>) {
        self.with_seat(node, |seat| {
            *seat.broken.lock().unwrap_or_else(PoisonError::into_inner) = dir.clone();
            if let Some(dir) = dir {
                seat.were_broken.insert(dir);
            }
        });
    }

    /// The directories of the partitions of a node that could not be written, if nothing else was ever wrong with its disk.
    pub(crate) fn broken_alone(&self, node: NodeId) -> Option<BTreeSet<String>> {
        let others = [Trouble::FailingDisk, Trouble::FullDisk, Trouble::Damage, Trouble::Repair];
        if others.iter().any(|trouble| self.plan.has(*trouble)) {
            return None;
        }
        self.with_seat(node, |seat| seat.were_broken.clone()).filter(|broken| !broken.is_empty())
    }

    /// Lets go of everything, so that nothing keeps anything else.
    pub(crate) fn dissolve(&self) {
        self.network.dissolve();
        self.seats().clear();
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("World").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// How reports travel: as other messages.
struct LifePeers {
    world: Weak<World>,
    life: Arc<Life>,
}

impl Peers for LifePeers {
    fn report(&self, to: Leader, report: Report) -> BoxFuture<'static, ()> {
        let (world, life) = (self.world.clone(), self.life.clone());
        Box::pin(async move {
            let Some(world) = world.upgrade() else { return };
            if !life.is_on() || world.network.travel("report", life.node, to.node).await.is_err() {
                return;
            }
            if let Some(running) = world.node(to.node) {
                running.engine.receive(&report);
            }
        })
    }
}

/// Ids of logs, which would be random otherwise.
fn log_id(seed: u64, node: NodeId, which: u8) -> LogId {
    let mut bytes = [which; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&node.get().to_le_bytes()[..4]);
    LogId::from_bytes(bytes)
}

pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
