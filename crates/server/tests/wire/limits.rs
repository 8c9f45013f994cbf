//! Every limit of the interface: at it, and one beyond.

use bytes::Bytes;
use gapless_api::v1;
use tonic::Code;

use crate::support::{Ledger, Node, key, problem, sale, set, success, violations, with};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

async fn accepted(ledger: &mut Ledger, request: v1::WriteRequest) {
    success(ledger.write(request).await.unwrap().into_inner());
}

async fn refused(ledger: &mut Ledger, request: v1::WriteRequest, fields: &[&str]) {
    let status = ledger.write(request).await.unwrap_err();
    assert_eq!((status.code(), &*problem(&status).reason), (Code::InvalidArgument, "INVALID_REQUEST"));
    assert_eq!(violations(&status), fields);
}

fn entity(key: usize, value: usize) -> v1::operation::Op {
    v1::operation::Op::SetEntity(v1::SetEntity {
        key: Bytes::from(vec![b'k'; key]),
        value: Bytes::from(vec![b'v'; value]),
        ..Default::default()
    })
}

#[tokio::test]
async fn keys_values_and_payloads_have_limits() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    accepted(&mut ledger, with(sale(1, 1), vec![entity(KIB, MIB)])).await;
    refused(&mut ledger, with(sale(1, 2), vec![entity(KIB + 1, 1)]), &["operations[0].key"]).await;
    refused(&mut ledger, with(sale(1, 2), vec![entity(0, 1)]), &["operations[0].key"]).await;
    refused(&mut ledger, with(sale(1, 2), vec![entity(1, MIB + 1)]), &["operations[0].value"]).await;
    let payload = |bytes| v1::WriteRequest { payload: vec![b' '; bytes].into(), ..sale(1, 3) };
    refused(&mut ledger, payload(MIB + 1), &["payload"]).await;
    accepted(&mut ledger, payload(MIB)).await;
    node.stop().await;
}

#[tokio::test]
async fn a_write_has_at_most_a_thousand_operations_and_four_mebibytes() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let operations = |count: usize| (0..count).map(|number| set(&format!("k{number}"), "v")).collect();
    accepted(&mut ledger, with(sale(1, 1), operations(1000))).await;
    refused(&mut ledger, with(sale(1, 2), operations(1001)), &["operations"]).await;
    let large = |bytes: usize| {
        let values = vec![entity(1, MIB), entity(2, MIB), entity(3, MIB), entity(4, bytes)];
        with(sale(1, 3), values)
    };
    // What it is beyond the limit says how many fit: exactly so many do, and not one more.
    let status = ledger.write(large(MIB)).await.unwrap_err();
    let told = problem(&status).violations[0].problem.clone();
    let bytes: usize = told.split(' ').next().unwrap().parse().unwrap();
    let most = MIB - (bytes - 4 * MIB);
    refused(&mut ledger, large(most + 1), &["write"]).await;
    accepted(&mut ledger, large(most)).await;
    // Not even read to its end, and told under the same code.
    let status = ledger.write(v1::WriteRequest { payload: vec![0; 9 * MIB].into(), ..sale(1, 4) }).await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    node.stop().await;
}

#[tokio::test]
async fn metadata_names_and_keys_have_limits() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let metadata = |pairs: usize, bytes: usize, number| v1::WriteRequest {
        metadata: (0..pairs).map(|pair| (format!("{pair:04}"), "m".repeat(bytes - 4))).collect(),
        ..sale(1, number)
    };
    accepted(&mut ledger, metadata(32, KIB, 1)).await;
    refused(&mut ledger, metadata(33, 8, 2), &["metadata"]).await;
    refused(&mut ledger, metadata(1, KIB + 1, 2), &["metadata[0000]"]).await;
    for (length, fields) in
        [(15, vec!["idempotency_key"]), (17, vec!["idempotency_key"]), (0, vec!["idempotency_key"])]
    {
        let request = v1::WriteRequest { idempotency_key: vec![1; length].into(), ..sale(1, 2) };
        refused(&mut ledger, request, &fields).await;
    }
    let zero = v1::WriteRequest { idempotency_key: vec![0; 16].into(), ..sale(1, 2) };
    refused(&mut ledger, zero, &["idempotency_key"]).await;
    let client = |bytes| v1::WriteRequest { client_id: "c".repeat(bytes), ..sale(1, 3) };
    refused(&mut ledger, client(65), &["client_id"]).await;
    refused(&mut ledger, client(0), &["client_id"]).await;
    accepted(&mut ledger, client(64)).await;
    let namespace = |name: String| v1::WriteRequest { namespace: name, ..sale(1, 4) };
    refused(&mut ledger, namespace("n".repeat(64)), &["namespace"]).await;
    refused(&mut ledger, namespace("../shop".to_owned()), &["namespace"]).await;
    let unknown = ledger.write(namespace("n".repeat(63))).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    node.stop().await;
}

#[tokio::test]
async fn a_namespace_has_a_name_of_at_most_63_characters() {
    let node = Node::start().await;
    let mut admin = node.admin().await;
    let define = |length| {
        let definition = format!("name = '{}'\npartitions = 1", "n".repeat(length));
        v1::ApplyNamespaceRequest { definition }
    };
    let made = admin.apply_namespace(define(63)).await.unwrap().into_inner().namespace.unwrap();
    assert_eq!(made.name.len(), 63);
    let request = v1::WriteRequest { namespace: made.name, ..sale(1, 1) };
    accepted(&mut node.ledger().await, request).await;
    assert_eq!(admin.apply_namespace(define(64)).await.unwrap_err().code(), Code::InvalidArgument);
    node.stop().await;
}

