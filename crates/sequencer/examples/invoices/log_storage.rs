//! A storage over real files: events in a log, numbers in a file beside it that is replaced as a whole.
//!
//! Replacing a file is the simplest atomic write there is. It suits some thousands of workspaces; for millions, put a
//! key-value store in its place.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gapless_log::Log;
use gapless_sequencer::{SequenceValue, Storage};
use gapless_types::{PartitionOffset, Position, SequenceId, WorkspaceId};

/// Bytes of the log that a scan asks for at once.
const READ_BYTES: u64 = 64 << 10;

/// Bytes of one number in an event.
const VALUE_BYTES: usize = 18;

type Numbers = HashMap<(WorkspaceId, SequenceId), u64>;

#[derive(Debug)]
pub(crate) struct LogStorage {
    log: Log,
    file: PathBuf,
    /// What the file holds: it is read once, when the storage is opened.
    stored: Mutex<(Option<PartitionOffset>, Numbers)>,
}

impl LogStorage {
    pub(crate) fn open(log: Log, file: &Path) -> io::Result<Self> {
        let stored = match fs::read_to_string(file) {
            Ok(text) => decoded(&text).ok_or_else(|| io::Error::other("the file of numbers is damaged"))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, Numbers::new()),
            Err(error) => return Err(error),
        };
        Ok(Self { log, file: file.to_path_buf(), stored: Mutex::new(stored) })
    }
}

impl Storage for LogStorage {
    type Error = io::Error;

    fn read_numbers(
        &self,
        workspace: WorkspaceId,
        sequences: &[SequenceId],
        numbers: &mut [u64],
    ) -> io::Result<()> {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        for (sequence, number) in sequences.iter().zip(numbers) {
            *number = stored.1.get(&(workspace, *sequence)).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn read_next_offset(&self) -> io::Result<Option<PartitionOffset>> {
        Ok(self.stored.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    fn write(&self, values: &[SequenceValue], next_offset: PartitionOffset) -> io::Result<()> {
        let mut numbers = self.stored.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
        numbers.extend(values.iter().map(|value| ((value.workspace, value.sequence), value.number)));
        // Without the lock, so that reading numbers does not wait for a disk.
        replace(&self.file, &encoded(next_offset, &numbers))?;
        *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = (Some(next_offset), numbers);
        Ok(())
    }

    fn scan(
        &self,
        from: PartitionOffset,
        batch: &mut dyn FnMut(PartitionOffset, &[SequenceValue]) -> ControlFlow<()>,
    ) -> io::Result<PartitionOffset> {
        // Positions of the log are the offsets: both count from 1.
        let (mut next, end) = (Position::new(from.get()), self.log.next());
        while next < end {
            let records = self.log.read_range(next, end, READ_BYTES).map_err(io::Error::other)?;
            for record in records {
                let offset = PartitionOffset::try_from(record.position.get()).map_err(io::Error::other)?;
                if batch(offset, &event_values(&record.payload)).is_break() {
                    return Ok(offset);
                }
                next = record.position.next().unwrap_or(end);
            }
        }
        PartitionOffset::try_from(end.get()).map_err(io::Error::other)
    }
}

/// The numbers of an event, as the log keeps them.
pub(crate) fn event_bytes(values: &[SequenceValue]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * VALUE_BYTES);
    for value in values {
        bytes.extend(value.workspace.get().to_be_bytes());
        bytes.extend(value.sequence.get().to_be_bytes());
        bytes.extend(value.number.to_be_bytes());
    }
    bytes
}

fn event_values(bytes: &[u8]) -> Vec<SequenceValue> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let value = |bytes: &[u8]| SequenceValue {
        workspace: WorkspaceId::new(number(&bytes[..8])),
        sequence: SequenceId::new(u16::from_be_bytes([bytes[8], bytes[9]])),
        number: number(&bytes[10..]),
    };
    bytes.chunks_exact(VALUE_BYTES).map(value).collect()
}

/// One line for the offset, one for each number.
fn encoded(next_offset: PartitionOffset, numbers: &Numbers) -> String {
    let lines =
        numbers.iter().map(|((workspace, sequence), number)| format!("{workspace} {sequence} {number}\n"));
    std::iter::once(format!("{next_offset}\n")).chain(lines).collect()
}

fn decoded(text: &str) -> Option<(Option<PartitionOffset>, Numbers)> {
    let mut lines = text.lines();
    let offset = PartitionOffset::new(lines.next()?.parse().ok()?);
    let mut numbers = Numbers::new();
    for line in lines {
        let mut fields = line.split(' ');
        let workspace = WorkspaceId::new(fields.next()?.parse().ok()?);
        let sequence = SequenceId::new(fields.next()?.parse().ok()?);
        numbers.insert((workspace, sequence), fields.next()?.parse().ok()?);
    }
    Some((offset, numbers))
}

/// After this the file holds the new text, or, if the power goes on the way, the old one.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut handle = File::create(&new)?;
    handle.write_all(text.as_bytes())?;
    handle.sync_all()?;
    fs::rename(&new, file)?;
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
