//! Where the values come from: every metric that is defined, read once for a page.
//!
//! Must not know: how a page is written.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use gapless_engine::types::{LogIndex, PartitionOffset};
use gapless_engine::{Engine, PartitionReport, PartitionState, Statistics};

use super::Metrics;
use super::definitions::*;
use super::histogram::Distribution;
use super::page::Page;
use super::process::{open_files, resident_bytes};
use super::projections::projections;

/// Most partitions that are shown one by one. More would be a page that nobody can scrape.
const MAX_SHOWN_PARTITIONS: usize = 4096;

const STATES: [&str; 6] = ["actualizing", "serving", "catching_up", "failed", "quarantined", "closed"];

/// A partition, and what it is called.
struct Labelled {
    namespace: String,
    index: String,
    report: PartitionReport,
}

/// Every metric, as it is now.
pub(super) fn page(metrics: &Metrics, engine: &Engine) -> String {
    let mut page = Page::default();
    let counted = engine.statistics();
    partitions(&mut page, engine);
    writes(&mut page, &counted);
    projections(&mut page, engine);
    log(&mut page, engine, &counted);
    consensus(&mut page, engine, &counted);
    requests(&mut page, metrics);
    process(&mut page, metrics, engine, &counted);
    page.finish()
}

fn partitions(page: &mut Page, engine: &Engine) {
    let reports = engine.partitions();
    let mut states: BTreeMap<&str, u64> = STATES.iter().map(|state| (*state, 0)).collect();
    for report in &reports {
        *states.entry(state(&report.state)).or_default() += 1;
    }
    let mut family = page.family(PARTITIONS);
    for (state, count) in states {
        family.sample(&[state], count);
    }
    page.one(PARTITIONS_OMITTED, reports.len().saturating_sub(MAX_SHOWN_PARTITIONS));
    let names: BTreeMap<_, String> = engine
        .namespaces()
        .iter()
        .map(|namespace| (namespace.id, namespace.name().as_str().to_owned()))
        .collect();
    let label = |report: PartitionReport| Labelled {
        namespace: names.get(&report.partition.namespace).cloned().unwrap_or_default(),
        index: report.partition.index.to_string(),
        report,
    };
    let shown: Vec<Labelled> = reports.into_iter().take(MAX_SHOWN_PARTITIONS).map(label).collect();
    for (metric, read) in BY_PARTITION {
        let mut family = page.family(metric);
        for Labelled { namespace, index, report } in &shown {
            family.sample(&[namespace, index], read(report));
        }
    }
    let mut family = page.family(PARTITION_OFFSET);
    for Labelled { namespace, index, report } in &shown {
        let marks = [
            ("highest", report.marks.highest),
            ("durable", report.marks.durable),
            ("applied", report.marks.applied),
            ("synced", report.marks.synced),
            ("checkpoint", report.marks.checkpoint),
            ("snapshot", report.marks.snapshot),
        ];
        for (mark, reached) in marks {
            family.sample(&[namespace, index, mark], offset(reached));
        }
    }
}

