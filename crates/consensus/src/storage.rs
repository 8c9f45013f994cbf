//! What consensus keeps on disk: its log, and a control file beside it.

pub(crate) mod blocking;
pub(crate) mod control_file;
pub(crate) mod log_reader;
pub(crate) mod log_store;
pub(crate) mod outgoing;
pub(crate) mod spool;
pub(crate) mod state_machine;
#[cfg(test)]
mod suite;
