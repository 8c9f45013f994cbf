//! The corridor of a write: recall, admission, proposal, acknowledgement.
//!
//! Must not know: how an order is agreed on, what a command does when it is applied.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gapless_partition::{
    AtCap, Command, Outcome, Precedent, Refusal, RefusalCode, RequestDigest, Violation, Write,
};
use gapless_types::{ClientId, IdempotencyKey, PartitionId};
use tokio::sync::mpsc::error::TrySendError;
use tracing::{Instrument, Span, debug_span};

use crate::admission;
use crate::admission::{AdmissionError, Limit, Overloaded, Permit, Scope};
use crate::counters::count;
use crate::engine::Engine;
use crate::error::{NotLeader, WriteError};
use crate::proposing::{Request, Submission};
use crate::recall::{Answer, Flight, Recalled, Waiter, Window, WriteIdentity};
use crate::slot::PartitionState;

/// How long a write waits that came to nothing twice: a leader that lost its quorum refuses at once whatever it is asked, and asking
/// it without a pause would keep everybody else from being heard.
const PAUSE_BEFORE_AGAIN: Duration = Duration::from_millis(10);

/// How long a write that is not admitted waits for a look at what its partition has decided. A partition that is stuck does not answer.
const DECIDED_PATIENCE: Duration = Duration::from_millis(100);

/// Bytes of a command besides its payload, about: most have fewer.
const ROOM_BESIDE_PAYLOAD: usize = 192;

/// How a write is to be treated besides what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// How long its outcome is waited for. A write whose outcome came too late is not lost: a retry gets it.
    pub patience: Duration,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(10) }
    }
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The outcome, the same for every retry.
    pub outcome: Arc<Outcome>,
    /// Whether it had been decided before this request came.
    pub duplicate: bool,
}

impl Acknowledgement {
    /// The last step in a trace: where the write stands, never what it says.
    fn tell(&self, partition: PartitionId) {
        let step = debug_span!(
            "ack",
            partition = %partition,
            duplicate = self.duplicate,
            log_index = tracing::field::Empty,
            partition_offset = tracing::field::Empty,
        );
        if let (false, Outcome::Committed(committed)) = (step.is_disabled(), &*self.outcome) {
            step.record("log_index", committed.log_index.get());
            step.record("partition_offset", committed.partition_offset.get());
        }
    }
}

/// Where a write is when it has entered the corridor.
#[derive(Debug)]
pub(crate) enum Step {
    /// At its end: it was decided before.
    Known(Acknowledgement),
    /// It waits, for its own outcome or for that of a request with the same key that came first.
    Waits { waiter: Waiter, joined: bool },
}

/// A write as it goes through the corridor.
#[derive(Debug)]
pub(crate) struct Passage {
    partition: PartitionId,
    identity: WriteIdentity,
    digest: RequestDigest,
    window_ms: u64,
    command: Bytes,
}

impl Passage {
    /// The step between the proposal and the acknowledgement, in a trace.
    pub(crate) fn commit_wait(&self) -> Span {
        debug_span!("commit_wait", partition = %self.partition)
    }
}

impl Engine {
    /// Writes: stores an event with all its numbers and changes, or says why it was refused. A retry with the same key gets the
    /// first outcome.
    ///
    /// # Errors
    /// If nothing is known of the outcome yet, or nothing was done. Every one of them can be tried again with the same key, unless
    /// it says otherwise.
    pub async fn write(
        &self,
        namespace: &str,
        key: IdempotencyKey,
        write: &Write<'_>,
        options: WriteOptions,
    ) -> Result<Acknowledgement, WriteError> {
        let passage = self.check(namespace, key, write)?;
        let corridor = self.walk(&passage);
        tokio::time::timeout(options.patience, corridor).await.unwrap_or(Err(WriteError::DeadlineExceeded))
    }

    pub(crate) async fn walk(&self, passage: &Passage) -> Result<Acknowledgement, WriteError> {
        let step = self.enter(passage).await?;
        self.walk_on(passage, step).await
    }

