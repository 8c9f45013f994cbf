//! How a domain comes back: opened from its last checkpoint, it is given the inputs behind it again.
//!
//! Rows and effects go to the store with each command; where the domain stands and what became of open slots is written when
//! somebody needs it there, before a checkpoint or an image. The store has no journal, so a crash takes all of it back to the last
//! checkpoint together.
//!
//! Invariants
//! - A checkpoint holds rows, effects, slots and the place in the log, all of the same moment.
//! - LOG-2: no checkpoint is ahead of what the owner has synced.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use gapless_log::io::Io;
use gapless_store::{Budget, Maintained, Offset, Options, Snapshot, Store, Synced};
use gapless_types::LogIndex;

use super::Domain;
use super::header::Header;
use super::window::Window;
use crate::error::{CheckpointFailed, Fault, InstallError, OpenError};
use crate::mistakes::{Mistake, Mistakes};
use crate::rows::{HEADER, Rows, slot_key};
use crate::rule::Rules;
use crate::settings::Settings;

/// Bytes of merging that one step of maintenance does.
const MAINTAIN_BYTES: u64 = 8 << 20;

/// What a domain is opened with: always the same for a version of its projection.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// How it behaves.
    pub settings: Settings,
    /// What events do.
    pub rules: Rules,
}

/// All of a domain's state at one moment, to be copied to another node.
#[derive(Clone, Debug)]
pub struct Image {
    /// Every row of the store, as [`everything`](gapless_store::View::everything) gives them.
    pub rows: Snapshot,
    /// The first entry whose inputs are not all in it.
    pub next: LogIndex,
}

/// A domain's directory that is being made of the rows of an image. Of one that was broken off nothing is used: it is made anew, in
/// another directory.
#[derive(Debug)]
pub struct Installing {
    target: Rows,
    header: Option<Header>,
}

impl Installing {
    /// Begins, in a directory where nothing is.
    ///
    /// # Errors
    /// If the store cannot be made.
    pub fn begin(
        io: Arc<dyn Io>,
        directory: impl Into<PathBuf>,
        options: Options,
        budget: &Budget,
    ) -> Result<Self, InstallError> {
        let (store, _) = Store::open(io, directory, options, budget)?;
        Ok(Self { target: Rows::new(store), header: None })
    }

    /// The next row, in the order the image gave them.
    ///
    /// # Errors
    /// If it is none of a domain, or the store cannot be written.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), InstallError> {
        if *key == *HEADER {
            self.header = Some(Header::decode(value).map_err(Fault::from)?);
        }
        self.target.put(key, value)?;
        if self.target.store.wants_checkpoint() {
            // At nothing: it counts from the last checkpoint on.
            self.target.apply()?;
            self.target.store.checkpoint(Offset::ZERO, Synced::by_a_sync_up_to(Offset::ZERO))?;
            self.target.store.maintain(MAINTAIN_BYTES)?;
        }
        Ok(())
    }

    /// That was the last one.
    ///
    /// # Errors
    /// If the image had no header, or the store cannot be written.
    pub fn finish(mut self) -> Result<(), InstallError> {
        self.target.apply()?;
        let header = self.header.ok_or(Fault::Malformed("an image without a header"))?;
        let entries = Offset::new(header.whole_entries());
        self.target.store.checkpoint(entries, Synced::by_a_sync_up_to(entries))?;
        Ok(())
    }
}

/// Reads every row of a domain that nobody has open, and so checks every checksum; how many rows there are, and the first entry whose
/// inputs are not all in it.
///
/// # Errors
/// If something cannot be read.
pub fn read_domain(
    io: Arc<dyn Io>,
    directory: impl Into<PathBuf>,
    options: Options,
    budget: &Budget,
) -> Result<(u64, LogIndex), OpenError> {
    let (store, _) = Store::open(io, directory, options, budget)?;
    let header = match store.get(HEADER).map_err(Fault::from)? {
        Some(bytes) => Header::decode(&bytes).map_err(Fault::from)?,
        None => Header::default(),
    };
    let mut rows = 0;
    for row in store.everything() {
        row.map_err(Fault::from)?;
        rows += 1;
    }
    Ok((rows, LogIndex::new(header.whole_entries())))
}

