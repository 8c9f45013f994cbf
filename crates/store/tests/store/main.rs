//! The store through its one door: stories, properties against a model, crashes at every operation, damage everywhere.

#![allow(clippy::unwrap_used, reason = "the first thing that does not hold ends the test")]

mod basics;
mod crashes;
mod damage;
mod golden;
mod memory;
mod model;
mod properties;
mod scenario;
mod threads;
