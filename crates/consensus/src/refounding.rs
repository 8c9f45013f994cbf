//! Founding a group anew behind an entry of another one: for a restore from a backup. The new group has one voter, its log begins behind
//! that entry, and may hold entries that are committed as soon as it leads.
//!
//! Invariants
//! - Everything is on stable storage when this is finished. A directory that was not finished is not to be opened: whoever makes it
//!   marks it, and begins anew in an empty one.
//! - Terms never fall along the log, and the first vote of the new group is above all of them.
//!
//! Must not know: where the entries come from, what they mean.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use gapless_log::io::Io;
use gapless_log::{Log, Options};
use gapless_types::limits::MAX_RECORDS_PER_BATCH;
use gapless_types::{LogIndex, Position};

use crate::format::control::{Control, Standing};
use crate::format::{entry, state};
use crate::identity::{Identity, Term};
use crate::machine::CommittedBody;
use crate::members::Members;
use crate::message::{Entry, EntryId, Vote};
use crate::storage::control_file::ControlFile;
use crate::storage::log_store::position;

/// Bytes of entries that are appended at once.
const BATCH_BYTES: usize = 1 << 20;

/// The directory of a group that is being founded anew.
#[derive(Debug)]
pub struct Refounding {
    io: Arc<dyn Io>,
    dir: PathBuf,
    identity: Identity,
    members: Members,
    log: Log,
    behind: EntryId,
    /// The last entry so far.
    last: EntryId,
    batch: Vec<Vec<u8>>,
    bytes: usize,
}

impl Refounding {
    /// Begins, in a directory where nothing is. The machine has everything up to `behind`.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn begin(
        io: Arc<dyn Io>,
        dir: &Path,
        identity: Identity,
        address: &str,
        behind: EntryId,
        log: Options,
    ) -> io::Result<Self> {
        let members = Members::alone(identity.node, address).map_err(io::Error::other)?;
        io.create_dir(dir)?;
        let options = Options { first_position: Position::new(LogIndex::FIRST.get()), ..log };
        let (log, _) = Log::open(io.clone(), dir.join("log"), options).map_err(io::Error::other)?;
        let _synced_at_the_end =
            log.set_state(state::PURGED, &state::encode_purged(behind)).map_err(io::Error::other)?;
        let first = position(behind.index).next().ok_or_else(|| io::Error::other("no entry can follow"))?;
        let _synced_at_the_end = log.release_to(first).map_err(io::Error::other)?;
        let dir = dir.to_path_buf();
        Ok(Self { io, dir, identity, members, log, behind, last: behind, batch: Vec::new(), bytes: 0 })
    }

    /// The next entry: what was proposed, or nothing in its place.
    ///
    /// # Errors
    /// If the disk fails, or its term is below that of the one before.
    pub fn push(&mut self, term: Term, proposed: Option<Bytes>) -> io::Result<()> {
        let index = self.last.index.next().ok_or_else(|| io::Error::other("no entry can follow"))?;
        if term < self.last.term {
            return Err(io::Error::other(format!("the term falls at entry {index}")));
        }
        let id = EntryId { term, index };
        let body = proposed.map_or(CommittedBody::Blank, CommittedBody::Entry);
        let bytes = entry::encode(&Entry { id, body });
        // A single one may be longer than all that are usually appended together, and fits a frame alone.
        if self.bytes + bytes.len() > BATCH_BYTES || self.batch.len() >= MAX_RECORDS_PER_BATCH {
            self.append()?;
        }
        self.bytes += bytes.len();
        self.batch.push(bytes);
        self.last = id;
        Ok(())
    }

    fn append(&mut self) -> io::Result<()> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        let _synced_at_the_end = self.log.append_next(&batch).map_err(io::Error::other)?;
        self.log.flush().map_err(io::Error::other)
    }

    /// That was the last one.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.append()?;
        let vote = Vote { term: self.last.term, node: self.identity.node, committed: false };
        let _synced_below =
            self.log.set_state(state::VOTE, &state::encode_vote(vote)).map_err(io::Error::other)?;
        self.log.flush().map_err(io::Error::other)?;
        self.log.sync().map_err(io::Error::other)?;
        let mut snapshot = Standing { last: Some(self.behind), ..Standing::default() };
        snapshot.change(self.behind, &self.members);
        let content = Control {
            identity: self.identity,
            log: self.log.id(),
            changes: Vec::new(),
            snapshot,
            installing: None,
        };
        ControlFile::create(self.io, &self.dir, content)?;
        self.log.close().map_err(io::Error::other)
    }
}
