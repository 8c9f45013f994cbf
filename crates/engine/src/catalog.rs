//! Which namespaces and partitions there are, and which machine version is in force: a fold of the replicated log, the same on every
//! replica.
//!
//! Invariants
//! - A namespace id is never used again: a namespace that was dropped and comes back is another one, with partitions of its own.
//! - The catalog on disk is never behind a partition on disk: a partition makes its directory after the catalog names it.
//!
//! Must not know: tasks, queues, how an order is agreed on.

mod file;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use gapless_partition::{Command, Definition, Schema};
use gapless_projection::{Plan, Scope};
use gapless_types::limits::MAX_PROJECTIONS;
use gapless_types::{LogIndex, MachineVersion, Name, NamespaceId, PartitionId, PartitionIndex};

pub use file::CatalogFileError;
pub(crate) use file::{
    CatalogFile, Stored as StoredCatalog, decode as decode_catalog, encode as encode_catalog,
};
pub(crate) use places::{DOMAINS, Places, domain_in, number_in, partition_in};

use crate::limits::MAX_NAMESPACES;
use crate::retention::Domain;

/// The first id that a namespace gets; those below are kept for the ledger's own use.
const FIRST_NAMESPACE: u32 = 16;

/// All namespaces that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    next: u32,
    namespaces: BTreeMap<NamespaceId, Namespace>,
    names: BTreeMap<Name, NamespaceId>,
    /// Dropped, but their directories may still be there.
    garbage: BTreeMap<NamespaceId, u16>,
    /// Entries that raised the machine version, and to what: both ascend.
    raises: BTreeMap<LogIndex, MachineVersion>,
    /// The last entry that is folded into it.
    at: Option<LogIndex>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its id.
    pub id: NamespaceId,
    /// Its definition with all ids.
    pub schema: Arc<Schema>,
    /// Partitions that take no writes until they are thawed.
    pub frozen: BTreeSet<PartitionIndex>,
    /// Its projections.
    pub projections: BTreeMap<Name, Projection>,
    /// Versions of projections that are gone: who takes such a name gets a higher one.
    retired: BTreeMap<Name, u32>,
}

/// A projection of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Which one of this name it is, from 1 on.
    pub version: u32,
    /// The entry that made it: what is older comes to it from the partition logs.
    pub since: LogIndex,
    /// What it is like.
    pub plan: Arc<Plan>,
}

/// What changes the catalog besides definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogCommand {
    /// The namespace goes, with everything in it.
    Drop(NamespaceId),
    /// A partition takes no writes any more.
    Freeze(PartitionId),
    /// It does again.
    Thaw(PartitionId),
}

/// What a fold changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Partitions that are new.
    Created(Vec<PartitionId>),
    /// Partitions that are gone.
    Dropped(Vec<PartitionId>),
    /// Something else.
    Altered,
    /// Nothing.
    Nothing,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            next: FIRST_NAMESPACE,
            namespaces: BTreeMap::new(),
            names: BTreeMap::new(),
            garbage: BTreeMap::new(),
            raises: BTreeMap::new(),
            at: None,
        }
    }
}

impl Namespace {
    fn new(id: NamespaceId, schema: Arc<Schema>) -> Self {
        Self { id, schema, frozen: BTreeSet::new(), projections: BTreeMap::new(), retired: BTreeMap::new() }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.schema.definition().name
    }

    /// Its partitions.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let (namespace, count) = (self.id, self.schema.definition().partitions.get());
        (0..count).map(move |index| PartitionId { namespace, index: PartitionIndex::new(index) })
    }

    /// Domains of a projection: one for each partition, or one for all.
    pub(crate) fn domains_of(
        &self,
        name: &Name,
        projection: &Projection,
    ) -> impl Iterator<Item = Domain> + use<> {
        let count = match projection.plan.scope {
            Scope::Workspace => usize::MAX,
            Scope::Namespace => 1,
        };
        let (name, version) = (name.clone(), projection.version);
        self.partitions().take(count).map(move |partition| Domain {
            projection: name.clone(),
            version,
            partition,
        })
    }

    /// Takes over the projections of its definition: those that are new begin at this entry.
    fn take_over(&mut self, index: LogIndex) {
        let definition = self.schema.definition();
        let gone: Vec<Name> = self
            .projections
            .keys()
            .filter(|name| !definition.projections.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(projection) = self.projections.remove(&name) {
                self.retired.insert(name, projection.version);
            }
        }
        for (name, text) in &definition.projections {
            if self.projections.contains_key(name) {
                continue;
            }
            let version = self.retired.remove(name).map_or(1, |last| last + 1);
            let plan = Arc::new(Plan::from_text(text).expect("it was checked"));
            self.projections.insert(name.clone(), Projection { version, since: index, plan });
        }
    }

    /// Names that projections have or had, with those of a definition.
    fn names_with(&self, definition: &Definition) -> usize {
        let names: BTreeSet<&Name> =
            self.projections.keys().chain(self.retired.keys()).chain(definition.projections.keys()).collect();
        names.len()
    }
}

