//! The service Projections of gRPC.
//!
//! Must not know: what a call means.

use std::time::Duration;

use futures_util::StreamExt;
use gapless_api::projections::WorkLimits;
use gapless_api::v1::projections_server::Projections;
use gapless_api::{ProjectionCalls, v1};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use crate::access::gate::{Gate, caller, unsent};
use crate::access::rules::{Scope, WORK};
use crate::call::{Sent, patience, sent, unread, until_over, until_void};
use crate::server::Limits;

/// The service Projections.
#[derive(Clone, Debug)]
pub(crate) struct ProjectionService {
    gate: Gate<ProjectionCalls>,
    limits: Limits,
    closing: watch::Receiver<bool>,
}

impl ProjectionService {
    pub(crate) fn new(gate: Gate<ProjectionCalls>, limits: Limits, closing: watch::Receiver<bool>) -> Self {
        Self { gate, limits, closing }
    }

    fn patience<T>(&self, request: &Request<T>) -> Duration {
        patience(request, self.limits.patience)
    }

    fn work_stream(
        &self,
        request: Request<Streaming<v1::WorkRequest>>,
    ) -> Result<Sent<v1::WorkResponse>, Status> {
        let caller = caller(request.extensions())?.clone();
        let calls = self.gate.open_stream(&caller, &WORK)?;
        let (gate, expires) = (self.gate.clone(), caller.expires.clone());
        let requests = request.into_inner().map(move |request| {
            let request = request.map_err(|status| unread(&status))?;
            let scope = match &request.request {
                // Where he works is said here, and nowhere else.
                Some(v1::work_request::Request::Hello(hello)) => Scope::Namespace((&hello.namespace).into()),
                _ => Scope::Something,
            };
            gate.allows(&caller, &WORK, &scope)?;
            Ok(request)
        });
        let limits = WorkLimits {
            in_flight: self.limits.in_flight,
            patience: self.limits.patience,
            // What is held is finished well before connections are cut.
            grace: self.limits.drain / 2,
        };
        Ok(sent(until_void(calls.work(requests, limits, self.closing.clone()), expires)))
    }
}

/// The service: calls that take a message and a deadline, calls that are answered at once, and the streams. Made as one piece,
/// because what makes its methods async looks at it before anything in it is made.
macro_rules! service {
    (
        answered { $($answered:ident($answered_request:ident) -> $answered_response:ident;)* }
        told { $($told:ident($told_request:ident) -> $told_response:ident;)* }
    ) => {
        #[tonic::async_trait]
        impl Projections for ProjectionService {
            type WorkStream = Sent<v1::WorkResponse>;

            async fn work(
                &self,
                request: Request<Streaming<v1::WorkRequest>>,
            ) -> Result<Response<Self::WorkStream>, Status> {
                Ok(Response::new(self.work_stream(request)?))
            }

            type SubscribeEffectsStream = Sent<v1::SubscribeEffectsResponse>;

            async fn subscribe_effects(
                &self,
                request: Request<v1::SubscribeEffectsRequest>,
            ) -> Result<Response<Self::SubscribeEffectsStream>, Status> {
                let caller = caller(request.extensions())?;
                let calls = self.gate.open(caller, request.get_ref()).await?.calls();
                let calls = calls.within(unsent(request.extensions())?);
                let effects = calls.subscribe_effects(request.get_ref())?;
                Ok(Response::new(sent(until_over(effects, self.closing.clone(), caller.expires.clone()))))
            }

            $(
                async fn $answered(
                    &self,
                    request: Request<v1::$answered_request>,
                ) -> Result<Response<v1::$answered_response>, Status> {
                    let patience = self.patience(&request);
                    let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
                    let calls = opened.calls().within(unsent(request.extensions())?);
                    let answer = calls.$answered(request.into_inner(), patience).await;
                    Ok(Response::new(opened.told(answer).await?))
                }
            )*

            $(
                async fn $told(
                    &self,
                    request: Request<v1::$told_request>,
                ) -> Result<Response<v1::$told_response>, Status> {
                    let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
                    let answer = opened.calls().$told(request.get_ref());
                    Ok(Response::new(opened.told(answer).await?))
                }
            )*
        }
    };
}

service! {
    answered {
        lease(LeaseRequest) -> LeaseResponse;
        allocate(AllocateRequest) -> AllocateResponse;
        commit(CommitRequest) -> CommitResponse;
        renew(RenewRequest) -> RenewResponse;
        release(ReleaseRequest) -> ReleaseResponse;
        fail(FailRequest) -> FailResponse;
        query(QueryRequest) -> QueryResponse;
        list_dead_letters(ListDeadLettersRequest) -> ListDeadLettersResponse;
        skip(SkipRequest) -> SkipResponse;
    }
    told {
        list(ListRequest) -> ListResponse;
        describe(DescribeRequest) -> DescribeResponse;
        pause(PauseRequest) -> PauseResponse;
        resume(ResumeRequest) -> ResumeResponse;
        replay_dead_letters(ReplayDeadLettersRequest) -> ReplayDeadLettersResponse;
        rebuild(RebuildRequest) -> RebuildResponse;
        switch(SwitchRequest) -> SwitchResponse;
        audit(AuditRequest) -> AuditResponse;
    }
}
