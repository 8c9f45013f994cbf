//! What a domain is told to do, and its bytes: records of the replicated log.
//!
//! ```text
//! u8 version 1 | u8 kind | fields
//!   1 lease          u16 worker, i64 ttl in ms, u32 at most
//!   2 allocate       u16 worker, i64 ttl in ms, u64 workspace
//!   3 renew          u64 slot, u64 token, i64 ttl in ms
//!   4 commit         u64 slot, u64 token, u32 part from 1, u8 whether it is the last, u32 bytes
//!   5 release        u64 slot, u64 token
//!   6 fail           u64 slot, u64 token, u16 error
//!   7 skip           u64 slot
//!   8 tick
//!   9 leader change
//! ```
//!
//! The time of a command is that of its entry. Events are not commands: they open slots themselves.
//!
//! Invariants
//! - Decoding takes any bytes, and what it accepts is within the limits.

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use gapless_types::WorkspaceId;

use crate::codec::{Put, Take};
use crate::limits::{MAX_ERROR_BYTES, MAX_PART_BYTES, MAX_WORKER_BYTES};

const VERSION: u8 = 1;

/// What a domain is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Grants the lowest slots that are ready.
    Lease {
        /// Who asks.
        worker: &'a str,
        /// For how long, in milliseconds.
        ttl_ms: i64,
        /// How many at most.
        max: u32,
    },
    /// Makes a slot behind all others and grants it.
    Allocate {
        /// Who asks.
        worker: &'a str,
        /// For how long, in milliseconds.
        ttl_ms: i64,
        /// Whose rows it will change.
        workspace: WorkspaceId,
    },
    /// Makes a lease last longer.
    Renew {
        /// Which.
        held: Held,
        /// For how long from now on, in milliseconds.
        ttl_ms: i64,
    },
    /// Ends a lease with a payload, or brings a part of it.
    Commit {
        /// Which.
        held: Held,
        /// Which part, from 1 on.
        part: u32,
        /// Whether it is the last one, which ends the lease.
        is_last: bool,
        /// Bytes of a [`Payload`](crate::Payload), as many as fit one part.
        bytes: &'a [u8],
    },
    /// Gives a lease back.
    Release {
        /// Which.
        held: Held,
    },
    /// Ends a lease with an error.
    Fail {
        /// Which.
        held: Held,
        /// What went wrong, for people.
        error: &'a str,
    },
    /// Fills a slot because an operator says so.
    Skip {
        /// Which.
        slot: u64,
    },
    /// Lets time pass.
    Tick,
    /// Another node leads: from here on times are of its clock.
    LeaderChange,
}

/// A slot and the right to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The slot.
    pub slot: u64,
    /// The token it was granted with.
    pub token: u64,
}

impl<'a> Command<'a> {
    /// A commit in one part.
    pub fn commit(held: Held, bytes: &'a [u8]) -> Self {
        Self::Commit { held, part: 1, is_last: true, bytes }
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        match self {
            Self::Lease { worker, ttl_ms, max } => {
                put_request(&mut bytes, 1, worker, *ttl_ms);
                bytes.put_u32_le(*max);
            }
            Self::Allocate { worker, ttl_ms, workspace } => {
                put_request(&mut bytes, 2, worker, *ttl_ms);
                bytes.put_u64_le(workspace.get());
            }
            Self::Renew { held, ttl_ms } => {
                put_held(&mut bytes, 3, *held);
                bytes.extend_from_slice(&ttl_ms.to_le_bytes());
            }
            Self::Commit { held, part, is_last, bytes: payload } => {
                put_held(&mut bytes, 4, *held);
                bytes.put_u32_le(*part);
                bytes.put_u8(u8::from(*is_last));
                bytes.put_long(payload);
            }
            Self::Release { held } => put_held(&mut bytes, 5, *held),
            Self::Fail { held, error } => {
                put_held(&mut bytes, 6, *held);
                bytes.put_short(error.as_bytes());
            }
            Self::Skip { slot } => {
                bytes.put_u8(7);
                bytes.put_u64_le(*slot);
            }
            Self::Tick => bytes.put_u8(8),
            Self::LeaderChange => bytes.put_u8(9),
        }
        bytes
    }

    /// Takes any bytes.
    ///
    /// # Errors
    /// If they are no command, or one that is beyond a limit.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        if input.u8()? != VERSION {
            return Err(Malformed("a command of an unknown version"));
        }
        let command = match input.u8()? {
            1 => Self::Lease {
                worker: input.text(MAX_WORKER_BYTES)?,
                ttl_ms: take_ttl(&mut input)?,
                max: input.u32()?,
            },
            2 => Self::Allocate {
                worker: input.text(MAX_WORKER_BYTES)?,
                ttl_ms: take_ttl(&mut input)?,
                workspace: WorkspaceId::new(input.u64()?),
            },
            3 => Self::Renew { held: take_held(&mut input)?, ttl_ms: take_ttl(&mut input)? },
            4 => Self::Commit {
                held: take_held(&mut input)?,
                part: input.u32()?,
                is_last: input.flag()?,
                bytes: take_part(&mut input)?,
            },
            5 => Self::Release { held: take_held(&mut input)? },
            6 => Self::Fail { held: take_held(&mut input)?, error: input.text(MAX_ERROR_BYTES)? },
            7 => Self::Skip { slot: input.u64()? },
            8 => Self::Tick,
            9 => Self::LeaderChange,
            _ => return Err(Malformed("no kind of a command")),
        };
        input.end()?;
        Ok(command)
    }
}

fn put_request(bytes: &mut Vec<u8>, kind: u8, worker: &str, ttl_ms: i64) {
    bytes.put_u8(kind);
    bytes.put_short(worker.as_bytes());
    bytes.extend_from_slice(&ttl_ms.to_le_bytes());
}

fn put_held(bytes: &mut Vec<u8>, kind: u8, held: Held) {
    bytes.put_u8(kind);
    bytes.put_u64_le(held.slot);
    bytes.put_u64_le(held.token);
}

fn take_held(input: &mut Input<'_>) -> Result<Held, Malformed> {
    Ok(Held { slot: input.u64()?, token: input.u64()? })
}

fn take_ttl(input: &mut Input<'_>) -> Result<i64, Malformed> {
    input.array().map(i64::from_le_bytes)
}

fn take_part<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    let bytes = input.long()?;
    if bytes.len() > MAX_PART_BYTES { Err(Malformed("a part longer than its limit")) } else { Ok(bytes) }
}
