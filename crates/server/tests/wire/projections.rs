//! The service Projections: every call with one answer, every refusal that can be reached, every limit.

use bytes::Bytes;
use gapless_api::v1;
use gapless_api::v1::projections_client::ProjectionsClient;
use gapless_engine::limits::{MAX_BARRIERS, MAX_CLIENT_BARRIERS};
use gapless_server::Limits;
use gapless_types::ClientId;
use serde_json::Value;
use tonic::Code;
use tonic::transport::Channel;

use crate::http::ask;
use crate::support::{LONG, Ledger, Node, problem, sale, violations, written};

pub(crate) type Projections = ProjectionsClient<Channel>;

const PROJECTIONS: &str = r#"
name = "shop"
partitions = 3
[projections.sales.rules.ItemSold]
kind = "upsert"
entity = "daily"
id = { event = "day" }
set.total = { event = "amount" }
set.twice.add = [{ event = "amount" }, { event = "amount" }]
[projections.work]
events = ["ItemSold"]
window = 4
max_renewals = 1
max_attempts = 2
[projections.strict]
events = ["ItemSold"]
max_attempts = 1
on_exhausted = "halt"
"#;

/// A server with a shop that has projections.
pub(crate) async fn shop() -> (Node, Ledger, Projections) {
    shop_with(Limits::default()).await
}

/// The same on a server with these limits.
pub(crate) async fn shop_with(limits: Limits) -> (Node, Ledger, Projections) {
    let node = Node::start_with(limits).await;
    let request = v1::ApplyNamespaceRequest { definition: with_shop() };
    node.admin().await.apply_namespace(request).await.unwrap();
    let (ledger, projections) = (node.ledger().await, node.projections().await);
    (node, ledger, projections)
}

/// What the shop has already, and projections.
fn with_shop() -> String {
    PROJECTIONS.to_owned() + "[kinds.default.sequences]\ninvoice = 1\n[records.settings]\nsingleton = true\n"
}

/// A sale of a day, in workspace 1.
pub(crate) fn sold(number: u64, day: &str, amount: i64) -> v1::WriteRequest {
    let payload = Bytes::from(format!("{{\"day\":\"{day}\",\"amount\":{amount}}}"));
    v1::WriteRequest { payload, ..sale(1, number) }
}

pub(crate) fn query(projection: &str, id: Option<&str>, least: u64) -> v1::QueryRequest {
    v1::QueryRequest {
        namespace: "shop".to_owned(),
        projection: projection.to_owned(),
        table: "daily".to_owned(),
        workspace: 1,
        id: id.map(str::to_owned),
        options: Some(v1::ReadOptions { min_partition_offset: least, ..Default::default() }),
        ..Default::default()
    }
}

/// One slot of workspace 1's partition, for as long as a test may take.
pub(crate) async fn leased(projections: &mut Projections, projection: &str, ttl_ms: u64) -> v1::GrantedSlot {
    let request = v1::LeaseRequest {
        namespace: "shop".to_owned(),
        projection: projection.to_owned(),
        worker: "tester".to_owned(),
        max: 1,
        ttl_ms,
        wait_ms: 10_000,
        partition: Some(1),
    };
    for _ in 0..6 {
        let mut slots = projections.lease(request.clone()).await.unwrap().into_inner().slots;
        if let Some(slot) = slots.pop() {
            assert_eq!(slots, [], "no more than were asked for");
            return slot;
        }
    }
    panic!("there was no work in time");
}

pub(crate) fn row(id: &str, total: i64) -> v1::RowWrite {
    v1::RowWrite {
        table: "daily".to_owned(),
        id: id.to_owned(),
        columns: [("total".to_owned(), total.into())].into(),
        delete: false,
    }
}

pub(crate) fn content(rows: Vec<v1::RowWrite>, reads: &[(&str, u64)]) -> v1::CommitContent {
    let read = |(id, version): &(&str, u64)| v1::RowRead {
        table: "daily".to_owned(),
        id: (*id).to_owned(),
        version: *version,
    };
    v1::CommitContent { rows, reads: reads.iter().map(read).collect(), ..Default::default() }
}

