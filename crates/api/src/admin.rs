//! Every call of the service Admin, as an engine answers it.
//!
//! Must not know: sockets, who asks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gapless_engine::types::{LogIndex, PartitionOffset};
use gapless_engine::{Engine, PartitionReport, PartitionState};

use crate::backup::BackupPlaces;
use crate::check::Check;
use crate::nodes::OtherNodes;
use crate::page;
use crate::problem::{Problem, ProblemKind};
use crate::reading::partition_at;
use crate::unknown;
use crate::v1;

/// Longest definition of a namespace, in bytes.
pub const MAX_DEFINITION_BYTES: usize = 1 << 20;

/// The calls of the service Admin. Clones ask the same engine.
#[derive(Clone, Debug)]
pub struct AdminCalls {
    pub(crate) engine: Engine,
    /// As the server is called by others.
    pub(crate) version: &'static str,
    pub(crate) other_nodes: OtherNodes,
    /// Where backups may lie.
    pub(crate) backups: BackupPlaces,
    connections: Arc<AtomicU64>,
}

impl AdminCalls {
    /// The calls, answered by this engine.
    pub fn new(engine: Engine, version: &'static str, other_nodes: OtherNodes) -> Self {
        let backups = BackupPlaces::default();
        Self { engine, version, other_nodes, backups, connections: Arc::default() }
    }

    /// The same, with other places for backups.
    #[must_use]
    pub fn with_backups(self, backups: BackupPlaces) -> Self {
        Self { backups, ..self }
    }

    /// How many are connected, kept by whoever accepts them.
    pub fn connections(&self) -> Arc<AtomicU64> {
        self.connections.clone()
    }

    /// How every partition that whoever asks may see does on this node.
    ///
    /// # Errors
    /// If the request breaks rules, or there is no such namespace.
    pub fn list_partitions(
        &self,
        request: &v1::ListPartitionsRequest,
        may_see: impl Fn(&str) -> bool,
    ) -> Result<v1::ListPartitionsResponse, Problem> {
        let mut check = Check::default();
        let size = check.page_size(request.page_size);
        if !request.namespace.is_empty() {
            check.name("namespace", &request.namespace);
        }
        let question: [&[u8]; 2] = [b"partitions", request.namespace.as_bytes()];
        let after = page::number(&question, &request.page_token, &mut check);
        check.end()?;
        let namespaces = self.engine.namespaces();
        let only = match request.namespace.as_str() {
            "" => None,
            name => {
                Some(self.engine.namespace(name).ok_or_else(|| unknown::namespace(&self.engine, name))?.id)
            }
        };
        let place = |report: &PartitionReport| {
            u64::from(report.partition.namespace.get()) << 16 | u64::from(report.partition.index.get())
        };
        let mut found = self.engine.partitions();
        found.sort_by_key(place);
        let hidden: BTreeSet<_> = namespaces
            .iter()
            .filter(|namespace| !may_see(namespace.name().as_str()))
            .map(|namespace| namespace.id)
            .collect();
        found.retain(|report| {
            only.is_none_or(|only| report.partition.namespace == only)
                && after.is_none_or(|after| place(report) > after)
                && !hidden.contains(&report.partition.namespace)
        });
        let has_more = found.len() > size;
        found.truncate(size);
        let next_page_token = match found.last() {
            Some(last) if has_more => page::token(&question, &place(last).to_le_bytes()),
            _ => String::new(),
        };
        // One that was dropped a moment ago has no name any more.
        let named = |report: PartitionReport| {
            let namespace = namespaces.iter().find(|namespace| namespace.id == report.partition.namespace)?;
            let frozen = namespace.frozen.contains(&report.partition.index);
            Some(partition(namespace.name().as_str(), &report, frozen))
        };
        let partitions = found.into_iter().filter_map(named).collect();
        Ok(v1::ListPartitionsResponse { partitions, next_page_token })
    }

    /// Lets a partition take no writes any more.
    ///
    /// # Errors
    /// If there is none, or this node does not lead.
    pub async fn freeze_partition(
        &self,
        request: &v1::FreezePartitionRequest,
    ) -> Result<v1::FreezePartitionResponse, Problem> {
        let partition = self.partition(&request.namespace, request.partition)?;
        self.engine.freeze(partition).await?;
        Ok(v1::FreezePartitionResponse {})
    }

    /// Lets a partition take writes again.
    ///
    /// # Errors
    /// If there is none, or this node does not lead.
    pub async fn thaw_partition(
        &self,
        request: &v1::ThawPartitionRequest,
    ) -> Result<v1::ThawPartitionResponse, Problem> {
        let partition = self.partition(&request.namespace, request.partition)?;
        self.engine.thaw(partition).await?;
        Ok(v1::ThawPartitionResponse {})
    }

