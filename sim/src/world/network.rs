//! The network between nodes: every message is delayed, lost, doubled or held back as the seed has it.
//!
//! ```text
//!  call      there and back, each with a delay of its own: calls overtake each other
//!  stream    in order, as a connection delivers it; a lost message breaks it
//!  doubled   the same request once more, later, on a connection of its own; nobody gets the answer
//! ```
//!
//! Invariants
//! - What a life that ended has not sent before is never sent; what is for it never arrives.
//!
//! Must not know: what messages say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use gapless_consensus::message::{AppendRequest, AppendResponse, Received, Request, Response, Vote};
use gapless_consensus::network::{Answers, Inbound, Link, LinkError, Network, Route, SnapshotStream};
use gapless_consensus::{InstallError, MachineFault, NodeId};

use super::life::Life;
use crate::sometimes::{Situation, Sometimes};
use crate::trace::{Trace, note};

/// How messages between all nodes travel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Longest delay of a message, in microseconds.
    pub delay: u64,
    /// Messages of a thousand that get lost.
    pub lost: u32,
    /// Requests of a thousand that arrive twice.
    pub doubled: u32,
}

/// The network. Clones are the same.
#[derive(Clone)]
pub(crate) struct SimulatedNetwork(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    trace: Trace,
    sometimes: Sometimes,
}

struct State {
    chance: fastrand::Rng,
    weather: Weather,
    nodes: BTreeMap<NodeId, Peer>,
    /// Directions in which nothing gets through.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// Additional delay of a direction.
    slow: BTreeMap<(NodeId, NodeId), Duration>,
    /// Nodes that neither hear nor say anything until they go on; nothing is lost.
    held: BTreeSet<NodeId>,
}

/// A node as one of its lives answers.
#[derive(Clone)]
struct Peer {
    life: Arc<Life>,
    inbound: Arc<dyn Inbound>,
}

/// What becomes of a message.
enum Fate {
    Arrives(Duration),
    Lost,
    Held,
}

