//! Which domains there are on this node, and which of them gets what of an entry.
//!
//! Invariants
//! - There is a domain for every projection of the catalog and every partition it is over, from the entry on that made it.
//!
//! Must not know: what domains do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use gapless_projection::Scope;
use gapless_types::{IdempotencyKey, LogIndex, Name, NamespaceId, PartitionId};
use tokio::sync::watch;

use super::answers::Answers;
use super::asking::key_of;
use super::driver;
use super::error::ProjectionError;
use super::feed::{Fed, Feed, Record};
use super::request::DomainRequest;
use super::slot::{DomainSlot, DomainState};
use crate::catalog::{Catalog, DOMAINS, Namespace, Projection, number_in};
use crate::entry::Entry;
use crate::node::Node;
use crate::removal;
use crate::retention::Domain;

/// The domains of a node.
#[derive(Debug, Default)]
pub(crate) struct Projections {
    pub(crate) answers: Answers,
    slots: RwLock<Slots>,
    /// Domains that were closed for good and may still have files open.
    leaving: Mutex<Vec<Arc<DomainSlot>>>,
    requests: AtomicU64,
    turns: AtomicU64,
}

/// Domains by what they are looked for.
#[derive(Debug, Default)]
struct Slots {
    by_id: BTreeMap<Domain, Arc<DomainSlot>>,
    by_partition: BTreeMap<PartitionId, Vec<Arc<DomainSlot>>>,
}

impl Slots {
    fn insert(&mut self, slot: Arc<DomainSlot>) {
        for partition in &slot.partitions {
            self.by_partition.entry(*partition).or_default().push(slot.clone());
        }
        self.by_id.insert(slot.id.clone(), slot);
    }

    fn remove(&mut self, domain: &Domain) -> Option<Arc<DomainSlot>> {
        let slot = self.by_id.remove(domain)?;
        for partition in &slot.partitions {
            if let Some(slots) = self.by_partition.get_mut(partition) {
                slots.retain(|other| other.id != *domain);
            }
        }
        Some(slot)
    }
}

