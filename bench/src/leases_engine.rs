//! Workers of a real engine: how their number scales, and what a slot costs with its ways through the log.
//!
//! Must not know: how the figures are shown.

use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures_util::future::try_join_all;
use gapless_engine::partition::{Definition, Write};
use gapless_engine::projection::{Command, Done, Held, Payload, Plan};
use gapless_engine::types::{IdempotencyKey, Name, WorkspaceId};
use gapless_engine::{Config, Engine, LeaseRequest, Leased, WriteOptions};
use serde_json::json;
use tokio::task::JoinSet;

const NAMESPACE: &str = "bench";
const PROJECTION: &str = "work";
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine with one projection, and events for its workers.
pub(crate) struct Workplace {
    engine: Engine,
    keys: AtomicU64,
}

impl Workplace {
    pub(crate) async fn open(directory: &Path) -> Result<Arc<Self>> {
        let engine = Engine::open(Config::embedded(directory)).await?;
        engine.wait_for_leader().await;
        let plan = Plan::from_json(&json!({})).map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
        let definition = Definition::new(Name::new(NAMESPACE)?, NonZeroU16::MIN)
            .with_projection(Name::new(PROJECTION)?, plan.to_text());
        engine.define(definition).await?;
        Ok(Arc::new(Self { engine, keys: AtomicU64::new(1) }))
    }

    pub(crate) async fn close(&self) {
        self.engine.close().await;
    }

    /// Writes events, and comes back when all of them are slots.
    pub(crate) async fn write(&self, count: u64) -> Result<()> {
        let mut last = None;
        let payload = [b'x'; 256];
        for _ in 0..count.div_ceil(256) {
            let writes = (0..256).map(|_| async {
                let mut key = [1; 16];
                key[..8].copy_from_slice(&self.keys.fetch_add(1, Ordering::Relaxed).to_le_bytes());
                let write = Write { payload: &payload, ..Write::new(WorkspaceId::new(1), "bench", "Note") };
                let options = WriteOptions { patience: PATIENCE };
                self.engine
                    .write(NAMESPACE, IdempotencyKey::new(key)?, &write, options)
                    .await
                    .map_err(anyhow::Error::from)
            });
            last = try_join_all(writes).await?.pop();
        }
        ensure!(last.is_some(), "nothing was written");
        while self.tail()? < count {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn tail(&self) -> Result<u64> {
        let report = self.engine.projection(NAMESPACE, PROJECTION)?;
        let status = report.domains.first().and_then(|domain| domain.status.clone());
        Ok(status.map_or(0, |status| status.tail))
    }

    async fn lease(&self, worker: &str, max: u32) -> Result<Vec<Leased>> {
        let request = LeaseRequest {
            worker,
            max,
            ttl: Some(Duration::from_secs(60)),
            wait: Duration::from_secs(10),
            partition: None,
        };
        Ok(self.engine.lease(NAMESPACE, PROJECTION, request).await?)
    }

    async fn commit(&self, leased: &Leased, payload: &[u8]) -> Result<()> {
        let held = Held { slot: leased.grant.slot, token: leased.grant.token };
        let answer = self.engine.command(&leased.domain, &Command::commit(held, payload), PATIENCE).await?;
        match answer.done {
            Done::Committed { .. } => Ok(()),
            other => bail!("a commit ended with {other:?}"),
        }
    }

    /// Slots per second of so many workers, each of which works for a while on one slot after the other.
    pub(crate) async fn per_second(self: &Arc<Self>, workers: u64, each: u64, work: Duration) -> Result<f64> {
        self.write(workers * each + self.tail()?).await?;
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for worker in 0..workers {
            let place = self.clone();
            tasks.spawn(async move {
                let (name, payload) = (format!("worker {worker}"), Payload::result(&json!(null)).to_bytes());
                for _ in 0..each {
                    let leased = place.lease(&name, 1).await?;
                    let Some(one) = leased.first() else { bail!("there was no work") };
                    tokio::time::sleep(work).await;
                    place.commit(one, &payload).await?;
                }
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok((workers * each) as f64 / begun.elapsed().as_secs_f64())
    }

    /// Microseconds for a slot without work, leased and committed in batches by so many workers: a single one waits for the disk most
    /// of the time.
    pub(crate) async fn microseconds_per_slot(
        self: &Arc<Self>,
        workers: u64,
        batch: u32,
        slots: u64,
    ) -> Result<f64> {
        self.write(slots + self.tail()?).await?;
        let left = Arc::new(AtomicU64::new(slots));
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for worker in 0..workers {
            let (place, left) = (self.clone(), left.clone());
            tasks.spawn(async move {
                let (name, payload) = (format!("worker {worker}"), Payload::result(&json!(null)).to_bytes());
                let take = |left: u64| left.checked_sub(u64::from(batch));
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    let mut done = 0;
                    while done < batch {
                        let leased = place.lease(&name, batch - done).await?;
                        ensure!(!leased.is_empty(), "there was no work");
                        try_join_all(leased.iter().map(|one| place.commit(one, &payload))).await?;
                        done += u32::try_from(leased.len())?;
                    }
                }
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(begun.elapsed().as_secs_f64() * 1e6 / slots as f64)
    }
}
