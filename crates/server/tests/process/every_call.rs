//! Every method of the protocol, called on the real binary over a real socket, each with a request that succeeds. Which there are, the
//! protocol says: one that is not called here fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use gapless_api::v1::admin_client::AdminClient;
use gapless_api::v1::ledger_client::LedgerClient;
use gapless_api::v1::projections_client::ProjectionsClient;
use gapless_api::{FILE_DESCRIPTORS, Problem, v1};
use gapless_engine::partition::proof::{
    Hash, Head, LeafIndex, TreeSize, verify_consistency, verify_inclusion,
};
use prost_reflect::DescriptorPool;
use tokio::sync::mpsc;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, GrpcMethod, Request, Status, Streaming};
use v1::work_request::Request as Work;
use v1::work_response::Response as Worked;

use crate::support::Process;

/// How long anything may take before a test has failed.
const LONG: Duration = Duration::from_secs(60);
/// Longer than this test takes, so that no lease ends in it.
const LEASE_MS: u64 = 600_000;

const SHOP: &str = r#"
name = "shop"
partitions = 3
[kinds.default.sequences]
invoice = 1
[projections.sales.rules.ItemSold]
kind = "upsert"
entity = "daily"
id = { event = "day" }
set.total = { event = "amount" }
[projections.work]
events = ["ItemSold"]
"#;

/// Notes which methods are called.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<BTreeSet<String>>>);

impl Interceptor for Notes {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let method = request.extensions().get::<GrpcMethod<'static>>().expect("every call has a name");
        self.0.lock().unwrap().insert(format!("{}.{}", method.service(), method.method()));
        Ok(request)
    }
}

type Noted = InterceptedService<Channel, Notes>;
type Ledger = LedgerClient<Noted>;
type Admin = AdminClient<Noted>;
type Projections = ProjectionsClient<Noted>;

fn shop() -> String {
    "shop".to_owned()
}

/// The event of workspace 1 with this number, with everything that can be read afterwards.
fn sale(number: u8) -> v1::WriteRequest {
    use v1::operation::Op;
    let set = v1::SetEntity { key: "stock".into(), value: number.to_string().into(), ..Default::default() };
    let create = v1::CreateRecord { raw_id: 1, record_type: "order".to_owned(), ..Default::default() };
    let next = v1::NextNumber { sequence: "invoice".to_owned() };
    let operations = [Op::SetEntity(set), Op::CreateRecord(create), Op::NextNumber(next)];
    v1::WriteRequest {
        namespace: shop(),
        workspace: 1,
        client_id: "till".to_owned(),
        idempotency_key: vec![number; 16].into(),
        event_type: "ItemSold".to_owned(),
        payload: format!("{{\"day\":\"today\",\"amount\":{number}}}").into(),
        operations: operations.map(|op| v1::Operation { op: Some(op) }).into(),
        ..Default::default()
    }
}

fn success(response: v1::WriteResponse) -> v1::WriteSuccess {
    match response.result {
        Some(v1::write_response::Result::Success(success)) => success,
        other => panic!("not a success: {other:?}"),
    }
}

/// What comes next on a stream that has not ended.
async fn next<T>(answers: &mut Streaming<T>) -> T {
    let answer = tokio::time::timeout(LONG, answers.message()).await.expect("it says something");
    answer.unwrap().expect("it goes on")
}

#[track_caller]
fn told(status: &Status) -> (Code, String) {
    (status.code(), Problem::from(status).reason.to_string())
}

