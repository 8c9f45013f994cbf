//! The state machine that the consensus library drives. It only dispatches, and keeps who the members are.
//!
//! Invariants
//! - Entries reach the machine in the order of their indexes, each once, none left out; asserted here.
//! - A change of members is in the control file before it is dispatched, so that it is known whatever the machine has kept.
//! - TRUNC-1: a snapshot is published, in the control file, only once the machine has made everything in it durable.
//!
//! Must not know: what entries mean, how snapshots travel.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use gapless_types::LogIndex;
use openraft::RaftSnapshotBuilder;
use openraft::alias::{SnapshotMetaOf, SnapshotOf};
use openraft::storage::{EntryResponder, RaftStateMachine};

use super::control_file::ControlFile;
use super::spool::Spool;
use crate::format::control::{Control, Standing};
use crate::format::snapshot::SnapshotHeader;
use crate::limits::MAX_CHANGES_BETWEEN_SNAPSHOTS;
use crate::machine::{Committed, CommittedBody, Machine, MachineFault, SnapshotBody, SnapshotSource};
use crate::members::Members;
use crate::message::{Entry, EntryId};
use crate::raft::{self, Group, RaftLogId, RaftStoredMembership};
use crate::watermarks::Watermarks;

/// The state machine of a node. Clones are handles to the same.
#[derive(Clone)]
pub(crate) struct StateMachine(Arc<Shared>);

struct Shared {
    machine: Arc<dyn Machine>,
    watermarks: Arc<Watermarks>,
    state: Mutex<State>,
}

struct State {
    /// Where the group stands at the entry that was dispatched last.
    standing: Standing,
    control: ControlFile,
    current: Option<SnapshotData>,
    closed: bool,
    /// Only the library's own tests of storages hand over entries with gaps between them.
    gaps_allowed: bool,
}

/// A snapshot that can be sent or installed.
#[derive(Clone)]
pub(crate) enum SnapshotData {
    /// Made here.
    Made(SnapshotHeader, Arc<dyn SnapshotSource>),
    /// Received from another node.
    Received(Arc<Spool>),
}

impl SnapshotData {
    pub(crate) fn header(&self) -> &SnapshotHeader {
        match self {
            Self::Made(header, _) => header,
            Self::Received(spool) => &spool.header,
        }
    }

    /// Its bytes, for a receiver that holds something already. What was received is as it came.
    pub(crate) fn body(&self, held: &Bytes) -> Box<dyn SnapshotBody> {
        match self {
            Self::Made(_, source) => source.body(held),
            Self::Received(spool) => spool.body(),
        }
    }

    /// As the library wants it.
    pub(crate) fn into_snapshot(self) -> SnapshotOf<Group, SnapshotData> {
        let standing = &self.header().standing;
        let meta = SnapshotMetaOf::<Group> {
            last_log_id: standing.last.map(raft::raft_log_id),
            last_membership: stored_membership(standing),
        };
        SnapshotOf::<Group, SnapshotData> { meta, snapshot: self }
    }
}

impl StateMachine {
    /// `standing` is that of the entry behind which dispatching goes on.
    pub(crate) fn new(
        machine: Arc<dyn Machine>,
        control: ControlFile,
        standing: Standing,
        watermarks: Arc<Watermarks>,
    ) -> Self {
        let state = State { standing, control, current: None, closed: false, gaps_allowed: false };
        Self(Arc::new(Shared { machine, watermarks, state: Mutex::new(state) }))
    }

    /// Takes entries with gaps between them.
    #[cfg(test)]
    pub(crate) fn allow_gaps(self) -> Self {
        self.state().gaps_allowed = true;
        self
    }

    /// Dispatches nothing any more.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    /// Where the group stands at the entry that was dispatched last.
    pub(crate) fn standing(&self) -> Standing {
        self.state().standing.clone()
    }

    /// How many changes of members there were since the last snapshot.
    pub(crate) fn changes(&self) -> usize {
        self.state().control.content.changes.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half changed: whoever panicked here broke an invariant and ended the node.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dispatch(&self, entry: Entry) -> io::Result<()> {
        let mut state = self.state();
        if state.closed {
            return Err(io::Error::other("the node is closed"));
        }
        state.take_in(&entry)?;
        self.0.watermarks.dispatched(entry.id);
        // Under the lock, so that a snapshot marks exactly what was dispatched.
        let Entry { id: EntryId { term, index }, body } = entry;
        let dispatched = self.0.machine.dispatch(Committed { index, term, body });
        dispatched.map_err(|fault| {
            // Nothing comes behind an entry that was left out.
            state.closed = true;
            io::Error::other(fault)
        })
    }
}

impl State {
    fn take_in(&mut self, entry: &Entry) -> io::Result<()> {
        if let Some(last) = self.standing.last {
            let dense = last.index.next() == Some(entry.id.index) || self.gaps_allowed;
            assert!(dense, "NUM-1: entry {} does not follow {}", entry.id.index, last.index);
            assert!(last.term <= entry.id.term, "terms never fall along the log");
        }
        if let CommittedBody::Members(members) = &entry.body {
            self.note_change(entry.id.index)?;
            self.standing.change(entry.id, members);
        }
        self.standing.last = Some(entry.id);
        Ok(())
    }

