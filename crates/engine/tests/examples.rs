//! The examples do what they say, run as a user runs them.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the examples of a package whose tests it runs.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is built with `--examples`, or with all targets", path.display());
    path
}

fn lines_of(name: &str, dir: &Path) -> Vec<String> {
    let output = Command::new(example(name)).arg(dir).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out.lines().map(str::to_owned).collect()
}

#[test]
fn embed_sells_once_whatever_is_retried_and_goes_on_where_it_was() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("shop");
    let first = lines_of("embed", &dir);
    let told = [
        "order 1: invoice 1",
        "order 2: invoice 2",
        "order 3: invoice 3",
        "order 2: invoice 2, as it was told before",
        "the process dies; what was acknowledged is on disk",
        "order 3: invoice 3, as it was told before",
        "order 4: invoice 4",
        "followed: invoice 1: {\"order\":\"order 1\"}",
        "followed: invoice 2: {\"order\":\"order 2\"}",
        "followed: invoice 3: {\"order\":\"order 3\"}",
        "followed: invoice 4: {\"order\":\"order 4\"}",
    ];
    assert_eq!(first[..told.len()], told);
    assert!(first[told.len()].starts_with("proven: invoice 1 "), "{first:?}");
    let second = lines_of("embed", &dir);
    assert!(second[..4].iter().all(|line| line.ends_with("as it was told before")), "{second:?}");
    assert_eq!(second[6], "order 4: invoice 4, as it was told before");
}

#[test]
fn embed_fits_on_a_page() {
    let source = include_str!("../examples/embed.rs");
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    assert!(source.lines().filter(is_code).count() <= 60);
}

#[test]
fn retry_gets_the_numbers_of_a_sale_that_nobody_was_told_of() {
    let home = tempfile::tempdir().unwrap();
    let lines = lines_of("retry", &home.path().join("shop"));
    let of = |who: &str| -> Vec<String> {
        lines.iter().filter_map(|line| line.strip_prefix(who)).map(|line| line.trim().to_owned()).collect()
    };
    let (child, parent) = (of("child: "), of("parent: "));
    for order in 0..3 {
        let told = child[order].split_once(", ").unwrap().1;
        let retried = parent[order + 1].split_once(", ").unwrap().1;
        assert_eq!(retried, told, "{lines:#?}");
    }
    assert!(child[3].starts_with("order 4 is in the ledger"), "{lines:#?}");
    assert!(parent[0].contains("signal: 6"), "{lines:#?}");
    assert!(parent[4].starts_with("order 4 again, invoice 4, event 4"), "{lines:#?}");
    assert!(parent[5].starts_with("order 5 is new, invoice 5, event 5"), "{lines:#?}");
}
