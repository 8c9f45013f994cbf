//! The real binary as it would stand on a network, and everything that is sent to such a server by those who mean it harm: what comes
//! back, what has not changed, how much memory it took, and how a client beside them fared.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
#[path = "../sockets/address.rs"]
mod address;
mod audit;
mod ending;
mod everything;
mod floods;
mod frames;
pub mod fuzzing;
mod listening;
mod memory;
mod names;
mod reload;
mod secrets;
mod sharing;
mod stopped;
mod support;
mod table;
mod ten_commands;
mod wire;
