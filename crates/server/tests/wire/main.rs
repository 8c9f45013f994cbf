//! The server over real sockets: every call, every limit, races, streams, and its end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../sockets/address.rs"]
mod address;
mod admin;
mod audit;
mod busy;
mod calls;
mod client;
mod conditions;
mod connections;
mod disk;
mod expiry;
mod http;
mod limits;
mod metrics;
mod nodes;
mod projections;
mod protocol;
mod races;
mod readiness;
mod streams;
mod support;
mod work;
mod worker;
