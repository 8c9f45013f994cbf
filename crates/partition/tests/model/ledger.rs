//! The model: plain maps, and the rules of a write as the design tells them.

use std::collections::{BTreeMap, BTreeSet};

use gapless_partition::{Condition, Definition, NewId, Operation, RecordRule, RefusalCode, Value, Write};

use crate::harness::name;
use crate::plan::{Edit, KINDS, SEQUENCES, TYPES};

const FIRST_RECORD: u64 = 200_001;
const LAST_RECORD: u64 = 1 << 53;
const FIRST_SINGLETON: u64 = 65_536;

/// What a write should get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Event {
        offset: u64,
        sequence: u64,
        time: u64,
        ids: Vec<(u16, u64)>,
        numbers: Vec<(String, u64)>,
    },
    Refused(No),
    /// The outcome at this offset.
    Again(u64),
}

/// Why not; everything but the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct No {
    pub(crate) code: RefusalCode,
    pub(crate) operation: Option<u16>,
    pub(crate) key: Vec<u8>,
    pub(crate) version: Option<u64>,
    pub(crate) value: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The definition that stands.
    pub(crate) definition: Option<Definition>,
    /// Kinds that some definition named, with their sequences.
    pub(crate) kinds: BTreeMap<String, BTreeMap<String, u64>>,
    /// Singletons in the order of their ids.
    singletons: Vec<String>,
    pub(crate) workspaces: BTreeMap<u64, Space>,
    pub(crate) time: u64,
    /// Partition offset of the last outcome.
    pub(crate) offset: u64,
    /// Keys by workspace and client: what was asked for last under each.
    keys: BTreeMap<(u64, &'static str, u64), Asked>,
    /// What was decided before this time is forgotten.
    forgotten_before: u64,
}

/// A write that decided its key.
#[derive(Clone, Debug)]
struct Asked {
    write: Write<'static>,
    time: u64,
    offset: u64,
}

/// A workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) kind: String,
    /// Partition offsets of its events.
    pub(crate) events: Vec<u64>,
    pub(crate) last_record: Option<u64>,
    pub(crate) numbers: BTreeMap<String, u64>,
    pub(crate) clients: BTreeMap<String, u64>,
    pub(crate) records: BTreeMap<u64, Row>,
    pub(crate) entities: BTreeMap<Vec<u8>, Held>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) active: bool,
    pub(crate) created: u64,
    pub(crate) changed: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) record_type: String,
    pub(crate) fields: BTreeMap<String, Value<'static>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) value: Vec<u8>,
    pub(crate) version: u64,
    pub(crate) expires: Option<u64>,
}

impl Held {
    pub(crate) fn exists(&self, time: u64) -> bool {
        self.expires.is_none_or(|expires| time < expires)
    }
}

impl Ledger {
    /// Another outcome, at a time that the leader says.
    pub(crate) fn tick(&mut self, time: u64) {
        self.offset += 1;
        self.time = self.time.max(time);
    }

    /// The definition that stands, or the first one, with changes.
    pub(crate) fn edited(&self, edits: &[Edit]) -> Definition {
        let one = std::num::NonZeroU16::MIN;
        let mut definition = self.definition.clone().unwrap_or(Definition::new(name("shop"), one));
        for edit in edits {
            let kinds = &mut definition.kinds;
            match *edit {
                Edit::Sequence(kind, sequence, first) => {
                    kinds.entry(name(KINDS[kind])).or_default().insert(name(SEQUENCES[sequence]), first);
                }
                Edit::NoSequence(kind, sequence) => {
                    kinds.entry(name(KINDS[kind])).or_default().remove(SEQUENCES[sequence]);
                }
                Edit::Kind(kind) => drop(kinds.entry(name(KINDS[kind])).or_default()),
                Edit::NoKind(kind) => drop(kinds.remove(KINDS[kind])),
                Edit::Type(record, singleton) => {
                    definition.records.insert(name(TYPES[record]), RecordRule { singleton });
                }
                Edit::NoType(record) => drop(definition.records.remove(TYPES[record])),
                Edit::Window(milliseconds) => definition.idempotency.window_ms = milliseconds,
                Edit::Partitions(count) => definition.partitions = count.try_into().unwrap(),
                Edit::Rename => definition.name = name("other"),
            }
        }
        definition
    }