/// Every method that the protocol has.
fn described() -> BTreeSet<String> {
    let pool = DescriptorPool::decode(FILE_DESCRIPTORS).unwrap();
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    methods.map(|method| method.full_name().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_of_the_protocol_does_what_it_is_for_over_a_real_socket() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::serve(&dir.path().join("data"));
    let address = format!("http://{}", process.address);
    let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
    let notes = Notes::default();
    let mut ledger = LedgerClient::with_interceptor(channel.clone(), notes.clone());
    let mut admin = AdminClient::with_interceptor(channel.clone(), notes.clone());
    let mut projections = ProjectionsClient::with_interceptor(channel, notes.clone());

    a_namespace_is_defined(&mut admin).await;
    let first = events_are_written(&mut ledger).await;
    what_was_written_is_read(&mut ledger).await;
    what_happens_is_followed(&mut ledger).await;
    events_are_proven(&mut ledger).await;
    rules_compute_a_read_model(&mut projections).await;
    workers_compute_another(&mut projections).await;
    work_is_a_stream(&mut projections).await;
    what_is_not_possible_yet_says_so(&mut projections).await;
    partitions_are_looked_after(&mut admin, &mut ledger).await;
    a_partition_is_made_anew(&mut admin, &mut ledger, &first).await;
    the_node_is_looked_after(&mut admin, &first, &dir.path().join("backups")).await;
    a_node_that_is_alone_has_nobody_to_add_or_to_hand_over_to(&mut admin).await;
    the_namespace_is_dropped(&mut admin).await;

    let called = notes.0.lock().unwrap().clone();
    assert_eq!(called, described(), "called, and described");
    drop((ledger, admin, projections));
    assert!(process.terminate().success());
}

async fn a_namespace_is_defined(admin: &mut Admin) {
    let applied = admin.apply_namespace(v1::ApplyNamespaceRequest { definition: SHOP.to_owned() }).await;
    let applied = applied.unwrap().into_inner().namespace.unwrap();
    assert_eq!((applied.name.as_str(), applied.partitions), ("shop", 3));
    assert!(applied.definition.contains("invoice = 1"), "{}", applied.definition);
    let found = admin.get_namespace(v1::GetNamespaceRequest { namespace: shop() }).await.unwrap();
    assert_eq!(found.into_inner().namespace.unwrap(), applied);
    let listed = admin.list_namespaces(v1::ListNamespacesRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.namespaces, [applied]);
}

/// Three events; the first one's numbers.
async fn events_are_written(ledger: &mut Ledger) -> v1::WriteSuccess {
    let first = success(ledger.write(sale(1)).await.unwrap().into_inner());
    let numbers = (first.workspace_offset, first.assigned_sequence, first.numbers["invoice"]);
    assert_eq!((numbers, first.record_ids[&1], first.partition), ((1, 1, 1), 200_001, 1));
    let answers = ledger.write_stream(stream::iter([sale(2), sale(3)])).await.unwrap().into_inner();
    let answers: Vec<v1::WriteResponse> = answers.try_collect().await.unwrap();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        // In whatever order they come, each says what it answers.
        let number = answer.idempotency_key[0];
        assert_eq!(success(answer).workspace_offset, u64::from(number));
    }
    first
}

async fn what_was_written_is_read(ledger: &mut Ledger) {
    let get = v1::GetEntityRequest { namespace: shop(), workspace: 1, key: "stock".into(), options: None };
    let stock = ledger.get_entity(get).await.unwrap().into_inner().entity.unwrap();
    assert_eq!((&stock.value[..], stock.version), (&b"3"[..], 3));
    let list = v1::ListEntitiesRequest { namespace: shop(), workspace: 1, ..Default::default() };
    assert_eq!(ledger.list_entities(list).await.unwrap().into_inner().entities, [stock]);
    let get = v1::GetRecordRequest { namespace: shop(), workspace: 1, record_id: 200_002, options: None };
    let order = ledger.get_record(get).await.unwrap().into_inner().record.unwrap();
    assert_eq!((order.record_type.as_str(), order.created_at_offset), ("order", 2));
    let list = v1::ListRecordsRequest { namespace: shop(), workspace: 1, ..Default::default() };
    let orders = ledger.list_records(list).await.unwrap().into_inner().records;
    assert!(orders.iter().map(|order| order.record_id).eq(200_001..=200_003), "{orders:?}");

    let read = v1::ReadWorkspaceRequest { namespace: shop(), workspace: 1, ..Default::default() };
    let events: Vec<_> = ledger.read_workspace(read).await.unwrap().into_inner().try_collect().await.unwrap();
    let of_workspace: Vec<v1::Event> = events.into_iter().map(|found| found.event.unwrap()).collect();
    assert!(of_workspace.iter().map(|event| event.workspace_offset).eq(1..=3), "{of_workspace:?}");
    assert!((1..=3).zip(&of_workspace).all(|(number, event)| event.payload == sale(number).payload));
    let read = v1::ReadAllRequest { namespace: shop(), ..Default::default() };
    let events: Vec<_> = ledger.read_all(read).await.unwrap().into_inner().try_collect().await.unwrap();
    assert_eq!(events.into_iter().map(|found| found.event.unwrap()).collect::<Vec<_>>(), of_workspace);
    let read = v1::ReadPartitionRequest { namespace: shop(), partition: 1, ..Default::default() };
    let found: Vec<_> = ledger.read_partition(read).await.unwrap().into_inner().try_collect().await.unwrap();
    let outcomes: Vec<v1::Outcome> = found.into_iter().map(|found| found.outcome.unwrap()).collect();
    // The first outcome of a partition is its definition.
    assert!(outcomes.iter().map(|outcome| outcome.partition_offset).eq(1..=4), "{outcomes:?}");
    assert!(matches!(outcomes[0].outcome, Some(v1::outcome::Outcome::Defined(_))), "{outcomes:?}");

    let get = v1::GetClientStateRequest {
        namespace: shop(),
        workspace: 1,
        client_id: "till".into(),
        options: None,
    };
    assert_eq!(ledger.get_client_state(get).await.unwrap().into_inner().last_committed_sequence, 3);
    let get = v1::GetWorkspaceRequest { namespace: shop(), workspace: 1, options: None };
    let found = ledger.get_workspace(get).await.unwrap().into_inner();
    assert_eq!((found.kind.as_str(), found.last_offset, found.last_record_id), ("default", 3, 200_003));
    let list = v1::ListSequencesRequest { namespace: shop(), workspace: 1, options: None };
    let invoice = v1::SequenceState { sequence: "invoice".to_owned(), first_number: 1, last_number: 3 };
    assert_eq!(ledger.list_sequences(list).await.unwrap().into_inner().sequences, [invoice]);
}