impl Catalog {
    /// A namespace by its name.
    pub fn by_name(&self, name: &str) -> Option<&Namespace> {
        self.names.get(name).and_then(|id| self.namespaces.get(id))
    }

    /// A namespace by its id.
    pub fn by_id(&self, id: NamespaceId) -> Option<&Namespace> {
        self.namespaces.get(&id)
    }

    /// All of them, by id.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// Whether there is such a domain.
    pub(crate) fn has_domain(&self, domain: &Domain) -> bool {
        self.by_id(domain.partition.namespace).is_some_and(|namespace| {
            let projection = namespace.projections.get(&domain.projection);
            projection.is_some_and(|projection| {
                projection.version == domain.version
                    && namespace.domains_of(&domain.projection, projection).any(|known| known == *domain)
            })
        })
    }

    /// All domains of all projections.
    pub(crate) fn domains(&self) -> impl Iterator<Item = Domain> {
        self.namespaces.values().flat_map(|namespace| {
            let domains = |(name, projection)| namespace.domains_of(name, projection);
            namespace.projections.iter().flat_map(domains)
        })
    }

    /// All domains, each with its plan.
    pub(crate) fn planned_domains(&self) -> impl Iterator<Item = (Domain, Arc<Plan>)> {
        self.namespaces.values().flat_map(|namespace| {
            let planned = |(name, projection): (_, &Projection)| {
                let plan = projection.plan.clone();
                let domains: Vec<Domain> = namespace.domains_of(name, projection).collect();
                domains.into_iter().map(move |domain| (domain, plan.clone()))
            };
            namespace.projections.iter().flat_map(planned)
        })
    }

