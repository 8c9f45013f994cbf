//! A ledger behind a socket.
//!
//! Must not know: what a call means.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_api::trace::{TRACEPARENT, TraceContext};
use gapless_api::v1::admin_client::AdminClient;
use gapless_api::v1::ledger_client::LedgerClient;
use gapless_api::v1::projections_client::ProjectionsClient;
use gapless_api::{Problem, v1};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::backoff::{Attempts, Retry};
use crate::connections::Connections;
use crate::credentials::Credentials;
use crate::error::{Error, success};
use crate::key::with_key;
use crate::ledger::{Ledger, Stream};
use crate::{subscription, writing};

/// Longest answer that is taken, in bytes: a record of 4 MiB with all its numbers fits.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How calls are retried.
    pub retry: Retry,
    /// Writes of one stream that may be without an answer.
    pub in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { retry: Retry::default(), in_flight: 4096 }
    }
}

/// Why an address cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// There is none.
    #[error("at least one address is needed, such as 127.0.0.1:7400")]
    None,
    /// TLS cannot be set up.
    #[error("{address}: {why}")]
    Tls {
        /// Where to.
        address: String,
        /// What is wrong.
        why: &'static str,
    },
    /// It is not of the form `host:port`.
    #[error("`{address}` is not an address such as 127.0.0.1:7400")]
    Malformed {
        /// What was given.
        address: String,
    },
}