pub(crate) fn commit(
    projection: &str,
    slot: &v1::GrantedSlot,
    content: v1::CommitContent,
) -> v1::CommitRequest {
    v1::CommitRequest {
        namespace: "shop".to_owned(),
        projection: projection.to_owned(),
        partition: slot.partition,
        slot: slot.slot,
        token: slot.token,
        content: Some(content),
    }
}

type Committed = Result<(v1::CommitStatus, bool), v1::RefusalCode>;

async fn committed(projections: &mut Projections, request: v1::CommitRequest) -> Committed {
    use v1::commit_response::Result as Answer;
    match projections.commit(request).await.unwrap().into_inner().result.unwrap() {
        Answer::Committed(committed) => Ok((committed.status(), committed.duplicate)),
        Answer::Refused(refused) => Err(refused.code()),
        Answer::Part(_) => panic!("it was no part"),
    }
}

async fn skipped(projections: &mut Projections, projection: &str, slot: u64) -> Result<u64, v1::RefusalCode> {
    let (namespace, projection) = ("shop".to_owned(), projection.to_owned());
    let answer = projections.skip(v1::SkipRequest { namespace, projection, partition: 1, slot }).await;
    let answer = answer.unwrap().into_inner();
    match answer.result.unwrap() {
        v1::skip_response::Result::Skipped(_) => Ok(answer.watermark),
        v1::skip_response::Result::Refused(refused) => Err(refused.code()),
    }
}

async fn released(projections: &mut Projections, slot: &v1::GrantedSlot) -> Option<v1::RefusalCode> {
    let request = v1::ReleaseRequest {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        partition: slot.partition,
        slot: slot.slot,
        token: slot.token,
    };
    match projections.release(request).await.unwrap().into_inner().result.unwrap() {
        v1::release_response::Result::Released(_) => None,
        v1::release_response::Result::Refused(refused) => Some(refused.code()),
    }
}

async fn renewed(
    projections: &mut Projections,
    slot: &v1::GrantedSlot,
    ttl_ms: u64,
) -> Result<u32, v1::RefusalCode> {
    let request = v1::RenewRequest {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        partition: slot.partition,
        slot: slot.slot,
        token: slot.token,
        ttl_ms,
    };
    match projections.renew(request).await.unwrap().into_inner().result.unwrap() {
        v1::renew_response::Result::Renewed(renewed) => Ok(renewed.renewals),
        v1::renew_response::Result::Refused(refused) => Err(refused.code()),
    }
}

async fn failed(
    projections: &mut Projections,
    projection: &str,
    slot: &v1::GrantedSlot,
) -> Result<v1::FailedNext, v1::RefusalCode> {
    let request = v1::FailRequest {
        namespace: "shop".to_owned(),
        projection: projection.to_owned(),
        partition: slot.partition,
        slot: slot.slot,
        token: slot.token,
        error: "it does not add up".to_owned(),
    };
    match projections.fail(request).await.unwrap().into_inner().result.unwrap() {
        v1::fail_response::Result::Failed(failed) => Ok(failed.next()),
        v1::fail_response::Result::Refused(refused) => Err(refused.code()),
    }
}

