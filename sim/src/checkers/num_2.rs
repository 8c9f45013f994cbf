//! NUM-2: a number exists only as part of a durable outcome. What was refused consumed nothing.
//!
//! Must not know: which node an outcome was read from.

use gapless_partition::{Header, OutcomeKind};

/// What is wrong with an outcome, if it is no event and has numbers of one.
pub(crate) fn check(header: &Header<'_>) -> Result<(), String> {
    let has_numbers = header.workspace_offset.is_some()
        || header.client_sequence.is_some()
        || !header.record_ids.is_empty()
        || !header.numbers.is_empty();
    match header.kind {
        OutcomeKind::Event => Ok(()),
        kind if has_numbers => {
            Err(format!("outcome {} is a {kind:?} with numbers", header.partition_offset.get()))
        }
        _ => Ok(()),
    }
}
