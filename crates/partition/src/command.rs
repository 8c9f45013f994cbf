//! What is dispatched to a partition: a record of the replicated log, taken apart.
//!
//! ```text
//!  0  1  version, 1        2 16  idempotency key, for a write
//!  1  1  1 write,                canonical bytes of the write or the definition
//!        2 definition
//! ```

use gapless_types::{IdempotencyKey, LogIndex, MachineVersion, PartitionOffset};

use crate::codec::{Malformed, Put, Take};
use crate::definition::Definition;
use crate::write::Write;

const VERSION: u8 = 1;
const WRITE: u8 = 1;
const DEFINITION: u8 = 2;

/// A record of the replicated log that is meant for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The place that its outcome gets in the partition log.
    pub offset: PartitionOffset,
    /// Where it stands in the replicated log.
    pub log_index: LogIndex,
    /// Log time in milliseconds: the leader's clock, which never goes back.
    pub time: u64,
    /// What applies it: that of its entry, wherever it is read. A newer version branches on it; there is one so far.
    pub machine_version: MachineVersion,
    /// An encoded [`Command`].
    pub command: &'a [u8],
}

/// What a record asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// A write under an idempotency key, as its canonical bytes.
    Write(IdempotencyKey, &'a [u8]),
    /// A definition of the namespace, as its bytes.
    Define(&'a [u8]),
}

impl<'a> Command<'a> {
    /// Appends the command of a write.
    pub fn encode_write(key: IdempotencyKey, write: &Write<'_>, into: &mut Vec<u8>) {
        into.put_u8(VERSION);
        into.put_u8(WRITE);
        into.extend_from_slice(key.as_bytes());
        write.encode(into);
    }

    /// Appends the command of a definition.
    pub fn encode_definition(definition: &Definition, into: &mut Vec<u8>) {
        into.put_u8(VERSION);
        into.put_u8(DEFINITION);
        definition.encode(into);
    }

    /// Takes a command apart; what is in it is not looked at.
    ///
    /// # Errors
    /// If it is no command.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        if take.u8("version")? != VERSION {
            return Err(Malformed { what: "version", at: 0 });
        }
        match take.u8("command")? {
            WRITE => {
                let malformed = take.malformed("idempotency key");
                let key = IdempotencyKey::new(take.array("idempotency key")?).map_err(|_| malformed)?;
                Ok(Command::Write(key, take.rest()))
            }
            DEFINITION => Ok(Command::Define(take.rest())),
            _ => Err(Malformed { what: "command", at: 1 }),
        }
    }

    /// The bytes that its digest covers.
    pub(crate) fn canonical(&self) -> &'a [u8] {
        match self {
            Command::Write(_, bytes) | Command::Define(bytes) => bytes,
        }
    }
}
