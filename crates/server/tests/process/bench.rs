//! `gapless bench` against the real binary: what it counts is what was written, and it says what failed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Process, program};

fn server() -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::serve(&dir.path().join("data"));
    (dir, process)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// How many events the namespace of the benchmark has.
fn written(process: &Process) -> u64 {
    let workspaces = ["1", "2", "3", "4"].map(|workspace| {
        process.says(&["read", &format!("bench/{workspace}"), "-o", "json"]).lines().count() as u64
    });
    workspaces.iter().sum()
}

/// Little before anything is measured, and few workspaces.
const SMALL: [&str; 4] = ["--warm-up", "100ms", "--workspaces", "4"];

/// What a benchmark says that is given so much time that it has something to say: a busy machine can be held up for longer than a short
/// one takes.
fn in_time(process: &Process, arguments: &[&str], is_something: impl Fn(&str) -> bool) -> String {
    let mut said = String::new();
    for duration in ["400ms", "4s", "40s"] {
        said = process.says(&[arguments, &SMALL, &["--duration", duration]].concat());
        if is_something(&said) {
            break;
        }
    }
    said
}

/// Its report.
pub(crate) fn measured(process: &Process, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"]].concat();
    json(&in_time(process, &arguments, |said| json(said)["events"].as_u64() > Some(0)))
}

/// Everything that a report has to say of itself.
#[track_caller]
fn check(report: &Value) {
    let number = |path: &str| {
        report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {report}"))
    };
    assert!(number("/events") > 0.0 && number("/events_per_second") > 0.0, "{report}");
    let latencies =
        ["/latency_us/p50", "/latency_us/p90", "/latency_us/p99", "/latency_us/p999", "/latency_us/max"]
            .map(number);
    assert!(latencies.is_sorted() && latencies[0] > 0.0, "{report}");
    let counted: u64 =
        report["histogram"].as_array().unwrap().iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
    assert_eq!(report["succeeded"], counted, "every latency is in the histogram");
    assert_eq!(report["errors"], serde_json::json!({}));
}

#[test]
fn a_closed_loop_writes_what_it_says() {
    let (_dir, process) = server();
    let report = measured(&process, &["bench", "write", "--clients", "3"]);
    check(&report);
    assert_eq!(
        (&report["setting"]["what"], &report["setting"]["rate"]),
        (&Value::from("write"), &Value::Null)
    );
    // What was written while it warmed up, and by whom was not answered in time, is there as well.
    assert!(written(&process) >= report["events"].as_u64().unwrap());
    let text = in_time(&process, &["bench", "write", "--clients", "2"], |said| said.contains('#'));
    assert!(text.starts_with("write: 2 clients, closed loop, events of 256 B, 4 workspaces\n"), "{text}");
    assert!(text.contains("\nlatency     p50 ") && text.contains(", p99.9 ") && text.contains('#'), "{text}");
    let rate = in_time(&process, &["bench", "write", "-o", "raw"], |said| said != "0\n");
    assert!(rate.trim_end().parse::<u64>().unwrap() > 0, "{rate}");
}

#[test]
fn an_open_loop_sends_at_its_rate() {
    let (_dir, process) = server();
    let bench = ["bench", "write", "--clients", "8", "--rate", "100", "--duration", "3s", "--json"];
    let report = json(&process.says(&[&bench[..], &SMALL].concat()));
    check(&report);
    // 100 a second, 3 s: 300, give or take what fell on the edges. If the machine is held up at the end, nobody says what is due then.
    let due = report["succeeded"].as_u64().unwrap() + report["not_sent"].as_u64().unwrap();
    assert!((100..=320).contains(&due), "{report}");
}

#[test]
fn streams_and_reads_are_measured() {
    let (_dir, process) = server();
    let stream = measured(&process, &["bench", "stream", "--in-flight", "64"]);
    check(&stream);
    assert_eq!(stream["setting"]["in_flight"], 64);
    let read = measured(&process, &["bench", "read", "--clients", "2", "--events", "20"]);
    check(&read);
    assert_eq!(
        read["events"].as_u64().unwrap(),
        20 * read["succeeded"].as_u64().unwrap(),
        "all of them are there"
    );
}

#[test]
fn progress_is_told_in_lines_and_an_interruption_shows_what_was_measured() {
    let (_dir, process) = server();
    let mut command = program();
    command.args([
        "bench",
        "write",
        "--clients",
        "2",
        "--warm-up",
        "0s",
        "--duration",
        "1h",
        "--server",
        &process.address,
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = progress.next().unwrap().unwrap();
    assert!(line.ends_with(" events/s"), "{line}");
    let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("interrupted: this is what was measured in "), "{said}");
    assert!(said.contains("\nevents      "), "{said}");
}

#[test]
fn a_server_that_is_not_there_and_arguments_that_cannot_be_are_refused() {
    let (_dir, process) = server();
    let nobody =
        program().args(["bench", "write", "--server", "127.0.0.1:1", "--timeout", "300ms"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(
        String::from_utf8(nobody.stderr).unwrap().contains("next: see that a server runs at 127.0.0.1:1")
    );
    for wrong in
        [&["bench", "write", "--clients", "0"][..], &["bench", "write", "--size", "1048577"], &["bench"]]
    {
        assert_eq!(process.ask(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
