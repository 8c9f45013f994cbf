//! Work as a stream: credits, answers, fences, streams that break, and the end of the server.

use gapless_api::v1;
use gapless_api::v1::work_request::Request;
use gapless_api::v1::work_response::Response;
use gapless_server::Limits;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

use crate::projections::{Projections, commit, content, leased, query, row, shop, shop_with, sold};
use crate::support::{LONG, problem, violations, written};

/// One stream.
struct Stream {
    requests: mpsc::Sender<v1::WorkRequest>,
    responses: Streaming<v1::WorkResponse>,
}

impl Stream {
    async fn open(projections: &mut Projections, first: Request) -> Self {
        let (requests, receiver) = mpsc::channel(64);
        requests.send(v1::WorkRequest { request: Some(first) }).await.unwrap();
        let receiver = futures_util::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|request| (request, receiver))
        });
        let responses = projections.work(receiver).await.unwrap().into_inner();
        Self { requests, responses }
    }

    async fn say(&self, request: Request) {
        self.requests.send(v1::WorkRequest { request: Some(request) }).await.unwrap();
    }

    /// The next response that is no watermark.
    async fn next(&mut self) -> Result<Option<Response>, Status> {
        loop {
            let response =
                tokio::time::timeout(LONG, self.responses.message()).await.expect("it says something");
            match response?.map(|response| response.response.unwrap()) {
                Some(Response::Watermark(_)) => {}
                other => return Ok(other),
            }
        }
    }

    async fn granted(&mut self) -> Vec<v1::GrantedSlot> {
        match self.next().await.unwrap() {
            Some(Response::Granted(granted)) => granted.slots,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Slots one by one, as they are granted.
    async fn granted_in_all(&mut self, count: usize) -> Vec<v1::GrantedSlot> {
        let mut slots = Vec::new();
        while slots.len() < count {
            slots.extend(self.granted().await);
        }
        assert_eq!(slots.len(), count);
        slots
    }
}

fn hello(credits: u32) -> Request {
    Request::Hello(v1::WorkHello {
        namespace: "shop".to_owned(),
        projection: "work".to_owned(),
        worker: "streamer".to_owned(),
        credits,
        partition: Some(1),
        ttl_ms: 60_000,
    })
}

fn held(slot: &v1::GrantedSlot) -> v1::HeldSlot {
    v1::HeldSlot { partition: slot.partition, slot: slot.slot, token: slot.token }
}

fn work(slot: &v1::GrantedSlot, total: i64) -> Request {
    let content = content(vec![row("today", total)], &[]);
    Request::Commit(v1::WorkCommit { held: Some(held(slot)), content: Some(content) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_granted_within_credits_and_answered_on_the_same_stream() {
    let (node, mut ledger, mut projections) = shop().await;
    for number in 1..=8 {
        written(&mut ledger, sold(number, "today", 1)).await;
    }
    let mut stream = Stream::open(&mut projections, hello(2)).await;
    let mut slots = stream.granted_in_all(2).await;
    slots.sort_by_key(|slot| slot.slot);
    assert_eq!(slots.iter().map(|slot| slot.slot).collect::<Vec<_>>(), [1, 2]);
    // Nothing more comes before something ends: the next response is the answer.
    stream.say(work(&slots[1], 2)).await;
    let Some(Response::Answered(answered)) = stream.next().await.unwrap() else { panic!("no answer") };
    assert_eq!(answered.held, Some(held(&slots[1])));
    let staged = v1::Committed { status: v1::CommitStatus::Staged.into(), duplicate: false };
    assert_eq!(answered.result, Some(v1::work_answered::Result::Committed(staged)));
    let three = stream.granted().await;
    assert_eq!(three.iter().map(|slot| slot.slot).collect::<Vec<_>>(), [3]);
    // No credits, no grants: with one given back, the answer is followed by nothing but the end.
    stream.say(Request::Credits(v1::WorkCredits { credits: 0 })).await;
    stream.say(Request::Release(held(&three[0]))).await;
    let Some(Response::Answered(answered)) = stream.next().await.unwrap() else { panic!("no answer") };
    assert_eq!(answered.result, Some(v1::work_answered::Result::Released(v1::Released {})));
    stream.say(Request::Fail(v1::WorkFail { held: Some(held(&slots[0])), error: "no".to_owned() })).await;
    let Some(Response::Answered(answered)) = stream.next().await.unwrap() else { panic!("no answer") };
    assert!(
        matches!(answered.result, Some(v1::work_answered::Result::Failed(failed)) if failed.attempts == 1)
    );
    let Stream { requests, mut responses } = stream;
    drop(requests);
    while let Some(response) = responses.message().await.unwrap() {
        assert!(matches!(response.response, Some(Response::Watermark(_))), "{response:?}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_breaks_ends_no_lease_and_what_still_holds_is_resumed() {
    let (node, mut ledger, mut projections) = shop().await;
    for number in 1..=2 {
        written(&mut ledger, sold(number, "today", 1)).await;
    }
    let mut stream = Stream::open(&mut projections, hello(2)).await;
    let mut slots = stream.granted_in_all(2).await;
    slots.sort_by_key(|slot| slot.slot);
    drop(stream);
    // Somebody fills the first of them meanwhile; the second is held as before.
    let (namespace, projection) = ("shop".to_owned(), "work".to_owned());
    projections.skip(v1::SkipRequest { namespace, projection, partition: 1, slot: 1 }).await.unwrap();
    let mut stream = Stream::open(&mut projections, hello(2)).await;
    let names = slots.iter().map(held).collect();
    stream.say(Request::Resume(v1::WorkResume { held: names, ttl_ms: 60_000 })).await;
    let (mut fenced, mut renewed) = (None, None);
    while fenced.is_none() || renewed.is_none() {
        match stream.next().await.unwrap().unwrap() {
            Response::Fenced(told) => fenced = told.held,
            Response::Answered(told) => {
                assert!(matches!(told.result, Some(v1::work_answered::Result::Renewed(_))), "{told:?}");
                renewed = told.held;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((fenced, renewed), (Some(held(&slots[0])), Some(held(&slots[1]))));
    stream.say(work(&slots[1], 7)).await;
    let Some(Response::Answered(answered)) = stream.next().await.unwrap() else { panic!("no answer") };
    let applied = v1::Committed { status: v1::CommitStatus::Applied.into(), duplicate: false };
    assert_eq!(
        (answered.watermark, answered.result),
        (2, Some(v1::work_answered::Result::Committed(applied)))
    );
    let rows = projections.query(query("work", Some("today"), 0)).await.unwrap().into_inner().rows;
    assert_eq!((rows[0].columns["total"].as_integer(), rows[0].version), (Some(7), 2));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_what_was_filled_is_told_without_asking() {
    let (node, mut ledger, mut projections) = shop().await;
    written(&mut ledger, sold(1, "today", 1)).await;
    let mut stream = Stream::open(&mut projections, hello(1)).await;
    let slot = stream.granted().await.remove(0);
    let (namespace, projection) = ("shop".to_owned(), "work".to_owned());
    projections.skip(v1::SkipRequest { namespace, projection, partition: 1, slot: 1 }).await.unwrap();
    let Some(Response::Fenced(fenced)) = stream.next().await.unwrap() else { panic!("not told") };
    assert_eq!(
        (fenced.held, fenced.refused.unwrap().code()),
        (Some(held(&slot)), v1::RefusalCode::AlreadyResolved)
    );
    // Its credit is free again.
    written(&mut ledger, sold(2, "today", 1)).await;
    assert_eq!(stream.granted().await[0].slot, 2);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_a_commit_keep_their_order_on_a_stream() {
    let (node, mut ledger, mut projections) = shop().await;
    written(&mut ledger, sold(1, "today", 1)).await;
    let mut stream = Stream::open(&mut projections, hello(1)).await;
    let slot = stream.granted().await.remove(0);
    for number in 1..=8 {
        let part = v1::CommitPart {
            number,
            is_last: number == 8,
            total_rows: (number == 1).then_some(8),
            total_reads: (number == 8).then_some(0),
        };
        let content =
            v1::CommitContent { part: Some(part), ..content(vec![row(&format!("r{number}"), 1)], &[]) };
        stream.say(Request::Commit(v1::WorkCommit { held: Some(held(&slot)), content: Some(content) })).await;
    }
    for number in 1..=8 {
        let Some(Response::Answered(answered)) = stream.next().await.unwrap() else { panic!("no answer") };
        match answered.result.unwrap() {
            v1::work_answered::Result::Part(part) => assert_eq!(part.parts, number),
            v1::work_answered::Result::Committed(_) => assert_eq!(number, 8),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(projections.query(query("work", None, 0)).await.unwrap().into_inner().rows.len(), 8);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_wrong_ends_with_what_is_wrong() {
    let (node, _ledger, mut projections) = shop().await;
    let end = async |projections: &mut Projections, first: Request, second: Option<Request>| {
        let mut stream = Stream::open(projections, first).await;
        if let Some(second) = second {
            stream.say(second).await;
        }
        stream.next().await.unwrap_err()
    };
    let credits = |credits| Request::Credits(v1::WorkCredits { credits });
    assert_eq!(violations(&end(&mut projections, credits(1), None).await), ["request"]);
    assert_eq!(violations(&end(&mut projections, hello(1025), None).await), ["credits"]);
    assert_eq!(violations(&end(&mut projections, hello(1024), Some(hello(1))).await), ["hello"]);
    assert_eq!(violations(&end(&mut projections, hello(1), Some(credits(1025))).await), ["credits"]);
    let nothing = Request::Release(v1::HeldSlot { partition: 7, slot: 1, token: 1 });
    assert_eq!(end(&mut projections, hello(1), Some(nothing)).await.code(), Code::NotFound);
    let Request::Hello(of_work) = hello(1) else { panic!("it is a hello") };
    let by_rules = v1::WorkHello { projection: "sales".to_owned(), ..of_work };
    let mut stream = Stream::open(&mut projections, Request::Hello(by_rules)).await;
    assert!(matches!(stream.next().await.unwrap(), Some(Response::Drain(_))));
    assert_eq!(problem(&stream.next().await.unwrap_err()).reason, "COMPUTED_BY_RULES");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_drains_and_what_is_held_is_finished_or_resumed_later() {
    // What is held may be finished for half of that; it is over as soon as nothing is.
    let limits = Limits { drain: 2 * LONG, ..Limits::default() };
    let (node, mut ledger, mut projections) = shop_with(limits).await;
    for number in 1..=2 {
        written(&mut ledger, sold(number, "today", 1)).await;
    }
    let mut stream = Stream::open(&mut projections, hello(1)).await;
    let slot = stream.granted().await.remove(0);
    let other = leased(&mut projections, "work", 60_000).await;
    let restarting = tokio::spawn(node.restarted());
    assert!(matches!(stream.next().await.unwrap(), Some(Response::Drain(_))));
    stream.say(work(&slot, 1)).await;
    assert!(matches!(stream.next().await.unwrap(), Some(Response::Answered(_))));
    let end = stream.next().await.unwrap_err();
    assert_eq!((end.code(), &*problem(&end).reason), (Code::Unavailable, "SHUTTING_DOWN"));
    drop(stream);
    let node = restarting.await.unwrap();
    let mut projections = node.projections().await;
    let change = content(vec![row("today", 2)], &[]);
    let answer = projections.commit(commit("work", &other, change)).await.unwrap().into_inner();
    assert_eq!(answer.watermark, 2, "{answer:?}");
    node.stop().await;
}
