//! Step b: whether a write fits the state it meets, including what earlier operations of the same write changed.
//!
//! A write that does not is refused with the first rule it breaks. One that does yields its [`Demand`]: what the next step has
//! to number. Nothing is changed here.
//!
//! Must not know: numbers, the log.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gapless_types::limits::{
    LAST_RECORD_ID, MAX_CHANGED_RECORD_BYTES, MAX_RECORD_FIELDS, MAX_RECORD_ROW_BYTES,
};
use gapless_types::{Name, NamespaceId, RecordId};

use crate::outcome::{Refusal, RefusalCode};
use crate::rows;
use crate::rows::entity::EntityRow;
use crate::rows::record::RecordRow;
use crate::schema::{Kind, Schema, Sequence};
use crate::state::Reads;
use crate::stop::Stop;
use crate::write::encoding::field_length;
use crate::write::{Condition, NewId, Operation, Value, Write};

/// What a write needs to be numbered.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// Records under raw ids, in the order of the operations.
    pub(crate) records: Vec<NewRecord>,
    /// The highest id that the write brings along.
    pub(crate) highest_explicit: Option<u64>,
    /// Numbers to take, in the order of the operations.
    pub(crate) numbers: Vec<NewNumber>,
}

/// A record that needs an id.
#[derive(Debug)]
pub(crate) struct NewRecord {
    pub(crate) raw: u16,
    /// That of a singleton; else it gets the next one of the sequence.
    pub(crate) fixed: Option<RecordId>,
    /// Which operation creates it.
    pub(crate) operation: usize,
}

/// A number to take.
#[derive(Debug)]
pub(crate) struct NewNumber {
    pub(crate) sequence: Sequence,
    pub(crate) name: Name,
    /// Which operation takes it.
    pub(crate) operation: usize,
}

/// What the conditions are checked against.
pub(crate) struct Facts<'a> {
    pub(crate) namespace: NamespaceId,
    pub(crate) schema: &'a Schema,
    pub(crate) kind: &'a Kind,
    /// The last event of the workspace; 0 if it has none.
    pub(crate) last_offset: u64,
    /// Log time.
    pub(crate) time: u64,
}

/// Checks every condition of a write.
pub(crate) fn check(write: &Write<'_>, facts: &Facts<'_>, reads: &impl Reads) -> Result<Demand, Stop> {
    check_offset(write, facts)?;
    let mut check = Check {
        write,
        facts,
        reads,
        demand: Demand::default(),
        raw: BTreeMap::new(),
        created: BTreeSet::new(),
        sizes: BTreeMap::new(),
        changed_bytes: 0,
        entities: BTreeMap::new(),
        key: Vec::new(),
        at: 0,
    };
    for (index, operation) in write.operations.iter().enumerate() {
        check.at = index;
        check.operation(operation).map_err(|stop| stop.in_operation(index))?;
    }
    check.references()?;
    Ok(check.demand)
}

fn check_offset(write: &Write<'_>, facts: &Facts<'_>) -> Result<(), Stop> {
    match write.expected_offset {
        Some(expected) if expected != facts.last_offset => {
            let last = facts.last_offset;
            let message = format!("the workspace log ends at {last}, not at {expected}");
            let refusal = Refusal::new(RefusalCode::OffsetMismatch, message);
            Err(Refusal { current_version: Some(last), ..refusal }.into())
        }
        _ => Ok(()),
    }
}

/// A check that is under way.
struct Check<'c, 'w, R> {
    write: &'c Write<'w>,
    facts: &'c Facts<'c>,
    reads: &'c R,
    demand: Demand,
    /// Raw ids of records created so far, each with what it goes by in `sizes`: a singleton goes by its fixed id, under which
    /// later operations may name it too.
    raw: BTreeMap<u16, u64>,
    /// Stored ids of records created so far.
    created: BTreeSet<u64>,
    /// Fields of records that this write touches, with their lengths: by raw or stored id, see `raw`.
    sizes: BTreeMap<u64, RecordSize>,
    changed_bytes: usize,
    /// Entities that this write touches, as they are by now.
    entities: BTreeMap<&'w [u8], Option<Entity<'w>>>,
    key: Vec<u8>,
    /// Which operation is looked at.
    at: usize,
}

/// An entity that this write has set.
#[derive(Clone, Copy)]
struct Entity<'w> {
    value: &'w [u8],
    expires_at: Option<u64>,
}

#[derive(Default)]
struct RecordSize {
    fields: BTreeMap<String, usize>,
    /// All of it, as it is stored.
    bytes: usize,
}

