//! The service Ledger of gRPC: takes a call off the wire, has it answered, puts the answer on the wire.
//!
//! Must not know: what a call means.

use std::time::Duration;

use futures_util::StreamExt;
use gapless_api::ledger::Answers;
use gapless_api::v1::ledger_server::Ledger;
use gapless_api::{LedgerCalls, v1};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use crate::access::Caller;
use crate::access::gate::{Gate, caller, unsent};
use crate::access::rules::{Asked, WRITE_STREAM};
use crate::call::{Sent, patience, sent, unread, until_over};
use crate::server::Limits;

/// The service Ledger.
#[derive(Clone, Debug)]
pub(crate) struct LedgerService {
    gate: Gate<LedgerCalls>,
    limits: Limits,
    closing: watch::Receiver<bool>,
}

impl LedgerService {
    pub(crate) fn new(gate: Gate<LedgerCalls>, limits: Limits, closing: watch::Receiver<bool>) -> Self {
        Self { gate, limits, closing }
    }

    fn patience<T>(&self, request: &Request<T>) -> Duration {
        patience(request, self.limits.patience)
    }

    fn stream<T: Send + 'static>(&self, answers: Answers<T>, caller: &Caller) -> Response<Sent<T>> {
        Response::new(sent(until_over(answers, self.closing.clone(), caller.expires.clone())))
    }
}

/// Calls with one answer: the message and the deadline go in, the answer comes out.
macro_rules! answered {
    ($self:ident, $call:ident, $request:ident) => {{
        let patience = $self.patience(&$request);
        let calls = $self.gate.open(caller($request.extensions())?, $request.get_ref()).await?.calls();
        let calls = calls.within(unsent($request.extensions())?);
        Ok(Response::new(calls.$call($request.into_inner(), patience).await?))
    }};
}

/// Calls with many answers.
macro_rules! streamed {
    ($self:ident, $call:ident, $request:ident) => {{
        let patience = $self.patience(&$request);
        let caller = caller($request.extensions())?.clone();
        let calls = $self.gate.open(&caller, $request.get_ref()).await?.calls();
        let calls = calls.within(unsent($request.extensions())?);
        Ok($self.stream(calls.$call($request.into_inner(), patience).await?, &caller))
    }};
}

#[tonic::async_trait]
impl Ledger for LedgerService {
    async fn write(&self, request: Request<v1::WriteRequest>) -> Result<Response<v1::WriteResponse>, Status> {
        let patience = self.patience(&request);
        let calls = self.gate.open(caller(request.extensions())?, request.get_ref()).await?.calls();
        Ok(Response::new(calls.write(request.get_ref(), patience).await?))
    }

    type WriteStreamStream = Sent<v1::WriteResponse>;

    async fn write_stream(
        &self,
        request: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<Self::WriteStreamStream>, Status> {
        let caller = caller(request.extensions())?.clone();
        let calls = self.gate.open_stream(&caller, &WRITE_STREAM)?;
        let (gate, expires) = (self.gate.clone(), caller.expires.clone());
        let requests = request.into_inner().map(move |request| {
            let request = request.map_err(|status| unread(&status))?;
            gate.allows(&caller, v1::WriteRequest::RULE, &request.scope())?;
            Ok(request)
        });
        // What was taken before is answered.
        let requests = until_over(requests, self.closing.clone(), expires);
        let answers = calls.write_stream(requests, self.limits.in_flight, self.limits.patience);
        Ok(Response::new(sent(answers)))
    }

    async fn get_entity(
        &self,
        request: Request<v1::GetEntityRequest>,
    ) -> Result<Response<v1::GetEntityResponse>, Status> {
        answered!(self, get_entity, request)
    }

    async fn list_entities(
        &self,
        request: Request<v1::ListEntitiesRequest>,
    ) -> Result<Response<v1::ListEntitiesResponse>, Status> {
        answered!(self, list_entities, request)
    }

    async fn get_record(
        &self,
        request: Request<v1::GetRecordRequest>,
    ) -> Result<Response<v1::GetRecordResponse>, Status> {
        answered!(self, get_record, request)
    }

    async fn list_records(
        &self,
        request: Request<v1::ListRecordsRequest>,
    ) -> Result<Response<v1::ListRecordsResponse>, Status> {
        answered!(self, list_records, request)
    }

    type ReadWorkspaceStream = Sent<v1::ReadWorkspaceResponse>;

    async fn read_workspace(
        &self,
        request: Request<v1::ReadWorkspaceRequest>,
    ) -> Result<Response<Self::ReadWorkspaceStream>, Status> {
        streamed!(self, read_workspace, request)
    }

    type ReadPartitionStream = Sent<v1::ReadPartitionResponse>;

    async fn read_partition(
        &self,
        request: Request<v1::ReadPartitionRequest>,
    ) -> Result<Response<Self::ReadPartitionStream>, Status> {
        streamed!(self, read_partition, request)
    }

    type ReadAllStream = Sent<v1::ReadAllResponse>;

    async fn read_all(
        &self,
        request: Request<v1::ReadAllRequest>,
    ) -> Result<Response<Self::ReadAllStream>, Status> {
        streamed!(self, read_all, request)
    }

    type SubscribeStream = Sent<v1::SubscribeResponse>;

    async fn subscribe(
        &self,
        request: Request<v1::SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let caller = caller(request.extensions())?;
        let calls = self.gate.open(caller, request.get_ref()).await?.calls();
        let calls = calls.within(unsent(request.extensions())?);
        Ok(self.stream(calls.subscribe(request.get_ref())?, caller))
    }

    async fn get_client_state(
        &self,
        request: Request<v1::GetClientStateRequest>,
    ) -> Result<Response<v1::GetClientStateResponse>, Status> {
        answered!(self, get_client_state, request)
    }

    async fn get_workspace(
        &self,
        request: Request<v1::GetWorkspaceRequest>,
    ) -> Result<Response<v1::GetWorkspaceResponse>, Status> {
        answered!(self, get_workspace, request)
    }

    async fn list_sequences(
        &self,
        request: Request<v1::ListSequencesRequest>,
    ) -> Result<Response<v1::ListSequencesResponse>, Status> {
        answered!(self, list_sequences, request)
    }

    async fn get_block(
        &self,
        request: Request<v1::GetBlockRequest>,
    ) -> Result<Response<v1::GetBlockResponse>, Status> {
        answered!(self, get_block, request)
    }

    async fn get_inclusion_proof(
        &self,
        request: Request<v1::GetInclusionProofRequest>,
    ) -> Result<Response<v1::GetInclusionProofResponse>, Status> {
        answered!(self, get_inclusion_proof, request)
    }

    async fn get_consistency_proof(
        &self,
        request: Request<v1::GetConsistencyProofRequest>,
    ) -> Result<Response<v1::GetConsistencyProofResponse>, Status> {
        answered!(self, get_consistency_proof, request)
    }

    async fn get_root(
        &self,
        request: Request<v1::GetRootRequest>,
    ) -> Result<Response<v1::GetRootResponse>, Status> {
        answered!(self, get_root, request)
    }
}
