//! Step a: whether a request was decided before. Within its window a key is decided at most once (IDEM-1).
//!
//! What is remembered is replicated state: rows in time buckets of the store, written with the outcome they belong to and
//! rebuilt from headers alone. A row counts if and only if the record's time minus the row's time is less than the window, whether
//! or not its bucket is gone: buckets are dropped whole, and only once none of their rows can count any more. What expired stays
//! expired when a definition makes the window longer.
//!
//! ```text
//!  bucket: its number is about the time it began                                         now
//!  |  1000  |  2000  |  3000  | ...                                         |  9000      |
//!  rows of 1000 are not later than 2000, so it goes when now - 2000 >= window
//! ```

use gapless_store::{Batch, BucketId, View as StoreView};
use gapless_types::mistakes::{Mistake, makes};
use gapless_types::{IdempotencyKey, WorkspaceId};

use crate::definition::{AtCap, IdempotencyRule};
use crate::error::Fault;
use crate::outcome::{Header, OutcomeKind, RequestDigest};
use crate::rows;
use crate::rows::idempotency::{RememberedRow, key};

/// A window has about this many buckets: few, because a new key is looked for in all of them.
const BUCKETS_PER_WINDOW: u64 = 8;

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalled {
    /// Nothing: it is a new one.
    New,
    /// It was decided, and this is where.
    Decided(RememberedRow),
    /// Its key was used for another request.
    Reused(RememberedRow),
}

/// Which keys count: a function of log time and definitions alone, never of which buckets are still there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) window_ms: u64,
    /// What was decided before this log time had expired when the window was another one.
    pub(crate) forgotten_before: u64,
}

impl Memory {
    fn holds(&self, decided: u64, now: u64) -> bool {
        now.saturating_sub(decided) < self.window_ms && decided >= self.forgotten_before
    }
}

/// Looks a request up.
pub(crate) fn recall(
    store: &StoreView,
    memory: &Memory,
    time: u64,
    request: &Request<'_>,
) -> Result<Recalled, Fault> {
    let mut row_key = Vec::with_capacity(rows::CLIENT_KEY_BYTES);
    key(request.workspace, request.key, request.client, &mut row_key);
    // The newest one counts: a key that came back after its window has an older row, too.
    let Some((_, value)) = store.find_in_buckets(&row_key)? else { return Ok(Recalled::New) };
    let row = RememberedRow::decode(&value).map_err(Fault::Row)?;
    if makes(Mistake::IdempotencyInCacheOnly) {
        return Ok(Recalled::New);
    }
    Ok(if !memory.holds(row.time, time) {
        Recalled::New
    } else if row.digest == *request.digest {
        Recalled::Decided(row)
    } else {
        Recalled::Reused(row)
    })
}

/// What tells one request from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) workspace: WorkspaceId,
    pub(crate) client: &'a str,
    pub(crate) key: IdempotencyKey,
    pub(crate) digest: &'a RequestDigest,
}

/// Puts an outcome that decided a key into a batch, and drops what is over. Depends on nothing but the outcome, the rule and the
/// buckets that are there, so that applying and folding do the same.
pub(crate) fn remember(
    store: &StoreView,
    rule: &IdempotencyRule,
    header: &Header<'_>,
    batch: &mut Batch,
) -> Result<(), Fault> {
    let decides = matches!(header.kind, OutcomeKind::Event | OutcomeKind::Refusal);
    let Some(idempotency_key) = header.key.filter(|_| decides && !header.client.is_empty()) else {
        return Ok(());
    };
    let current = match store.buckets().next_back() {
        Some((newest, rows)) if !is_full(newest, rows, rule, header.time) => newest,
        Some((newest, _)) => BucketId(header.time.max(newest.0.saturating_add(1))),
        None => BucketId(header.time),
    };
    for bucket in expired(store.buckets(), current, rule, header.time) {
        batch.drop_bucket(bucket)?;
    }
    let mut row_key = Vec::with_capacity(rows::CLIENT_KEY_BYTES);
    key(header.workspace, idempotency_key, header.client, &mut row_key);
    let row = RememberedRow { digest: header.digest, offset: header.partition_offset, time: header.time };
    Ok(batch.put_in(current, &row_key, &row.encode())?)
}

/// Whether a bucket takes no more: it covers its part of the window, or of the keys that may be known.
fn is_full(bucket: BucketId, rows: u64, rule: &IdempotencyRule, time: u64) -> bool {
    let span = (rule.window_ms / BUCKETS_PER_WINDOW).max(1);
    let part = (rule.max_keys / BUCKETS_PER_WINDOW).max(1);
    time >= bucket.0.saturating_add(span) || rows >= part
}

/// Buckets whose rows cannot count any more; and the oldest ones, if the namespace wants room for new keys more than old ones.
fn expired(
    buckets: impl Iterator<Item = (BucketId, u64)> + Clone,
    current: BucketId,
    rule: &IdempotencyRule,
    time: u64,
) -> Vec<BucketId> {
    let ends = buckets.clone().skip(1).map(|(next, _)| next).chain([current]);
    let closed = buckets.clone().zip(ends).filter(|((bucket, _), end)| bucket != end);
    let mut known: u64 = buckets.map(|(_, rows)| rows).sum();
    let mut gone = Vec::new();
    for ((bucket, rows), end) in closed {
        let over = time.saturating_sub(end.0) >= rule.window_ms;
        let early = rule.at_cap == AtCap::ForgetOldest && known >= rule.max_keys;
        if over || early {
            gone.push(bucket);
            known = known.saturating_sub(rows);
        }
    }
    gone
}
