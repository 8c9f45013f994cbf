//! A network in memory: nodes of one process, with links that can be cut, slowed down and made to lose messages.
//!
//! Everything that is left to chance follows from a seed, and time is the runtime's, so that a test under paused time is
//! repeatable.
//!
//! Must not know: what messages say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};

use super::{Answers, Inbound, Link, LinkError, Network, Route, SnapshotStream};
use crate::error::InstallError;
use crate::identity::NodeId;
use crate::machine::MachineFault;
use crate::message::{AppendRequest, Received, Request, Response, Vote};

/// Connects the nodes of one process. Clones are the same switchboard.
#[derive(Clone)]
pub struct Switchboard(Arc<Mutex<Board>>);

struct Board {
    nodes: BTreeMap<NodeId, Arc<dyn Inbound>>,
    /// Directions in which nothing gets through.
    cut: BTreeSet<(NodeId, NodeId)>,
    delay: Duration,
    lost_percent: u8,
    chance: fastrand::Rng,
    messages: u64,
    /// So many parts of a snapshot get through before the link breaks.
    snapshot_parts: Option<u64>,
    snapshot_bytes: u64,
}

impl Switchboard {
    /// A network without nodes, on which nothing is delayed or lost.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Board {
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            delay: Duration::ZERO,
            lost_percent: 0,
            chance: fastrand::Rng::with_seed(seed),
            messages: 0,
            snapshot_parts: None,
            snapshot_bytes: 0,
        })))
    }

    /// Puts a node on the network.
    pub fn attach(&self, node: NodeId, inbound: Arc<dyn Inbound>) {
        self.board().nodes.insert(node, inbound);
    }

    /// Takes a node off the network, as if its process had ended.
    pub fn detach(&self, node: NodeId) {
        self.board().nodes.remove(&node);
    }

    /// Lets nothing through from one node to another; the way back stays.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.board().cut.insert((from, to));
    }

    /// Lets nothing through between a node and all others.
    pub fn isolate(&self, node: NodeId) {
        let mut board = self.board();
        let others: Vec<NodeId> = board.nodes.keys().copied().filter(|&other| other != node).collect();
        board.cut.extend(others.iter().flat_map(|&other| [(node, other), (other, node)]));
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        self.board().cut.clear();
    }

    /// Delays every message by up to this much.
    pub fn set_delay(&self, longest: Duration) {
        self.board().delay = longest;
    }

    /// So many percent of the messages get lost.
    pub fn set_loss(&self, percent: u8) {
        assert!(percent <= 100, "a probability in percent");
        self.board().lost_percent = percent;
    }

    /// Breaks the link of every snapshot after so many of its parts.
    pub fn break_snapshots_after(&self, parts: Option<u64>) {
        self.board().snapshot_parts = parts;
    }

    /// How many bytes of snapshots were sent.
    pub fn snapshot_bytes(&self) -> u64 {
        self.board().snapshot_bytes
    }

    /// How many messages were sent.
    pub fn messages(&self) -> u64 {
        self.board().messages
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // Every change is made in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides the fate of one message: how long it takes, or that it does not arrive.
    fn send(&self, from: NodeId, to: NodeId) -> Result<Duration, LinkError> {
        let mut board = self.board();
        board.messages += 1;
        if board.cut.contains(&(from, to)) {
            return Err(LinkError::Unreachable(to));
        }
        let lost_percent = board.lost_percent;
        if lost_percent > 0 && board.chance.u8(..100) < lost_percent {
            return Err(LinkError::Broken(to));
        }
        let longest = u64::try_from(board.delay.as_micros()).unwrap_or(u64::MAX);
        Ok(Duration::from_micros(if longest == 0 { 0 } else { board.chance.u64(..=longest) }))
    }

    /// Brings one message from one node to another.
    async fn travel(&self, from: NodeId, to: NodeId) -> Result<(), LinkError> {
        let delay = self.send(from, to)?;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // Cut on the way.
        if self.board().cut.contains(&(from, to)) { Err(LinkError::Broken(to)) } else { Ok(()) }
    }

    /// Brings one part of a snapshot there.
    async fn bring(&self, route: &Route, number: usize, part: &Bytes) -> Result<(), LinkError> {
        {
            let mut board = self.board();
            if board.snapshot_parts.is_some_and(|limit| number as u64 >= limit) {
                return Err(LinkError::Broken(route.to));
            }
            board.snapshot_bytes += part.len() as u64;
        }
        self.travel(route.from, route.to).await
    }

    fn inbound(&self, node: NodeId) -> Result<Arc<dyn Inbound>, LinkError> {
        self.board().nodes.get(&node).cloned().ok_or(LinkError::Unreachable(node))
    }
}

