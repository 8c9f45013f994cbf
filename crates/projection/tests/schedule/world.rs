//! A domain, its log, its workers and its clocks.
//!
//! The world knows what was ever granted, so that it can tell whether a commit had the right to be accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use gapless_log::io::memory::MemoryIo;
use gapless_projection::{
    Answer, Applied, Command, Definition, Domain, Done, Event, Held, Input, Mistake, OnExhausted, OnExpiry,
    Payload, Place, RowRead, RowWrite, Settings, Stage, Value, row_from_json,
};
use gapless_store::{Budget, Options};
use gapless_types::{LogIndex, PartitionOffset, WorkspaceId};
use serde_json::json;

use super::events::{self, Kind, Script};
use super::{Purpose, Task};

pub(crate) const WORKSPACE: WorkspaceId = WorkspaceId::new(7);
const PART_BYTES: usize = 24;

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
    definition: Definition,
    mistake: Option<Mistake>,
    domain: Option<Domain>,
    script: Script,
    payloads: Vec<Vec<u8>>,
    opened: usize,
    log: Vec<(u64, Record, Applied)>,
    /// The leader's clock.
    time: u64,
    tasks: Vec<Task>,
    /// The newest token of every slot that was granted.
    newest: BTreeMap<u64, u64>,
    last_token: u64,
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
        let applied = domain.apply(place, *time, input);
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

/// What workers do.
impl World {
    pub(crate) fn lease(&mut self, rng: &mut Rng) -> Result<(), String> {
        let worker = format!("w{}", rng.u32(0..4));
        let command = Command::Lease { worker: &worker, ttl_ms: rng.i64(1..120), max: rng.u32(1..6) };
        let answer = self.command(&command)?;
        self.take(&answer)
    }

    pub(crate) fn allocate(&mut self, rng: &mut Rng) -> Result<(), String> {
        let command = Command::Allocate { worker: "w", ttl_ms: rng.i64(1..120), workspace: WORKSPACE };
        let answer = self.command(&command)?;
        self.take(&answer)
    }

    fn take(&mut self, answer: &Answer) -> Result<(), String> {
        let Done::Granted(grants) = &answer.done else { return Ok(()) };
        let last = answer.watermark + self.definition.settings.window;
        for grant in grants {
            if grant.token <= self.last_token || grant.slot > last {
                return Err(format!("NUM-1: {grant:?} after token {}, up to slot {last}", self.last_token));
            }
            self.last_token = grant.token;
            self.newest.insert(grant.slot, grant.token);
            let kind = match grant.source {
                Some(source) => self.script.events[usize::try_from(source.get()).unwrap() - 1].kind(),
                None => Kind::Allocated,
            };
            let held = Held { slot: grant.slot, token: grant.token };
            self.tasks.push(Task { held, kind, payload: None, sent: false });
        }
        self.check_keys(grants.iter().map(|grant| grant.slot).collect())
    }

    /// key-serial: among open slots of one key, none is leased while a lower one is unresolved.
    fn check_keys(&mut self, granted: Vec<u64>) -> Result<(), String> {
        if !self.definition.settings.key_serial {
            return Ok(());
        }
        let view = self.domain().view();
        let key = |slot: u64| {
            let event = view.event(slot).unwrap()?;
            event.event().key.map(str::to_owned)
        };
        let domain = self.domain.as_mut().unwrap();
        let open = domain.open_slots(0, usize::MAX).map_err(|fault| fault.to_string())?;
        for slot in granted {
            let Some(of) = key(slot) else { continue };
            let lower = open.iter().find(|open| {
                open.slot < slot
                    && !matches!(open.stage, Stage::Filled(_))
                    && key(open.slot).as_ref() == Some(&of)
            });
            if let Some(lower) = lower {
                return Err(format!("slot {slot} was granted while {lower:?} has its key {of}"));
            }
        }
        Ok(())
    }

    /// Some worker computes what it will commit, from what can be read now.
    pub(crate) fn compute(&mut self, rng: &mut Rng) -> Result<(), String> {
        match self.some_task(rng) {
            Some(at) => self.compute_task(at),
            None => Ok(()),
        }
    }

    pub(crate) fn compute_all(&mut self) -> Result<(), String> {
        (0..self.tasks.len()).filter(|at| self.is_newest(*at)).collect::<Vec<_>>().into_iter().try_for_each(
            |at| {
                if self.tasks[at].sent { Ok(()) } else { self.compute_task(at) }
            },
        )
    }

