//! The definition of a namespace as a partition uses it: every kind, sequence and singleton with the id it got.
//!
//! Ids are given in the order of definitions, and among the new names of one definition in the order of the names: the same
//! log gives the same ids (NUM-3). An id is never given twice and never goes away, because stored numbers and records bear it.

use std::collections::BTreeMap;

use gapless_types::limits::{
    MAX_KINDS, MAX_PROJECTIONS, MAX_SEQUENCES_PER_KIND, MAX_SINGLETONS, MAX_WRITE_BYTES,
};
use gapless_types::{Name, RecordId, SequenceId, WorkspaceKind};

use crate::codec::{Malformed, Put, Take};
use crate::definition::{DEFAULT_KIND, Definition, IdempotencyRule};

/// The sequence that numbers the events of a workspace.
pub const WORKSPACE_OFFSET: SequenceId = SequenceId::new(1);
/// The sequence that numbers the records of a workspace.
pub const RECORD_ID: SequenceId = SequenceId::new(2);
/// The first id of a declared sequence.
const FIRST_DECLARED: u16 = 3;
/// Longest schema, in bytes: it is one row of the store.
const MAX_SCHEMA_BYTES: usize = gapless_store::limits::MAX_VALUE_BYTES;
/// Not a kind of workspaces: records that belong to none, such as definitions.
pub(crate) const NO_KIND: WorkspaceKind = WorkspaceKind::new(0);

/// A definition and the ids of what it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    definition: Definition,
    kinds: BTreeMap<Name, Kind>,
    singletons: BTreeMap<Name, RecordId>,
    /// Keys that were decided before this log time had expired when a definition changed the window: a longer one must not bring
    /// them back, because their buckets may be gone.
    forgotten_before: u64,
}

/// A workspace kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its id.
    pub id: WorkspaceKind,
    /// The sequences it declares.
    pub sequences: BTreeMap<Name, Sequence>,
}

/// A declared sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its id among those of its kind.
    pub id: SequenceId,
    /// The first number it issues.
    pub initial_number: u64,
}

impl Schema {
    /// The schema from a definition on that came at this log time.
    ///
    /// # Errors
    /// Everything that is wrong with the definition, or cannot change and would.
    pub(crate) fn after(
        before: Option<&Self>,
        definition: Definition,
        time: u64,
    ) -> Result<Self, Vec<String>> {
        let rule = before.map_or(IdempotencyRule::default(), |schema| schema.definition.idempotency);
        let expired = time.checked_sub(rule.window_ms).map_or(0, |last| last.saturating_add(1));
        let schema = match before {
            Some(schema) => schema.redefine(definition)?,
            None => Self::first(definition)?,
        };
        Ok(Self { forgotten_before: schema.forgotten_before.max(expired), ..schema })
    }

    /// Keys that were decided before this log time do not count, whatever the window is.
    pub(crate) fn forgotten_before(&self) -> u64 {
        self.forgotten_before
    }

    /// The schema of a namespace that was just defined.
    ///
    /// # Errors
    /// Everything that is wrong with the definition.
    pub fn first(definition: Definition) -> Result<Self, Vec<String>> {
        let none = Self {
            definition: definition.clone(),
            kinds: BTreeMap::new(),
            singletons: BTreeMap::new(),
            forgotten_before: 0,
        };
        none.extend(definition)
    }

