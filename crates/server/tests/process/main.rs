//! The real binary as a process: killed, restarted, asked by its own client commands.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;
mod configuration;
mod kill;
mod readiness;
mod support;
mod telemetry;
