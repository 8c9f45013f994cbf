//! What a node counts, in the text form of Prometheus.

use std::fmt::Write;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use gapless_engine::types::{LogIndex, PartitionOffset};

use super::Http;
use super::answer::with_type;

/// `GET /metrics`.
pub(super) fn response(http: &Http) -> Response<Body> {
    with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text(http))
}

fn text(http: &Http) -> String {
    let mut page = Page(String::new());
    let namespaces = http.engine.namespaces();
    let reports = http.engine.partitions();
    let label = |partition: gapless_engine::types::PartitionId| {
        let name = namespaces.iter().find(|namespace| namespace.id == partition.namespace);
        let name = name.map_or("", |namespace| namespace.name().as_str());
        format!("namespace=\"{name}\",partition=\"{}\"", partition.index)
    };
    let offset = |offset: Option<PartitionOffset>| offset.map_or(0, PartitionOffset::get);
    type Read = fn(&gapless_engine::PartitionReport) -> u64;
    let gauges: [(&str, &str, Read); 3] = [
        ("gapless_partition_enqueued_ops", "Entries that wait for a partition", |report| {
            report.queued_entries as u64
        }),
        ("gapless_partition_enqueued_bytes", "Bytes that wait for a partition", |report| report.queued_bytes),
        ("gapless_partition_backlog_age_ms", "How long the oldest of them has waited", |report| {
            u64::try_from(report.queued_for.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
        }),
    ];
    for (name, help, read) in gauges {
        page.begin(name, help, "gauge");
        for report in &reports {
            page.sample(name, &label(report.partition), read(report));
        }
    }
    page.begin("gapless_partition_offset", "How far a partition is, by mark", "gauge");
    for report in &reports {
        let marks = [
            ("highest", report.marks.highest),
            ("durable", report.marks.durable),
            ("applied", report.marks.applied),
            ("synced", report.marks.synced),
            ("checkpoint", report.marks.checkpoint),
            ("snapshot", report.marks.snapshot),
        ];
        for (mark, reached) in marks {
            page.sample(
                "gapless_partition_offset",
                &format!("{},mark=\"{mark}\"", label(report.partition)),
                offset(reached),
            );
        }
    }
    let progress = *http.engine.replicator().progress().borrow();
    let index = |index: Option<LogIndex>| index.map_or(0, LogIndex::get);
    page.one(
        "gapless_log_durable_index",
        "Last entry on stable storage here",
        "gauge",
        index(progress.durable),
    );
    page.one(
        "gapless_log_committed_index",
        "Last entry known to be committed",
        "gauge",
        index(progress.committed),
    );
    page.one(
        "gapless_log_dispatched_index",
        "Last entry handed to partitions",
        "gauge",
        index(progress.dispatched),
    );
    let counted = http.engine.statistics();
    page.one("gapless_writes_in_flight", "Writes without an outcome", "gauge", counted.in_flight as u64);
    page.one(
        "gapless_keys_recalled",
        "Outcomes that retries get from memory",
        "gauge",
        counted.recalled as u64,
    );
    page.one(
        "gapless_admitted_ops",
        "Writes admitted and not answered",
        "gauge",
        counted.admitted_operations,
    );
    page.one("gapless_admitted_bytes", "Bytes of them", "gauge", counted.admitted_bytes);
    page.one("gapless_memtable_bytes", "Rows that no checkpoint has yet", "gauge", counted.memtable_bytes);
    page.one("gapless_cached_bytes", "What is kept of files in memory", "gauge", counted.cached_bytes);
    page.one("gapless_proposals_total", "Entries proposed", "counter", counted.consensus.proposed);
    page.one(
        "gapless_proposals_refused_total",
        "Entries refused before they were appended",
        "counter",
        counted.consensus.refused,
    );
    page.one(
        "gapless_dispatched_total",
        "Entries handed to partitions",
        "counter",
        counted.consensus.dispatched,
    );
    page.0
}

struct Page(String);

impl Page {
    fn begin(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
    }

    fn one(&mut self, name: &str, help: &str, kind: &str, value: u64) {
        self.begin(name, help, kind);
        let _ = writeln!(self.0, "{name} {value}");
    }
}
