//! Members of a cluster, changed over the wire. The nodes are engines in one process with a network in memory, each behind a server
//! of its own; clients follow whoever leads.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gapless_api::OtherNodes;
use gapless_api::v1::ledger_client::LedgerClient;
use gapless_client::{Client, Error, Ledger, Options, Retry, v1};
use gapless_consensus::network::switchboard::Switchboard;
use gapless_consensus::{ClusterId, Members, NodeId, Settings, Start};
use gapless_engine::{Config as EngineConfig, Engine};
use gapless_server::{Config, Security, Server};
use gapless_types::WorkspaceId;
use tonic::Code;
use tonic::transport::Channel;

use crate::address::own;
use crate::http::ask_at;
use crate::support::{problem, sale, set, until, with};

pub(crate) struct Cluster {
    board: Switchboard,
    dir: tempfile::TempDir,
    security: Security,
    consensus: Settings,
    nodes: Vec<(u64, SocketAddr, Engine, Server)>,
}

/// Nodes at these addresses, from 1 on.
fn voters(addresses: &[SocketAddr]) -> Members {
    let members = (1..).zip(addresses).map(|(node, address)| (NodeId::new(node), address.to_string()));
    Members::voting(members).unwrap()
}

impl Cluster {
    async fn found(count: u64) -> Self {
        Self::secured(count, Security::default()).await
    }

    /// Nodes that protect themselves like this.
    pub(crate) async fn secured(count: u64, security: Security) -> Self {
        let mut cluster = Self::empty(security);
        let addresses: Vec<SocketAddr> = (0..count).map(|_| own()).collect();
        let members = voters(&addresses);
        for (node, address) in (1..).zip(addresses) {
            cluster.start(node, address, Start::Found(members.clone())).await;
        }
        cluster
    }

