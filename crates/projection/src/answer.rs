//! What became of a command, and its bytes: they travel from the node that applied it to whoever asked.
//!
//! ```text
//! u8 version 1 | u8 kind | u64 watermark | fields
//!   0 refused        u8 refusal
//!   1 granted        u32 count | u64 slot, u64 token, u64 expires at, u32 attempt, u64 source or 0 ...
//!   2 renewed        u64 expires at, u32 renewals
//!   3 committed      u8 status, u8 whether it is a duplicate
//!   4 part received  u32 parts so far
//!   5 released   6 skipped   8 leader changed
//!   7 failed         u32 attempts, u8 next, u64 retry at or 0
//!   9 ticked         u32 count | u64 slot ...
//! ```

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use gapless_types::PartitionOffset;

use crate::codec::{Put, Take};
use crate::refusal::Refusal;

const VERSION: u8 = 1;

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The watermark behind it.
    pub watermark: u64,
    /// What was done.
    pub done: Done,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing.
    Refused(Refusal),
    /// Slots were granted, ascending; maybe none.
    Granted(Vec<Grant>),
    /// The lease lasts longer.
    Renewed {
        /// Until when, in log time.
        expires_at: u64,
        /// How often the grant was renewed.
        renewals: u32,
    },
    /// The lease is over, and this became of the payload.
    Committed {
        /// Where the slot stands.
        status: CommitStatus,
        /// Whether the same was committed before.
        is_duplicate: bool,
    },
    /// A part was kept; the lease goes on.
    PartReceived {
        /// How many there are.
        parts: u32,
    },
    /// The lease was given back.
    Released,
    /// The slot was filled.
    Skipped,
    /// The lease ended with an error.
    Failed {
        /// Attempts that were made.
        attempts: u32,
        /// What comes next.
        next: Next,
    },
    /// Another node leads.
    LeaderChanged,
    /// Time has passed.
    Ticked {
        /// Slots whose leases ran out, ascending.
        expired: Vec<u64>,
    },
}

/// A slot and the right to fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The slot.
    pub slot: u64,
    /// The right to it: higher than any that was issued before.
    pub token: u64,
    /// Until when, in log time; at that time it still holds.
    pub expires_at: u64,
    /// Which attempt it is, from 1 on.
    pub attempt: u32,
    /// The event it stands for; none if it was allocated.
    pub source: Option<PartitionOffset>,
}

/// Where a slot stands after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CommitStatus {
    /// Its effect is visible.
    Applied = 1,
    /// It waits for lower slots, and can no longer expire.
    Staged = 2,
    /// It is ready again: a row it had read was changed, or its rule has no answer.
    Returned = 3,
    /// Its attempts are used up.
    Filled = 4,
}

/// What comes after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is granted again from this log time on.
    Retry(u64),
    /// It was filled.
    Filled,
    /// The domain stands still.
    Halted,
}

impl CommitStatus {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Staged => "staged",
            Self::Returned => "returned",
            Self::Filled => "filled",
        }
    }

    fn of_number(number: u8) -> Result<Self, Malformed> {
        let all = [Self::Applied, Self::Staged, Self::Returned, Self::Filled];
        all.into_iter().find(|status| *status as u8 == number).ok_or(Malformed("no status of a commit"))
    }
}

impl Answer {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.done.number()];
        bytes.put_u64_le(self.watermark);
        self.done.encode(&mut bytes);
        bytes
    }

    /// Takes any bytes.
    ///
    /// # Errors
    /// If they are no answer.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        if input.u8()? != VERSION {
            return Err(Malformed("an answer of an unknown version"));
        }
        let kind = input.u8()?;
        let watermark = input.u64()?;
        let done = Done::decode(kind, &mut input)?;
        input.end()?;
        Ok(Self { watermark, done })
    }
}

impl Done {
    fn number(&self) -> u8 {
        match self {
            Self::Refused(_) => 0,
            Self::Granted(_) => 1,
            Self::Renewed { .. } => 2,
            Self::Committed { .. } => 3,
            Self::PartReceived { .. } => 4,
            Self::Released => 5,
            Self::Skipped => 6,
            Self::Failed { .. } => 7,
            Self::LeaderChanged => 8,
            Self::Ticked { .. } => 9,
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Refused(refusal) => bytes.put_u8(*refusal as u8),
            Self::Granted(grants) => {
                bytes.put_count(grants.len());
                for grant in grants {
                    bytes.put_u64_le(grant.slot);
                    bytes.put_u64_le(grant.token);
                    bytes.put_u64_le(grant.expires_at);
                    bytes.put_u32_le(grant.attempt);
                    bytes.put_u64_le(grant.source.map_or(0, PartitionOffset::get));
                }
            }
            Self::Renewed { expires_at, renewals } => {
                bytes.put_u64_le(*expires_at);
                bytes.put_u32_le(*renewals);
            }
            Self::Committed { status, is_duplicate } => {
                bytes.put_u8(*status as u8);
                bytes.put_u8(u8::from(*is_duplicate));
            }
            Self::PartReceived { parts } => bytes.put_u32_le(*parts),
            Self::Released | Self::Skipped | Self::LeaderChanged => {}
            Self::Failed { attempts, next } => {
                bytes.put_u32_le(*attempts);
                let (number, retry_at) = match next {
                    Next::Retry(at) => (0, *at),
                    Next::Filled => (1, 0),
                    Next::Halted => (2, 0),
                };
                bytes.put_u8(number);
                bytes.put_u64_le(retry_at);
            }
            Self::Ticked { expired } => {
                bytes.put_count(expired.len());
                for slot in expired {
                    bytes.put_u64_le(*slot);
                }
            }
        }
    }

    fn decode(kind: u8, input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            0 => Self::Refused(Refusal::of_number(input.u8()?).ok_or(Malformed("no refusal"))?),
            1 => {
                let count = input.count(36)?;
                Self::Granted((0..count).map(|_| take_grant(input)).collect::<Result<_, _>>()?)
            }
            2 => Self::Renewed { expires_at: input.u64()?, renewals: input.u32()? },
            3 => {
                Self::Committed { status: CommitStatus::of_number(input.u8()?)?, is_duplicate: input.flag()? }
            }
            4 => Self::PartReceived { parts: input.u32()? },
            5 => Self::Released,
            6 => Self::Skipped,
            7 => Self::Failed { attempts: input.u32()?, next: take_next(input)? },
            8 => Self::LeaderChanged,
            9 => {
                let count = input.count(8)?;
                Self::Ticked { expired: (0..count).map(|_| input.u64()).collect::<Result<_, _>>()? }
            }
            _ => return Err(Malformed("no kind of an answer")),
        })
    }
}

fn take_grant(input: &mut Input<'_>) -> Result<Grant, Malformed> {
    Ok(Grant {
        slot: input.u64()?,
        token: input.u64()?,
        expires_at: input.u64()?,
        attempt: input.u32()?,
        source: PartitionOffset::new(input.u64()?),
    })
}

fn take_next(input: &mut Input<'_>) -> Result<Next, Malformed> {
    match (input.u8()?, input.u64()?) {
        (0, at) => Ok(Next::Retry(at)),
        (1, 0) => Ok(Next::Filled),
        (2, 0) => Ok(Next::Halted),
        _ => Err(Malformed("nothing that can come next")),
    }
}
