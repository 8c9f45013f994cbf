//! The audit of a cluster: what became of handing over leadership is told by whoever leads then, and what concerns one node alone is done
//! wherever it is asked for.

use std::time::Duration;

use futures_util::TryStreamExt;
use gapless_api::v1;
use gapless_api::v1::admin_client::AdminClient;
use gapless_client::{Client, Credentials, Ledger, Options, Retry};
use gapless_server::Security;
use gapless_server::access::keys::{Algorithm, Key, to_file};
use gapless_server::access::tokens::{Claims, issued};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Request;
use tonic::transport::Channel;

use crate::nodes::Cluster;
use crate::support::LONG;

/// Three nodes that ask everybody who he is, and somebody who may do everything.
struct Secured {
    cluster: Cluster,
    token: String,
    _keys: tempfile::TempDir,
}

impl Secured {
    async fn start() -> Self {
        let keys = tempfile::tempdir().unwrap();
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        let token_keys = keys.path().join("keys.json");
        std::fs::write(&token_keys, to_file(&[key.to_check_with()])).unwrap();
        let claims = r#"{"sub":"boss","aud":"gapless","exp":4000000000,"namespaces":["*"],"actions":["read","admin"]}"#;
        let claims: Claims = serde_json::from_str(claims).unwrap();
        let token = issued(&claims, &key).unwrap();
        let security = Security { token_keys, ..Security::default() };
        Self { cluster: Cluster::secured(3, security).await, token, _keys: keys }
    }

    fn client(&self, node: u64) -> Client {
        let credentials = Credentials::default().with_token(&self.token).unwrap();
        let client = Client::connecting(&[self.cluster.address(node)], credentials).unwrap();
        client.with(Options { retry: Retry { deadline: LONG, ..Retry::default() }, ..Options::default() })
    }

    /// The types of the events of the audit, each with what it says.
    async fn audit(&self, node: u64) -> Vec<(String, Value)> {
        let all = v1::ReadWorkspaceRequest {
            namespace: "_system".to_owned(),
            workspace: 1,
            from: 1,
            ..Default::default()
        };
        // It is made when it is first needed.
        let Ok(events) = self.client(node).read_workspace(all).await else { return Vec::new() };
        let events: Vec<v1::Event> = events.try_collect().await.unwrap();
        let said = |event: &v1::Event| serde_json::from_slice(&event.payload).unwrap();
        events.iter().map(|event| (event.event_type.clone(), said(event))).collect()
    }