impl<'w, R: Reads> Check<'_, 'w, R> {
    fn operation(&mut self, operation: &Operation<'w>) -> Result<(), Stop> {
        match operation {
            Operation::CreateRecord { id, record_type, fields, parent } => {
                self.create(*id, record_type, fields, *parent)
            }
            Operation::UpdateRecord { record, fields, .. } => self.update(*record, fields),
            Operation::SetEntity { key, value, condition, expires_at } => {
                self.condition(key, condition)?;
                self.entities.insert(key, Some(Entity { value, expires_at: *expires_at }));
                Ok(())
            }
            Operation::DeleteEntity { key, condition } => {
                self.condition(key, condition)?;
                self.entities.insert(key, None);
                Ok(())
            }
            Operation::NextNumber { sequence } => match self.facts.kind.sequences.get_key_value(*sequence) {
                Some((name, declared)) => {
                    let number = NewNumber { sequence: *declared, name: name.clone(), operation: self.at };
                    self.demand.numbers.push(number);
                    Ok(())
                }
                None => {
                    let message =
                        format!("workspaces of kind {} have no sequence {sequence}", self.write.kind);
                    Err(Refusal::new(RefusalCode::UnknownSequence, message).into())
                }
            },
        }
    }

    fn create(
        &mut self,
        id: NewId,
        record_type: &str,
        fields: &[(&str, Value<'_>)],
        parent: Option<u64>,
    ) -> Result<(), Stop> {
        let singleton = self.facts.schema.singleton(record_type);
        if let Some(parent) = parent
            && !self.is_known(parent)?
        {
            return Err(invalid(format!("parent {parent} is not known")));
        }
        let target = match (id, singleton) {
            (NewId::Explicit(id), Some(_)) => {
                return Err(invalid(format!("{record_type} is a singleton and has its own id, not {id}")));
            }
            (NewId::Explicit(id), None) => {
                self.check_explicit(id)?;
                self.created.insert(id);
                self.demand.highest_explicit = self.demand.highest_explicit.max(Some(id));
                id
            }
            (NewId::Raw(raw), singleton) => {
                if self.raw.contains_key(&raw) {
                    return Err(invalid(format!("raw id {raw} is used twice")));
                }
                if let Some(fixed) = singleton {
                    if self.exists(fixed.get())? {
                        return Err(invalid(format!("singleton {record_type} exists already as {fixed}")));
                    }
                    self.created.insert(fixed.get());
                }
                self.demand.records.push(NewRecord { raw, fixed: singleton, operation: self.at });
                let target = singleton.map_or(u64::from(raw), RecordId::get);
                self.raw.insert(raw, target);
                target
            }
        };
        let bytes = rows::record::length_without_fields(record_type, parent.is_some());
        self.sizes.insert(target, RecordSize { bytes, ..RecordSize::default() });
        self.grow(target, record_type.len() + 64, fields)
    }

    fn check_explicit(&self, id: u64) -> Result<(), Stop> {
        if id < RecordId::FIRST_USER.get() {
            return Err(invalid(format!("id {id} is below {}", RecordId::FIRST_USER)));
        }
        if id > LAST_RECORD_ID {
            return Err(invalid(format!("id {id} is above {LAST_RECORD_ID}")));
        }
        if self.exists(id)? { Err(invalid(format!("record {id} exists already"))) } else { Ok(()) }
    }

    fn update(&mut self, record: u64, fields: &[(&str, Value<'_>)]) -> Result<(), Stop> {
        if !self.is_known(record)? {
            return Err(invalid(format!("record {record} is not known")));
        }
        let named = u16::try_from(record).ok().and_then(|raw| self.raw.get(&raw));
        let record = named.copied().unwrap_or(record);
        let mut overhead = 0;
        if !self.sizes.contains_key(&record) {
            let stored = self.stored_size(record)?;
            self.changed_bytes += stored.bytes;
            overhead = 64;
            self.sizes.insert(record, stored);
        }
        self.grow(record, overhead, fields)
    }

    /// A stored record and its fields. One that this write created under its stored id is in `sizes` already.
    fn stored_size(&self, record: u64) -> Result<RecordSize, Stop> {
        let key = rows::record::key(self.facts.namespace, self.write.workspace, record);
        let mut size = RecordSize::default();
        if let Some(bytes) = self.reads.get(&key)? {
            size.bytes = bytes.len();
            for (name, value) in RecordRow::decode(&bytes)?.fields {
                size.fields.insert(name.to_owned(), field_length(name, &value));
            }
        }
        Ok(size)
    }

    /// Accounts for fields that are merged into a record.
    fn grow(&mut self, record: u64, overhead: usize, fields: &[(&str, Value<'_>)]) -> Result<(), Stop> {
        let size = self.sizes.entry(record).or_default();
        let before = size.bytes;
        for (name, value) in fields {
            let length = field_length(name, value);
            size.bytes += length;
            size.bytes -= size.fields.insert((*name).to_owned(), length).unwrap_or(0);
        }
        if size.fields.len() > MAX_RECORD_FIELDS {
            let count = size.fields.len();
            return Err(invalid(format!(
                "the record would have {count} fields; the most are {MAX_RECORD_FIELDS}"
            )));
        }
        if size.bytes > MAX_RECORD_ROW_BYTES {
            let bytes = size.bytes;
            return Err(invalid(format!(
                "the record would have {bytes} bytes; the most are {MAX_RECORD_ROW_BYTES}"
            )));
        }
        self.changed_bytes = (self.changed_bytes + size.bytes + overhead).saturating_sub(before);
        if self.changed_bytes > MAX_CHANGED_RECORD_BYTES {
            let message = format!("the records it changes have more than {MAX_CHANGED_RECORD_BYTES} bytes");
            return Err(invalid(message));
        }
        Ok(())
    }

    /// Whether an operation can name this record: created earlier in this write, or stored.
    fn is_known(&self, record: u64) -> Result<bool, Stop> {
        match u16::try_from(record) {
            Ok(raw) => Ok(self.raw.contains_key(&raw)),
            Err(_) => self.exists(record),
        }
    }

    fn exists(&self, id: u64) -> Result<bool, Stop> {
        if self.created.contains(&id) {
            return Ok(true);
        }
        let key = rows::record::key(self.facts.namespace, self.write.workspace, id);
        Ok(self.reads.get(&key)?.is_some())
    }

    /// A field may name a raw id of any record of this write, also of a later one.
    fn references(&self) -> Result<(), Stop> {
        for (index, operation) in self.write.operations.iter().enumerate() {
            let (Operation::CreateRecord { fields, .. } | Operation::UpdateRecord { fields, .. }) = operation
            else {
                continue;
            };
            for (name, value) in fields {
                if let Value::Record(id) = value
                    && let Ok(raw) = u16::try_from(*id)
                    && raw != 0
                    && !self.raw.contains_key(&raw)
                {
                    return Err(invalid(format!("field {name} names raw id {raw}, which is not known"))
                        .in_operation(index));
                }
            }
        }
        Ok(())
    }

    fn condition(&mut self, key: &'w [u8], condition: &Condition<'_>) -> Result<(), Stop> {
        if *condition == Condition::None {
            return Ok(());
        }
        let current = self.entity(key)?;
        let code = match (condition, &current) {
            (Condition::None | Condition::MustNotExist, None) | (Condition::MustExist, Some(_)) => {
                return Ok(());
            }
            (Condition::VersionEquals(version), Some((current, _))) if version == current => return Ok(()),
            (Condition::ValueEquals(value), Some((_, current))) if *value == &current[..] => return Ok(()),
            (Condition::None | Condition::MustNotExist, Some(_)) => RefusalCode::KeyExists,
            (_, None) => RefusalCode::KeyNotFound,
            (Condition::VersionEquals(_), Some(_)) => RefusalCode::VersionMismatch,
            (Condition::ValueEquals(_), Some(_)) => RefusalCode::ValueMismatch,
        };
        let message = match code {
            RefusalCode::KeyExists => "the entity exists",
            RefusalCode::KeyNotFound => "the entity does not exist",
            RefusalCode::VersionMismatch => "the entity has another version",
            _ => "the entity has another value",
        };
        let (version, value) = current.unzip();
        Err(Refusal {
            key: Bytes::copy_from_slice(key),
            current_version: version,
            current_value: value,
            ..Refusal::new(code, message)
        }
        .into())
    }

    /// Version and value of an entity, if it exists at this time, after the operations so far.
    fn entity(&mut self, key: &[u8]) -> Result<Option<(u64, Bytes)>, Stop> {
        if let Some(changed) = self.entities.get(key) {
            let exists = |entity: &&Entity<'_>| entity.expires_at.is_none_or(|at| self.facts.time < at);
            let version = self.facts.last_offset + 1;
            let entity = changed.as_ref().filter(exists);
            return Ok(entity.map(|entity| (version, Bytes::copy_from_slice(entity.value))));
        }
        rows::entity::key(self.facts.namespace, self.write.workspace, key, &mut self.key);
        let Some(bytes) = self.reads.get(&self.key)? else { return Ok(None) };
        let row = EntityRow::decode(&bytes)?;
        Ok(row.exists_at(self.facts.time).then(|| (row.version, bytes.slice_ref(row.value))))
    }
}

fn invalid(message: String) -> Stop {
    Refusal::new(RefusalCode::InvalidRecord, message).into()
}
