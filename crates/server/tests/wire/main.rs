//! The server over real sockets: every call, every limit, races, streams, and its end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
mod audit;
mod calls;
mod client;
mod connections;
mod expiry;
mod http;
mod limits;
mod metrics;
mod nodes;
mod projections;
mod protocol;
mod races;
mod streams;
mod support;
mod work;
mod worker;
