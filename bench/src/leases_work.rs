//! Work for one domain: slots that are leased, committed and drained with nothing computed in between; and where-clauses that have to be
//! corrected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gapless_log::io::memory::MemoryIo;
use gapless_projection::{
    Answer, Applied, Command, Definition, Domain, Done, Event, Grant, Held, Input, Payload, Place, RowWrite,
    Rules, Settings, Stamp, row_from_json,
};
use gapless_store::{Budget, Options};
use gapless_types::{LogIndex, PartitionOffset, WorkspaceId};
use serde_json::json;

const WORKSPACE: WorkspaceId = WorkspaceId::new(1);
/// Rows that one slot of the preparation writes.
const ROWS_PER_SLOT: usize = 1000;

/// A domain in memory, and what was measured of it.
pub(crate) struct Worker {
    domain: Domain,
    index: u64,
    events: u64,
    /// Spent in commands, without opening slots and encoding.
    pub(crate) spent: Duration,
}

impl Worker {
    pub(crate) fn new(window: u64) -> Result<Self> {
        let rules = json!({"Bump": {"kind": "update", "entity": "order", "where": {"eq": ["n", -1]},
            "set": {"n": {"add": [{"row": "n"}, 1]}}}});
        let settings = Settings { window, ..Settings::default() };
        let definition = Definition { settings, rules: Rules::from_json(&rules)? };
        // Enough that nothing is written out while it is measured.
        let budget = Budget::new(4 << 30, 1 << 20);
        let options = Options { memtable_bytes: 4 << 30 };
        let domain = Domain::open(Arc::new(MemoryIo::new()), "domain", definition, options, &budget)?;
        Ok(Self { domain, index: 0, events: 0, spent: Duration::ZERO })
    }

    pub(crate) fn open(&mut self, count: u64, event_type: &str) -> Result<()> {
        for _ in 0..count {
            self.events += 1;
            let source = PartitionOffset::new(self.events).context("events start at 1")?;
            let event = Event { source, workspace: WORKSPACE, event_type, key: None, payload: b"{}" };
            self.apply(Input::Outcome(event))?;
        }
        Ok(())
    }

    pub(crate) fn lease(&mut self, max: u32) -> Result<Vec<Grant>> {
        let command = Command::Lease { worker: "worker", ttl_ms: 30_000, max }.to_bytes();
        match self.command(&command)?.done {
            Done::Granted(grants) => Ok(grants),
            other => bail!("a lease was answered with {other:?}"),
        }
    }

    /// Leases, commits and drains so many slots, which are open already.
    pub(crate) fn work_off(&mut self, batch: u32) -> Result<()> {
        let payload = Payload::Result("null".into()).to_bytes();
        let grants = self.lease(batch)?;
        let commands: Vec<Vec<u8>> = grants.iter().map(|grant| commit(grant, &payload)).collect();
        for command in &commands {
            self.command(command)?;
        }
        Ok(())
    }

    /// Stages so many slots, all but the lowest one: everything waits for it.
    pub(crate) fn fill_window(&mut self, slots: u64) -> Result<()> {
        self.open(slots, "Note")?;
        let payload = Payload::Result("null".into()).to_bytes();
        for grant in self.lease(u32::try_from(slots)?)?.iter().skip(1) {
            self.command(&commit(grant, &payload))?;
        }
        Ok(())
    }

    /// Rows of a table that no where-clause of ours matches.
    pub(crate) fn fill_table(&mut self, rows: usize) -> Result<()> {
        for first in (0..rows).step_by(ROWS_PER_SLOT) {
            self.open(1, "Fill")?;
            self.write_rows(first..rows.min(first + ROWS_PER_SLOT))?;
        }
        Ok(())
    }

    /// How long a where-clause takes on the whole table, and how long to drain it when so many rows were touched since.
    pub(crate) fn correct(&mut self, touched: usize) -> Result<(Duration, Duration)> {
        self.open(u64::try_from(touched.div_ceil(ROWS_PER_SLOT))?, "Fill")?;
        self.open(1, "Bump")?;
        let slot = self.domain.tail();
        let view = self.domain.view();
        let started = Instant::now();
        let exploded = view.explode(slot)?;
        let scan = started.elapsed();
        let payload = Payload::Exploded { read_watermark: view.watermark(), exploded }.to_bytes();
        drop(view);
        for first in (0..touched).step_by(ROWS_PER_SLOT) {
            self.write_rows(first..touched.min(first + ROWS_PER_SLOT))?;
        }
        let grants = self.lease(1)?;
        let command = commit(grants.first().context("a slot to work on")?, &payload);
        let before = self.spent;
        self.command(&command)?;
        Ok((scan, self.spent - before))
    }

    fn write_rows(&mut self, rows: std::ops::Range<usize>) -> Result<()> {
        let write = |number: usize| RowWrite {
            table: "order".into(),
            id: format!("order-{number:08}").into(),
            row: row_from_json(&json!({"cust": "c1", "st": "pending", "n": 5})),
        };
        let payload = Payload::Effects { effects: rows.map(write).collect(), reads: Vec::new() }.to_bytes();
        let grants = self.lease(1)?;
        let command = commit(grants.first().context("a slot to write with")?, &payload);
        self.command(&command).map(|_| ())
    }

    fn command(&mut self, bytes: &[u8]) -> Result<Answer> {
        let started = Instant::now();
        let applied = self.apply(Input::Command(bytes))?;
        self.spent += started.elapsed();
        match applied {
            Applied::Answered(Answer { done: Done::Refused(refusal), .. }) => bail!("refused: {refusal}"),
            Applied::Answered(answer) => Ok(answer),
            other => bail!("a command was answered with {other:?}"),
        }
    }

    fn apply(&mut self, input: Input<'_>) -> Result<Applied> {
        self.index += 1;
        let place = Place { index: LogIndex::new(self.index), position: 0 };
        Ok(self.domain.apply(place, Stamp::first(self.index / 1000), input)?)
    }
}

fn commit(grant: &Grant, payload: &[u8]) -> Vec<u8> {
    Command::commit(Held { slot: grant.slot, token: grant.token }, payload).to_bytes()
}
