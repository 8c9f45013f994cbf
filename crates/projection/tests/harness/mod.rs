//! A domain in memory, driven by hand.

#![allow(dead_code, reason = "every file of tests uses its part of it")]

use std::sync::Arc;

use gapless_log::io::memory::MemoryIo;
use gapless_projection::{
    Answer, Applied, Command, CommitStatus, Definition, Domain, Done, Event, Grant, Held, Input, Next,
    Payload, Place, Refusal, RowRead, RowWrite, Rules, Settings, Stamp, row_from_json,
};
use gapless_store::{Budget, Options};
use gapless_types::{LogIndex, PartitionOffset, WorkspaceId};
use serde_json::{Value, json};

pub(crate) const WORKSPACE: WorkspaceId = WorkspaceId::new(1);

pub(crate) struct Driver {
    io: Arc<MemoryIo>,
    budget: Budget,
    definition: Definition,
    pub(crate) domain: Domain,
    index: u64,
    events: u64,
    pub(crate) time: u64,
}

impl Driver {
    pub(crate) fn new(settings: Settings, rules: &Value) -> Self {
        let definition = Definition { settings, rules: Rules::from_json(rules).unwrap() };
        let (io, budget) = (Arc::new(MemoryIo::new()), Budget::new(1 << 30, 1 << 20));
        let domain = open(&io, &budget, &definition);
        Self { io, budget, definition, domain, index: 0, events: 0, time: 0 }
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::new(settings, &json!({}))
    }

    /// Checkpoints and opens again: what comes back was all on the disk.
    pub(crate) fn reopen(self) -> Self {
        let Self { io, budget, definition, mut domain, index, events, time } = self;
        domain.checkpoint(LogIndex::new(index)).unwrap();
        drop(domain);
        let domain = open(&io, &budget, &definition);
        Self { io, budget, definition, domain, index, events, time }
    }

    /// Another node that was given an image.
    pub(crate) fn copy(&mut self) -> Self {
        let image = self.domain.image().unwrap();
        let rows: Vec<_> =
            image.rows.everything().map(|row| row.map(|(_, key, value)| (key, value)).unwrap()).collect();
        let (io, budget, definition) =
            (Arc::new(MemoryIo::new()), self.budget.clone(), self.definition.clone());
        Domain::install(io.clone(), "domain", rows, Options::default(), &budget).unwrap();
        let domain = open(&io, &budget, &definition);
        Self { io, budget, definition, domain, index: self.index, events: self.events, time: self.time }
    }

    pub(crate) fn apply(&mut self, input: Input<'_>) -> Applied {
        self.index += 1;
        let place = Place { index: LogIndex::new(self.index), position: 0 };
        self.domain.apply(place, Stamp::first(self.time), input).unwrap()
    }

    pub(crate) fn open(&mut self, event_type: &str, key: Option<&str>, payload: &Value) -> u64 {
        self.events += 1;
        let payload = payload.to_string();
        let event = Event {
            source: PartitionOffset::new(self.events).unwrap(),
            workspace: WORKSPACE,
            event_type,
            key,
            payload: payload.as_bytes(),
        };
        match self.apply(Input::Outcome(event)) {
            Applied::Opened(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn open_plain(&mut self, count: usize) {
        for _ in 0..count {
            self.open("Note", None, &json!({}));
        }
    }

    pub(crate) fn command(&mut self, command: &Command<'_>) -> Answer {
        match self.apply(Input::Command(&command.to_bytes())) {
            Applied::Answered(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn lease(&mut self, max: u32) -> Vec<Grant> {
        match self.command(&Command::Lease { worker: "w", ttl_ms: 100, max }).done {
            Done::Granted(grants) => grants,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn allocate(&mut self) -> Held {
        match self.command(&Command::Allocate { worker: "w", ttl_ms: 100, workspace: WORKSPACE }).done {
            Done::Granted(grants) => held(&grants[0]),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn commit(&mut self, held: Held, payload: &Payload) -> Done {
        self.command(&Command::commit(held, &payload.to_bytes())).done
    }

    /// Commits what the rule matches now.
    pub(crate) fn commit_rule(&mut self, held: Held) -> Done {
        let payload = self.exploded(held.slot);
        self.commit(held, &payload)
    }

    pub(crate) fn exploded(&mut self, slot: u64) -> Payload {
        let view = self.domain.view();
        Payload::Exploded { read_watermark: view.watermark(), exploded: view.explode(slot).unwrap() }
    }

    pub(crate) fn fail(&mut self, held: Held) -> Next {
        match self.command(&Command::Fail { held, error: "it broke" }).done {
            Done::Failed { next, .. } => next,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refusal(&mut self, command: &Command<'_>) -> Option<Refusal> {
        match self.command(command).done {
            Done::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    pub(crate) fn tick(&mut self, time: u64) -> Vec<u64> {
        self.time = time;
        match self.command(&Command::Tick).done {
            Done::Ticked { expired } => expired,
            other => panic!("{other:?}"),
        }
    }

    /// All stored state but where the domain stands in the log and what it counted.
    pub(crate) fn stored(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let image = self.domain.image().unwrap();
        let rows = image.rows.everything().map(Result::unwrap);
        rows.map(|(_, key, value)| (key.to_vec(), value.to_vec())).filter(|(key, _)| key != b"h").collect()
    }

    pub(crate) fn why(&mut self) -> Vec<(u64, &'static str)> {
        self.domain
            .view()
            .fills(0)
            .map(|fill| fill.unwrap())
            .map(|fill| (fill.slot, fill.why.name()))
            .collect()
    }
}

fn open(io: &Arc<MemoryIo>, budget: &Budget, definition: &Definition) -> Domain {
    let io = Arc::clone(io);
    Domain::open(io, "domain", definition.clone(), Options::default(), budget).unwrap()
}

pub(crate) fn held(grant: &Grant) -> Held {
    Held { slot: grant.slot, token: grant.token }
}

pub(crate) fn slots(grants: &[Grant]) -> Vec<u64> {
    grants.iter().map(|grant| grant.slot).collect()
}

pub(crate) fn result(value: i64) -> Payload {
    Payload::result(&json!(value))
}

pub(crate) fn write(id: &str, n: i64, read: Option<u64>) -> Payload {
    let (table, id): (Box<str>, Box<str>) = ("acc".into(), id.into());
    let reads = read.map(|version| RowRead { table: table.clone(), id: id.clone(), version });
    let effects = vec![RowWrite { table, id, row: row_from_json(&json!({ "n": n })) }];
    Payload::Effects { effects, reads: reads.into_iter().collect() }
}

pub(crate) fn applied(done: &Done) -> bool {
    *done == Done::Committed { status: CommitStatus::Applied, is_duplicate: false }
}

pub(crate) fn status(done: &Done) -> CommitStatus {
    match done {
        Done::Committed { status, .. } => *status,
        other => panic!("{other:?}"),
    }
}
