//! What can be asked about projections, wherever the ledger is.

use std::future::Future;

use futures_util::stream::{self, StreamExt};
use gapless_api::v1;

use crate::client::Client;
use crate::effects;
use crate::embedded::Embedded;
use crate::error::Error;
use crate::ledger::Stream;
use crate::worker::Worker;

/// Declares the calls, for whoever can make them.
macro_rules! calls {
    ($($(#[$attribute:meta])* $name:ident($request:ident) -> $response:ident;)*) => {
        /// Projections of a ledger. Clones are of the same one.
        ///
        /// Refusals are answers; a command whose answer was lost is sent again with the same token, and nothing happens twice.
        pub trait Projections: Clone + Send + Sync + 'static {
            $(
                $(#[$attribute])*
                fn $name(&self, request: v1::$request) -> impl Future<Output = Result<v1::$response, Error>> + Send;
            )*

            /// What slots of a domain changed, from one on, then what they change.
            fn subscribe_effects(&self, request: v1::SubscribeEffectsRequest) -> Stream<v1::Effect>;

            /// A worker for a projection.
            fn worker(&self, namespace: &str, projection: &str) -> Worker<Self> {
                Worker::new(self.clone(), namespace, projection)
            }
        }

        impl Projections for Client {
            $(
                async fn $name(&self, request: v1::$request) -> Result<v1::$response, Error> {
                    let ask = |client: Self, request| async move { client.projections().$name(request).await };
                    self.call(request, ask).await
                }
            )*

            fn subscribe_effects(&self, request: v1::SubscribeEffectsRequest) -> Stream<v1::Effect> {
                effects::effects(self.clone(), request)
            }
        }
    };
}

calls! {
    /// Waits for work.
    lease(LeaseRequest) -> LeaseResponse;
    /// Reserves a slot for work that has no event.
    allocate(AllocateRequest) -> AllocateResponse;
    /// Ends a lease with rows or a result.
    commit(CommitRequest) -> CommitResponse;
    /// Makes a lease last longer.
    renew(RenewRequest) -> RenewResponse;
    /// Gives a lease back.
    release(ReleaseRequest) -> ReleaseResponse;
    /// Ends a lease with an error.
    fail(FailRequest) -> FailResponse;
    /// Rows of a table.
    query(QueryRequest) -> QueryResponse;
    /// All projections of a namespace, page by page.
    list(ListRequest) -> ListResponse;
    /// A projection with its domains, page by page.
    describe(DescribeRequest) -> DescribeResponse;
    /// Slots whose event had no effect, page by page.
    list_dead_letters(ListDeadLettersRequest) -> ListDeadLettersResponse;
    /// Fills a slot.
    skip(SkipRequest) -> SkipResponse;
}

/// Calls that an engine in this process takes.
macro_rules! forwarded {
    ($($name:ident($request:ident) -> $response:ident;)*) => {
        $(
            async fn $name(&self, request: v1::$request) -> Result<v1::$response, Error> {
                self.retried(|calls, patience| {
                    let request = request.clone();
                    async move { calls.$name(request, patience).await }
                })
                .await
            }
        )*
    };
}

impl Projections for Embedded {
    forwarded! {
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

    async fn list(&self, request: v1::ListRequest) -> Result<v1::ListResponse, Error> {
        Ok(self.projections.list(&request)?)
    }

    async fn describe(&self, request: v1::DescribeRequest) -> Result<v1::DescribeResponse, Error> {
        Ok(self.projections.describe(&request)?)
    }

    fn subscribe_effects(&self, request: v1::SubscribeEffectsRequest) -> Stream<v1::Effect> {
        match self.projections.subscribe_effects(&request) {
            Ok(effects) => crate::embedded::whole(effects, |answer| answer.effect),
            Err(problem) => stream::once(async { Err(Error::from(problem)) }).boxed(),
        }
    }
}
