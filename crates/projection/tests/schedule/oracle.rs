//! What must hold at the end of a schedule, computed without the domain's code.

use std::collections::BTreeMap;

use gapless_projection::{Audit, Change, Effect, Why};
use serde_json::{Value, json};

use super::events::{Kind, Table};
use super::world::{WORKSPACE, World};

/// ORD-1: the state is that of the serial fold, and every way to make it again gives the same.
pub(crate) fn check(world: &mut World) -> Result<(), String> {
    let view = world.domain().view();
    let effects: Vec<Effect> =
        view.effects(0).collect::<Result<_, _>>().map_err(|fault| fault.to_string())?;
    let state: Value = serde_json::from_str(&view.state_json(WORKSPACE).unwrap()).unwrap();
    let folded = serial_fold(world, &effects)?;
    same("the state and the serial fold", &state, &folded)?;
    slots_stand_for_events(world, &effects)?;

    let hash = view.state_hash(WORKSPACE).unwrap();
    let physical = view.physical_replay().map_err(|error| error.to_string())?;
    same("the state and the physical replay", &hash, &physical.state_hash(WORKSPACE).unwrap())?;
    let rules = world.domain().rules().clone();
    let rebuilt =
        view.serial_rebuild(&rules, |source| world.event(source)).map_err(|error| error.to_string())?;
    same("the state and the serial rebuild", &hash, &rebuilt.state_hash(WORKSPACE).unwrap())?;
    let audit = view.audit(|source| world.event(source)).map_err(|error| error.to_string())?;
    same("an audit", &audit, &Audit::Same)?;

    for effect in &effects {
        if let Some(source) = effect.source {
            let found = view.effect_of_source(source).map_err(|fault| fault.to_string())?;
            same("the effect of an event", &found.as_ref(), &Some(effect))?;
        }
    }
    nothing_is_left_of_slots(world)?;
    let counters = world.domain().counters();
    let committed = effects.iter().filter(|effect| !matches!(effect.change, Change::Fill { .. })).count();
    same("slots committed", &counters.committed, &(committed as u64))?;
    same("slots filled", &counters.filled, &((effects.len() - committed) as u64))?;
    same("slots filled", &counters.filled, &(view.fills(0).count() as u64))
}

/// Everything is resolved: of events, slots and parts no row is left.
fn nothing_is_left_of_slots(world: &mut World) -> Result<(), String> {
    let image = world.domain.as_mut().unwrap().image().map_err(|fault| fault.to_string())?;
    for row in image.rows.everything() {
        let (_, key, _) = row.map_err(|error| error.to_string())?;
        if !b"hretfk".contains(&key[0]) {
            return Err(format!("a row of a resolved slot: {key:?}"));
        }
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?} and {expected:?}")) }
}

/// The events in their own order, as far as they count; between them what allocated slots did, in place.
fn serial_fold(world: &World, effects: &[Effect]) -> Result<Value, String> {
    let mut orders = Table::new();
    let mut accounts = Table::new();
    let mut allocated = Table::new();
    let counts: BTreeMap<u64, bool> = effects
        .iter()
        .filter_map(|effect| Some((effect.source?.get(), !matches!(effect.change, Change::Fill { .. }))))
        .collect();
    for (source, counts) in counts {
        if !counts {
            continue;
        }
        let event = &world.events()[usize::try_from(source).unwrap() - 1];
        match event.kind() {
            Kind::Rule => {
                if !event.fold(&mut orders) {
                    return Err(format!("{event:?} cannot be done, and was committed"));
                }
            }
            Kind::Add { id, amount } => {
                let row = accounts.entry(id).or_default();
                let sum = row.get("n").and_then(Value::as_i64).unwrap_or(0) + amount;
                row.insert("n".to_owned(), json!(sum));
            }
            Kind::Result | Kind::Allocated => {}
        }
    }
    for effect in effects.iter().filter(|effect| effect.source.is_none()) {
        if let Change::Effects(writes) = &effect.change {
            for write in writes {
                allocated
                    .insert(write.id.to_string(), BTreeMap::from([("slot".to_owned(), json!(effect.slot))]));
            }
        }
    }
    let tables = [("acc", accounts), ("alloc", allocated), ("order", orders)];
    Ok(json!(tables.into_iter().filter(|(_, rows)| !rows.is_empty()).collect::<BTreeMap<_, _>>()))
}

/// NUM-1: slots are dense, and claimed ones stand for the events in their order, once each.
fn slots_stand_for_events(world: &World, effects: &[Effect]) -> Result<(), String> {
    let slots: Vec<u64> = effects.iter().map(|effect| effect.slot).collect();
    same("slots", &slots, &(1..=effects.len() as u64).collect())?;
    let sources: Vec<u64> =
        effects.iter().filter_map(|effect| effect.source).map(|source| source.get()).collect();
    same("events behind slots", &sources, &(1..=world.events().len() as u64).collect())?;
    for effect in effects {
        let allowed = match (&effect.change, effect.source.is_some()) {
            (Change::Fill { why, claimed }, is_claimed) => {
                *claimed == is_claimed
                    && match why {
                        Why::Released | Why::Failed => !is_claimed,
                        Why::Exhausted | Why::Parked => is_claimed,
                        Why::Expired | Why::Skipped => true,
                    }
            }
            _ => effect.token > 0,
        };
        if !allowed {
            return Err(format!("an effect that cannot be: {effect:?}"));
        }
    }
    Ok(())
}
