//! When a node says that it is ready, it is.

use std::net::TcpListener;

use gapless_client::{Client, Ledger, Options, Retry, v1};

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
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
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
    let retry = Retry { deadline: std::time::Duration::ZERO, ..Retry::default() };
    let once = Client::new(&[address]).unwrap().with(Options { retry, ..Options::default() });
    // As many workspaces as there are partitions: all of them are up.
    for number in 50..55 {
        once.write(sale(number)).await.unwrap();
    }
    starting.kill().unwrap();
    starting.wait().unwrap();
}