    /// All partitions of all of them.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.namespaces.values().flat_map(Namespace::partitions)
    }

    /// Namespaces that were dropped and may still be on disk.
    pub(crate) fn garbage(&self) -> Vec<NamespaceId> {
        self.garbage.keys().copied().collect()
    }

    pub(crate) fn forget_garbage(&mut self, namespace: NamespaceId) {
        self.garbage.remove(&namespace);
    }

    /// What an earlier catalog has, and this one has not, is still on disk.
    pub(crate) fn keep_garbage_of(&mut self, earlier: &Self) {
        let dropped = earlier.namespaces.values().map(|namespace| {
            let partitions = namespace.schema.definition().partitions.get();
            (namespace.id, partitions)
        });
        let garbage = earlier.garbage.iter().map(|(id, partitions)| (*id, *partitions));
        for (id, partitions) in dropped.chain(garbage) {
            if !self.namespaces.contains_key(&id) {
                self.garbage.insert(id, partitions);
            }
        }
    }

    /// The machine version in force.
    pub fn machine_version(&self) -> MachineVersion {
        self.raises.values().next_back().copied().unwrap_or(MachineVersion::FIRST)
    }

    /// The machine version of an entry: the one that was in force there.
    pub(crate) fn machine_version_at(&self, index: LogIndex) -> MachineVersion {
        self.raises.range(..=index).next_back().map_or(MachineVersion::FIRST, |(_, version)| *version)
    }

    /// Folds the machine version of an entry.
    pub(crate) fn raise(&mut self, version: MachineVersion, index: LogIndex) -> Change {
        if version <= self.machine_version() {
            return Change::Nothing;
        }
        self.raises.insert(index, version);
        Change::Altered
    }

    /// The last entry that is folded into it.
    pub(crate) fn at(&self) -> Option<LogIndex> {
        self.at
    }

    pub(crate) fn set_at(&mut self, at: LogIndex) {
        self.at = Some(at);
    }

    /// Under which id a definition has to be proposed.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn check(&self, definition: &Definition) -> Result<NamespaceId, Vec<String>> {
        check_plans(definition)?;
        match self.by_name(definition.name.as_str()) {
            Some(namespace) => {
                namespace.schema.redefine(definition.clone())?;
                let names = namespace.names_with(definition);
                if names > MAX_PROJECTIONS {
                    let reason = "with those that were removed";
                    return Err(vec![format!(
                        "{names} projections {reason}; the most are {MAX_PROJECTIONS}"
                    )]);
                }
                Ok(namespace.id)
            }
            None if self.namespaces.len() >= MAX_NAMESPACES => {
                Err(vec![format!("there are {MAX_NAMESPACES} namespaces, and there cannot be more")])
            }
            None => {
                Schema::first(definition.clone())?;
                Ok(NamespaceId::new(self.next))
            }
        }
    }

    /// Folds a definition that was proposed for this namespace with this entry.
    pub(crate) fn define(&mut self, id: NamespaceId, command: &Bytes, index: LogIndex) -> Change {
        let Ok(Command::Define(bytes)) = Command::decode(command) else { return Change::Nothing };
        let Ok(definition) = Definition::decode(bytes) else { return Change::Nothing };
        if self.check(&definition) != Ok(id) {
            return Change::Nothing;
        }
        let name = definition.name.clone();
        if let Some(namespace) = self.namespaces.get_mut(&id) {
            let schema = namespace.schema.redefine(definition).expect("it was checked");
            namespace.schema = Arc::new(schema);
            namespace.take_over(index);
            return Change::Altered;
        }
        let schema = Arc::new(Schema::first(definition).expect("it was checked"));
        let mut namespace = Namespace::new(id, schema);
        namespace.take_over(index);
        let created = namespace.partitions().collect();
        self.next += 1;
        self.names.insert(name, id);
        self.namespaces.insert(id, namespace);
        Change::Created(created)
    }

    /// Folds another command.
    pub(crate) fn command(&mut self, command: CatalogCommand) -> Change {
        match command {
            CatalogCommand::Drop(id) => match self.namespaces.remove(&id) {
                None => Change::Nothing,
                Some(namespace) => {
                    self.names.remove(namespace.name());
                    self.garbage.insert(id, namespace.schema.definition().partitions.get());
                    Change::Dropped(namespace.partitions().collect())
                }
            },
            CatalogCommand::Freeze(partition) => self.alter(partition, BTreeSet::insert),
            CatalogCommand::Thaw(partition) => self.alter(partition, |frozen, index| frozen.remove(&index)),
        }
    }

    fn alter(
        &mut self,
        partition: PartitionId,
        change: impl FnOnce(&mut BTreeSet<PartitionIndex>, PartitionIndex) -> bool,
    ) -> Change {
        let namespace = self.namespaces.get_mut(&partition.namespace);
        let known = namespace
            .filter(|namespace| partition.index.get() < namespace.schema.definition().partitions.get());
        match known.is_some_and(|namespace| change(&mut namespace.frozen, partition.index)) {
            true => Change::Altered,
            false => Change::Nothing,
        }
    }
}

/// Whether every projection has a plan.
fn check_plans(definition: &Definition) -> Result<(), Vec<String>> {
    let mut reasons = Vec::new();
    for (name, text) in &definition.projections {
        match Plan::from_text(text) {
            Ok(plan) if plan.to_text() == **text => {}
            Ok(_) => reasons.push(format!("the plan of projection {name} is not in its one form")),
            Err(errors) => reasons.extend(errors.iter().map(|error| format!("projection {name}: {error}"))),
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

impl CatalogCommand {
    /// Its bytes: version, what, namespace, partition.
    pub(crate) fn encode(self) -> Bytes {
        let (what, namespace, index) = match self {
            CatalogCommand::Drop(namespace) => (1, namespace, PartitionIndex::new(0)),
            CatalogCommand::Freeze(partition) => (2, partition.namespace, partition.index),
            CatalogCommand::Thaw(partition) => (3, partition.namespace, partition.index),
        };
        let mut bytes = vec![1, what];
        bytes.extend_from_slice(&namespace.get().to_le_bytes());
        bytes.extend_from_slice(&index.get().to_le_bytes());
        bytes.into()
    }

    /// A command; none if the bytes are not one that this program knows.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 8] = bytes.try_into().ok()?;
        let [1, what, n0, n1, n2, n3, i0, i1] = *bytes else { return None };
        let namespace = NamespaceId::new(u32::from_le_bytes([n0, n1, n2, n3]));
        let index = PartitionIndex::new(u16::from_le_bytes([i0, i1]));
        let partition = PartitionId { namespace, index };
        match what {
            1 if index.get() == 0 => Some(CatalogCommand::Drop(namespace)),
            2 => Some(CatalogCommand::Freeze(partition)),
            3 => Some(CatalogCommand::Thaw(partition)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
