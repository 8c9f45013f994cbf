//! Client commands against a server: what they say, and what they end with.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Process, post, program};

const SHOP: &str = "name = \"shop\"\npartitions = 2\n[kinds.default.sequences]\ninvoice = 1\n";

fn shop() -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::serve(&dir.path().join("data"));
    let file = dir.path().join("shop.toml");
    std::fs::write(&file, SHOP).unwrap();
    process.says(&["namespace", "apply", file.to_str().unwrap()]);
    (dir, process)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_event_is_written_read_and_proven() {
    let (_dir, process) = shop();
    let written = process.says(&[
        "write",
        "shop/42",
        "ItemSold",
        "{\"amount\":3}",
        "--number",
        "invoice",
        "--key",
        "order-1",
    ]);
    assert!(written.contains("workspace offset  1\n") && written.contains("invoice=1"), "{written}");
    let again = process.says(&[
        "write",
        "shop/42",
        "ItemSold",
        "{\"amount\":3}",
        "--number",
        "invoice",
        "--key",
        "order-1",
    ]);
    assert!(again.contains("nothing was done") && again.contains("invoice=1"), "{again}");
    let second =
        json(&process.says(&["write", "shop/42", "ItemSold", "--proof", "--set", "apples=12", "-o", "json"]));
    assert_eq!((&second["workspace_offset"], &second["duplicate"]), (&Value::from(2), &Value::from(false)));
    assert_eq!(
        process.says(&["write", "shop/42", "Note", "hello", "--content-type", "text/plain", "-o", "raw"]),
        "3\n"
    );

    let events: Vec<Value> = process.says(&["read", "shop/42", "-o", "json"]).lines().map(json).collect();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["payload"], serde_json::json!({"amount": 3}));
    assert_eq!(events[0]["numbers"]["invoice"], 1);
    assert_eq!(process.says(&["read", "shop/42", "--from", "3", "-o", "raw"]), "hello\n");
    let table = process.says(&["read", "shop/42", "--backward", "--limit", "1"]);
    assert!(table.lines().count() == 2 && table.contains("Note"), "{table}");

    assert!(
        process.says(&["proof", "shop/42", "1"]).starts_with("verified  event 1 is one of the first 3\n")
    );
    let root = process.says(&["proof", "shop/42", "1", "--size", "2", "-o", "raw"]);
    process.says(&["write", "shop/42", "Later"]);
    process.says(&["proof", "shop/42", "2", "--size", "2", "--root", root.trim_end()]);
    let other = "00".repeat(32);
    let refused = process.refuses(&["proof", "shop/42", "2", "--size", "2", "--root", &other]);
    assert!(refused.contains("the proof does not hold"), "{refused}");
    assert!(process.terminate().success());
}

#[test]
fn entities_sequences_namespaces_partitions_and_the_node_are_shown() {
    let (_dir, process) = shop();
    process.says(&[
        "write",
        "shop/1",
        "Counted",
        "--set",
        "stock/apples=12",
        "--set",
        "stock/pears=3",
        "--number",
        "invoice",
    ]);
    assert_eq!(process.says(&["entity", "get", "shop/1", "stock/apples", "-o", "raw"]), "12\n");
    assert_eq!(
        process.says(&["entity", "list", "shop/1", "--prefix", "stock/", "-o", "json"]).lines().count(),
        2
    );
    assert_eq!(process.says(&["sequences", "shop/1", "-o", "raw"]), "invoice 1\n");
    assert_eq!(process.says(&["namespace", "list", "-o", "raw"]), "shop\n");
    assert!(process.says(&["namespace", "show", "shop"]).contains("invoice = 1"));
    assert_eq!(process.says(&["partitions", "shop", "-o", "raw"]), "shop/0 serving\nshop/1 serving\n");
    let partition = process.says(&["partitions", "-o", "json"]);
    assert_eq!(json(partition.lines().nth(1).unwrap())["highest_offset"], 2);
    assert_eq!(process.says(&["cluster", "status", "-o", "raw"]), "ready\n");
    assert_eq!(process.says(&["record", "list", "shop/1", "-o", "json"]), "");
    assert!(process.refuses(&["record", "get", "shop/1", "200001"]).contains("has no record 200001"));
    assert!(process.refuses(&["entity", "get", "shop/1", "nothing"]).contains("has no entity"));
    assert!(process.refuses(&["namespace", "drop", "shop"]).contains("--yes"));
    assert_eq!(process.says(&["namespace", "drop", "shop", "--yes"]), "dropped shop\n");
    let gone = process.refuses(&["write", "shop/1", "Counted"]);
    assert!(
        gone.contains("there is no namespace `shop`") && gone.contains("gapless namespace list"),
        "{gone}"
    );
}