    /// The schema after another definition of the same namespace.
    ///
    /// # Errors
    /// Everything that cannot change and would.
    pub fn redefine(&self, definition: Definition) -> Result<Self, Vec<String>> {
        let old = &self.definition;
        let mut reasons = Vec::new();
        if definition.name != old.name {
            reasons.push(format!("the namespace is called {}, not {}", old.name, definition.name));
        }
        if definition.partitions != old.partitions {
            let (had, given) = (old.partitions, definition.partitions);
            reasons.push(format!("partitions cannot change from {had} to {given}"));
        }
        for (kind, sequences) in &old.kinds {
            let given = definition.kinds.get(kind);
            if given.is_none() && !sequences.is_empty() {
                reasons.push(format!("kind {kind} cannot be removed"));
            }
            for (sequence, initial) in sequences {
                match given.and_then(|given| given.get(sequence)) {
                    Some(same) if same == initial => {}
                    Some(other) => reasons.push(format!(
                        "sequence {sequence} of kind {kind} starts at {initial}; that cannot change to {other}"
                    )),
                    None if given.is_some() => {
                        reasons.push(format!("sequence {sequence} of kind {kind} cannot be removed"));
                    }
                    None => {}
                }
            }
        }
        for record_type in self.singletons.keys() {
            if !definition.records.get(record_type).is_some_and(|rule| rule.singleton) {
                reasons.push(format!("record type {record_type} is a singleton; that cannot change"));
            }
        }
        let plain = |record_type: &Name| old.records.get(record_type).is_some_and(|rule| !rule.singleton);
        for (record_type, _) in definition.records.iter().filter(|(name, rule)| rule.singleton && plain(name))
        {
            reasons.push(format!("record type {record_type} is not a singleton; that cannot change"));
        }
        for (projection, plan) in &old.projections {
            if definition.projections.get(projection).is_some_and(|given| given != plan) {
                reasons.push(format!(
                    "projection {projection} cannot change; remove it, or give it another name"
                ));
            }
        }
        if reasons.is_empty() { self.extend(definition) } else { Err(reasons) }
    }

    /// Gives ids to what is new.
    fn extend(&self, definition: Definition) -> Result<Self, Vec<String>> {
        let reasons = impossible(&definition);
        if !reasons.is_empty() {
            return Err(reasons);
        }
        let mut kinds = self.kinds.clone();
        let default = Name::new(DEFAULT_KIND).expect("a name");
        let nothing = BTreeMap::new();
        let declared = definition
            .kinds
            .iter()
            .chain((!definition.kinds.contains_key(&default)).then_some((&default, &nothing)));
        // The default kind comes first, so that it always has the same id.
        let mut declared: Vec<_> = declared.collect();
        declared.sort_by_key(|(name, _)| (**name != default, *name));
        for (name, sequences) in declared {
            let next_kind = WorkspaceKind::new(next(kinds.len(), 1));
            let kind = kinds
                .entry(name.clone())
                .or_insert_with(|| Kind { id: next_kind, sequences: BTreeMap::new() });
            for (sequence, &initial_number) in sequences {
                let id = SequenceId::new(next(kind.sequences.len(), FIRST_DECLARED));
                kind.sequences.entry(sequence.clone()).or_insert(Sequence { id, initial_number });
            }
        }
        let mut singletons = self.singletons.clone();
        for (record_type, _) in definition.records.iter().filter(|(_, rule)| rule.singleton) {
            let id = RecordId::new(RecordId::FIRST_SINGLETON.get() + singletons.len() as u64);
            singletons.entry(record_type.clone()).or_insert(id.expect("singletons start above 0"));
        }
        let schema = Self { definition, kinds, singletons, forgotten_before: self.forgotten_before };
        let reasons = schema.excess();
        if reasons.is_empty() { Ok(schema) } else { Err(reasons) }
    }

    /// What exceeds a limit once everything that earlier definitions named is counted: ids never go away.
    fn excess(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let (kinds, singletons) = (self.kinds.len(), self.singletons.len());
        if kinds > MAX_KINDS {
            reasons.push(format!(
                "{kinds} kinds with the default one and earlier ones; the most are {MAX_KINDS}"
            ));
        }
        if singletons > MAX_SINGLETONS {
            reasons.push(format!("{singletons} singletons; the most are {MAX_SINGLETONS}"));
        }
        let mut encoded = Vec::new();
        self.encode(&mut encoded);
        if encoded.len() > MAX_SCHEMA_BYTES {
            let bytes = encoded.len();
            reasons.push(format!(
                "with the ids of all names it has {bytes} bytes; the most are {MAX_SCHEMA_BYTES}"
            ));
        }
        reasons
    }