    /// Takes a definition, if nothing changes that cannot.
    pub(crate) fn define(&mut self, new: &Definition) -> bool {
        if new.kinds.values().any(|sequences| sequences.values().any(|first| *first == 0)) {
            return false;
        }
        if let Some(old) = &self.definition {
            let kept = |(kind, sequences): (&_, &BTreeMap<_, u64>)| {
                let now = new.kinds.get(kind);
                sequences.iter().all(|(name, first)| now.and_then(|now| now.get(name)) == Some(first))
            };
            let was_plain = |record: &_| old.records.get(record).is_some_and(|rule| !rule.singleton);
            let is_singleton = |record: &str| new.records.get(record).is_some_and(|rule| rule.singleton);
            if old.name != new.name
                || old.partitions != new.partitions
                || !old.kinds.iter().all(kept)
                || !self.singletons.iter().all(|record| is_singleton(record))
                || new.records.iter().any(|(record, rule)| rule.singleton && was_plain(record))
            {
                return false;
            }
        }
        self.kinds.entry("default".to_owned()).or_default();
        for (kind, sequences) in &new.kinds {
            let known = self.kinds.entry(kind.to_string()).or_default();
            known.extend(sequences.iter().map(|(name, first)| (name.to_string(), *first)));
        }
        for (record, _) in new.records.iter().filter(|(_, rule)| rule.singleton) {
            if !self.singletons.iter().any(|known| *known == record.as_str()) {
                self.singletons.push(record.to_string());
            }
        }
        // What has expired by now stays so.
        if let Some(last) = self.time.checked_sub(self.window()) {
            self.forgotten_before = self.forgotten_before.max(last + 1);
        }
        self.definition = Some(new.clone());
        true
    }

    fn singleton(&self, record_type: &str) -> Option<u64> {
        let at = self.singletons.iter().position(|known| known == record_type)?;
        Some(FIRST_SINGLETON + at as u64)
    }

    /// For how long keys are known; a day in a namespace that is not defined.
    fn window(&self) -> u64 {
        self.definition.as_ref().map_or(86_400_000, |definition| definition.idempotency.window_ms)
    }

    /// What a write under a key gets.
    pub(crate) fn ask(&mut self, key: u64, write: &Write<'static>) -> Expected {
        let place = (write.workspace.get(), write.client, key);
        let counts =
            |asked: &&Asked| self.time - asked.time < self.window() && asked.time >= self.forgotten_before;
        match self.keys.get(&place).filter(counts) {
            Some(asked) if asked.write == *write => return Expected::Again(asked.offset),
            Some(_) => return no(RefusalCode::IdempotencyKeyReused),
            None => {}
        }
        let asked = Asked { write: write.clone(), time: self.time, offset: self.offset };
        self.keys.insert(place, asked);
        self.write(write)
    }

    /// What a write gets; and the state after it, if it is an event.
    fn write(&mut self, write: &Write<'static>) -> Expected {
        let id = write.workspace.get();
        let Some(definition) = &self.definition else { return no(RefusalCode::WrongKind) };
        if !id.is_multiple_of(u64::from(definition.partitions.get())) {
            return no(RefusalCode::Malformed);
        }
        if !self.kinds.contains_key(write.kind) {
            return no(RefusalCode::WrongKind);
        }
        let mut space = self.workspaces.get(&id).cloned().unwrap_or_default();
        if space.events.is_empty() {
            write.kind.clone_into(&mut space.kind);
        } else if space.kind != write.kind {
            return no(RefusalCode::WrongKind);
        }
        let last = space.events.len() as u64;
        if write.expected_offset.is_some_and(|expected| expected != last) {
            let Expected::Refused(refused) = no(RefusalCode::OffsetMismatch) else { unreachable!() };
            return Expected::Refused(No { version: Some(last), ..refused });
        }
        match self.change(write, &mut space) {
            Ok(expected) => {
                self.workspaces.insert(id, space);
                expected
            }
            Err(refused) => Expected::Refused(refused),
        }
    }

