//! Nodes of one group, alone and together, on disks in memory and over a network in memory, under a clock that is moved by hand.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod cluster;
mod failing;
mod harness;
mod ledger;
mod members;
mod opening;
mod power;
mod single;
mod snapshots;
mod suspect;