/// A ledger behind a socket. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    connections: Arc<Connections>,
    options: Options,
    trace: Option<TraceContext>,
    token: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// A client of the nodes at these addresses. Connections are made when they are needed.
    ///
    /// # Errors
    /// If one of them is no address, or there is none.
    pub fn new(addresses: &[String]) -> Result<Self, AddressError> {
        Self::connecting(addresses, Credentials::default())
    }

    /// The same, which shows these credentials, and wants the servers to prove themselves by them.
    ///
    /// # Errors
    /// If one of them is no address, there is none, or the credentials are of no use.
    pub fn connecting(addresses: &[String], credentials: Credentials) -> Result<Self, AddressError> {
        let token = credentials.token();
        let connections = Arc::new(Connections::new(addresses, credentials)?);
        Ok(Self { connections, options: Options::default(), trace: None, token })
    }

    /// The same with other options.
    #[must_use]
    pub fn with(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The same, whose calls are part of a trace: they say so in the header `traceparent`, and a server that keeps spans puts its own
    /// below this one. Retries are calls of their own in the same trace.
    #[must_use]
    pub fn traced(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// A request in the trace of this client, if it has one, with its token.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(value) = self.trace.and_then(|trace| trace.to_string().parse().ok()) {
            request.metadata_mut().insert(TRACEPARENT, value);
        }
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// How it behaves.
    pub fn options(&self) -> Options {
        self.options
    }

    pub(crate) fn ledger(&self) -> LedgerClient<Channel> {
        LedgerClient::new(self.connections.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.connections.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub(crate) fn projections(&self) -> ProjectionsClient<Channel> {
        ProjectionsClient::new(self.connections.channel()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// The problem behind a status; somebody else is asked next.
    pub(crate) fn turn(&self, status: &Status) -> Problem {
        let problem = Problem::from(status);
        self.connections.turn(&problem);
        problem
    }

    /// One call, tried again for as long as that helps and is allowed.
    ///
    /// # Errors
    /// With the last problem.
    pub async fn call<T, U, F>(&self, request: T, ask: impl Fn(Self, Request<T>) -> F) -> Result<U, Error>
    where
        T: Clone,
        F: Future<Output = Result<Response<U>, Status>>,
    {
        let mut attempts = Attempts::new(self.options.retry);
        loop {
            let mut asked = self.request(request.clone());
            asked.set_timeout(attempts.left());
            match ask(self.clone(), asked).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => attempts.wait(self.turn(&status)).await?,
            }
        }
    }

    /// A call with many answers: it is tried again until the first of them is there, and what breaks off later is told.
    async fn read<T, U, V, F>(
        &self,
        request: T,
        ask: impl Fn(Self, Request<T>) -> F,
        content: impl Fn(U) -> Option<V> + Send + 'static,
    ) -> Result<Stream<V>, Error>
    where
        T: Clone,
        U: Send + 'static,
        V: Send + 'static,
        F: Future<Output = Result<Response<Streaming<U>>, Status>>,
    {
        let mut attempts = Attempts::new(self.options.retry);
        loop {
            let begun = async {
                let mut answers = ask(self.clone(), self.request(request.clone())).await?.into_inner();
                Ok((answers.message().await?, answers))
            };
            match within(attempts.left(), begun).await {
                Ok((None, _)) => return Ok(stream::empty().boxed()),
                Ok((Some(first), rest)) => return Ok(whole(stream::iter([Ok(first)]).chain(rest), content)),
                Err(status) => attempts.wait(self.turn(&status)).await?,
            }
        }
    }
}

/// What a server says, if it says something in time. The deadline of a stream is ours alone: whoever stands between would take one
/// that is sent along for the end of the whole stream.
pub(crate) async fn within<T>(
    time: Duration,
    said: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let silent = |_| Err(Status::deadline_exceeded("the server did not answer in time"));
    tokio::time::timeout(time, said).await.unwrap_or_else(silent)
}

macro_rules! called {
    ($($service:ident: $name:ident($request:ty) -> $response:ty;)*) => {
        $(
            async fn $name(&self, request: $request) -> Result<$response, Error> {
                self.call(request, |client: Self, request| async move { client.$service().$name(request).await }).await
            }
        )*
    };
}

/// Calls of the service Admin.
macro_rules! admin_calls {
    ($($(#[$attribute:meta])* $name:ident($request:ty) -> $response:ty;)*) => {
        impl Client {
            $(
                $(#[$attribute])*
                ///
                /// # Errors
                /// If there is no answer.
                pub async fn $name(&self, request: $request) -> Result<$response, Error> {
                    self.call(request, |client, request| async move { client.admin().$name(request).await }).await
                }
            )*
        }
    };
}

admin_calls! {
    /// A namespace.
    get_namespace(v1::GetNamespaceRequest) -> v1::GetNamespaceResponse;
    /// All namespaces, page by page.
    list_namespaces(v1::ListNamespacesRequest) -> v1::ListNamespacesResponse;
    /// Drops a namespace with everything in it.
    drop_namespace(v1::DropNamespaceRequest) -> v1::DropNamespaceResponse;
    /// How partitions do, page by page.
    list_partitions(v1::ListPartitionsRequest) -> v1::ListPartitionsResponse;
    /// Lets a partition take no writes any more.
    freeze_partition(v1::FreezePartitionRequest) -> v1::FreezePartitionResponse;
    /// Lets a partition take writes again.
    thaw_partition(v1::ThawPartitionRequest) -> v1::ThawPartitionResponse;
    /// Makes a partition of a node anew out of its own log and a backup.
    repair_partition(v1::RepairPartitionRequest) -> v1::RepairPartitionResponse;
    /// Waits until partitions have applied what is asked for.
    wait_barrier(v1::WaitBarrierRequest) -> v1::WaitBarrierResponse;
    /// Publishes a snapshot.
    snapshot(v1::SnapshotRequest) -> v1::SnapshotResponse;
    /// Who leads, and how far a node is.
    cluster_status(v1::ClusterStatusRequest) -> v1::ClusterStatusResponse;
    /// Takes in a node, which votes once it has caught up.
    add_node(v1::AddNodeRequest) -> v1::AddNodeResponse;
    /// Lets a node be no member any more.
    remove_node(v1::RemoveNodeRequest) -> v1::RemoveNodeResponse;
    /// Lets another voter lead.
    transfer_leader(v1::TransferLeaderRequest) -> v1::TransferLeaderResponse;
}

impl Client {
    /// Backs a server up into a directory of its machine: how far it is, and in the last answer what was made.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn backup(&self, request: v1::BackupRequest) -> Result<Stream<v1::BackupResponse>, Error> {
        let mut attempts = Attempts::new(self.options.retry);
        loop {
            // It begins at once; its first answer takes as long as it takes.
            let mut admin = self.admin();
            match within(attempts.left(), admin.backup(self.request(request.clone()))).await {
                Ok(answers) => return Ok(whole(answers.into_inner(), Some)),
                Err(status) => attempts.wait(self.turn(&status)).await?,
            }
        }
    }
}

impl Ledger for Client {
    async fn write(&self, request: v1::WriteRequest) -> Result<v1::WriteSuccess, Error> {
        let request = with_key(request);
        let ask = |client: Self, request| async move { client.ledger().write(request).await };
        success(self.call(request, ask).await?)
    }

    called! {
        ledger: get_entity(v1::GetEntityRequest) -> v1::GetEntityResponse;
        ledger: list_entities(v1::ListEntitiesRequest) -> v1::ListEntitiesResponse;
        ledger: get_record(v1::GetRecordRequest) -> v1::GetRecordResponse;
        ledger: list_records(v1::ListRecordsRequest) -> v1::ListRecordsResponse;
        ledger: get_client_state(v1::GetClientStateRequest) -> v1::GetClientStateResponse;
        ledger: get_workspace(v1::GetWorkspaceRequest) -> v1::GetWorkspaceResponse;
        ledger: list_sequences(v1::ListSequencesRequest) -> v1::ListSequencesResponse;
        ledger: get_block(v1::GetBlockRequest) -> v1::GetBlockResponse;
        ledger: get_inclusion_proof(v1::GetInclusionProofRequest) -> v1::GetInclusionProofResponse;
        ledger: get_consistency_proof(v1::GetConsistencyProofRequest) -> v1::GetConsistencyProofResponse;
        ledger: get_root(v1::GetRootRequest) -> v1::GetRootResponse;
        admin: apply_namespace(v1::ApplyNamespaceRequest) -> v1::ApplyNamespaceResponse;
    }

    fn write_stream(&self, requests: BoxStream<'static, v1::WriteRequest>) -> Stream<v1::WriteResponse> {
        writing::answers(self.clone(), requests)
    }

    async fn read_workspace(&self, request: v1::ReadWorkspaceRequest) -> Result<Stream<v1::Event>, Error> {
        let ask = |client: Self, request| async move { client.ledger().read_workspace(request).await };
        self.read(request, ask, |answer: v1::ReadWorkspaceResponse| answer.event).await
    }

    async fn read_all(&self, request: v1::ReadAllRequest) -> Result<Stream<v1::Event>, Error> {
        let ask = |client: Self, request| async move { client.ledger().read_all(request).await };
        self.read(request, ask, |answer: v1::ReadAllResponse| answer.event).await
    }

    async fn read_partition(&self, request: v1::ReadPartitionRequest) -> Result<Stream<v1::Outcome>, Error> {
        let ask = |client: Self, request| async move { client.ledger().read_partition(request).await };
        self.read(request, ask, |answer: v1::ReadPartitionResponse| answer.outcome).await
    }

    fn subscribe(&self, request: v1::SubscribeRequest) -> Stream<v1::SubscribeResponse> {
        subscription::items(self.clone(), request)
    }
}

/// What answers contain.
fn whole<T: Send + 'static, U: 'static>(
    answers: impl futures_util::Stream<Item = Result<T, Status>> + Send + 'static,
    content: impl Fn(T) -> Option<U> + Send + 'static,
) -> Stream<U> {
    let answer = move |answer: Result<T, Status>| {
        let answer = answer.map_err(|status| Problem::from(&status))?;
        content(answer).ok_or(Error::Protocol("an answer without its content"))
    };
    answers.map(answer).boxed()
}