    /// Polls until the audit says that somebody leads in a later term than this one: what it says.
    async fn elected(&self, node: u64, term: u64) -> Value {
        let is_later = |(name, event): &(String, Value)| {
            name == "LeaderElected" && event["term"].as_u64().is_some_and(|elected| elected > term)
        };
        for _ in 0..6000 {
            if let Some((_, event)) = self.audit(node).await.into_iter().find(is_later) {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody says that he leads");
    }

    /// The events from the last one on that says that this is to be done.
    async fn since(&self, call: &str, node: u64) -> Vec<(String, Value)> {
        let mut all = self.audit(node).await;
        let is_it = |(name, event): &(String, Value)| name == "AdminAction" && event["call"] == call;
        let at = all.iter().rposition(is_it).expect("the action is there");
        all.split_off(at)
    }

    /// How much is missing in the audit, as far as a node knows.
    async fn unwritten(&self, node: u64) -> String {
        let mut stream = TcpStream::connect(self.cluster.address(node)).await.unwrap();
        let ask = format!(
            "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
            self.token
        );
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page.lines().find(|line| line.starts_with("gapless_audit_unwritten_total ")).unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handing_over_leadership_ends_with_the_event_of_whoever_leads_then() {
    let secured = Secured::start().await;
    let before = secured.cluster.leader().await;
    let first = secured.elected(before, 0).await;
    let before = first["node_id"].as_u64().unwrap();
    let after = before % 3 + 1;
    secured.client(before).transfer_leader(v1::TransferLeaderRequest { node_id: after }).await.unwrap();
    let second = secured.elected(after, first["term"].as_u64().unwrap()).await;
    let told = secured.since("TransferLeader", after).await;
    let names: Vec<&str> = told.iter().take(2).map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["AdminAction", "LeaderElected"], "{told:#?}");
    assert_eq!((&told[0].1["principal"], &told[0].1["node_id"]), (&"boss".into(), &after.into()));
    // Who that is is for the nodes to find out: the one that was asked, unless it was too slow.
    assert_eq!(told[1].1, second);
    assert_eq!(secured.unwritten(before).await, "gapless_audit_unwritten_total 0", "nothing is missing");
    let after = second["node_id"].as_u64().unwrap();
    // Whoever leads already still does, and says itself that it is done.
    secured.client(after).transfer_leader(v1::TransferLeaderRequest { node_id: after }).await.unwrap();
    let told = secured.since("TransferLeader", after).await;
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["AdminAction", "AdminActionDone"], "{told:#?}");
    secured.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_the_node_that_leads_ends_with_the_event_of_whoever_leads_then() {
    let secured = Secured::start().await;
    let first = secured.elected(secured.cluster.leader().await, 0).await;
    assert_eq!(first["voters"], serde_json::json!([1, 2, 3]));
    let removed = first["node_id"].as_u64().unwrap();
    let stays = removed % 3 + 1;
    secured.client(removed).remove_node(v1::RemoveNodeRequest { node_id: removed }).await.unwrap();
    let second = secured.elected(stays, first["term"].as_u64().unwrap()).await;
    let told = secured.since("RemoveNode", stays).await;
    let names: Vec<&str> = told.iter().take(2).map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["AdminAction", "LeaderElected"], "{told:#?}");
    assert_eq!((&told[0].1["principal"], &told[0].1["node_id"]), (&"boss".into(), &removed.into()));
    assert_eq!(told[1].1, second);
    let voters: Vec<u64> = (1..=3).filter(|node| *node != removed).collect();
    assert_eq!(second["voters"], serde_json::json!(voters), "it was done");
    assert_eq!(secured.unwritten(removed).await, "gapless_audit_unwritten_total 0", "nothing is missing");
    secured.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_concerns_a_node_alone_is_done_there_whoever_leads() {
    let secured = Secured::start().await;
    let leader = secured.cluster.leader().await;
    let follower = leader % 3 + 1;
    let definition = "name = 'shop'\npartitions = 1".to_owned();
    secured.client(leader).apply_namespace(v1::ApplyNamespaceRequest { definition }).await.unwrap();
    // Not by a client that would go to whoever leads.
    let address = format!("http://{}", secured.cluster.address(follower));
    let mut admin = AdminClient::new(Channel::from_shared(address).unwrap().connect().await.unwrap());
    let bearer = |token: &str| format!("Bearer {token}").parse().unwrap();
    let mut repair = Request::new(v1::RepairPartitionRequest {
        namespace: "shop".to_owned(),
        any_node: true,
        ..Default::default()
    });
    repair.metadata_mut().insert("authorization", bearer(&secured.token));
    admin.repair_partition(repair).await.unwrap();
    assert_eq!(secured.unwritten(follower).await, "gapless_audit_unwritten_total 1", "it is in its lines");
    let mut freeze = Request::new(v1::FreezePartitionRequest { namespace: "shop".to_owned(), partition: 0 });
    freeze.metadata_mut().insert("authorization", bearer(&secured.token));
    let refused = gapless_api::Problem::from(&admin.freeze_partition(freeze).await.unwrap_err());
    let leads = secured.cluster.address(leader);
    assert_eq!((&*refused.reason, refused.leader()), ("NOT_LEADER", Some(leads.as_str())));
    secured.cluster.stop().await;
}
