//! Step 6 of the corridor: what consensus drives. It takes entries apart and hands each partition its records, in order.
//!
//! Nothing here waits. Dispatched is therefore not applied: what openraft calls applied has reached a queue, or will be read from
//! the replicated log by a partition that fell behind.
//!
//! Invariants
//! - NUM-3: which record is delivered and which is dropped depends on the log alone. What needs a newer program is not passed over:
//!   the node stops in front of it.
//! - WM-1: an entry is dispatched when it is durable here.
//!
//! Must not know: what commands mean, who waits for outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gapless_consensus::{
    Committed, CommittedBody, Machine, MachineFault, Members, SnapshotBody, SnapshotSource,
};
use gapless_types::{LogIndex, MachineVersion, PartitionId, PartitionOffset};

use crate::catalog::{CatalogCommand, Change};
use crate::entry::{Entry, EntryError, EntryRecord, NotApplied, PartitionCommand};
use crate::log_time::LogTime;
use crate::node::{Core, Node};
use crate::offsets::{Fate, Resume, Verdict};
use crate::projections::{self, DomainSlot, Feed};
use crate::questions;
use crate::slot::{PartitionState, Slot, Work};
use crate::watermarks::{Opened, Reach};
use crate::worker;

/// What consensus sees of a node.
#[derive(Clone, Debug)]
pub(crate) struct Dispatcher(pub(crate) Arc<Node>);

type Delivered = BTreeMap<PartitionId, Vec<(PartitionOffset, Bytes)>>;
type Feeds = Vec<(Arc<DomainSlot>, Feed)>;

impl Dispatcher {
    fn dispatch_entry(&self, core: &mut Core, index: LogIndex, entry: Entry) -> (Delivered, Feeds) {
        let node = &self.0;
        let mut delivered = Delivered::new();
        // Projections that the entry itself makes begin behind it.
        let feeds = projections::feed_entry(node, index, &entry);
        let version = entry.machine_version;
        assert!(version >= core.machine_version, "NUM-3: entry {index} needs less than the one before");
        core.machine_version = version;
        if version > node.catalog.borrow().machine_version() {
            assert_eq!(
                entry.records,
                [EntryRecord::Raise],
                "NUM-3: entry {index} raises, and does something else"
            );
            tracing::info!("machine version {version} is in force from entry {index} on");
            self.change_catalog(core, index, |catalog| catalog.raise(version, index));
        }
        core.time = core.time.max(entry.time);
        let mut all_delivered = true;
        let mut defined = None;
        for record in entry.records {
            match record {
                EntryRecord::Definition(command) => {
                    // The first one is folded into the catalog; the others are for the other partitions.
                    if defined != Some(command.partition.namespace) {
                        defined = Some(command.partition.namespace);
                        self.change_catalog(core, index, |catalog| {
                            catalog.define(command.partition.namespace, &command.command, index)
                        });
                    }
                    all_delivered &= self.deliver(core, index, command, &mut delivered);
                }
                EntryRecord::Write(command) => {
                    all_delivered &= self.deliver(core, index, command, &mut delivered);
                }
                EntryRecord::Control(command) => match CatalogCommand::decode(&command) {
                    Some(command) => self.change_catalog(core, index, |catalog| catalog.command(command)),
                    None => node.alarm(format!("entry {index} holds a command that nobody knows")),
                },
                EntryRecord::Term | EntryRecord::Raise | EntryRecord::DomainCommand { .. } => {}
            }
        }
        core.settle(index, if all_delivered { Fate::Delivered } else { Fate::Dropped });
        (delivered, feeds)
    }

    /// Judges a record; whether it is one to apply, or was applied before.
    fn deliver(
        &self,
        core: &mut Core,
        index: LogIndex,
        record: PartitionCommand,
        delivered: &mut Delivered,
    ) -> bool {
        let PartitionCommand { partition, expected, command } = record;
        let known =
            self.0.catalog.borrow().by_id(partition.namespace).is_some_and(|namespace| {
                partition.index.get() < namespace.schema.definition().partitions.get()
            });
        let verdict = match known {
            true => core.dispatch.judge(index, partition, expected),
            false => Verdict::Gone,
        };
        match verdict {
            Verdict::Deliver => {
                delivered.entry(partition).or_default().push((expected, command));
                true
            }
            // One whose place is not known was proposed by nobody here: nobody waits for it.
            Verdict::Done | Verdict::Unknown => true,
            Verdict::Drop { .. } | Verdict::Gone => {
                self.0.acks.dropped((partition, expected), &command);
                false
            }
        }
    }

