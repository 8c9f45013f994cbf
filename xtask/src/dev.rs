//! The first commands a reader of the README types: `gapless dev`, and what it tells him to paste.
//!
//! In the tests' profile, so that nothing is built again, and in an empty folder, so that neither data of an earlier run helps nor
//! this run leaves any.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{Ending, cargo_at_root, ended_by, succeeds, succeeds_within};
use crate::summary::Outcome;
use crate::workspace::Workspace;

/// How long all of it may take once it is built.
const LIMIT: Duration = Duration::from_secs(60);
/// What the last line of the introduction begins with.
const END_OF_INTRODUCTION: &str = "Ctrl-C ends it";
/// How many commands there are to paste.
const COMMANDS: usize = 3;

/// Starts it, pastes its commands, asks it to end, and expects 0.
pub(crate) fn step(workspace: &Workspace) -> Result<Outcome> {
    // As the tests were built: any other choice of packages has other features, and builds the dependencies once more.
    let build = ["test", "--quiet", "--workspace", "--no-run"];
    if !succeeds(cargo_at_root(workspace).args(build))? {
        return Ok(Outcome::Failed(Vec::new()));
    }
    let folder = workspace.target.join("dev-step");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("emptying the folder of the dev step")?;
    }
    fs::create_dir_all(&folder).context("creating the folder of the dev step")?;
    let program = workspace.target.join("debug").join("gapless");
    let mut server = Command::new(&program)
        .current_dir(&folder)
        .args(["dev", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let ended = try_it(&mut server, &folder);
    // Whatever happened, nothing is left running.
    let _ = server.kill();
    let _ = server.wait();
    Ok(match ended {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(vec![format!("{error:#}")]),
    })
}

fn try_it(server: &mut Child, folder: &Path) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    let introduction = introduction(server, deadline)?;
    let commands: Vec<&str> = introduction
        .iter()
        .skip_while(|line| !line.contains("commands to try"))
        .skip(1)
        .map(|line| line.trim())
        .filter(|line| !line.is_empty())
        .take(COMMANDS)
        .collect();
    if commands.len() < COMMANDS {
        bail!("there are {} commands to try, not {COMMANDS}", commands.len());
    }
    for command in commands {
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = succeeds_within(left, Command::new("sh").current_dir(folder).args(["-c", command]))?;
        if ended != Ending::Succeeded {
            bail!("`{command}`, pasted, ended as {ended:?}");
        }
    }
    let asked = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    if !asked.context("asking the server to end")?.success() {
        bail!("the server had ended by itself");
    }
    match ended_by(server, deadline).context("waiting for the server")? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("the server ended with {status}"),
        None => bail!("the server was still running {} s after it was started", LIMIT.as_secs()),
    }
}

/// Everything that it says before it waits.
fn introduction(server: &mut Child, deadline: Instant) -> Result<Vec<String>> {
    let output = server.stdout.take().context("the server has no output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut lines = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = receiver.recv_timeout(left).context("the server did not introduce itself")?;
        println!("{line}");
        if line.starts_with(END_OF_INTRODUCTION) {
            return Ok(lines);
        }
        lines.push(line);
    }
}
