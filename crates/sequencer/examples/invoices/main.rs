//! The whole life of a sequencer, on real files: `cargo run -p gapless-sequencer --example invoices`.
//!
//! A shop issues invoices; each is an event in a log, and its number must have no gap. The program starts itself again and
//! again as a process of its own. Each of these issues a few invoices, gives one up, and dies without a word: before an
//! event is in the log, or after. The next one continues exactly where the log ends.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod log_storage;

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gapless_log::io::real::RealIo;
use gapless_log::{Log, Options};
use gapless_sequencer::{Drive, Params, SequenceValue, Sequencer};
use gapless_types::{RecordId, SequenceId, WorkspaceId, WorkspaceKind};
use log_storage::{LogStorage, event_bytes};

const SHOP: WorkspaceKind = WorkspaceKind::new(1);
const INVOICE: SequenceId = SequenceId::new(1);
const RECORD: SequenceId = SequenceId::new(2);

const LIVES: u64 = 4;
const INVOICES_PER_LIFE: u64 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, folder, life] = &arguments[..] {
        return live_and_die(Path::new(folder), life.parse()?);
    }
    let folder = tempfile::tempdir()?;
    for life in 1..=LIVES {
        println!("process {life}");
        let status =
            Command::new(std::env::current_exe()?).arg(folder.path()).arg(life.to_string()).status()?;
        assert!(!status.success(), "it was meant to die");
    }
    show_log(folder.path())
}

/// Issues invoices and does not live to close anything.
fn live_and_die(folder: &Path, life: u64) -> Result<(), Box<dyn Error>> {
    let log = open_log(folder)?;
    let storage = LogStorage::open(log.clone(), &folder.join("numbers"))?;
    let params = Params::new().with_kind(SHOP, [(INVOICE, 1000), (RECORD, RecordId::FIRST_USER.get())]);
    let mut sequencer = Sequencer::new(params, storage, Drive::OS_THREAD)?;
    sequencer.wait_ready(Duration::from_secs(60))?;

    for issued in 0..INVOICES_PER_LIFE {
        // One that the customer cancels: nothing was taken.
        let mut given_up = sequencer.start(SHOP, WorkspaceId::new(7))?;
        given_up.next(INVOICE)?;
        given_up.actualize();
        sequencer.wait_ready(Duration::from_secs(60))?;

        let workspace = WorkspaceId::new(7);
        let mut transaction = sequencer.start(SHOP, workspace)?;
        if life == 2 && issued == 1 {
            // A record that comes from elsewhere and keeps its id: the sequence goes on above it.
            transaction.observe(RECORD, 300_000)?;
        }
        let numbers = [(INVOICE, transaction.next(INVOICE)?), (RECORD, transaction.next(RECORD)?)];
        let values = numbers.map(|(sequence, number)| SequenceValue { workspace, sequence, number });
        println!("  offset {}: invoice {}, record {}", transaction.offset(), numbers[0].1, numbers[1].1);
        let dies = issued + 1 == INVOICES_PER_LIFE;
        if dies && life.is_multiple_of(2) {
            println!("  dies before it is in the log");
            std::process::abort();
        }
        log.append_next(&[event_bytes(&values)])?.wait()?;
        if dies {
            println!("  dies when it is in the log, and nobody knows");
            std::process::abort();
        }
        transaction.flush();
    }
    Ok(())
}

/// Every invoice number once, without a gap, whatever died when.
fn show_log(folder: &Path) -> Result<(), Box<dyn Error>> {
    let log = open_log(folder)?;
    let records = log.read_range(log.first(), log.next(), u64::MAX)?;
    let invoices: Vec<u64> = records
        .iter()
        .map(|record| record.payload[10..18].iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        .collect();
    println!("in the log: invoices {invoices:?}");
    let expected: Vec<u64> = (1000..).take(invoices.len()).collect();
    assert_eq!(invoices, expected, "no gap and no repeat");
    Ok(log.close()?)
}

fn open_log(folder: &Path) -> Result<Log, Box<dyn Error>> {
    Ok(Log::open(Arc::new(RealIo), folder.join("log"), Options::replicated())?.0)
}
