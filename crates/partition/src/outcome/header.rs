//! The header of a record of the partition log: every number of an outcome, in front of its body.
//!
//! ```text
//!   0  1  version, 1                        56  8  client sequence; 0 if none
//!   1  1  kind of outcome                   64  8  highest record id taken or imported; 0 if none
//!   2  2  workspace kind; 0 if none         72 16  idempotency key; zeros if none
//!   4  4  CRC32C                            88 16  request digest
//!   8  4  length of the header             104  2  record ids    106  2  numbers
//!  12  4  length of the body               108  2  length of the client id   110  2  zero
//!  16  8  partition offset                 112     client id
//!  24  8  log index                                record ids: raw id (2), record id (8) each
//!  32  8  log time, milliseconds                   numbers: sequence (2), number (8) each
//!  40  8  workspace                                body
//!  48  8  workspace offset; 0 if none
//! ```
//! The CRC covers the header without itself, so that a damaged body never loses a number. Headers alone are enough to rebuild
//! every counter and the idempotency window. The body of an event is the canonical encoding of its write, that of a
//! definition the definition, that of a refusal its reason.

use gapless_types::{
    ClientSequence, IdempotencyKey, LogIndex, PartitionOffset, RecordId, SequenceId, WorkspaceId,
    WorkspaceKind, WorkspaceOffset,
};

use super::RequestDigest;
use crate::codec::{Malformed, Put, Take};

const VERSION: u8 = 1;
const FIXED_BYTES: usize = 112;
const CHECKSUM_AT: usize = 4;

/// What kind of outcome a record of the partition log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    /// A write that became an event.
    Event,
    /// A write that was refused.
    Refusal,
    /// A write that had been decided before; the body is the partition offset (8) of that.
    Duplicate,
    /// A write whose key had been used for another one.
    KeyReuse,
    /// A definition of the namespace.
    Definition,
    /// A definition that was refused.
    DefinitionRefusal,
}

/// All numbers of an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// What kind of outcome.
    pub kind: OutcomeKind,
    /// Its place in the partition log.
    pub partition_offset: PartitionOffset,
    /// Where its command stands in the replicated log.
    pub log_index: LogIndex,
    /// Log time in milliseconds.
    pub time: u64,
    /// The workspace; [`WorkspaceId::NAMESPACE`] for definitions.
    pub workspace: WorkspaceId,
    /// The workspace's kind, where the outcome concerns one that has one.
    pub workspace_kind: Option<WorkspaceKind>,
    /// Its place in the workspace, if it is an event.
    pub workspace_offset: Option<WorkspaceOffset>,
    /// Its place among those of its client, if it is an event.
    pub client_sequence: Option<ClientSequence>,
    /// The highest record id it took or imported, if any.
    pub highest_record: Option<RecordId>,
    /// The write's key; none for definitions.
    pub key: Option<IdempotencyKey>,
    /// Fingerprint of what was asked for.
    pub digest: RequestDigest,
    /// Who wrote; empty for definitions.
    pub client: &'a str,
    /// Ids given to raw ids, in the order of the operations.
    pub record_ids: Vec<(u16, RecordId)>,
    /// Numbers taken, in the order of the operations.
    pub numbers: Vec<(SequenceId, u64)>,
}

impl<'a> Header<'a> {
    /// Appends header and body: a whole record of the partition log.
    pub fn encode(&self, body: &[u8], into: &mut Vec<u8>) {
        let start = into.len();
        let length = FIXED_BYTES + self.client.len() + 10 * (self.record_ids.len() + self.numbers.len());
        into.put_u8(VERSION);
        into.put_u8(code(self.kind));
        into.put_u16(self.workspace_kind.map_or(0, WorkspaceKind::get));
        into.put_u32(0);
        into.put_u32(u32::try_from(length).expect("a write has at most a thousand operations"));
        into.put_u32(u32::try_from(body.len()).expect("a write is smaller than 4 MiB"));
        into.put_u64(self.partition_offset.get());
        into.put_u64(self.log_index.get());
        into.put_u64(self.time);
        into.put_u64(self.workspace.get());
        into.put_u64(self.workspace_offset.map_or(0, WorkspaceOffset::get));
        into.put_u64(self.client_sequence.map_or(0, ClientSequence::get));
        into.put_u64(self.highest_record.map_or(0, RecordId::get));
        into.extend_from_slice(&self.key.map_or([0; 16], |key| *key.as_bytes()));
        into.extend_from_slice(self.digest.as_bytes());
        into.put_u16(count(self.record_ids.len()));
        into.put_u16(count(self.numbers.len()));
        into.put_u16(count(self.client.len()));
        into.put_u16(0);
        into.extend_from_slice(self.client.as_bytes());
        for (raw, id) in &self.record_ids {
            into.put_u16(*raw);
            into.put_u64(id.get());
        }
        for (sequence, number) in &self.numbers {
            into.put_u16(sequence.get());
            into.put_u64(*number);
        }
        let checksum = checksum(&into[start..]);
        into[start + CHECKSUM_AT..start + CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        into.extend_from_slice(body);
    }

    /// Takes a record of the partition log apart: its header and its body.
    ///
    /// # Errors
    /// If the header is damaged, of another version, or the body is not as long as it says.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (header, body, length) = Self::decode_alone(bytes)?;
        if body.len() == length {
            Ok((header, body))
        } else {
            Err(Malformed { what: "body", at: bytes.len() })
        }
    }

