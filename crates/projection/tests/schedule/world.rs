//! A domain, its log and its clocks. What workers do is in `workers.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use gapless_log::io::memory::MemoryIo;
use gapless_projection::{
    Answer, Applied, Command, Definition, Domain, Event, Input, Mistake, OnExhausted, OnExpiry, Place,
    Settings, Stage, Stamp,
};
use gapless_store::{Budget, Options};
use gapless_types::{LogIndex, PartitionOffset, WorkspaceId};

use super::events::{self, Script};
use super::{Purpose, Task};

pub(crate) const WORKSPACE: WorkspaceId = WorkspaceId::new(7);

/// How a domain of a schedule behaves.
#[derive(Clone, Debug)]
pub(crate) struct Plan(Settings);

impl Plan {
    pub(crate) fn random(rng: &mut Rng, purpose: Purpose) -> Self {
        let default = Settings { window: rng.u64(1..14), ..Settings::default() };
        if purpose == Purpose::TenEvents {
            return Self(Settings { max_attempts: u32::MAX, key_serial: rng.bool(), ..default });
        }
        Self(Settings {
            max_renewals: rng.u32(0..3),
            max_attempts: rng.u32(1..5),
            on_exhausted: if rng.u32(0..4) == 0 { OnExhausted::Halt } else { OnExhausted::Fill },
            on_expiry: if rng.u32(0..6) == 0 { OnExpiry::Fill } else { OnExpiry::Reclaim },
            backoff_ms: rng.u64(0..3) * 40,
            backoff_cap_ms: 200,
            key_serial: rng.bool(),
            park_key: rng.bool(),
            ..default
        })
    }
}

enum Record {
    Event(usize),
    Command(Vec<u8>),
}

/// Everything there is in a schedule.
pub(crate) struct World {
    io: Arc<MemoryIo>,
    budget: Budget,
    pub(super) definition: Definition,
    mistake: Option<Mistake>,
    pub(super) domain: Option<Domain>,
    pub(super) script: Script,
    payloads: Vec<Vec<u8>>,
    opened: usize,
    log: Vec<(u64, Record, Applied)>,
    /// The leader's clock.
    time: u64,
    pub(super) tasks: Vec<Task>,
    /// The newest token of every slot that was granted.
    pub(super) newest: BTreeMap<u64, u64>,
    pub(super) last_token: u64,
}

impl World {
    pub(crate) fn new(plan: Plan, script: Script, mistake: Option<Mistake>) -> Result<Self, String> {
        let payloads = script.events.iter().map(|event| event.payload.to_string().into_bytes()).collect();
        let mut world = Self {
            io: Arc::new(MemoryIo::new()),
            budget: Budget::new(64 << 20, 1 << 20),
            definition: Definition { settings: plan.0, rules: events::rules() },
            mistake,
            domain: None,
            script,
            payloads,
            opened: 0,
            log: Vec::new(),
            time: 1000,
            tasks: Vec::new(),
            newest: BTreeMap::new(),
            last_token: 0,
        };
        world.restart()?;
        Ok(world)
    }

    pub(crate) fn domain(&self) -> &Domain {
        self.domain.as_ref().unwrap()
    }

    pub(crate) fn events(&self) -> &[events::Event] {
        &self.script.events
    }

