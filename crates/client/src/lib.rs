//! The client of Gapless. One trait, [`Ledger`], for a ledger behind a socket ([`Client`]) and one in this process ([`Embedded`]):
//! a program switches from one to the other by one line.
//!
//! - One key for each intended write, kept over every retry: an answer that was lost is asked for again, and nothing happens twice.
//! - Several addresses; whoever does not lead says who does, and is believed.
//! - Retries wait, longer each time and never in step, and as long as the server asks for.
//! - A place in a trace, sent along with every call: see [`Client::traced`].
//! - Streams of writes and subscriptions that break off go on where they were.
//! - Workers of projections ([`Projections::worker`]): leases, renewals, commits, and what to do when somebody was faster.
//!
//! Must not know: how a ledger keeps its promises.

mod backoff;
mod client;
mod connections;
mod credentials;
mod effects;
mod embedded;
mod error;
mod key;
mod ledger;
mod projections;
mod subscription;
mod together;
mod worker;
mod writing;

pub use backoff::Retry;
pub use client::{AddressError, Client, Options};
pub use credentials::{Credentials, CredentialsError};
pub use embedded::Embedded;
pub use error::Error;
pub use gapless_api::trace::TraceContext;
pub use gapless_api::{Problem, ProblemKind, Violation, v1};
pub use key::random_key;
pub use ledger::{Ledger, Stream};
pub use projections::Projections;
#[doc(hidden)]
pub use together::Together;
pub use worker::{Changes, Columns, Rows, Stopper, Worked, Worker};
