//! An outcome as it was read from the partition log.

use bytes::Bytes;
use gapless_log::Log;
use gapless_proof::Hash;
use gapless_types::{Name, PartitionId, PartitionOffset, Position};

use crate::codec::Malformed;
use crate::error::Fault;
use crate::outcome::{Committed, Header, Outcome, OutcomeKind, Refusal, TransactionId};
use crate::write::{Operation, Write};

/// A record of the partition log whose header is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOutcome {
    offset: PartitionOffset,
    bytes: Bytes,
}

impl StoredOutcome {
    /// Takes over a record of the partition log.
    pub(crate) fn new(offset: PartitionOffset, bytes: Bytes) -> Result<Self, Fault> {
        let (header, _) = Header::decode(&bytes).map_err(|malformed| Fault::Record { offset, malformed })?;
        if header.partition_offset != offset {
            return Err(Fault::Log("an outcome at another offset than its own"));
        }
        Ok(Self { offset, bytes })
    }

    pub(crate) fn read(log: &Log, offset: PartitionOffset) -> Result<Self, Fault> {
        Self::new(offset, log.read(Position::new(offset.get()))?.payload)
    }

    /// Its place in the partition log.
    pub fn offset(&self) -> PartitionOffset {
        self.offset
    }

    /// Its numbers.
    pub fn header(&self) -> Header<'_> {
        self.parts().0
    }

    /// The bytes as they stand in the log.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The same in memory of its own: whoever keeps it for long does not keep what was read together with it.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { offset: self.offset, bytes: Bytes::copy_from_slice(&self.bytes) }
    }

    /// Its leaf in the tree of its workspace, if it is an event: the hash of all its bytes, numbers included.
    pub fn leaf_hash(&self) -> Option<Hash> {
        (self.header().kind == OutcomeKind::Event).then(|| Hash::of_leaf(&self.bytes))
    }

    /// What was written, if it is an event.
    ///
    /// # Errors
    /// If the body is not that of a write.
    pub fn write(&self) -> Result<Option<Write<'_>>, Fault> {
        let (header, body) = self.parts();
        match header.kind {
            OutcomeKind::Event => {
                Write::decode(body).map(Some).map_err(|malformed| self.malformed(malformed))
            }
            _ => Ok(None),
        }
    }

    /// Every number that it was given, if it is an event of this partition.
    ///
    /// # Errors
    /// If it contradicts itself.
    pub fn event(&self, partition: PartitionId) -> Result<Option<Committed>, Fault> {
        let header = self.header();
        match header.kind {
            OutcomeKind::Event => self.committed(partition, &header).map(Some),
            _ => Ok(None),
        }
    }

    /// The outcome as it was given when the record was applied.
    pub(crate) fn outcome(&self, partition: PartitionId, log: &Log) -> Result<Outcome, Fault> {
        let (header, body) = self.parts();
        match header.kind {
            OutcomeKind::Event => self.committed(partition, &header).map(Outcome::Committed),
            OutcomeKind::Duplicate => {
                let malformed = Malformed { what: "offset", at: 0 };
                let offset = body.try_into().map(u64::from_le_bytes).ok().and_then(PartitionOffset::new);
                let first_offset = offset.ok_or_else(|| self.malformed(malformed))?;
                let first = StoredOutcome::read(log, first_offset)?;
                if !matches!(first.header().kind, OutcomeKind::Event | OutcomeKind::Refusal) {
                    return Err(Fault::Log("a duplicate of something that decided nothing"));
                }
                Ok(Outcome::Duplicate { first_offset, first: Box::new(first.outcome(partition, log)?) })
            }
            OutcomeKind::Refusal | OutcomeKind::KeyReuse => {
                let refusal = Refusal::decode(body).map_err(|malformed| self.malformed(malformed))?;
                Ok(Outcome::Refused(refusal))
            }
            OutcomeKind::Definition => Ok(Outcome::Defined),
            OutcomeKind::DefinitionRefusal => {
                let reasons = String::from_utf8_lossy(body);
                Ok(Outcome::DefinitionRefused(reasons.split('\n').map(str::to_owned).collect()))
            }
        }
    }

    fn committed(&self, partition: PartitionId, header: &Header<'_>) -> Result<Committed, Fault> {
        let (Some(workspace_offset), Some(client_sequence)) =
            (header.workspace_offset, header.client_sequence)
        else {
            return Err(Fault::Log("an event without its numbers"));
        };
        let write = self.write()?.ok_or(Fault::Log("an event without its write"))?;
        let names = write.operations.iter().filter_map(|operation| match operation {
            Operation::NextNumber { sequence } => Some(*sequence),
            _ => None,
        });
        let numbers = names
            .zip(&header.numbers)
            .map(|(name, (_, number))| {
                Ok((Name::new(name).map_err(|_| Fault::Log("a sequence without a name"))?, *number))
            })
            .collect::<Result<_, Fault>>()?;
        Ok(Committed {
            transaction: TransactionId::new(partition, self.offset, header.log_index, &header.digest),
            log_index: header.log_index,
            partition,
            partition_offset: self.offset,
            workspace_offset,
            client_sequence,
            record_ids: header.record_ids.clone(),
            numbers,
            committed_at: header.time,
        })
    }

    fn parts(&self) -> (Header<'_>, &[u8]) {
        Header::decode(&self.bytes).expect("it was decoded when it was read")
    }

    fn malformed(&self, malformed: Malformed) -> Fault {
        Fault::Record { offset: self.offset, malformed }
    }
}
