//! One unresolved slot, or one that is filled and not yet drained: what is known of it, in memory and as a row.
//!
//! Must not know: other slots, the store.

use std::sync::Arc;

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use gapless_types::{PartitionOffset, WorkspaceId};

use crate::codec::{Put, Take};
use crate::effect::{CommitDigest, Why};
use crate::limits::{MAX_KEY_BYTES, MAX_WORKER_BYTES};
use crate::refusal::Refusal;
use crate::rule::RuleNumber;

const VERSION: u8 = 1;
const NO_RULE: u16 = u16::MAX;

/// A slot above the watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The event it stands for; none if it was allocated.
    pub(crate) source: Option<PartitionOffset>,
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) rule: Option<RuleNumber>,
    pub(crate) opened_at: u64,
    pub(crate) stage: Stage,
    /// The newest one; 0 before the first grant.
    pub(crate) token: u64,
    pub(crate) attempts: u32,
    /// When it may be granted again.
    pub(crate) retry_at: u64,
    /// The last one that held it.
    pub(crate) holder: Arc<str>,
    pub(crate) leased_at: u64,
    pub(crate) deadline: u64,
    pub(crate) renewals: u32,
    pub(crate) staged_at: u64,
    /// Parts of a commit that are in the store.
    pub(crate) parts: u32,
    /// A staged payload that is not in the store.
    pub(crate) inline: Box<[u8]>,
    pub(crate) digest: CommitDigest,
    /// Whether its row in the store, if it has one, says something else.
    pub(crate) is_dirty: bool,
    /// Whether it has a row in the store.
    pub(crate) has_row: bool,
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Can be granted; how the last lease ended, if there was one.
    Ready(Option<End>),
    Leased,
    Staged,
    Filled(Why),
}

/// How a lease ended without a commit that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum End {
    Expired = 1,
    Released = 2,
    Returned = 3,
}

impl End {
    /// What the last holder is told.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Expired => Refusal::LeaseExpired,
            Self::Released => Refusal::LeaseReleased,
            Self::Returned => Refusal::LeaseReturned,
        }
    }
}

impl Slot {
    /// One that was never granted.
    pub(crate) fn new(source: Option<PartitionOffset>, workspace: WorkspaceId, opened_at: u64) -> Self {
        Self {
            source,
            workspace,
            key: None,
            rule: None,
            opened_at,
            stage: Stage::Ready(None),
            token: 0,
            attempts: 0,
            retry_at: 0,
            holder: Arc::default(),
            leased_at: 0,
            deadline: 0,
            renewals: 0,
            staged_at: 0,
            parts: 0,
            inline: Box::default(),
            digest: CommitDigest::default(),
            is_dirty: false,
            has_row: false,
        }
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.source.is_some()
    }

    pub(crate) fn is_resolved(&self) -> bool {
        matches!(self.stage, Stage::Filled(_))
    }

    /// Appends its row.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let (stage, detail) = match self.stage {
            Stage::Ready(None) => (0, 0),
            Stage::Ready(Some(end)) => (0, end as u8),
            Stage::Leased => (1, 0),
            Stage::Staged => (2, 0),
            Stage::Filled(why) => (3, why as u8),
        };
        bytes.extend_from_slice(&[VERSION, stage, detail, u8::from(self.key.is_some())]);
        bytes.put_u64_le(self.source.map_or(0, PartitionOffset::get));
        bytes.put_u64_le(self.workspace.get());
        bytes.put_u16_le(self.rule.map_or(NO_RULE, |rule| rule.0));
        for number in
            [self.opened_at, self.token, self.retry_at, self.leased_at, self.deadline, self.staged_at]
        {
            bytes.put_u64_le(number);
        }
        for number in [self.attempts, self.renewals, self.parts] {
            bytes.put_u32_le(number);
        }
        bytes.extend_from_slice(&self.digest.whole);
        bytes.extend_from_slice(&self.digest.before_last);
        bytes.put_short(self.key.as_deref().unwrap_or_default().as_bytes());
        bytes.put_short(self.holder.as_bytes());
        bytes.put_long(&self.inline);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let [version, stage, detail, has_key] = input.array()?;
        if version != VERSION {
            return Err(Malformed("a slot of an unknown version"));
        }
        let stage = match (stage, detail) {
            (0, 0) => Stage::Ready(None),
            (0, 1) => Stage::Ready(Some(End::Expired)),
            (0, 2) => Stage::Ready(Some(End::Released)),
            (0, 3) => Stage::Ready(Some(End::Returned)),
            (1, 0) => Stage::Leased,
            (2, 0) => Stage::Staged,
            (3, why) => Stage::Filled(Why::of_number(why)?),
            _ => return Err(Malformed("no stage of a slot")),
        };
        let source = PartitionOffset::new(input.u64()?);
        let workspace = WorkspaceId::new(input.u64()?);
        let rule = Some(input.u16()?).filter(|rule| *rule != NO_RULE).map(RuleNumber);
        let [opened_at, token, retry_at, leased_at, deadline, staged_at] = take_numbers(&mut input)?;
        let (attempts, renewals, parts) = (input.u32()?, input.u32()?, input.u32()?);
        let digest = CommitDigest { whole: input.array()?, before_last: input.array()? };
        let key = input.text(MAX_KEY_BYTES)?;
        let holder = input.text(MAX_WORKER_BYTES)?.into();
        let inline = input.long()?.into();
        input.end()?;
        Ok(Self {
            source,
            workspace,
            key: (has_key == 1).then(|| key.into()),
            rule,
            opened_at,
            stage,
            token,
            attempts,
            retry_at,
            holder,
            leased_at,
            deadline,
            renewals,
            staged_at,
            parts,
            inline,
            digest,
            is_dirty: false,
            has_row: true,
        })
    }
}

fn take_numbers<const COUNT: usize>(input: &mut Input<'_>) -> Result<[u64; COUNT], Malformed> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = input.u64()?;
    }
    Ok(numbers)
}
