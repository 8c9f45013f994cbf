//! Reading an entry. Takes any bytes and never panics; payloads are slices of what is read.

use bytes::{Buf, Bytes, TryGetError};
use gapless_types::{GroupId, MachineVersion, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};

use super::encode::{CHECKSUM, FIRST_PARTITION, checksum};
use super::{
    CONTROL, DEFINITION, DOMAIN_COMMAND, Entry, EntryError, EntryRecord, HEADER_BYTES, MAX_ENTRY_BYTES,
    MAX_ENTRY_RECORDS, PartitionCommand, RAISE, RECORD_HEADER_BYTES, SAME_PAYLOAD, TERM, VERSION, WRITE,
};
use crate::keyed::KeyedMap;
use crate::log_time::LogTime;

impl Entry {
    /// Whether bytes are those that a proposer encoded. For a follower, before it appends them.
    ///
    /// # Errors
    /// If they are too many or too few, have another version, or do not match their checksum.
    pub fn check(bytes: &[u8]) -> Result<(), EntryError> {
        if bytes.len() > MAX_ENTRY_BYTES {
            return Err(EntryError::TooLong { bytes: bytes.len() });
        }
        match bytes.first() {
            None => return Err(EntryError::Malformed { what: "version", at: 0 }),
            Some(&found) if found != VERSION => return Err(EntryError::Version { found }),
            Some(_) => {}
        }
        let Some(found) = bytes.get(CHECKSUM).and_then(|field| field.try_into().ok()) else {
            return Err(EntryError::Malformed { what: "checksum", at: CHECKSUM.start });
        };
        let (found, computed) = (u32::from_le_bytes(found), checksum(bytes));
        if found == computed { Ok(()) } else { Err(EntryError::Checksum { found, computed }) }
    }

    /// Takes an entry apart.
    ///
    /// # Errors
    /// If the bytes are no entry.
    pub fn decode(bytes: &Bytes) -> Result<Self, EntryError> {
        Head::decode(bytes)?.with_records()
    }
}

/// What an entry begins with, and the rest of it. Every version of the machine begins its entries like this.
pub(super) struct Head {
    pub(super) group: GroupId,
    pub(super) machine_version: MachineVersion,
    take: Take,
}

impl Head {
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, EntryError> {
        Entry::check(bytes)?;
        let mut take = Take { length: bytes.len(), rest: bytes.clone() };
        take.rest.advance(1);
        take.zeros(3)?;
        take.rest.advance(CHECKSUM.len());
        let group = GroupId::new(take.u32("group")?);
        let machine_version = MachineVersion(take.u32("machine version")?);
        Ok(Self { group, machine_version, take })
    }

    pub(super) fn with_records(self) -> Result<Entry, EntryError> {
        let Self { group, machine_version, mut take } = self;
        let malformed_time = take.malformed("log time");
        let time = LogTime::from_millis(take.u64("log time")?).ok_or(malformed_time)?;
        let malformed_count = take.malformed("count of records");
        let count = take.u32("count of records")? as usize;
        let fits = (take.length - HEADER_BYTES) / RECORD_HEADER_BYTES;
        if count == 0 || count > MAX_ENTRY_RECORDS || count > fits {
            return Err(malformed_count);
        }
        let records = take.records(count)?;
        if take.rest.has_remaining() {
            return Err(take.malformed("end of the entry"));
        }
        Ok(Entry { group, machine_version, time, records })
    }
}

/// Reads from the front of bytes.
struct Take {
    length: usize,
    rest: Bytes,
}

/// What stands in front of a payload.
struct RecordHeader {
    kind: u8,
    partition: PartitionId,
    expected: Option<PartitionOffset>,
}

impl Take {
    fn malformed(&self, what: &'static str) -> EntryError {
        EntryError::Malformed { what, at: self.length - self.rest.remaining() }
    }

    fn get<T>(
        &mut self,
        what: &'static str,
        get: fn(&mut Bytes) -> Result<T, TryGetError>,
    ) -> Result<T, EntryError> {
        get(&mut self.rest).map_err(|_| self.malformed(what))
    }

