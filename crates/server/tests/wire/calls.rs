//! Every call of the service Ledger that has one answer.

use bytes::Bytes;
use gapless_api::{ProblemKind, v1};
use gapless_engine::partition::proof::{
    Hash, Head, LeafIndex, TreeSize, verify_consistency, verify_inclusion,
};

use crate::support::{Node, create, invoice, key, problem, refusal, sale, set, success, with, written};

#[tokio::test]
async fn the_first_write_gets_the_first_numbers() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let request = with(sale(42, 1), vec![create(1, "order", 3), invoice()]);
    let first = written(&mut ledger, request).await;
    let numbers =
        (first.workspace_offset, first.assigned_sequence, first.record_ids[&1], first.numbers["invoice"]);
    assert_eq!(numbers, (1, 1, 200_001, 1));
    assert_eq!(first.block_height, 1);
    assert_eq!(first.partition, 42 % 3);
    assert!(!first.duplicate && first.committed_at_ms > 0 && first.log_index > 0 && first.tx_id.len() == 32);
    node.stop().await;
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_also_after_a_restart() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let request = v1::WriteRequest { include_tx_proof: true, ..with(sale(7, 1), vec![invoice()]) };
    let first = written(&mut ledger, request.clone()).await;
    assert!(first.block_header.is_some() && first.tx_proof.is_some());
    let again = written(&mut ledger, request.clone()).await;
    assert_eq!(again, v1::WriteSuccess { duplicate: true, ..first.clone() });
    let node = node.restarted().await;
    let mut ledger = node.ledger().await;
    let after = written(&mut ledger, request).await;
    assert_eq!(after, v1::WriteSuccess { duplicate: true, ..first });
    let next = written(&mut ledger, with(sale(7, 2), vec![invoice()])).await;
    assert_eq!((next.workspace_offset, next.numbers["invoice"]), (2, 2));
    node.stop().await;
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_takes_no_number() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    written(&mut ledger, with(sale(1, 1), vec![set("stock", "12")])).await;
    let must_not_exist = |number| {
        let condition = Some(v1::Condition { kind: Some(v1::condition::Kind::MustNotExist(true)) });
        let set = v1::SetEntity { key: "stock".into(), value: "5".into(), condition, expires_at_ms: None };
        with(sale(1, number), vec![v1::operation::Op::SetEntity(set), invoice()])
    };
    let refused = refusal(ledger.write(must_not_exist(2)).await.unwrap().into_inner());
    assert_eq!(refused.code(), v1::WriteErrorCode::KeyExists);
    assert_eq!(
        (refused.key.as_str(), refused.current_version, refused.operation),
        ("stock", Some(1), Some(0))
    );
    assert_eq!(refused.current_value.clone(), Some(Bytes::from_static(b"12")));
    let again = refusal(ledger.write(must_not_exist(2)).await.unwrap().into_inner());
    assert_eq!(again, refused);
    let reused = refusal(ledger.write(sale(1, 2)).await.unwrap().into_inner());
    assert_eq!(reused.code(), v1::WriteErrorCode::IdempotencyKeyReused);
    let expected = v1::WriteRequest { expected_workspace_offset: Some(0), ..sale(1, 3) };
    let mismatch = refusal(ledger.write(expected).await.unwrap().into_inner());
    assert_eq!((mismatch.code(), mismatch.current_version), (v1::WriteErrorCode::OffsetMismatch, Some(1)));
    let unknown = v1::operation::Op::NextNumber(v1::NextNumber { sequence: "receipt".to_owned() });
    let unknown = refusal(ledger.write(with(sale(1, 4), vec![unknown])).await.unwrap().into_inner());
    assert_eq!(unknown.code(), v1::WriteErrorCode::UnknownSequence);
    let next = written(&mut ledger, with(sale(1, 5), vec![invoice()])).await;
    assert_eq!((next.workspace_offset, next.assigned_sequence, next.numbers["invoice"]), (2, 2, 1));
    node.stop().await;
}

