//! Every metric that a node has: its name with its unit, its kind, what it means, its labels. Defined here once; what is shown and
//! what is documented is made from it.
//!
//! Must not know: where values come from.

/// How a value moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only up, from 0 when the node starts.
    Counter,
    /// Up and down.
    Gauge,
    /// How often something fell below each of a few bounds.
    Histogram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

/// Metrics that belong together.
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) metrics: &'static [&'static Metric],
}

macro_rules! metrics {
    ($($title:literal { $($constant:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)* })*) => {
        $($(
            pub(super) const $constant: &Metric =
                &Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };
        )*)*

        /// All of them, in the order in which they are shown.
        pub(super) const GROUPS: &[Group] = &[$(Group { title: $title, metrics: &[$($constant),*] }),*];
    };
}

metrics! {
    "Partitions" {
        PARTITIONS Gauge "gapless_partitions" ["state"] "Partitions of this node, by state";
        PARTITIONS_OMITTED Gauge "gapless_partitions_omitted" [] "Partitions that are too many to be shown one by one";
        ENQUEUED_OPS Gauge "gapless_partition_enqueued_ops" ["namespace", "partition"] "Entries that wait to be applied";
        ENQUEUED_BYTES Gauge "gapless_partition_enqueued_bytes" ["namespace", "partition"] "Bytes that wait to be applied";
        BACKLOG_AGE Gauge "gapless_partition_backlog_age_ms" ["namespace", "partition"] "How long the oldest of them has waited, in milliseconds";
        DURABLE_INDEX Gauge "gapless_partition_durable_index" ["namespace", "partition"] "Last partition offset whose command is on stable storage here";
        APPLIED_INDEX Gauge "gapless_partition_applied_index" ["namespace", "partition"] "Last partition offset that has its outcome";
        APPLIED_GLOBAL Gauge "gapless_partition_applied_global" ["namespace", "partition"] "Log index up to which everything for the partition has its outcome";
        PARTITION_OFFSET Gauge "gapless_partition_offset" ["namespace", "partition", "mark"] "Partition offset that each watermark has reached";
        KNOWN_KEYS Gauge "gapless_partition_known_keys" ["namespace", "partition"] "Idempotency keys that are known, expired ones among them";
        DETACHMENTS Counter "gapless_partition_detachments_total" ["namespace", "partition"] "Times that the partition fell so far behind that it read from the replicated log";
        LOG_REOPENINGS Counter "gapless_partition_log_reopenings_total" ["namespace", "partition"] "Times that the partition and its log were opened again after a failure; a failed sync is never repeated";
    }
    "Writes" {
        WRITES Counter "gapless_writes_total" ["outcome"] "Writes that were answered with an outcome: committed, or refused by a rule";
        RETRIES Counter "gapless_retries_total" ["answered_by"] "Writes with a key that was used before: answered from memory, by joining the first one, or by the partition";
        REPROPOSALS Counter "gapless_reproposals_total" [] "Writes that came to nothing on the way, and were proposed again";
        REJECTS Counter "gapless_admission_rejects_total" ["scope", "limit"] "Writes that were not let in, by the limit that was reached";
        IN_FLIGHT Gauge "gapless_writes_in_flight" [] "Writes that were proposed and have no outcome yet";
        KEYS_IN_FLIGHT Gauge "gapless_keys_in_flight" [] "Keys that are in flight, also those that nobody waits for any more";
        KEYS_RECALLED Gauge "gapless_keys_recalled" [] "Outcomes that retries get from memory";
        ADMITTED_OPS Gauge "gapless_admitted_ops" [] "Writes that are admitted and not answered";
        ADMITTED_BYTES Gauge "gapless_admitted_bytes" [] "Bytes of them";
    }
    "Projections" {
        PROJECTION_DOMAINS Gauge "gapless_projection_domains" ["state"] "Domains of this node, by state";
        PROJECTION_DOMAINS_OMITTED Gauge "gapless_projection_domains_omitted" [] "Domains that are too many to be shown one by one";
        PROJECTION_GRANTED Counter "gapless_projection_granted_total" ["namespace", "projection", "partition"] "Slots that were leased, allocated ones among them";
        PROJECTION_COMMITTED Counter "gapless_projection_committed_total" ["namespace", "projection", "partition"] "Slots whose effect was applied";
        PROJECTION_EXPIRED Counter "gapless_projection_expired_total" ["namespace", "projection", "partition"] "Leases that ran out";
        PROJECTION_RELEASED Counter "gapless_projection_released_total" ["namespace", "projection", "partition"] "Leases that were given back";
        PROJECTION_FAILED Counter "gapless_projection_failed_total" ["namespace", "projection", "partition"] "Leases that ended with an error";
        PROJECTION_CONFLICTED Counter "gapless_projection_conflicted_total" ["namespace", "projection", "partition"] "Commits that were sent back because a row they had read was changed";
        PROJECTION_VOIDED Counter "gapless_projection_voided_total" ["namespace", "projection", "partition"] "Leases and staged commits whose slot was filled by somebody else";
        PROJECTION_FENCED Counter "gapless_projection_fenced_total" ["namespace", "projection", "partition"] "Requests that were refused because of an old token";
        PROJECTION_FILLED Counter "gapless_projection_filled_total" ["namespace", "projection", "partition"] "Slots that were filled";
        PROJECTION_DEAD_LETTERS Counter "gapless_projection_dead_letters_total" ["namespace", "projection", "partition"] "Slots with an event that were filled: it had no effect";
        PROJECTION_WINDOW_REFUSALS Counter "gapless_projection_window_refusals_total" ["namespace", "projection", "partition"] "Allocations that were refused because too many slots lie above the watermark";
        PROJECTION_CORRECTIONS Counter "gapless_projection_corrections_total" ["namespace", "projection", "partition"] "Slots whose matches were corrected when their turn came";
        PROJECTION_WAIT Counter "gapless_projection_wait_ms_total" ["namespace", "projection", "partition"] "Milliseconds that committed slots waited for lower ones";
        PROJECTION_HELD Counter "gapless_projection_held_ms_total" ["namespace", "projection", "partition"] "Milliseconds that ended leases were held";
        PROJECTION_GRANTED_MS Counter "gapless_projection_granted_ms_total" ["namespace", "projection", "partition"] "Milliseconds that leases were granted for";
        PROJECTION_REOPENINGS Counter "gapless_projection_reopenings_total" ["namespace", "projection", "partition"] "Times that the domain was opened again after a failure";
        PROJECTION_ACTIVE Gauge "gapless_projection_active" ["namespace", "projection", "partition"] "Slots that somebody works on";
        PROJECTION_WAITING Gauge "gapless_projection_waiting" ["namespace", "projection", "partition"] "Commits that wait for lower slots";
        PROJECTION_EXPIRED_AT_ONCE Gauge "gapless_projection_expired_at_once" ["namespace", "projection", "partition"] "Leases that ran out together, the last time any did";
        PROJECTION_WATERMARK Gauge "gapless_projection_watermark" ["namespace", "projection", "partition"] "Slot up to which everything is visible";
        PROJECTION_TAIL Gauge "gapless_projection_tail" ["namespace", "projection", "partition"] "Last slot";
        PROJECTION_LAG Gauge "gapless_projection_lag_events" ["namespace", "projection", "partition"] "Slots that are not resolved";
        PROJECTION_LAG_MS Gauge "gapless_projection_lag_ms" ["namespace", "projection", "partition"] "Age of the oldest of them in milliseconds of log time";
        PROJECTION_QUEUED Gauge "gapless_projection_queued_entries" ["namespace", "projection", "partition"] "Entries of the replicated log that wait for the domain";
        PROJECTION_HALTED Gauge "gapless_projection_halted" ["namespace", "projection", "partition"] "1 if the domain waits for an operator";
        PROJECTION_BLOCKING_SLOT Gauge "gapless_projection_blocking_slot" ["namespace", "projection", "partition"] "The slot that everything above it waits for; 0 if there is none";
        PROJECTION_BLOCKING_TOKEN Gauge "gapless_projection_blocking_token" ["namespace", "projection", "partition"] "Its newest token, the id of the operation; 0 before it is granted";
        PROJECTION_BLOCKING_ATTEMPT Gauge "gapless_projection_blocking_attempt" ["namespace", "projection", "partition"] "Which attempt at it is the newest";
        PROJECTION_EFFICIENCY Gauge "gapless_projection_efficiency_ratio" ["namespace", "projection", "partition"] "Committed of what was committed or expired; 1 before anything was";
        PROJECTION_UTILIZATION Gauge "gapless_projection_utilization_ratio" ["namespace", "projection", "partition"] "How much of the time that was granted leases were held";
    }
    "The replicated log" {
        LOG_FIRST Gauge "gapless_log_first_index" [] "First entry that is kept";
        LOG_LAST Gauge "gapless_log_last_index" [] "Last entry, durable or not";
        LOG_DURABLE Gauge "gapless_log_durable_index" [] "Last entry on stable storage here";
        LOG_COMMITTED Gauge "gapless_log_committed_index" [] "Last entry known to be committed";
        LOG_DISPATCHED Gauge "gapless_log_dispatched_index" [] "Last entry handed to partitions";
        SYNC_LATENCY Histogram "gapless_log_sync_seconds" [] "How long syncs took";
        LOG_BYTES Counter "gapless_log_written_bytes_total" [] "Bytes written, with headers and padding";
        LOG_RECORDS Counter "gapless_log_records_total" [] "Records written";
        LOG_FRAMES Counter "gapless_log_frames_total" [] "Frames written: records that share a sync share a frame";
        LOG_SEGMENTS Gauge "gapless_log_segments" [] "Segments there are";
        LOG_QUEUED Gauge "gapless_log_queued_bytes" [] "Bytes that wait to be written";
        LOG_SCRUBBED Counter "gapless_log_scrubbed_bytes_total" [] "Bytes that were read again to find damage";
        LOG_CHECKSUM Counter "gapless_log_checksum_errors_total" [] "Records or frames that did not match their checksum when they were read";
    }
    "Consensus" {
        TERM Gauge "gapless_consensus_term" [] "Newest term this node has seen";
        IS_LEADER Gauge "gapless_consensus_is_leader" [] "1 if this node leads and takes writes";
        LEADER Gauge "gapless_consensus_leader_node" [] "Id of the node that leads, as seen here; 0 if nobody is known to";
        VOTERS Gauge "gapless_consensus_voters" [] "Members that vote";
        STOPPED Gauge "gapless_consensus_stopped" [] "1 if the node has stopped because its log failed";
        ELECTIONS Counter "gapless_consensus_elections_total" [] "Times that a leader was seen to be elected";
        REPLICATION_LAG Gauge "gapless_consensus_replication_lag_entries" ["node"] "Entries that a member has not got, as its leader knows; a member that is no leader shows itself";
        PROPOSALS Counter "gapless_proposals_total" [] "Entries proposed";
        PROPOSALS_REFUSED Counter "gapless_proposals_refused_total" [] "Entries refused before they were appended";
        DISPATCHED Counter "gapless_dispatched_total" [] "Entries handed to partitions";
        SNAPSHOTS Counter "gapless_consensus_snapshots_total" ["action"] "Snapshots published here, and snapshots of others installed here";
    }
    "Requests" {
        REQUESTS Counter "gapless_requests_total" ["protocol", "method", "status"] "Calls that ended, by the status they ended with";
        REQUEST_SECONDS Histogram "gapless_request_seconds" ["protocol", "method", "status"] "How long calls took, from the headers of the request to the last byte of the answer";
        REQUESTS_IN_FLIGHT Gauge "gapless_requests_in_flight" ["protocol", "method"] "Calls that have not ended";
        STREAMS Gauge "gapless_streams" [] "Of those, how many are streams";
        SUBSCRIBERS Gauge "gapless_subscribers" [] "Of those, how many follow what happens";
        UNSENT_BYTES Gauge "gapless_unsent_bytes" [] "Bytes of answers that are read and not sent yet";
        CONNECTIONS Gauge "gapless_connections" [] "Connections that are open";
        CONNECTIONS_ACCEPTED Counter "gapless_connections_accepted_total" [] "Connections that were accepted";
        CONNECTIONS_SILENT Counter "gapless_connections_silent_total" [] "Connections that were closed because they said nothing";
        CONNECTIONS_CROWDED Counter "gapless_connections_crowded_total" [] "Connections that were closed at once because their address had too many";
        CONNECTIONS_DISPLACED Counter "gapless_connections_displaced_total" [] "Connections on which nobody was believed that made room for others";
        CONNECTIONS_FICKLE Counter "gapless_connections_fickle_total" [] "Connections that were closed because they broke off one call after the other";
        HANDSHAKES_FAILED Counter "gapless_tls_handshakes_failed_total" [] "Connections that did not get through the handshake of TLS";
        AUTHENTICATIONS_REFUSED Counter "gapless_authentications_refused_total" [] "Requests without a credible token or certificate";
        PERMISSIONS_DENIED Counter "gapless_permissions_denied_total" [] "Requests of somebody who may not";
        AUDIT_UNWRITTEN Counter "gapless_audit_unwritten_total" [] "What should be in the audit and is not";
        RELOADS Counter "gapless_reloads_total" ["result"] "Changed files of certificates and keys: taken over, or of no use and what was before kept";
        ACCEPT_ERRORS Counter "gapless_accept_errors_total" [] "Times that the system could not accept a connection";
    }
    "Memory and process" {
        MEMTABLES Gauge "gapless_memtable_bytes" [] "Rows that no checkpoint has yet, of all partitions";
        CACHED Gauge "gapless_cached_bytes" [] "What is kept of the files of stores, of all partitions";
        RESIDENT Gauge "process_resident_memory_bytes" [] "Memory that the process occupies";
        OPEN_FDS Gauge "process_open_fds" [] "Files and sockets that the process has open";
        START_TIME Gauge "process_start_time_seconds" [] "When the node started, in seconds since 1970";
        UPTIME Gauge "gapless_uptime_seconds" [] "How long ago the node started";
        READY Gauge "gapless_ready" [] "1 if the node serves";
        BUILD Gauge "gapless_build_info" ["version"] "Always 1; its label says what runs";
        SPANS Counter "gapless_spans_total" [] "Spans that were handed over to be exported";
        SPANS_DROPPED Counter "gapless_spans_dropped_total" [] "Spans that were dropped because the buffer was full or their collector did not take them";
        ALARMS Gauge "gapless_alarms" [] "Different things that an operator should see, since the node started";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> impl Iterator<Item = &'static Metric> {
        GROUPS.iter().flat_map(|group| group.metrics.iter().copied())
    }

    #[test]
    fn every_metric_has_its_own_name_and_what_names_promise() {
        let mut names = BTreeSet::new();
        for metric in all() {
            assert!(names.insert(metric.name), "{} is defined twice", metric.name);
            let counts = metric.name.ends_with("_total");
            assert_eq!(counts, metric.kind == Kind::Counter, "{}: a counter ends with _total", metric.name);
            assert!(!metric.help.ends_with('.') && !metric.help.contains(['\\', '\n']), "{}", metric.name);
            let word = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(word(metric.name) && metric.labels.iter().all(|label| word(label)), "{}", metric.name);
            assert!(!metric.labels.contains(&"le"), "{}: that label belongs to histograms", metric.name);
        }
    }

    #[test]
    fn what_the_design_names_is_there() {
        for name in [
            "enqueued_ops",
            "enqueued_bytes",
            "backlog_age_ms",
            "durable_index",
            "applied_index",
            "applied_global",
        ] {
            assert!(all().any(|metric| metric.name == format!("gapless_partition_{name}")), "{name}");
        }
    }
}
