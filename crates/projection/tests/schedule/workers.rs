//! What workers do: they lease, compute from what they can read, commit, maybe too late, maybe twice.
//!
//! The world knows what was ever granted, so that it can tell whether a commit had the right to be accepted.

use fastrand::Rng;
use gapless_projection::{
    Answer, Command, Done, Held, Payload, RowRead, RowWrite, Stage, Value, row_from_json,
};
use serde_json::json;

use super::Task;
use super::events::Kind;
use super::world::{WORKSPACE, World};

const PART_BYTES: usize = 24;

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
