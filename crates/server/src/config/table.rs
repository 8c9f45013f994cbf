//! Every setting: its name, what it is, what its values look like, where it goes.

use gapless_types::limits::{MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES};
use toml::Value;

use super::Settings;
use super::kinds::{Bounds, address, count, duration, endpoint, flag, format, levels, path, size, word};

/// A line of the table.
pub(super) struct Setting {
    /// Section and key.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// What its values look like.
    pub(super) values: fn() -> String,
    pub(super) set: fn(&mut Settings, &Value) -> Result<(), String>,
    pub(super) show: fn(&Settings) -> Value,
}

impl Setting {
    /// Section and key.
    pub(super) fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').expect("settings lie in sections")
    }

    /// The line of the table with this name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }
}

macro_rules! settings {
    ($($name:literal $kind:ident($bounds:expr) $($field:ident).+: $about:literal,)*) => {
        &[$(Setting {
            name: $name,
            about: $about,
            values: || $kind::about(&$bounds),
            set: |settings, value| {
                settings.$($field).+ = $kind::read(value, &$bounds)?;
                Ok(())
            },
            show: |settings| $kind::show(&settings.$($field).+),
        }),*]
    };
}

/// For kinds without bounds.
const ANY: Bounds = 0..=u64::MAX;
/// For what may not be nothing, and not absurdly many.
const SOME: Bounds = 1..=1 << 24;
/// Memory and what is in flight.
const BYTES: Bounds = 1 << 20..=1 << 38;
/// From a millisecond to a day.
const TIME: Bounds = 1..=24 * 3600 * 1000;
const SEGMENT: Bounds = MIN_SEGMENT_BYTES as u64..=MAX_SEGMENT_BYTES as u64;

