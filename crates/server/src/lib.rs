//! A node of the ledger behind a socket: gRPC, health and reflection on one port.
//!
//! ```text
//!  socket ──▶ accept (limits) ──▶ one router ──▶ LedgerService, AdminService ──▶ gapless_api ──▶ engine
//! ```
//!
//! Must not know: what a call means, how the engine keeps its promises.

mod accept;
mod admin_service;
mod call;
mod ledger_service;
mod rate;
mod server;
mod silence;

pub use server::{Config, Limits, Server, StartError};