    /// Steps 2 to 4: recall, admission, proposal.
    pub(crate) async fn enter(&self, passage: &Passage) -> Result<Step, WriteError> {
        self.await_leadership().await?;
        let counters = &self.node().counters;
        match self.recall(passage).inspect_err(|error| counters.rejected(error))? {
            Recalled::Known(outcome) => {
                count(&counters.recalled);
                Ok(Step::Known(Acknowledgement { outcome, duplicate: true }))
            }
            Recalled::Reused => Ok(Step::Known(reused())),
            Recalled::InFlight(waiter) => {
                count(&counters.joined);
                Ok(Step::Waits { waiter, joined: true })
            }
            Recalled::New(flight) => match self.admit(passage) {
                Ok(permit) => {
                    let waiter = flight.waiter();
                    self.propose(passage, flight, permit).await?;
                    Ok(Step::Waits { waiter, joined: false })
                }
                Err(refused) => self.refuse_unless_decided(passage, refused).await,
            },
        }
    }

    /// Step 8: the acknowledgement. What came to nothing on the way enters again.
    pub(crate) async fn walk_on(&self, passage: &Passage, step: Step) -> Result<Acknowledgement, WriteError> {
        let (mut step, mut came_to_nothing) = (step, false);
        let acknowledgement = loop {
            let (waiter, joined) = match step {
                Step::Known(acknowledgement) => break acknowledgement,
                Step::Waits { waiter, joined } => (waiter, joined),
            };
            let answer = waiter.answer().instrument(passage.commit_wait()).await;
            if let Some(acknowledged) = self.acknowledge(answer, joined) {
                break acknowledged?;
            }
            if std::mem::replace(&mut came_to_nothing, true) {
                tokio::time::sleep(PAUSE_BEFORE_AGAIN).await;
            }
            step = self.enter(passage).await?;
        };
        self.tell(passage, &acknowledgement);
        Ok(acknowledgement)
    }

    /// What an answer means for whoever wrote. None if nothing was written, and the key is free: it enters again.
    pub(crate) fn acknowledge(
        &self,
        answer: Answer,
        joined: bool,
    ) -> Option<Result<Acknowledgement, WriteError>> {
        let counters = &self.node().counters;
        match answer {
            Answer::Outcome(outcome) => {
                counters.decided(&outcome);
                let acknowledgement = acknowledged(outcome);
                let duplicate = acknowledgement.duplicate || joined;
                Some(Ok(Acknowledgement { duplicate, ..acknowledgement }))
            }
            Answer::Reused => Some(Ok(reused())),
            Answer::NotLeading => Some(Err(self.not_taking_writes())),
            Answer::Again => {
                count(&counters.proposed_again);
                None
            }
        }
    }

    /// The write is at the end of the corridor.
    pub(crate) fn tell(&self, passage: &Passage, acknowledgement: &Acknowledgement) {
        self.node().counters.answered(acknowledgement);
        acknowledgement.tell(passage.partition);
    }

    /// Step 1, as far as it is the engine's: where the write goes, and that it can be decided at all.
    pub(crate) fn check(
        &self,
        namespace: &str,
        key: IdempotencyKey,
        write: &Write<'_>,
    ) -> Result<Passage, WriteError> {
        let violations = write.violations();
        if !violations.is_empty() {
            return Err(WriteError::Invalid(violations.iter().map(Violation::to_string).collect()));
        }
        let client =
            ClientId::new(write.client).map_err(|error| WriteError::Invalid(vec![error.to_string()]))?;
        let catalog = self.node().catalog();
        let namespace = catalog.by_name(namespace).ok_or(WriteError::UnknownNamespace)?;
        let definition = namespace.schema.definition();
        let index = write.workspace.partition(definition.partitions);
        // Room for everything that a write without operations says.
        let mut command = Vec::with_capacity(write.payload.len() + ROOM_BESIDE_PAYLOAD);
        Command::encode_write(key, write, &mut command);
        let command = Bytes::from(command);
        let Ok(Command::Write(_, canonical)) = Command::decode(&command) else {
            unreachable!("what was just encoded is a write");
        };
        Ok(Passage {
            partition: PartitionId { namespace: namespace.id, index },
            identity: WriteIdentity { namespace: namespace.id, workspace: write.workspace, client, key },
            digest: RequestDigest::of(canonical),
            window_ms: definition.idempotency.window_ms,
            command,
        })
    }

