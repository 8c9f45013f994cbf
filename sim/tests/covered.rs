//! Every fault and every bad input that the project means to bear has a test: `docs/testing.md` names it, and this holds the page against
//! the sources.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

/// How a server of this kind is broken.
const FAULTS: [&str; 25] = [
    "kill -9 at every step",
    "torn write",
    "short write",
    "lost write",
    "misdirected write",
    "flipped bit in a log",
    "flipped bit in an index",
    "flipped bit in a checkpoint",
    "flipped bit in a snapshot",
    "flipped bit in a backup",
    "EIO on write",
    "EIO on fsync",
    "full disk, then room again",
    "missing segment",
    "old file restored",
    "directory not synced",
    "clock jumps back and forth",
    "SIGSTOPped leader",
    "asymmetric partition",
    "slow disk",
    "duplicated, reordered, delayed messages",
    "restart loops",
    "rolling upgrade over an older format",
    "membership change under load",
    "snapshot install under load",
];

/// What is sent to it by those who mean it harm.
const INPUTS: [&str; 15] = [
    "oversized or malformed messages",
    "invalid UTF-8",
    "empty, huge, zero idempotency keys",
    "too many operations",
    "page sizes of 0 and of 2^31",
    "tampered page tokens",
    "slowloris",
    "connection floods",
    "stream floods",
    "HTTP/2 rapid reset",
    "decompression bombs",
    "path tricks in names",
    "no, expired, forged, wrong-audience tokens",
    "alg: none",
    "wrong certificate names",
];

/// The lines of a table: what, and where it is tried.
fn lines<'a>(page: &'a str, head: &str) -> Vec<(&'a str, &'a str)> {
    let begins = format!("| {head} | tests |");
    let rows =
        page.lines().skip_while(|line| *line != begins).skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches(['|', ' ']).split_once(" | ").unwrap()).collect()
}

/// What is in `backticks`.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether there is a test of this name, which runs: what stands before it says so.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declares = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        let before =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        let attributes: Vec<&&str> = before.filter(|line| line.starts_with("#[")).collect();
        let is_declared = ["", "pub ", "async ", "pub async "]
            .iter()
            .any(|visible| line.strip_prefix(visible).is_some_and(|line| line.starts_with(&declares)));
        is_declared
            && attributes
                .iter()
                .any(|attribute| attribute.starts_with("#[test") || attribute.starts_with("#[tokio::test"))
            && !attributes.iter().any(|attribute| attribute.contains("ignore"))
    })
}

#[test]
fn what_is_no_test_or_does_not_run_is_none() {
    for (source, is) in [
        ("#[test]\nfn one() {", true),
        ("#[tokio::test(flavor = \"x\")]\n/// Why.\nasync fn one() {", true),
        ("    #[test]\n    #[should_panic]\n    fn one() {", true),
        ("fn one() {", false),
        ("#[test]\nfn other() {}\nfn one() {", false),
        ("#[test]\n#[ignore = \"slow\"]\nfn one() {", false),
        ("#[test]\nfn one_more() {", false),
        ("#[test]\n// fn one() {", false),
    ] {
        assert_eq!(is_test(source, "one"), is, "{source}");
    }
}

#[test]
fn every_line_of_both_lists_has_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/testing.md")).unwrap();
    for (head, listed) in [("fault", &FAULTS[..]), ("input", &INPUTS[..])] {
        let lines = lines(&page, head);
        assert_eq!(lines.iter().map(|(what, _)| *what).collect::<Vec<_>>(), listed, "docs/testing.md");
        for (what, tests) in lines {
            let mut source = String::new();
            let mut found = 0;
            for name in names(tests) {
                if name.contains('/') {
                    source =
                        fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
                    continue;
                }
                assert!(is_test(&source, name), "{what}: there is no test {name}, or it does not run");
                found += 1;
            }
            assert!(found > 0, "{what} has no test");
        }
    }
}
