//! What nodes ask each other beside agreeing on an order: the outcomes of a partition.
//!
//! Partition logs are the same bytes on every node (NUM-3), so whoever lost a part of one gets it from any other. He says what he has
//! as a digest, page by page; what is the same does not travel.
//!
//! ```text
//!  question: CRC of what follows (4), version 1 (1), 1: outcomes (1), namespace (4), index (2), first (8),
//!            count (4), SHA-256 of the asker's own outcomes from `first` on: each its length (4) and its bytes (32)
//!  answer:   CRC of what follows (4), version 1 (1), what (1), count of all outcomes here (8),
//!            everything up to this entry has an outcome here, plus one; 0 if that is not known (8),
//!            1 other outcomes: count (4), each its length (4) and its bytes; 2 the same; both from `first` on
//! ```
//!
//! Invariants
//! - Only a partition that is well answers: one that is not may lack something and not know it.
//! - NUM-1: outcomes of an answer are dense from the first that was asked for.
//!
//! Must not know: how questions travel, what becomes of the answers.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use gapless_consensus::MachineFault;
use gapless_consensus::limits::MAX_ANSWER_BYTES;
use gapless_partition::{Direction, View};
use gapless_types::limits::MAX_RECORD_BYTES;
use gapless_types::{LogIndex, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};
use sha2::{Digest, Sha256};

use crate::node::Node;
use crate::slot::{PartitionState, Slot};

const VERSION: u8 = 1;
const OUTCOMES: u8 = 1;
const OTHERS: u8 = 1;
const SAME: u8 = 2;
/// Most outcomes of a page.
pub(crate) const PAGE: usize = 256;
/// Bytes with which a page is full; a single longer outcome goes alone.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

const _: () = assert!(
    PAGE_BYTES + PAGE * 4 + 64 < MAX_ANSWER_BYTES && MAX_RECORD_BYTES as usize + 64 < MAX_ANSWER_BYTES,
    "a page fits an answer"
);

/// What somebody has, and wants to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) partition: PartitionId,
    /// The first outcome that is asked for.
    pub(crate) first: PartitionOffset,
    /// So many from there on the asker has.
    pub(crate) count: u32,
    pub(crate) digest: [u8; 32],
}

/// What another node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The last outcome that it has.
    pub(crate) end: Option<PartitionOffset>,
    /// Everything of the partition up to this entry has an outcome there.
    pub(crate) through: Option<LogIndex>,
    pub(crate) page: AnswerPage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerPage {
    /// What the asker has is what it has.
    Same,
    /// Other outcomes, or more than the asker has; none behind the end.
    Outcomes(Vec<Bytes>),
}

/// Bytes that are no question, or no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of a known form: {0}")]
pub(crate) struct Malformed(&'static str);

/// The digest of outcomes that follow each other.
pub(crate) fn digest<'a>(outcomes: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut digest = Sha256::new();
    for outcome in outcomes {
        digest.update(length(outcome).to_le_bytes());
        digest.update(outcome);
    }
    digest.finalize().into()
}

fn length(outcome: &[u8]) -> u32 {
    u32::try_from(outcome.len()).expect("records are shorter than 4 GiB")
}

impl Question {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION, OUTCOMES];
        bytes.put_u32_le(self.partition.namespace.get());
        bytes.put_u16_le(self.partition.index.get());
        bytes.put_u64_le(self.first.get());
        bytes.put_u32_le(self.count);
        bytes.put_slice(&self.digest);
        sealed(&bytes)
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut bytes = unsealed(bytes)?;
        if bytes.len() != 52 || bytes.get_u8() != VERSION || bytes.get_u8() != OUTCOMES {
            return Err(Malformed("another question"));
        }
        let namespace = NamespaceId::new(bytes.get_u32_le());
        let partition = PartitionId { namespace, index: PartitionIndex::new(bytes.get_u16_le()) };
        let first = PartitionOffset::new(bytes.get_u64_le()).ok_or(Malformed("outcome 0"))?;
        let count = bytes.get_u32_le();
        if count as usize > PAGE {
            return Err(Malformed("a long page"));
        }
        let mut digest = [0; 32];
        bytes.copy_to_slice(&mut digest);
        Ok(Self { partition, first, count, digest })
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Bytes {
        let what = if self.page == AnswerPage::Same { SAME } else { OTHERS };
        let mut bytes = vec![VERSION, what];
        bytes.put_u64_le(self.end.map_or(0, PartitionOffset::get));
        bytes.put_u64_le(self.through.map_or(0, |through| through.get() + 1));
        if let AnswerPage::Outcomes(outcomes) = &self.page {
            bytes.put_u32_le(u32::try_from(outcomes.len()).expect("pages are short"));
            for outcome in outcomes {
                bytes.put_u32_le(length(outcome));
                bytes.put_slice(outcome);
            }
        }
        sealed(&bytes)
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut bytes = unsealed(bytes)?;
        if bytes.len() < 18 || bytes.get_u8() != VERSION {
            return Err(Malformed("another answer"));
        }
        let what = bytes.get_u8();
        let end = PartitionOffset::new(bytes.get_u64_le());
        let through = bytes.get_u64_le().checked_sub(1).map(LogIndex::new);
        let page = match what {
            SAME => AnswerPage::Same,
            OTHERS => AnswerPage::Outcomes(take_outcomes(&mut bytes)?),
            _ => return Err(Malformed("another answer")),
        };
        match bytes.is_empty() {
            true => Ok(Self { end, through, page }),
            false => Err(Malformed("something behind the end")),
        }
    }
}

