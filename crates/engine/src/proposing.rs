//! Step 4 of the corridor: one task per node that turns writes into entries and hands them to consensus.
//!
//! It takes whatever waits, reserves offsets, stamps the time, encodes one entry and proposes it; several are in flight. There is no
//! timer: a lone writer is proposed at once, and while entries are on their way the next writes gather.
//!
//! ```text
//!  queue ──▶ waiting ──▶ reserve, stamp, encode ──▶ propose ──▶ ticket: committed, refused, unknown
//!                 ▲            │ not now: wait until something resolves      │
//!                 └────────────┴───────────── dispatched, dropped ◀──────────┘
//! ```
//!
//! Invariants
//! - What is proposed is registered before, and taken out on every exit.
//! - A change of the catalog is proposed when nothing else is in flight, so that every partition takes it or none.
//! - NUM-3: the machine version never falls along the log. It is raised when nothing is in flight, and nothing is proposed until that is
//!   decided.
//!
//! Must not know: what a command means, how an order is agreed on.

mod waiting;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gapless_consensus::{Leadership, Refusal, Term};
use gapless_partition::{Command, Definition};
use gapless_types::{LogIndex, MachineVersion, NamespaceId, PartitionId};
use tokio::sync::{mpsc, oneshot};

use self::waiting::Waiting;
use crate::acks::{self, AckPlace};
use crate::admission::Permit;
use crate::catalog::CatalogCommand;
use crate::entry::{EntryEncoder, EntryRecord, PartitionCommand};
use crate::log_time::LeaderClock;
use crate::node::Node;
use crate::offsets::{BatchId, Fate, NotNow};
use crate::projections::{Asking, DomainRequest, RequestId};
use crate::recall::Flight;

/// A write on its way to the log.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) partition: PartitionId,
    pub(crate) command: Bytes,
    /// In front of the flight, because it is dropped in this order: whoever is told may come again at once.
    pub(crate) permit: Permit,
    pub(crate) flight: Flight,
}

/// A change of the catalog.
#[derive(Debug)]
pub(crate) enum CatalogRequest {
    Define(Definition),
    Command(CatalogCommand),
}

/// Why a change of the catalog was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CatalogRefused {
    Reasons(Vec<String>),
    NotLeading,
    Unknown,
}

/// What the proposer is asked for.
#[derive(Debug)]
pub(crate) enum Request {
    Write(Submission),
    Domain(Asking),
    /// Raise the machine version, if that may be done.
    Raise,
    Catalog(CatalogRequest, oneshot::Sender<Result<(LogIndex, Option<NamespaceId>), CatalogRefused>>),
}

/// What became of a proposal.
struct Settled {
    batch: BatchId,
    places: Vec<AckPlace>,
    requests: Vec<RequestId>,
    result: Result<LogIndex, Refusal>,
    catalog: Option<CatalogReply>,
}

struct CatalogReply {
    namespace: Option<NamespaceId>,
    reply: oneshot::Sender<Result<(LogIndex, Option<NamespaceId>), CatalogRefused>>,
}

/// Proposes until the node closes.
pub(crate) async fn run(node: Arc<Node>, mut requests: mpsc::Receiver<Request>) {
    let mut leadership = node.replicator().leadership();
    let mut closing = node.closing.subscribe();
    let mut task = Proposing::new(node);
    // Not in one statement: while somebody who is to be told waits for the lock, whoever leads would wait for him.
    let now = leadership.borrow_and_update().clone();
    task.lead_or_follow(&now);
    task.propose();
    loop {
        let mut came = false;
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => break,
            changed = leadership.changed() => {
                if changed.is_err() {
                    break;
                }
                let now = leadership.borrow_and_update().clone();
                task.lead_or_follow(&now);
            }
            Some(settled) = task.tickets.next(), if !task.tickets.is_empty() => task.settle(settled),
            () = task.node.resolved.notified(), if task.is_blocked || task.is_gathering => {}
            // While nothing can be proposed, requests gather in the queue without waking anybody.
            request = requests.recv(), if task.takes_more() && !task.is_blocked => {
                let Some(request) = request else { break };
                task.waiting.push_back(request);
                came = true;
            }
        }
        // Whoever else is ready to write does so now, and shares the entry, and so does whoever came meanwhile. A lone writer waits for
        // nobody.
        let mut rounds = 0..MOST_ROUNDS;
        while came && rounds.next().is_some() {
            tokio::task::yield_now().await;
            came = task.take_in(&mut requests);
        }
        task.take_in(&mut requests);
        task.propose();
    }
    // Whoever still waits is told that nobody leads here.
    task.follow();
    requests.close();
    while requests.recv().await.is_some() {}
}

