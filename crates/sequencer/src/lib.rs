//! Next numbers for millions of workspaces, with bounded memory and a fast restart.
//!
//! An event gets its numbers before it is appended to a log: its offset there, and the next number of as many sequences
//! of its workspace as it needs. What is committed never skips, repeats or goes back; what is abandoned was never taken.
//! The log is the truth. What the sequencer stores is a shortcut: after a restart it reads the log from the stored
//! offset on, and continues exactly where the log ends.
//!
//! ```text
//!  start ──▶ next ──▶ (append the event to the log) ──▶ flush ──────▶ unflushed ──▶ flusher ──▶ storage
//!    │         ▲                │ failed, or nobody knows                ▲                          │
//!    │         │                ▼                                        │ merge                    │
//!   busy     cache,          actualize ──▶ the log's tail is read ───────┘◀── stored offset ────────┘
//!            unflushed,
//!            storage,
//!            initial number
//! ```
//!
//! - A transaction is a value: [`Transaction::flush`] and [`Transaction::actualize`] consume it, and dropping it means
//!   `actualize`. There is one at a time, because it borrows the sequencer.
//! - [`Sequencer::start`] never blocks. It refuses with [`Busy`] while the log is being read, while more than
//!   `max_unflushed` values wait for the storage, and while the stored offset is more than `max_lag` behind. All of it
//!   passes by itself.
//! - Memory is that of the cache ([`CacheBudget`]) and of the unflushed values, however many workspaces there are.
//! - Storage is a trait ([`Storage`]) with one atomic write; [`memory::MemoryStorage`] is one in memory, with faults.
//!   `examples/invoices.rs` shows one over real files, with a real restart.
//! - The background work is done by one thread, or by the caller ([`Drive`]). No async runtime is needed.
//!
//! Must not know: what the numbers are for, how they are stored, what the log is made of, which time it is.
//!
//! ```
//! use std::time::Duration;
//! use gapless_sequencer::memory::MemoryStorage;
//! use gapless_sequencer::{Drive, Params, SequenceValue, Sequencer};
//! use gapless_types::{SequenceId, WorkspaceId, WorkspaceKind};
//!
//! const SHOP: WorkspaceKind = WorkspaceKind::new(1);
//! const INVOICE: SequenceId = SequenceId::new(1);
//! const RECORD: SequenceId = SequenceId::new(2);
//!
//! let storage = MemoryStorage::new();
//! let params = Params::new().with_kind(SHOP, [(INVOICE, 1000), (RECORD, 200_001)]);
//! let mut sequencer = Sequencer::new(params.clone(), storage.clone(), Drive::OS_THREAD)?;
//! sequencer.wait_ready(Duration::from_secs(10))?;
//!
//! let workspace = WorkspaceId::new(42);
//! let mut transaction = sequencer.start(SHOP, workspace)?;
//! let invoice = transaction.next(INVOICE)?;
//! assert_eq!((transaction.offset().get(), invoice), (1, 1000));
//!
//! // The event is appended to the log, with its numbers in it. Only then:
//! let value = SequenceValue { workspace, sequence: INVOICE, number: invoice };
//! storage.append(transaction.offset(), [value]);
//! transaction.flush();
//!
//! // This one could not be appended: its numbers are free again.
//! let mut transaction = sequencer.start(SHOP, workspace)?;
//! assert_eq!(transaction.next(INVOICE)?, 1001);
//! transaction.actualize();
//!
//! // Whatever happens now: who reads the log continues where it ends.
//! drop(sequencer);
//! let mut sequencer = Sequencer::new(params, storage.successor(), Drive::OS_THREAD)?;
//! sequencer.wait_ready(Duration::from_secs(10))?;
//! let mut transaction = sequencer.start(SHOP, workspace)?;
//! assert_eq!((transaction.offset().get(), transaction.next(INVOICE)?), (2, 1001));
//! # transaction.actualize();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod background;
mod budget;
mod cache;
mod drive;
mod error;
mod hash;
mod kinds;
pub mod memory;
mod params;
mod sequencer;
mod shared;
mod statistics;
mod storage;
mod sync;
mod time;
mod transaction;
mod unflushed;

pub use budget::{CacheBudget, MAX_CACHE_ENTRIES};
pub use drive::{Drive, OsThreads, Spawn};
pub use error::{Busy, Fault, NewError, NextError, ParamsError, StartError};
pub use kinds::MAX_SEQUENCES_PER_KIND;
pub use params::{Params, SequenceParams};
pub use sequencer::{BackgroundStep, Ending, Sequencer};
pub use statistics::{Hits, Refusals, Statistics, WorkCounters};
pub use storage::{SequenceValue, Storage};
pub use time::{Clock, ManualClock, MonotonicClock};
pub use transaction::Transaction;
