//! `gapless demo`: a demonstration of the promise, on the ledger of one partition, without a server.
//!
//! The outcome does not depend on timing: either every acknowledged write is there after the kill and all numbers are
//! dense, or the command fails and says which one is not.
//!
//! Must not know: how the ledger keeps its promise.

mod audit;
mod check;
mod kill;
mod ledger;
mod receipt;
mod sales;
mod show;
mod tables;
mod trouble;
pub(crate) mod writer;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use gapless_log::Finding;
use gapless_partition::{Committed, Condition, Opened};
use gapless_types::RecordId;

use self::audit::Audit;
use self::ledger::{FIRST_INVOICE, INVOICE, Ledger, NAMESPACE, log_dir};
use self::receipt::Receipt;
use self::sales::SHOP;
pub(crate) use self::show::invocation;
use self::show::{Acts, constant_case, quoted};
use self::tables::{events_table, numbers_table};
use self::trouble::{fault, must_not_happen};
use crate::cli::DemoArguments;
use crate::log_command::trouble::shell_word;
use crate::output::{Bytes, Count, Span, counted, time};

/// Apples that are counted more each time.
const APPLES: u64 = 12;

/// Runs the command.
pub(crate) fn run(arguments: &DemoArguments, out: &mut dyn Write) -> Result<()> {
    let dir = arguments.data.join(NAMESPACE);
    let dir = dir.as_path();
    ledger::refuse_others(dir)?;
    let (mut ledger, opened) = Ledger::open(dir)?;
    let mut acts = Acts::begin(dir, ledger.outcomes(), out)?;

    define(&mut ledger, &opened, &mut acts)?;
    let (order, invoice) = write(&mut ledger, &mut acts)?;
    retry(&mut ledger, order, &invoice, &mut acts)?;
    be_refused(&mut ledger, order, &mut acts)?;
    let before = ledger.outcomes();
    ledger.close()?;

    let killed = write_and_kill(dir, arguments.writes, &mut acts)?;
    let mut ledger = recover(dir, &mut acts)?;
    compare(&mut ledger, before, &killed.acknowledged, &mut acts)?;
    go_on(&mut ledger, &mut acts)?;
    check_every_number(&mut ledger, &mut acts)?;
    ledger.checkpoint()?;
    ledger.close()?;
    acts.end(&invocation(), &shell_word(&log_dir(dir)))
}

fn define(ledger: &mut Ledger, opened: &Opened, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("Define a namespace")?;
    if let Some(reason) = &opened.rebuilt {
        acts.fact("state", format!("rebuilt from the whole log, because {reason}"))?;
    }
    let when = if ledger.prepare()? { "defined just now" } else { "defined by an earlier run" };
    acts.fact("namespace", format!("{NAMESPACE}, {when}, with 1 partition"))?;
    acts.fact("sequence", format!("{INVOICE}, gap-free, in each workspace from {FIRST_INVOICE} on"))
}

/// Writes three events; returns the order that the first one created, and what its invoice was given.
fn write(ledger: &mut Ledger, acts: &mut Acts<'_>) -> Result<(RecordId, Committed)> {
    acts.title("Write events, each one transaction")?;
    acts.line(format_args!("To workspace {SHOP}, a shop, as client till-1:"))?;
    let placed = ledger.commit(&sales::order())?;
    let [(_, order), (_, first), (_, second)] = placed.record_ids[..] else {
        return Err(must_not_happen(&"an order with two lines is not three records"));
    };
    let known = ledger.view()?.entity(SHOP, sales::STOCK).map_err(|error| fault(&error))?;
    let had: u64 = known
        .as_ref()
        .and_then(|stock| std::str::from_utf8(&stock.value).ok())
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    let count = (had + APPLES).to_string();
    let (condition, said) = match &known {
        None => (Condition::MustNotExist, "there is none yet".to_owned()),
        Some(stock) => {
            (Condition::VersionEquals(stock.version), format!("its version is still {}", stock.version))
        }
    };
    let counted = ledger.commit(&sales::stock(count.as_bytes(), condition))?;
    let invoiced = ledger.commit(&sales::invoice(order))?;
    ledger.sync()?;

    let receipts = [&placed, &counted, &invoiced].map(|committed| Receipt::new(SHOP, committed));
    let names = ["OrderPlaced", "StockCounted", "InvoiceIssued"];
    acts.table(&events_table(&names.into_iter().zip(&receipts).collect::<Vec<_>>()))?;
    acts.fact(
        "order",
        format!("written as records 1, 2 and 3; stored as {order} with lines {first} and {second}"),
    )?;
    acts.fact("entity", format!("{} = {count}, set if {said}", quoted(sales::STOCK)))?;
    acts.fact("invoice", "number, event and the change of the order are on disk together, or not at all")?;
    Ok((order, invoiced))
}

fn retry(ledger: &mut Ledger, order: RecordId, first: &Committed, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("Retry, which changes nothing")?;
    let again = ledger.retry(&sales::invoice(order), first.partition_offset)?;
    ledger.sync()?;
    if again != *first {
        return Err(must_not_happen(&format!("a retry was answered with {again:?} instead of {first:?}")));
    }
    acts.line(format_args!(
        "The invoice once more, under the same key. The answer is the first one, all of it:"
    ))?;
    acts.table(&events_table(&[("InvoiceIssued", &Receipt::new(SHOP, &again))]))
}

