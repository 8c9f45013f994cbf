//! Domains of projections as holders of the replicated log: what each still has to read of it is not cut.
//!
//! A domain consumes outcomes and commands of its own, which are in the replicated log alone. Its checkpoint says up to which entry it
//! needs neither again; until it says so, nothing from there on is cut (TRUNC-1).
//!
//! Invariants
//! - A domain holds the log until it is released by name: that its owner is gone says nothing of what it needs.
//!
//! Must not know: what domains compute.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gapless_types::LogIndex;

use crate::engine::Engine;
use crate::limits::MAX_DOMAINS;
use crate::retention::{Domain, DomainRefused};

/// What every domain still needs.
#[derive(Debug, Default)]
pub(crate) struct Domains(Mutex<Floors>);

/// The first entry that each domain still needs.
#[derive(Debug, Default)]
pub(crate) struct Floors(BTreeMap<Domain, LogIndex>);

impl Domains {
    pub(crate) fn new(floors: impl IntoIterator<Item = (Domain, LogIndex)>) -> Self {
        Self(Mutex::new(Floors(floors.into_iter().collect())))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Floors> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Floors {
    pub(crate) fn needs(&self) -> Vec<(Domain, LogIndex)> {
        self.0.iter().map(|(domain, from)| (domain.clone(), *from)).collect()
    }
}

impl Engine {
    /// Keeps the replicated log from an entry on for a domain. One that is known keeps what it has.
    ///
    /// # Errors
    /// If the entry may be cut off already, or there are too many domains.
    pub fn register_domain(&self, domain: Domain, from: LogIndex) -> Result<(), DomainRefused> {
        let mut floors = self.node().domains.lock();
        if floors.0.contains_key(&domain) {
            return Ok(());
        }
        let first_kept = self.retention().first_kept();
        if from < first_kept {
            return Err(DomainRefused::TooLate { first_kept, wanted: from });
        }
        if floors.0.len() >= MAX_DOMAINS {
            return Err(DomainRefused::TooMany);
        }
        floors.0.insert(domain, from);
        Ok(())
    }

    /// The durable checkpoint of a domain contains everything up to this entry. Going back is not possible, and changes nothing.
    pub fn domain_covers(&self, domain: &Domain, through: LogIndex) {
        if let Some(from) = self.node().domains.lock().0.get_mut(domain) {
            *from = through.next().unwrap_or(through).max(*from);
        }
    }

    /// A domain is gone, and needs nothing any more.
    pub fn release_domain(&self, domain: &Domain) {
        self.node().domains.lock().0.remove(domain);
    }
}
