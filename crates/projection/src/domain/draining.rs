//! Draining: resolved slots become visible, in slot order.
//!
//! Invariants
//! - ORD-1: an effect is applied when all lower slots are resolved, and once.
//! - Rows, effect and watermark change together: nobody sees one without the others.
//! - The watermark grows by one slot at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::Domain;
use crate::codec::Put;
use crate::effect::{Change, Effect};
use crate::error::Fault;
use crate::evaluation::{Evaluation, Failure};
use crate::event::Event;
use crate::limits::MAX_CHUNK_ROWS;
use crate::mistakes::Mistake;
use crate::payload::{Exploded, Payload, RowRead};
use crate::rows::{EFFECTS, FILLS, encode_stored_row, piece_key, read_row, row_key, slot_key, table_prefix};
use crate::slot::{End, Slot, Stage};

impl Domain {
    /// Applies what is resolved, up to the first slot that is not.
    pub(super) fn drain(&mut self) -> Result<(), Fault> {
        while let Some(slot) = self.window.front() {
            match slot.stage {
                Stage::Filled(why) => {
                    let claimed = slot.is_claimed();
                    self.resolve(Change::Fill { why, claimed })?;
                }
                Stage::Staged => self.drain_staged()?,
                Stage::Ready(_) | Stage::Leased => break,
            }
        }
        Ok(())
    }

    /// The slot at the head has a payload: applies it, or sends it back.
    fn drain_staged(&mut self) -> Result<(), Fault> {
        let number = self.header.watermark + 1;
        match self.staged_payload(number)? {
            Payload::Result(json) => self.commit_change(Change::Result(json)),
            Payload::Effects { effects, reads } => {
                if self.has_conflict(number, &reads)? {
                    self.send_back(number);
                    Ok(())
                } else {
                    self.commit_change(Change::Effects(effects))
                }
            }
            Payload::Exploded { read_watermark, exploded } => {
                match self.evaluate(number, &exploded, read_watermark) {
                    Ok((change, corrected)) => {
                        self.header.counters.corrections += u64::from(corrected);
                        self.commit_change(change)
                    }
                    Err(Failure::Evaluation(_)) => self.charge(number),
                    Err(Failure::Fault(fault)) => Err(fault),
                }
            }
        }
    }

    fn staged_payload(&mut self, number: u64) -> Result<Payload, Fault> {
        let slot = self.slot(number);
        Ok(match slot.parts {
            0 => Payload::decode(&slot.inline)?,
            parts => Payload::decode(&self.stored_parts(number, parts)?)?,
        })
    }

    fn evaluate(
        &mut self,
        number: u64,
        exploded: &Exploded,
        read_watermark: u64,
    ) -> Result<(Change, bool), Failure> {
        let slot = self.slot(number);
        let (rule, workspace) = (slot.rule.ok_or(Fault::Malformed("matches of no rule"))?, slot.workspace);
        let bytes = self.rows.view()?.get(&slot_key(b'v', number))?;
        let bytes = bytes.ok_or(Fault::Malformed("an open slot without an event"))?;
        let event = Event::decode(&bytes)?.0.fields();
        let rule = self.rules.at(rule);
        let evaluation = Evaluation { rule, event: &event, workspace };
        if self.mistakes.makes(Mistake::ReadTooEarly) {
            return evaluation.without_correction(&self.rows.store, &exploded.ids);
        }
        evaluation.at_head(&self.rows.store, &exploded.ids, read_watermark, number)
    }

    fn has_conflict(&mut self, number: u64, reads: &[RowRead]) -> Result<bool, Fault> {
        let workspace = self.slot(number).workspace;
        for read in reads {
            let (version, _) = read_row(self.rows.view()?, &read.table, workspace, &read.id)?;
            if version != read.version {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A row that was read has changed since: the redo happens at the head, where no row can change any more.
    fn send_back(&mut self, number: u64) {
        self.header.counters.waiting -= 1;
        self.header.counters.conflicted += 1;
        self.slot_mut(number).attempts -= 1;
        self.window.set_stage(number, Stage::Ready(Some(End::Returned)));
        self.slot_mut(number).retry_at = 0;
    }

    /// A rule without an answer costs an attempt and writes nothing.
    fn charge(&mut self, number: u64) -> Result<(), Fault> {
        self.header.counters.waiting -= 1;
        self.retry_or_give_up(number, End::Returned)?;
        if self.slot(number).is_resolved() {
            self.given_up.push(number);
        }
        Ok(())
    }

    fn commit_change(&mut self, change: Change) -> Result<(), Fault> {
        let staged_at = self.window.front().map_or(0, |slot| slot.staged_at);
        let counters = &mut self.header.counters;
        counters.waiting -= 1;
        counters.committed += 1;
        counters.wait_ms += self.header.clock - staged_at;
        self.resolve(change)
    }

    /// The head is resolved: its change becomes visible, and the watermark passes it.
    fn resolve(&mut self, change: Change) -> Result<(), Fault> {
        let number = self.header.watermark + 1;
        let slot = self.window.pop().ok_or(Fault::Malformed("no slot at the head"))?;
        let effect = Effect {
            slot: number,
            source: slot.source,
            time: self.header.clock,
            workspace: slot.workspace,
            token: slot.token,
            digest: slot.digest,
            change,
        };
        self.write_effect(&effect)?;
        self.forget(number, &slot)?;
        assert!(self.header.tail >= number, "the watermark never passes the tail");
        self.header.watermark = number;
        self.load()
    }

    fn write_effect(&mut self, effect: &Effect) -> Result<(), Fault> {
        let mut bytes = std::mem::take(&mut self.scratch);
        let mut touched: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (table, id, row) in effect.writes() {
            encode_stored_row(effect.slot, row, &mut bytes);
            self.rows.put(&row_key(table, effect.workspace, id), &bytes)?;
            touched.entry(table).or_default().insert(id);
        }
        for (table, ids) in touched {
            let ids: Vec<&str> = ids.into_iter().collect();
            for (piece, ids) in (0_u32..).zip(ids.chunks(MAX_CHUNK_ROWS)) {
                bytes.clear();
                for id in ids {
                    bytes.put_short(id.as_bytes());
                }
                let mut key = table_prefix(b't', table, effect.workspace);
                key.extend_from_slice(&effect.slot.to_be_bytes());
                key.extend_from_slice(&piece.to_be_bytes());
                self.rows.put(&key, &bytes)?;
            }
        }
        if let Change::Fill { why, claimed } = &effect.change {
            self.rows.put(&slot_key(FILLS, effect.slot), &[*why as u8, u8::from(*claimed)])?;
        }
        let rows = &mut self.rows;
        effect.encode(&mut bytes, |piece, bytes| rows.put(&piece_key(EFFECTS, effect.slot, piece), bytes))?;
        self.scratch = bytes;
        Ok(())
    }

    /// What was kept of a slot while it was open.
    fn forget(&mut self, number: u64, slot: &Slot) -> Result<(), Fault> {
        if slot.is_claimed() {
            self.rows.delete(&slot_key(b'v', number))?;
        }
        if slot.has_row {
            self.rows.delete(&slot_key(b's', number))?;
        }
        for part in 1..=slot.parts {
            self.rows.delete(&piece_key(b'p', number, part))?;
        }
        Ok(())
    }
}
