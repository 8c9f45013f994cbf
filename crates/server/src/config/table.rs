//! Every setting: its name, what it is, what its values look like, where it goes.

use toml::Value;

use super::Settings;
use super::kinds::{address, count, duration, flag, path, size};

/// A line of the table.
pub(crate) struct Setting {
    /// Section and key.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) set: fn(&mut Settings, &Value) -> Result<(), String>,
    pub(crate) show: fn(&Settings) -> Value,
}

macro_rules! settings {
    ($($name:literal $kind:ident $($field:ident).+: $about:literal,)*) => {
        &[$(Setting {
            name: $name,
            about: $about,
            set: |settings, value| {
                settings.$($field).+ = $kind::read(value)?;
                Ok(())
            },
            show: |settings| $kind::show(&settings.$($field).+),
        }),*]
    };
}

pub(super) const SETTINGS: &[Setting] = settings! {
    "node.data" path data: "directory of the ledger",
    "server.listen" address listen: "where clients connect; port 0 picks a free one",
    "server.insecure" flag insecure: "listen beyond loopback although nothing is encrypted and nobody is asked who he is",
    "server.connections" count server.connections: "connections at one time; the next ones wait",
    "server.calls_per_connection" count server.calls_per_connection: "calls at one time on one connection",
    "server.stream_writes" count server.in_flight.writes: "writes that one stream has in flight",
    "server.stream_bytes" size server.in_flight.bytes: "bytes that one stream has in flight",
    "server.header_timeout" duration server.header_timeout: "how long a connection may take to say what it wants",
    "server.keep_alive" duration server.keep_alive: "how often a silent connection is asked whether it is there",
    "server.patience" duration server.patience: "how long a call may take at most",
    "server.drain" duration server.drain: "how long calls may take to finish when the node stops",
    "memory.memtables" size memory.memtables: "rows that are in no checkpoint yet, all partitions together",
    "memory.cache" size memory.cache: "blocks that were read, all partitions together",
    "log.replicated_segment" size log.replicated: "length of a segment of the replicated log",
    "log.partition_segment" size log.partition: "length of a segment of a partition log",
    "admission.partition_operations" count admission.partition.operations: "writes in flight to one partition",
    "admission.partition_bytes" size admission.partition.bytes: "bytes in flight to one partition",
    "admission.partition_age" duration admission.partition.age: "age of the oldest entry that a partition has not applied",
    "admission.partition_lag" count admission.partition.lag: "entries that a partition may be behind the log",
    "admission.node_operations" count admission.node.operations: "writes in flight",
    "admission.node_bytes" size admission.node.bytes: "bytes in flight",
    "admission.node_age" duration admission.node.age: "age of the oldest entry that was not dispatched",
    "admission.node_lag" count admission.node.lag: "entries that were not dispatched",
    "admission.frozen_age" duration admission.frozen_age: "a partition whose oldest entry is older is stuck",
    "admission.min_retry" duration admission.min_retry: "nobody is told to come back sooner",
    "admission.max_retry" duration admission.max_retry: "nor later",
    "recall.outcomes" count recall.outcomes: "outcomes that are known without asking a partition",
    "recall.outcome_bytes" size recall.outcome_bytes: "bytes of them",
    "recall.in_flight" count recall.in_flight: "keys in flight",
    "housekeeping.checkpoint_interval" duration housekeeping.checkpoint_interval: "how often partitions make checkpoints",
    "housekeeping.keep_entries" count housekeeping.keep_entries: "entries kept for followers that are a little behind",
    "housekeeping.max_retained" size housekeeping.max_retained_bytes: "longest replicated log",
};
