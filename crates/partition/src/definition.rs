//! The definition of a namespace: data that goes through the log, so that every replica uses the same one from the same
//! record on.
//!
//! Must not know: TOML, files; which workspaces exist.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use gapless_types::Name;

use crate::codec::{Malformed, Put, Take};

/// The kind of workspaces that nobody gave another one. Every namespace has it.
pub const DEFAULT_KIND: &str = "default";

const VERSION: u8 = 1;
const SINGLETON: u8 = 1;
const HAS_PROJECTIONS: u8 = 1;

/// What a namespace is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: Name,
    /// How many partitions it has; never changes.
    pub partitions: NonZeroU16,
    /// How suspicious the writing of derived state is.
    pub trust_level: TrustLevel,
    /// For how long a retry is recognized.
    pub idempotency: IdempotencyRule,
    /// Sequences of each workspace kind with their first numbers.
    pub kinds: BTreeMap<Name, BTreeMap<Name, u64>>,
    /// What is special about record types; others need no mention.
    pub records: BTreeMap<Name, RecordRule>,
    /// Projections with the text of their plans, which is opaque here.
    pub projections: BTreeMap<Name, Box<str>>,
}

/// How suspicious the writing of derived state is: what must not exist yet when it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustLevel {
    /// Events and records.
    #[default]
    CheckAll,
    /// Events.
    CheckEvents,
    /// Nothing.
    TrustAll,
}

/// For how long a retry is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyRule {
    /// Log time in milliseconds for which a key is known.
    pub window_ms: u64,
    /// Most keys that are known at once.
    pub max_keys: u64,
    /// What happens at that many.
    pub at_cap: AtCap,
}

/// What happens when as many keys are known as may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtCap {
    /// New keys are refused until old ones expire.
    #[default]
    Refuse,
    /// The oldest bucket is forgotten early.
    ForgetOldest,
}

/// What is special about a record type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordRule {
    /// Each workspace has at most one, with a fixed id.
    pub singleton: bool,
}

impl Default for IdempotencyRule {
    fn default() -> Self {
        Self { window_ms: 24 * 60 * 60 * 1000, max_keys: 100_000_000, at_cap: AtCap::Refuse }
    }
}

impl Definition {
    /// A namespace with default rules and no sequences.
    #[must_use]
    pub fn new(name: Name, partitions: NonZeroU16) -> Self {
        Self {
            name,
            partitions,
            trust_level: TrustLevel::default(),
            idempotency: IdempotencyRule::default(),
            kinds: BTreeMap::new(),
            records: BTreeMap::new(),
            projections: BTreeMap::new(),
        }
    }

    /// The same with a projection, whose plan this is.
    #[must_use]
    pub fn with_projection(mut self, projection: Name, plan: impl Into<Box<str>>) -> Self {
        self.projections.insert(projection, plan.into());
        self
    }

    /// The same with a sequence for workspaces of the default kind, whose first number is this one.
    #[must_use]
    pub fn with_sequence(mut self, sequence: Name, first: u64) -> Self {
        let kind = Name::new(DEFAULT_KIND).expect("the default kind has a valid name");
        self.kinds.entry(kind).or_default().insert(sequence, first);
        self
    }

    /// Appends the bytes of the definition, version 1.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.put_u8(VERSION);
        into.put_u8(match self.trust_level {
            TrustLevel::CheckAll => 0,
            TrustLevel::CheckEvents => 1,
            TrustLevel::TrustAll => 2,
        });
        into.put_u8(match self.idempotency.at_cap {
            AtCap::Refuse => 0,
            AtCap::ForgetOldest => 1,
        });
        into.put_u8(if self.projections.is_empty() { 0 } else { HAS_PROJECTIONS });
        into.put_u16(self.partitions.get());
        into.put_u64(self.idempotency.window_ms);
        into.put_u64(self.idempotency.max_keys);
        into.put_short(self.name.as_str().as_bytes());
        into.put_u32(count(self.kinds.len()));
        for (kind, sequences) in &self.kinds {
            into.put_short(kind.as_str().as_bytes());
            into.put_u32(count(sequences.len()));
            for (sequence, initial) in sequences {
                into.put_short(sequence.as_str().as_bytes());
                into.put_u64(*initial);
            }
        }
        into.put_u32(count(self.records.len()));
        for (record_type, rule) in &self.records {
            into.put_short(record_type.as_str().as_bytes());
            into.put_u8(if rule.singleton { SINGLETON } else { 0 });
        }
        if self.projections.is_empty() {
            return;
        }
        into.put_u32(count(self.projections.len()));
        for (projection, plan) in &self.projections {
            into.put_short(projection.as_str().as_bytes());
            into.put_long(plan.as_bytes());
        }
    }

    /// Takes the bytes of a definition apart.
    ///
    /// # Errors
    /// If they are not those of a definition.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let [version, trust_level, at_cap, flags] = take.array("definition")?;
        let malformed = Malformed { what: "definition", at: 0 };
        if version != VERSION || flags & !HAS_PROJECTIONS != 0 {
            return Err(malformed);
        }
        let definition = Self {
            trust_level: match trust_level {
                0 => TrustLevel::CheckAll,
                1 => TrustLevel::CheckEvents,
                2 => TrustLevel::TrustAll,
                _ => return Err(malformed),
            },
            partitions: NonZeroU16::new(take.u16("partitions")?).ok_or(malformed)?,
            idempotency: IdempotencyRule {
                window_ms: take.u64("window")?,
                max_keys: take.u64("most keys")?,
                at_cap: match at_cap {
                    0 => AtCap::Refuse,
                    1 => AtCap::ForgetOldest,
                    _ => return Err(malformed),
                },
            },
            name: name(&mut take)?,
            kinds: map(&mut take, |take| map(take, |take| take.u64("first number")))?,
            records: map(&mut take, |take| match take.u8("record rule")? {
                0 => Ok(RecordRule { singleton: false }),
                SINGLETON => Ok(RecordRule { singleton: true }),
                _ => Err(take.malformed("record rule")),
            })?,
            projections: match flags {
                HAS_PROJECTIONS => map(&mut take, |take| {
                    let malformed = take.malformed("plan");
                    std::str::from_utf8(take.long("plan")?).map(Box::from).map_err(|_| malformed)
                })?,
                _ => BTreeMap::new(),
            },
        };
        // One definition has one encoding.
        if (flags == HAS_PROJECTIONS) == definition.projections.is_empty() {
            return Err(malformed);
        }
        take.end("end")?;
        Ok(definition)
    }
}

fn name(take: &mut Take<'_>) -> Result<Name, Malformed> {
    let malformed = take.malformed("name");
    Name::new(take.text("name")?).map_err(|_| malformed)
}

/// Named values by ascending name, each once.
fn map<'a, T>(
    take: &mut Take<'a>,
    mut value: impl FnMut(&mut Take<'a>) -> Result<T, Malformed>,
) -> Result<BTreeMap<Name, T>, Malformed> {
    let count = take.u32("count")?;
    let mut map = BTreeMap::new();
    for _ in 0..count {
        let malformed = take.malformed("name");
        let name = name(take)?;
        if map.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err(malformed);
        }
        map.insert(name, value(take)?);
    }
    Ok(map)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a definition has fewer parts than 2^32")
}