impl Domain {
    /// Opens a domain: a new one, or one as of its last checkpoint. Inputs from [`next_entry`](Self::next_entry) on come again.
    ///
    /// # Errors
    /// If a setting is beyond its limit, or the store cannot be used.
    pub fn open(
        io: Arc<dyn Io>,
        directory: impl Into<PathBuf>,
        definition: Definition,
        options: Options,
        budget: &Budget,
    ) -> Result<Self, OpenError> {
        definition.settings.check()?;
        let (store, _) = Store::open(io, directory, options, budget)?;
        let Definition { settings, rules } = definition;
        let header = match store.get(HEADER).map_err(Fault::from)? {
            Some(bytes) => Header::decode(&bytes).map_err(Fault::from)?,
            None => Header::default(),
        };
        let window = Window::new(header.watermark + 1, settings.key_serial);
        let mut domain = Self {
            settings,
            rules,
            rows: Rows::new(store),
            header,
            window,
            given_up: Vec::new(),
            scratch: Vec::new(),
            mistakes: Mistakes::default(),
            stopped: None,
        };
        domain.load()?;
        Ok(domain)
    }

    /// Tells the domain to make a mistake from now on.
    #[cfg(feature = "faults")]
    pub fn make(&mut self, mistake: Option<crate::mistakes::Mistake>) {
        self.mistakes.made = mistake;
    }

    /// The first entry whose inputs are not all applied.
    pub fn next_entry(&self) -> LogIndex {
        LogIndex::new(self.header.whole_entries())
    }

    /// The first entry whose inputs are not all in the checkpoint: the log is needed from there on.
    pub fn checkpointed_entry(&self) -> LogIndex {
        LogIndex::new(self.rows.store.checkpoint_offset().get())
    }

    /// Whether a checkpoint should be made soon.
    pub fn wants_checkpoint(&self) -> bool {
        self.rows.store.wants_checkpoint()
    }

    /// Makes the state durable. Everything it follows from has to be on stable storage: `synced` is the last entry of which that is
    /// known. Of what is in the checkpoint already it was known when that was made: after a restart a domain can be ahead of what the
    /// node has dispatched again.
    ///
    /// # Panics
    /// LOG-2 if the domain has applied more.
    ///
    /// # Errors
    /// If the domain has stopped, or the store cannot be written: the checkpoint before stays valid.
    pub fn checkpoint(&mut self, synced: LogIndex) -> Result<(), CheckpointFailed> {
        let entries = self.header.whole_entries();
        let synced = Offset::new(synced.get().saturating_add(1)).max(self.rows.store.checkpoint_offset());
        let synced = Synced::by_a_sync_up_to(synced);
        if self.mistakes.makes(Mistake::TwoWrites) {
            self.rows.store.checkpoint(Offset::new(entries), synced)?;
            self.flush()?;
            return Ok(());
        }
        self.flush()?;
        self.rows.store.checkpoint(Offset::new(entries), synced)?;
        Ok(())
    }

    /// Merges files that are due, a bounded step of it; whether there is more.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn maintain(&mut self) -> Result<bool, CheckpointFailed> {
        Ok(self.rows.store.maintain(MAINTAIN_BYTES)? != Maintained::Idle)
    }

    /// All of the state, for another node.
    ///
    /// # Errors
    /// If the domain has stopped, or its store takes no more.
    pub fn image(&mut self) -> Result<Image, Fault> {
        self.flush()?;
        Ok(Image { rows: self.rows.store.snapshot(), next: self.next_entry() })
    }

    /// Makes a domain's directory of the rows of an image, in the order the image gave them.
    ///
    /// # Errors
    /// If a row is none of a domain, or the store cannot be written.
    pub fn install(
        io: Arc<dyn Io>,
        directory: impl Into<PathBuf>,
        rows: impl IntoIterator<Item = (Bytes, Bytes)>,
        options: Options,
        budget: &Budget,
    ) -> Result<(), InstallError> {
        let mut installing = Installing::begin(io, directory, options, budget)?;
        for (key, value) in rows {
            installing.put(&key, &value)?;
        }
        installing.finish()
    }

    /// Brings the rows of open slots and the header up to now.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        if let Some(fault) = &self.stopped {
            return Err(fault.clone());
        }
        self.write_slots_and_header().inspect_err(|fault| self.stopped = Some(fault.clone()))
    }

    fn write_slots_and_header(&mut self) -> Result<(), Fault> {
        for (number, slot) in self.window.iter_mut().filter(|(_, slot)| slot.is_dirty) {
            self.scratch.clear();
            slot.encode(&mut self.scratch);
            self.rows.put(&slot_key(b's', number), &self.scratch)?;
            slot.is_dirty = false;
            slot.has_row = true;
        }
        self.header.encode(&mut self.scratch);
        self.rows.put(HEADER, &self.scratch)?;
        self.rows.apply()
    }
}