    fn u16(&mut self, what: &'static str) -> Result<u16, EntryError> {
        self.get(what, Bytes::try_get_u16_le)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, EntryError> {
        self.get(what, Bytes::try_get_u32_le)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, EntryError> {
        self.get(what, Bytes::try_get_u64_le)
    }

    fn zeros(&mut self, count: usize) -> Result<(), EntryError> {
        for _ in 0..count {
            let malformed = self.malformed("zero");
            if self.get("zero", Bytes::try_get_u8)? != 0 {
                return Err(malformed);
            }
        }
        Ok(())
    }

    fn records(&mut self, count: usize) -> Result<Vec<EntryRecord>, EntryError> {
        let mut records = Vec::with_capacity(count);
        let mut last: KeyedMap<PartitionId, PartitionOffset> = KeyedMap::default();
        for _ in 0..count {
            let malformed = self.malformed("record");
            let record = self.record(records.last())?;
            match &record {
                EntryRecord::Write(command) | EntryRecord::Definition(command) => {
                    let before = last.insert(command.partition, command.expected);
                    if before.is_some_and(|before| before.next() != Some(command.expected)) {
                        return Err(malformed);
                    }
                }
                alone if alone.stands_alone() && count > 1 => return Err(malformed),
                EntryRecord::Term
                | EntryRecord::Raise
                | EntryRecord::DomainCommand { .. }
                | EntryRecord::Control(_) => {}
            }
            records.push(record);
        }
        Ok(records)
    }

    fn record(&mut self, before: Option<&EntryRecord>) -> Result<EntryRecord, EntryError> {
        let malformed = self.malformed("record");
        let header = self.record_header()?;
        let payload = self.payload(&header, before)?;
        let RecordHeader { kind, partition, expected } = header;
        match (kind, expected) {
            (WRITE, Some(expected)) => {
                Ok(EntryRecord::Write(PartitionCommand { partition, expected, command: payload }))
            }
            (DEFINITION, Some(expected)) => {
                Ok(EntryRecord::Definition(PartitionCommand { partition, expected, command: payload }))
            }
            (TERM, None) if partition == FIRST_PARTITION && payload.is_empty() => Ok(EntryRecord::Term),
            (RAISE, None) if partition == FIRST_PARTITION && payload.is_empty() => Ok(EntryRecord::Raise),
            (CONTROL, None) if partition == FIRST_PARTITION => Ok(EntryRecord::Control(payload)),
            (DOMAIN_COMMAND, None) => Ok(EntryRecord::DomainCommand { partition, command: payload }),
            _ => Err(malformed),
        }
    }

    fn record_header(&mut self) -> Result<RecordHeader, EntryError> {
        let kind = self.get("kind", Bytes::try_get_u8)?;
        self.zeros(1)?;
        let index = PartitionIndex::new(self.u16("partition")?);
        let namespace = NamespaceId::new(self.u32("namespace")?);
        let expected = PartitionOffset::new(self.u64("expected offset")?);
        Ok(RecordHeader { kind, partition: PartitionId { namespace, index }, expected })
    }

    /// A payload. A definition that is that of the record before is not repeated, and must not be: one entry has one encoding.
    fn payload(&mut self, header: &RecordHeader, before: Option<&EntryRecord>) -> Result<Bytes, EntryError> {
        let malformed = self.malformed("payload");
        let before = match before {
            Some(EntryRecord::Definition(before)) if header.kind == DEFINITION => Some(&before.command),
            _ => None,
        };
        let length = self.u32("length of a payload")?;
        if length == SAME_PAYLOAD {
            return before.cloned().ok_or(malformed);
        }
        let length = length as usize;
        if length > self.rest.remaining() {
            return Err(malformed);
        }
        let payload = self.rest.split_to(length);
        if before == Some(&payload) { Err(malformed) } else { Ok(payload) }
    }
}
