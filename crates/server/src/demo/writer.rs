//! The process that is killed: writes sales and reports each of them once it is durable.
//!
//! It never stops by itself; it ends when it is killed, when nobody reads its reports any more, or when the ledger fails.
//! Each line is a receipt, or [`UNREPORTED`].
//!
//! Must not know: when it will be killed.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::ledger::Ledger;
use super::receipt::Receipt;
use super::sales::sale;

/// Says that writes are in the log which are neither synced nor reported: a good moment to be killed.
pub(super) const UNREPORTED: &str = "unreported";
/// Sales that share one sync, as those of several tills would.
const GROUP: u64 = 8;
/// Sales between two checkpoints.
const CHECKPOINT_EVERY: u64 = 96 * GROUP;

/// Runs the command.
pub(crate) fn run(dir: &Path, out: &mut dyn Write) -> Result<()> {
    let (mut ledger, _) = Ledger::open(dir)?;
    ledger.prepare()?;
    let mut count = 0;
    loop {
        let mut receipts = Vec::new();
        for _ in 0..GROUP {
            let sale = sale(count);
            receipts.push(Receipt::new(sale.workspace, &ledger.commit(&sale)?));
            count += 1;
        }
        ledger.flush()?;
        writeln!(out, "{UNREPORTED}")?;
        out.flush()?;
        ledger.sync()?;
        for receipt in receipts {
            writeln!(out, "{receipt}")?;
        }
        out.flush()?;
        if count.is_multiple_of(CHECKPOINT_EVERY) {
            ledger.checkpoint()?;
        }
    }
}
