//! What a ledger can be asked, wherever it is.

use std::future::Future;

use futures_util::stream::BoxStream;
use gapless_api::v1;

use crate::error::Error;

/// Things that come one by one.
pub type Stream<T> = BoxStream<'static, Result<T, Error>>;

/// Declares calls with one answer.
macro_rules! calls {
    ($($(#[$attribute:meta])* $name:ident($request:ty) -> $response:ty;)*) => {
        $(
            $(#[$attribute])*
            fn $name(&self, request: $request) -> impl Future<Output = Result<$response, Error>> + Send;
        )*
    };
}

/// A ledger. Clones are the same one.
///
/// A request without an idempotency key gets one, which is kept over all retries of that call. A program that wants to repeat a
/// write by itself, later or after a crash, chooses the key.
pub trait Ledger: Clone + Send + Sync + 'static {
    calls! {
        /// Stores an event with all its numbers and changes.
        write(v1::WriteRequest) -> v1::WriteSuccess;
        /// A value under a key.
        get_entity(v1::GetEntityRequest) -> v1::GetEntityResponse;
        /// Values by ascending key, page by page.
        list_entities(v1::ListEntitiesRequest) -> v1::ListEntitiesResponse;
        /// A record.
        get_record(v1::GetRecordRequest) -> v1::GetRecordResponse;
        /// Records by ascending id, page by page.
        list_records(v1::ListRecordsRequest) -> v1::ListRecordsResponse;
        /// How many events a client has in a workspace.
        get_client_state(v1::GetClientStateRequest) -> v1::GetClientStateResponse;
        /// How far a workspace is.
        get_workspace(v1::GetWorkspaceRequest) -> v1::GetWorkspaceResponse;
        /// The sequences of a workspace with their last numbers.
        list_sequences(v1::ListSequencesRequest) -> v1::ListSequencesResponse;
        /// The block of an event.
        get_block(v1::GetBlockRequest) -> v1::GetBlockResponse;
        /// A proof that an event is in the tree of a size.
        get_inclusion_proof(v1::GetInclusionProofRequest) -> v1::GetInclusionProofResponse;
        /// A proof that one tree begins with another.
        get_consistency_proof(v1::GetConsistencyProofRequest) -> v1::GetConsistencyProofResponse;
        /// Size and root of a tree.
        get_root(v1::GetRootRequest) -> v1::GetRootResponse;
        /// Defines a namespace, or defines it anew.
        apply_namespace(v1::ApplyNamespaceRequest) -> v1::ApplyNamespaceResponse;
    }

    /// Many writes in flight. Each is answered once, in any order, by its key; the first problem that retrying does not mend ends
    /// the stream.
    fn write_stream(&self, requests: BoxStream<'static, v1::WriteRequest>) -> Stream<v1::WriteResponse>;

    /// The events of a workspace, as they are now.
    fn read_workspace(
        &self,
        request: v1::ReadWorkspaceRequest,
    ) -> impl Future<Output = Result<Stream<v1::Event>, Error>> + Send;

    /// The events of a namespace, as they are now, in the order of the replicated log.
    fn read_all(
        &self,
        request: v1::ReadAllRequest,
    ) -> impl Future<Output = Result<Stream<v1::Event>, Error>> + Send;

    /// Every outcome of a partition, as they are now.
    fn read_partition(
        &self,
        request: v1::ReadPartitionRequest,
    ) -> impl Future<Output = Result<Stream<v1::Outcome>, Error>> + Send;

    /// What happened from a place on, then what happens. It never ends by itself, and skips and repeats nothing.
    fn subscribe(&self, request: v1::SubscribeRequest) -> Stream<v1::SubscribeResponse>;
}
