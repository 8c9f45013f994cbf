//! The program as people and scripts meet it: real processes, real files, exit codes, and what is written where.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod accept_loss;
mod demo;
mod dump;
mod inspect;
mod refusals;
mod support;
mod verify;
mod verify_partition;
