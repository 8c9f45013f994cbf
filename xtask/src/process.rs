//! Starting programs and learning how they ended.
//!
//! A child shares our output and gets no input, so that nothing waits for an answer on a build server.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// How a program with a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Succeeded,
    Failed,
    /// It did not end in time and was killed.
    TooLate,
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The cargo that runs us, told to work on the whole workspace.
pub(crate) fn cargo_at_root(workspace: &Workspace) -> Command {
    let mut command = cargo();
    command.current_dir(&workspace.root);
    command
}

/// Shows the command, runs it, and waits.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    start(command)?.wait().with_context(|| shown(command))
}

/// Shows the command, runs it, and tells whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(status(command)?.success())
}

/// How a child ended, if it does in time.
pub(crate) fn ended_by(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
            ended => return Ok(ended),
        }
    }
}

/// Like [`succeeds`], but not for ever.
pub(crate) fn succeeds_within(limit: Duration, command: &mut Command) -> Result<Ending> {
    let mut child = start(command)?;
    match ended_by(&mut child, Instant::now() + limit).with_context(|| shown(command))? {
        Some(status) if status.success() => return Ok(Ending::Succeeded),
        Some(_) => return Ok(Ending::Failed),
        None => {}
    }
    child.kill().and_then(|()| child.wait()).with_context(|| shown(command))?;
    Ok(Ending::TooLate)
}

/// What the program printed, if it could be started and succeeded. Nothing of it is shown.
pub(crate) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Our own ending when it is to be that of a child; 1 when a signal ended the child.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn start(command: &mut Command) -> Result<Child> {
    println!("$ {}", shown(command));
    command.stdin(Stdio::null()).spawn().with_context(|| shown(command))
}

/// The command as one would type it, without the folder the program is in.
fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let words = std::iter::once(program.file_name().unwrap_or(program.as_os_str())).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        assert_eq!(shown(Command::new("/somewhere/cargo").args(["fmt", "--check"])), "cargo fmt --check");
    }

    #[test]
    fn a_program_that_ends_in_time_is_judged_by_its_exit_code() {
        let minute = Duration::from_secs(60);
        assert_eq!(succeeds_within(minute, &mut Command::new("true")).unwrap(), Ending::Succeeded);
        assert_eq!(succeeds_within(minute, &mut Command::new("false")).unwrap(), Ending::Failed);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let ending = succeeds_within(Duration::ZERO, Command::new("sleep").arg("600")).unwrap();
        assert_eq!(ending, Ending::TooLate);
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_with_its_name() {
        let error = succeeds(&mut Command::new("no-such-program-here")).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program-here");
    }
}
