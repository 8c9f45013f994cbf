//! The vectors as data.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) scenarios: Vec<Scenario>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) params: ScenarioParams,
    #[serde(default)]
    pub(crate) storage: InitialStorage,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    pub(crate) expect_new: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ScenarioParams {
    #[serde(default)]
    pub(crate) seq_types: BTreeMap<u16, BTreeMap<u16, u64>>,
    pub(crate) max_unflushed: Option<i64>,
    pub(crate) lru: Option<i64>,
}

/// A workspace, a sequence, a number.
pub(crate) type Triple = (u64, u16, u64);

#[derive(Debug, Deserialize)]
pub(crate) struct InitialStorage {
    #[serde(default = "first_offset")]
    pub(crate) next_offset: u64,
    #[serde(default)]
    pub(crate) plog: BTreeMap<u64, Vec<Triple>>,
    #[serde(default)]
    pub(crate) numbers: Vec<Triple>,
}

impl Default for InitialStorage {
    fn default() -> Self {
        Self { next_offset: first_offset(), plog: BTreeMap::new(), numbers: Vec::new() }
    }
}

fn first_offset() -> u64 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Step {
    Start { kind: u16, ws: u64, expect: Option<Value> },
    Next { seq: u16, expect: Option<Value>, expect_err: Option<String> },
    Flush { expect: Option<String> },
    Actualize { expect: Option<String> },
    Close {},
    Reopen {},
    PlogAdd { offset: u64, values: Vec<Triple> },
    FailWrites { on: bool },
    BlockWrites { on: bool },
    BlockActualize { on: bool },
    DropCache {},
    SetStoredOffset { value: u64 },
    Stored { ws: u64, seq: u16, value: u64 },
    StoredOffset { min: u64, max: u64 },
}

pub(crate) const MISUSE: &str = "misuse";
pub(crate) const REJECTED: &str = "rejected";
