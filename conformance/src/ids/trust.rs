//! The matrix of trust levels: a foreign value lies where the next write goes; each level finds it or writes over it.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use gapless_partition::{Entry, TrustLevel};
use gapless_types::{PartitionOffset, WorkspaceId};
use serde::Deserialize;

use super::expect;
use super::world::World;
use crate::report::Failure;

const WORKSPACE: u64 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Level {
    level: u8,
    second_different_write: BTreeMap<Place, Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    PartitionLog,
    WorkspaceIndex,
    RecordCreate,
    RecordUpdate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    Violation,
    Written,
}

pub(crate) fn run(levels: &[Level]) -> Result<Result<(), Failure>> {
    for (at, level) in levels.iter().enumerate() {
        let trust_level = match level.level {
            0 => TrustLevel::CheckAll,
            1 => TrustLevel::CheckEvents,
            2 => TrustLevel::TrustAll,
            other => bail!("there is no trust level {other}"),
        };
        for (place, expected) in &level.second_different_write {
            let found = write_over(trust_level, *place)?;
            if let Err(failure) = expect(at + 1, &(*place, *expected), &(*place, found)) {
                return Ok(Err(failure));
            }
        }
    }
    Ok(Ok(()))
}

/// Puts a foreign value where a write will go, and writes.
fn write_over(level: TrustLevel, place: Place) -> Result<Effect> {
    let mut world = World::with_trust_level(level)?;
    let first = world.next_id(WORKSPACE)?;
    let next = PartitionOffset::new(world.outcomes() + 1);
    let workspace = WorkspaceId::new(WORKSPACE);
    let Some(next) = next else { bail!("offsets start at 1") };
    let entry = match place {
        Place::PartitionLog => Some(Entry::Outcome(next)),
        Place::WorkspaceIndex => Some(Entry::Event(workspace, 2)),
        Place::RecordCreate => Some(Entry::Record(workspace, first + 1)),
        Place::RecordUpdate => None,
    };
    let written = match entry {
        Some(entry) => {
            world.plant(entry, b"a foreign value")?;
            world.create_once(WORKSPACE)?
        }
        // An update changes what is there already: different content is its purpose.
        None => world.update_once(WORKSPACE, first)?,
    };
    Ok(if written { Effect::Written } else { Effect::Violation })
}
