//! Streams: writes in flight, reading in both directions, following without a seam, slow readers.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use gapless_api::v1;
use gapless_api::v1::subscribe_request::What;
use gapless_server::Limits;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

use crate::support::{LONG, Ledger, Node, invoice, key, problem, sale, success, with, written};

async fn stream_all(ledger: &mut Ledger, requests: Vec<v1::WriteRequest>) -> Vec<v1::WriteResponse> {
    let answers = ledger.write_stream(stream::iter(requests)).await.unwrap().into_inner();
    answers.map(Result::unwrap).collect().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_writes_are_in_flight_and_each_is_answered_by_its_key() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let requests: Vec<_> =
        (1..=10_000).map(|number| with(sale(number % 7, number), vec![invoice()])).collect();
    let answers = stream_all(&mut ledger, requests.clone()).await;
    assert_eq!(answers.len(), requests.len());
    let by_key: BTreeMap<_, _> =
        answers.into_iter().map(|answer| (answer.idempotency_key.clone(), success(answer))).collect();
    let mut offsets: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for request in &requests {
        let answer = &by_key[&request.idempotency_key];
        assert_eq!(answer.workspace_offset, answer.numbers["invoice"]);
        offsets.entry(request.workspace).or_default().push(answer.workspace_offset);
    }
    for (workspace, offsets) in offsets {
        // In the order of the stream, without a gap.
        assert_eq!(offsets, (1..=offsets.len() as u64).collect::<Vec<_>>(), "workspace {workspace}");
    }
    let again = stream_all(&mut ledger, requests).await;
    for answer in again {
        let first = &by_key[&answer.idempotency_key];
        assert_eq!(success(answer), v1::WriteSuccess { duplicate: true, ..first.clone() });
    }
    node.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_problem_of_a_write_after_everything_before_it_was_answered() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let mut requests: Vec<_> = (1..=100).map(|number| sale(1, number)).collect();
    requests.push(v1::WriteRequest { event_type: String::new(), ..sale(1, 101) });
    requests.push(sale(1, 102));
    let answers = ledger.write_stream(stream::iter(requests)).await.unwrap().into_inner();
    let answers: Vec<Result<v1::WriteResponse, Status>> = answers.collect().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 100);
    let status = answers.last().unwrap().as_ref().unwrap_err();
    let found = problem(status);
    assert_eq!((status.code(), found.violations[0].field.as_str()), (Code::InvalidArgument, "event_type"));
    let named: String = key(101).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found.details["idempotency_key"], named);
    node.stop().await;
}

fn offsets(events: &[v1::Event]) -> Vec<u64> {
    events.iter().map(|event| event.workspace_offset).collect()
}

#[tokio::test]
async fn a_workspace_is_read_from_anywhere_in_both_directions() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    stream_all(&mut ledger, (1..=300).map(|number| sale(1, number)).collect()).await;
    let request =
        v1::ReadWorkspaceRequest { namespace: "shop".to_owned(), workspace: 1, ..Default::default() };
    let forward = v1::Direction::Forward.into();
    let backward = v1::Direction::Backward.into();
    for (from, limit, direction, expected) in [
        (0, 0, forward, (1..=300).collect::<Vec<u64>>()),
        (299, 10, forward, vec![299, 300]),
        (301, 0, forward, vec![]),
        (100, 3, 0, vec![100, 101, 102]),
        (0, 2, backward, vec![300, 299]),
        (3, 0, backward, vec![3, 2, 1]),
        (u64::MAX, 1, backward, vec![300]),
    ] {
        let request = v1::ReadWorkspaceRequest { from, limit, direction, ..request.clone() };
        let events = ledger.read_workspace(request).await.unwrap().into_inner();
        let events: Vec<v1::Event> = events.map(|event| event.unwrap().event.unwrap()).collect().await;
        assert_eq!(offsets(&events), expected, "from {from}");
        for event in events {
            assert_eq!(event.payload, format!("{{\"sale\":{}}}", event.workspace_offset));
            assert_eq!((event.content_type.as_str(), event.client_id.as_str()), ("application/json", "till"));
        }
    }
    let empty = v1::ReadWorkspaceRequest { workspace: 2, ..request };
    assert_eq!(ledger.read_workspace(empty).await.unwrap().into_inner().count().await, 0);
    node.stop().await;
}

