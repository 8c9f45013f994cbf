//! An append-only log in segment files: the lowest layer of Gapless, and what everything above trusts.
//!
//! - An acknowledged record is on stable storage and never lost; none is invented, none reordered.
//! - Whatever queued up during one sync is the next frame: one writer pays one sync, many share it.
//! - Damage is found, named and told apart from the torn end that every crash may leave.
//! - A full disk is refused before the commit path and heals when there is room.
//!
//! The bytes are drawn in `docs/format.md`. All I/O goes through [`io::Io`], so that tests can put a disk under the log
//! that tears, drops, reorders, flips, fails and fills up.
//!
//! Must not know: Raft, partitions, events; what the records mean.
//!
//! ```
//! use std::sync::Arc;
//! use gapless_log::io::memory::MemoryIo;
//! use gapless_log::{Log, Options};
//!
//! let (log, _) = Log::open(Arc::new(MemoryIo::new()), "ledger", Options::replicated())?;
//! let ticket = log.append_next(&["first", "second"])?;
//! let positions = ticket.positions();
//! ticket.wait()?; // on stable storage now
//! assert_eq!(&log.read(positions.start)?.payload[..], b"first");
//! log.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalog;
mod chores;
mod damage;
mod encode;
mod error;
pub mod format;
mod hot;
mod index;
pub mod input;
mod inspect;
mod inventory;
pub mod io;
mod log;
mod open;
mod options;
mod queue;
mod reader;
mod record;
mod recovery;
mod reserve;
mod scan;
mod scrub;
mod segment_state;
mod shared;
mod stats;
mod tail;
mod threads;
mod ticket;
mod window;
mod writer;

pub use damage::{Damage, Finding};
pub use error::{AppendError, Fault, OpenError, ReadError};
pub use format::control::{Loss, StateKey, Suspect};
pub use format::record::RecordType;
pub use format::{Layout, LogId};
pub use index::{Extent, Override, SegmentIndex};
pub use inspect::{Depth, FrameView, RecordView, SegmentSurvey, Survey, inspect};
pub use log::Log;
pub use open::OpenReport;
pub use options::{Alarm, Clock, DamagePolicy, Drive, MonotonicClock, Options, SyncPolicy};
pub use record::Record;
pub use scrub::{Scrub, Scrubbed};
pub use stats::{LATENCY_BUCKETS, LatencyHistogram, Statistics};
pub use tail::{Follow, Tail, TailError, TailEvent};
pub use ticket::{Settled, Ticket};
