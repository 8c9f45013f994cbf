//! The sequencer's figures for people and for programs.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::Table;
use serde::Serialize;

use crate::bars::{Bar, Limit, Unit, Verdict};
use crate::first_number::FirstNumber;
use crate::machine::Machine;
use crate::report::{bars_table, right_aligned, show, table};
use crate::samples::Spread;
use crate::transactions::Setting;

/// One shape of transactions in one setting.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) workspaces: u64,
    pub(crate) setting: Setting,
    pub(crate) microseconds: Spread,
    pub(crate) refusals: Spread,
    pub(crate) over_plain_map: Spread,
}

/// What is held after all workspaces were touched.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) workspaces: u64,
    pub(crate) cache_entries: usize,
    pub(crate) cache_bytes: usize,
    pub(crate) resident_growth: u64,
}

impl Memory {
    fn per_entry(&self) -> f64 {
        self.resident_growth as f64 / self.cache_entries.max(1) as f64
    }
}

/// Everything that one run of the sequencer's suite measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    quick: bool,
    transactions: Vec<Row>,
    instructions: Vec<(u64, Option<f64>)>,
    memory: Memory,
    first_numbers: Vec<FirstNumber>,
    bars: Vec<Bar>,
}

impl Report {
    pub(crate) fn new(
        machine: Machine,
        quick: bool,
        transactions: Vec<Row>,
        instructions: Vec<(u64, Option<f64>)>,
        memory: Memory,
        first_numbers: Vec<FirstNumber>,
    ) -> Self {
        let bars = bars(&transactions, &memory, &first_numbers);
        Self { machine, quick, transactions, instructions, memory, first_numbers, bars }
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn write_tables(&self, output: &mut impl Write) -> Result<()> {
        let missed = self.bars.iter().filter(|bar| bar.verdict != Verdict::Met).count();
        writeln!(output, "{}\n", self.machine.line())?;
        writeln!(output, "Start, two numbers, flush: median over rounds (lowest to highest)\n")?;
        writeln!(output, "{}\n", self.transactions_table())?;
        writeln!(output, "Instructions per transaction, background work of the caller included\n")?;
        writeln!(output, "{}\n", self.instructions_table())?;
        writeln!(output, "From open to first number, checkpoint 1000 records before the end\n")?;
        writeln!(output, "{}\n", self.first_numbers_table())?;
        writeln!(output, "{}\n", self.memory_line())?;
        writeln!(output, "Bars\n")?;
        writeln!(output, "{}\n", bars_table(&self.bars))?;
        writeln!(output, "{} of {} bars met", self.bars.len() - missed, self.bars.len())?;
        Ok(())
    }

    fn transactions_table(&self) -> Table {
        let headings =
            ["workspaces", "background", "max_unflushed", "us", "refusals each", "time / plain map"];
        let mut table = table(headings);
        for row in &self.transactions {
            table.add_row([
                row.workspaces.to_string(),
                if row.setting.thread { "thread" } else { "caller" }.to_owned(),
                row.setting.max_unflushed.to_string(),
                show(Unit::Microseconds, row.microseconds),
                show(Unit::Count, row.refusals),
                show(Unit::Ratio, row.over_plain_map),
            ]);
        }
        right_aligned(table, [0, 2, 3, 4, 5])
    }

    fn instructions_table(&self) -> Table {
        let mut table = table(["workspaces", "instructions"]);
        for (workspaces, counted) in &self.instructions {
            let counted = counted.map_or_else(|| "no valgrind".to_owned(), |counted| format!("{counted:.0}"));
            table.add_row([workspaces.to_string(), counted]);
        }
        right_aligned(table, [0, 1])
    }

    fn first_numbers_table(&self) -> Table {
        let mut table = table(["records", "log MB", "opening the log, us", "first number, us"]);
        for row in &self.first_numbers {
            table.add_row([
                row.records.to_string(),
                (row.log_bytes / 1_000_000).to_string(),
                format!("{:.0}", row.log_microseconds.median),
                show(Unit::Microseconds, row.sequencer_microseconds),
            ]);
        }
        right_aligned(table, [0, 1, 2, 3])
    }

    fn memory_line(&self) -> String {
        let Memory { workspaces, cache_entries, cache_bytes, resident_growth } = self.memory;
        format!(
            "After touching {workspaces} workspaces: {cache_entries} cache entries, {cache_bytes} bytes by their own \
             count, {resident_growth} bytes more of the process resident"
        )
    }
}

/// What the design asks for; times are those of the machine on which the aims were set.
fn bars(transactions: &[Row], memory: &Memory, first_numbers: &[FirstNumber]) -> Vec<Bar> {
    let aims = [(1, 0.15), (10_000, 0.4), (1_000_000, 1.2)];
    let mut bars = Vec::new();
    for row in transactions {
        let Some((_, aim)) = aims.iter().find(|(workspaces, _)| *workspaces == row.workspaces) else {
            continue;
        };
        let Setting { thread, max_unflushed } = row.setting;
        let who = if thread { "thread" } else { "caller" };
        let subject = format!("{} workspaces, {who}, max_unflushed {max_unflushed}", row.workspaces);
        bars.push(Bar::new(subject.clone(), Unit::Microseconds, Limit::AtMost(*aim), row.microseconds));
        bars.push(Bar::new(format!("{subject}: refusals"), Unit::Count, Limit::AtMost(0.0), row.refusals));
    }
    let per_entry = Spread::exact(memory.per_entry());
    bars.push(Bar::new("resident memory per cache entry", Unit::Bytes, Limit::AtMost(100.0), per_entry));
    if let (Some(short), Some(long)) = (first_numbers.first(), first_numbers.last()) {
        let ratio = Spread::exact(long.sequencer_microseconds.median / short.sequencer_microseconds.median);
        let subject = format!("first number, {} records over {}", long.records, short.records);
        bars.push(Bar::new(subject, Unit::Ratio, Limit::AtMost(1.5), ratio));
    }
    bars
}
