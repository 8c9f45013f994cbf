//! The vectors about ids: constants, the record-id sequence, the partition of a workspace, recovery, trust levels. Each part of the file that
//! is there is one case.

mod trust;
mod world;

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use anyhow::{Context, Result, bail};
use gapless_types::{RecordId, WorkspaceId};
use serde::Deserialize;

use crate::report::{Failure, Report};
use world::World;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "the file says which suite it is")]
    suite: Option<String>,
    record_ids: Option<BTreeMap<String, u64>>,
    id_generator: Option<Vec<IdStep>>,
    partition_of: Option<Vec<PartitionOf>>,
    recovery: Option<Recovery>,
    trust_levels: Option<Vec<trust::Level>>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum IdStep {
    Next { expect: u64 },
    Sync { id: u64 },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionOf {
    wsid: u64,
    num_partitions: NonZeroU16,
    expect: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recovery {
    /// Told in words: what [`World::with_setup`] does.
    #[expect(dead_code, reason = "for people")]
    setup: String,
    steps: Vec<RecoveryStep>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecoveryStep {
    #[serde(rename = "do")]
    action: String,
    workspace_offset: Option<u64>,
    ids: Option<Vec<u64>>,
}

pub(crate) fn run(text: &str) -> Result<Report> {
    let file: File = serde_json::from_str(text)?;
    let mut report = Report::default();
    if let Some(constants) = &file.record_ids {
        report.add("record_ids", record_ids(constants)?);
    }
    if let Some(steps) = &file.id_generator {
        report.add("id_generator", id_generator(steps)?);
    }
    if let Some(cases) = &file.partition_of {
        report.add("partition_of", partition_of(cases));
    }
    if let Some(recovery) = &file.recovery {
        report.add("recovery", recover(recovery)?);
    }
    if let Some(levels) = &file.trust_levels {
        report.add("trust_levels", trust::run(levels)?);
    }
    Ok(report)
}

/// Fails a step unless it is as expected; steps count from 1.
fn expect<T: PartialEq + std::fmt::Debug>(step: usize, expected: &T, got: &T) -> Result<(), Failure> {
    if expected == got {
        return Ok(());
    }
    Err(Failure { step, expected: format!("{expected:?}"), got: format!("{got:?}") })
}

fn record_ids(constants: &BTreeMap<String, u64>) -> Result<Result<(), Failure>> {
    for (at, (name, expected)) in constants.iter().enumerate() {
        let value = match name.as_str() {
            "NullRecordID" => RecordId::NULL,
            "MinRaw" => RecordId::MIN_RAW.get(),
            "MaxRaw" => RecordId::MAX_RAW.get(),
            "MinReserved" => RecordId::MIN_RESERVED.get(),
            "FirstSingleton" => RecordId::FIRST_SINGLETON.get(),
            "MaxSingleton" => RecordId::MAX_SINGLETON.get(),
            "MaxReserved" => RecordId::MAX_RESERVED.get(),
            "FirstUser" => RecordId::FIRST_USER.get(),
            other => bail!("there is no constant `{other}`"),
        };
        if let Err(failure) = expect(at + 1, &(name, expected), &(name, &value)) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

/// The record-id sequence of a workspace: `next` creates a record, `sync` imports one with its id.
fn id_generator(steps: &[IdStep]) -> Result<Result<(), Failure>> {
    let mut world = World::new()?;
    for (at, step) in steps.iter().enumerate() {
        let outcome = match step {
            IdStep::Next { expect: expected } => expect(at + 1, expected, &world.next_id(1)?),
            IdStep::Sync { id } => {
                world.import(1, *id)?;
                Ok(())
            }
        };
        if outcome.is_err() {
            return Ok(outcome);
        }
    }
    Ok(Ok(()))
}

fn partition_of(cases: &[PartitionOf]) -> Result<(), Failure> {
    cases.iter().enumerate().try_for_each(|(at, case)| {
        let found = WorkspaceId::new(case.wsid).partition(case.num_partitions).get();
        expect(at + 1, &case.expect, &found)
    })
}

fn recover(recovery: &Recovery) -> Result<Result<(), Failure>> {
    let mut world = World::with_setup()?;
    for (at, step) in recovery.steps.iter().enumerate() {
        if step.action == "restart" {
            world.restart()?;
            continue;
        }
        let workspace =
            step.action.strip_prefix("W3 in ").with_context(|| format!("cannot do `{}`", step.action))?;
        let (offset, ids) = world.write_three(workspace.parse().context("a workspace is a number")?)?;
        let checks = [
            step.workspace_offset.map_or(Ok(()), |expected| expect(at + 1, &expected, &offset)),
            step.ids.as_ref().map_or(Ok(()), |expected| expect(at + 1, expected, &ids)),
        ];
        if let Some(failure) = checks.into_iter().find(Result::is_err) {
            return Ok(failure);
        }
    }
    Ok(Ok(()))
}
