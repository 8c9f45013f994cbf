//! A machine for tests: it keeps every entry it was given, and knows which of them would survive its process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gapless_consensus::{Committed, CommittedBody, Machine, MachineFault, SnapshotBody, SnapshotSource};
use gapless_types::LogIndex;

/// An entry as the ledger keeps it: index, term, and what was proposed, if anything was.
pub(crate) type Kept = (u64, u64, Option<Bytes>);

/// An entry that no ledger can act on.
pub(crate) const BEYOND_IT: &[u8] = b"beyond it";

/// What survives a process: clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survives(Arc<Mutex<Vec<Kept>>>);

/// The machine.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Arc<Mutex<Vec<Kept>>>,
    survives: Survives,
    gaps_allowed: bool,
}

impl Ledger {
    /// An empty ledger that takes entries with gaps between them.
    #[allow(dead_code, reason = "for the storage suite alone")]
    pub(crate) fn with_gaps() -> Arc<Self> {
        Arc::new(Self { entries: Arc::default(), survives: Survives::default(), gaps_allowed: true })
    }

    /// A ledger that goes on with what survived.
    pub(crate) fn new(survives: &Survives) -> Arc<Self> {
        let entries = survives.0.lock().unwrap().clone();
        Arc::new(Self {
            entries: Arc::new(Mutex::new(entries)),
            survives: survives.clone(),
            gaps_allowed: false,
        })
    }

    /// Makes what was dispatched durable.
    pub(crate) fn checkpoint(&self) {
        *self.survives.0.lock().unwrap() = self.entries.lock().unwrap().clone();
    }

    /// Everything that was dispatched, or installed.
    pub(crate) fn entries(&self) -> Vec<Kept> {
        self.entries.lock().unwrap().clone()
    }

    /// What was proposed, in order.
    pub(crate) fn proposals(&self) -> Vec<Bytes> {
        self.entries().into_iter().filter_map(|(_, _, proposed)| proposed).collect()
    }

    /// The index of the last entry.
    pub(crate) fn last(&self) -> Option<u64> {
        self.entries.lock().unwrap().last().map(|kept| kept.0)
    }
}

impl Machine for Ledger {
    fn dispatch(&self, entry: Committed) -> Result<(), MachineFault> {
        let mut entries = self.entries.lock().unwrap();
        if let Some((last, _, _)) = entries.last().filter(|_| !self.gaps_allowed) {
            assert_eq!(entry.index.get(), last + 1, "NUM-1: entries are dispatched densely");
        }
        let proposed = if let CommittedBody::Entry(bytes) = entry.body { Some(bytes) } else { None };
        if proposed.as_deref() == Some(BEYOND_IT) {
            return Err(MachineFault::new("it is beyond this ledger"));
        }
        entries.push((entry.index.get(), entry.term.get(), proposed));
        Ok(())
    }

    fn resume_after(&self) -> Option<LogIndex> {
        self.survives.0.lock().unwrap().last().map(|kept| LogIndex::new(kept.0))
    }

    fn snapshot(&self, at: LogIndex) -> BoxFuture<'static, Result<Arc<dyn SnapshotSource>, MachineFault>> {
        let entries = self.entries();
        assert_eq!(entries.last().map(|kept| kept.0), Some(at.get()), "a snapshot is of what was dispatched");
        let survives = self.survives.clone();
        Box::pin(async move {
            let mut kept = survives.0.lock().unwrap();
            if kept.len() < entries.len() {
                kept.clone_from(&entries);
            }
            Ok(Arc::new(Image(entries)) as Arc<dyn SnapshotSource>)
        })
    }

    fn held(&self, at: LogIndex) -> BoxFuture<'static, Bytes> {
        let kept = self.survives.0.lock().unwrap().iter().filter(|kept| kept.0 <= at.get()).count() as u64;
        Box::pin(std::future::ready(Bytes::copy_from_slice(&kept.to_le_bytes())))
    }

    fn install(
        &self,
        at: LogIndex,
        mut body: Box<dyn SnapshotBody>,
    ) -> BoxFuture<'static, Result<(), MachineFault>> {
        let (survives, entries) = (self.survives.clone(), self.entries.clone());
        Box::pin(async move {
            let mut bytes = Vec::new();
            while let Some(piece) = body.next().await? {
                bytes.extend_from_slice(&piece);
            }
            let behind = decode(&bytes).ok_or_else(|| MachineFault::new("not a ledger"))?;
            let first = behind.first().map_or(at.get() + 1, |first| first.0);
            let mut installed = survives.0.lock().unwrap().clone();
            installed.retain(|kept| kept.0 < first);
            installed.extend(behind);
            if installed.last().map(|kept| kept.0) != Some(at.get()) {
                return Err(MachineFault::new("a ledger of another length"));
            }
            survives.0.lock().unwrap().clone_from(&installed);
            *entries.lock().unwrap() = installed;
            Ok(())
        })
    }

    fn answer(&self, question: Bytes) -> BoxFuture<'static, Result<Bytes, MachineFault>> {
        let answer = match &question[..] {
            b"how many" => Ok(Bytes::from(self.entries().len().to_string())),
            b"everything" => Ok(vec![0; gapless_consensus::limits::MAX_ANSWER_BYTES + 1].into()),
            _ => Err(MachineFault::new("nobody knows")),
        };
        Box::pin(std::future::ready(answer))
    }
}

struct Image(Vec<Kept>);

impl SnapshotSource for Image {
    fn body(&self, held: &Bytes) -> Box<dyn SnapshotBody> {
        let held = held.first_chunk().map_or(0, |held| u64::from_le_bytes(*held));
        let bytes = encode(&self.0[usize::try_from(held).unwrap().min(self.0.len())..]);
        let pieces = bytes.chunks(1000).map(|piece| bytes.slice_ref(piece)).collect();
        Box::new(Pieces(pieces))
    }
}

struct Pieces(VecDeque<Bytes>);

impl SnapshotBody for Pieces {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
        Box::pin(std::future::ready(Ok(self.0.pop_front())))
    }
}

fn encode(entries: &[Kept]) -> Bytes {
    let mut bytes = Vec::new();
    for (index, term, proposed) in entries {
        let length = proposed.as_ref().map_or(u64::MAX, |proposed| proposed.len() as u64);
        for number in [*index, *term, length] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(proposed.as_deref().unwrap_or_default());
    }
    bytes.into()
}

fn decode(mut bytes: &[u8]) -> Option<Vec<Kept>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let mut numbers = [0; 3];
        for number in &mut numbers {
            let (taken, rest) = bytes.split_at_checked(8)?;
            (*number, bytes) = (u64::from_le_bytes(taken.try_into().ok()?), rest);
        }
        let [index, term, length] = numbers;
        let proposed = if length == u64::MAX {
            None
        } else {
            let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
            bytes = rest;
            Some(Bytes::copy_from_slice(taken))
        };
        entries.push((index, term, proposed));
    }
    Some(entries)
}