fn take_outcomes(bytes: &mut Bytes) -> Result<Vec<Bytes>, Malformed> {
    const SHORT: Malformed = Malformed("it ends too early");
    let count = bytes.try_get_u32_le().map_err(|_| SHORT)? as usize;
    if count > PAGE {
        return Err(Malformed("a long page"));
    }
    let mut outcomes = Vec::new();
    for _ in 0..count {
        let length = bytes.try_get_u32_le().map_err(|_| SHORT)? as usize;
        if length > bytes.len() {
            return Err(SHORT);
        }
        outcomes.push(bytes.split_to(length));
    }
    Ok(outcomes)
}

fn sealed(bytes: &[u8]) -> Bytes {
    let mut sealed = Vec::with_capacity(bytes.len() + 4);
    sealed.put_u32_le(crc32c::crc32c(bytes));
    sealed.put_slice(bytes);
    sealed.into()
}

fn unsealed(bytes: &Bytes) -> Result<Bytes, Malformed> {
    let mut bytes = bytes.clone();
    let sum = bytes.try_get_u32_le().map_err(|_| Malformed("it ends too early"))?;
    match crc32c::crc32c(&bytes) == sum {
        true => Ok(bytes),
        false => Err(Malformed("it does not match its checksum")),
    }
}

/// Answers what another node asks.
pub(crate) async fn answer(node: Arc<Node>, question: Bytes) -> Result<Bytes, MachineFault> {
    let question = Question::decode(&question).map_err(MachineFault::new)?;
    let slot = node.slot(question.partition);
    let slot =
        slot.ok_or_else(|| MachineFault::new(format!("partition {} is not here", question.partition)))?;
    if !matches!(*slot.state.borrow(), PartitionState::Serving | PartitionState::CatchingUp) {
        return Err(MachineFault::new(format!("partition {} is not well here", question.partition)));
    }
    // First: what is seen then has everything up to there.
    let through = through(&node, &slot);
    let view = node.view_now(&slot).await.map_err(MachineFault::new)?;
    let job = move || {
        let page = page(&view, &question).map_err(MachineFault::new)?;
        Ok(Answer { end: view.applied(), through, page }.encode())
    };
    node.workers.run(job).await
}

/// Up to where a partition certainly has everything.
fn through(node: &Node, slot: &Slot) -> Option<LogIndex> {
    let core = node.core();
    let marked = core.watermarks.marks(slot.id).and_then(|marks| marks.applied);
    // One that was opened again may have less than the marks say, until it has caught up.
    let is_there = marked.is_some() && slot.applied.borrow().offset >= marked;
    core.watermarks.applied_through(slot.id).filter(|_| is_there)
}

fn page(view: &View, question: &Question) -> Result<AnswerPage, gapless_partition::Fault> {
    let (mut found, mut next) = (Vec::new(), Some(question.first));
    let wanted = question.count as usize;
    while let Some(from) = next.filter(|_| found.len() < wanted) {
        let outcomes = view.outcomes(from, wanted - found.len(), Direction::Forward)?;
        if outcomes.is_empty() {
            break;
        }
        next = outcomes.iter().fold(next, |next, _| next.and_then(PartitionOffset::next));
        found.extend(outcomes);
    }
    if wanted > 0
        && found.len() == wanted
        && digest(found.iter().map(|outcome| &outcome.bytes()[..])) == question.digest
    {
        return Ok(AnswerPage::Same);
    }
    let (mut outcomes, mut bytes) = (Vec::new(), 0);
    for outcome in view.outcomes(question.first, PAGE, Direction::Forward)? {
        bytes += outcome.bytes().len();
        if !outcomes.is_empty() && bytes > PAGE_BYTES {
            break;
        }
        outcomes.push(outcome.bytes().clone());
    }
    Ok(AnswerPage::Outcomes(outcomes))
}

#[cfg(test)]
mod tests;