    async fn await_leadership(&self) -> Result<(), WriteError> {
        self.await_leading().await;
        if *self.node().leads.borrow() { Ok(()) } else { Err(self.not_taking_writes()) }
    }

    /// A node that was elected leads as soon as it knows all that was decided before.
    pub(crate) async fn await_leading(&self) {
        let node = self.node();
        if *node.leads.borrow() {
            return;
        }
        let waits = {
            let leadership = node.replicator().leadership();
            let leadership = leadership.borrow();
            leadership.is_self && leadership.stopped.is_none() && !self.is_closing()
        };
        if waits {
            self.wait_for_leader().await;
        }
    }

    /// Step 2.
    fn recall(&self, passage: &Passage) -> Result<Recalled, WriteError> {
        let _step = debug_span!("recall", partition = %passage.partition).entered();
        let node = self.node();
        let window = Window { now: node.log_time(), millis: passage.window_ms };
        node.recall
            .lookup(&passage.identity, passage.digest, window)
            .map_err(|refused| self.recall_refused(refused))
    }

    /// Step 3.
    fn admit(&self, passage: &Passage) -> Result<Permit, WriteError> {
        let (partition, bytes, identity) =
            (passage.partition, passage.command.len() as u64, &passage.identity);
        let _step = debug_span!("admission", partition = %partition, bytes).entered();
        self.check_partition(partition)?;
        let request = admission::Request { partition, bytes, key: identity.key, client: &identity.client };
        Ok(self.node().admission.admit(request)?)
    }

    /// Step 4.
    async fn propose(&self, passage: &Passage, flight: Flight, permit: Permit) -> Result<(), WriteError> {
        let partition = passage.partition;
        let submission = Submission { partition, command: passage.command.clone(), flight, permit };
        let step = debug_span!("propose", partition = %partition);
        let handed_over = {
            let _step = step.enter();
            self.requests().try_send(Request::Write(submission))
        };
        match handed_over {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(WriteError::Closing),
            Err(TrySendError::Full(request)) => {
                let handed_over = self.requests().send(request).instrument(step);
                handed_over.await.map_err(|_| WriteError::Closing)
            }
        }
    }

    /// A write that is not admitted is answered all the same if its partition has decided it: retries are free. The cache in front of
    /// the partition may have forgotten it, or have been another leader's.
    async fn refuse_unless_decided(
        &self,
        passage: &Passage,
        refused: WriteError,
    ) -> Result<Step, WriteError> {
        let counters = &self.node().counters;
        let decided = match can_be_looked_up(&refused) {
            true => tokio::time::timeout(DECIDED_PATIENCE, self.decided(passage)).await.ok().flatten(),
            false => None,
        };
        match decided {
            Some(acknowledgement) => {
                count(&counters.recalled);
                Ok(Step::Known(acknowledgement))
            }
            None => {
                counters.rejected(&refused);
                Err(refused)
            }
        }
    }

    /// What a partition has decided, as far as somebody can look now.
    async fn decided(&self, passage: &Passage) -> Option<Acknowledgement> {
        let node = self.node();
        let _look = node.looks_at_decided.try_acquire().ok()?;
        let view = node.view_now(&node.slot(passage.partition)?).await.ok()?;
        let (identity, digest, now) = (passage.identity.clone(), passage.digest, node.log_time().as_millis());
        let look =
            move || view.precedent(identity.workspace, identity.client.as_str(), identity.key, digest, now);
        // What cannot be read is not known: the partition says so itself when it applies.
        match node.workers.run(look).await.ok()?? {
            Precedent::Same(outcome) => Some(Acknowledgement { outcome: Arc::new(outcome), duplicate: true }),
            Precedent::Other => Some(reused()),
        }
    }