    /// Takes the header apart whatever became of the body; also what there is of it, and how long it should be.
    ///
    /// # Errors
    /// If the header is damaged or of another version.
    pub fn decode_alone(bytes: &'a [u8]) -> Result<(Self, &'a [u8], usize), Malformed> {
        let mut take = Take::new(bytes);
        let malformed = take.malformed("header");
        if take.u8("header")? != VERSION {
            return Err(Malformed { what: "version", at: 0 });
        }
        let kind = kind(take.u8("header")?).ok_or(malformed)?;
        let workspace_kind = Some(take.u16("header")?).filter(|&id| id != 0).map(WorkspaceKind::new);
        let expected = take.u32("header")?;
        let length = usize::try_from(take.u32("header")?).map_err(|_| malformed)?;
        let body_length = usize::try_from(take.u32("header")?).map_err(|_| malformed)?;
        if length < FIXED_BYTES || checksum(bytes.get(..length).ok_or(malformed)?) != expected {
            return Err(malformed);
        }
        let partition_offset = PartitionOffset::new(take.u64("header")?).ok_or(malformed)?;
        let log_index = LogIndex::new(take.u64("header")?);
        let time = take.u64("header")?;
        let workspace = WorkspaceId::new(take.u64("header")?);
        let workspace_offset = WorkspaceOffset::new(take.u64("header")?);
        let client_sequence = ClientSequence::new(take.u64("header")?);
        let highest_record = RecordId::new(take.u64("header")?);
        let key = IdempotencyKey::new(take.array("header")?).ok();
        let digest = RequestDigest::from_bytes(take.array("header")?);
        let [ids, numbers, client] = [take.u16("header")?, take.u16("header")?, take.u16("header")?];
        if take.u16("header")? != 0 {
            return Err(malformed);
        }
        let client =
            std::str::from_utf8(take.bytes(usize::from(client), "header")?).map_err(|_| malformed)?;
        let record_ids = (0..ids)
            .map(|_| Ok((take.u16("header")?, RecordId::new(take.u64("header")?).ok_or(malformed)?)))
            .collect::<Result<_, Malformed>>()?;
        let numbers = (0..numbers)
            .map(|_| Ok((SequenceId::new(take.u16("header")?), take.u64("header")?)))
            .collect::<Result<_, Malformed>>()?;
        if take.at() != length {
            return Err(malformed);
        }
        let header = Self {
            kind,
            partition_offset,
            log_index,
            time,
            workspace,
            workspace_kind,
            workspace_offset,
            client_sequence,
            highest_record,
            key,
            digest,
            client,
            record_ids,
            numbers,
        };
        Ok((header, take.rest(), body_length))
    }
}

fn code(kind: OutcomeKind) -> u8 {
    match kind {
        OutcomeKind::Event => 1,
        OutcomeKind::Refusal => 2,
        OutcomeKind::Duplicate => 3,
        OutcomeKind::Definition => 4,
        OutcomeKind::DefinitionRefusal => 5,
        OutcomeKind::KeyReuse => 6,
    }
}

fn kind(code: u8) -> Option<OutcomeKind> {
    Some(match code {
        1 => OutcomeKind::Event,
        2 => OutcomeKind::Refusal,
        3 => OutcomeKind::Duplicate,
        4 => OutcomeKind::Definition,
        5 => OutcomeKind::DefinitionRefusal,
        6 => OutcomeKind::KeyReuse,
        _ => return None,
    })
}

fn checksum(header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..CHECKSUM_AT]), &header[CHECKSUM_AT + 4..])
}

fn count(length: usize) -> u16 {
    u16::try_from(length).expect("operations and client ids are limited")
}
