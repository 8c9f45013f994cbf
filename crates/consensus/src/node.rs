//! A node: consensus over its log, its network and its machine, behind the one trait that the engine sees.
//!
//! Must not know: what entries mean; sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use gapless_log::io::Io;
use gapless_types::mistakes::{Mistake, makes};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use openraft::{Raft, RaftState};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::{OpenError, Stopped};
use crate::hearing::Hearing;
use crate::identity::{Identity, Term};
use crate::machine::Machine;
use crate::network::adapter::Factory;
use crate::network::inbound::Reception;
use crate::network::quiet::Quiet;
use crate::network::{Inbound, Network};
use crate::open::{Config, Found, Start, open};
use crate::probation::{Officer, Probation};
use crate::raft::{self, Address, Group};
use crate::replicator::{Leadership, Replicator};
use crate::settings::Settings;
use crate::storage::blocking::blocking;
use crate::storage::log_store::LogStore;
use crate::storage::state_machine::StateMachine;
use crate::watcher::{Watcher, stop};
use crate::watermarks::Watermarks;

mod asking;
mod handover;
mod replicate;

use asking::Asking;

/// A node of a group. Clones are handles to the same; the last one does not close it, [`Replicator::close`] does.
#[derive(Clone)]
pub struct Node(Arc<Handle>);

struct Handle {
    identity: Identity,
    settings: Settings,
    raft: Raft<Group, StateMachine>,
    store: LogStore,
    state_machine: StateMachine,
    watermarks: Arc<Watermarks>,
    leadership: Arc<watch::Sender<Leadership>>,
    reception: Arc<Reception>,
    watcher: AbortHandle,
    /// Ends a probation, if there is one.
    officer: OnceLock<AbortHandle>,
    asking: Asking,
}

impl Node {
    /// Opens a node on a disk, and lets it take part. Needs a tokio runtime with time.
    ///
    /// The node answers to nobody until the transport is given [`Node::inbound`].
    pub async fn open(
        io: Arc<dyn Io>,
        network: Arc<dyn Network>,
        machine: Arc<dyn Machine>,
        config: Config,
    ) -> Result<Self, OpenError> {
        let mut raft_config = config.settings.raft_config()?;
        if let Start::Found(members) = &config.start {
            members.check()?;
        }
        let opening = {
            let (io, config, machine) = (io.clone(), config.clone(), machine.clone());
            move || open(&io, &config, &*machine)
        };
        let Found { store, control, standing } = blocking(config.log.drive, opening).await?;
        let (identity, settings) = (config.identity, config.settings);
        let watermarks = Arc::new(Watermarks::new(standing.last));
        let state_machine = StateMachine::new(machine.clone(), control, standing, watermarks.clone());
        let suspect = store.suspect().filter(|_| !makes(Mistake::VoteWithLostTail));
        let probation = Probation::new(suspect);
        raft_config.enable_elect = probation.suspect().is_none();
        let raft_config = Arc::new(raft_config);
        let quiet = Arc::new(Quiet::new(settings.lease()));
        let (patience, its) = (settings.patience(), quiet.clone());
        let factory = Factory { network: network.clone(), identity, patience, quiet: its };
        let opened = Raft::new(identity.node, raft_config, factory, store.clone(), state_machine.clone());
        let raft = raft::seeded(settings.seed, opened).await.map_err(|fatal| raft::stopped(&fatal))?;
        quiet.watch(raft.metrics());

        let leadership = Arc::new(watch::Sender::new(Leadership::default()));
        let hearing = Arc::new(Hearing::new(settings.hearing()));
        let mut watcher = Watcher {
            node: identity.node,
            raft: raft.clone(),
            metrics: raft.metrics(),
            store: store.clone(),
            watermarks: watermarks.clone(),
            leadership: leadership.clone(),
            hearing: hearing.clone(),
            elected: Term::default(),
        };
        watcher.tell();
        let watcher = tokio::spawn(watcher.run()).abort_handle();
        let reception = Arc::new(Reception {
            raft: raft.clone(),
            identity,
            io,
            dir: config.dir,
            store: store.clone(),
            probation: probation.clone(),
            hearing,
            machine,
            seed: settings.seed,
            receiving: Arc::default(),
        });
        let node = Self(Arc::new(Handle {
            identity,
            settings,
            raft,
            store,
            state_machine,
            watermarks,
            leadership,
            reception,
            watcher,
            officer: OnceLock::new(),
            asking: Asking::new(network.clone()),
        }));
        node.begin(config.start).await?;
        node.watch_probation(probation, network);
        Ok(node)
    }

