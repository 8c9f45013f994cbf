//! Our network as the consensus library wants it.
//!
//! Must not know: how links work.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{self, BoxFuture, Either};
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use openraft::alias::SnapshotOf;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{
    Backoff, NetBackoff, NetSnapshot, NetStreamAppend, NetTransferLeader, NetVote, RPCOption,
    RaftNetworkFactory,
};
use openraft::raft::{
    AppendEntriesRequest, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};

use super::quiet::Quiet;
use super::{Channel, Link, LinkError, Network, Route};
use crate::identity::{Identity, NodeId};
use crate::limits::MAX_HELD_BYTES;
use crate::message::{EntryId, Received, Request, Response, Vote};
use crate::raft::{self, Address, Group, RaftVoteValue};
use crate::settings::Patience;
use crate::storage::outgoing::Outgoing;
use crate::storage::state_machine::SnapshotData;

/// Makes connections for one node.
pub(crate) struct Factory {
    pub(crate) network: Arc<dyn Network>,
    pub(crate) identity: Identity,
    pub(crate) patience: Patience,
    pub(crate) quiet: Arc<Quiet>,
}

impl Factory {
    fn connect(&self, to: NodeId, address: &Address, channel: Channel) -> Peer {
        let Identity { cluster, group, node: from } = self.identity;
        let route = Route { cluster, group, from, to, address: address.0.clone(), channel };
        // Heartbeats are the library's business.
        let quiet = (channel == Channel::Entries).then(|| self.quiet.clone());
        Peer { to, link: self.network.connect(route), patience: self.patience, quiet }
    }
}

impl RaftNetworkFactory<Group> for Factory {
    type Network = Peer;

    async fn new_client(&mut self, target: NodeId, node: &Address) -> Peer {
        self.connect(target, node, Channel::Entries)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, node: &Address) -> Peer {
        self.connect(target, node, Channel::Liveness)
    }

    async fn new_snapshot_client(&mut self, target: NodeId, node: &Address) -> Peer {
        self.connect(target, node, Channel::Snapshots)
    }
}

/// A connection to a peer.
pub(crate) struct Peer {
    to: NodeId,
    link: Box<dyn Link>,
    patience: Patience,
    /// Whether entries may be sent, if they are what is sent here.
    quiet: Option<Arc<Quiet>>,
}

impl Peer {
    async fn ask_for_vote(&mut self, request: Request) -> Result<VoteResponse<Group>, RPCError<Group>> {
        match self.link.call(request, self.patience.vote).await {
            Ok(Response::Vote { vote, granted, last }) => {
                Ok(VoteResponse::new(raft::raft_vote(vote), last.map(raft::raft_log_id), granted))
            }
            Ok(_) => Err(rpc_error(&LinkError::Broken(self.to))),
            Err(error) => Err(rpc_error(&error)),
        }
    }

    /// Sends what the other one does not have yet, as often as the link breaks and something arrived. Without progress it is the
    /// library's turn to wait.
    async fn send_snapshot(&mut self, vote: Vote, data: SnapshotData) -> Result<Vote, RPCError<Group>> {
        let snapshot = data.header().standing.last.expect("a snapshot contains an entry");
        let (mut received, mut held) = self.ask_received(snapshot).await?;
        loop {
            let outgoing = Outgoing::behind(received, || data.body(&held)).await;
            let outgoing = outgoing.map_err(|fault| RPCError::Network(NetworkError::new(&fault)))?;
            let (behind, stream) = outgoing.stream(&data.header().behind(&held));
            let broken = match self.link.send_snapshot(vote, behind, stream).await {
                Ok(vote) => return Ok(vote),
                Err(error) => error,
            };
            let (now, held_now) = self.ask_received(snapshot).await?;
            if now.pieces <= behind.pieces {
                return Err(rpc_error(&broken));
            }
            (received, held) = (now, held_now);
        }
    }

