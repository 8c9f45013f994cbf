//! What the README tells people to type, typed: its commands are read from there, and executed against the program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Process, program};

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    std::fs::read_to_string(path).unwrap()
}

/// The text below a heading, up to the next one.
fn section<'a>(readme: &'a str, heading: &str) -> &'a str {
    let (_, rest) = readme.split_once(&format!("\n## {heading}\n")).expect("the section is there");
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// The blocks of a section in this language.
fn blocks<'a>(section: &'a str, language: &str) -> Vec<&'a str> {
    let parts = section.split("```").skip(1).step_by(2);
    parts.filter_map(|block| block.strip_prefix(&format!("{language}\n"))).collect()
}

/// The commands of a section, one by one.
fn commands(section: &str) -> Vec<String> {
    let text = blocks(section, "sh").concat().replace("\\\n", " ");
    text.lines().map(str::to_owned).collect()
}

/// Whether a command goes on until somebody ends it.
fn goes_on(command: &str) -> bool {
    command.contains("--follow") || command.contains("follow=true")
}

/// A terminal in a directory, beside a server.
struct Terminal {
    dir: PathBuf,
    server: Process,
}

impl Terminal {
    fn shell(&self, command: &str) -> Command {
        let folder = Path::new(env!("CARGO_BIN_EXE_gapless")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        let command = command.replace("127.0.0.1:7400", &self.server.address);
        // What is to be ended is this process, not one below it.
        let command = if goes_on(&command) { format!("exec {command}") } else { command };
        shell.args(["-euo", "pipefail", "-c", &command]).current_dir(&self.dir);
        shell.env("PATH", path).env("GAPLESS_SERVER", &self.server.address).stdin(Stdio::null());
        shell
    }

    /// Types a command; what it says, if it succeeds. One that goes on is ended when it has said this.
    fn typed(&self, command: &str, until: &str) -> String {
        if !goes_on(command) {
            let output = self.shell(command).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}: {error}");
            return String::from_utf8(output.stdout).unwrap();
        }
        let mut child = self.shell(command).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            said.push_str(&line.unwrap());
            said.push('\n');
            if said.contains(until) {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.contains(until), "{command} ended: {said}");
        said
    }
}

#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    let readme = readme();
    let first = section(&readme, "Ten minutes");
    let mut typed = commands(first);
    // What a test need not do again: the program is built, and its server runs on a free port.
    assert!(typed.remove(0).starts_with("cargo install --locked --path crates/server "));
    assert!(typed.remove(0).starts_with("gapless dev "));
    let dir = tempfile::tempdir().unwrap();
    let mut dev = program();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--log", "off"]).current_dir(dir.path());
    let terminal = Terminal { dir: dir.path().to_path_buf(), server: Process::spawn(&mut dev) };
    std::fs::write(dir.path().join("shop.toml"), blocks(first, "toml")[0]).unwrap();

    let said: Vec<String> = typed.iter().map(|command| terminal.typed(command, "ItemSold")).collect();
    let promised = blocks(first, "")[0].trim_end().trim_end_matches("...");
    assert!(said[0].starts_with(promised), "{}", said[0]);
    assert!(said[1].contains("nothing was done") && said[1].contains("invoice=1"), "{}", said[1]);
    let all = said.concat();
    for expected in ["ItemSold", "invoice", "verified", "shop"] {
        assert!(all.contains(expected), "{expected} in {all}");
    }
    assert!(typed.iter().any(|command| goes_on(command)), "following is shown");

    let typed = commands(section(&readme, "Over HTTP"));
    let said: Vec<String> = typed.iter().map(|command| terminal.typed(command, "\ndata: ")).collect();
    assert!(said[0].contains("\"workspace_offset\":2"), "{}", said[0]);
    assert_eq!(said[1].lines().count(), 2, "{}", said[1]);
    assert!(said.last().unwrap().contains("id: 2\n"), "behind the first: {said:?}");
}
