//! How nodes reach each other: a trait for transports, and what a node offers to them.
//!
//! Each peer is reached over three channels that do not hold each other up: heartbeats and votes, the stream of entries, snapshots.
//!
//! Must not know: sockets, encodings.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use gapless_types::GroupId;

use crate::error::InstallError;
use crate::identity::{ClusterId, NodeId};
use crate::message::{AppendRequest, AppendResponse, Received, Request, Response, Vote};

pub(crate) mod adapter;
pub(crate) mod inbound;
pub(crate) mod quiet;
pub mod switchboard;

pub use crate::storage::spool::SnapshotStream;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Heartbeats, votes, and a leader that steps back.
    Liveness,
    /// Entries.
    Entries,
    /// Snapshots, and what machines ask each other.
    Snapshots,
}

/// From whom to whom, and for what. A receiver refuses what is meant for somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The cluster of both.
    pub cluster: ClusterId,
    /// The group of both.
    pub group: GroupId,
    /// Who speaks.
    pub from: NodeId,
    /// Who is spoken to.
    pub to: NodeId,
    /// Where that is reached.
    pub address: String,
    /// What for.
    pub channel: Channel,
}

/// Why something did not get through, or no answer came back. It may have been received all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The other node cannot be reached; trying again at once is of no use.
    #[error("node {0} cannot be reached")]
    Unreachable(NodeId),
    /// The connection broke, or no answer came in time.
    #[error("the connection to node {0} broke")]
    Broken(NodeId),
    /// The other node refused it.
    #[error("node {node} refused: {reason}")]
    Refused {
        /// Who.
        node: NodeId,
        /// Why.
        reason: Arc<str>,
    },
}

/// A transport.
pub trait Network: Send + Sync + 'static {
    /// A connection, which is made when it is first used and made again when it broke.
    fn connect(&self, route: Route) -> Box<dyn Link>;
}

/// Answers to a stream of entries, in the order of the requests.
pub type Answers<'a> = BoxStream<'a, Result<AppendResponse, LinkError>>;

/// A connection to one node for one purpose.
pub trait Link: Send + Sync + 'static {
    /// Asks a single question; gives up after `patience`.
    fn call(&mut self, request: Request, patience: Duration) -> BoxFuture<'_, Result<Response, LinkError>>;

    /// Sends entries, in order and without waiting for answers in between. Ends with an error if nothing comes back for
    /// `patience` although something was sent.
    fn append(
        &mut self,
        requests: BoxStream<'static, AppendRequest>,
        patience: Duration,
    ) -> BoxFuture<'_, Result<Answers<'_>, LinkError>>;

    /// Sends a snapshot, or what of it comes `behind` what the other node has already; ready when it is installed or refused. Returns
    /// the receiver's vote.
    fn send_snapshot(
        &mut self,
        vote: Vote,
        behind: Received,
        snapshot: SnapshotStream,
    ) -> BoxFuture<'_, Result<Vote, LinkError>>;
}

/// What a node offers to the transport that serves it.
pub trait Inbound: Send + Sync + 'static {
    /// Answers a single question.
    fn call(&self, route: &Route, request: Request) -> BoxFuture<'static, Result<Response, LinkError>>;

    /// Takes in entries; answers in order, and ends after a conflict or a newer vote.
    fn append(
        &self,
        route: &Route,
        requests: BoxStream<'static, AppendRequest>,
    ) -> BoxFuture<'static, Result<Answers<'static>, LinkError>>;

    /// Takes in a snapshot, or what of it comes `behind` what is here, and installs it. What arrived before a break is kept.
    fn install_snapshot(
        &self,
        route: &Route,
        vote: Vote,
        behind: Received,
        snapshot: SnapshotStream,
    ) -> BoxFuture<'static, Result<Vote, InstallError>>;
}

/// The network of a node that has no peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Network for Nobody {
    fn connect(&self, route: Route) -> Box<dyn Link> {
        Box::new(Dead(route.to))
    }
}

/// A connection to nobody.
struct Dead(NodeId);

impl Link for Dead {
    fn call(&mut self, _: Request, _: Duration) -> BoxFuture<'_, Result<Response, LinkError>> {
        Box::pin(std::future::ready(Err(LinkError::Unreachable(self.0))))
    }

    fn append(
        &mut self,
        _: BoxStream<'static, AppendRequest>,
        _: Duration,
    ) -> BoxFuture<'_, Result<Answers<'_>, LinkError>> {
        Box::pin(std::future::ready(Err(LinkError::Unreachable(self.0))))
    }

    fn send_snapshot(
        &mut self,
        _: Vote,
        _: Received,
        _: SnapshotStream,
    ) -> BoxFuture<'_, Result<Vote, LinkError>> {
        Box::pin(std::future::ready(Err(LinkError::Unreachable(self.0))))
    }
}