    /// Founds the group if there is none, and leads at once if nobody else can.
    async fn begin(&self, start: Start) -> Result<(), Stopped> {
        let raft = &self.0.raft;
        let fatal = |fatal| raft::stopped(&fatal);
        if let Start::Found(members) = start
            && !raft.is_initialized().await.map_err(fatal)?
        {
            let nodes = members.addresses.into_iter().map(|(node, address)| (node, Address(address)));
            let nodes: BTreeMap<_, _> = nodes.collect();
            match raft.initialize(nodes).await {
                // Somebody else was faster, and this node has its entry already.
                Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
                Err(RaftError::APIError(InitializeError::NotInMembers(error))) => {
                    return Err(Stopped { reason: error.to_string().into() });
                }
                Err(RaftError::Fatal(error)) => return Err(raft::stopped(&error)),
            }
        }
        self.members_are_known().await?;
        if self.members().all_voters() == BTreeSet::from([self.0.identity.node]) {
            raft.trigger().elect(false).await.map_err(fatal)?;
        }
        Ok(())
    }

    /// The library says who the members are a moment after it has started: nobody should see a group without any.
    async fn members_are_known(&self) -> Result<(), Stopped> {
        let in_force = |state: &RaftState<Group>| *state.membership_state.effective().log_id();
        let in_force = self.0.raft.with_raft_state(in_force).await.map_err(|fatal| raft::stopped(&fatal))?;
        let mut metrics = self.0.raft.metrics();
        loop {
            {
                let now = metrics.borrow_watched();
                if *now.membership_config.log_id() >= in_force {
                    return Ok(());
                }
                // It may stop before it has said so, and says nothing more then.
                if let Err(fatal) = &now.running_state {
                    return Err(raft::stopped(fatal));
                }
            }
            metrics.changed().await.map_err(|_| closed())?;
        }
    }

    fn watch_probation(&self, probation: Probation, network: Arc<dyn Network>) {
        if probation.suspect().is_none() {
            return;
        }
        let handle = &self.0;
        let officer = Officer {
            probation,
            identity: handle.identity,
            network,
            raft: handle.raft.clone(),
            store: handle.store.clone(),
            leadership: handle.leadership.subscribe(),
            progress: handle.watermarks.progress.subscribe(),
            metrics: handle.raft.metrics(),
            patience: handle.settings.election_timeout,
        };
        let officer = tokio::spawn(officer.run()).abort_handle();
        handle.officer.set(officer).expect("a node is opened once");
    }

    /// Ends the tasks of the node.
    fn end_tasks(&self) {
        self.0.watcher.abort();
        if let Some(officer) = self.0.officer.get() {
            officer.abort();
        }
    }

    /// Who the node is.
    pub fn identity(&self) -> Identity {
        self.0.identity
    }

    /// What the node offers to the transport that serves it.
    pub fn inbound(&self) -> Arc<dyn Inbound> {
        self.0.reception.clone()
    }

    /// Ends the node without a word, as if its process had died: what is queued is not written. For tests.
    pub async fn kill(&self) {
        stop(&self.0.leadership, "killed");
        self.0.state_machine.close();
        self.0.store.log.abandon();
        let _ = self.0.raft.shutdown().await;
        self.end_tasks();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Node")
            .field("identity", &self.0.identity)
            .field("leadership", &*self.0.leadership.borrow())
            .field("progress", &*self.0.watermarks.progress.borrow())
            .finish_non_exhaustive()
    }
}

fn closed() -> Stopped {
    Stopped { reason: "closed".into() }
}