impl std::fmt::Debug for Switchboard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let board = self.board();
        let nodes: Vec<NodeId> = board.nodes.keys().copied().collect();
        formatter
            .debug_struct("Switchboard")
            .field("nodes", &nodes)
            .field("cut", &board.cut)
            .finish_non_exhaustive()
    }
}

impl Network for Switchboard {
    fn connect(&self, route: Route) -> Box<dyn Link> {
        Box::new(Wire { board: self.clone(), route })
    }
}

/// A connection over the switchboard.
struct Wire {
    board: Switchboard,
    route: Route,
}

impl Wire {
    async fn forth(&self) -> Result<Arc<dyn Inbound>, LinkError> {
        self.board.travel(self.route.from, self.route.to).await?;
        self.board.inbound(self.route.to)
    }

    async fn back(&self) -> Result<(), LinkError> {
        let lost = |_| LinkError::Broken(self.route.to);
        self.board.travel(self.route.to, self.route.from).await.map_err(lost)
    }
}

impl Link for Wire {
    fn call(&mut self, request: Request, patience: Duration) -> BoxFuture<'_, Result<Response, LinkError>> {
        let to = self.route.to;
        let asked = async move {
            let response = self.forth().await?.call(&self.route, request).await?;
            self.back().await?;
            Ok(response)
        };
        Box::pin(
            async move { tokio::time::timeout(patience, asked).await.unwrap_or(Err(LinkError::Broken(to))) },
        )
    }

    fn append(
        &mut self,
        requests: BoxStream<'static, AppendRequest>,
        patience: Duration,
    ) -> BoxFuture<'_, Result<Answers<'_>, LinkError>> {
        Box::pin(async move {
            let inbound = self.forth().await?;
            let (board, route) = (self.board.clone(), self.route.clone());
            // A message that does not arrive ends the stream: what comes behind it must not overtake it.
            let arriving =
                stream::unfold((requests, board, route), |(mut requests, board, route)| async move {
                    let request = requests.next().await?;
                    board.travel(route.from, route.to).await.ok()?;
                    Some((request, (requests, board, route)))
                });
            let answers = inbound.append(&self.route, arriving.boxed()).await?;
            let waiting = Waiting { wire: self, answers, patience };
            let returning = stream::unfold(Some(waiting), |waiting| async move {
                let mut waiting = waiting?;
                match waiting.next().await {
                    Some(Ok(answer)) => Some((Ok(answer), Some(waiting))),
                    Some(Err(error)) => Some((Err(error), None)),
                    None => None,
                }
            });
            Ok(returning.boxed())
        })
    }

    fn send_snapshot(
        &mut self,
        vote: Vote,
        behind: Received,
        snapshot: SnapshotStream,
    ) -> BoxFuture<'_, Result<Vote, LinkError>> {
        Box::pin(async move {
            let inbound = self.forth().await?;
            let (board, route) = (self.board.clone(), self.route.clone());
            let arriving = snapshot.enumerate().then(move |(number, part)| {
                let (board, route) = (board.clone(), route.clone());
                async move {
                    let part = part?;
                    let brought = board.bring(&route, number, &part).await;
                    brought.map(|()| part).map_err(MachineFault::new)
                }
            });
            let installed = inbound.install_snapshot(&self.route, vote, behind, arriving.boxed()).await;
            let refused = |error: InstallError| match error {
                InstallError::Sender(_) => LinkError::Broken(self.route.to),
                error => LinkError::Refused { node: self.route.to, reason: error.to_string().into() },
            };
            let vote = installed.map_err(refused)?;
            self.back().await?;
            Ok(vote)
        })
    }
}

/// Answers on their way back.
struct Waiting<'a> {
    wire: &'a Wire,
    answers: Answers<'static>,
    patience: Duration,
}

impl Waiting<'_> {
    /// The next answer. A stream on which nothing is sent is silent, and that is no fault: only a cut link is.
    async fn next(&mut self) -> Option<Result<crate::message::AppendResponse, LinkError>> {
        let to = self.wire.route.to;
        let answer = loop {
            match tokio::time::timeout(self.patience, self.answers.next()).await {
                Ok(answer) => break answer?,
                Err(_) if self.wire.board.send(to, self.wire.route.from).is_err() => {
                    return Some(Err(LinkError::Broken(to)));
                }
                Err(_) => {}
            }
        };
        Some(match (answer, self.wire.back().await) {
            (Ok(answer), Ok(())) => Ok(answer),
            (Err(error), _) | (_, Err(error)) => Err(error),
        })
    }
}
