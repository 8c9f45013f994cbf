//! The store beside its rivals, each in a process of its own, so that memory and CPU time are its own.
//!
//! Every candidate loads, reads and drops, and ends without closing; a second process opens what it left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::Table;
use serde_json::Value;

use crate::cli::ReportArguments;
use crate::our_store::OurStore;
use crate::store_workload::{StoreShape, StoreUnderTest, run_store};

const RIVALS: [&str; 3] = ["redb", "redb-quick-repair", "lsm-tree"];

#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// The program that measures rivals, built from `bench/rivals`
    #[arg(long, value_name = "PATH")]
    rivals: PathBuf,
    /// Records applied; the design's shape is 10 million
    #[arg(long, default_value_t = 2_000_000)]
    applies: u64,
    #[command(flatten)]
    report: ReportArguments,
}

#[derive(Debug, Args)]
pub(crate) struct OurStoreArguments {
    /// Directory of the store; it stays
    #[arg(long)]
    dir: PathBuf,
    /// Only open what an earlier run left
    #[arg(long)]
    reopen: bool,
    /// Records applied
    #[arg(long, default_value_t = 2_000_000)]
    applies: u64,
    /// Applies between two checkpoints
    #[arg(long, default_value_t = 50_000)]
    checkpoint_every: u64,
}

/// One run of our store in this process; prints JSON as the rivals do.
pub(crate) fn run_ours(arguments: &OurStoreArguments) -> Result<()> {
    fs::create_dir_all(&arguments.dir)?;
    let start = Instant::now();
    let mut store = OurStore::open(&arguments.dir)?;
    if arguments.reopen {
        let offset = store.offset()?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        return print_line(&serde_json::json!({ "offset": offset, "open_elapsed_ms": milliseconds }));
    }
    let shape = StoreShape {
        applies: arguments.applies,
        checkpoint_every: arguments.checkpoint_every,
        workspaces: 100_000,
        records: 1_000_000,
        gets: 200_000,
    };
    let figures = run_store(shape, &arguments.dir, &mut store)?;
    print_line(&serde_json::to_value(&figures)?)?;
    // Without closing anything, as a crash would.
    std::process::exit(0)
}

/// All candidates, one after another.
pub(crate) fn run(arguments: &StoreArguments) -> Result<()> {
    let applies = if arguments.report.is_quick() { arguments.applies / 10 } else { arguments.applies };
    let parent = arguments.report.directory();
    fs::create_dir_all(&parent)?;
    let ours = std::env::current_exe().context("cannot find this program")?;
    let mut results = serde_json::Map::new();
    for (program, name) in
        std::iter::once((&ours, "our-store")).chain(RIVALS.map(|name| (&arguments.rivals, name)))
    {
        let dir = tempfile::tempdir_in(&parent)?;
        let mut figures = measure(program, name, dir.path(), &["--applies", &applies.to_string()])?;
        let reopened = measure(program, name, dir.path(), &["--reopen"])?;
        figures["open_elapsed_ms"] = reopened["open_elapsed_ms"].clone();
        results.insert(name.to_owned(), figures);
    }
    print_table(&results)?;
    let json = arguments.report.json("store");
    fs::write(&json, serde_json::to_string_pretty(&results)?)
        .with_context(|| format!("cannot write {}", json.display()))
}

fn measure(program: &Path, name: &str, dir: &Path, more: &[&str]) -> Result<Value> {
    let mut command = Command::new(program);
    command.arg(name).arg("--dir").arg(dir).args(more).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "{name} ended with {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("{name} printed no result"))
}

fn print_table(results: &serde_json::Map<String, Value>) -> Result<()> {
    let mut table = Table::new();
    table.set_header(std::iter::once("").chain(results.keys().map(String::as_str)));
    let figures = results.values().next().and_then(Value::as_object).context("nothing was measured")?;
    for figure in figures.keys() {
        let values = results.values().map(|result| match result[figure].as_f64() {
            Some(value) => format!("{value:.1}"),
            None => "-".to_owned(),
        });
        table.add_row(std::iter::once(figure.clone()).chain(values));
    }
    write_out(&format!("{table}\n"))
}

fn print_line(value: &Value) -> Result<()> {
    write_out(&format!("{value}\n"))
}

fn write_out(text: &str) -> Result<()> {
    use std::io::Write;
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}
