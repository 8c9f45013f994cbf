//! Clients that race with one key: one event, one set of numbers, whoever asks.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use crate::support::{Node, invoice, refusal, sale, success, with};
use gapless_api::v1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_with_one_key_get_one_answer() {
    let node = Node::start().await;
    let (one, other) = (node.ledger().await, node.ledger().await);
    for number in 1..=200 {
        let request = with(sale(1, number), vec![invoice()]);
        let ask = |ledger: &crate::support::Ledger| {
            let (mut ledger, request) = (ledger.clone(), request.clone());
            tokio::spawn(async move { success(ledger.write(request).await.unwrap().into_inner()) })
        };
        let answers = [ask(&one), ask(&other)];
        let [first, second] = answers;
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        assert!(first.duplicate != second.duplicate, "one of them was first");
        let same = |answer: v1::WriteSuccess| v1::WriteSuccess { duplicate: false, ..answer };
        assert_eq!(first.numbers["invoice"], number);
        assert_eq!(same(first), same(second));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_requests_with_one_key_are_one_event_and_one_refusal() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let other = v1::WriteRequest { event_type: "ItemReturned".to_owned(), ..sale(1, 1) };
    let mut second = ledger.clone();
    let (first, second) = tokio::join!(ledger.write(sale(1, 1)), second.write(other));
    let answers = [first.unwrap().into_inner(), second.unwrap().into_inner()];
    let (won, lost): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|answer| matches!(answer.result, Some(v1::write_response::Result::Success(_))));
    assert_eq!((won.len(), lost.len()), (1, 1));
    let lost = refusal(lost.into_iter().next().unwrap());
    assert_eq!(lost.code(), v1::WriteErrorCode::IdempotencyKeyReused);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_dense_whoever_writes_at_once() {
    let node = Node::start().await;
    let write = |client: u64| {
        let ledger = node.ledger();
        async move {
            let mut ledger = ledger.await;
            let mut invoices = Vec::new();
            for number in 0..50 {
                let request = with(sale(1, client * 1000 + number + 1), vec![invoice()]);
                let request = v1::WriteRequest { client_id: format!("till-{client}"), ..request };
                let answer = success(ledger.write(request).await.unwrap().into_inner());
                assert_eq!(answer.assigned_sequence, number + 1);
                invoices.push((answer.workspace_offset, answer.numbers["invoice"]));
            }
            invoices
        }
    };
    let taken: BTreeSet<(u64, u64)> = join_all((0..8).map(write)).await.into_iter().flatten().collect();
    assert_eq!(taken, (1..=400).map(|number| (number, number)).collect());
    node.stop().await;
}