#[tokio::test]
async fn a_partition_shows_every_outcome_there_is() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    written(&mut ledger, with(sale(1, 1), vec![invoice()])).await;
    let mismatch = v1::WriteRequest { expected_workspace_offset: Some(7), ..sale(1, 2) };
    ledger.write(mismatch).await.unwrap();
    written(&mut ledger, sale(1, 3)).await;
    let request =
        v1::ReadPartitionRequest { namespace: "shop".to_owned(), partition: 1, ..Default::default() };
    let outcomes = ledger.read_partition(request.clone()).await.unwrap().into_inner();
    let outcomes: Vec<v1::Outcome> = outcomes.map(|found| found.unwrap().outcome.unwrap()).collect().await;
    let kinds: Vec<&str> = outcomes
        .iter()
        .map(|found| match found.outcome.as_ref().unwrap() {
            v1::outcome::Outcome::Defined(definition) => {
                assert!(definition.contains("name = \"shop\""));
                "defined"
            }
            v1::outcome::Outcome::Event(_) => "event",
            v1::outcome::Outcome::Refused(refused) => {
                let error = refused.error.as_ref().unwrap();
                assert_eq!(
                    (error.code(), &refused.idempotency_key),
                    (v1::WriteErrorCode::OffsetMismatch, &key(2))
                );
                "refused"
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["defined", "event", "refused", "event"]);
    assert!(outcomes.iter().map(|found| found.partition_offset).eq(1..=4));
    let last =
        v1::ReadPartitionRequest { direction: v1::Direction::Backward.into(), limit: 1, ..request.clone() };
    let last = ledger.read_partition(last).await.unwrap().into_inner().next().await.unwrap().unwrap();
    assert_eq!(last.outcome.unwrap().partition_offset, 4);
    let none = v1::ReadPartitionRequest { partition: 3, ..request };
    assert_eq!(ledger.read_partition(none).await.unwrap_err().code(), Code::NotFound);
    node.stop().await;
}

#[tokio::test]
async fn a_namespace_is_read_in_the_order_of_the_log_in_both_directions() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    stream_all(&mut ledger, (1..=500).map(|number| sale(number % 11, number)).collect()).await;
    let request = v1::ReadAllRequest { namespace: "shop".to_owned(), ..Default::default() };
    let read = |request: v1::ReadAllRequest| {
        let mut ledger = ledger.clone();
        async move {
            let events = ledger.read_all(request).await.unwrap().into_inner();
            events.map(|event| event.unwrap().event.unwrap()).collect::<Vec<_>>().await
        }
    };
    let all = read(request.clone()).await;
    assert_eq!(all.len(), 500);
    let place = |event: &v1::Event| (event.log_index, event.partition, event.partition_offset);
    assert!(all.iter().map(place).is_sorted());
    let middle = all[250].log_index;
    let expected: Vec<_> = all.iter().filter(|event| event.log_index >= middle).take(20).cloned().collect();
    assert_eq!(read(v1::ReadAllRequest { from: middle, limit: 20, ..request.clone() }).await, expected);
    let backward = v1::Direction::Backward.into();
    let mut reversed = read(v1::ReadAllRequest { direction: backward, ..request.clone() }).await;
    reversed.reverse();
    assert_eq!(reversed, all);
    let stale = Some(v1::ReadOptions { consistency: v1::Consistency::Stale.into(), min_partition_offset: 0 });
    assert_eq!(read(v1::ReadAllRequest { options: stale, ..request }).await, all);
    node.stop().await;
}

