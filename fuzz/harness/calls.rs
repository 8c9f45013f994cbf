//! Every message that a call can have, as arbitrary bytes, asked of an engine in memory: nothing panics, no partition stops, and
//! whatever is refused is refused as somebody else's fault.
//!
//! ```text
//!  which call (1 byte) │ its message             for streams of requests: messages, each with its length (1 byte) before it
//! ```
//!
//! What changes definitions, partitions or nodes is asked of another engine, which is made good again behind each call.
//!
//! A plain function, so that the fuzzer and the bounded test of `crates/api` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use gapless_api::definition::from_toml;
use gapless_api::projections::WorkLimits;
use gapless_api::{AdminCalls, InFlight, LedgerCalls, OtherNodes, Problem, ProblemKind, ProjectionCalls, v1};
use gapless_engine::types::ClientId;
use gapless_engine::{Config, Engine};
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use prost::Message;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// How long a call may wait: what comes of waiting is not looked at.
const PATIENCE: Duration = Duration::from_millis(1);
/// Answers of a stream that are looked at.
const ANSWERS: usize = 16;

const SHOP: &str = "name = 'shop'\npartitions = 2\n[kinds.default.sequences]\ninvoice = 1\n\
                    [projections.work]\nevents = ['ItemSold']\n";

/// Calls of the protocol. A test holds them against it.
pub const CALLS: u8 = 51;

/// A node with a shop, and its calls.
struct World {
    runtime: Runtime,
    engine: Engine,
    ledger: LedgerCalls,
    admin: AdminCalls,
    projections: ProjectionCalls,
    client: ClientId,
}

/// Where nothing is administered.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(World::new)
}

/// Where something is.
fn administered() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(World::new)
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("there are threads");
        let engine = runtime.block_on(async {
            let mut config = Config::embedded("node");
            config.io = Arc::new(MemoryIo::new()) as Arc<dyn Io>;
            config.log.segment_bytes = 1 << 20;
            config.partitions.log.segment_bytes = 1 << 20;
            let engine = Engine::open(config).await.expect("memory is a disk");
            engine.wait_for_leader().await;
            engine.define(from_toml(SHOP).expect("a definition")).await.expect("it is defined");
            engine.wait_until_actualized().await;
            engine
        });
        Self {
            runtime,
            ledger: LedgerCalls::new(engine.clone()),
            admin: AdminCalls::new(engine.clone(), "0", OtherNodes::default()),
            projections: ProjectionCalls::new(engine.clone()),
            engine,
            client: ClientId::new("fuzzer").expect("a client"),
        }
    }

    /// The shop is there, as it was, and nothing else is.
    async fn mend(&self) {
        let all = self.admin.list_namespaces(&v1::ListNamespacesRequest::default(), |_| true);
        for v1::Namespace { name, .. } in all.expect("they can be listed").namespaces {
            if name != "shop" {
                let request = v1::DropNamespaceRequest { namespace: name };
                self.admin.drop_namespace(&request).await.expect("what was defined can be dropped");
            }
        }
        let request = v1::ApplyNamespaceRequest { definition: SHOP.to_owned() };
        if self.admin.apply_namespace(&request).await.is_err() {
            // It is something else by now, which cannot be changed back.
            let request = v1::DropNamespaceRequest { namespace: "shop".to_owned() };
            self.admin.drop_namespace(&request).await.expect("it is there");
            self.engine.define(from_toml(SHOP).expect("a definition")).await.expect("it is defined");
        }
        for partition in 0..2 {
            let request = v1::ThawPartitionRequest { namespace: "shop".to_owned(), partition };
            self.admin.thaw_partition(&request).await.expect("it can be thawed");
        }
        self.engine.wait_until_actualized().await;
    }
}

/// A message, if the bytes are one.
fn read<M: Message + Default>(bytes: &[u8]) -> Result<M, Problem> {
    M::decode(bytes).map_err(|_| Problem::violation("message", "is none"))
}

/// The first answers of a stream.
async fn some<T>(answers: impl stream::Stream<Item = Result<T, Problem>>) -> Result<(), Problem> {
    let mut answers = std::pin::pin!(answers.take(ANSWERS));
    while let Ok(Some(answer)) = tokio::time::timeout(PATIENCE, answers.next()).await {
        answer?;
    }
    Ok(())
}

/// One call with one message.
pub fn call(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let choice = choice % CALLS;
    let is_administered = ADMINISTERED.contains(&choice);
    let world = if is_administered { administered() } else { world() };
    let answer = world.runtime.block_on(world.ask(choice, bytes));
    if let Err(problem) = answer {
        assert!(problem.kind != ProblemKind::Internal, "{problem:?}");
        assert!(!problem.reason.is_empty() && !problem.message.is_empty(), "{problem:?}");
    }
    if is_administered {
        world.runtime.block_on(world.mend());
    }
    let partitions = world.admin.list_partitions(&v1::ListPartitionsRequest::default(), |_| true);
    for partition in partitions.expect("they can be listed").partitions {
        assert!(partition.reason.is_empty(), "{partition:?}");
    }
}

/// Calls that change more than events do.
const ADMINISTERED: std::ops::Range<u8> = 39..CALLS;