    /// The definition as it stands.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The kind with this name.
    pub fn kind(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name)
    }

    /// The kind with this id, and its name.
    pub fn kind_of(&self, id: WorkspaceKind) -> Option<(&Name, &Kind)> {
        self.kinds.iter().find(|(_, kind)| kind.id == id)
    }

    /// All kinds by name.
    pub fn kinds(&self) -> impl Iterator<Item = (&Name, &Kind)> {
        self.kinds.iter()
    }

    /// The id that the only record of this type has, if it is a singleton.
    pub fn singleton(&self, record_type: &str) -> Option<RecordId> {
        self.singletons.get(record_type).copied()
    }

    /// Appends the bytes of the schema: the definition, then the ids, then up to when keys are forgotten.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut definition = Vec::new();
        self.definition.encode(&mut definition);
        into.put_long(&definition);
        into.put_u32(u32::try_from(self.kinds.len()).expect("kinds are limited"));
        for (name, kind) in &self.kinds {
            into.put_short(name.as_str().as_bytes());
            into.put_u16(kind.id.get());
            into.put_u32(u32::try_from(kind.sequences.len()).expect("sequences are limited"));
            for (name, sequence) in &kind.sequences {
                into.put_short(name.as_str().as_bytes());
                into.put_u16(sequence.id.get());
                into.put_u64(sequence.initial_number);
            }
        }
        into.put_u32(u32::try_from(self.singletons.len()).expect("singletons are limited"));
        for (name, id) in &self.singletons {
            into.put_short(name.as_str().as_bytes());
            into.put_u64(id.get());
        }
        into.put_u64(self.forgotten_before);
    }

    /// Takes a stored one apart.
    ///
    /// # Errors
    /// If it has another form than this program writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let definition = Definition::decode(take.long("definition")?)?;
        let kinds = named(&mut take, |take| {
            let id = WorkspaceKind::new(take.u16("kind")?);
            let sequences = named(take, |take| {
                let id = SequenceId::new(take.u16("sequence")?);
                Ok(Sequence { id, initial_number: take.u64("first number")? })
            })?;
            Ok(Kind { id, sequences })
        })?;
        let singletons = named(&mut take, |take| {
            let malformed = take.malformed("singleton");
            RecordId::new(take.u64("singleton")?).ok_or(malformed)
        })?;
        let forgotten_before = take.u64("end of what is forgotten")?;
        take.end("end")?;
        Ok(Self { definition, kinds, singletons, forgotten_before })
    }
}

/// What no definition may be like.
fn impossible(definition: &Definition) -> Vec<String> {
    let mut reasons = Vec::new();
    if definition.kinds.len() > MAX_KINDS {
        reasons.push(format!("{} kinds; the most are {MAX_KINDS}", definition.kinds.len()));
    }
    for (kind, sequences) in &definition.kinds {
        if sequences.len() > MAX_SEQUENCES_PER_KIND {
            let count = sequences.len();
            reasons.push(format!("kind {kind} has {count} sequences; the most are {MAX_SEQUENCES_PER_KIND}"));
        }
        for (sequence, _) in sequences.iter().filter(|(_, initial)| **initial == 0) {
            reasons.push(format!("sequence {sequence} of kind {kind} starts at 0; the lowest number is 1"));
        }
    }
    if definition.projections.len() > MAX_PROJECTIONS {
        let count = definition.projections.len();
        reasons.push(format!("{count} projections; the most are {MAX_PROJECTIONS}"));
    }
    let mut encoded = Vec::new();
    definition.encode(&mut encoded);
    if encoded.len() > MAX_WRITE_BYTES {
        reasons.push(format!("the definition has {} bytes; the most are {MAX_WRITE_BYTES}", encoded.len()));
    }
    if definition.idempotency.window_ms == 0 || definition.idempotency.max_keys == 0 {
        reasons.push("idempotency needs a window and at least one key".to_owned());
    }
    reasons
}

fn next(taken: usize, first: u16) -> u16 {
    u16::try_from(taken).ok().and_then(|taken| taken.checked_add(first)).expect("counts are checked first")
}

fn named<'a, T>(
    take: &mut Take<'a>,
    mut value: impl FnMut(&mut Take<'a>) -> Result<T, Malformed>,
) -> Result<BTreeMap<Name, T>, Malformed> {
    (0..take.u32("count")?)
        .map(|_| {
            let malformed = take.malformed("name");
            let name = Name::new(take.text("name")?).map_err(|_| malformed)?;
            Ok((name, value(take)?))
        })
        .collect()
}