impl Projections {
    pub(crate) fn slot(&self, domain: &Domain) -> Option<Arc<DomainSlot>> {
        self.read().by_id.get(domain).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<DomainSlot>> {
        self.read().by_id.values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The domains of a projection, by partition.
    pub(crate) fn domains_of(
        &self,
        node: &Node,
        namespace: &str,
        projection: &str,
    ) -> Result<Vec<Arc<DomainSlot>>, ProjectionError> {
        let catalog = node.catalog();
        let namespace = catalog.by_name(namespace).ok_or(ProjectionError::Unknown)?;
        let found = namespace.projections.get_key_value(projection);
        let (name, projection) = found.ok_or(ProjectionError::Unknown)?;
        let slots: Vec<_> =
            namespace.domains_of(name, projection).filter_map(|domain| self.slot(&domain)).collect();
        if slots.is_empty() { Err(ProjectionError::Closing) } else { Ok(slots) }
    }

    /// What each domain needs of the replicated log, where everything up to `dispatched` has reached their queues.
    pub(crate) fn needs(&self, dispatched: Option<LogIndex>) -> BTreeMap<Domain, LogIndex> {
        let need =
            |(domain, slot): (&Domain, &Arc<DomainSlot>)| (domain.clone(), slot.needed_from(dispatched));
        self.read().by_id.iter().map(need).collect()
    }

    /// The first entry that a domain needs which does well or will be opened again, of what the catalog on disk says. One that failed for a
    /// moment while the log is too long would otherwise never be well again: nothing brings back what is cut.
    pub(crate) fn first_of_the_sound(&self, needs: &BTreeMap<Domain, LogIndex>) -> Option<LogIndex> {
        let slots = self.read();
        let is_sound = |domain: &Domain| {
            slots
                .by_id
                .get(domain)
                .is_some_and(|slot| !matches!(&*slot.state.borrow(), DomainState::Quarantined(_)))
        };
        needs.iter().filter(|(domain, _)| is_sound(domain)).map(|(_, from)| *from).min()
    }

    /// Whether domains of a namespace that was dropped are still open.
    pub(crate) fn are_closing_down(&self, namespace: NamespaceId) -> bool {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|slot| *slot.state.borrow() != DomainState::Closed);
        leaving.iter().any(|slot| slot.id.partition.namespace == namespace)
    }

    pub(crate) fn next_key(&self) -> IdempotencyKey {
        key_of(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}

/// What an entry has for each domain, to be pushed once its outcomes are on their way.
pub(crate) fn feed_entry(node: &Node, index: LogIndex, entry: &Entry) -> Vec<(Arc<DomainSlot>, Feed)> {
    let slots = node.projections.read();
    if slots.by_id.is_empty() {
        return Vec::new();
    }
    let mut feeds: BTreeMap<&Domain, (&Arc<DomainSlot>, Feed)> = BTreeMap::new();
    let mut push = |slot, position, fed| {
        let new = || (slot, Feed::new(index, entry.time, entry.machine_version));
        let slot: &Arc<DomainSlot> = slot;
        feeds.entry(&slot.id).or_insert_with(new).1.push(position, fed);
    };
    for (position, record) in (0..).zip(&entry.records) {
        match Record::of(record) {
            None => {}
            Some(Record::Leader) => slots.by_id.values().for_each(|slot| push(slot, position, Fed::Leader)),
            Some(Record::Write { partition, offset }) => {
                for slot in slots.by_partition.get(&partition).into_iter().flatten() {
                    push(slot, position, Fed::Outcome { partition, offset });
                }
            }
            Some(Record::Request(DomainRequest { domain, id, command })) => match slots.by_id.get(&domain) {
                Some(slot) => push(slot, position, Fed::Command { id, command }),
                // Its projection is gone.
                None => node.projections.answers.forget(&[id]),
            },
        }
    }
    feeds.into_values().map(|(slot, feed)| (slot.clone(), feed)).collect()
}

/// Makes the domains those of the catalog: new ones are started, those that are gone are closed.
pub(crate) fn reconcile(node: &Arc<Node>, catalog: &Catalog) {
    let created = {
        let mut slots = node.projections.write();
        let gone: Vec<Domain> =
            slots.by_id.keys().filter(|domain| !catalog.has_domain(domain)).cloned().collect();
        let mut leaving = node.projections.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in gone.iter().filter_map(|domain| slots.remove(domain)) {
            slot.remove();
            leaving.push(slot);
        }
        let created = missing(node, catalog, &slots.by_id);
        created.iter().for_each(|slot| slots.insert(slot.clone()));
        created
    };
    for slot in &created {
        driver::start(node, slot);
    }
}

/// Domains of the catalog that are not there.
fn missing(
    node: &Node,
    catalog: &Catalog,
    known: &BTreeMap<Domain, Arc<DomainSlot>>,
) -> Vec<Arc<DomainSlot>> {
    let mut missing = Vec::new();
    for namespace in catalog.namespaces() {
        for (name, projection) in &namespace.projections {
            // All domains of a projection tell the same ones that there is work.
            let mut work = None;
            for domain in namespace.domains_of(name, projection) {
                if known.contains_key(&domain) {
                    continue;
                }
                let work = work.get_or_insert_with(|| Arc::new(watch::Sender::new(()))).clone();
                missing.push(Arc::new(new_slot(node, namespace, projection, domain, work)));
            }
        }
    }
    missing
}

fn new_slot(
    node: &Node,
    namespace: &Namespace,
    projection: &Projection,
    domain: Domain,
    work: Arc<watch::Sender<()>>,
) -> DomainSlot {
    let partitions = match projection.plan.scope {
        Scope::Workspace => vec![domain.partition],
        Scope::Namespace => namespace.partitions().collect(),
    };
    let dir = node.domain_dir(&domain);
    let floor = node.durable.borrow().domains.get(&domain).copied();
    DomainSlot::new(domain, partitions, projection, dir, floor, node.queue_limits, work)
}

/// Takes in all domains that the catalog names, where they stand on disk. Those before are closed.
pub(crate) fn reset_domains(node: &Node) {
    let catalog = node.catalog();
    let mut slots = Slots::default();
    missing(node, &catalog, &slots.by_id).into_iter().for_each(|slot| slots.insert(slot));
    *node.projections.write() = slots;
}

/// Starts all domains.
pub(crate) fn start_domains(node: &Arc<Node>) {
    for slot in node.projections.all() {
        driver::start(node, &slot);
    }
}

/// Lets all domains finish what they do, and go.
pub(crate) async fn close_domains(node: &Node) {
    let slots = node.projections.all();
    for slot in &slots {
        slot.close();
    }
    for slot in slots {
        let _ = slot.state.subscribe().wait_for(|state| *state == DomainState::Closed).await;
    }
}

/// Removes what is left of domains over a partition whose projections are gone, or that a snapshot replaced.
pub(crate) fn drop_removed(node: &Node, partition: PartitionId) -> std::io::Result<()> {
    let is_gone = |name: &str| {
        // Looked at when it is found: what was made before is known to it.
        let (catalog, places) = (node.catalog(), node.durable.borrow().places.clone());
        let Some(namespace) = catalog.by_id(partition.namespace) else { return false };
        let is_known = |(projection, of): (&Name, &Projection)| {
            let domain = Domain { projection: projection.clone(), version: of.version, partition };
            name == places.domain_name(&domain)
        };
        number_in(name).1 <= places.installs && !namespace.projections.iter().any(is_known)
    };
    removal::remove_below(&*node.io, &node.partition_dir(partition).join(DOMAINS), is_gone)
}
