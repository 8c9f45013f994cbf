//! Random schedules: workers that stall, die and come back, clocks that jump, leaders that change, restarts at any command.
//!
//! A schedule follows from its seed alone. After every command, what must always hold is checked; at the end everything left is worked
//! off, and the state is held against a fold of the events that shares no code with the domain.

pub(crate) mod events;
pub(crate) mod oracle;
mod workers;
pub(crate) mod world;

use fastrand::Rng;
use gapless_projection::{Command, Held, Mistake};

use events::{Kind, Script};
use world::{Plan, World};

/// Steps of one schedule before everything is worked off.
const STEPS: usize = 110;
/// Rounds in which everything that is left has to be worked off.
const ROUNDS: usize = 3000;

/// What a schedule is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Everything that can happen.
    Everything,
    /// Ten given events, and nothing that fills a slot: effects and rows are prescribed.
    TenEvents,
}

/// Runs the schedule of a seed. What it left, or what was wrong.
pub(crate) fn run(seed: u64, purpose: Purpose, mistake: Option<Mistake>) -> Result<World, String> {
    let mut rng = Rng::with_seed(seed);
    let script = match purpose {
        Purpose::Everything => Script::random(&mut rng),
        Purpose::TenEvents => Script::ten_events(),
    };
    let plan = Plan::random(&mut rng, purpose);
    let mut world = World::new(plan, script, mistake)?;
    for _ in 0..STEPS {
        step(&mut world, &mut rng, purpose)?;
    }
    finish(&mut world, &mut rng)?;
    oracle::check(&mut world)?;
    Ok(world)
}

fn step(world: &mut World, rng: &mut Rng, purpose: Purpose) -> Result<(), String> {
    let harmless = purpose == Purpose::TenEvents;
    match rng.u32(0..100) {
        0..12 => world.open_events(rng.usize(1..4)),
        12..30 => world.lease(rng),
        30..42 => world.compute(rng),
        42..62 => world.commit(rng),
        62..66 => world.repeat(rng),
        66..69 => world.renew(rng),
        69..73 => world.release(rng),
        73..76 if !harmless => world.fail(rng),
        76..78 if !harmless => world.skip(rng),
        78..81 if !harmless => world.allocate(rng),
        81..86 => world.pass_time(rng),
        86..88 => world.jump_back(rng),
        88..91 => world.change_leader(rng),
        91..95 => world.checkpoint(),
        95..98 => world.restart(),
        98 => world.garbage(rng),
        _ => world.tick(),
    }
}

/// Opens what is not opened yet, and works until nothing is left.
fn finish(world: &mut World, rng: &mut Rng) -> Result<(), String> {
    world.open_events(usize::MAX)?;
    for round in 0..ROUNDS {
        if world.is_done() {
            return Ok(());
        }
        world.pass_time(rng)?;
        if world.is_halted() {
            world.command(&Command::Skip { slot: world.domain().watermark() + 1 })?;
        }
        world.lease(rng)?;
        world.compute_all()?;
        world.commit_all(rng)?;
        if round % 7 == 0 {
            world.restart()?;
        }
    }
    Err(format!("not done after {ROUNDS} rounds: {:?}", world.domain().status()))
}

/// What a worker knows of a slot it was given.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) held: Held,
    pub(crate) kind: Kind,
    /// What it will commit, once it has computed it.
    pub(crate) payload: Option<Vec<u8>>,
    /// Whether it was sent.
    pub(crate) sent: bool,
}