    fn change_catalog(
        &self,
        core: &mut Core,
        index: LogIndex,
        fold: impl FnOnce(&mut crate::catalog::Catalog) -> Change,
    ) {
        let node = &self.0;
        let mut catalog = (*node.catalog()).clone();
        // What is folded already, before a restart, is not folded again.
        if catalog.at().is_some_and(|at| index <= at) {
            return;
        }
        let change = fold(&mut catalog);
        if change == Change::Nothing {
            return;
        }
        catalog.set_at(index);
        let catalog = Arc::new(catalog);
        node.catalog.send_replace(catalog.clone());
        match change {
            Change::Created(partitions) => {
                for partition in partitions {
                    self.create(core, partition);
                }
            }
            Change::Dropped(partitions) => {
                for partition in partitions {
                    self.remove(core, partition);
                }
            }
            Change::Altered | Change::Nothing => {}
        }
        projections::reconcile(node, &catalog);
        node.keeper.notify_one();
    }

    fn create(&self, core: &mut Core, partition: PartitionId) {
        let node = &self.0;
        let slot = Arc::new(Slot::new(partition, node.partition_dir(partition), node.queue_limits));
        core.dispatch.open(partition, None);
        let opened = core.watermarks.open(partition, slot.incarnation, Opened::default());
        opened.expect("NUM-1: a partition is created once");
        let mut slots = node.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots.insert(partition, slot.clone());
        drop(slots);
        worker::start(node.clone(), slot);
    }

    fn remove(&self, core: &mut Core, partition: PartitionId) {
        let node = &self.0;
        core.dispatch.close(partition);
        if let Some(others) = &mut core.others {
            others.dropped(partition);
        }
        let mut slots = node.slots.write().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.remove(&partition);
        drop(slots);
        if let Some(slot) = slot {
            let _ = core.watermarks.close(partition, slot.incarnation);
            slot.close();
            node.admission.forget(partition);
            node.leaving.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        }
    }
}

/// What an entry is, as far as it can be read.
enum Dispatched {
    Nothing,
    Members(Members),
    Entry(Result<Entry, EntryError>),
}

impl Machine for Dispatcher {
    fn dispatch(&self, entry: Committed) -> Result<(), MachineFault> {
        let node = &self.0;
        let index = entry.index;
        let _between = node.between_entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken apart before anybody has to wait for it, and before anybody is told of it.
        let body = match entry.body {
            CommittedBody::Blank => Dispatched::Nothing,
            CommittedBody::Members(members) => Dispatched::Members(members),
            CommittedBody::Entry(bytes) => match Entry::of_group(node.group, node.known_version, &bytes) {
                Ok(entry) => Dispatched::Entry(Ok(entry)),
                Err(NotApplied::PassedOver(error)) => Dispatched::Entry(Err(error)),
                Err(NotApplied::TooNew(error)) => {
                    let what = format!("entry {index} cannot be applied: {error}");
                    node.alarm(what.clone());
                    return Err(MachineFault::new(what));
                }
            },
        };
        node.announce(index);
        let mut core = node.core();
        let (mut time, mut machine_version) = (LogTime::ZERO, MachineVersion::FIRST);
        let (delivered, feeds) = match body {
            Dispatched::Nothing => (Delivered::new(), Feeds::new()),
            Dispatched::Members(members) => {
                core.change_members(node.id, &members, node.catalog().partitions());
                (Delivered::new(), Feeds::new())
            }
            Dispatched::Entry(Ok(entry)) => {
                // Its own, whatever this node knows of later ones: a partition that reads it from the log gets the same (NUM-3).
                (time, machine_version) = (entry.time, entry.machine_version);
                let dispatched = self.dispatch_entry(&mut core, index, entry);
                node.set_log_time(core.time);
                dispatched
            }
            // Every replica passes over it alike.
            Dispatched::Entry(Err(error)) => {
                node.alarm(format!("entry {index} cannot be read: {error}"));
                core.settle(index, Fate::Dropped);
                (Delivered::new(), Feeds::new())
            }
        };
        let last = |(partition, commands): (&PartitionId, &Vec<(PartitionOffset, Bytes)>)| {
            commands.last().map(|(offset, _)| (*partition, *offset))
        };
        core.watermarks.durable(index);
        let dispatched: Vec<_> = delivered.iter().filter_map(last).collect();
        core.watermarks.dispatched(index, dispatched.iter().copied());
        if let Some(others) = &mut core.others {
            for (partition, offset) in dispatched {
                others.dispatched(partition, Reach { offset, index });
            }
        }
        drop(core);
        let now = node.clock.monotonic();
        for (partition, commands) in delivered {
            let Some(slot) = node.slot(partition) else { continue };
            let digests = node.acks.digests(partition, &commands);
            if slot.push(Work { index, time, machine_version, commands, digests }, now) {
                worker::begin_turn(node.clone(), slot);
            }
        }
        for (slot, feed) in feeds {
            slot.push(feed);
        }
        node.dispatched.send_replace(Some(index));
        node.resolved.notify_one();
        Ok(())
    }

