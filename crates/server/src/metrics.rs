//! What a node counts, for Prometheus: every metric defined once, rendered from that, documented from that.
//!
//! ```text
//!  definitions ──▶ page ◀── collect ◀── engine, traffic, process            GET /metrics
//!       └────────▶ reference ──▶ docs/operations/metrics.md
//! ```
//!
//! Counting costs a relaxed addition to something that is there already; reading it all is the business of whoever asks.
//!
//! Must not know: what a call means.

mod body;
mod collect;
mod definitions;
mod histogram;
mod page;
mod process;
mod projections;
mod reference;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gapless_api::UnsentLimit;
use gapless_engine::Engine;
use tokio::sync::watch;

use crate::access::reload::ReloadCounters;
use crate::audit::Audit;
use crate::readiness::Readiness;
use crate::telemetry::SpanCounters;

pub(crate) use self::body::Measured;
use self::process::Started;
pub use self::reference::metrics_reference;
pub(crate) use self::traffic::{CallId, Traffic};

/// What a server counts by itself.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// Nobody else gets at it from here: whoever shows a page has no other way to what is stored than the gates.
    engine: Engine,
    pub(crate) traffic: Arc<Traffic>,
    spans: Arc<SpanCounters>,
    started: Started,
    readiness: watch::Receiver<Readiness>,
    audit: Audit,
    reloads: Arc<ReloadCounters>,
    unsent: UnsentLimit,
}

impl Metrics {
    /// `connections` is shared with whoever else tells how many there are.
    pub(crate) fn new(
        engine: Engine,
        readiness: watch::Receiver<Readiness>,
        spans: Arc<SpanCounters>,
        connections: Arc<AtomicU64>,
        audit: Audit,
        reloads: Arc<ReloadCounters>,
        unsent: UnsentLimit,
    ) -> Self {
        let traffic = Arc::new(Traffic::new(connections));
        Self { engine, traffic, spans, started: Started::now(), readiness, audit, reloads, unsent }
    }

    /// Every metric, as it is now.
    pub(crate) fn page(&self) -> String {
        collect::page(self, &self.engine)
    }
}
