//! A node of the ledger behind a socket: gRPC, health, reflection and HTTP on one port.
//!
//! ```text
//!  socket ──▶ accept (limits) ──▶ one router ──▶ LedgerService, AdminService, ProjectionService, http ──▶ gapless_api ──▶ engine
//! ```
//!
//! Must not know: what a call means, how the engine keeps its promises.

mod accept;
pub mod access;
mod activity;
mod admin_service;
mod audit;
mod call;
mod http;
mod ledger_service;
mod metrics;
mod projection_service;
mod rate;
mod readiness;
mod reading;
mod security;
mod server;
mod slow_body;
mod strangers;
pub mod telemetry;
mod tls;
mod tracing_request;
mod unread;

pub use metrics::metrics_reference;
pub use security::Security;
pub use server::{Config, Limits, Server, StartError};
pub use tls::TlsFiles;
