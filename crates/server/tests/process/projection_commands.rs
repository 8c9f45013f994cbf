//! `gapless projection` and `gapless bench projection`, as people run them.

use serde_json::Value;

use crate::bench::measured;
use crate::support::Process;

const SHOP: &str = r#"
name = "shop"
partitions = 2
[projections.sales.rules.ItemSold]
kind = "upsert"
entity = "daily"
id = { event = "day" }
set.last = { event = "amount" }
[projections.work]
events = ["ItemSold"]
"#;

fn shop() -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::serve(&dir.path().join("data"));
    let file = dir.path().join("shop.toml");
    std::fs::write(&file, SHOP).unwrap();
    process.says(&["namespace", "apply", file.to_str().unwrap()]);
    (dir, process)
}

/// What a command says, once it says something of the kind.
fn until(process: &Process, arguments: &[&str], is_it: impl Fn(&str) -> bool) -> String {
    for _ in 0..600 {
        let said = process.says(arguments);
        if is_it(&said) {
            return said;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{arguments:?} never says it: {}", process.says(arguments));
}

#[test]
fn projections_are_listed_described_read_and_unblocked() {
    let (_dir, process) = shop();
    for (day, amount) in [("2026-11-16", 3), ("2026-11-17", 4), ("2026-11-16", 5)] {
        process.says(&["write", "shop/1", "ItemSold", &format!("{{\"day\":\"{day}\",\"amount\":{amount}}}")]);
    }
    let rows = ["projection", "rows", "shop", "sales", "daily", "--workspace", "1"];
    let raw = [&rows[..], &["-o", "raw"]].concat();
    assert_eq!(until(&process, &raw, |said| said.contains('5')), "{\"last\":5}\n{\"last\":4}\n");
    let shown = process.says(&rows);
    assert!(shown.contains("2026-11-16") && shown.contains("{\"last\":5}"), "{shown}");
    let one = process.says(&[&rows[..], &["--id", "2026-11-17", "-o", "json"]].concat());
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!((&one["columns"]["last"], &one["version"]), (&Value::from(4), &Value::from(2)));
    assert!(process.refuses(&[&rows[..], &["--id", "never"]].concat()).contains("has no row `never`"));

    let listed = process.says(&["projection", "list", "shop", "-o", "raw"]);
    assert_eq!(listed, "sales\nwork\n");
    let listed = process.says(&["projection", "list", "shop"]);
    assert!(listed.contains("rules") && listed.contains("workers"), "{listed}");
    let described = process.says(&["projection", "describe", "shop", "work"]);
    assert!(described.contains("1 ready") && described.contains("3 slots not resolved"), "{described}");
    let described = process.says(&["projection", "describe", "shop", "work", "-o", "json"]);
    let described: Value = serde_json::from_str(&described).unwrap();
    assert_eq!(described["domains"][1]["tail"], 3);

    let skipped = process.says(&["projection", "skip", "shop", "work", "1", "1"]);
    assert_eq!(skipped, "slot 1 was skipped; everything up to 1 is visible\n");
    assert!(process.refuses(&["projection", "skip", "shop", "work", "1", "1"]).contains("ALREADY_RESOLVED"));
    assert!(process.refuses(&["projection", "skip", "shop", "work", "1", "9"]).contains("UNKNOWN_SLOT"));
    let letters = process.says(&["projection", "dead-letters", "shop", "work", "-o", "json"]);
    let letter: Value = serde_json::from_str(&letters).unwrap();
    assert_eq!((&letter["slot"], &letter["filled_because"]), (&Value::from(1), &Value::from("skipped")));
    assert!(
        process.refuses(&["projection", "describe", "shop", "nothing"]).contains("gapless projection list")
    );
    assert!(process.terminate().success());
}

#[test]
fn a_benchmark_of_a_projection_says_what_it_measured() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::serve(dir.path());
    let report = measured(&process, &["bench", "projection", "--clients", "4", "--work", "1ms"]);
    assert!(report["events"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(
        (&report["setting"]["what"], &report["setting"]["work_ms"]),
        (&Value::from("projection"), &Value::from(1.0))
    );
    assert_eq!(report["errors"], serde_json::json!({}));
    assert!(process.terminate().success());
}