    /// Whether a partition takes writes: it is here, up, and knows fewer keys than its namespace allows.
    fn check_partition(&self, partition: PartitionId) -> Result<(), WriteError> {
        let node = self.node();
        let slot = node.slot(partition).ok_or(WriteError::UnknownNamespace)?;
        match &*slot.state.borrow() {
            PartitionState::Serving => {}
            // It may be that only then it is known where it stands.
            PartitionState::CatchingUp if node.core().dispatch.is_unknown(partition) => {
                return Err(WriteError::Actualizing { partition });
            }
            PartitionState::CatchingUp => {}
            PartitionState::Actualizing => return Err(WriteError::Actualizing { partition }),
            PartitionState::Failed(reason) => {
                return Err(WriteError::Failed { partition, reason: reason.clone() });
            }
            PartitionState::Quarantined(reason) => {
                return Err(WriteError::Quarantined { partition, reason: reason.clone() });
            }
            PartitionState::Closed => return Err(WriteError::Closing),
        }
        let catalog = node.catalog.borrow();
        let namespace = catalog.by_id(partition.namespace).ok_or(WriteError::UnknownNamespace)?;
        if namespace.frozen.contains(&partition.index) {
            return Err(WriteError::Frozen { partition });
        }
        let rule = namespace.schema.definition().idempotency;
        let known = slot.applied.borrow().known_keys;
        if rule.at_cap == AtCap::Refuse && known >= rule.max_keys {
            return Err(WriteError::WindowFull { partition, known, limit: rule.max_keys });
        }
        Ok(())
    }

    /// Why this node takes no writes.
    fn not_taking_writes(&self) -> WriteError {
        let leadership = self.node().replicator().leadership();
        let leadership = leadership.borrow();
        match &leadership.stopped {
            _ if self.is_closing() => WriteError::Closing,
            Some(stopped) => WriteError::Stopped { reason: stopped.reason.clone() },
            None => NotLeader { leader: leadership.leader.clone() }.into(),
        }
    }

    fn recall_refused(&self, refused: crate::recall::RecallRefused) -> WriteError {
        match refused {
            crate::recall::RecallRefused::NotLeading => self.not_taking_writes(),
            crate::recall::RecallRefused::Full { limit } => WriteError::TooManyInFlight { limit },
        }
    }
}

/// Whether a partition that takes no writes can still be asked what it has decided. One that does not keep up cannot, and whoever is
/// refused for that is told at once; of one that is not well nothing is told that it cannot tell itself.
fn can_be_looked_up(refused: &WriteError) -> bool {
    match refused {
        WriteError::Admission(AdmissionError::Overloaded(Overloaded { scope, limit, .. })) => {
            !matches!((scope, limit), (Scope::Partition(_), Limit::Age | Limit::Lag))
        }
        WriteError::Frozen { .. } | WriteError::WindowFull { .. } => true,
        _ => false,
    }
}

/// What a partition says of a key that was used for another request.
fn reused() -> Acknowledgement {
    let message = "the idempotency key was used for another request";
    let refusal = Refusal::new(RefusalCode::IdempotencyKeyReused, message);
    Acknowledgement { outcome: Arc::new(Outcome::Refused(refusal)), duplicate: false }
}

/// Duplicates are answered with the first outcome itself.
fn acknowledged(outcome: Arc<Outcome>) -> Acknowledgement {
    match &*outcome {
        Outcome::Duplicate { first, .. } => {
            Acknowledgement { outcome: Arc::new((**first).clone()), duplicate: true }
        }
        _ => Acknowledgement { outcome, duplicate: false },
    }
}