#[tokio::test]
async fn entities_are_found_and_listed_page_by_page() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let names = ["a1", "a2", "a3", "b1"];
    written(&mut ledger, with(sale(5, 1), names.iter().map(|name| set(name, "1")).collect())).await;
    let get = |key: &'static str| v1::GetEntityRequest {
        namespace: "shop".to_owned(),
        workspace: 5,
        key: key.into(),
        ..Default::default()
    };
    let found = ledger.get_entity(get("a2")).await.unwrap().into_inner().entity.unwrap();
    assert_eq!((&found.value[..], found.version), (&b"1"[..], 1));
    assert_eq!(ledger.get_entity(get("c")).await.unwrap().into_inner().entity, None);

    let list = |page_token: String| v1::ListEntitiesRequest {
        namespace: "shop".to_owned(),
        workspace: 5,
        prefix: "a".into(),
        page_size: 2,
        page_token,
        options: None,
    };
    let first = ledger.list_entities(list(String::new())).await.unwrap().into_inner();
    assert_eq!(first.entities.iter().map(|entity| &entity.key[..]).collect::<Vec<_>>(), [b"a1", b"a2"]);
    let node = node.restarted().await;
    let mut ledger = node.ledger().await;
    let second = ledger.list_entities(list(first.next_page_token.clone())).await.unwrap().into_inner();
    assert_eq!(second.entities.iter().map(|entity| &entity.key[..]).collect::<Vec<_>>(), [b"a3"]);
    assert_eq!(second.next_page_token, "");
    let other = v1::ListEntitiesRequest { prefix: "b".into(), ..list(first.next_page_token) };
    let refused = ledger.list_entities(other).await.unwrap_err();
    assert_eq!(problem(&refused).violations[0].field, "page_token");
    node.stop().await;
}

#[tokio::test]
async fn records_are_created_changed_found_and_listed() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let orders = (1..=5).map(|raw| create(raw, if raw % 2 == 0 { "line" } else { "order" }, 10)).collect();
    let created = written(&mut ledger, with(sale(6, 1), orders)).await;
    assert_eq!(
        created.record_ids.values().copied().collect::<Vec<_>>(),
        (200_001..=200_005).collect::<Vec<_>>()
    );
    let text = v1::Value { kind: Some(v1::value::Kind::Text("paid".to_owned())) };
    let update = v1::UpdateRecord {
        record: 200_003,
        fields: [("state".to_owned(), text.clone())].into(),
        active: None,
    };
    written(&mut ledger, with(sale(6, 2), vec![v1::operation::Op::UpdateRecord(update)])).await;
    let get = |record_id| v1::GetRecordRequest {
        namespace: "shop".to_owned(),
        workspace: 6,
        record_id,
        options: None,
    };
    let record = ledger.get_record(get(200_003)).await.unwrap().into_inner().record.unwrap();
    assert_eq!((record.created_at_offset, record.changed_at_offset, record.active), (1, 2, true));
    assert_eq!(record.fields["state"], text);
    let missing = ledger.get_record(get(200_006)).await.unwrap_err();
    assert_eq!((missing.code(), &*problem(&missing).reason), (tonic::Code::NotFound, "NO_SUCH_RECORD"));

    let mut list = v1::ListRecordsRequest {
        namespace: "shop".to_owned(),
        workspace: 6,
        record_type: "order".to_owned(),
        page_size: 2,
        ..Default::default()
    };
    let mut found = Vec::new();
    loop {
        let page = ledger.list_records(list.clone()).await.unwrap().into_inner();
        found.extend(page.records.iter().map(|record| record.record_id));
        list.page_token = page.next_page_token;
        if list.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(found, [200_001, 200_003, 200_005]);
    node.stop().await;
}

#[tokio::test]
async fn workspaces_clients_and_sequences_say_how_far_they_are() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    for number in 1..=3 {
        written(&mut ledger, with(sale(9, number), vec![invoice()])).await;
    }
    let (namespace, workspace) = ("shop".to_owned(), 9);
    let client = |client_id: &str| v1::GetClientStateRequest {
        namespace: namespace.clone(),
        workspace,
        client_id: client_id.to_owned(),
        options: None,
    };
    let state = ledger.get_client_state(client("till")).await.unwrap().into_inner();
    assert_eq!(state.last_committed_sequence, 3);
    let state = ledger.get_client_state(client("nobody")).await.unwrap().into_inner();
    assert_eq!(state.last_committed_sequence, 0);
    let request = v1::GetWorkspaceRequest { namespace: namespace.clone(), workspace, options: None };
    let found = ledger.get_workspace(request).await.unwrap().into_inner();
    assert_eq!((found.kind.as_str(), found.last_offset, found.last_record_id), ("default", 3, 0));
    let request = v1::ListSequencesRequest { namespace, workspace, options: None };
    let sequences = ledger.list_sequences(request).await.unwrap().into_inner().sequences;
    assert_eq!(
        sequences,
        [v1::SequenceState { sequence: "invoice".to_owned(), first_number: 1, last_number: 3 }]
    );
    node.stop().await;
}

