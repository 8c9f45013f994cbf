//! When a node says that it is ready, it is.

use gapless_api::v1::ledger_client::LedgerClient;
use gapless_client::{Ledger, v1};
use tonic::transport::Channel;

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
    // Below those that the system gives away to others.
    let address = format!("127.0.0.1:{}", 20_000 + std::process::id() % 10_000);
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