/// Waits until every lease that had a millisecond has run out: the log's time goes on by itself.
async fn expired(projections: &mut Projections, projection: &str, count: u64) {
    for _ in 0..3000 {
        let (namespace, projection) = ("shop".to_owned(), projection.to_owned());
        let request = v1::DescribeRequest { namespace, projection, ..Default::default() };
        let found = projections.describe(request).await.unwrap().into_inner();
        if found.domains[1].counters["expired"] >= count {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("no lease has expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_compute_rows_that_are_read_by_id_and_by_prefix() {
    let (node, mut ledger, mut projections) = shop().await;
    let mut last = 0;
    for number in 1..=6 {
        let day = if number % 2 == 0 { "2026-11-16" } else { "2026-11-17" };
        last = written(&mut ledger, sold(number, day, 10)).await.partition_offset;
    }
    let found = projections.query(query("sales", Some("2026-11-16"), last)).await.unwrap().into_inner();
    let row = &found.rows[0];
    assert_eq!((row.columns["total"].as_integer(), row.columns["twice"].as_integer()), (Some(10), Some(20)));
    assert_eq!((row.version, row.absent, found.watermark), (6, false, 6));
    let nothing = projections.query(query("sales", Some("2026-11-18"), last)).await.unwrap().into_inner();
    assert_eq!((nothing.rows[0].version, nothing.rows[0].absent), (0, true));
    let all = v1::QueryRequest { prefix: "2026-11-1".to_owned(), page_size: 1, ..query("sales", None, last) };
    let first = projections.query(all.clone()).await.unwrap().into_inner();
    assert_eq!((first.rows.len(), &*first.rows[0].id), (1, "2026-11-16"));
    let next = v1::QueryRequest { page_token: first.next_page_token, ..all.clone() };
    let second = projections.query(next.clone()).await.unwrap().into_inner();
    assert_eq!((&*second.rows[0].id, &*second.next_page_token), ("2026-11-17", ""));
    let other = v1::QueryRequest { prefix: "2".to_owned(), ..next };
    assert_eq!(violations(&projections.query(other).await.unwrap_err()), ["page_token"]);
    let request = v1::LeaseRequest {
        namespace: "shop".to_owned(),
        projection: "sales".to_owned(),
        worker: "w".to_owned(),
        ..Default::default()
    };
    let status = projections.lease(request).await.unwrap_err();
    assert_eq!((status.code(), &*problem(&status).reason), (Code::FailedPrecondition, "COMPUTED_BY_RULES"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_that_a_worker_can_meet_is_told_by_its_name() {
    use v1::{CommitStatus as Status, RefusalCode as Code};
    let (node, mut ledger, mut projections) = shop().await;
    for number in 1..=9 {
        written(&mut ledger, sold(number, "today", 1)).await;
    }
    let change = |total| content(vec![row("today", total)], &[]);

    let one = leased(&mut projections, "work", 60_000).await;
    assert_eq!((one.partition, one.slot, one.attempt), (1, 1, 1));
    let event = one.event.clone().unwrap();
    assert_eq!((event.workspace, &*event.event_type), (1, "ItemSold"));
    let two = leased(&mut projections, "work", 60_000).await;
    assert_eq!(
        committed(&mut projections, commit("work", &two, change(2))).await,
        Ok((Status::Staged, false))
    );
    assert_eq!(
        committed(&mut projections, commit("work", &one, change(1))).await,
        Ok((Status::Applied, false))
    );
    assert_eq!(
        committed(&mut projections, commit("work", &one, change(1))).await,
        Ok((Status::Applied, true))
    );
    assert_eq!(
        committed(&mut projections, commit("work", &one, change(7))).await,
        Err(Code::PayloadMismatch)
    );
    assert_eq!(released(&mut projections, &one).await, Some(Code::AlreadyCommitted));
    assert_eq!(skipped(&mut projections, "work", 1).await, Err(Code::AlreadyResolved));
    assert_eq!(skipped(&mut projections, "work", 99).await, Err(Code::UnknownSlot));
    let unknown = v1::GrantedSlot { slot: 99, ..one.clone() };
    assert_eq!(
        committed(&mut projections, commit("work", &unknown, change(1))).await,
        Err(Code::UnknownSlot)
    );
    let unknown = v1::GrantedSlot { token: 999, ..one.clone() };
    assert_eq!(
        committed(&mut projections, commit("work", &unknown, change(1))).await,
        Err(Code::UnknownToken)
    );

    let three = leased(&mut projections, "work", 60_000).await;
    assert_eq!(renewed(&mut projections, &three, 0).await, Ok(1));
    assert_eq!(renewed(&mut projections, &three, 0).await, Err(Code::RenewalLimit));
    let long =
        v1::CommitContent { result: Some(format!("\"{}\"", "x".repeat(1 << 20))), ..Default::default() };
    let status = projections.commit(commit("work", &three, long)).await.unwrap_err();
    assert_eq!(violations(&status), ["content"]);
    let part = |number| v1::CommitPart { number, is_last: true, total_rows: Some(2), total_reads: Some(0) };
    let wrong = v1::CommitContent { part: Some(part(1)), ..change(3) };
    assert_eq!(committed(&mut projections, commit("work", &three, wrong)).await, Err(Code::InvalidPayload));
    let gap = v1::CommitPart { total_rows: None, total_reads: None, ..part(2) };
    let gap = v1::CommitContent { part: Some(gap), ..change(3) };
    assert_eq!(committed(&mut projections, commit("work", &three, gap)).await, Err(Code::InvalidPart));
    assert_eq!(released(&mut projections, &three).await, None);
    assert_eq!(
        committed(&mut projections, commit("work", &three, change(3))).await,
        Err(Code::LeaseReleased)
    );

    let late = leased(&mut projections, "work", 1).await;
    assert_eq!((late.slot, late.attempt), (3, 1));
    expired(&mut projections, "work", 1).await;
    assert_eq!(committed(&mut projections, commit("work", &late, change(3))).await, Err(Code::LeaseExpired));
    let again = leased(&mut projections, "work", 60_000).await;
    assert_eq!((again.slot, again.attempt), (3, 2));
    assert_eq!(committed(&mut projections, commit("work", &late, change(3))).await, Err(Code::StaleToken));

    // A row that was read at slot 2 is changed by slot 3 before slot 4's turn comes.
    let four = leased(&mut projections, "work", 60_000).await;
    let stale = content(vec![row("today", 4)], &[("today", 2)]);
    assert_eq!(
        committed(&mut projections, commit("work", &four, stale.clone())).await,
        Ok((Status::Staged, false))
    );
    assert_eq!(
        committed(&mut projections, commit("work", &again, change(3))).await,
        Ok((Status::Applied, false))
    );
    assert_eq!(committed(&mut projections, commit("work", &four, stale)).await, Err(Code::LeaseReturned));
    let four = leased(&mut projections, "work", 60_000).await;
    assert_eq!(four.slot, 4);
    assert_eq!(skipped(&mut projections, "work", 4).await, Ok(4));
    assert_eq!(committed(&mut projections, commit("work", &four, change(4))).await, Err(Code::SlotFilled));
    let rows = projections.query(query("work", Some("today"), 0)).await.unwrap().into_inner().rows;
    assert_eq!((rows[0].columns["total"].as_integer(), rows[0].version), (Some(3), 3));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_allocated_up_to_the_window_and_not_while_the_domain_is_halted() {
    use v1::allocate_response::Result as Answer;
    let (node, mut ledger, mut projections) = shop().await;
    let request = |projection: &str| v1::AllocateRequest {
        namespace: "shop".to_owned(),
        projection: projection.to_owned(),
        worker: "w".to_owned(),
        workspace: 1,
        ttl_ms: 60_000,
    };
    let mut slots = Vec::new();
    let refused = loop {
        match projections.allocate(request("work")).await.unwrap().into_inner().result.unwrap() {
            Answer::Slot(slot) => slots.push(slot),
            Answer::Refused(refused) => break refused.code(),
        }
    };
    assert_eq!((slots.len(), refused), (4, v1::RefusalCode::WindowFull));
    assert!(slots.iter().all(|slot| slot.event.is_none() && slot.partition == 1));
    let result =
        v1::CommitContent { result: Some("{\"b\": 1, \"a\": [2]}".to_owned()), ..Default::default() };
    let applied = Ok((v1::CommitStatus::Applied, false));
    assert_eq!(committed(&mut projections, commit("work", &slots[0], result)).await, applied);

    written(&mut ledger, sold(1, "today", 1)).await;
    let only = leased(&mut projections, "strict", 60_000).await;
    assert_eq!(failed(&mut projections, "strict", &only).await, Ok(v1::FailedNext::Halted));
    let halted = projections.allocate(request("strict")).await.unwrap().into_inner().result.unwrap();
    assert!(matches!(halted, Answer::Refused(refused) if refused.code() == v1::RefusalCode::DomainHalted));
    let (namespace, projection) = ("shop".to_owned(), "strict".to_owned());
    let described = v1::DescribeRequest { namespace, projection, ..Default::default() };
    let found = projections.describe(described).await.unwrap().into_inner();
    assert!(found.domains[1].halted && found.projection.unwrap().alerts == ["HALTED"]);
    assert_eq!(found.domains[1].blocking.as_ref().unwrap().holder, "tester");
    assert_eq!(skipped(&mut projections, "strict", 1).await, Ok(1));
    let (namespace, projection) = ("shop".to_owned(), "strict".to_owned());
    let request = v1::ListDeadLettersRequest { namespace, projection, ..Default::default() };
    let letters = projections.list_dead_letters(request).await.unwrap().into_inner().dead_letters;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!(
        (letter.partition, letter.slot, letter.workspace, &*letter.filled_because),
        (1, 1, 1, "skipped")
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_come_from_a_slot_on_and_then_live_in_order() {
    let (node, mut ledger, mut projections) = shop().await;
    let sold_at = |slot: u64| sold(slot, "today", i64::try_from(slot).unwrap());
    for number in 1..=3 {
        written(&mut ledger, sold_at(number)).await;
    }
    let request = v1::SubscribeEffectsRequest {
        namespace: "shop".to_owned(),
        projection: "sales".to_owned(),
        partition: 1,
        from: 2,
    };
    let mut effects = projections.subscribe_effects(request).await.unwrap().into_inner();
    for slot in 2..=5 {
        if slot > 3 {
            written(&mut ledger, sold_at(slot)).await;
        }
        let effect =
            tokio::time::timeout(LONG, effects.message()).await.unwrap().unwrap().unwrap().effect.unwrap();
        assert_eq!((effect.slot, effect.kind()), (slot, v1::EffectKind::Upsert));
        let total = effect.rows[0].columns["total"].as_integer();
        assert_eq!(total, i64::try_from(slot).ok());
    }
    let target = v1::barrier_target::Target::Projection(v1::ProjectionSlot {
        projection: "sales".to_owned(),
        slot: 5,
    });
    let wait = |slot: u64, target: &v1::barrier_target::Target, timeout_ms| {
        let target = match target.clone() {
            v1::barrier_target::Target::Projection(at) => {
                v1::barrier_target::Target::Projection(v1::ProjectionSlot { slot, ..at })
            }
            other => other,
        };
        let target = v1::BarrierTarget { namespace: "shop".to_owned(), partition: 1, target: Some(target) };
        v1::WaitBarrierRequest { targets: vec![target], timeout_ms }
    };
    let mut admin = node.admin().await;
    assert!(admin.wait_barrier(wait(5, &target, 60_000)).await.unwrap().into_inner().reached);
    let blocked = admin.wait_barrier(wait(6, &target, 200)).await.unwrap().into_inner();
    assert_eq!((blocked.reached, blocked.blocked[0].projection.as_ref().unwrap().slot), (false, 5));
    // Whoever waits for a slot takes a place like everybody else.
    let clients: Vec<_> = (0..MAX_BARRIERS / MAX_CLIENT_BARRIERS)
        .map(|number| ClientId::new(&format!("client {number}")).unwrap())
        .collect();
    let places: Vec<_> = clients
        .iter()
        .flat_map(|client| std::iter::repeat_n(client, MAX_CLIENT_BARRIERS))
        .map(|client| node.engine.enter_barrier(client).unwrap())
        .collect();
    let refused = admin.wait_barrier(wait(5, &target, 60_000)).await.unwrap_err();
    assert_eq!((refused.code(), &*problem(&refused).reason), (Code::ResourceExhausted, "TOO_MANY_BARRIERS"));
    drop(places);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_several_parts_is_one_effect() {
    let (node, mut ledger, mut projections) = shop().await;
    written(&mut ledger, sold(1, "today", 1)).await;
    let slot = leased(&mut projections, "work", 60_000).await;
    let part = |number, is_last, total_rows, total_reads| {
        Some(v1::CommitPart { number, is_last, total_rows, total_reads })
    };
    let one = v1::CommitContent { part: part(1, false, Some(2), None), ..content(vec![row("a", 1)], &[]) };
    let two =
        v1::CommitContent { part: part(2, true, None, Some(1)), ..content(vec![row("b", 2)], &[("a", 0)]) };
    for _ in 0..2 {
        // Twice: an answer may have been lost.
        let answer = projections.commit(commit("work", &slot, one.clone())).await.unwrap().into_inner();
        assert_eq!(answer.result, Some(v1::commit_response::Result::Part(v1::PartReceived { parts: 1 })));
    }
    let applied = committed(&mut projections, commit("work", &slot, two.clone())).await;
    assert_eq!(applied, Ok((v1::CommitStatus::Applied, false)));
    assert_eq!(
        committed(&mut projections, commit("work", &slot, two)).await,
        Ok((v1::CommitStatus::Applied, true))
    );
    let rows = projections.query(query("work", None, 0)).await.unwrap().into_inner().rows;
    let ids: Vec<_> = rows.iter().map(|row| (&*row.id, row.version)).collect();
    assert_eq!(ids, [("a", 1), ("b", 1)]);

    // What comes as a whole is taken apart by the server, and put together again.
    written(&mut ledger, sold(2, "today", 1)).await;
    let slot = leased(&mut projections, "work", 60_000).await;
    let long = "x".repeat(700 << 10);
    let text =
        |id: &str| v1::RowWrite { columns: [("text".to_owned(), long.as_str().into())].into(), ..row(id, 0) };
    let large = content(vec![text("c"), text("d"), text("e")], &[]);
    let applied = committed(&mut projections, commit("work", &slot, large)).await;
    assert_eq!(applied, Ok((v1::CommitStatus::Applied, false)));
    let rows = projections.query(query("work", Some("e"), 0)).await.unwrap().into_inner().rows;
    assert_eq!(rows[0].columns["text"].as_text(), Some(&*long));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_and_what_is_beyond_them_is_told_by_field() {
    let (node, mut ledger, mut projections) = shop().await;
    written(&mut ledger, sold(1, "today", 1)).await;
    let lease = |worker: usize, max: u32| v1::LeaseRequest {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        worker: "w".repeat(worker),
        max,
        ttl_ms: 60_000,
        wait_ms: 20_000,
        partition: Some(1),
    };
    assert_eq!(violations(&projections.lease(lease(65, 1025)).await.unwrap_err()), ["worker", "max"]);
    assert_eq!(violations(&projections.lease(lease(0, 1)).await.unwrap_err()), ["worker"]);
    let slot = projections.lease(lease(64, 1024)).await.unwrap().into_inner().slots.remove(0);
    let fail = |bytes: usize| v1::FailRequest {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        partition: 1,
        slot: slot.slot,
        token: slot.token,
        error: "e".repeat(bytes),
    };
    assert_eq!(violations(&projections.fail(fail(1025)).await.unwrap_err()), ["error"]);
    projections.fail(fail(1024)).await.unwrap();
    let wrong = v1::QueryRequest {
        page_size: 1001,
        table: String::new(),
        ..query("work", Some(&"i".repeat(1025)), 0)
    };
    assert_eq!(violations(&projections.query(wrong).await.unwrap_err()), ["page_size", "table", "id"]);
    let right = v1::QueryRequest {
        page_size: 1000,
        table: "t".repeat(255),
        ..query("work", Some(&"i".repeat(1024)), 0)
    };
    projections.query(right).await.unwrap();
    let long = v1::RowWrite { table: "t".repeat(256), id: "i".repeat(1025), ..row("a", 1) };
    let status = projections.commit(commit("work", &slot, content(vec![long], &[]))).await.unwrap_err();
    assert_eq!(violations(&status), ["content.rows[0].table", "content.rows[0].id"]);
    for (status, reason) in [
        (
            projections
                .query(v1::QueryRequest { namespace: "nowhere".to_owned(), ..query("work", None, 0) })
                .await
                .unwrap_err(),
            "UNKNOWN_NAMESPACE",
        ),
        (projections.query(query("nothing", None, 0)).await.unwrap_err(), "UNKNOWN_PROJECTION"),
        (
            projections.lease(v1::LeaseRequest { partition: Some(3), ..lease(1, 1) }).await.unwrap_err(),
            "UNKNOWN_PARTITION",
        ),
    ] {
        assert_eq!((status.code(), &*problem(&status).reason), (Code::NotFound, reason));
    }
    let (namespace, projection) = (|| "shop".to_owned(), || "work".to_owned());
    let listed =
        projections.list(v1::ListRequest { namespace: namespace(), page_size: 1001, ..Default::default() });
    assert_eq!(violations(&listed.await.unwrap_err()), ["page_size"]);
    let statuses = [
        projections
            .pause(v1::PauseRequest { namespace: namespace(), projection: projection() })
            .await
            .unwrap_err(),
        projections
            .resume(v1::ResumeRequest { namespace: namespace(), projection: projection() })
            .await
            .unwrap_err(),
        projections
            .replay_dead_letters(v1::ReplayDeadLettersRequest {
                namespace: namespace(),
                projection: projection(),
            })
            .await
            .unwrap_err(),
        projections
            .rebuild(v1::RebuildRequest { namespace: namespace(), projection: projection() })
            .await
            .unwrap_err(),
        projections
            .switch(v1::SwitchRequest { namespace: namespace(), projection: projection() })
            .await
            .unwrap_err(),
        projections
            .audit(v1::AuditRequest { namespace: namespace(), projection: projection() })
            .await
            .unwrap_err(),
    ];
    assert!(statuses.iter().all(|status| status.code() == Code::Unimplemented), "{statuses:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_can_be_asked_over_http() {
    let (node, mut ledger, mut projections) = shop().await;
    let offset = written(&mut ledger, sold(1, "today", 5)).await.partition_offset;
    let get = async |path: &str| {
        let answer = ask(&node, "GET", path, "", "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str::<Value>(&answer.body).unwrap()
    };
    let listed = get("/v1/namespaces/shop/projections").await;
    let names: Vec<_> =
        listed["projections"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["sales", "strict", "work"]);
    let path = "/v1/namespaces/shop/projections";
    let rows =
        get(&format!("{path}/sales/tables/daily/rows?workspace=1&id=today&min_partition_offset={offset}"))
            .await;
    assert_eq!(rows["rows"][0]["columns"]["total"]["integer"], 5);
    // Whoever has a slot knows that the domain has come so far.
    let slot = leased(&mut projections, "work", 60_000).await;
    let described = get(&format!("{path}/work")).await;
    assert_eq!(
        (&described["projection"]["name"], &described["domains"][1]["tail"]),
        (&Value::from("work"), &Value::from(1))
    );

    let of_slot = format!("{path}/work/partitions/1/slots/1");
    let body = format!(
        "{{\"token\":{},\"content\":{{\"rows\":[{{\"table\":\"daily\",\"id\":\"today\",\"columns\":{{\"total\":{{\"integer\":5}}}}}}]}}}}",
        slot.token
    );
    let answer = ask(&node, "POST", &format!("{of_slot}/commit"), "", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("COMMIT_STATUS_APPLIED"), "{}", answer.body);
    let twice = ask(&node, "POST", &format!("{of_slot}/release"), "", "{\"slot\":1,\"token\":1}").await;
    assert_eq!(twice.status, 400, "{}", twice.body);
    let answer = ask(&node, "POST", &format!("{of_slot}/skip"), "", "").await;
    assert!(answer.status == 200 && answer.body.contains("ALREADY_RESOLVED"), "{}", answer.body);
    assert_eq!(get(&format!("{path}/work/dead-letters")).await["dead_letters"], serde_json::json!([]));
    assert_eq!(ask(&node, "POST", &format!("{path}/work/rebuild"), "", "").await.status, 501);
    node.stop().await;
}
