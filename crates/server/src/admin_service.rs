//! The service Admin of gRPC.
//!
//! Must not know: what a call means.

use std::sync::Arc;

use gapless_api::v1::admin_server::Admin;
use gapless_api::{AdminCalls, v1};
use tonic::{Request, Response, Status};

use crate::access::gate::{Gate, caller};
use crate::access::{Action, Caller};
use crate::call::{Sent, patience, sent, to_its_end};
use crate::rate::Rates;
use crate::server::Limits;

/// The service Admin.
#[derive(Clone, Debug)]
pub(crate) struct AdminService {
    gate: Gate<AdminCalls>,
    limits: Limits,
    barriers: Arc<Rates>,
}

impl AdminService {
    pub(crate) fn new(gate: Gate<AdminCalls>, limits: Limits, barriers: Arc<Rates>) -> Self {
        Self { gate, limits, barriers }
    }
}

/// What a caller may read.
pub(crate) fn may_see(caller: &Caller) -> impl Fn(&str) -> bool + '_ {
    |namespace| caller.principal.may(Action::Read, namespace)
}

/// How the cluster does, as far as a caller may know: alarms are of all namespaces.
pub(crate) fn seen(mut status: v1::ClusterStatusResponse, caller: &Caller) -> v1::ClusterStatusResponse {
    if !caller.principal.may_everywhere(Action::Read) {
        status.alarms.clear();
    }
    status
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn apply_namespace(
        &self,
        request: Request<v1::ApplyNamespaceRequest>,
    ) -> Result<Response<v1::ApplyNamespaceResponse>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().apply_namespace(request.get_ref()).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    async fn get_namespace(
        &self,
        request: Request<v1::GetNamespaceRequest>,
    ) -> Result<Response<v1::GetNamespaceResponse>, Status> {
        let calls = self.gate.open(caller(request.extensions())?, request.get_ref()).await?.calls();
        Ok(Response::new(calls.get_namespace(request.get_ref())?))
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let caller = caller(request.extensions())?;
        let calls = self.gate.open(caller, request.get_ref()).await?.calls();
        Ok(Response::new(calls.list_namespaces(request.get_ref(), may_see(caller))?))
    }

    async fn drop_namespace(
        &self,
        request: Request<v1::DropNamespaceRequest>,
    ) -> Result<Response<v1::DropNamespaceResponse>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().drop_namespace(request.get_ref()).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    async fn list_partitions(
        &self,
        request: Request<v1::ListPartitionsRequest>,
    ) -> Result<Response<v1::ListPartitionsResponse>, Status> {
        let caller = caller(request.extensions())?;
        let calls = self.gate.open(caller, request.get_ref()).await?.calls();
        Ok(Response::new(calls.list_partitions(request.get_ref(), may_see(caller))?))
    }

    async fn wait_barrier(
        &self,
        request: Request<v1::WaitBarrierRequest>,
    ) -> Result<Response<v1::WaitBarrierResponse>, Status> {
        let caller = caller(request.extensions())?;
        let client = self.barriers.caller(caller)?;
        let patience = patience(&request, self.limits.patience);
        let calls = self.gate.open(caller, request.get_ref()).await?.calls();
        Ok(Response::new(calls.wait_barrier(&client, request.get_ref(), patience).await?))
    }

    async fn freeze_partition(
        &self,
        request: Request<v1::FreezePartitionRequest>,
    ) -> Result<Response<v1::FreezePartitionResponse>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().freeze_partition(request.get_ref()).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    async fn thaw_partition(
        &self,
        request: Request<v1::ThawPartitionRequest>,
    ) -> Result<Response<v1::ThawPartitionResponse>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().thaw_partition(request.get_ref()).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    async fn repair_partition(
        &self,
        request: Request<v1::RepairPartitionRequest>,
    ) -> Result<Response<v1::RepairPartitionResponse>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().repair_partition(request.get_ref()).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    async fn snapshot(
        &self,
        request: Request<v1::SnapshotRequest>,
    ) -> Result<Response<v1::SnapshotResponse>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().snapshot(request.get_ref()).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    type BackupStream = Sent<v1::BackupResponse>;

    async fn backup(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        match opened.calls().backup(request.get_ref()) {
            Ok(answers) => Ok(Response::new(sent(to_its_end(answers, opened.begun())))),
            Err(problem) => Ok(opened.told(Err(problem)).await?),
        }
    }

    async fn cluster_status(
        &self,
        request: Request<v1::ClusterStatusRequest>,
    ) -> Result<Response<v1::ClusterStatusResponse>, Status> {
        let caller = caller(request.extensions())?;
        let calls = self.gate.open(caller, request.get_ref()).await?.calls();
        Ok(Response::new(seen(calls.cluster_status(request.get_ref()), caller)))
    }

    async fn add_node(
        &self,
        request: Request<v1::AddNodeRequest>,
    ) -> Result<Response<v1::AddNodeResponse>, Status> {
        let patience = patience(&request, self.limits.patience);
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().add_node(request.get_ref(), patience).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    async fn remove_node(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> Result<Response<v1::RemoveNodeResponse>, Status> {
        let patience = patience(&request, self.limits.patience);
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().remove_node(request.get_ref(), patience).await;
        Ok(Response::new(opened.told(answer).await?))
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::TransferLeaderResponse>, Status> {
        let opened = self.gate.open(caller(request.extensions())?, request.get_ref()).await?;
        let answer = opened.calls().transfer_leader(request.get_ref()).await;
        Ok(Response::new(opened.told(answer).await?))
    }
}
