//! Every call of the service Admin, health and reflection.

use std::time::Duration;

use gapless_api::v1;
use gapless_api::v1::admin_client::AdminClient;
use gapless_server::{Config, Server};
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{Node, problem, sale, violations, written};

#[tokio::test]
async fn a_namespace_is_applied_again_shown_listed_and_dropped() {
    let node = Node::start().await;
    let mut admin = node.admin().await;
    let apply = |definition: &str| v1::ApplyNamespaceRequest { definition: definition.to_owned() };
    let more = "name = 'shop'\npartitions = 3\n[kinds.default.sequences]\ninvoice = 1\nreceipt = 100\n[records.settings]\nsingleton = true";
    let applied = admin.apply_namespace(apply(more)).await.unwrap().into_inner().namespace.unwrap();
    assert!(applied.definition.contains("receipt = 100"), "{}", applied.definition);
    let again =
        admin.apply_namespace(apply(&applied.definition)).await.unwrap().into_inner().namespace.unwrap();
    assert_eq!(again, applied);
    let other = admin.apply_namespace(apply("name = 'shop'\npartitions = 4")).await.unwrap_err();
    assert_eq!(other.code(), Code::InvalidArgument);
    assert!(other.message().contains("partitions"), "{}", other.message());
    let wrong = admin.apply_namespace(apply("name = 'A'\npartitions = 0")).await.unwrap_err();
    assert_eq!(violations(&wrong), ["name", "partitions"]);

    for name in ["one", "two"] {
        admin.apply_namespace(apply(&format!("name = '{name}'\npartitions = 1"))).await.unwrap();
    }
    let first = v1::ListNamespacesRequest { page_size: 2, ..Default::default() };
    let first = admin.list_namespaces(first).await.unwrap().into_inner();
    let second = v1::ListNamespacesRequest { page_size: 2, page_token: first.next_page_token };
    let second = admin.list_namespaces(second).await.unwrap().into_inner();
    let names: Vec<_> =
        first.namespaces.iter().chain(&second.namespaces).map(|found| found.name.as_str()).collect();
    assert_eq!((names, second.next_page_token), (vec!["shop", "one", "two"], String::new()));

    let named = |namespace: &str| v1::DropNamespaceRequest { namespace: namespace.to_owned() };
    admin.drop_namespace(named("one")).await.unwrap();
    assert_eq!(admin.drop_namespace(named("one")).await.unwrap_err().code(), Code::NotFound);
    let get = v1::GetNamespaceRequest { namespace: "one".to_owned() };
    assert_eq!(admin.get_namespace(get).await.unwrap_err().code(), Code::NotFound);
    let get = v1::GetNamespaceRequest { namespace: "two".to_owned() };
    assert_eq!(admin.get_namespace(get).await.unwrap().into_inner().namespace.unwrap().partitions, 1);
    node.stop().await;
}