#[test]
fn refusals_and_wrong_usage_have_exit_codes_of_their_own() {
    let (_dir, process) = shop();
    process.says(&["write", "shop/1", "Counted", "--set", "a=1", "--if-absent"]);
    let exists = process.refuses(&["write", "shop/1", "Counted", "--set", "a=2", "--if-absent"]);
    assert!(exists.contains("KEY_EXISTS"), "{exists}");
    process.says(&["write", "shop/1", "Paid", "--key", "order-9"]);
    let reused = process.refuses(&["write", "shop/1", "Refunded", "--key", "order-9"]);
    assert!(reused.contains("IDEMPOTENCY_KEY_REUSED") && reused.contains("choose another --key"), "{reused}");
    assert!(process.refuses(&["write", "shop/1", "Sold", "{amount:3}"]).contains("the payload is no JSON"));
    for usage in [&["write", "shop", "Sold"][..], &["read", "shop/x"], &["nonsense"], &["write"]] {
        assert_eq!(process.ask(usage).status.code(), Some(2), "{usage:?}");
    }
    let nobody =
        program().args(["read", "shop/1", "--server", "127.0.0.1:1", "--timeout", "300ms"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(said.contains("next: see that a server runs at 127.0.0.1:1 "), "{said}");
}

#[test]
fn a_write_over_http_that_is_retried_on_the_command_line_happens_once() {
    let (_dir, process) = shop();
    let (path, payload) =
        ("/v1/namespaces/shop/workspaces/1/events", "{\"a\":12345678901234567890123,\"a\":1.10}");
    let body = format!("{{\"event_type\":\"ItemSold\",\"client_id\":\"till\",\"payload\":{payload}}}");
    let uuid = "0e2f9a3c-6c1b-4e61-9d3e-0a4f5f0b7c11";
    let digits = uuid.replace('-', "");
    for (offset, key) in [(1, uuid), (2, "order-1")] {
        let first = post(&process.address, path, &format!("Idempotency-Key: {key}\r\n"), &body);
        assert_eq!(first.0, 200, "{}", first.1);
        assert_eq!(json(&first.1)["workspace_offset"], offset);
        let write = |key| {
            process.says(&[
                "write", "shop/1", "ItemSold", payload, "--client", "till", "--key", key, "-o", "json",
            ])
        };
        let again = json(&write(key));
        assert_eq!(
            (&again["workspace_offset"], &again["duplicate"]),
            (&Value::from(offset), &Value::from(true))
        );
    }
    let again = process.says(&["write", "shop/1", "ItemSold", payload, "--client", "till", "--key", &digits]);
    assert!(again.contains("nothing was done") && again.contains(&digits), "{again}");
    // Whoever reads it gets it as it was written.
    let read = process.says(&["read", "shop/1", "-o", "json"]);
    assert_eq!(read.lines().count(), 2);
    assert!(read.lines().all(|line| line.contains(&format!("\"payload\":{payload}"))), "{read}");
    assert!(process.refuses(&["write", "shop/1", "Sold", "--key", " "]).contains("is needed"));
}

#[test]
fn a_write_whose_outcome_is_not_known_names_the_key_that_gets_it() {
    let (_dir, process) = shop();
    let lost = program()
        .args(["write", "shop/1", "Sold", "--server", "127.0.0.1:1", "--timeout", "300ms"])
        .output()
        .unwrap();
    assert_eq!(lost.status.code(), Some(1));
    let said = String::from_utf8(lost.stderr).unwrap();
    let (_, key) = said.split_once("the same command with --key ").expect("it names the key");
    let key = key.split(',').next().unwrap();
    assert!(process.says(&["write", "shop/1", "Sold", "--key", key]).contains(key));
    assert!(process.says(&["write", "shop/1", "Sold", "--key", key]).contains("nothing was done"));
}

#[test]
fn a_list_of_several_pages_is_one_table_and_every_command_has_every_form() {
    let (dir, process) = shop();
    // More than fit a page, in two writes; the last ones are wider.
    for (write, width) in [(0, 4), (1, 12)] {
        let pairs: Vec<String> = (0..600).map(|number| format!("{write}{number:0width$}=v")).collect();
        let mut arguments = vec!["write", "shop/1", "Counted"];
        arguments.extend(pairs.iter().flat_map(|pair| ["--set", pair]));
        process.says(&arguments);
    }
    let table = process.says(&["entity", "list", "shop/1"]);
    assert_eq!(table.lines().filter(|line| line.contains("version")).count(), 1, "one heading");
    assert_eq!(table.lines().count(), 1201);
    let at: std::collections::BTreeSet<_> = table.lines().skip(1).map(|line| line.rfind('v')).collect();
    assert_eq!(at.len(), 1, "columns are as wide as all of it needs");
    assert_eq!(process.says(&["entity", "list", "shop/1", "-o", "raw"]).lines().count(), 1200);
    let dropped = process.says(&["namespace", "drop", "shop", "--yes", "-o", "json"]);
    assert_eq!(json(&dropped), serde_json::json!({"namespace": "shop"}));

    let data = dir.path().join("data");
    let (backups, copy) = (dir.path().join("backups"), dir.path().join("copy"));
    let [data, backups, copy] = [&data, &backups, &copy].map(|path| path.to_str().unwrap());
    process.says(&["backup", backups]);
    assert!(process.terminate().success());
    let says = |arguments: &[&str]| {
        let output = program().args(arguments).args(["-o", "raw"]).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    says(&["restore", backups, "--data", copy]).trim_end().parse::<u64>().expect("the entry it goes up to");
    assert_eq!(says(&["verify", data]), "sound\n");
    assert_eq!(says(&["verify", backups]), "sound\n");
    assert_eq!(says(&["repair", data]), "", "nothing was repaired");
    let log = find_log(std::path::Path::new(data)).expect("a node has a log");
    let log = log.to_str().unwrap();
    assert_eq!(says(&["log", "verify", log]), "sound\n");
    let positions = says(&["log", "inspect", log]);
    assert_eq!(positions.split_whitespace().filter_map(|text| text.parse::<u64>().ok()).count(), 2);
    assert_eq!(says(&["log", "accept-loss", log]), "");
}

/// The first directory with segments of a log.
fn find_log(dir: &std::path::Path) -> Option<std::path::PathBuf> {
    let entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_log = |dir: &std::path::Path| dir.file_name().is_some_and(|name| name == "log");
    if is_log(dir) && entries.iter().any(|path| path.is_file()) {
        return Some(dir.to_path_buf());
    }
    entries.iter().filter(|path| path.is_dir()).find_map(|path| find_log(path))
}

#[test]
fn following_shows_what_was_and_what_comes() {
    let (_dir, process) = shop();
    process.says(&["write", "shop/1", "First"]);
    let mut following = program()
        .args(["read", "shop/1", "--follow", "--limit", "3", "-o", "json", "--server", &process.address])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    assert_eq!(json(&lines.next().unwrap().unwrap())["event_type"], "First");
    for name in ["Second", "Third"] {
        process.says(&["write", "shop/1", name]);
        assert_eq!(json(&lines.next().unwrap().unwrap())["event_type"], name);
    }
    assert!(following.wait().unwrap().success());
}

#[test]
fn a_payload_and_a_definition_can_come_from_stdin() {
    let (_dir, process) = shop();
    let feed = |arguments: &[&str], text: &str| {
        let mut command = program();
        command.args(arguments).env("GAPLESS_SERVER", &process.address);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
    };
    feed(&["write", "shop/1", "Sold", "-"], "{\"amount\": 4}");
    assert_eq!(json(&process.says(&["read", "shop/1", "-o", "raw"]))["amount"], 4);
    feed(&["namespace", "apply", "-"], "name = 'till'\npartitions = 1");
    assert_eq!(process.says(&["namespace", "list", "-o", "raw"]), "shop\ntill\n");
}

#[test]
fn a_server_refuses_to_listen_beyond_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let refused = program().args(["serve", "--data", data, "--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("can be reached from other machines") && said.contains("--insecure"), "{said}");
    let trusted = Process::start(&["serve", "--data", data, "--listen", "0.0.0.0:0", "--insecure"]);
    assert!(trusted.address.starts_with("0.0.0.0:"));
    assert!(trusted.terminate().success());
}

#[test]
fn dev_starts_a_server_and_its_three_commands_work_when_pasted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut process = Process::start(&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("Ctrl-C")) {
        lines.push(process.line());
    }
    let from = lines.iter().position(|line| line.contains("Three commands")).unwrap();
    for command in &lines[from + 1..from + 4] {
        let output = std::process::Command::new("sh").args(["-c", command.trim()]).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(process.terminate().success());
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = program().args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("namespace"));
    }
}

#[test]
fn top_shows_a_frame_and_a_watch_goes_on_until_it_is_interrupted() {
    let (_dir, process) = shop();
    process.says(&["write", "shop/1", "First"]);
    let frame = json(&process.says(&["top", "--once", "--interval", "50ms", "-o", "json"]));
    assert_eq!(
        (&frame["is_leader"], &frame["takes_writes"], &frame["members"]),
        (&true.into(), &true.into(), &1.into())
    );
    assert_eq!(frame["partitions"].as_array().unwrap().len(), 2);
    assert!(frame["connections"].as_u64().unwrap() >= 1, "the one that asks: {frame}");
    let text = process.says(&["top", "--once", "--interval", "50ms", "--lines", "1"]);
    assert!(text.starts_with("node 1, leads, term ") && text.contains("and 1 more; --lines N"), "{text}");
    assert!(text.contains("\nmemory      rows ") && text.contains("checkpoint"), "{text}");

    for watching in
        [&["top", "--interval", "50ms", "-o", "json"][..], &["partitions", "--watch", "-o", "json"]]
    {
        let mut command = program();
        command.args(watching).env("GAPLESS_SERVER", &process.address).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..3 {
            json(&lines.next().unwrap().unwrap());
        }
        let asked =
            std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        // What it says until then is read, so that it does not wait for us.
        lines.for_each(drop);
        assert!(child.wait().unwrap().success(), "{watching:?}");
    }
}

#[test]
fn members_of_a_server_that_runs_alone_cannot_be_changed_and_the_command_says_what_to_do() {
    let (_dir, process) = shop();
    for change in [
        &["cluster", "add", "2", "127.0.0.1:1"][..],
        &["cluster", "remove", "1"],
        &["cluster", "transfer", "1"],
    ] {
        let refused = process.refuses(change);
        assert!(
            refused.contains("reaches no other node") && refused.contains("next: ask a server"),
            "{refused}"
        );
    }
}
