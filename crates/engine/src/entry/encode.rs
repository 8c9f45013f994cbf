//! Writing an entry: records are appended to the bytes that are proposed, and nothing is copied after that.

use bytes::{BufMut, Bytes};
use gapless_types::{GroupId, MachineVersion, NamespaceId, PartitionId, PartitionIndex, PartitionOffset};

use super::{
    CONTROL, DEFINITION, DOMAIN_COMMAND, Entry, EntryRecord, HEADER_BYTES, MAX_ENTRY_BYTES,
    MAX_ENTRY_RECORDS, PartitionCommand, PushError, RAISE, RECORD_HEADER_BYTES, SAME_PAYLOAD, TERM, VERSION,
    WRITE,
};
use crate::keyed::KeyedMap;
use crate::log_time::LogTime;

/// Where the checksum stands.
pub(super) const CHECKSUM: std::ops::Range<usize> = 4..8;

/// Puts an entry together.
#[derive(Debug)]
pub struct EntryEncoder {
    bytes: Vec<u8>,
    records: u32,
    /// Its record stands alone.
    is_alone: bool,
    /// The last offset of every partition in this entry.
    last: KeyedMap<PartitionId, PartitionOffset>,
    /// Where the payload of the record before lies, if that was a definition: what comes next may be the same.
    definition: Option<std::ops::Range<usize>>,
}

impl EntryEncoder {
    /// An entry without records yet.
    #[must_use]
    pub fn new(group: GroupId, machine_version: MachineVersion, time: LogTime) -> Self {
        let mut bytes = Vec::with_capacity(4096);
        bytes.put_u8(VERSION);
        bytes.put_bytes(0, 3);
        bytes.put_u32_le(0); // the checksum, once everything else is there
        bytes.put_u32_le(group.get());
        bytes.put_u32_le(machine_version.0);
        bytes.put_u64_le(time.as_millis());
        bytes.put_u32_le(0); // the count of records
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        Self { bytes, records: 0, is_alone: false, last: KeyedMap::default(), definition: None }
    }

    /// How many records it has.
    #[must_use]
    pub fn records(&self) -> usize {
        self.records as usize
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If the record does not fit, or does not belong here. The entry is as it was.
    pub fn push(&mut self, record: &EntryRecord) -> Result<(), PushError> {
        if self.is_alone || (record.stands_alone() && self.records > 0) {
            return Err(PushError::NotAlone);
        }
        match record {
            EntryRecord::Write(command) => self.push_command(WRITE, command),
            EntryRecord::Definition(command) => self.push_command(DEFINITION, command),
            EntryRecord::Term => self.append_alone(TERM),
            EntryRecord::Raise => self.append_alone(RAISE),
            EntryRecord::DomainCommand { partition, command } => {
                self.append(DOMAIN_COMMAND, *partition, None, command)
            }
            EntryRecord::Control(command) => self.append(CONTROL, FIRST_PARTITION, None, command),
        }
    }

    /// The bytes of the entry.
    ///
    /// # Panics
    /// If it has no record: nothing would be proposed.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        assert!(self.records > 0, "an entry has at least one record");
        self.bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&self.records.to_le_bytes());
        let checksum = checksum(&self.bytes);
        self.bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        Bytes::from(self.bytes)
    }

    fn push_command(&mut self, kind: u8, command: &PartitionCommand) -> Result<(), PushError> {
        let PartitionCommand { partition, expected, command } = command;
        if let Some(last) = self.last.get(partition)
            && last.next() != Some(*expected)
        {
            return Err(PushError::NotNext { partition: *partition, last: *last, given: *expected });
        }
        self.append(kind, *partition, Some(*expected), command)?;
        self.last.insert(*partition, *expected);
        Ok(())
    }

    fn append_alone(&mut self, kind: u8) -> Result<(), PushError> {
        self.append(kind, FIRST_PARTITION, None, &[])?;
        self.is_alone = true;
        Ok(())
    }

    fn append(
        &mut self,
        kind: u8,
        partition: PartitionId,
        expected: Option<PartitionOffset>,
        payload: &[u8],
    ) -> Result<(), PushError> {
        let same = kind == DEFINITION
            && self.definition.as_ref().is_some_and(|at| self.bytes[at.clone()] == *payload);
        let payload_bytes = if same { 0 } else { payload.len() };
        if HEADER_BYTES + RECORD_HEADER_BYTES + payload_bytes > MAX_ENTRY_BYTES {
            return Err(PushError::TooLong { bytes: payload_bytes });
        }
        if self.records() == MAX_ENTRY_RECORDS
            || self.bytes.len() + RECORD_HEADER_BYTES + payload_bytes > MAX_ENTRY_BYTES
        {
            return Err(PushError::Full { records: self.records(), bytes: self.bytes.len() });
        }
        let length = u32::try_from(payload.len()).expect("an entry is shorter than 4 GiB");
        self.bytes.put_u8(kind);
        self.bytes.put_u8(0);
        self.bytes.put_u16_le(partition.index.get());
        self.bytes.put_u32_le(partition.namespace.get());
        self.bytes.put_u64_le(expected.map_or(0, PartitionOffset::get));
        self.bytes.put_u32_le(if same { SAME_PAYLOAD } else { length });
        if !same {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(payload);
            self.definition = (kind == DEFINITION).then_some(from..self.bytes.len());
        }
        self.records += 1;
        Ok(())
    }
}

impl Entry {
    /// The bytes of an entry. The proposer does without this: it appends records to an [`EntryEncoder`] as they come.
    ///
    /// # Errors
    /// If it is too large, or its records do not belong into one entry.
    pub fn encode(&self) -> Result<Bytes, PushError> {
        let mut encoder = EntryEncoder::new(self.group, self.machine_version, self.time);
        self.records.iter().try_for_each(|record| encoder.push(record))?;
        Ok(encoder.finish())
    }
}

/// Stands where a record has no partition.
pub(super) const FIRST_PARTITION: PartitionId =
    PartitionId { namespace: NamespaceId::new(0), index: PartitionIndex::new(0) };

/// CRC32C of an entry without its checksum.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let head = crc32c::crc32c(&bytes[..CHECKSUM.start]);
    crc32c::crc32c_append(head, &bytes[CHECKSUM.end..])
}