    /// Keeps in the control file where the members changed. After a restart the same entries come again.
    fn note_change(&mut self, index: LogIndex) -> io::Result<()> {
        let mut content = self.control.content.clone();
        if content.changes.last().is_some_and(|&last| last >= index) {
            return Ok(());
        }
        assert!(
            content.changes.len() < 2 * MAX_CHANGES_BETWEEN_SNAPSHOTS,
            "changes are refused before they become too many"
        );
        content.changes.push(index);
        self.control.write(content)
    }

    /// Makes a snapshot the one that counts, unless a newer one does.
    fn publish(&mut self, snapshot: SnapshotData) -> io::Result<()> {
        let standing = snapshot.header().standing.clone();
        if standing.last <= self.control.content.snapshot.last && self.current.is_some() {
            return Ok(());
        }
        let mut content = self.control.content.clone();
        content.changes.retain(|&change| Some(change) > standing.last.map(|last| last.index));
        content.snapshot = standing;
        content.installing = None;
        self.control.write(content)?;
        self.current = Some(snapshot);
        Ok(())
    }
}

impl Standing {
    /// The members change at an entry.
    pub(crate) fn change(&mut self, at: EntryId, members: &Members) {
        let highest = members.addresses.keys().next_back().copied();
        self.highest_node = self.highest_node.max(highest.unwrap_or_default());
        self.members_at = Some(at);
        self.members = members.clone();
    }
}

fn stored_membership(standing: &Standing) -> RaftStoredMembership {
    let at: Option<RaftLogId> = standing.members_at.map(raft::raft_log_id);
    match at {
        Some(at) => RaftStoredMembership::new(Some(at), raft::raft_membership(&standing.members)),
        None => RaftStoredMembership::default(),
    }
}

impl RaftStateMachine<Group> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<RaftLogId>, RaftStoredMembership)> {
        let state = self.state();
        Ok((state.standing.last.map(raft::raft_log_id), stored_membership(&state.standing)))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Group>>> + Unpin + Send,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            self.dispatch(raft::entry(entry))?;
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        let nothing_yet = self.state().standing.last.is_none();
        if nothing_yet && !force {
            return None;
        }
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let state = self.state();
        let standing = state.standing.clone();
        // The machine marks its queues now, while nothing can be dispatched.
        let snapshot = standing.last.map(|last| self.0.machine.snapshot(last.index));
        let header = SnapshotHeader::new(&state.control.content.identity, standing);
        drop(state);
        Builder { of: self.clone(), header, snapshot: Mutex::new(snapshot) }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<Group>,
        snapshot: SnapshotData,
    ) -> io::Result<()> {
        let header = snapshot.header().clone();
        let last = header.standing.last.expect("a snapshot contains an entry");
        assert_eq!(meta.last_log_id.as_ref().map(raft::entry_id), Some(last), "a snapshot is what it says");
        {
            let mut state = self.state();
            let installing = Some(header.standing.clone());
            let content = Control { installing, ..state.control.content.clone() };
            state.control.write(content)?;
        }
        self.0.machine.install(last.index, snapshot.body(&header.held)).await.map_err(io::Error::other)?;
        drop(snapshot);
        self.state().standing = header.standing.clone();
        let source = self.0.machine.snapshot(last.index).await.map_err(io::Error::other)?;
        // Whoever gets it from here holds something else.
        let header = header.behind(&Bytes::new());
        self.state().publish(SnapshotData::Made(header, source))?;
        self.0.watermarks.installed(last);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Group, SnapshotData>>> {
        Ok(self.state().current.clone().map(SnapshotData::into_snapshot))
    }
}

type Pending = BoxFuture<'static, Result<Arc<dyn SnapshotSource>, MachineFault>>;

/// Waits for the machine's snapshot of what was dispatched when this was made.
pub(crate) struct Builder {
    of: StateMachine,
    header: SnapshotHeader,
    /// In a lock because the library shares builders between threads, though only one uses it.
    snapshot: Mutex<Option<Pending>>,
}

impl RaftSnapshotBuilder<Group> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Group, SnapshotData>> {
        let pending = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(pending) = pending else {
            // Of nothing there is a snapshot that nobody sends or installs, and that counts for nothing.
            return Ok(SnapshotData::Made(self.header.clone(), Arc::new(Nothing)).into_snapshot());
        };
        let source = pending.await.map_err(io::Error::other)?;
        let snapshot = SnapshotData::Made(self.header.clone(), source);
        self.of.state().publish(snapshot.clone())?;
        if let Some(last) = self.header.standing.last {
            self.of.0.watermarks.published(last);
        }
        Ok(snapshot.into_snapshot())
    }
}

/// The snapshot of a machine that was given nothing yet.
struct Nothing;

impl SnapshotSource for Nothing {
    fn body(&self, _: &Bytes) -> Box<dyn SnapshotBody> {
        Box::new(Self)
    }
}

impl SnapshotBody for Nothing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, MachineFault>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
