//! The log of a partition, made anew out of what another node has of it: page by page, and only what is not the same travels.
//!
//! ```text
//!  own outcomes that can be read ──▶ digest ──▶ the other node: the same ──▶ own ones ──▶ log.repaired/
//!                                                └ others, or more ────────▶ its own ─┘
//! ```
//!
//! Invariants
//! - NUM-1: the new log is dense from 1; every outcome in it matches its checksums, and says itself which one it is.
//! - WM-1: nothing is taken of an entry that was not dispatched here.
//! - TRUNC-1: a log that lacks something is not taken for a whole one: what is behind it comes from the replicated log of this node, or
//!   the other node says that there is nothing in between.
//!
//! Must not know: how questions travel.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gapless_log::Log;
use gapless_partition::Header;
use gapless_types::{LogIndex, PartitionId, PartitionOffset, Position};

use super::log::{Rebuilt, is_outcome, open_new, open_old};
use super::{RepairError, RepairSource};
use crate::NodeId;
use crate::node::Node;
use crate::questions::{Answer, AnswerPage, PAGE, PAGE_BYTES, Question, digest};
use crate::restore::Reason;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Another node to take outcomes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    /// Somebody said that it is right.
    is_named: bool,
}

/// The node that is named, or the one that has most; none if the source is no node.
pub(super) async fn choose(
    node: &Arc<Node>,
    partition: PartitionId,
    source: &RepairSource,
) -> Result<Option<Peer>, RepairError> {
    let (others, is_named) = match source {
        RepairSource::Node(named) => (vec![*named], true),
        RepairSource::AnyNode => (node.others(), false),
        RepairSource::OwnLog | RepairSource::Backup(_) => return Ok(None),
    };
    let (mut best, mut reasons) = (None, Vec::new());
    for other in others {
        // What it has is all that is asked for.
        let question = Question { partition, first: PartitionOffset::MAX, count: 0, digest: digest([]) };
        match ask(node, other, question).await {
            Ok(answer) if best.is_none_or(|(most, _)| (answer.through, answer.end) > most) => {
                best = Some(((answer.through, answer.end), other));
            }
            Ok(_) => {}
            Err(error) => reasons.push(error.to_string()),
        }
    }
    match best {
        Some((_, node)) => Ok(Some(Peer { node, is_named })),
        None => Err(RepairError::NoPeer { partition, reasons: reasons.join(", ") }),
    }
}

async fn ask(node: &Arc<Node>, other: NodeId, question: Question) -> Result<Answer, RepairError> {
    let failed = |reason: String| RepairError::Peer { node: other, reason };
    if *node.closing.borrow() {
        return Err(failed("this node is closing".to_owned()));
    }
    let answer = node.replicator().ask(other, question.encode(), PATIENCE).await;
    let answer = Answer::decode(&answer.map_err(|error| failed(error.to_string()))?);
    let answer = answer.map_err(|malformed| failed(malformed.to_string()))?;
    let is_asked_for = match &answer.page {
        AnswerPage::Same => question.count > 0,
        AnswerPage::Outcomes(outcomes) => {
            let is_next =
                |at: usize, bytes: &Bytes| is_outcome(bytes, question.first.get().saturating_add(at as u64));
            outcomes.iter().enumerate().all(|(at, bytes)| is_next(at, bytes))
        }
    };
    match is_asked_for {
        true => Ok(answer),
        false => Err(failed("it gave something else than was asked for".to_owned())),
    }
}

/// Makes the log of a partition anew, beside the old one. `had`: the last outcome that it had on stable storage.
pub(super) async fn rebuild_from(
    node: &Arc<Node>,
    dir: &Path,
    partition: PartitionId,
    peer: Peer,
    had: Option<PartitionOffset>,
) -> Result<Rebuilt, RepairError> {
    let open = {
        let (node, dir) = (node.clone(), dir.to_path_buf());
        move || {
            let new = open_new(&node.io, &dir, &node.partition_options)?;
            Ok::<_, RepairError>((open_old(&node.io, &dir, &node.partition_options), new))
        }
    };
    let (old, new) = node.workers.run(open).await?;
    let mut walk = Walk { node, partition, peer, old, new, next: 1, rebuilt: Rebuilt::default() };
    let walked = walk.go(had).await;
    if let Some(old) = walk.old {
        old.abandon();
    }
    walked?;
    let (new, rebuilt) = (walk.new, walk.rebuilt);
    let end = move || new.sync().and_then(|()| new.close());
    node.workers.run(end).await.map_err(|error| RepairError::failed(dir.join("log"), &error))?;
    Ok(rebuilt)
}

/// On the way through both logs.
struct Walk<'a> {
    node: &'a Arc<Node>,
    partition: PartitionId,
    peer: Peer,
    old: Option<Log>,
    new: Log,
    /// The next outcome of the new log.
    next: u64,
    rebuilt: Rebuilt,
}

