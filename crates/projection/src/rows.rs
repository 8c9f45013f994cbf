//! The rows of a domain in its store: their keys, and one's own writes read back.
//!
//! ```text
//! h                                            where the domain stands
//! v slot                                       the event of a claimed slot, until it is resolved
//! s slot                                       a slot above the watermark that is not as its event made it
//! p slot, part                                 a part of a commit, until its slot is resolved or granted again
//! k key                                        a parked key
//! r table, workspace, id                       a row of the read model, or that it is gone: version and columns
//! e slot, piece                                the effect log
//! t table, workspace, slot, piece              the ids that a slot touched
//! f slot                                       a filled slot: why, and whether it was claimed
//! ```
//!
//! Numbers in keys are big-endian, so that keys are in their order; tables have their length in front, so that none is the
//! beginning of another.
//!
//! Invariants
//! - A reader of the store between two commands sees whole slots only.

use bytes::{BufMut, Bytes};
use gapless_log::input::Input;
use gapless_store::{Batch, Direction, Store, View};
use gapless_types::WorkspaceId;

use crate::effect::Effect;
use crate::error::Fault;
use crate::limits::{BATCH_BYTES, BATCH_ROWS};
use crate::value::{Row, put_row, take_row};

pub(crate) const HEADER: &[u8] = b"h";
pub(crate) const EFFECTS: u8 = b'e';
pub(crate) const FILLS: u8 = b'f';
/// What keys of rows begin with.
pub(crate) const ROWS: &[u8] = b"r";

/// A key of a slot in the family of this letter.
pub(crate) fn slot_key(family: u8, slot: u64) -> [u8; 9] {
    let mut key = [family; 9];
    key[1..].copy_from_slice(&slot.to_be_bytes());
    key
}

/// A key of a slot and a number in it.
pub(crate) fn piece_key(family: u8, slot: u64, number: u32) -> [u8; 13] {
    let mut key = [family; 13];
    key[1..9].copy_from_slice(&slot.to_be_bytes());
    key[9..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The slot in a key of either form.
pub(crate) fn slot_of_key(key: &[u8]) -> Result<u64, Fault> {
    let bytes = key.get(1..9).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_be_bytes).ok_or(Fault::Malformed("a key without a slot"))
}

pub(crate) fn parked_key(key: &str) -> Vec<u8> {
    [b"k", key.as_bytes()].concat()
}

/// What the keys of all rows of a table in a workspace begin with.
pub(crate) fn table_prefix(family: u8, table: &str, workspace: WorkspaceId) -> Vec<u8> {
    let mut key = Vec::with_capacity(table.len() + 16);
    key.put_u8(family);
    key.put_u8(u8::try_from(table.len()).expect("names are at most 255 bytes long"));
    key.extend_from_slice(table.as_bytes());
    key.extend_from_slice(&workspace.get().to_be_bytes());
    key
}

pub(crate) fn row_key(table: &str, workspace: WorkspaceId, id: &str) -> Vec<u8> {
    let mut key = table_prefix(ROWS[0], table, workspace);
    key.extend_from_slice(id.as_bytes());
    key
}

/// The table, the workspace and the id in the key of a row.
pub(crate) fn parts_of_row_key(key: &[u8]) -> Result<(&str, WorkspaceId, &str), Fault> {
    let malformed = Fault::Malformed("a key of no row");
    let mut input = Input::new(key);
    let mut parts = || {
        input.u8()?;
        let length = input.u8()?;
        let table = input.take(usize::from(length))?;
        let workspace = WorkspaceId::new(u64::from_be_bytes(input.array()?));
        Ok::<_, Fault>((table, workspace))
    };
    let (table, workspace) = parts()?;
    let table = std::str::from_utf8(table).map_err(|_| malformed.clone())?;
    let id = std::str::from_utf8(input.rest()).map_err(|_| malformed)?;
    Ok((table, workspace, id))
}

/// The ids that slots after `after` and before `before` touched in a table.
pub(crate) fn touched(
    view: &View,
    table: &str,
    workspace: WorkspaceId,
    after: u64,
    before: u64,
) -> Result<std::collections::BTreeSet<Box<str>>, Fault> {
    let mut ids = std::collections::BTreeSet::new();
    let (mut from, mut to) = (table_prefix(b't', table, workspace), table_prefix(b't', table, workspace));
    from.extend_from_slice(&after.saturating_add(1).to_be_bytes());
    to.extend_from_slice(&before.to_be_bytes());
    for row in view.range(from..to, Direction::Forward) {
        let (_, value) = row?;
        let mut input = Input::new(&value);
        while !input.rest().is_empty() {
            ids.insert(crate::payload::take_id(&mut input)?);
        }
    }
    Ok(ids)
}

/// A row as it is stored: the slot of its last change, and its columns if it is there.
pub(crate) fn encode_stored_row(version: u64, row: Option<&Row>, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.put_u64_le(version);
    put_row(bytes, row);
}

pub(crate) fn decode_stored_row(bytes: &[u8]) -> Result<(u64, Option<Row>), Fault> {
    let mut input = Input::new(bytes);
    let (version, row) = (input.u64()?, take_row(&mut input)?);
    input.end()?;
    Ok((version, row))
}

/// A row with its version; version 0 without columns if it never was there.
pub(crate) fn read_row(
    view: &View,
    table: &str,
    workspace: WorkspaceId,
    id: &str,
) -> Result<(u64, Option<Row>), Fault> {
    match view.get(&row_key(table, workspace, id))? {
        Some(bytes) => decode_stored_row(&bytes),
        None => Ok((0, None)),
    }
}

/// The effect of a slot, if it is resolved.
pub(crate) fn read_effect(view: &View, slot: u64) -> Result<Option<Effect>, Fault> {
    let Some(first) = view.get(&piece_key(EFFECTS, slot, 0))? else { return Ok(None) };
    let piece = |number| {
        let found = view.get(&piece_key(EFFECTS, slot, number))?;
        found.ok_or(Fault::Malformed("an effect without one of its pieces"))
    };
    Effect::decode::<Fault, Bytes>(&first, piece).map(Some)
}

/// The store, and what the command at hand has changed so far.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) store: Store,
    batch: Batch,
}

impl Rows {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, batch: Batch::new() }
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.make_room(key.len() + value.len())?;
        Ok(self.batch.put(key, value)?)
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.make_room(key.len())?;
        Ok(self.batch.delete(key)?)
    }

    /// The state with everything put so far.
    pub(crate) fn view(&mut self) -> Result<&View, Fault> {
        self.apply()?;
        Ok(&self.store)
    }

    /// Hands everything put so far to the store. Nobody reads it before the command is through.
    pub(crate) fn apply(&mut self) -> Result<(), Fault> {
        if !self.batch.is_empty() {
            self.store.apply(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), Fault> {
        if self.batch.len() >= BATCH_ROWS || self.batch.bytes() + bytes > BATCH_BYTES {
            self.apply()?;
        }
        Ok(())
    }
}