    fn compute_task(&mut self, at: usize) -> Result<(), String> {
        let view = self.domain().view();
        let task = &self.tasks[at];
        let payload = match &task.kind {
            Kind::Rule => match view.explode(task.held.slot) {
                Ok(exploded) => Payload::Exploded { read_watermark: view.watermark(), exploded },
                // Without an answer there is nothing to commit.
                Err(_) => return Ok(()),
            },
            Kind::Add { id, amount } => {
                let (version, row) = view.row("acc", WORKSPACE, id).map_err(|fault| fault.to_string())?;
                let n = match row.as_ref().and_then(|row| row.get("n")) {
                    Some(Value::Integer(n)) => *n,
                    _ => 0,
                };
                let (table, id): (Box<str>, Box<str>) = ("acc".into(), id.as_str().into());
                let row = row_from_json(&json!({"n": n + amount}));
                Payload::Effects {
                    effects: vec![RowWrite { table: table.clone(), id: id.clone(), row }],
                    reads: vec![RowRead { table, id, version }],
                }
            }
            Kind::Result => Payload::result(&json!({"token": task.held.token})),
            Kind::Allocated => {
                let slot = task.held.slot;
                let row = row_from_json(&json!({"slot": slot}));
                let write = RowWrite { table: "alloc".into(), id: format!("x{}", slot % 3).into(), row };
                Payload::Effects { effects: vec![write], reads: Vec::new() }
            }
        };
        self.tasks[at].payload = Some(payload.to_bytes());
        Ok(())
    }

    /// Some worker, maybe a zombie, commits what it has computed.
    pub(crate) fn commit(&mut self, rng: &mut Rng) -> Result<(), String> {
        let ready = |task: &Task| task.payload.is_some() && !task.sent;
        let ready: Vec<usize> = (0..self.tasks.len()).filter(|at| ready(&self.tasks[*at])).collect();
        match rng.choice(&ready) {
            Some(at) => self.send(*at, rng),
            None => Ok(()),
        }
    }

    pub(crate) fn commit_all(&mut self, rng: &mut Rng) -> Result<(), String> {
        for at in 0..self.tasks.len() {
            let (is_newest, task) = (self.is_newest(at), &self.tasks[at]);
            if is_newest && !task.sent && task.payload.is_some() {
                self.send(at, rng)?;
            } else if is_newest && !task.sent && task.payload.is_none() {
                let held = task.held;
                self.command(&Command::Fail { held, error: "no answer" })?;
            }
        }
        Ok(())
    }

    /// Some worker sends again what it has sent.
    pub(crate) fn repeat(&mut self, rng: &mut Rng) -> Result<(), String> {
        let sent: Vec<usize> = (0..self.tasks.len()).filter(|at| self.tasks[*at].sent).collect();
        match rng.choice(&sent) {
            Some(at) => self.send(*at, rng),
            None => Ok(()),
        }
    }

    fn send(&mut self, at: usize, rng: &mut Rng) -> Result<(), String> {
        let Task { held, payload, sent, .. } = self.tasks[at].clone();
        let bytes = payload.unwrap();
        let was_sent = std::mem::replace(&mut self.tasks[at].sent, true);
        let in_parts = !sent && bytes.len() > PART_BYTES && rng.u32(0..5) == 0;
        let answer = if in_parts {
            let (first, rest) = bytes.split_at(PART_BYTES);
            self.command(&Command::Commit { held, part: 1, is_last: false, bytes: first })?;
            self.command(&Command::Commit { held, part: 2, is_last: true, bytes: rest })?
        } else {
            self.command(&Command::commit(held, &bytes))?
        };
        let Done::Committed { is_duplicate, .. } = answer.done else { return Ok(()) };
        if self.newest[&held.slot] != held.token {
            return Err(format!(
                "FENCE-1: {held:?} was accepted, the newest token is {}",
                self.newest[&held.slot]
            ));
        }
        if is_duplicate != was_sent {
            return Err(format!("{held:?} sent before: {was_sent}; taken for a duplicate: {is_duplicate}"));
        }
        Ok(())
    }

    pub(crate) fn renew(&mut self, rng: &mut Rng) -> Result<(), String> {
        let ttl_ms = rng.i64(-1..90);
        self.with_some_task(rng, |held| Command::Renew { held, ttl_ms })
    }

    pub(crate) fn release(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.with_some_task(rng, |held| Command::Release { held })
    }

    pub(crate) fn fail(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.with_some_task(rng, |held| Command::Fail { held, error: "it broke" })
    }

    pub(crate) fn skip(&mut self, rng: &mut Rng) -> Result<(), String> {
        let slot = rng.u64(0..self.domain().tail() + 2);
        self.command(&Command::Skip { slot }).map(|_| ())
    }

    fn with_some_task<'c>(
        &mut self,
        rng: &mut Rng,
        command: impl Fn(Held) -> Command<'c>,
    ) -> Result<(), String> {
        let Some(at) = self.some_task(rng) else { return Ok(()) };
        self.command(&command(self.tasks[at].held)).map(|_| ())
    }

    fn some_task(&self, rng: &mut Rng) -> Option<usize> {
        (!self.tasks.is_empty()).then(|| rng.usize(0..self.tasks.len()))
    }

    fn is_newest(&self, at: usize) -> bool {
        let held = self.tasks[at].held;
        held.slot > self.domain().watermark() && self.newest[&held.slot] == held.token
    }
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