    /// Changes a copy of the workspace, which is thrown away if something is refused.
    fn change(&self, write: &Write<'static>, space: &mut Space) -> Result<Expected, No> {
        let ids = self.record_ids(write, space);
        let offset = space.events.len() as u64 + 1;
        let mut known: BTreeSet<u64> = space.records.keys().copied().collect();
        let mut raw_seen = BTreeSet::new();
        let mut numbers = Vec::new();
        // The first number that there is not, of each sequence that the write takes; refused once all else was found right.
        let mut exhausted: Vec<(&str, Option<u16>)> = Vec::new();
        let mut order: Vec<&str> = Vec::new();
        for (at, operation) in write.operations.iter().enumerate() {
            let refused = |code| No { operation: u16::try_from(at).ok(), ..plain(code) };
            let invalid = refused(RefusalCode::InvalidRecord);
            let raw_or_known = |id: u64, raw: &BTreeSet<u64>, known: &BTreeSet<u64>| {
                if id <= 65_535 { raw.contains(&id) } else { known.contains(&id) }
            };
            match operation {
                Operation::CreateRecord { id, record_type, parent, .. } => {
                    if parent.is_some_and(|parent| !raw_or_known(parent, &raw_seen, &known)) {
                        return Err(invalid);
                    }
                    match (*id, self.singleton(record_type)) {
                        (NewId::Explicit(_), Some(_)) => return Err(invalid),
                        (NewId::Explicit(id), None) => {
                            if !(FIRST_RECORD..=LAST_RECORD).contains(&id) || !known.insert(id) {
                                return Err(invalid);
                            }
                        }
                        (NewId::Raw(raw), singleton) => {
                            let again = !raw_seen.insert(u64::from(raw));
                            if again || singleton.is_some_and(|fixed| !known.insert(fixed)) {
                                return Err(invalid);
                            }
                        }
                    }
                }
                Operation::UpdateRecord { record, .. } => {
                    if !raw_or_known(*record, &raw_seen, &known) {
                        return Err(invalid);
                    }
                }
                Operation::SetEntity { key, value, condition, expires_at } => {
                    self.condition(space, key, condition)
                        .map_err(|no| No { operation: refused(no.code).operation, ..no })?;
                    let held = Held { value: value.to_vec(), version: offset, expires: *expires_at };
                    space.entities.insert(key.to_vec(), held);
                }
                Operation::DeleteEntity { key, condition } => {
                    self.condition(space, key, condition)
                        .map_err(|no| No { operation: refused(no.code).operation, ..no })?;
                    space.entities.remove(*key);
                }
                Operation::NextNumber { sequence } => {
                    let first = self.kinds[write.kind].get(*sequence);
                    let first = *first.ok_or(refused(RefusalCode::UnknownSequence))?;
                    if !order.contains(sequence) {
                        order.push(sequence);
                    }
                    let last = space.numbers.get(*sequence).copied();
                    match last.map_or(Some(first), |last| last.checked_add(1)) {
                        Some(number) => {
                            space.numbers.insert((*sequence).to_owned(), number);
                            numbers.push(((*sequence).to_owned(), number));
                        }
                        None if exhausted.iter().all(|(known, _)| known != sequence) => {
                            exhausted.push((sequence, u16::try_from(at).ok()));
                        }
                        None => {}
                    }
                }
            }
        }
        references(write, &raw_seen)?;
        if let Some((raw, _)) = ids.iter().find(|(_, id)| *id > LAST_RECORD) {
            let creates = |operation: &Operation<'_>| matches!(operation, Operation::CreateRecord { id: NewId::Raw(id), .. } if id == raw);
            let operation = write.operations.iter().position(creates).and_then(|at| u16::try_from(at).ok());
            return Err(No { operation, ..plain(RefusalCode::InvalidRecord) });
        }
        // Sequences are asked in the order in which the write names them first.
        let of = |sequence: &&str| exhausted.iter().find(|(known, _)| known == sequence);
        if let Some((_, operation)) = order.iter().find_map(of) {
            return Err(No { operation: *operation, ..plain(RefusalCode::UnknownSequence) });
        }
        store_records(write, space, &ids, offset);
        space.events.push(self.offset);
        let sequence = space.clients.entry(write.client.to_owned()).or_insert(0);
        *sequence += 1;
        Ok(Expected::Event { offset, sequence: *sequence, time: self.time, ids, numbers })
    }

