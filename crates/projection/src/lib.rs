//! Projections of Gapless: many workers compute, and their effects become visible in exactly the order of the log.
//!
//! A [`Domain`] is one projection over one partition. It consumes events and commands in the order of the replicated log, opens a slot
//! for each event, leases slots to workers, takes what they computed, and applies it slot by slot. What anybody can see is always what
//! one worker would have made that folded the events one by one.
//!
//! - NUM-1: slots are dense, tokens only grow.
//! - ORD-1: effects are applied in slot order, once each; the result equals the serial fold of the events.
//! - FENCE-1: only the newest token of a slot can commit.
//!
//! Must not know: clocks, sockets, random numbers, Raft, partitions. Time and order come with the inputs; the waiting side
//! ([`Progress`]) knows futures, and nothing else does.

mod answer;
mod codec;
mod command;
mod counters;
mod domain;
mod durations;
mod effect;
mod error;
mod evaluation;
mod event;
mod health;
pub mod limits;
mod mistakes;
mod payload;
mod plan;
mod refusal;
mod replay;
mod rows;
mod rule;
mod settings;
mod slot;
mod value;
mod view;
mod waiting;

pub use answer::{Answer, CommitStatus, Done, Grant, Next};
pub use command::{Command, Held};
pub use counters::Counters;
pub use domain::{
    Applied, Blocking, Definition, Domain, Image, Input, Installing, OpenSlot, Place, Sight, Stage, Stamp,
    Status, read_domain,
};
pub use durations::{Durations, LeaseRule, lease_ms, size_milli};
pub use effect::{Change, CommitDigest, Effect, Why};
pub use error::{CheckpointFailed, Fault, InstallError, OpenError};
pub use event::Event;
pub use gapless_log::input::Malformed;
pub use health::{Alert, Health, Vitals, global_watermark};
#[cfg(feature = "faults")]
pub use mistakes::Mistake;
pub use payload::{Exploded, Payload, RowRead, RowWrite, RuleKind};
pub use plan::{Plan, PlanError, Routing, Scope};
pub use refusal::Refusal;
pub use replay::{Audit, HasEvent, Rebuilt, ReplayError};
pub use rule::{
    Action, Assignments, Comparison, EvaluationError, Expression, Operator, Predicate, Rule, RuleError, Rules,
};
pub use settings::{InvalidSetting, OnExhausted, OnExpiry, Settings};
pub use value::{DifferentTypes, Row, Value, canonical_json, row_from_json};
pub use view::{ExplodeError, Fill, FoundRow, OpenEvent, View};
pub use waiting::{Progress, WaitError, Waiter};
