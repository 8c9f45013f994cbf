//! What one partition that is saturated with large writes costs the others: 63 small writers, one per partition, without it and
//! with it.
//!
//! The same bytes into the bare log, with as many in flight, say how much of it is the disk's and not ours.
//!
//! Must not know: how writes are admitted, what is done with the figures.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::engine_load::{Cost, Figures, Load, Target};
use crate::engine_targets::{BareLog, EVENT_BYTES, Nodes};

const PARTITIONS: u16 = 64;
/// Large writes that are always on their way to the saturated partition.
const LARGE_WRITERS: usize = 16;
/// Payload of a large write, in bytes.
const LARGE_BYTES: usize = 1 << 20;

/// Small writers without and with the large ones, in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) alone: Figures,
    pub(crate) beside: Figures,
    pub(crate) large: Figures,
}

/// One round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) engine: Pair,
    pub(crate) bare_log: Pair,
    /// Large writes that were refused for a moment and tried again.
    pub(crate) refusals: u64,
}

impl Pair {
    /// How many times as late the slowest hundredth is.
    pub(crate) fn p99_ratio(&self) -> f64 {
        self.beside.p99_us / self.alone.p99_us
    }
}

/// One small writer per partition. Workspace 0, and with it the first partition, is left to the large ones.
struct Small(Arc<Nodes>);

/// All writers on one workspace.
struct Large(Arc<Nodes>, Vec<u8>);

impl Target for Small {
    async fn write(&self, writer: u64, number: u64) -> Result<()> {
        self.0.write(writer + 1, number).await
    }

    fn cost(&self) -> Cost {
        self.0.cost()
    }
}

impl Target for Large {
    async fn write(&self, writer: u64, number: u64) -> Result<()> {
        self.0.write_payload(0, number * LARGE_WRITERS as u64 + writer, &self.1).await
    }

    fn cost(&self) -> Cost {
        self.0.cost()
    }
}

/// Measures one round.
pub(crate) async fn measure(parent: &Path, measured: Duration) -> Result<Round> {
    let nodes = Arc::new(Nodes::found(parent, 1, PARTITIONS).await?);
    let large = Arc::new(Large(nodes.clone(), vec![7; LARGE_BYTES]));
    let engine = pair(&Arc::new(Small(nodes.clone())), &large, measured).await?;
    nodes.close().await?;
    let small = Arc::new(BareLog::open(parent, EVENT_BYTES)?);
    let large = Arc::new(small.with_payload(LARGE_BYTES)?);
    let bare_log = pair(&small, &large, measured).await?;
    Ok(Round { engine, bare_log, refusals: nodes.refusals() })
}

async fn pair(small: &Arc<impl Target>, large: &Arc<impl Target>, measured: Duration) -> Result<Pair> {
    let few = Load::of(usize::from(PARTITIONS) - 1, 1, measured);
    let many = Load::of(LARGE_WRITERS, 1, measured);
    let alone = few.run(small, 0).await?;
    let (beside, large) = tokio::try_join!(few.run(small, 1 << 40), many.run(large, 0))?;
    Ok(Pair { alone, beside, large })
}