    /// How much of a snapshot the other one has received, and what of it need not be sent.
    async fn ask_received(&mut self, snapshot: EntryId) -> Result<(Received, Bytes), RPCError<Group>> {
        match self.link.call(Request::SnapshotReceived { snapshot }, self.patience.snapshot).await {
            Ok(Response::SnapshotReceived { received, held }) if held.len() <= MAX_HELD_BYTES => {
                Ok((received, held))
            }
            Ok(_) => Err(rpc_error(&LinkError::Broken(self.to))),
            Err(error) => Err(rpc_error(&error)),
        }
    }
}

impl NetBackoff<Group> for Peer {
    fn backoff(&self) -> Option<Backoff> {
        None
    }
}

impl NetStreamAppend<Group> for Peer {
    fn stream_append<'s, S>(
        &'s mut self,
        mut input: S,
        _: RPCOption,
    ) -> BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<Group>, RPCError<Group>>>, RPCError<Group>>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<Group>> + Send + Unpin + 'static,
    {
        Box::pin(async move {
            // The library waits, after a failure, inside this stream. Whoever connects before asking it for something would
            // fail and be called again without end, and without a pause.
            let Some(first) = input.next().await else { return Ok(stream::empty().boxed()) };
            if self.quiet.as_ref().is_some_and(|quiet| quiet.is_due()) {
                return Err(rpc_error(&LinkError::Unreachable(self.to)));
            }
            let requests = stream::iter([first]).chain(input).map(raft::append_request).boxed();
            let answers = self.link.append(requests, self.patience.append).await;
            let answers = answers
                .map_err(|error| rpc_error(&error))?
                .map(|answer| answer.map(raft::raft_append_result).map_err(|error| rpc_error(&error)));
            Ok(answers.boxed())
        })
    }
}

impl NetVote<Group> for Peer {
    async fn vote(
        &mut self,
        request: VoteRequest<Group>,
        _: RPCOption,
    ) -> Result<VoteResponse<Group>, RPCError<Group>> {
        self.ask_for_vote(Request::Vote(raft::vote_request(&request))).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Group>,
        _: RPCOption,
    ) -> Result<VoteResponse<Group>, RPCError<Group>> {
        self.ask_for_vote(Request::PreVote(raft::vote_request(&request))).await
    }
}

impl NetTransferLeader<Group> for Peer {
    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Group>,
        _: RPCOption,
    ) -> Result<TransferLeaderResponse<Group>, RPCError<Group>> {
        let message = Request::TransferLeader {
            from: raft::vote(request.from_leader()),
            to: *request.to_node_id(),
            last: request.last_log_id().map(raft::entry_id),
        };
        match self.link.call(message, self.patience.vote).await {
            Ok(Response::TransferLeader { accepted: true }) => Ok(Ok(())),
            // The leader only notes the refusal, and goes on leading.
            Ok(_) => Err(rpc_error(&LinkError::Broken(self.to))),
            Err(error) => Err(rpc_error(&error)),
        }
    }
}

impl NetSnapshot<Group> for Peer {
    type SnapshotData = SnapshotData;

    async fn full_snapshot(
        &mut self,
        vote: RaftVoteValue,
        snapshot: SnapshotOf<Group, SnapshotData>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Group>, StreamingError<Group>> {
        let sent = pin!(self.send_snapshot(raft::vote(&vote), snapshot.snapshot));
        match future::select(sent, pin!(cancel)).await {
            Either::Left((Ok(vote), _)) => Ok(SnapshotResponse::new(raft::raft_vote(vote))),
            Either::Left((Err(error), _)) => Err(error.into()),
            Either::Right((closed, _)) => Err(closed.into()),
        }
    }
}

fn rpc_error(error: &LinkError) -> RPCError<Group> {
    match error {
        LinkError::Unreachable(_) | LinkError::Refused { .. } => {
            RPCError::Unreachable(Unreachable::new(error))
        }
        LinkError::Broken(_) => RPCError::Network(NetworkError::new(error)),
    }
}