#[tokio::test]
async fn proofs_hold_against_a_root_that_was_kept() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    for number in 1..=5 {
        written(&mut ledger, sale(3, number)).await;
    }
    let (namespace, workspace) = ("shop".to_owned(), 3);
    let root = v1::GetRootRequest { namespace: namespace.clone(), workspace, tree_size: 3, options: None };
    let kept = ledger.get_root(root.clone()).await.unwrap().into_inner();
    let kept = Head { size: TreeSize::new(kept.tree_size), root: hash(&kept.root) };
    let request = v1::GetInclusionProofRequest {
        namespace: namespace.clone(),
        workspace,
        workspace_offset: 2,
        tree_size: 3,
        options: None,
    };
    let answer = ledger.get_inclusion_proof(request.clone()).await.unwrap().into_inner();
    let proof = answer.proof.unwrap();
    let hashes: Vec<Hash> = proof.hashes.iter().map(hash).collect();
    verify_inclusion(Hash::of_leaf(&answer.leaf), LeafIndex::new(1), &kept, &hashes).unwrap();

    let newest = v1::GetRootRequest { tree_size: 0, ..root };
    let newest = ledger.get_root(newest).await.unwrap().into_inner();
    let newest = Head { size: TreeSize::new(newest.tree_size), root: hash(&newest.root) };
    assert_eq!(newest.size.get(), 5);
    let consistency = v1::GetConsistencyProofRequest {
        namespace: namespace.clone(),
        workspace,
        old_size: 3,
        new_size: 5,
        options: None,
    };
    let answer = ledger.get_consistency_proof(consistency).await.unwrap().into_inner();
    let hashes: Vec<Hash> = answer.hashes.iter().map(hash).collect();
    verify_consistency(&kept, &newest, &hashes).unwrap();

    let block = v1::GetBlockRequest { namespace, workspace, height: 2, options: None };
    let answer = ledger.get_block(block.clone()).await.unwrap().into_inner();
    let header = answer.header.unwrap();
    assert_eq!(header.leaf_hash, &Hash::of_leaf(&answer.leaf).as_bytes()[..]);
    assert_eq!((header.height, answer.event.unwrap().workspace_offset), (2, 2));
    let none = ledger.get_block(v1::GetBlockRequest { height: 6, ..block }).await.unwrap_err();
    assert_eq!(none.code(), tonic::Code::NotFound);
    let late = v1::GetInclusionProofRequest { workspace_offset: 4, ..request };
    assert_eq!(ledger.get_inclusion_proof(late).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    node.stop().await;
}

#[tokio::test]
async fn every_call_about_a_namespace_that_does_not_exist_says_so() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let status =
        ledger.write(v1::WriteRequest { namespace: "nowhere".to_owned(), ..sale(1, 1) }).await.unwrap_err();
    let found = problem(&status);
    assert_eq!((found.kind, &*found.reason), (ProblemKind::NotFound, "UNKNOWN_NAMESPACE"));
    assert_eq!(found.details["namespace"], "nowhere");
    let request = v1::GetRootRequest { namespace: "nowhere".to_owned(), ..Default::default() };
    assert_eq!(ledger.get_root(request).await.unwrap_err().code(), tonic::Code::NotFound);
    let request = v1::SubscribeRequest {
        namespace: "nowhere".to_owned(),
        what: Some(v1::subscribe_request::What::Workspace(1)),
        from: 1,
    };
    assert_eq!(ledger.subscribe(request).await.unwrap_err().code(), tonic::Code::NotFound);
    node.stop().await;
}

#[tokio::test]
async fn a_reader_who_names_an_offset_waits_for_it_and_no_longer_than_his_deadline() {
    // As long as the first of them waits in vain, and as long as the second may be held up on a busy machine.
    let patience = std::time::Duration::from_secs(10);
    let node = Node::start_with(gapless_server::Limits { patience, ..Default::default() }).await;
    let mut ledger = node.ledger().await;
    let first = success(ledger.write(sale(1, 1)).await.unwrap().into_inner());
    let read = |offset| v1::GetWorkspaceRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        options: Some(v1::ReadOptions { consistency: 0, min_partition_offset: offset }),
    };
    let found = ledger.get_workspace(read(first.partition_offset)).await.unwrap().into_inner();
    assert_eq!(found.last_offset, 1);
    let status = ledger.get_workspace(read(first.partition_offset + 1)).await.unwrap_err();
    assert_eq!(
        (status.code(), &*problem(&status).reason),
        (tonic::Code::DeadlineExceeded, "NOT_APPLIED_YET")
    );
    let waiting = tokio::spawn({
        let mut ledger = ledger.clone();
        async move {
            ledger.get_workspace(read(first.partition_offset + 1)).await.unwrap().into_inner().last_offset
        }
    });
    written(&mut ledger, sale(1, 2)).await;
    assert_eq!(waiting.await.unwrap(), 2);
    assert_ne!(key(1), key(2));
    node.stop().await;
}

fn hash(bytes: &Bytes) -> Hash {
    Hash::from_bytes(bytes[..].try_into().unwrap())
}
