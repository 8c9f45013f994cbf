//! The simulator: whole clusters from one seed. The real engine, the real consensus and the real log run on a simulated network, on
//! simulated disks and clocks, in processes that end at any step.
//!
//! ```text
//!  seed ──▶ plan ──▶ world: nodes, network, disks, clocks ◀── troubles, operator, supervisor
//!                      │ every event                          ▲
//!                      ▼                                      │
//!                    trace: hash                            clients ──▶ checkers ──▶ findings
//! ```
//!
//! Invariants
//! - The same seed gives the same trace, on every machine and in every process.
//! - What is found is told with one line that repeats it.
//!
//! Must not know: how the ledger keeps its promises. It knows the promises.

pub mod checkers;
pub mod findings;
mod operator;
pub mod plan;
mod run;
pub mod sometimes;
mod supervisor;
pub mod trace;
mod troubles;
mod workload;
pub mod world;

pub use plan::Plan;
pub use run::{Report, run};