#[tokio::test]
async fn partitions_are_listed_frozen_and_thawed() {
    let node = Node::start().await;
    let (mut admin, mut ledger) = (node.admin().await, node.ledger().await);
    let written_to = written(&mut ledger, sale(4, 1)).await;
    assert_eq!(written_to.partition, 1);
    let list = v1::ListPartitionsRequest { namespace: "shop".to_owned(), ..Default::default() };
    let mut partitions = Vec::new();
    // A mark follows the acknowledgement.
    for _ in 0..6000 {
        partitions = admin.list_partitions(list.clone()).await.unwrap().into_inner().partitions;
        if partitions[1].applied_offset == written_to.partition_offset {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(partitions.iter().map(|found| found.partition).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(partitions[1].applied_offset, written_to.partition_offset);
    for found in &partitions {
        let marks = [
            found.snapshot_offset,
            found.checkpoint_offset,
            found.synced_offset,
            found.applied_offset,
            found.durable_offset,
            found.highest_offset,
        ];
        assert!(marks.is_sorted(), "WM-1: {found:?}");
        assert_eq!(found.state(), v1::PartitionState::Serving);
    }
    let first = v1::ListPartitionsRequest { page_size: 2, ..list.clone() };
    let first = admin.list_partitions(first).await.unwrap().into_inner();
    let second = v1::ListPartitionsRequest { page_token: first.next_page_token, ..list.clone() };
    assert_eq!(admin.list_partitions(second).await.unwrap().into_inner().partitions[0].partition, 2);

    let namespace = "shop".to_owned();
    admin
        .freeze_partition(v1::FreezePartitionRequest { namespace: namespace.clone(), partition: 1 })
        .await
        .unwrap();
    let status = ledger.write(sale(4, 2)).await.unwrap_err();
    assert_eq!((status.code(), &*problem(&status).reason), (Code::FailedPrecondition, "PARTITION_FROZEN"));
    assert!(admin.list_partitions(list).await.unwrap().into_inner().partitions[1].frozen);
    written(&mut ledger, sale(5, 3)).await;
    admin
        .thaw_partition(v1::ThawPartitionRequest { namespace: namespace.clone(), partition: 1 })
        .await
        .unwrap();
    assert_eq!(written(&mut ledger, sale(4, 2)).await.workspace_offset, 2);
    let none = v1::FreezePartitionRequest { namespace, partition: 3 };
    assert_eq!(admin.freeze_partition(none).await.unwrap_err().code(), Code::NotFound);
    node.stop().await;
}

#[tokio::test]
async fn a_partition_is_made_anew_while_the_others_serve() {
    let node = Node::start().await;
    let (mut admin, mut ledger) = (node.admin().await, node.ledger().await);
    let sold = written(&mut ledger, sale(4, 1)).await;
    let request = |partition, source: &str| v1::RepairPartitionRequest {
        namespace: "shop".to_owned(),
        partition,
        source: source.to_owned(),
        node: 0,
        any_node: false,
    };
    admin.repair_partition(request(1, "")).await.unwrap();
    let again = written(&mut ledger, sale(4, 1)).await;
    assert!(again.duplicate, "what it had decided, it still knows");
    assert_eq!(again.workspace_offset, sold.workspace_offset);
    assert_eq!(written(&mut ledger, sale(4, 2)).await.workspace_offset, 2);
    let unknown = admin.repair_partition(request(3, "")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let relative = admin.repair_partition(request(1, "backups")).await.unwrap_err();
    assert_eq!(relative.code(), Code::InvalidArgument);
    let nothing = admin.repair_partition(request(1, "/nowhere")).await.unwrap_err();
    assert_eq!((nothing.code(), &*problem(&nothing).reason), (Code::FailedPrecondition, "NO_BACKUP"));
    // Nobody else is in this cluster.
    let from_node = |node, any_node| v1::RepairPartitionRequest { node, any_node, ..request(1, "") };
    for (node, any_node) in [(0, true), (2, false)] {
        let nobody = admin.repair_partition(from_node(node, any_node)).await.unwrap_err();
        assert_eq!((nobody.code(), &*problem(&nobody).reason), (Code::FailedPrecondition, "NO_NODE"));
    }
    let both = admin.repair_partition(from_node(2, true)).await.unwrap_err();
    assert_eq!(violations(&both), ["any_node"]);
    let both = v1::RepairPartitionRequest { node: 2, ..request(1, "/nowhere") };
    assert_eq!(violations(&admin.repair_partition(both).await.unwrap_err()), ["source"]);
    // It was never closed for any of them.
    assert_eq!(written(&mut ledger, sale(4, 3)).await.workspace_offset, 3);
    node.stop().await;
}

#[tokio::test]
async fn a_barrier_is_reached_or_says_what_blocks() {
    let node = Node::start().await;
    let (mut admin, mut ledger) = (node.admin().await, node.ledger().await);
    let sold = written(&mut ledger, sale(4, 1)).await;
    let target =
        |target| v1::BarrierTarget { namespace: "shop".to_owned(), partition: 1, target: Some(target) };
    let wait = |targets, timeout_ms| v1::WaitBarrierRequest { targets, timeout_ms };
    // What is reached is waited for as long as it takes.
    let reached = |targets| wait(targets, 60_000);
    use v1::barrier_target::Target;
    let both = vec![
        target(Target::LogIndex(sold.log_index)),
        target(Target::PartitionOffset(sold.partition_offset)),
    ];
    assert!(admin.wait_barrier(reached(both)).await.unwrap().into_inner().reached);
    let beyond = vec![target(Target::PartitionOffset(sold.partition_offset + 1))];
    let blocked = admin.wait_barrier(wait(beyond, 100)).await.unwrap().into_inner();
    assert_eq!((blocked.reached, blocked.blocked.len()), (false, 1));
    assert_eq!((blocked.blocked[0].namespace.as_str(), blocked.blocked[0].partition), ("shop", 1));
    let slot = v1::ProjectionSlot { projection: "stock".to_owned(), slot: 1 };
    let status = admin.wait_barrier(reached(vec![target(Target::Projection(slot))])).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let status = admin.wait_barrier(reached(vec![])).await.unwrap_err();
    assert_eq!(violations(&status), ["targets"]);
    let ask = |_| {
        let (mut admin, request) = (admin.clone(), reached(vec![target(Target::PartitionOffset(1))]));
        async move { admin.wait_barrier(request).await }
    };
    // So many at once are more than one address may make, also on a machine that takes half a minute for them.
    let answers = futures_util::future::join_all((0..4000).map(ask)).await;
    let limited = answers.into_iter().find_map(Result::err).unwrap();
    assert_eq!((limited.code(), &*problem(&limited).reason), (Code::ResourceExhausted, "RATE_LIMITED"));
    assert!(problem(&limited).retry_after.is_some());
    node.stop().await;
}

#[tokio::test]
async fn a_node_tells_its_status_and_publishes_a_snapshot() {
    let node = Node::start().await;
    let (mut admin, mut ledger) = (node.admin().await, node.ledger().await);
    let sold = written(&mut ledger, sale(4, 1)).await;
    let status = admin.cluster_status(v1::ClusterStatusRequest {}).await.unwrap().into_inner();
    assert!(status.is_leader && status.takes_writes);
    assert_eq!((status.nodes.len(), status.leader.unwrap().node_id), (1, status.node_id));
    assert!(status.committed_index >= Some(sold.log_index));
    let snapshot = admin.snapshot(v1::SnapshotRequest {}).await.unwrap().into_inner();
    assert!(snapshot.log_index >= sold.log_index);
    node.stop().await;
}

#[tokio::test]
async fn what_the_server_cannot_do_is_said_with_the_reason() {
    let node = Node::start().await;
    let mut admin = node.admin().await;
    let status = admin.add_node(v1::AddNodeRequest::default()).await.unwrap_err();
    assert_eq!(violations(&status), ["node_id", "address"]);
    let refused = [
        admin
            .add_node(v1::AddNodeRequest { node_id: 2, address: "127.0.0.1:1".to_owned() })
            .await
            .unwrap_err(),
        admin.remove_node(v1::RemoveNodeRequest { node_id: 1 }).await.unwrap_err(),
        admin.transfer_leader(v1::TransferLeaderRequest { node_id: 1 }).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!((status.code(), &*problem(&status).reason), (Code::FailedPrecondition, "NO_PEER_NETWORK"));
        assert!(status.message().contains("; to run several, "), "it says what to do: {}", status.message());
    }
    node.stop().await;
}

#[tokio::test]
async fn health_says_when_it_serves() {
    let node = Node::start().await;
    let mut health = HealthClient::new(node.channel().await);
    for service in ["", "gapless.v1.Ledger", "gapless.v1.Admin"] {
        let mut watched =
            health.watch(HealthCheckRequest { service: service.to_owned() }).await.unwrap().into_inner();
        // It begins with whatever it is, and becomes 1, serving.
        while watched.message().await.unwrap().unwrap().status != 1 {}
    }
    node.stop().await;
}

#[tokio::test]
async fn a_backup_says_how_far_it_is_and_last_what_was_made() {
    let node = Node::start().await;
    for number in 0..20 {
        written(&mut node.ledger().await, sale(number % 3, number)).await;
    }
    let mut admin = node.admin().await;
    let target = tempfile::tempdir().unwrap();
    let request = |target: &std::path::Path| v1::BackupRequest { target: target.display().to_string() };
    let mut answers = admin.backup(request(target.path())).await.unwrap().into_inner();
    let mut made = None;
    while let Some(answer) = answers.message().await.unwrap() {
        assert!(made.is_none(), "the last one says what was made");
        assert!(answer.outcomes <= answer.all_outcomes);
        made = answer.made;
    }
    let made = made.unwrap();
    assert_eq!((made.number, made.partitions, made.outcomes), (1, 3, 23));
    for wrong in ["", "backups", "/../x"] {
        let refused = admin.backup(v1::BackupRequest { target: wrong.to_owned() }).await;
        let status = match refused {
            Ok(answers) => answers.into_inner().message().await.unwrap_err(),
            Err(status) => status,
        };
        assert_eq!(violations(&status), ["target"], "{wrong}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(node.engine.dir(), &link).unwrap();
    let inside = admin.backup(request(&link.join("x"))).await.unwrap_err();
    assert_eq!(violations(&inside), ["target"]);
    std::fs::write(elsewhere.path().join("somebody's"), "file").unwrap();
    let foreign = admin.backup(request(elsewhere.path())).await.unwrap().into_inner().message().await;
    assert_eq!(problem(&foreign.unwrap_err()).reason, "NOT_A_BACKUP_DIRECTORY");
    node.stop().await;
}

#[tokio::test]
async fn backups_lie_below_their_root_and_nowhere_if_others_come_and_there_is_none() {
    let node = Node::start().await;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("backups");
    std::fs::create_dir(&root).unwrap();
    let target = |path: std::path::PathBuf| v1::BackupRequest { target: path.display().to_string() };
    let source = |path: std::path::PathBuf| v1::RepairPartitionRequest {
        namespace: "shop".to_owned(),
        source: path.display().to_string(),
        ..v1::RepairPartitionRequest::default()
    };
    let serve = async |listen: &str, backup_root| {
        let config = Config { backup_root, ..Config::new(listen.parse().unwrap()) };
        let server = Server::start(node.engine.clone(), config).await.unwrap();
        let address = format!("http://127.0.0.1:{}", server.address().port());
        let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
        (AdminClient::new(channel), server)
    };
    let (mut admin, server) = serve("127.0.0.1:0", Some(root.clone())).await;
    let mut answers = admin.backup(target(root.join("shop"))).await.unwrap().into_inner();
    let mut made = None;
    while let Some(answer) = answers.message().await.unwrap() {
        made = answer.made;
    }
    assert_eq!(made.unwrap().number, 1);
    admin.repair_partition(source(root.join("shop"))).await.unwrap();
    for outside in [dir.path().join("elsewhere"), root.join("../elsewhere"), "/".into()] {
        assert_eq!(violations(&admin.backup(target(outside.clone())).await.unwrap_err()), ["target"]);
        let refused = admin.repair_partition(source(outside)).await.unwrap_err();
        assert_eq!(violations(&refused), ["source"]);
    }
    assert!(!dir.path().join("elsewhere").exists());
    server.stop().await;
    let (mut admin, server) = serve("0.0.0.0:0", None).await;
    let refused = admin.backup(target(root.join("shop"))).await.unwrap_err();
    assert_eq!((refused.code(), &*problem(&refused).reason), (Code::FailedPrecondition, "NO_BACKUP_ROOT"));
    let refused = admin.repair_partition(source(root.join("shop"))).await.unwrap_err();
    assert_eq!(problem(&refused).reason, "NO_BACKUP_ROOT");
    server.stop().await;
    node.stop().await;
}