    fn resume_after(&self) -> Option<LogIndex> {
        self.0.durable.borrow().covered
    }

    fn snapshot(&self, at: LogIndex) -> BoxFuture<'static, Result<Arc<dyn SnapshotSource>, MachineFault>> {
        crate::snapshot::take(self.0.clone(), at)
    }

    fn held(&self, at: LogIndex) -> BoxFuture<'static, Bytes> {
        Box::pin(crate::snapshot::held(self.0.clone(), at))
    }

    fn install(
        &self,
        at: LogIndex,
        body: Box<dyn SnapshotBody>,
    ) -> BoxFuture<'static, Result<(), MachineFault>> {
        crate::snapshot::install(self.0.clone(), at, body)
    }

    fn answer(&self, question: Bytes) -> BoxFuture<'static, Result<Bytes, MachineFault>> {
        Box::pin(questions::answer(self.0.clone(), question))
    }
}

/// Takes in all partitions that the catalog names, where they stand on disk. What the catalog on disk calls covered is in them. Marks of
/// those that a snapshot rolled forward go on from where they were (WM-1).
pub(crate) async fn reset_partitions(node: &Arc<Node>, rolled: &BTreeSet<PartitionId>) {
    let durable = node.durable.borrow().clone();
    let (covered, ends) = (durable.covered, &durable.ends);
    let catalog = node.catalog();
    let partitions: Vec<PartitionId> = catalog.partitions().collect();
    // Every partition begins with the definition that made it. If that is covered, it has to be there.
    let is_covered = catalog.at() <= covered;
    let begin = |partition| {
        let node = node.clone();
        async move {
            let slot = Arc::new(Slot::new(partition, node.partition_dir(partition), node.queue_limits));
            let job = {
                let (node, slot) = (node.clone(), slot.clone());
                move || worker::begin(&node, &slot)
            };
            slot.set_begun(is_covered);
            slot.require(ends.get(&partition).copied());
            if let Some(earlier) = node.slot(partition) {
                let had = node.core().watermarks.marks(partition).and_then(|marks| marks.applied);
                slot.succeed(&earlier, had.is_some() && !rolled.contains(&partition));
            }
            let begun = node.workers.run(job).await;
            (slot, begun)
        }
    };
    let begun = futures_util::future::join_all(partitions.into_iter().map(begin)).await;
    let mut slots = BTreeMap::new();
    {
        let mut core = node.core();
        core.reset(&durable, rolled);
        node.set_log_time(core.time);
        for (slot, begun) in begun {
            match begun {
                // The end of its log is lost. If the replicated log still has what made it, it comes again; its worker finds out.
                Ok(at)
                    if at.map(|at| at.offset) < slot.required().max(core.watermarks.applied_of(slot.id)) =>
                {
                    let from = at.map_or(LogIndex::FIRST, |at| at.index);
                    slot.detach_from(from);
                    core.dispatch.open_unknown(slot.id);
                    core.watermarks.lose_place(slot.id, slot.incarnation, from);
                }
                Ok(at) => {
                    core.dispatch.open(slot.id, at.map(|Reach { offset, index }| Resume { offset, index }));
                    // What was rolled forward is on stable storage.
                    let synced = at.map(|at| at.offset).filter(|_| rolled.contains(&slot.id));
                    let opened = Opened { applied: at, synced, checkpoint: None };
                    core.watermarks
                        .open(slot.id, slot.incarnation, opened)
                        .expect("NUM-1: every partition is taken in once");
                }
                // Its worker tries again, reads from the replicated log what it misses, and then says where it stands.
                Err(reason) => {
                    node.alarm(format!("partition {}: {reason}", slot.id));
                    let from = covered.and_then(LogIndex::next).unwrap_or(LogIndex::FIRST);
                    slot.detach_from(from);
                    core.dispatch.open_unknown(slot.id);
                    core.watermarks.lose_place(slot.id, slot.incarnation, from);
                }
            }
            slots.insert(slot.id, slot);
        }
    }
    node.dispatched.send_replace(covered);
    *node.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
}

/// Lets all partitions finish what they do, and go.
pub(crate) async fn close_partitions(node: &Node) {
    let slots = node.all_slots();
    for slot in &slots {
        slot.close();
    }
    for slot in slots {
        // A worker that is gone has nothing left to finish.
        let _ = slot.state.subscribe().wait_for(|state| *state == PartitionState::Closed).await;
    }
}

/// Starts the workers of all partitions.
pub(crate) fn start_workers(node: &Arc<Node>) {
    for slot in node.all_slots() {
        worker::start(node.clone(), slot);
    }
}
