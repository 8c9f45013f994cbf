//! A client in another language, generated from the protocol by other people's tools.

use crate::programs::{Python, repository, succeeded};
use crate::support::Process;

fn dev() -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let process = Process::start(&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
    (dir, process)
}

#[test]
fn a_python_client_writes_retries_reads_follows_and_verifies_proofs() {
    let (dir, process) = dev();
    let python = Python::found();
    let stubs = dir.path().join("stubs");
    std::fs::create_dir(&stubs).unwrap();
    python.stubs(&stubs);
    // Twice: the second time the proofs are of a history that is older than the program.
    for first in [1, 3] {
        let mut command = python.command();
        command.env("PYTHONPATH", &stubs).arg(repository().join("examples/python/ledger.py"));
        let said = succeeded("ledger.py", command.args([&process.address, "demo", "1"]).output().unwrap());
        let second = first + 1;
        let expected = [
            format!("sold: event {first}, invoice {first}"),
            format!("retried: still event {first}, nothing was done"),
            "read: [{'amount': 3}]".to_owned(),
            format!("followed: event {first}, then live event {second}"),
            format!("proven: event {first} is one of {second}, and its past is unchanged"),
        ];
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }
    assert!(process.terminate().success());
}

#[test]
fn proofs_that_were_changed_do_not_hold_in_python() {
    let python = Python::found();
    let script = repository().join("crates/server/tests/python/changed_proofs.py");
    let mut command = python.command();
    command.env("PYTHONPATH", repository().join("examples/python")).arg(script);
    let said = succeeded("changed_proofs.py", command.output().unwrap());
    assert!(said.starts_with("all of "), "{said}");
}

#[test]
fn reflection_answers_in_both_versions() {
    let (_dir, process) = dev();
    let python = Python::found();
    for version in ["v1", "v1alpha"] {
        let mut command = python.command();
        command.arg(repository().join("crates/server/tests/python/reflection.py"));
        let said = succeeded("reflection.py", command.args([&process.address, version]).output().unwrap());
        for service in
            ["gapless.v1.Ledger", "gapless.v1.Admin", "gapless.v1.Projections", "grpc.health.v1.Health"]
        {
            assert!(said.contains(&format!("service {service}\n")), "{said}");
        }
        let method = "method gapless.v1.Ledger.Write .gapless.v1.WriteRequest .gapless.v1.WriteResponse\n";
        assert!(said.contains(method), "{said}");
    }
}
