//! Which offset a partition's next record has: what the log says, and what a proposer expects it to say.
//!
//! Every number has one owner. `next` of a partition belongs to the dispatcher and is a function of the log alone: a record that
//! expects another offset is dropped by every replica alike, is no outcome and consumes nothing. A proposer reserves ahead of it,
//! because it has several batches in flight. It can be wrong, after a proposal failed or another node led, and must then stop
//! guessing: everything in flight resolves first, and only then `next` is read again.
//!
//! Invariants
//! - NUM-1: the records delivered to a partition have offsets 1, 2, 3, ... in log order.
//! - NUM-2: what was dropped or never committed consumed nothing.
//! - A record that is dropped is reported to the proposer that proposed it.
//!
//! Must not know: what records hold, how an order is agreed on, clocks.

mod dispatch;
mod proposer;

pub use dispatch::{Dispatch, Resume, Verdict};
pub use proposer::{Batch, BatchId, Fate, NotNow, Proposer};

#[cfg(test)]
mod tests;