pub(super) const SETTINGS: &[Setting] = settings! {
    "node.data" path(ANY) data: "directory of the ledger",
    "server.listen" address(ANY) listen: "where clients connect; port 0 picks a free one",
    "server.insecure" flag(ANY) insecure: "listen beyond loopback although nothing is encrypted or nobody is asked who he is",
    "server.threads" count(0..=1024) threads: "threads for connections and for agreeing on the log, besides those that partitions have; 0: three quarters as many as there are processors",
    "server.connections" count(1..=1 << 20) server.connections: "connections at one time; the next ones wait",
    "server.connections_per_address" count(1..=1 << 20) server.connections_per_address: "connections at one time from one address; the next ones are closed",
    "server.calls" count(2..=1 << 24) server.calls: "calls at one time; one client has at most half of them",
    "server.calls_per_connection" count(1..=1 << 20) server.calls_per_connection: "calls at one time on one connection",
    "server.request_bytes" size(16 << 20..=1 << 38) server.request_bytes: "bytes of requests that are being read at one time; one client has at most half of them",
    "server.response_bytes" size(32 << 20..=1 << 38) server.response_bytes: "bytes of answers that are read and not sent yet at one time; one client has at most half of them, and waits beyond that",
    "server.stream_writes" count(1..=1 << 20) server.in_flight.writes: "writes that one stream has in flight",
    "server.stream_bytes" size(8 << 20..=1 << 30) server.in_flight.bytes: "bytes that one stream has in flight",
    "server.header_timeout" duration(TIME) server.header_timeout: "how long a connection may take to say what it wants",
    "server.idle_timeout" duration(TIME) server.idle_timeout: "how long a connection may be without a call",
    "server.keep_alive" duration(TIME) server.keep_alive: "how often a silent connection is asked whether it is there",
    "server.patience" duration(TIME) server.patience: "how long a call may take at most",
    "server.drain" duration(0..=24 * 3600 * 1000) server.drain: "how long calls may take to finish when the node stops",
    "tls.certificate" path(ANY) security.tls.certificate: "chain of certificates of this server, as PEM; connections are encrypted if it is given",
    "tls.key" path(ANY) security.tls.key: "private key of the first of them, as PEM",
    "tls.client_ca" path(ANY) security.tls.client_ca: "authorities that certificates of clients have to be of, as PEM",
    "access.token_keys" path(ANY) security.token_keys: "keys that bearer tokens are checked with, as a set of JSON Web Keys; everybody is asked who he is if it is given",
    "access.audience" word(ANY) security.audience: "name of this server in tokens: what `aud` has to be",
    "access.leeway" duration(0..=3600 * 1000) security.leeway: "how far the clocks of whoever issues tokens and of this node may be apart",
    "access.clients" path(ANY) security.clients: "names in client certificates with what they may do, as TOML; everybody is asked who he is if it is given",
    "access.reload_interval" duration(TIME) security.reload_interval: "how often files of certificates and keys are looked at; SIGHUP does it at once",
    "backup.root" path(ANY) backup_root: "directory that backups are made in and repairs are made from, and what lies below it; without it anywhere if clients come from this machine alone, nowhere otherwise",
    "memory.memtables" size(BYTES) memory.memtables: "rows that are in no checkpoint yet, all partitions together",
    "memory.cache" size(BYTES) memory.cache: "what is kept of the files of stores, all partitions together",
    "memory.numbers" count(1..=1 << 31) memory.numbers: "numbers of sequences that are kept, all partitions together",
    "log.first_segment" size(SEGMENT) log.first: "length of the first segment of a new replicated log; the next ones double up to the length below",
    "log.replicated_segment" size(SEGMENT) log.replicated: "length of a segment of the replicated log",
    "log.partition_segment" size(SEGMENT) log.partition: "length that segments of a partition log grow to",
    "log.scrub_rate" size(0..=1 << 40) log.scrub_rate: "bytes of the replicated log, and as many of partition logs, that are read again each second, to find damage; 0B turns it off",
    "admission.partition_operations" count(2..=1 << 24) admission.partition.operations: "writes in flight to one partition",
    "admission.partition_bytes" size(BYTES) admission.partition.bytes: "bytes in flight to one partition",
    "admission.partition_age" duration(TIME) admission.partition.age: "age of the oldest entry that a partition has not applied; beyond it, it takes no more",
    "admission.partition_lag" count(SOME) admission.partition.lag: "entries that a partition may be behind the log",
    "admission.node_operations" count(2..=1 << 24) admission.node.operations: "writes in flight",
    "admission.node_bytes" size(BYTES) admission.node.bytes: "bytes in flight",
    "admission.node_age" duration(TIME) admission.node.age: "age of the oldest entry that was not dispatched",
    "admission.node_lag" count(SOME) admission.node.lag: "entries that were not dispatched",
    "admission.frozen_age" duration(TIME) admission.frozen_age: "a partition whose oldest entry is older is stuck, and nobody is told to come back",
    "admission.min_retry" duration(TIME) admission.min_retry: "nobody is told to come back sooner",
    "admission.max_retry" duration(TIME) admission.max_retry: "nor later",
    "recall.outcomes" count(SOME) recall.outcomes: "outcomes that retries get without asking a partition",
    "recall.outcome_bytes" size(BYTES) recall.outcome_bytes: "bytes of them",
    "recall.in_flight" count(SOME) recall.in_flight: "keys in flight",
    "queue.entries" count(SOME) queue.entries: "entries that wait for one partition; with more it reads from the replicated log",
    "queue.bytes" size(BYTES) queue.bytes: "bytes that wait for one partition",
    "housekeeping.checkpoint_interval" duration(TIME) housekeeping.checkpoint_interval: "how often partitions make checkpoints",
    "housekeeping.report_interval" duration(TIME) report_interval: "how often a node looks at how far its partitions are",
    "housekeeping.reopen_delay" duration(TIME) reopen_delay: "how long a partition that failed waits until it is opened again",
    "housekeeping.keep_entries" count(0..=1 << 40) housekeeping.keep_entries: "entries kept for followers that are a little behind",
    "housekeeping.max_retained" size(1 << 20..=1 << 50) housekeeping.max_retained_bytes: "longest replicated log; beyond it a node that is alone refuses writes",
    "consensus.heartbeat" duration(TIME) consensus.heartbeat: "how often a leader says that it is there",
    "consensus.election_timeout" duration(TIME) consensus.election_timeout: "who hears nothing for so long asks to lead; at least three heartbeats",
    "consensus.full_disk_patience" duration(TIME) consensus.full_disk_patience: "how long room on a full disk is waited for before the node gives up",
    "consensus.max_clock_skew" duration(TIME) consensus.max_clock_skew: "a leader whose clock is further from the median of the voters' clocks gives up leadership",
    "telemetry.log" levels(ANY) telemetry.log: "which lines are written to stderr",
    "telemetry.log_format" format(ANY) telemetry.format: "what they look like",
    "telemetry.otlp_endpoint" endpoint(ANY) telemetry.otlp_endpoint: "collector that spans are sent to, by OTLP over gRPC; none are made without one",
    "telemetry.otlp_buffer" count(1..=1 << 20) telemetry.otlp_buffer: "spans that wait to be sent; more are dropped, and counted",
    "telemetry.sample_one_in" count(1..=1 << 40) telemetry.sample_one_in: "of traces that begin here, one in so many is kept; who sends a traceparent decides himself",
};
