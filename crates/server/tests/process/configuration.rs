//! A node is told what to do by a file, the environment and flags.

use std::path::Path;
use std::process::Output;

use crate::support::{Process, program};

fn told(output: &Output) -> (Option<i32>, String) {
    let said = if output.status.success() { &output.stdout } else { &output.stderr };
    (output.status.code(), String::from_utf8(said.clone()).unwrap())
}

fn write(dir: &Path, text: &str) -> String {
    let path = dir.join("gapless.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_is_printed_is_a_file_and_later_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (code, printed) = told(&program().args(["serve", "--print-config"]).output().unwrap());
    assert_eq!(code, Some(0));
    assert!(printed.contains("[server]\nlisten = \"127.0.0.1:7400\""), "{printed}");
    let file = write(dir.path(), &printed);
    let again = program().args(["serve", "--print-config", "--config", &file]).output().unwrap();
    assert_eq!(told(&again), (Some(0), printed));

    let file = write(dir.path(), "[server]\nlisten = '127.0.0.1:1'\npatience = '3s'\ndrain = '3s'\n");
    let mut command = program();
    command.args(["serve", "--print-config", "--config", &file, "--listen", "127.0.0.1:3"]);
    command.env("GAPLESS_SERVER__LISTEN", "127.0.0.1:2").env("GAPLESS_SERVER__DRAIN", "2s");
    let (code, printed) = told(&command.output().unwrap());
    assert_eq!(code, Some(0));
    for line in ["listen = \"127.0.0.1:3\"", "patience = \"3s\"", "drain = \"2s\""] {
        assert!(printed.contains(line), "{line} in {printed}");
    }
}

#[test]
fn a_node_runs_as_its_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let text = format!("[node]\ndata = '{}'\n[server]\nlisten = '127.0.0.1:0'\n", data.display());
    let file = write(dir.path(), &text);
    let process = Process::start(&["serve", "--config", &file]);
    assert_eq!(process.says(&["namespace", "list", "-o", "raw"]), "");
    assert!(process.terminate().success());
    assert!(data.is_dir());
}

#[test]
fn all_problems_are_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "[server]\nlisten = 'here'\ncolour = 'red'\n[memory]\ncache = 64\n");
    let mut command = program();
    command.args(["serve", "--config", &file, "--listen", "0.0.0.0:0"]).env("GAPLESS_SERVER__DRAIN", "soon");
    let (code, said) = told(&command.output().unwrap());
    assert_eq!(code, Some(1));
    for words in [
        &format!("\n  {file}: server.listen: `here` is not"),
        "server.colour: there is no such setting",
        "such as `64MiB`",
        "\n  GAPLESS_SERVER__DRAIN: server.drain: ",
        "--data DIR",
        "\n  --listen: server.listen: 0.0.0.0:0 can be reached",
        "--insecure",
        "\n next: ",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    let mut command = program();
    let (code, said) = told(&command.args(["serve", "--config", "/no/such/file"]).output().unwrap());
    assert_eq!(code, Some(1));
    assert!(said.contains("/no/such/file: cannot be read") && said.contains("--data DIR"), "{said}");
}

/// Pages that `cargo xtask docs` writes.
const PAGES: &[&str] = &["configuration", "metrics"];

#[test]
fn pages_made_from_the_program_are_current() {
    for page in PAGES {
        let (code, made) = told(&program().args(["reference", page]).output().unwrap());
        assert_eq!(code, Some(0));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/operations/{page}.md"));
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(made == kept, "docs/operations/{page}.md is not current: run `cargo xtask docs`");
    }
}