impl Walk<'_> {
    async fn go(&mut self, had: Option<PartitionOffset>) -> Result<(), RepairError> {
        // What was not dispatched here yet is not taken: it comes the usual way.
        let dispatched = *self.node.dispatched.borrow();
        loop {
            let own = self.own_page().await;
            let first = PartitionOffset::new(self.next).expect("outcomes begin with 1");
            let count = u32::try_from(own.len()).expect("pages are short");
            let digest = digest(own.iter().map(|bytes| &bytes[..]));
            let question = Question { partition: self.partition, first, count, digest };
            let answer = ask(self.node, self.peer.node, question).await?;
            let theirs = match answer.page {
                AnswerPage::Same => {
                    self.rebuilt.own += own.len() as u64;
                    self.append(own).await?;
                    continue;
                }
                AnswerPage::Outcomes(theirs) => theirs,
            };
            if theirs.is_empty() {
                if own.is_empty() {
                    return self.check_complete(answer.through, had);
                }
                // The other one is behind, and everything up to its end is the same.
                self.rebuilt.own += own.len() as u64;
                self.append(own).await?;
                continue;
            }
            let (known, given) = (self.compare(&own, &theirs)?, theirs.len());
            let taken: Vec<Bytes> = theirs
                .into_iter()
                .enumerate()
                .take_while(|(at, bytes)| *at < known || index_of(bytes) <= dispatched)
                .map(|(_, bytes)| bytes)
                .collect();
            let (count, is_cut) = (taken.len() as u64, taken.len() < given);
            self.rebuilt.own += count.min(known as u64);
            self.rebuilt.from_peer += count.saturating_sub(known as u64);
            self.append(taken).await?;
            if is_cut {
                // The rest was not dispatched here yet.
                return Ok(());
            }
        }
    }

    /// How many of the first outcomes are the same.
    fn compare(&mut self, own: &[Bytes], theirs: &[Bytes]) -> Result<usize, RepairError> {
        let known = own.iter().zip(theirs).take_while(|(own, theirs)| own == theirs).count();
        if known == own.len().min(theirs.len()) {
            return Ok(known);
        }
        if !self.peer.is_named {
            return Err(RepairError::Differs { node: self.peer.node, offset: self.next + known as u64 });
        }
        self.rebuilt.differed += 1;
        // What follows something else is not taken either.
        if let Some(old) = self.old.take() {
            old.abandon();
        }
        Ok(known)
    }

    /// Outcomes of the old log that can be read, from the next one on.
    async fn own_page(&self) -> Vec<Bytes> {
        let Some(old) = self.old.clone() else { return Vec::new() };
        let first = self.next;
        let read = move || {
            let (mut page, mut bytes) = (Vec::new(), 0);
            for offset in first.. {
                let own = old.read(Position::new(offset)).ok().map(|record| record.payload);
                match own.filter(|own| is_outcome(own, offset)) {
                    Some(own) if page.len() < PAGE && bytes < PAGE_BYTES => {
                        bytes += own.len();
                        page.push(own);
                    }
                    _ => break,
                }
            }
            page
        };
        self.node.workers.run(read).await
    }

    async fn append(&mut self, records: Vec<Bytes>) -> Result<(), RepairError> {
        let Some(last) = records.last() else { return Ok(()) };
        self.rebuilt.last = index_of(last);
        let (new, first) = (self.new.clone(), Position::new(self.next));
        self.next += records.len() as u64;
        let append = move || -> Result<(), Reason> {
            let _synced_at_the_end = new.append(first, &records)?;
            Ok(new.flush()?)
        };
        let failed = |error: Reason| RepairError::failed("log.repaired", &error);
        self.node.workers.run(append).await.map_err(failed)
    }

    /// The other node has no more: is that all that this one cannot get elsewhere?
    fn check_complete(
        &self,
        through: Option<LogIndex>,
        had: Option<PartitionOffset>,
    ) -> Result<(), RepairError> {
        let kept = self.node.first_kept();
        let reaches =
            |index: Option<LogIndex>| index.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST) >= kept;
        let has_what_it_had = had.is_some_and(|had| self.next > had.get());
        if reaches(through) || reaches(self.rebuilt.last) || has_what_it_had {
            return Ok(());
        }
        let reason = format!(
            "it has {} outcomes of partition {}, and nobody says that there are no more in front of entry {kept}",
            self.next - 1,
            self.partition
        );
        Err(RepairError::Peer { node: self.peer.node, reason })
    }
}

fn index_of(bytes: &[u8]) -> Option<LogIndex> {
    Header::decode_alone(bytes).ok().map(|(header, ..)| header.log_index)
}
