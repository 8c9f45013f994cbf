//! A ledger in this process, with the same calls and the same answers as one behind a socket.

use std::future::Future;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_api::{AdminCalls, InFlight, LedgerCalls, OtherNodes, Problem, ProjectionCalls, v1};
use gapless_engine::Engine;

use crate::backoff::{Attempts, Retry};
use crate::error::{Error, success};
use crate::key::with_key;
use crate::ledger::{Ledger, Stream};

/// A ledger in this process.
#[derive(Clone, Debug)]
pub struct Embedded {
    calls: LedgerCalls,
    admin: AdminCalls,
    pub(crate) projections: ProjectionCalls,
    retry: Retry,
}

impl Embedded {
    /// The ledger of this engine.
    pub fn new(engine: Engine) -> Self {
        let admin = AdminCalls::new(engine.clone(), env!("CARGO_PKG_VERSION"), OtherNodes::default());
        let projections = ProjectionCalls::new(engine.clone());
        Self { calls: LedgerCalls::new(engine), admin, projections, retry: Retry::default() }
    }

    fn patience(&self) -> Duration {
        self.retry.deadline
    }

    /// A call about projections, tried again for as long as that helps and is allowed.
    pub(crate) async fn retried<T, F>(&self, ask: impl Fn(ProjectionCalls, Duration) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Problem>>,
    {
        let mut attempts = Attempts::new(self.retry);
        loop {
            match ask(self.projections.clone(), attempts.left()).await {
                Ok(answer) => return Ok(answer),
                Err(problem) => attempts.wait(problem).await?,
            }
        }
    }
}

macro_rules! forwarded {
    ($($name:ident($request:ty) -> $response:ty;)*) => {
        $(
            async fn $name(&self, request: $request) -> Result<$response, Error> {
                Ok(self.calls.$name(request, self.patience()).await?)
            }
        )*
    };
}

impl Ledger for Embedded {
    async fn write(&self, request: v1::WriteRequest) -> Result<v1::WriteSuccess, Error> {
        let request = with_key(request);
        let mut attempts = Attempts::new(self.retry);
        loop {
            match self.calls.write(&request, attempts.left()).await {
                Ok(response) => return success(response),
                Err(problem) => attempts.wait(problem).await?,
            }
        }
    }

    forwarded! {
        get_entity(v1::GetEntityRequest) -> v1::GetEntityResponse;
        list_entities(v1::ListEntitiesRequest) -> v1::ListEntitiesResponse;
        get_record(v1::GetRecordRequest) -> v1::GetRecordResponse;
        list_records(v1::ListRecordsRequest) -> v1::ListRecordsResponse;
        get_client_state(v1::GetClientStateRequest) -> v1::GetClientStateResponse;
        get_workspace(v1::GetWorkspaceRequest) -> v1::GetWorkspaceResponse;
        list_sequences(v1::ListSequencesRequest) -> v1::ListSequencesResponse;
        get_block(v1::GetBlockRequest) -> v1::GetBlockResponse;
        get_inclusion_proof(v1::GetInclusionProofRequest) -> v1::GetInclusionProofResponse;
        get_consistency_proof(v1::GetConsistencyProofRequest) -> v1::GetConsistencyProofResponse;
        get_root(v1::GetRootRequest) -> v1::GetRootResponse;
    }

    async fn apply_namespace(
        &self,
        request: v1::ApplyNamespaceRequest,
    ) -> Result<v1::ApplyNamespaceResponse, Error> {
        Ok(self.admin.apply_namespace(&request).await?)
    }

    fn write_stream(&self, requests: BoxStream<'static, v1::WriteRequest>) -> Stream<v1::WriteResponse> {
        let requests = requests.map(|request| Ok(with_key(request)));
        let answers = self.calls.write_stream(requests, InFlight::default(), self.patience());
        answers.map(|answer| answer.map_err(Error::from)).boxed()
    }

    async fn read_workspace(&self, request: v1::ReadWorkspaceRequest) -> Result<Stream<v1::Event>, Error> {
        let events = self.calls.read_workspace(request, self.patience()).await?;
        Ok(whole(events, |answer| answer.event))
    }

    async fn read_all(&self, request: v1::ReadAllRequest) -> Result<Stream<v1::Event>, Error> {
        let events = self.calls.read_all(request, self.patience()).await?;
        Ok(whole(events, |answer| answer.event))
    }

    async fn read_partition(&self, request: v1::ReadPartitionRequest) -> Result<Stream<v1::Outcome>, Error> {
        let outcomes = self.calls.read_partition(request, self.patience()).await?;
        Ok(whole(outcomes, |answer| answer.outcome))
    }

    fn subscribe(&self, request: v1::SubscribeRequest) -> Stream<v1::SubscribeResponse> {
        match self.calls.subscribe(&request) {
            Ok(items) => items.map(|item| item.map_err(Error::from)).boxed(),
            Err(problem) => stream::once(async { Err(Error::from(problem)) }).boxed(),
        }
    }
}

/// What answers contain.
pub(crate) fn whole<T: 'static, U: 'static>(
    answers: BoxStream<'static, Result<T, Problem>>,
    content: impl Fn(T) -> Option<U> + Send + 'static,
) -> Stream<U> {
    let answer = move |answer: Result<T, Problem>| {
        content(answer?).ok_or(Error::Protocol("an answer without its content"))
    };
    answers.map(answer).boxed()
}
