//! Projections: their domains on this node, what they are fed with, who works for them, who reads them.
//!
//! ```text
//!  dispatcher ──▶ feed ──▶ slot ──▶ driver ──▶ applying ──▶ domain ──▶ sight, progress ──▶ readers, waiters
//!                            ▲                    │
//!      partition logs ─ filling, outcomes ────────┘ answers
//!                                                   │
//!  leasing, asking, rules, ticking ──▶ proposing    ▼ whoever asked
//! ```
//!
//! Invariants
//! - Every replica gives its domains the same inputs in the same order (NUM-3).
//! - TRUNC-1: what a domain needs of the replicated log is in the catalog on disk before anything is cut.
//!
//! Must not know: sockets, encodings of an interface.

mod answers;
mod applying;
mod asking;
mod driver;
mod error;
mod feed;
mod filling;
mod leasing;
mod reading;
mod registry;
mod request;
mod rules;
mod slot;
mod ticking;
mod working;

pub(crate) use answers::Asked;
pub(crate) use applying::event_of;
pub(crate) use feed::Feed;
pub(crate) use registry::{
    Projections, close_domains, drop_removed, feed_entry, reconcile, reset_domains, start_domains,
};
pub(crate) use request::{DomainRequest, RequestId, encoded_bytes};
pub(crate) use slot::{DomainSlot, ImageRequest};

pub use error::ProjectionError;
pub use leasing::{LeaseRequest, Leased};
pub use reading::{DomainReport, Freshness, ProjectionReport};
pub use slot::DomainState;

/// A command on its way to the log.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) asked: Asked,
    pub(crate) command: bytes::Bytes,
}