async fn next(events: &mut Streaming<v1::SubscribeResponse>) -> v1::Event {
    match events.message().await.unwrap().unwrap().item.unwrap() {
        v1::subscribe_response::Item::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_goes_on_from_what_was_to_what_comes() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let subscribe =
        |what, from| v1::SubscribeRequest { namespace: "shop".to_owned(), what: Some(what), from };
    let mut early = ledger.subscribe(subscribe(What::Workspace(1), 1)).await.unwrap().into_inner();
    stream_all(&mut ledger, (1..=300).map(|number| sale(1, number)).collect()).await;
    let mut late = ledger.subscribe(subscribe(What::Workspace(1), 250)).await.unwrap().into_inner();
    let mut all = ledger.subscribe(subscribe(What::All(true), 0)).await.unwrap().into_inner();
    let mut outcomes = ledger.subscribe(subscribe(What::Partition(1), 1)).await.unwrap().into_inner();
    let writing = tokio::spawn({
        let mut ledger = ledger.clone();
        async move {
            for number in 301..=600 {
                written(&mut ledger, sale(1, number)).await;
            }
        }
    });
    for offset in 1..=600 {
        assert_eq!(next(&mut early).await.workspace_offset, offset);
    }
    for offset in 250..=600 {
        assert_eq!(next(&mut late).await.workspace_offset, offset);
    }
    for offset in 1..=600 {
        assert_eq!(next(&mut all).await.workspace_offset, offset);
    }
    for offset in 1..=601 {
        let item = outcomes.message().await.unwrap().unwrap().item.unwrap();
        let v1::subscribe_response::Item::Outcome(outcome) = item else { panic!("{item:?}") };
        assert_eq!(outcome.partition_offset, offset);
    }
    writing.await.unwrap();
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_is_slowed_down_and_never_skipped() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let request =
        v1::SubscribeRequest { namespace: "shop".to_owned(), what: Some(What::Workspace(1)), from: 1 };
    let mut slow = ledger.subscribe(request).await.unwrap().into_inner();
    assert!(matches!(futures_util::poll!(Box::pin(slow.message())), std::task::Poll::Pending));
    // Far more than windows and buffers hold, all of it before the reader takes anything.
    let large = |number| v1::WriteRequest { payload: vec![b'x'; 64 << 10].into(), ..sale(1, number) };
    stream_all(&mut ledger, (1..=600).map(large).collect()).await;
    for offset in 1..=600 {
        let event = next(&mut slow).await;
        assert_eq!((event.workspace_offset, event.payload.len()), (offset, 64 << 10));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_answers_what_it_took_and_ends_what_never_ends() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let request =
        v1::SubscribeRequest { namespace: "shop".to_owned(), what: Some(What::Workspace(1)), from: 1 };
    let mut following = ledger.subscribe(request).await.unwrap().into_inner();
    let (sender, receiver) = mpsc::channel(64);
    let requests =
        stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    let mut answers = ledger.write_stream(requests).await.unwrap().into_inner();
    for number in 1..=50 {
        sender.send(sale(1, number)).await.unwrap();
    }
    for _ in 1..=50 {
        success(answers.message().await.unwrap().unwrap());
    }
    let Node { server, engine, .. } = node;
    server.stop().await;
    let ended = answers.message().await.unwrap_err();
    assert_eq!((ended.code(), &*problem(&ended).reason), (Code::Unavailable, "SHUTTING_DOWN"));
    // Without a gap up to wherever it ends: from there the client goes on elsewhere.
    let mut offset = 0;
    let ended = loop {
        match following.message().await {
            Ok(item) => {
                let item = item.unwrap().item.unwrap();
                let v1::subscribe_response::Item::Event(event) = item else { panic!("{item:?}") };
                offset += 1;
                assert_eq!(event.workspace_offset, offset);
            }
            Err(status) => break status,
        }
    };
    assert_eq!((ended.code(), &*problem(&ended).reason), (Code::Unavailable, "SHUTTING_DOWN"));
    // Whoever asks before his own library has noticed that the connection is gone is told by it that the call was canceled. No server
    // says that.
    let nobody = ledger.write(sale(1, 51)).await.unwrap_err();
    assert!(matches!(nobody.code(), Code::Unavailable | Code::Cancelled), "{nobody:?}");
    assert!(nobody.details().is_empty(), "{nobody:?}");
    engine.close().await;
}

#[tokio::test]
async fn following_a_namespace_that_is_dropped_ends_as_one_that_does_not_exist() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    for (number, what) in (1..).zip([What::Workspace(1), What::Partition(1), What::All(true)]) {
        written(&mut ledger, sale(1, number)).await;
        let request = v1::SubscribeRequest { namespace: "shop".to_owned(), what: Some(what), from: 1 };
        let mut followed = ledger.subscribe(request).await.unwrap().into_inner();
        followed.message().await.unwrap().unwrap();
        let request = v1::DropNamespaceRequest { namespace: "shop".to_owned() };
        node.admin().await.drop_namespace(request).await.unwrap();
        let ended = loop {
            // What had happened before comes first.
            match followed.message().await {
                Ok(item) => assert!(item.is_some(), "it ends with a reason"),
                Err(status) => break status,
            }
        };
        assert_eq!(
            (ended.code(), &*problem(&ended).reason),
            (Code::NotFound, "UNKNOWN_NAMESPACE"),
            "{what:?}"
        );
        let definition = "name = 'shop'\npartitions = 3".to_owned();
        node.admin().await.apply_namespace(v1::ApplyNamespaceRequest { definition }).await.unwrap();
    }
    node.stop().await;
}

/// Events of the longest kind and short ones, over all partitions.
async fn long_and_short(ledger: &mut Ledger, count: u64) {
    for number in 1..=count {
        let length = if number % 3 == 0 { 400 << 10 } else { 10 };
        let payload = vec![b'1'; length].into();
        written(ledger, v1::WriteRequest { payload, ..sale(number % 5, number) }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_read_share_little_room_and_each_gets_everything() {
    const EVENTS: usize = 45;
    // Half of it is for one client, and little more than what one reading may take.
    let node = Node::start_with(Limits { response_bytes: 32 << 20, ..Limits::default() }).await;
    let mut ledger = node.ledger().await;
    long_and_short(&mut ledger, EVENTS as u64).await;
    let namespace = || "shop".to_owned();
    let key = |event: &v1::Event| (event.log_index, event.payload.len());
    let all = v1::ReadAllRequest { namespace: namespace(), ..Default::default() };
    let whole = ledger.read_all(all.clone()).await.unwrap().into_inner();
    let whole: Vec<v1::Event> = whole.map(|event| event.unwrap().event.unwrap()).collect().await;
    assert_eq!(whole.len(), EVENTS);
    let expected: Vec<_> = whole.iter().map(key).collect();
    assert!(expected.is_sorted());
    let mut reading = Vec::new();
    for number in 0..24 {
        let (mut ledger, all) = (node.ledger().await, all.clone());
        let mut expected = expected.clone();
        reading.push(tokio::spawn(async move {
            let found: Vec<_> = match number % 3 {
                0 => {
                    let what = Some(What::All(true));
                    let follow = v1::SubscribeRequest { namespace: all.namespace, what, from: 0 };
                    let items = ledger.subscribe(follow).await.unwrap().into_inner();
                    let event = |item: v1::SubscribeResponse| match item.item.unwrap() {
                        v1::subscribe_response::Item::Event(event) => key(&event),
                        other => panic!("{other:?}"),
                    };
                    items.take(EVENTS).map(|item| event(item.unwrap())).collect().await
                }
                direction => {
                    if direction == 2 {
                        expected.reverse();
                    }
                    let all = v1::ReadAllRequest { direction, ..all };
                    let events = ledger.read_all(all).await.unwrap().into_inner();
                    events.map(|event| key(&event.unwrap().event.unwrap())).collect().await
                }
            };
            assert_eq!(found, expected, "reader {number}");
        }));
    }
    for reading in reading {
        tokio::time::timeout(LONG, reading).await.unwrap().unwrap();
    }
    node.stop().await;
}
