//! When a node says that it is ready, it is.

use std::process::Stdio;

use gapless_api::v1::ledger_client::LedgerClient;
use gapless_client::{Ledger, v1};
use tonic::transport::Channel;

use crate::address::own;
use crate::kill::{SHOP, client, sale};
use crate::support::{Process, get, program};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readyz_turns_true_only_when_writes_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::serve(dir.path());
    let shop = v1::ApplyNamespaceRequest { definition: SHOP.to_owned() };
    client(&process).apply_namespace(shop).await.unwrap();
    for number in 0..50 {
        client(&process).write(sale(number)).await.unwrap();
    }
    assert_eq!(process.get("/readyz").0, 200);
    // Without a checkpoint there is a tail to fold at the next start.
    process.kill();
    let address = own().to_string();
    let data = dir.path().to_str().unwrap();
    let mut starting =
        program().args(["serve", "--data", data, "--listen", &address, "--log", "off"]).spawn().unwrap();
    let mut seen = Vec::new();
    // Before it listens nobody answers; then it says that it is not ready, or that it is.
    while seen.last() != Some(&200) {
        if let Ok((status, _)) = get(&address, "/readyz") {
            assert!([200, 503].contains(&status), "{seen:?} {status}");
            seen.push(status);
        }
        assert!(starting.try_wait().unwrap().is_none(), "it ended after {seen:?}");
    }
    // Not our client, which tries again: the first attempt must do, in every partition.
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut ledger = LedgerClient::new(channel);
    for number in 50..55 {
        ledger.write(sale(number)).await.unwrap();
    }
    starting.kill().unwrap();
    starting.wait().unwrap();
}

#[test]
fn a_node_that_is_alone_waits_for_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("gapless.toml");
    // Whoever waited for any of these would not be ready today.
    let hour = "[consensus]\nheartbeat = '1h'\nelection_timeout = '3h'\n[housekeeping]\ncheckpoint_interval = '1h'\n";
    std::fs::write(&config, hour).unwrap();
    let start = |data: &str| {
        let data = dir.path().join(data);
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap(), "--data"];
        let mut command = program();
        Process::spawn(command.args(arguments).arg(data).stderr(Stdio::null()))
    };
    // On an empty directory, on one that was closed, and on one that was not.
    let process = start("node");
    assert_eq!(process.get("/readyz"), (200, "it serves\n".to_owned()));
    process.says(&["namespace", "list"]);
    assert!(process.terminate().success());
    let process = start("node");
    assert_eq!(process.get("/readyz").0, 200);
    process.kill();
    assert_eq!(start("node").get("/readyz").0, 200);
}