fn be_refused(ledger: &mut Ledger, order: RecordId, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("Be refused, which consumes nothing")?;
    let version = ledger.view()?.entity(SHOP, sales::STOCK).map_err(|error| fault(&error))?;
    let stale = version.map_or(0, |stock| stock.version.saturating_sub(1));
    let mut outdated = sales::stock(b"0", Condition::VersionEquals(stale));
    outdated.operations.extend(sales::invoice(order).operations);
    let refusal = ledger.refuse(&outdated)?;
    let asked = format!("{} = 0 if its version is {stale}, and an invoice number", quoted(sales::STOCK));
    acts.fact("asked for", asked)?;
    let code = constant_case(&format!("{:?}", refusal.code));
    acts.fact("refused", format!("{code} ({}): {}", refusal.code as u8, refusal.message))?;
    let version = refusal.current_version.map_or("none".to_owned(), |version| version.to_string());
    let value = refusal.current_value.as_deref().map_or("none".to_owned(), quoted);
    acts.fact("current", format!("version {version}, value {value}"))?;

    acts.fact("recorded", format!("as outcome {}, with no other number", ledger.outcomes()))?;

    let next = ledger.commit(&sales::invoice(order))?;
    ledger.sync()?;
    acts.line(format_args!("The next invoice gets the numbers that the refused one would have had:"))?;
    acts.table(&events_table(&[("InvoiceIssued", &Receipt::new(SHOP, &next))]))
}

fn write_and_kill(dir: &Path, writes: u64, acts: &mut Acts<'_>) -> Result<kill::Killed> {
    acts.title("Kill a process while it writes")?;
    acts.line(format_args!(
        "A child process writes sales to three workspaces, and reports each once it is on stable storage."
    ))?;
    let killed = kill::write_and_kill(dir, writes)?;
    acts.line(format_args!(
        "{} acknowledged in {}; then SIGKILL in the middle of the next (it ended by signal {}).",
        counted(killed.acknowledged.len() as u64, "write"),
        time(killed.took),
        killed.signal,
    ))?;
    Ok(killed)
}

fn recover(dir: &Path, acts: &mut Acts<'_>) -> Result<Ledger> {
    acts.title("Recover")?;
    let began = Instant::now();
    let (ledger, opened) = Ledger::open(dir)?;
    acts.fact(
        "opened in",
        format!("{}, {} of the log read", time(began.elapsed()), Bytes(opened.log.bytes_read)),
    )?;
    let covered = opened.checkpoint.map_or(0, |last| last.get());
    acts.fact("checkpoint", checkpoint_line(&opened, covered))?;
    let folded = Span(covered + 1..covered + 1 + opened.folded);
    acts.fact("folded", format!("{} behind it ({folded})", counted(opened.folded, "outcome")))?;
    let torn = opened.log.damage.iter().any(|damage| damage.finding == Finding::TornTail);
    let end = if torn { "torn: a half-written frame was dropped" } else { "clean: no frame is half written" };
    acts.fact("end of the log", end)?;
    Ok(ledger)
}

fn checkpoint_line(opened: &Opened, covered: u64) -> String {
    match (&opened.rebuilt, opened.checkpoint) {
        (Some(reason), _) => format!("thrown away, because {reason}"),
        (None, Some(_)) => format!("the state after {}", counted(covered, "outcome")),
        (None, None) => "none yet: the log alone is enough".to_owned(),
    }
}

fn compare(ledger: &mut Ledger, before: u64, acknowledged: &[Receipt], acts: &mut Acts<'_>) -> Result<()> {
    check::check(&ledger.view()?, acknowledged)?;
    // A torn end has taken nothing that was acknowledged, as was just seen: it need not be remembered.
    ledger.settle_torn_end()?;
    let count = acknowledged.len() as u64;
    acts.fact("acknowledged", Count(count))?;
    acts.fact("recovered", format!("{}, each with the numbers that were reported", Count(count)))?;
    acts.fact("lost", "0")?;
    let more = ledger.outcomes().saturating_sub(before + count);
    acts.fact(
        "on their way",
        format!("{more} more had reached the log and were never reported; they keep their numbers"),
    )?;
    acts.line(format_args!(
        "A kill takes the process, not the machine. Power cuts and failing disks are simulated in the tests."
    ))
}

fn go_on(ledger: &mut Ledger, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("Go on")?;
    let sale = sales::sale(0);
    let committed = ledger.commit(&sale)?;
    ledger.sync()?;
    acts.table(&events_table(&[(sale.event_type, &Receipt::new(sale.workspace, &committed))]))
}

fn check_every_number(ledger: &mut Ledger, acts: &mut Acts<'_>) -> Result<()> {
    acts.title("Read it all back, and check every number")?;
    let audit = Audit::of(&ledger.view()?)?;
    acts.table(&numbers_table(&audit))?;
    acts.fact(
        "read back",
        format!(
            "{}: {}, {}, {}, {}",
            counted(audit.outcomes.last().unwrap_or(0), "outcome"),
            counted(audit.events, "event"),
            counted(audit.refusals, "refusal"),
            counted(audit.duplicates, "duplicate"),
            counted(audit.definitions, "definition"),
        ),
    )?;
    acts.fact("gaps", "0")?;
    acts.fact("repeats", "0")?;
    acts.fact("state", "names the same last numbers as the log, and has every record")
}
