//! The corridor of a write, as far as it needs no consensus, no runtime and no disk.
//!
//! What stands here are the parts that the engine is made of: each is a value with rules, driven by whoever owns it, and can be
//! tested without a thread. The engine that joins them with consensus, partitions and tasks is not here yet.
//!
//! ```text
//!  write ──▶ recall ──▶ admission ──▶ offsets (reserve), log_time ──▶ entry ──▶ the replicated log
//!                                                                                   │ committed
//!  ack ◀── recall (decided) ◀── partition::apply ◀── offsets (dispatch) ◀── entry ◀─┘
//!                                    │
//!                                    └──▶ watermarks ──▶ acknowledgements ──▶ retention: what may be cut
//! ```
//!
//! Must not know: files, sockets, tasks, how an order is agreed on. Time comes through [`log_time::Clock`].

pub mod acknowledgements;
pub mod admission;
pub mod entry;
pub mod limits;
pub mod log_time;
pub mod masters;
mod node;
pub mod offsets;
mod ranges;
pub mod recall;
pub mod retention;
pub mod watermarks;

pub use node::NodeId;