/// From what was to what comes: a fourth event.
async fn what_happens_is_followed(ledger: &mut Ledger) {
    let what = Some(v1::subscribe_request::What::Workspace(1));
    let request = v1::SubscribeRequest { namespace: shop(), what, from: 3 };
    let mut followed = ledger.subscribe(request).await.unwrap().into_inner();
    for offset in 3..=4 {
        if offset == 4 {
            success(ledger.write(sale(4)).await.unwrap().into_inner());
        }
        let Some(v1::subscribe_response::Item::Event(event)) = next(&mut followed).await.item else {
            panic!("not an event")
        };
        assert_eq!(event.workspace_offset, offset);
    }
}

fn hash(bytes: &Bytes) -> Hash {
    Hash::from_bytes(bytes[..].try_into().unwrap())
}

async fn events_are_proven(ledger: &mut Ledger) {
    let mut heads = Vec::new();
    for tree_size in [2, 0] {
        let request = v1::GetRootRequest { namespace: shop(), workspace: 1, tree_size, options: None };
        let root = ledger.get_root(request).await.unwrap().into_inner();
        heads.push(Head { size: TreeSize::new(root.tree_size), root: hash(&root.root) });
    }
    let [kept, newest] = heads[..] else { panic!("two were asked for") };
    assert_eq!((kept.size.get(), newest.size.get()), (2, 4));
    let request = v1::GetInclusionProofRequest {
        namespace: shop(),
        workspace: 1,
        workspace_offset: 2,
        tree_size: 2,
        options: None,
    };
    let included = ledger.get_inclusion_proof(request).await.unwrap().into_inner();
    let hashes: Vec<Hash> = included.proof.unwrap().hashes.iter().map(hash).collect();
    verify_inclusion(Hash::of_leaf(&included.leaf), LeafIndex::new(1), &kept, &hashes).unwrap();
    let request = v1::GetConsistencyProofRequest {
        namespace: shop(),
        workspace: 1,
        old_size: 2,
        new_size: 4,
        options: None,
    };
    let consistent = ledger.get_consistency_proof(request).await.unwrap().into_inner();
    let hashes: Vec<Hash> = consistent.hashes.iter().map(hash).collect();
    verify_consistency(&kept, &newest, &hashes).unwrap();
    let request = v1::GetBlockRequest { namespace: shop(), workspace: 1, height: 2, options: None };
    let block = ledger.get_block(request).await.unwrap().into_inner();
    let header = block.header.unwrap();
    assert_eq!((block.leaf, block.event.unwrap().workspace_offset), (included.leaf, 2));
    assert_eq!((header.height, hash(&header.root)), (2, kept.root));
}