/// Asks every listing there is for a page of this size, behind this token; the violations that each of them tells.
async fn every_listing(node: &Node, page_size: u32, page_token: &str, namespace: &str) -> Vec<Vec<String>> {
    let (mut ledger, mut admin) = (node.ledger().await, node.admin().await);
    let mut projections = node.projections().await;
    let (token, namespace) = (|| page_token.to_owned(), || namespace.to_owned());
    let projection = || "daily".to_owned();
    let entities = v1::ListEntitiesRequest {
        namespace: namespace(),
        page_size,
        page_token: token(),
        ..Default::default()
    };
    let records = v1::ListRecordsRequest {
        namespace: namespace(),
        page_size,
        page_token: token(),
        ..Default::default()
    };
    let namespaces = v1::ListNamespacesRequest { page_size, page_token: token() };
    let partitions = v1::ListPartitionsRequest { namespace: namespace(), page_size, page_token: token() };
    let list = v1::ListRequest { namespace: namespace(), page_size, page_token: token() };
    let describe = v1::DescribeRequest {
        namespace: namespace(),
        projection: projection(),
        page_size,
        page_token: token(),
    };
    let letters = v1::ListDeadLettersRequest {
        namespace: namespace(),
        projection: projection(),
        page_size,
        page_token: token(),
    };
    let query = v1::QueryRequest {
        namespace: namespace(),
        projection: projection(),
        table: "daily".to_owned(),
        page_size,
        page_token: token(),
        ..Default::default()
    };
    let told = |status: Option<tonic::Status>| status.map_or(Vec::new(), |status| violations(&status));
    vec![
        told(ledger.list_entities(entities).await.err()),
        told(ledger.list_records(records).await.err()),
        told(admin.list_namespaces(namespaces).await.err()),
        told(admin.list_partitions(partitions).await.err()),
        told(projections.list(list).await.err()),
        told(projections.describe(describe).await.err()),
        told(projections.list_dead_letters(letters).await.err()),
        told(projections.query(query).await.err()),
    ]
}

#[tokio::test]
async fn every_listing_takes_a_thousand_and_tells_everything_that_is_wrong_at_once() {
    let node = Node::start().await;
    for (size, token, namespace, expected) in [
        (1000, "", "shop", &[][..]),
        (1001, "", "shop", &["page_size"]),
        (1001, "nonsense", "shop", &["page_size", "page_token"]),
        (1001, "nonsense", "../shop", &["namespace", "page_size", "page_token"]),
    ] {
        for (listing, mut told) in every_listing(&node, size, token, namespace).await.into_iter().enumerate()
        {
            told.sort();
            let mut expected = expected.to_vec();
            if listing == 2 {
                // Namespaces are in none.
                expected.retain(|field| *field != "namespace");
            }
            assert_eq!(told, expected, "listing {listing}, {size}, {token}, {namespace}");
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn every_violation_is_told_at_once() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let condition = Some(v1::Condition { kind: Some(v1::condition::Kind::MustExist(false)) });
    let both = v1::CreateRecord { raw_id: 70_000, record_type: String::new(), ..Default::default() };
    let mut request = with(
        v1::WriteRequest { event_type: String::new(), idempotency_key: Bytes::new(), ..sale(1, 1) },
        vec![
            v1::operation::Op::SetEntity(v1::SetEntity {
                condition,
                expires_at_ms: Some(-1),
                ..Default::default()
            }),
            v1::operation::Op::CreateRecord(both),
            v1::operation::Op::NextNumber(v1::NextNumber { sequence: "Invoice".to_owned() }),
        ],
    );
    request.operations.push(v1::Operation { op: None });
    let status = ledger.write(request).await.unwrap_err();
    let mut fields = violations(&status);
    fields.sort();
    let expected = [
        "event_type",
        "idempotency_key",
        "operations[0].condition",
        "operations[0].expires_at_ms",
        "operations[0].key",
        "operations[1].raw_id",
        "operations[1].record_type",
        "operations[2].sequence",
        "operations[3]",
    ];
    assert_eq!(fields, expected);
    node.stop().await;
}

#[tokio::test]
async fn a_page_has_at_most_a_thousand_items_and_is_never_too_large_to_be_read() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    for number in 1..=2 {
        let name = |entity| format!("{number}-{entity:04}");
        let operations = (0..600).map(|entity| set(&name(entity), "v")).collect();
        accepted(&mut ledger, with(sale(2, number), operations)).await;
    }
    let list = |page_size, page_token| v1::ListEntitiesRequest {
        namespace: "shop".to_owned(),
        workspace: 2,
        page_size,
        page_token,
        ..Default::default()
    };
    let page = ledger.list_entities(list(1000, String::new())).await.unwrap().into_inner();
    assert_eq!(page.entities.len(), 1000);
    let rest = ledger.list_entities(list(1000, page.next_page_token)).await.unwrap().into_inner();
    assert_eq!((rest.entities.len(), rest.next_page_token), (200, String::new()));
    for size in [1001, 1 << 31] {
        let status = ledger.list_entities(list(size, String::new())).await.unwrap_err();
        assert_eq!(violations(&status), ["page_size"]);
    }
    for (number, length) in (10..).zip([1, 2, 3]) {
        accepted(&mut ledger, with(sale(2, number), vec![entity(length, MIB)])).await;
    }
    let request = v1::ListEntitiesRequest { prefix: "k".into(), ..list(1000, String::new()) };
    let first = ledger.list_entities(request).await.unwrap().into_inner();
    assert_eq!(first.entities.len(), 1, "a page ends when it is large");
    assert_ne!(first.next_page_token, "");
    assert_eq!(key(1).len(), 16);
    node.stop().await;
}