impl SimulatedNetwork {
    pub(crate) fn new(seed: u64, weather: Weather, trace: Trace, sometimes: Sometimes) -> Self {
        let state = State {
            chance: fastrand::Rng::with_seed(seed),
            weather,
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            slow: BTreeMap::new(),
            held: BTreeSet::new(),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), trace, sometimes }))
    }

    /// The network as one life uses it.
    pub(crate) fn of(&self, life: &Arc<Life>) -> Arc<dyn Network> {
        Arc::new(LifeNetwork { network: self.clone(), life: life.clone() })
    }

    pub(crate) fn attach(&self, life: &Arc<Life>, inbound: Arc<dyn Inbound>) {
        self.state().nodes.insert(life.node, Peer { life: life.clone(), inbound });
    }

    /// Lets go of all nodes.
    pub(crate) fn dissolve(&self) {
        let nodes = std::mem::take(&mut self.state().nodes);
        drop(nodes);
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Lets nothing through from one node to another.
    pub(crate) fn cut(&self, from: NodeId, to: NodeId) {
        self.state().cut.insert((from, to));
    }

    /// Lets messages from one node to another take longer.
    pub(crate) fn slow_down(&self, from: NodeId, to: NodeId, by: Duration) {
        self.state().slow.insert((from, to), by);
    }

    /// Stops a node from hearing and saying anything.
    pub(crate) fn hold(&self, node: NodeId) {
        self.state().held.insert(node);
    }

    /// Lets it go on.
    pub(crate) fn release(&self, node: NodeId) {
        self.state().held.remove(&node);
    }

    /// No link is cut or slow any more.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.cut.clear();
        state.slow.clear();
    }

    /// Whether some link is cut now.
    pub(crate) fn is_partitioned(&self) -> bool {
        !self.state().cut.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, from: NodeId, to: NodeId) -> Fate {
        let mut state = self.state();
        if state.held.contains(&from) || state.held.contains(&to) {
            return Fate::Held;
        }
        let weather = state.weather;
        if state.cut.contains(&(from, to)) || state.chance.u32(0..1000) < weather.lost {
            return Fate::Lost;
        }
        let delay = Duration::from_micros(state.chance.u64(0..=weather.delay));
        Fate::Arrives(delay + state.slow.get(&(from, to)).copied().unwrap_or_default())
    }

    /// Brings a message from a node to another, or not.
    pub(crate) async fn travel(&self, what: &str, from: NodeId, to: NodeId) -> Result<(), LinkError> {
        let trace = &self.0.trace;
        let delay = loop {
            match self.fate(from, to) {
                Fate::Arrives(delay) => break delay,
                Fate::Lost => {
                    note!(trace, "net {from}>{to} {what} lost");
                    return Err(LinkError::Unreachable(to));
                }
                Fate::Held => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        note!(trace, "net {from}>{to} {what} sent");
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        while self.state().held.contains(&to) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if self.state().cut.contains(&(from, to)) {
            note!(trace, "net {from}>{to} {what} lost on the way");
            return Err(LinkError::Broken(to));
        }
        note!(trace, "net {from}>{to} {what} delivered");
        Ok(())
    }

    /// Whether a request is to arrive a second time, and when.
    fn doubles(&self) -> Option<Duration> {
        let mut state = self.state();
        let doubled = state.weather.doubled;
        (doubled > 0 && state.chance.u32(0..1000) < doubled)
            .then(|| Duration::from_micros(state.chance.u64(0..500_000)))
    }

    fn peer(&self, node: NodeId) -> Result<Peer, LinkError> {
        let state = self.state();
        let running = state.nodes.get(&node).filter(|peer| peer.life.is_on());
        running.cloned().ok_or(LinkError::Unreachable(node))
    }
}

struct LifeNetwork {
    network: SimulatedNetwork,
    life: Arc<Life>,
}

impl Network for LifeNetwork {
    fn connect(&self, route: Route) -> Box<dyn Link> {
        Box::new(Wire { network: self.network.clone(), life: self.life.clone(), route })
    }
}

/// A connection of one life to another node.
#[derive(Clone)]
struct Wire {
    network: SimulatedNetwork,
    life: Arc<Life>,
    route: Route,
}

impl Wire {
    async fn forth(&self, what: &str) -> Result<Peer, LinkError> {
        self.check()?;
        self.network.travel(what, self.route.from, self.route.to).await?;
        self.network.peer(self.route.to)
    }

    /// Brings a message to that life of the other node which the connection was made with.
    async fn on(&self, peer: &Life, what: &str) -> Result<(), LinkError> {
        self.forth(what).await?;
        if peer.is_on() { Ok(()) } else { Err(LinkError::Broken(self.route.to)) }
    }

    async fn back(&self, peer: &Life, what: &str) -> Result<(), LinkError> {
        if !peer.is_on() {
            return Err(LinkError::Broken(self.route.to));
        }
        let lost = |_| LinkError::Broken(self.route.to);
        self.network.travel(what, self.route.to, self.route.from).await.map_err(lost)?;
        self.check()
    }

    /// A life that ended says and hears nothing.
    fn check(&self) -> Result<(), LinkError> {
        if self.life.is_on() { Ok(()) } else { Err(LinkError::Broken(self.route.to)) }
    }

    /// The same request once more, some time later. Nobody gets the answer.
    fn call_again(&self, request: &Request) {
        let Some(later) = self.network.doubles() else { return };
        let (wire, request) = (self.clone(), request.clone());
        tokio::spawn(async move {
            tokio::time::sleep(later).await;
            if let Ok(peer) = wire.forth("call again").await {
                wire.network.0.sometimes.saw(Situation::DoubledRequest);
                let _ = peer.inbound.call(&wire.route, request).await;
            }
        });
    }

    /// The same entries once more, some time later, as a connection that was given up may still deliver them.
    fn append_again(&self, request: &AppendRequest) {
        let Some(later) = self.network.doubles() else { return };
        let (wire, request) = (self.clone(), request.clone());
        tokio::spawn(async move {
            tokio::time::sleep(later).await;
            let Ok(peer) = wire.forth("entries again").await else { return };
            wire.network.0.sometimes.saw(Situation::DoubledEntries);
            let late = stream::once(std::future::ready(request)).boxed();
            if let Ok(mut answers) = peer.inbound.append(&wire.route, late).await {
                let _ = answers.next().await;
            }
        });
    }
}

impl Link for Wire {
    fn call(&mut self, request: Request, patience: Duration) -> BoxFuture<'_, Result<Response, LinkError>> {
        let to = self.route.to;
        self.call_again(&request);
        let asked = async move {
            let peer = self.forth(&format!("{request:?}")).await?;
            let response = peer.inbound.call(&self.route, request).await?;
            self.back(&peer.life, &format!("{response:?}")).await?;
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
            let connecting = tokio::time::timeout(patience, self.forth("stream"));
            let Peer { life, inbound } = connecting.await.unwrap_or(Err(LinkError::Broken(self.route.to)))?;
            // A message that does not arrive ends the stream: what comes behind it must not overtake it.
            let connected = (requests, self.clone(), life.clone());
            let arriving = stream::unfold(connected, |(mut requests, wire, life)| async move {
                let request = requests.next().await?;
                wire.append_again(&request);
                wire.on(&life, "entries").await.ok()?;
                Some((request, (requests, wire, life)))
            });
            let answers = inbound.append(&self.route, arriving.boxed()).await?;
            let returning = Returning { wire: self.clone(), peer: life, answers, patience };
            let returning = stream::unfold(Some(returning), |returning| async move {
                let mut returning = returning?;
                match returning.next().await {
                    Some(Ok(answer)) => Some((Ok(answer), Some(returning))),
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
            let Peer { life, inbound } = self.forth("snapshot").await?;
            if behind != Received::default() {
                self.network.0.sometimes.saw(Situation::SnapshotResumed);
            }
            let (wire, to) = (self.clone(), life.clone());
            let arriving = snapshot.then(move |part| {
                let (wire, to) = (wire.clone(), to.clone());
                async move {
                    let part = part?;
                    let brought = wire.on(&to, "part of a snapshot").await;
                    brought.map(|()| part).map_err(MachineFault::new)
                }
            });
            let installed = inbound.install_snapshot(&self.route, vote, behind, arriving.boxed()).await;
            let refused = |error: InstallError| match error {
                InstallError::Sender(_) => LinkError::Broken(self.route.to),
                error => LinkError::Refused { node: self.route.to, reason: error.to_string().into() },
            };
            let vote = installed.map_err(refused)?;
            self.network.0.sometimes.saw(Situation::SnapshotInstalled);
            if self.network.is_partitioned() {
                self.network.0.sometimes.saw(Situation::SnapshotInstalledDuringPartition);
            }
            self.back(&life, "snapshot installed").await?;
            Ok(vote)
        })
    }
}

/// Answers on their way back.
struct Returning {
    wire: Wire,
    peer: Arc<Life>,
    answers: Answers<'static>,
    patience: Duration,
}

impl Returning {
    /// The next answer. A stream on which nothing is sent is silent, and that is no fault: only a link that lets nothing through is.
    async fn next(&mut self) -> Option<Result<AppendResponse, LinkError>> {
        let Route { from, to, .. } = self.wire.route;
        let answer = loop {
            match tokio::time::timeout(self.patience, self.answers.next()).await {
                Ok(answer) => break answer?,
                Err(_) => {
                    let network = &self.wire.network;
                    if !self.peer.is_on() || matches!(network.fate(to, from), Fate::Lost) {
                        return Some(Err(LinkError::Broken(to)));
                    }
                }
            }
        };
        Some(match (answer, self.wire.back(&self.peer, "entries accepted").await) {
            (Ok(answer), Ok(())) => Ok(answer),
            (Err(error), _) | (_, Err(error)) => Err(error),
        })
    }
}