impl World {
    async fn ask(&self, choice: u8, bytes: &[u8]) -> Result<(), Problem> {
        let Self { ledger, admin, projections, client, .. } = self;
        match choice {
            0 => ledger.write(&read(bytes)?, PATIENCE).await.map(drop),
            1 => ledger.get_entity(read(bytes)?, PATIENCE).await.map(drop),
            2 => ledger.list_entities(read(bytes)?, PATIENCE).await.map(drop),
            3 => ledger.get_record(read(bytes)?, PATIENCE).await.map(drop),
            4 => ledger.list_records(read(bytes)?, PATIENCE).await.map(drop),
            5 => some(ledger.read_workspace(read(bytes)?, PATIENCE).await?).await,
            6 => some(ledger.read_partition(read(bytes)?, PATIENCE).await?).await,
            7 => some(ledger.read_all(read(bytes)?, PATIENCE).await?).await,
            8 => some(ledger.subscribe(&read(bytes)?)?).await,
            9 => ledger.get_client_state(read(bytes)?, PATIENCE).await.map(drop),
            10 => ledger.get_workspace(read(bytes)?, PATIENCE).await.map(drop),
            11 => ledger.list_sequences(read(bytes)?, PATIENCE).await.map(drop),
            12 => ledger.get_block(read(bytes)?, PATIENCE).await.map(drop),
            13 => ledger.get_inclusion_proof(read(bytes)?, PATIENCE).await.map(drop),
            14 => ledger.get_consistency_proof(read(bytes)?, PATIENCE).await.map(drop),
            15 => ledger.get_root(read(bytes)?, PATIENCE).await.map(drop),
            16 => admin.wait_barrier(client, &read(bytes)?, PATIENCE).await.map(drop),
            17 => admin.list_partitions(&read(bytes)?, |_| true).map(drop),
            18 => admin.list_namespaces(&read(bytes)?, |_| true).map(drop),
            19 => admin.get_namespace(&read(bytes)?).map(drop),
            20 => projections.lease(read(bytes)?, PATIENCE).await.map(drop),
            21 => projections.allocate(read(bytes)?, PATIENCE).await.map(drop),
            22 => projections.commit(read(bytes)?, PATIENCE).await.map(drop),
            23 => projections.renew(read(bytes)?, PATIENCE).await.map(drop),
            24 => projections.release(read(bytes)?, PATIENCE).await.map(drop),
            25 => projections.fail(read(bytes)?, PATIENCE).await.map(drop),
            26 => projections.query(read(bytes)?, PATIENCE).await.map(drop),
            27 => some(projections.subscribe_effects(&read(bytes)?)?).await,
            28 => self.work(bytes).await,
            29 => self.write_stream(bytes).await,
            30 => projections.list(&read(bytes)?).map(drop),
            31 => projections.describe(&read(bytes)?).map(drop),
            32 => projections.list_dead_letters(read(bytes)?, PATIENCE).await.map(drop),
            33 => projections.pause(&read(bytes)?).map(drop),
            34 => projections.resume(&read(bytes)?).map(drop),
            35 => projections.replay_dead_letters(&read(bytes)?).map(drop),
            36 => projections.rebuild(&read(bytes)?).map(drop),
            37 => projections.switch(&read(bytes)?).map(drop),
            38 => projections.audit(&read(bytes)?).map(drop),
            39 => projections.skip(read(bytes)?, PATIENCE).await.map(drop),
            40 => admin.apply_namespace(&read(bytes)?).await.map(drop),
            41 => admin.drop_namespace(&read(bytes)?).await.map(drop),
            42 => admin.freeze_partition(&read(bytes)?).await.map(drop),
            43 => admin.thaw_partition(&read(bytes)?).await.map(drop),
            44 => admin.repair_partition(&read(bytes)?).await.map(drop),
            45 => admin.snapshot(&read(bytes)?).await.map(drop),
            46 => admin.backup_to_its_end(&read(bytes)?).await.map(drop),
            47 => {
                admin.cluster_status(&read(bytes)?);
                Ok(())
            }
            48 => admin.add_node(&read(bytes)?, PATIENCE).await.map(drop),
            49 => admin.remove_node(&read(bytes)?, PATIENCE).await.map(drop),
            _ => admin.transfer_leader(&read(bytes)?).await.map(drop),
        }
    }

    /// What a writer says, one after the other.
    async fn write_stream(&self, bytes: &[u8]) -> Result<(), Problem> {
        let requests = stream::iter(messages::<v1::WriteRequest>(bytes));
        some(self.ledger.write_stream(requests, InFlight::default(), PATIENCE)).await
    }

    /// What a worker says, one after the other.
    async fn work(&self, bytes: &[u8]) -> Result<(), Problem> {
        let requests = stream::iter(messages::<v1::WorkRequest>(bytes));
        let limits = WorkLimits { in_flight: InFlight::default(), patience: PATIENCE, grace: Duration::ZERO };
        let (_closing, closed) = watch::channel(false);
        some(self.projections.work(requests, limits, closed)).await
    }
}

/// Messages, each with its length before it.
fn messages<M: Message + Default>(mut bytes: &[u8]) -> Vec<Result<M, Problem>> {
    let mut messages = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (message, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        messages.push(read(message));
        bytes = rest;
    }
    messages
}