    pub(crate) fn partition(
        &self,
        namespace: &str,
        index: u32,
    ) -> Result<gapless_engine::types::PartitionId, Problem> {
        let mut check = Check::default();
        check.name("namespace", namespace);
        let index = check.partition("partition", index);
        check.end()?;
        Ok(partition_at(&self.engine, namespace, index)?.partition)
    }

    /// Publishes a snapshot of everything that was dispatched here.
    ///
    /// # Errors
    /// If there is nothing yet, or the node has stopped.
    pub async fn snapshot(&self, _: &v1::SnapshotRequest) -> Result<v1::SnapshotResponse, Problem> {
        let published = self.engine.replicator().snapshot().await;
        let index = published
            .map_err(|error| Problem::new(ProblemKind::Unavailable, "NO_SNAPSHOT", error.to_string()))?;
        Ok(v1::SnapshotResponse { log_index: index.get() })
    }

    /// Who leads, who belongs to the cluster, and how far this node is.
    pub fn cluster_status(&self, _: &v1::ClusterStatusRequest) -> v1::ClusterStatusResponse {
        let replicator = self.engine.replicator();
        let members = replicator.members();
        let voters = members.all_voters();
        let leadership = replicator.leadership().borrow().clone();
        let progress = *replicator.progress().borrow();
        let node = |(node, address): (&gapless_engine::NodeId, &String)| v1::Node {
            node_id: node.get(),
            address: address.clone(),
            voter: voters.contains(node),
        };
        let leader = leadership.leader.as_ref();
        let index = |index: Option<LogIndex>| index.map(LogIndex::get);
        v1::ClusterStatusResponse {
            node_id: self.engine.id().get(),
            term: leadership.term.get(),
            leader: leader.map(|leader| v1::Node {
                node_id: leader.node.get(),
                address: leader.address.clone(),
                voter: true,
            }),
            is_leader: leadership.is_self,
            takes_writes: leadership.is_ready(),
            nodes: members.addresses.iter().map(node).collect(),
            first_kept_index: index(progress.first_kept),
            appended_index: index(progress.appended),
            durable_index: index(progress.durable),
            committed_index: index(progress.committed),
            dispatched_index: index(progress.dispatched),
            snapshot_index: index(progress.snapshot),
            alarms: self.engine.alarms(),
            version: self.version.to_owned(),
            resources: Some(self.resources()),
        }
    }

    fn resources(&self) -> v1::NodeResources {
        let counted = self.engine.statistics();
        v1::NodeResources {
            writes_in_flight: counted.in_flight as u64,
            admitted_bytes: counted.admitted_bytes,
            memtable_bytes: counted.memtable_bytes,
            cached_bytes: counted.cached_bytes,
            connections: self.connections.load(Ordering::Relaxed),
        }
    }

    /// What this server cannot do, and why.
    pub(crate) fn not_yet(what: &str, why: &str) -> Problem {
        Problem::new(
            ProblemKind::Unimplemented,
            "NOT_IMPLEMENTED",
            format!("{what} is not possible yet: {why}"),
        )
    }
}

/// Why a partition is frozen that nobody froze.
const STUCK: &str = "it does not move: what it should apply waits for longer than `admission.frozen_age`";

fn partition(namespace: &str, report: &PartitionReport, frozen: bool) -> v1::Partition {
    use v1::PartitionState as State;
    let (state, reason) = match &report.state {
        PartitionState::Actualizing => (State::Actualizing, ""),
        PartitionState::Serving => (State::Serving, ""),
        PartitionState::CatchingUp => (State::CatchingUp, ""),
        PartitionState::Failed(reason) => (State::Failed, &**reason),
        PartitionState::Quarantined(reason) => (State::Quarantined, &**reason),
        PartitionState::Closed => (State::Closed, ""),
    };
    let reason = if report.is_stuck && reason.is_empty() { STUCK } else { reason };
    let offset = |offset: Option<PartitionOffset>| offset.map_or(0, PartitionOffset::get);
    let age = report.queued_for.unwrap_or_default().as_millis();
    v1::Partition {
        namespace: namespace.to_owned(),
        partition: u32::from(report.partition.index.get()),
        state: state.into(),
        reason: reason.to_owned(),
        frozen: frozen || report.is_stuck,
        highest_offset: offset(report.marks.highest),
        durable_offset: offset(report.marks.durable),
        applied_offset: offset(report.marks.applied),
        synced_offset: offset(report.marks.synced),
        checkpoint_offset: offset(report.marks.checkpoint),
        snapshot_offset: offset(report.marks.snapshot),
        backlog_entries: report.queued_entries as u64,
        backlog_bytes: report.queued_bytes,
        backlog_age_ms: u64::try_from(age).unwrap_or(u64::MAX),
        detachments: report.detachments,
    }
}