    /// Ids for the raw ids of a write: the fixed one of a singleton, or the next behind all that is issued or imported.
    fn record_ids(&self, write: &Write<'_>, space: &Space) -> Vec<(u16, u64)> {
        let imported = write.operations.iter().filter_map(|operation| match operation {
            Operation::CreateRecord { id: NewId::Explicit(id), .. } => Some(*id),
            _ => None,
        });
        let mut next = imported.chain(space.last_record).max().unwrap_or(0).max(FIRST_RECORD - 1);
        let mut ids = Vec::new();
        for operation in &write.operations {
            if let Operation::CreateRecord { id: NewId::Raw(raw), record_type, .. } = operation {
                let fixed = self.singleton(record_type);
                ids.push((
                    *raw,
                    fixed.unwrap_or_else(|| {
                        next = next.saturating_add(1);
                        next
                    }),
                ));
            }
        }
        ids
    }

    fn condition(&self, space: &Space, key: &[u8], condition: &Condition<'_>) -> Result<(), No> {
        let now = space.entities.get(key).filter(|held| held.exists(self.time));
        let code = match (condition, now) {
            (Condition::None, _) | (Condition::MustNotExist, None) | (Condition::MustExist, Some(_)) => {
                return Ok(());
            }
            (Condition::MustNotExist, Some(_)) => RefusalCode::KeyExists,
            (_, None) => RefusalCode::KeyNotFound,
            (Condition::VersionEquals(version), Some(held)) if *version == held.version => return Ok(()),
            (Condition::VersionEquals(_), _) => RefusalCode::VersionMismatch,
            (Condition::ValueEquals(value), Some(held)) if *value == held.value => return Ok(()),
            (Condition::ValueEquals(_), _) => RefusalCode::ValueMismatch,
        };
        let (version, value) = (now.map(|held| held.version), now.map(|held| held.value.clone()));
        Err(No { key: key.to_vec(), version, value, ..plain(code) })
    }
}

/// Fields may name raw ids of any record of the write.
fn references(write: &Write<'_>, raw: &BTreeSet<u64>) -> Result<(), No> {
    for (at, operation) in write.operations.iter().enumerate() {
        if let Operation::CreateRecord { fields, .. } | Operation::UpdateRecord { fields, .. } = operation {
            let dangling = |value: &Value<'_>| matches!(value, Value::Record(id) if (1..65_536).contains(id) && !raw.contains(id));
            if fields.iter().any(|(_, value)| dangling(value)) {
                return Err(No { operation: u16::try_from(at).ok(), ..plain(RefusalCode::InvalidRecord) });
            }
        }
    }
    Ok(())
}

fn store_records(write: &Write<'static>, space: &mut Space, ids: &[(u16, u64)], offset: u64) {
    let stored = |id: u64| ids.iter().find(|(raw, _)| u64::from(*raw) == id).map_or(id, |(_, id)| *id);
    let resolved = |fields: &[(&'static str, Value<'static>)]| -> Vec<(String, Value<'static>)> {
        let value = |value: &Value<'static>| match value {
            Value::Record(id) => Value::Record(stored(*id)),
            other => *other,
        };
        fields.iter().map(|(name, given)| ((*name).to_owned(), value(given))).collect()
    };
    for operation in &write.operations {
        match operation {
            Operation::CreateRecord { id, record_type, fields, parent } => {
                let id = match *id {
                    NewId::Raw(raw) => stored(u64::from(raw)),
                    NewId::Explicit(id) => id,
                };
                if id >= FIRST_RECORD {
                    space.last_record = space.last_record.max(Some(id));
                }
                let row = Row {
                    active: true,
                    created: offset,
                    changed: offset,
                    parent: parent.map(stored),
                    record_type: (*record_type).to_owned(),
                    fields: resolved(fields).into_iter().collect(),
                };
                space.records.insert(id, row);
            }
            Operation::UpdateRecord { record, fields, active } => {
                let row = space.records.get_mut(&stored(*record)).unwrap();
                row.changed = offset;
                row.active = active.unwrap_or(row.active);
                row.fields.extend(resolved(fields));
            }
            _ => {}
        }
    }
}

fn plain(code: RefusalCode) -> No {
    No { code, operation: None, key: Vec::new(), version: None, value: None }
}

fn no(code: RefusalCode) -> Expected {
    Expected::Refused(plain(code))
}
