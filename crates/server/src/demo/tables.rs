//! Tables of what was given, and of every number there is.
//!
//! Must not know: how any of it came about.

use comfy_table::Table;

use super::audit::{Audit, Dense};
use super::receipt::Receipt;
use crate::output::{Side, Span, table};

/// What events were given, one line each.
pub(super) fn events_table(events: &[(&str, &Receipt)]) -> Table {
    let mut table = table([
        ("event", Side::Left),
        ("outcome", Side::Right),
        ("workspace offset", Side::Right),
        ("client sequence", Side::Right),
        ("invoice", Side::Right),
        ("record ids", Side::Left),
    ]);
    for (event, receipt) in events {
        table.add_row([
            (*event).to_owned(),
            receipt.partition_offset.to_string(),
            receipt.workspace_offset.to_string(),
            receipt.client_sequence.to_string(),
            span(&receipt.invoices),
            span(&receipt.records),
        ]);
    }
    table
}

/// Every number there is, one line for each workspace.
pub(super) fn numbers_table(audit: &Audit) -> Table {
    let mut table = table([
        ("workspace", Side::Left),
        ("offsets", Side::Left),
        ("record ids", Side::Left),
        ("invoices", Side::Left),
        ("client sequences", Side::Left),
    ]);
    for (id, shop) in &audit.shops {
        let clients = shop.clients.iter().map(|(client, sequence)| format!("{client} {}", dense(sequence)));
        table.add_row([
            id.to_string(),
            dense(&shop.offsets),
            dense(&shop.records),
            dense(&shop.invoices),
            clients.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

fn dense(numbers: &Dense) -> String {
    Span(numbers.range()).to_string()
}

/// Numbers of one event, which follow each other.
fn span(numbers: &[u64]) -> String {
    match numbers {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => "-".to_owned(),
    }
}