    pub(crate) fn event(&self, source: PartitionOffset) -> Option<Event<'_>> {
        let number = usize::try_from(source.get()).unwrap() - 1;
        let event = self.script.events.get(number)?;
        Some(Event {
            source,
            workspace: WORKSPACE,
            event_type: event.name,
            key: event.key.as_deref(),
            payload: &self.payloads[number],
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.opened == self.script.events.len() && self.domain().watermark() == self.domain().tail()
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.domain().status().is_halted
    }
}

/// What happens to the domain.
impl World {
    /// Stops without warning; what comes back is as it was, and answers what it is asked again as it did.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.domain = None;
        let io = Arc::clone(&self.io);
        let domain = Domain::open(io, "domain", self.definition.clone(), Options::default(), &self.budget);
        let mut domain = domain.map_err(|error| format!("it does not open: {error}"))?;
        domain.make(self.mistake);
        self.domain = Some(domain);
        for index in 0..self.log.len() {
            let again = self.feed(index)?;
            if again != Applied::Again && again != self.log[index].2 {
                return Err(format!(
                    "NUM-3: entry {index} gave {:?}, and after a restart {again:?}",
                    self.log[index].2
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn checkpoint(&mut self) -> Result<(), String> {
        let Some(last) = self.log.len().checked_sub(1) else { return Ok(()) };
        let index = LogIndex::new(last as u64);
        let domain = self.domain.as_mut().unwrap();
        domain.passed(index);
        domain.checkpoint(index).map_err(|error| error.to_string())?;
        while domain.maintain().map_err(|error| error.to_string())? {}
        Ok(())
    }

    pub(crate) fn open_events(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count.min(self.script.events.len() - self.opened) {
            self.opened += 1;
            self.give(Record::Event(self.opened - 1))?;
        }
        Ok(())
    }

    pub(crate) fn command(&mut self, command: &Command<'_>) -> Result<Answer, String> {
        match self.give(Record::Command(command.to_bytes()))? {
            Applied::Answered(answer) => Ok(answer),
            other => Err(format!("{command:?} was answered with {other:?}")),
        }
    }

    /// Bytes that are no command change nothing.
    pub(crate) fn garbage(&mut self, rng: &mut Rng) -> Result<(), String> {
        let bytes: Vec<u8> = [3].into_iter().chain((0..rng.usize(0..40)).map(|_| rng.u8(..))).collect();
        match self.give(Record::Command(bytes))? {
            Applied::Malformed(_) => Ok(()),
            other => Err(format!("garbage was answered with {other:?}")),
        }
    }

    /// Appends a record to the log and applies it; then everything that must always hold is looked at.
    fn give(&mut self, record: Record) -> Result<Applied, String> {
        let before = self.standing()?;
        self.log.push((self.time, record, Applied::Again));
        let index = self.log.len() - 1;
        let applied = self.feed(index)?;
        self.log[index].2 = applied.clone();
        let after = self.standing()?;
        if after.watermark < before.watermark || after.watermark > self.domain().tail() {
            return Err(format!("the watermark went from {} to {}", before.watermark, after.watermark));
        }
        if !self.domain().counters().is_balanced() {
            return Err(format!("a grant without an end: {:?}", self.domain().counters()));
        }
        // What is staged stays so until its turn: only at the head it can be sent back.
        let head = after.watermark + 1;
        let lost = before.staged.iter().find(|slot| **slot > head && after.ready.contains(slot));
        lost.map_or(Ok(applied), |slot| Err(format!("slot {slot} was staged and is ready again")))
    }

    fn feed(&mut self, index: usize) -> Result<Applied, String> {
        let (time, record, _) = &self.log[index];
        let place = Place { index: LogIndex::new(index as u64), position: 0 };
        let mut domain = self.domain.take().unwrap();
        let input = match record {
            Record::Command(bytes) => Input::Command(bytes),
            Record::Event(number) => {
                Input::Outcome(self.event(PartitionOffset::new(*number as u64 + 1).unwrap()).unwrap())
            }
        };
        let applied = domain.apply(place, Stamp::first(*time), input);
        self.domain = Some(domain);
        applied.map_err(|fault| format!("it stopped: {fault}"))
    }

    fn standing(&mut self) -> Result<Standing, String> {
        let domain = self.domain.as_mut().unwrap();
        let mut standing = Standing { watermark: domain.watermark(), ..Standing::default() };
        for open in domain.open_slots(0, usize::MAX).map_err(|fault| format!("it cannot be read: {fault}"))? {
            match open.stage {
                Stage::Staged => standing.staged.insert(open.slot),
                Stage::Ready => standing.ready.insert(open.slot),
                Stage::Leased | Stage::Filled(_) => continue,
            };
        }
        Ok(standing)
    }
}

#[derive(Default)]
struct Standing {
    watermark: u64,
    staged: BTreeSet<u64>,
    ready: BTreeSet<u64>,
}

/// What clocks do.
impl World {
    pub(crate) fn tick(&mut self) -> Result<(), String> {
        self.command(&Command::Tick).map(|_| ())
    }

    pub(crate) fn pass_time(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.time += *rng.choice(&[1, 10, 60, 200, 5000]).unwrap();
        self.tick()
    }

    pub(crate) fn jump_back(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.time -= rng.u64(0..self.time.min(10_000));
        self.tick()
    }

    pub(crate) fn change_leader(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.time = rng.u64(0..1_000_000);
        self.command(&Command::LeaderChange).map(|_| ())
    }
}