    /// Without a node. Those that come are in no hurry to lead: on a busy machine one that leads may not be heard of for a while.
    fn empty(security: Security) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let consensus = Settings { election_timeout: Duration::from_secs(4), ..Settings::default() };
        Self { board: Switchboard::new(7), dir, security, consensus, nodes: Vec::new() }
    }

    async fn start(&mut self, node: u64, address: SocketAddr, start: Start) {
        let dir = self.dir.path().join(node.to_string());
        let id = NodeId::new(node);
        let mut config = EngineConfig::new(dir, id, start, Arc::new(self.board.clone()));
        let board = self.board.clone();
        config.attach = Some(Arc::new(move |inbound| board.attach(id, inbound)));
        config.cluster = Some(ClusterId::from_bytes(*b"the cluster's id"));
        config.consensus = Settings { seed: node, ..self.consensus };
        let engine = Engine::open(config).await.unwrap();
        let security = self.security.clone();
        let config = Config { other_nodes: OtherNodes::Reachable, security, ..Config::new(address) };
        let server = Server::start(engine.clone(), config).await.unwrap();
        self.nodes.push((node, address, engine, server));
    }

    pub(crate) fn address(&self, node: u64) -> String {
        self.nodes.iter().find(|(id, ..)| *id == node).unwrap().1.to_string()
    }

    /// A client that knows this node alone.
    fn client(&self, node: u64) -> Client {
        let retry = Retry { deadline: Duration::from_secs(60), ..Retry::default() };
        Client::new(&[self.address(node)]).unwrap().with(Options { retry, ..Options::default() })
    }

    /// Polls a node until `/readyz` says this status; what it says then.
    async fn until_ready_is(&self, node: u64, status: u16) -> String {
        let address = self.address(node).parse().unwrap();
        for _ in 0..6000 {
            let answer = ask_at(address, "GET", "/readyz", "", "").await;
            if answer.status == status {
                return answer.body;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("node {node} never says {status}");
    }

    /// Polls a node until its status is as wanted.
    async fn until(
        &self,
        node: u64,
        wanted: impl Fn(&v1::ClusterStatusResponse) -> bool,
    ) -> v1::ClusterStatusResponse {
        for _ in 0..6000 {
            let status = self.client(node).cluster_status(v1::ClusterStatusRequest {}).await.unwrap();
            if wanted(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("node {node} does not come to be as wanted");
    }

    /// Polls until one of the nodes leads.
    pub(crate) async fn leader(&self) -> u64 {
        for _ in 0..6000 {
            let leads = |engine: &Engine| engine.replicator().leadership().borrow().is_ready();
            if let Some((node, ..)) = self.nodes.iter().find(|(_, _, engine, _)| leads(engine)) {
                return *node;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody leads");
    }

    pub(crate) async fn stop(self) {
        for (_, _, engine, server) in self.nodes {
            server.stop().await;
            engine.close().await;
        }
    }
}

fn reason(error: &Error) -> String {
    error.problem().unwrap().reason.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_added_asked_to_lead_and_removed_while_clients_follow() {
    let mut cluster = Cluster::found(3).await;
    let any = cluster.client(2);
    let definition = "name = 'shop'\npartitions = 1".to_owned();
    any.apply_namespace(v1::ApplyNamespaceRequest { definition }).await.unwrap();
    assert_eq!(any.write(sale(1, 1)).await.unwrap().workspace_offset, 1);

    let address = own();
    cluster.start(4, address, Start::Join).await;
    let add = |node_id, address: &str| v1::AddNodeRequest { node_id, address: address.to_owned() };
    any.add_node(add(4, &address.to_string())).await.unwrap();
    any.add_node(add(4, &address.to_string())).await.unwrap();
    // It votes as far as the leader knows; a node learns that of itself a moment later.
    let all_vote = |status: &v1::ClusterStatusResponse| status.nodes.iter().all(|node| node.voter);
    cluster.until(4, |status| status.nodes.len() == 4 && all_vote(status)).await;
    let elsewhere = any.add_node(add(4, "127.0.0.1:1")).await.unwrap_err();
    assert_eq!(reason(&elsewhere), "NODE_EXISTS");

    let lead = |node_id| v1::TransferLeaderRequest { node_id };
    any.transfer_leader(lead(4)).await.unwrap();
    cluster.until(4, |status| status.takes_writes).await;
    // Whoever knows a follower alone is told where to go.
    for node in 1..=3 {
        let sold = cluster.client(node).write(sale(1, 1 + node)).await.unwrap();
        assert_eq!(sold.workspace_offset, 1 + node);
    }
    assert_eq!(reason(&any.transfer_leader(lead(9)).await.unwrap_err()), "NO_SUCH_NODE");

    let remove = |node_id| v1::RemoveNodeRequest { node_id };
    any.remove_node(remove(1)).await.unwrap();
    let status = cluster.until(4, |status| status.nodes.len() == 3).await;
    assert!(status.nodes.iter().all(|node| node.node_id != 1));
    assert_eq!(reason(&any.remove_node(remove(1)).await.unwrap_err()), "NO_SUCH_NODE");
    let used = any.add_node(add(1, "127.0.0.1:1")).await.unwrap_err();
    assert_eq!(reason(&used), "NODE_ID_USED");
    assert_eq!(any.write(sale(1, 5)).await.unwrap().workspace_offset, 5);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_changes_members() {
    let mut cluster = Cluster::found(1).await;
    cluster.until(1, |status| status.takes_writes).await;
    let (asked, address) = (cluster.address(1), own());
    cluster.start(2, address, Start::Join).await;
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
        command.arg("cluster").args(arguments).args(["--server", &asked, "--timeout", "60s"]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let last = run(&["remove", "1"]).await;
    assert_eq!(last.0, Some(1));
    assert!(last.2.contains("the only voter; add another one first"), "{}", last.2);
    assert_eq!(run(&["add", "2", &address.to_string()]).await.1, "node 2 votes\n");
    let status = run(&["status"]).await.1;
    assert!(status.contains(&format!("member      node 2 at {address}, votes\n")), "{status}");
    let handed_over = "node 2 was asked to lead, and the one before it does not any more\n";
    assert_eq!(run(&["transfer", "2"]).await.1, handed_over);
    cluster.until(2, |status| status.takes_writes).await;
    assert_eq!(run(&["remove", "1", "-o", "json"]).await.0, Some(0));
    cluster.until(2, |status| status.nodes.len() == 1).await;
    let unknown = run(&["remove", "7"]).await;
    assert!(unknown.2.contains("next: see which there are: gapless cluster status"), "{}", unknown.2);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_made_anew_out_of_another_node_by_command() {
    let cluster = Cluster::found(3).await;
    let any = cluster.client(1);
    let definition = "name = 'shop'\npartitions = 1".to_owned();
    any.apply_namespace(v1::ApplyNamespaceRequest { definition }).await.unwrap();
    for number in 1..=5 {
        any.write(sale(1, number)).await.unwrap();
    }
    let program = env!("CARGO_BIN_EXE_gapless");
    let repair = |node: u64, from: &str| {
        let (from, server) = (from.to_owned(), cluster.address(node));
        let mut command = Command::new(program);
        command.args(["partitions", "repair", "shop/0", "--from-node", &from, "--server", &server]);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    // A follower learns of the namespace a little later.
    let (_, _, third, _) = &cluster.nodes[2];
    until("node 3 knows it", || third.partition_of("shop", WorkspaceId::new(1)).is_some()).await;
    for from in ["any", "2"] {
        let done = repair(3, from).await.unwrap();
        let (told, wrong) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{told} {wrong}");
        assert!(told.contains("of node ") && told.contains("partition shop/0 serves"), "{told}");
    }
    let itself = repair(3, "3").await.unwrap();
    let told = String::from_utf8_lossy(&itself.stderr);
    assert!(!itself.status.success() && told.contains("no other member"), "{told}");
    let wrong = repair(3, "0").await.unwrap();
    assert_eq!(wrong.status.code(), Some(2), "a node has an id from 1 on, or is any");
    assert_eq!(any.write(sale(1, 6)).await.unwrap().workspace_offset, 6);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_serves_what_its_caller_has_seen_and_says_who_leads() {
    let cluster = Cluster::found(3).await;
    let any = cluster.client(1);
    let definition = "name = 'shop'\npartitions = 1".to_owned();
    any.apply_namespace(v1::ApplyNamespaceRequest { definition }).await.unwrap();
    let three = vec![set("a", "1"), set("b", "2"), set("c", "3")];
    let sold = any.write(with(sale(1, 1), three)).await.unwrap();
    let leads = cluster.leader().await;
    let follows = (1..=3).find(|node| *node != leads).unwrap();
    let connect = async |node| {
        let address = format!("http://{}", cluster.address(node));
        LedgerClient::new(Channel::from_shared(address).unwrap().connect().await.unwrap())
    };
    let (mut leader, mut follower) = (connect(leads).await, connect(follows).await);

    // Any node has what somebody wrote, if he says how far that was.
    let seen = Some(v1::ReadOptions { min_partition_offset: sold.partition_offset, ..Default::default() });
    let get = |options| v1::GetEntityRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        key: "b".into(),
        options,
    };
    let found = follower.get_entity(get(seen)).await.unwrap().into_inner().entity;
    assert_eq!(found.unwrap().value, "2");
    // A list that was begun on one node goes on on another.
    let page = |page_token, options| v1::ListEntitiesRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        page_size: 2,
        page_token,
        options,
        ..Default::default()
    };
    let first = leader.list_entities(page(String::new(), None)).await.unwrap().into_inner();
    let rest = follower.list_entities(page(first.next_page_token, seen)).await.unwrap().into_inner();
    let keys = |entities: Vec<v1::Entity>| entities.into_iter().map(|entity| entity.key).collect::<Vec<_>>();
    assert_eq!((keys(first.entities), keys(rest.entities)), (vec!["a".into(), "b".into()], vec!["c".into()]));

    // What only the leader can do, a follower sends there.
    let refused =
        [follower.write(sale(1, 2)).await.unwrap_err(), follower.get_entity(get(None)).await.unwrap_err()];
    for status in refused {
        let found = problem(&status);
        assert_eq!((status.code(), &*found.reason), (Code::Unavailable, "NOT_LEADER"));
        assert_eq!(found.leader(), Some(cluster.address(leads).as_str()));
        assert!(found.retry_after.is_some());
    }
    let (address, path) =
        (cluster.address(follows).parse().unwrap(), "/v1/namespaces/shop/workspaces/1/events");
    let body = "{\"event_type\":\"ItemSold\",\"client_id\":\"till\"}";
    let refused = ask_at(address, "POST", path, "Idempotency-Key: two\r\n", body).await;
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (503, Some("NOT_LEADER")));
    assert_eq!(refused.json()["details"]["leader"], cluster.address(leads));
    assert!(refused.head.lines().any(|line| line == "retry-after: 1"), "{}", refused.head);
    // It is ready all the same: it does what a follower is there for.
    cluster.until_ready_is(follows, 200).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_knows_no_leader_is_not_ready() {
    let mut cluster = Cluster::empty(Security::default());
    let addresses: Vec<SocketAddr> = (0..3).map(|_| own()).collect();
    let members = voters(&addresses);
    cluster.start(1, addresses[0], Start::Found(members.clone())).await;
    // One of three elects nobody.
    assert_eq!(cluster.until_ready_is(1, 503).await, "it does not take writes yet\n");
    for (node, address) in (2..).zip(&addresses[1..]) {
        cluster.start(node, *address, Start::Found(members.clone())).await;
    }
    for node in 1..=3 {
        assert_eq!(cluster.until_ready_is(node, 200).await, "it serves\n");
    }
    // Whoever is no member any more is told of no leader, although he led.
    let leads = cluster.leader().await;
    cluster.client(leads).remove_node(v1::RemoveNodeRequest { node_id: leads }).await.unwrap();
    assert_eq!(cluster.until_ready_is(leads, 503).await, "it knows no node that takes writes\n");
    for node in (1..=3).filter(|node| *node != leads) {
        cluster.until_ready_is(node, 200).await;
    }
    cluster.stop().await;
}