async fn rules_compute_a_read_model(projections: &mut Projections) {
    let list = v1::ListRequest { namespace: shop(), ..Default::default() };
    let listed = projections.list(list).await.unwrap().into_inner().projections;
    let names: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.computed_by_rules)).collect();
    assert_eq!(names, [("sales", true), ("work", false)]);
    let query = v1::QueryRequest {
        namespace: shop(),
        projection: "sales".to_owned(),
        table: "daily".to_owned(),
        workspace: 1,
        id: Some("today".to_owned()),
        // The definition and four events.
        options: Some(v1::ReadOptions { min_partition_offset: 5, ..Default::default() }),
        ..Default::default()
    };
    let found = projections.query(query).await.unwrap().into_inner();
    assert_eq!((found.watermark, found.rows[0].version), (4, 4));
    assert_eq!(found.rows[0].columns["total"].as_integer(), Some(4));
    let (namespace, projection) = (shop(), "sales".to_owned());
    let describe = v1::DescribeRequest { namespace, projection, ..Default::default() };
    let described = projections.describe(describe).await.unwrap().into_inner();
    assert_eq!(described.projection.unwrap().name, "sales");
    assert!(described.domains.iter().map(|domain| domain.partition).eq(0..3), "{:?}", described.domains);
    let (namespace, projection) = (shop(), "sales".to_owned());
    let follow = v1::SubscribeEffectsRequest { namespace, projection, partition: 1, from: 4 };
    let mut effects = projections.subscribe_effects(follow).await.unwrap().into_inner();
    let effect = next(&mut effects).await.effect.unwrap();
    assert_eq!((effect.slot, effect.kind()), (4, v1::EffectKind::Upsert));
    assert_eq!(effect.rows[0].columns["total"].as_integer(), Some(4));
}

/// The next slot of workspace 1's partition.
async fn leased(projections: &mut Projections) -> v1::GrantedSlot {
    for _ in 0..LONG.as_secs() {
        let request = v1::LeaseRequest {
            namespace: shop(),
            projection: "work".to_owned(),
            worker: "tester".to_owned(),
            max: 1,
            ttl_ms: LEASE_MS,
            wait_ms: 1000,
            partition: Some(1),
        };
        if let Some(slot) = projections.lease(request).await.unwrap().into_inner().slots.pop() {
            return slot;
        }
    }
    panic!("there is no work");
}

fn total(amount: i64) -> v1::CommitContent {
    let columns = [("total".to_owned(), amount.into())].into();
    let row = v1::RowWrite { table: "daily".to_owned(), id: "today".to_owned(), columns, delete: false };
    v1::CommitContent { rows: vec![row], ..Default::default() }
}

async fn workers_compute_another(projections: &mut Projections) {
    let (namespace, projection) = (shop, || "work".to_owned());
    let one = leased(projections).await;
    let (partition, slot, token) = (one.partition, one.slot, one.token);
    assert_eq!((partition, slot, one.event.unwrap().payload), (1, 1, sale(1).payload));
    let renew = v1::RenewRequest {
        namespace: namespace(),
        projection: projection(),
        partition,
        slot,
        token,
        ttl_ms: LEASE_MS,
    };
    let renewed = projections.renew(renew).await.unwrap().into_inner().result.unwrap();
    assert!(matches!(renewed, v1::renew_response::Result::Renewed(v1::Renewed { renewals: 1, .. })));
    let commit = v1::CommitRequest {
        namespace: namespace(),
        projection: projection(),
        partition,
        slot,
        token,
        content: Some(total(1)),
    };
    let committed = projections.commit(commit).await.unwrap().into_inner();
    let applied = v1::Committed { status: v1::CommitStatus::Applied.into(), duplicate: false };
    assert_eq!(committed.watermark, 1);
    assert_eq!(committed.result, Some(v1::commit_response::Result::Committed(applied)));

    let two = leased(projections).await;
    let (slot, token) = (two.slot, two.token);
    let release =
        v1::ReleaseRequest { namespace: namespace(), projection: projection(), partition, slot, token };
    let released = projections.release(release).await.unwrap().into_inner().result;
    assert_eq!((slot, released), (2, Some(v1::release_response::Result::Released(v1::Released {}))));
    let again = leased(projections).await;
    let (slot, token) = (again.slot, again.token);
    let (error, projection_name) = ("it does not add up".to_owned(), projection());
    let fail = v1::FailRequest {
        namespace: namespace(),
        projection: projection_name,
        partition,
        slot,
        token,
        error,
    };
    match projections.fail(fail).await.unwrap().into_inner().result.unwrap() {
        v1::fail_response::Result::Failed(failed) => {
            assert_eq!((slot, failed.attempts, failed.next()), (2, 1, v1::FailedNext::Retry));
        }
        other => panic!("{other:?}"),
    }
    let skip = v1::SkipRequest { namespace: namespace(), projection: projection(), partition, slot };
    let skipped = projections.skip(skip).await.unwrap().into_inner();
    let result = Some(v1::skip_response::Result::Skipped(v1::Skipped {}));
    assert_eq!((skipped.watermark, skipped.result), (2, result));
    let list =
        v1::ListDeadLettersRequest { namespace: namespace(), projection: projection(), ..Default::default() };
    let letters = projections.list_dead_letters(list).await.unwrap().into_inner().dead_letters;
    let told: Vec<_> = letters.iter().map(|one| (one.slot, one.filled_because.as_str())).collect();
    assert_eq!(told, [(2, "skipped")]);
    let allocate = v1::AllocateRequest {
        namespace: namespace(),
        projection: projection(),
        worker: "tester".to_owned(),
        workspace: 1,
        ttl_ms: LEASE_MS,
    };
    match projections.allocate(allocate).await.unwrap().into_inner().result.unwrap() {
        // Behind the four events.
        v1::allocate_response::Result::Slot(slot) => assert_eq!((slot.slot, slot.event), (5, None)),
        other => panic!("{other:?}"),
    }
}

