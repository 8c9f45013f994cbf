//! The real binary as a process: killed, restarted, asked by its own client commands and by other people's programs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../sockets/address.rs"]
mod address;
mod backup;
mod bench;
mod commands;
mod configuration;
mod console;
mod curl;
mod every_call;
mod kill;
mod openapi;
mod programs;
mod projection_commands;
mod projections;
mod python;
mod readiness;
mod readme;
mod stories;
mod support;
mod telemetry;