/// Requests that wait inside the task: more are left in the queue, which pushes back.
const MOST_WAITING: usize = 4096;

/// How often others who are ready go first, as long as more is written each time. An entry costs consensus, the log and every partition
/// the same whether it has one record or a hundred.
const MOST_ROUNDS: usize = 4;

/// Entries with writes that are on their way: one is synced, the other is next. While they are, writes gather, so that many writers
/// share an entry. More in flight means more and smaller entries, each of which costs consensus as much as a large one; for the same
/// reason the next one goes when it has as many records as those on their way, or when nothing is.
const ENTRIES_ON_THEIR_WAY: usize = 2;

struct Proposing {
    node: Arc<Node>,
    waiting: Waiting,
    tickets: FuturesUnordered<BoxFuture<'static, Settled>>,
    leading: Option<Term>,
    /// Requests of domains in this term so far.
    numbered: u64,
    /// What raises the machine version, until its fate is known: what follows is stamped with what is in force then.
    raising: Option<BatchId>,
    /// Nothing can be proposed before something resolves.
    is_blocked: bool,
    /// What waits is proposed when more has come, or something resolves.
    is_gathering: bool,
}

impl Proposing {
    fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            waiting: Waiting::default(),
            tickets: FuturesUnordered::new(),
            leading: None,
            numbered: 0,
            raising: None,
            is_blocked: false,
            is_gathering: false,
        }
    }

    fn takes_more(&self) -> bool {
        self.waiting.len() < MOST_WAITING
    }

    /// Takes in what is queued; whether there was something.
    fn take_in(&mut self, requests: &mut mpsc::Receiver<Request>) -> bool {
        let before = self.waiting.len();
        while self.takes_more()
            && let Ok(request) = requests.try_recv()
        {
            self.waiting.push_back(request);
        }
        self.waiting.len() > before
    }

    fn lead_or_follow(&mut self, leadership: &Leadership) {
        let term = leadership.is_ready().then_some(leadership.term);
        if term == self.leading {
            return;
        }
        self.follow();
        if let Some(term) = term {
            self.lead(term);
        }
    }

    fn follow(&mut self) {
        (self.leading, self.raising) = (None, None);
        self.node.leads.send_replace(false);
        {
            let mut core = self.node.core();
            core.proposer.step_down();
            core.leader_clock = None;
            core.others = None;
        }
        // Given back first: whoever is told finds nothing of his left here.
        self.node.acks.clear();
        self.node.projections.answers.clear();
        self.node.recall.step_down();
        for request in self.waiting.take_all() {
            if let Request::Catalog(_, reply) = request {
                let _ = reply.send(Err(CatalogRefused::NotLeading));
            }
        }
        (self.is_blocked, self.is_gathering) = (false, false);
    }

    /// Everything that earlier leaders committed was dispatched: offsets can be read, and time begins.
    fn lead(&mut self, term: Term) {
        // Those in force, also if the entry that made them so was dispatched in an earlier life.
        let members = self.node.replicator().members();
        let time = {
            let mut core = self.node.core();
            core.forget_flights();
            let _failed = core.proposer.lead();
            let mut clock = LeaderClock::begin(self.node.clock.clone(), core.time);
            let time = clock.stamp();
            core.leader_clock = Some(clock);
            core.begin_to_lead(self.node.id, &members);
            time
        };
        self.node.recall.lead();
        let mut entry = EntryEncoder::new(self.node.group, self.in_force(), time);
        entry.push(&EntryRecord::Term).expect("a term fits an entry of its own");
        // Nobody waits for it: it says that the time of this leader begins.
        drop(self.node.replicator().propose(entry.finish()));
        self.leading = Some(term);
        self.numbered = 0;
        // Whoever is alone waits for nobody's report.
        self.waiting.push_back(Request::Raise);
        self.node.leads.send_replace(true);
    }

    /// Proposes as much as can be.
    fn propose(&mut self) {
        (self.is_blocked, self.is_gathering) = (false, false);
        if self.leading.is_none() {
            self.follow();
            return;
        }
        self.raising = self.raising.filter(|batch| self.node.core().proposer.is_in_flight(*batch));
        if self.raising.is_some() {
            self.is_blocked = true;
            return;
        }
        while let Some(request) = self.waiting.front() {
            let proposed = match request {
                Request::Write(_) | Request::Domain(_) => self.propose_records(),
                Request::Catalog(..) => self.propose_catalog_change(),
                Request::Raise => self.propose_raise(),
            };
            if !proposed || self.raising.is_some() {
                self.is_blocked = !self.is_gathering;
                return;
            }
        }
    }

    /// Proposes the writes and commands in front as one entry; whether that could be done now.
    fn propose_records(&mut self) -> bool {
        let partition = |request: &Request| match request {
            Request::Write(submission) => Some(submission.partition),
            Request::Domain(_) | Request::Catalog(..) | Request::Raise => None,
        };
        // Asked first: as long as it is so, every write that comes gets here.
        let (entries, records) = {
            let proposer = &self.node.core().proposer;
            (proposer.in_flight(), proposer.records_in_flight())
        };
        if entries >= ENTRIES_ON_THEIR_WAY {
            return false;
        }
        let count = self.waiting.fitting();
        // A small one would be synced alone, and those who are about to be told would wait for the one behind it.
        if entries > 0 && count < records && count == self.waiting.len() {
            self.is_gathering = true;
            return false;
        }
        let reserved = {
            let mut guard = self.node.core();
            let core = &mut *guard;
            let partitions = self.waiting.iter_fitting().filter_map(partition);
            core.proposer.reserve(&core.dispatch, partitions)
        };
        let batch = match reserved {
            Ok(batch) => batch,
            Err(NotNow::Gone { partition }) => {
                // Its namespace was dropped: whoever wrote there finds out when he looks it up again.
                self.waiting.retain(
                    |request| !matches!(request, Request::Write(submission) if submission.partition == partition),
                );
                return true;
            }
            Err(NotNow::Following | NotNow::Draining { .. } | NotNow::Full) => return false,
        };
        let mut entry = self.new_entry();
        let (mut places, mut writes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut asked = Vec::new();
        let mut offsets = batch.offsets.into_iter();
        for request in self.waiting.take_fitting() {
            match request {
                Request::Write(Submission { partition, command, flight, permit }) => {
                    let expected = offsets.next().expect("one offset for each write");
                    let record = PartitionCommand { partition, expected, command: command.clone() };
                    entry.push(&EntryRecord::Write(record)).expect("it was counted as fitting");
                    places.push((partition, expected));
                    writes.push(acks::Waiting { command, proposed: flight.proposed(), permit });
                }
                Request::Domain(Asking { asked: who, command }) => {
                    let term = self.leading.expect("only a leader proposes");
                    let id = RequestId { term: term.get(), number: self.numbered };
                    self.numbered += 1;
                    let request = DomainRequest { domain: who.domain.clone(), id, command };
                    let partition = request.domain.partition;
                    let record = EntryRecord::DomainCommand { partition, command: request.encode() };
                    entry.push(&record).expect("it was counted as fitting");
                    asked.push((id, who));
                }
                Request::Catalog(..) | Request::Raise => unreachable!("it was not counted as fitting"),
            }
        }
        self.node.acks.register(places.iter().copied().zip(writes));
        let requests = asked.iter().map(|(id, _)| *id).collect();
        self.node.projections.answers.register(asked);
        self.hand_over(batch.id, entry.finish(), (places, requests), None);
        true
    }

    fn propose_catalog_change(&mut self) -> bool {
        if self.node.core().proposer.in_flight() > 0 || !self.tickets.is_empty() {
            return false;
        }
        let Some(Request::Catalog(request, reply)) = self.waiting.pop_front() else {
            unreachable!("it was looked at a moment ago");
        };
        let catalog = self.node.catalog();
        let records = match &request {
            CatalogRequest::Define(definition) => match catalog.check(definition) {
                Ok(id) => definition_records(id, definition),
                Err(reasons) => {
                    let _ = reply.send(Err(CatalogRefused::Reasons(reasons)));
                    return true;
                }
            },
            CatalogRequest::Command(command) => (None, vec![EntryRecord::Control(command.encode())]),
        };
        let (namespace, mut records) = records;
        let partitions: Vec<PartitionId> = records.iter().filter_map(partition_of).collect();
        let reserved = {
            let mut guard = self.node.core();
            let core = &mut *guard;
            core.proposer.reserve(&core.dispatch, partitions)
        };
        let Ok(batch) = reserved else {
            self.waiting.push_front(Request::Catalog(request, reply));
            return false;
        };
        let mut entry = self.new_entry();
        let mut offsets = batch.offsets.into_iter();
        for record in &mut records {
            if let EntryRecord::Definition(command) = record {
                command.expected = offsets.next().expect("one offset for each partition");
            }
            if let Err(error) = entry.push(record) {
                self.node.core().proposer.resolve(batch.id, Fate::Failed);
                let _ = reply.send(Err(CatalogRefused::Reasons(vec![error.to_string()])));
                return true;
            }
        }
        let nobody = (Vec::new(), Vec::new());
        self.hand_over(batch.id, entry.finish(), nobody, Some(CatalogReply { namespace, reply }));
        true
    }

    /// Proposes the entry that raises the machine version, if it may be raised; whether that could be done now.
    fn propose_raise(&mut self) -> bool {
        let Some(version) = self.node.may_raise_to() else {
            self.waiting.pop_front();
            return true;
        };
        if self.node.core().proposer.in_flight() > 0 || !self.tickets.is_empty() {
            return false;
        }
        let reserved = {
            let mut guard = self.node.core();
            let core = &mut *guard;
            core.proposer.reserve(&core.dispatch, [])
        };
        let Ok(batch) = reserved else { return false };
        self.waiting.pop_front();
        let mut entry = self.entry_of(version);
        entry.push(&EntryRecord::Raise).expect("a raise fits an entry of its own");
        self.raising = Some(batch.id);
        self.hand_over(batch.id, entry.finish(), (Vec::new(), Vec::new()), None);
        true
    }

    /// The machine version that entries are stamped with: everything before them was dispatched, or is stamped with the same.
    fn in_force(&self) -> MachineVersion {
        self.node.catalog.borrow().machine_version()
    }

    fn new_entry(&self) -> EntryEncoder {
        self.entry_of(self.in_force())
    }

    fn entry_of(&self, version: MachineVersion) -> EntryEncoder {
        let time = self.node.core().leader_clock.as_mut().expect("only a leader proposes").stamp();
        EntryEncoder::new(self.node.group, version, time)
    }

    fn hand_over(
        &mut self,
        batch: BatchId,
        entry: Bytes,
        (places, requests): (Vec<AckPlace>, Vec<RequestId>),
        catalog: Option<CatalogReply>,
    ) {
        let ticket = self.node.replicator().propose(entry);
        self.tickets.push(Box::pin(async move {
            Settled { batch, places, requests, result: ticket.await, catalog }
        }));
    }

    fn settle(&mut self, settled: Settled) {
        let Settled { batch, places, requests, result, catalog } = settled;
        match &result {
            Ok(index) => self.node.core().committed(batch, *index),
            Err(refusal) if refusal.is_certain() => {
                self.node.projections.answers.forget(&requests);
                // One of an earlier term says nothing of who is registered for these places now.
                if self.node.core().proposer.is_in_flight(batch) {
                    self.node.acks.refused(places);
                }
                self.node.core().proposer.resolve(batch, Fate::Failed);
            }
            // Its fate comes with the log, or with the next leader.
            Err(_) => {}
        }
        if let Some(CatalogReply { namespace, reply }) = catalog {
            let _ = reply.send(match result {
                Ok(index) => Ok((index, namespace)),
                Err(refusal) if refusal.is_certain() => Err(CatalogRefused::NotLeading),
                Err(_) => Err(CatalogRefused::Unknown),
            });
        }
    }
}

fn partition_of(record: &EntryRecord) -> Option<PartitionId> {
    match record {
        EntryRecord::Definition(command) => Some(command.partition),
        _ => None,
    }
}

/// A definition for every partition of its namespace; offsets are filled in later.
fn definition_records(id: NamespaceId, definition: &Definition) -> (Option<NamespaceId>, Vec<EntryRecord>) {
    let mut command = Vec::new();
    Command::encode_definition(definition, &mut command);
    let command = Bytes::from(command);
    let record = |index: u16| {
        let partition = PartitionId { namespace: id, index: gapless_types::PartitionIndex::new(index) };
        let expected = gapless_types::PartitionOffset::FIRST;
        EntryRecord::Definition(PartitionCommand { partition, expected, command: command.clone() })
    };
    (Some(id), (0..definition.partitions.get()).map(record).collect())
}
