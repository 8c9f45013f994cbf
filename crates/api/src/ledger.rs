//! Every call of the service Ledger, as an engine answers it.
//!
//! Must not know: sockets, who asks.

mod lists;
mod proofs;
mod streams;

use std::time::Duration;

use futures_util::Stream;
use gapless_engine::partition::{Fault, StoredRecord};
use gapless_engine::types::{RecordId, WorkspaceId};
use gapless_engine::{Engine, WriteError, WriteOptions};

pub use self::streams::Answers;

use crate::problem::{Problem, ProblemKind};
use crate::reading::{Question, off_thread};
use crate::unknown;
use crate::unsent::Unsent;
use crate::v1;
use crate::write::{checked, field_messages, milliseconds, response};
use crate::write_stream::{self, InFlight};

/// The calls of the service Ledger. Clones ask the same engine.
#[derive(Clone, Debug)]
pub struct LedgerCalls {
    pub(crate) engine: Engine,
    pub(crate) unsent: Unsent,
}

impl LedgerCalls {
    /// The calls, answered by this engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine, unsent: Unsent::default() }
    }

    /// The same for somebody: what is read for him and not sent yet has its room there.
    #[must_use]
    pub fn within(&self, unsent: Unsent) -> Self {
        Self { engine: self.engine.clone(), unsent }
    }

    /// Stores an event with all its numbers and changes, or says why it was refused.
    ///
    /// # Errors
    /// If the outcome is not known, or nothing was done.
    pub async fn write(
        &self,
        request: &v1::WriteRequest,
        patience: Duration,
    ) -> Result<v1::WriteResponse, Problem> {
        let checked = checked(request)?;
        let options = WriteOptions { patience };
        let written = self.engine.write(checked.namespace, checked.key, &checked.write, options).await;
        let acknowledgement = written.map_err(|error| named(&self.engine, error, checked.namespace))?;
        let mut answer = response(checked.key, &acknowledgement);
        if request.include_tx_proof {
            self.prove(request, &acknowledgement, &mut answer, patience).await?;
        }
        Ok(answer)
    }

    /// Takes many writes, and answers each as soon as its outcome is known. The first problem ends it, once everything before it
    /// was answered.
    pub fn write_stream(
        &self,
        requests: impl Stream<Item = Result<v1::WriteRequest, Problem>> + Send + 'static,
        most: InFlight,
        patience: Duration,
    ) -> impl Stream<Item = Result<v1::WriteResponse, Problem>> + Send + 'static {
        write_stream::answers(self.clone(), requests, most, patience)
    }

    /// A value under a key.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn get_entity(
        &self,
        request: v1::GetEntityRequest,
        patience: Duration,
    ) -> Result<v1::GetEntityResponse, Problem> {
        let mut question = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        let most = gapless_engine::types::limits::MAX_ENTITY_KEY_BYTES;
        if request.key.is_empty() || request.key.len() > most {
            question.check.add("key", format_args!("{} bytes; 1 to {most} are needed", request.key.len()));
        }
        let (view, _held) = question.view_for(&self.engine, &self.unsent, patience).await?;
        off_thread(move || {
            let entity = view.entity(WorkspaceId::new(request.workspace), &request.key)?;
            Ok(v1::GetEntityResponse { entity: entity.map(lists::entity) })
        })
        .await
    }

    /// A record.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn get_record(
        &self,
        request: v1::GetRecordRequest,
        patience: Duration,
    ) -> Result<v1::GetRecordResponse, Problem> {
        let mut question = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        let id = RecordId::new(request.record_id);
        if id.is_none() {
            question.check.add("record_id", "is not 0");
        }
        let (view, _held) = question.view_for(&self.engine, &self.unsent, patience).await?;
        off_thread(move || {
            let stored = id.map(|id| view.record(WorkspaceId::new(request.workspace), id)).transpose()?;
            let stored = stored.flatten().ok_or_else(|| {
                let message = format!("workspace {} has no record {}", request.workspace, request.record_id);
                Problem::new(ProblemKind::NotFound, "NO_SUCH_RECORD", message)
            })?;
            Ok(v1::GetRecordResponse { record: Some(record(&stored)?) })
        })
        .await
    }

    /// How many events a client has in a workspace.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn get_client_state(
        &self,
        request: v1::GetClientStateRequest,
        patience: Duration,
    ) -> Result<v1::GetClientStateResponse, Problem> {
        let mut question = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        if let Err(error) = gapless_engine::types::ClientId::new(&request.client_id) {
            question.check.add("client_id", error);
        }
        let (_, view) = question.view(&self.engine, patience).await?;
        off_thread(move || {
            let last = view.client_sequence(WorkspaceId::new(request.workspace), &request.client_id)?;
            Ok(v1::GetClientStateResponse { last_committed_sequence: last.map_or(0, |last| last.get()) })
        })
        .await
    }

    /// How far a workspace is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn get_workspace(
        &self,
        request: v1::GetWorkspaceRequest,
        patience: Duration,
    ) -> Result<v1::GetWorkspaceResponse, Problem> {
        let question = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        let (found, view) = question.view(&self.engine, patience).await?;
        let partition = u32::from(found.partition.index.get());
        off_thread(move || {
            let workspace = view.workspace(WorkspaceId::new(request.workspace))?;
            let none = v1::GetWorkspaceResponse { partition, ..Default::default() };
            Ok(workspace.map_or(none, |workspace| v1::GetWorkspaceResponse {
                kind: workspace.kind.to_string(),
                last_offset: workspace.last_offset.get(),
                last_record_id: workspace.last_record.map_or(0, RecordId::get),
                partition,
            }))
        })
        .await
    }

    /// The sequences of a workspace with their last numbers.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn list_sequences(
        &self,
        request: v1::ListSequencesRequest,
        patience: Duration,
    ) -> Result<v1::ListSequencesResponse, Problem> {
        let question = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        let (_, view) = question.view(&self.engine, patience).await?;
        off_thread(move || {
            let state = |state: gapless_engine::partition::SequenceState| v1::SequenceState {
                sequence: state.name.to_string(),
                first_number: state.initial_number,
                last_number: state.last.unwrap_or(0),
            };
            let sequences = view.sequences(WorkspaceId::new(request.workspace))?;
            Ok(v1::ListSequencesResponse { sequences: sequences.into_iter().map(state).collect() })
        })
        .await
    }
}

/// The engine does not repeat a name; whoever asked has it.
pub(crate) fn named(engine: &Engine, error: WriteError, namespace: &str) -> Problem {
    match error {
        WriteError::UnknownNamespace => unknown::namespace(engine, namespace),
        error => error.into(),
    }
}

fn record(stored: &StoredRecord) -> Result<v1::Record, Fault> {
    let row = stored.row()?;
    Ok(v1::Record {
        record_id: stored.id.get(),
        record_type: row.record_type.to_owned(),
        fields: field_messages(&row.fields),
        parent: row.parent.map(RecordId::get),
        active: row.active,
        created_at_offset: row.created,
        changed_at_offset: row.changed,
    })
}

fn expiry(time: Option<u64>) -> Option<i64> {
    time.map(milliseconds)
}