/// A metric, and what it reads of a partition.
type Read = (&'static Metric, fn(&PartitionReport) -> u64);

/// What is read of each partition.
const BY_PARTITION: [Read; 9] = [
    (ENQUEUED_OPS, |report| report.queued_entries as u64),
    (ENQUEUED_BYTES, |report| report.queued_bytes),
    (BACKLOG_AGE, |report| {
        u64::try_from(report.queued_for.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }),
    (DURABLE_INDEX, |report| offset(report.marks.durable)),
    (APPLIED_INDEX, |report| offset(report.marks.applied)),
    (APPLIED_GLOBAL, |report| index(report.applied_through)),
    (KNOWN_KEYS, |report| report.known_keys),
    (DETACHMENTS, |report| report.detachments),
    (LOG_REOPENINGS, |report| report.reopenings),
];

fn writes(page: &mut Page, counted: &Statistics) {
    let writes = &counted.writes;
    page.family(WRITES).sample(&["committed"], writes.committed).sample(&["refused"], writes.refused);
    page.family(RETRIES)
        .sample(&["memory"], writes.recalled)
        .sample(&["joining"], writes.joined)
        .sample(&["partition"], writes.duplicates);
    page.one(REPROPOSALS, writes.proposed_again);
    let mut family = page.family(REJECTS);
    for rejected in &writes.rejected {
        family.sample(&[rejected.scope, rejected.limit], rejected.count);
    }
    page.one(IN_FLIGHT, counted.in_flight);
    page.one(KEYS_IN_FLIGHT, counted.keys_in_flight);
    page.one(KEYS_RECALLED, counted.recalled);
    page.one(ADMITTED_OPS, counted.admitted_operations);
    page.one(ADMITTED_BYTES, counted.admitted_bytes);
}

fn log(page: &mut Page, engine: &Engine, counted: &Statistics) {
    let progress = *engine.replicator().progress().borrow();
    page.one(LOG_FIRST, index(progress.first_kept));
    page.one(LOG_LAST, index(progress.appended));
    page.one(LOG_DURABLE, index(progress.durable));
    page.one(LOG_COMMITTED, index(progress.committed));
    page.one(LOG_DISPATCHED, index(progress.dispatched));
    let log = &counted.consensus.log;
    page.family(SYNC_LATENCY).distribution(&[], &Distribution::of_syncs(log));
    page.one(LOG_BYTES, log.bytes_written);
    page.one(LOG_RECORDS, log.records);
    page.one(LOG_FRAMES, log.frames);
    page.one(LOG_SEGMENTS, log.segments);
    page.one(LOG_QUEUED, log.queued_bytes);
    page.one(LOG_SCRUBBED, log.scrubbed_bytes);
    page.one(LOG_CHECKSUM, log.checksum_errors);
}

fn consensus(page: &mut Page, engine: &Engine, counted: &Statistics) {
    let replicator = engine.replicator();
    let leadership = replicator.leadership().borrow().clone();
    page.one(TERM, leadership.term.get());
    page.one(IS_LEADER, u8::from(leadership.is_ready()));
    page.one(LEADER, leadership.leader.as_ref().map_or(0, |leader| leader.node.get()));
    page.one(VOTERS, replicator.members().all_voters().len());
    page.one(STOPPED, u8::from(leadership.stopped.is_some()));
    let consensus = &counted.consensus;
    page.one(ELECTIONS, consensus.elections);
    let progress = *replicator.progress().borrow();
    let count = |index: Option<LogIndex>| index.map_or(0, |index| index.get() + 1);
    let mut family = page.family(REPLICATION_LAG);
    if consensus.followers.is_empty() {
        let behind = count(progress.committed).saturating_sub(count(progress.durable));
        family.sample(&[&engine.id().to_string()], behind);
    }
    for (node, has) in &consensus.followers {
        family.sample(&[&node.to_string()], count(progress.appended).saturating_sub(count(*has)));
    }
    page.one(PROPOSALS, consensus.proposed);
    page.one(PROPOSALS_REFUSED, consensus.refused);
    page.one(DISPATCHED, consensus.dispatched);
    page.family(SNAPSHOTS)
        .sample(&["published"], consensus.snapshots_built)
        .sample(&["installed"], consensus.snapshots_installed);
}

fn requests(page: &mut Page, metrics: &Metrics) {
    let traffic = &metrics.traffic;
    let mut family = page.family(REQUESTS);
    for call in traffic.shown() {
        for (status, ended) in call.endings() {
            family.sample(&[call.protocol, call.method, status], ended.count());
        }
    }
    let mut family = page.family(REQUEST_SECONDS);
    for call in traffic.shown() {
        for (status, ended) in call.endings() {
            family.distribution(&[call.protocol, call.method, status], &ended);
        }
    }
    let mut family = page.family(REQUESTS_IN_FLIGHT);
    for call in traffic.shown().filter(|call| call.running > 0) {
        family.sample(&[call.protocol, call.method], call.running);
    }
    let streams: u64 = traffic.shown().filter(|call| call.is_stream).map(|call| call.running).sum();
    let follow: u64 = traffic.shown().filter(|call| call.follows).map(|call| call.running).sum();
    page.one(STREAMS, streams);
    page.one(SUBSCRIBERS, follow);
    page.one(UNSENT_BYTES, metrics.unsent.bytes());
    page.one(CONNECTIONS, traffic.connections.load(Relaxed));
    page.one(CONNECTIONS_ACCEPTED, traffic.accepted.load(Relaxed));
    page.one(CONNECTIONS_SILENT, traffic.silent.load(Relaxed));
    page.one(CONNECTIONS_CROWDED, traffic.crowded.load(Relaxed));
    page.one(CONNECTIONS_DISPLACED, traffic.displaced.load(Relaxed));
    page.one(CONNECTIONS_FICKLE, traffic.fickle.load(Relaxed));
    page.one(HANDSHAKES_FAILED, traffic.handshakes_failed.load(Relaxed));
    let strangers = metrics.audit.counters();
    page.one(AUTHENTICATIONS_REFUSED, strangers.refused.load(Relaxed));
    page.one(PERMISSIONS_DENIED, strangers.denied.load(Relaxed));
    page.one(AUDIT_UNWRITTEN, strangers.unwritten.load(Relaxed));
    page.family(RELOADS)
        .sample(&["renewed"], metrics.reloads.renewed.load(Relaxed))
        .sample(&["kept"], metrics.reloads.kept.load(Relaxed));
    page.one(ACCEPT_ERRORS, traffic.accept_errors.load(Relaxed));
}

fn process(page: &mut Page, metrics: &Metrics, engine: &Engine, counted: &Statistics) {
    page.one(MEMTABLES, counted.memtable_bytes);
    page.one(CACHED, counted.cached_bytes);
    page.one(RESIDENT, resident_bytes());
    page.one(OPEN_FDS, open_files());
    page.one(START_TIME, metrics.started.unix_seconds());
    page.one(UPTIME, metrics.started.uptime_seconds());
    page.one(READY, u8::from(metrics.readiness.borrow().is_ready()));
    page.family(BUILD).sample(&[env!("CARGO_PKG_VERSION")], 1);
    page.one(SPANS, metrics.spans.exported.load(Relaxed));
    page.one(SPANS_DROPPED, metrics.spans.dropped.load(Relaxed));
    page.one(ALARMS, engine.alarms().len());
}

fn state(state: &PartitionState) -> &'static str {
    match state {
        PartitionState::Actualizing => STATES[0],
        PartitionState::Serving => STATES[1],
        PartitionState::CatchingUp => STATES[2],
        PartitionState::Failed(_) => STATES[3],
        PartitionState::Quarantined(_) => STATES[4],
        PartitionState::Closed => STATES[5],
    }
}

fn offset(offset: Option<PartitionOffset>) -> u64 {
    offset.map_or(0, PartitionOffset::get)
}

fn index(index: Option<LogIndex>) -> u64 {
    index.map_or(0, LogIndex::get)
}