async fn work_is_a_stream(projections: &mut Projections) {
    let (requests, asked) = mpsc::unbounded_channel();
    let asked = stream::unfold(asked, |mut asked| async move { Some((asked.recv().await?, asked)) });
    let say = |request| requests.send(v1::WorkRequest { request: Some(request) }).unwrap();
    say(Work::Hello(v1::WorkHello {
        namespace: shop(),
        projection: "work".to_owned(),
        worker: "streamer".to_owned(),
        credits: 1,
        partition: Some(1),
        ttl_ms: LEASE_MS,
    }));
    let mut responses = projections.work(asked).await.unwrap().into_inner();
    // Marks come in between, whenever something becomes visible.
    let mut said = async || loop {
        match next(&mut responses).await.response.unwrap() {
            Worked::Watermark(_) => {}
            other => break other,
        }
    };
    let Worked::Granted(granted) = said().await else { panic!("not granted") };
    let slot = &granted.slots[0];
    let held = v1::HeldSlot { partition: slot.partition, slot: slot.slot, token: slot.token };
    assert_eq!((granted.slots.len(), slot.slot), (1, 3));
    say(Work::Credits(v1::WorkCredits { credits: 0 }));
    say(Work::Commit(v1::WorkCommit { held: Some(held), content: Some(total(3)) }));
    let Worked::Answered(answered) = said().await else { panic!("not answered") };
    let applied = v1::Committed { status: v1::CommitStatus::Applied.into(), duplicate: false };
    assert_eq!((answered.held, answered.watermark), (Some(held), 3));
    assert_eq!(answered.result, Some(v1::work_answered::Result::Committed(applied)));
}

async fn what_is_not_possible_yet_says_so(projections: &mut Projections) {
    let (namespace, projection) = (shop, || "work".to_owned());
    let pause = v1::PauseRequest { namespace: namespace(), projection: projection() };
    let resume = v1::ResumeRequest { namespace: namespace(), projection: projection() };
    let replay = v1::ReplayDeadLettersRequest { namespace: namespace(), projection: projection() };
    let rebuild = v1::RebuildRequest { namespace: namespace(), projection: projection() };
    let switch = v1::SwitchRequest { namespace: namespace(), projection: projection() };
    let audit = v1::AuditRequest { namespace: namespace(), projection: projection() };
    let answers = [
        ("Pause", projections.pause(pause).await.err()),
        ("Resume", projections.resume(resume).await.err()),
        ("ReplayDeadLetters", projections.replay_dead_letters(replay).await.err()),
        ("Rebuild", projections.rebuild(rebuild).await.err()),
        ("Switch", projections.switch(switch).await.err()),
        ("Audit", projections.audit(audit).await.err()),
    ];
    for (method, status) in answers {
        let told = status.as_ref().map(told);
        assert_eq!(told, Some((Code::Unimplemented, "NOT_IMPLEMENTED".to_owned())), "{method}");
    }
}

/// All partitions of the shop, once all of them serve.
async fn serving(admin: &mut Admin) -> Vec<v1::Partition> {
    for _ in 0..600 {
        let list = v1::ListPartitionsRequest { namespace: shop(), ..Default::default() };
        let partitions = admin.list_partitions(list).await.unwrap().into_inner().partitions;
        if partitions.iter().all(|found| found.state() == v1::PartitionState::Serving) {
            return partitions;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("some never serve");
}

async fn partitions_are_looked_after(admin: &mut Admin, ledger: &mut Ledger) {
    let target = Some(v1::barrier_target::Target::PartitionOffset(5));
    let targets = vec![v1::BarrierTarget { namespace: shop(), partition: 1, target }];
    let wait = v1::WaitBarrierRequest { targets, timeout_ms: 60_000 };
    let reached = admin.wait_barrier(wait).await.unwrap().into_inner();
    assert_eq!((reached.reached, reached.blocked), (true, Vec::new()));
    let partitions = serving(admin).await;
    assert!(partitions.iter().map(|found| found.partition).eq(0..3), "{partitions:?}");
    assert!(partitions.iter().all(|found| !found.frozen), "{partitions:?}");

    let elsewhere = || v1::WriteRequest { workspace: 2, ..sale(20) };
    let freeze = v1::FreezePartitionRequest { namespace: shop(), partition: 2 };
    admin.freeze_partition(freeze).await.unwrap();
    let refused = told(&ledger.write(elsewhere()).await.unwrap_err());
    assert_eq!(refused, (Code::FailedPrecondition, "PARTITION_FROZEN".to_owned()));
    let thaw = v1::ThawPartitionRequest { namespace: shop(), partition: 2 };
    admin.thaw_partition(thaw).await.unwrap();
    assert_eq!(success(ledger.write(elsewhere()).await.unwrap().into_inner()).workspace_offset, 1);
}

async fn a_partition_is_made_anew(admin: &mut Admin, ledger: &mut Ledger, first: &v1::WriteSuccess) {
    let repair = v1::RepairPartitionRequest { namespace: shop(), partition: 1, ..Default::default() };
    admin.repair_partition(repair).await.unwrap();
    let again = success(ledger.write(sale(1)).await.unwrap().into_inner());
    assert_eq!(again, v1::WriteSuccess { duplicate: true, ..first.clone() }, "what it decided, it knows");
}

async fn the_node_is_looked_after(admin: &mut Admin, first: &v1::WriteSuccess, backups: &Path) {
    let status = admin.cluster_status(v1::ClusterStatusRequest {}).await.unwrap().into_inner();
    assert!(status.is_leader && status.takes_writes, "{status:?}");
    assert_eq!((status.node_id, status.nodes.len()), (1, 1));
    let snapshot = admin.snapshot(v1::SnapshotRequest {}).await.unwrap().into_inner();
    assert!(snapshot.log_index > first.log_index, "{snapshot:?}");
    let backup = v1::BackupRequest { target: backups.display().to_string() };
    let told: Vec<_> = admin.backup(backup).await.unwrap().into_inner().try_collect().await.unwrap();
    let made = told.last().unwrap().made.clone().expect("the last answer says what was made");
    // A definition in each partition, and five events.
    assert_eq!((made.number, made.partitions, made.outcomes), (1, 3, 8));
    assert!(backups.is_dir());
}

async fn a_node_that_is_alone_has_nobody_to_add_or_to_hand_over_to(admin: &mut Admin) {
    let add = v1::AddNodeRequest { node_id: 2, address: "127.0.0.1:1".to_owned() };
    let refused = [
        admin.add_node(add).await.unwrap_err(),
        admin.remove_node(v1::RemoveNodeRequest { node_id: 1 }).await.unwrap_err(),
        admin.transfer_leader(v1::TransferLeaderRequest { node_id: 1 }).await.unwrap_err(),
    ];
    for status in &refused {
        assert_eq!(told(status), (Code::FailedPrecondition, "NO_PEER_NETWORK".to_owned()), "{status:?}");
    }
}

async fn the_namespace_is_dropped(admin: &mut Admin) {
    admin.drop_namespace(v1::DropNamespaceRequest { namespace: shop() }).await.unwrap();
    let gone = admin.get_namespace(v1::GetNamespaceRequest { namespace: shop() }).await.unwrap_err();
    assert_eq!(told(&gone), (Code::NotFound, "UNKNOWN_NAMESPACE".to_owned()));
}
