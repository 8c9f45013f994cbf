//! The calls of the service Admin that concern the members of a cluster. Each can be made again until it has succeeded: what was
//! done of it before is not done twice.
//!
//! ```text
//!  add:    learner, until it has caught up ──▶ voter        remove: voter or learner ──▶ no member
//! ```
//!
//! Must not know: how members are reached, how they agree.

use std::future::Future;
use std::time::Duration;

use gapless_engine::{ChangeError, NodeId, NotLeader, TransferError};

use crate::admin::AdminCalls;
use crate::check::Check;
use crate::problem::{Problem, ProblemKind};
use crate::v1;

/// Whether a node has connections to other ones. A cluster that takes in a member which nobody reaches stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherNodes {
    /// It runs alone.
    #[default]
    Unreachable,
    /// It has a network.
    Reachable,
}

/// What is said to those who ask for members where there can be none.
const ALONE: &str = "this server runs alone and reaches no other node; to run several, embed the engine and give it a network \
    (gapless_engine::Config::network)";

/// The answer is on its way before the caller's deadline.
const MARGIN: Duration = Duration::from_millis(50);

impl AdminCalls {
    /// Takes in a node: as a learner, and as a voter once it has caught up.
    ///
    /// # Errors
    /// If there are no other nodes, the id was in use, this node does not lead, or the new one does not catch up in time.
    pub async fn add_node(
        &self,
        request: &v1::AddNodeRequest,
        patience: Duration,
    ) -> Result<v1::AddNodeResponse, Problem> {
        let node = checked(request.node_id, Some(&request.address))?;
        self.need_other_nodes()?;
        let replicator = self.engine.replicator();
        let members = replicator.members();
        match members.address(node) {
            Some(address) if address != request.address => {
                let message = format!("node {node} is a member already, at {address}");
                return Err(Problem::new(ProblemKind::AlreadyExists, "NODE_EXISTS", message));
            }
            Some(_) if members.all_voters().contains(&node) => return Ok(v1::AddNodeResponse {}),
            Some(_) => {}
            None => {
                let learning = replicator.add_learner(node, request.address.clone());
                within(patience, node, learning).await??;
            }
        }
        let mut voters = replicator.members().all_voters();
        voters.insert(node);
        within(patience, node, replicator.change_voters(voters)).await??;
        Ok(v1::AddNodeResponse {})
    }

    /// Lets a node be no member any more.
    ///
    /// # Errors
    /// If there are no other nodes, it is no member or the last voter, or this node does not lead.
    pub async fn remove_node(
        &self,
        request: &v1::RemoveNodeRequest,
        patience: Duration,
    ) -> Result<v1::RemoveNodeResponse, Problem> {
        let node = checked(request.node_id, None)?;
        self.need_other_nodes()?;
        let replicator = self.engine.replicator();
        let members = replicator.members();
        let mut voters = members.all_voters();
        if voters.remove(&node) {
            if voters.is_empty() {
                let message = format!("node {node} is the only voter; add another one first");
                return Err(Problem::new(ProblemKind::Precondition, "LAST_VOTER", message));
            }
            within(patience, node, replicator.change_voters(voters)).await??;
        } else if members.learners().contains(&node) {
            within(patience, node, replicator.remove_learner(node)).await??;
        } else {
            return Err(no_member(node));
        }
        Ok(v1::RemoveNodeResponse {})
    }

    /// Lets another voter lead.
    ///
    /// # Errors
    /// If there are no other nodes, it is no voter, this node does not lead, or the other one does not take over.
    pub async fn transfer_leader(
        &self,
        request: &v1::TransferLeaderRequest,
    ) -> Result<v1::TransferLeaderResponse, Problem> {
        let node = checked(request.node_id, None)?;
        self.need_other_nodes()?;
        let replicator = self.engine.replicator();
        if replicator.members().address(node).is_none() {
            return Err(no_member(node));
        }
        if replicator.leadership().borrow().leader.as_ref().is_none_or(|leader| leader.node != node) {
            replicator.transfer_leadership(node).await?;
        }
        Ok(v1::TransferLeaderResponse {})
    }

    fn need_other_nodes(&self) -> Result<(), Problem> {
        match self.other_nodes {
            OtherNodes::Reachable => Ok(()),
            OtherNodes::Unreachable => Err(Problem::new(ProblemKind::Precondition, "NO_PEER_NETWORK", ALONE)),
        }
    }
}

fn checked(node: u64, address: Option<&str>) -> Result<NodeId, Problem> {
    let mut check = Check::default();
    if node == 0 {
        check.add("node_id", "the first one is 1");
    }
    if address.is_some_and(str::is_empty) {
        check.add("address", "where the node listens to its peers, such as 10.0.0.4:7401");
    }
    check.end()?;
    Ok(NodeId::new(node))
}

async fn within<T>(patience: Duration, node: NodeId, done: impl Future<Output = T>) -> Result<T, Problem> {
    tokio::time::timeout(patience.saturating_sub(MARGIN), done).await.map_err(|_| {
        let message = format!("node {node} is not there yet; the same call waits on");
        Problem::new(ProblemKind::Deadline, "NOT_CAUGHT_UP", message)
    })
}

fn no_member(node: NodeId) -> Problem {
    Problem::new(ProblemKind::NotFound, "NO_SUCH_NODE", format!("node {node} is no member"))
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        let message = error.to_string();
        match error {
            ChangeError::NotLeader { leader } => NotLeader { leader }.into(),
            ChangeError::IdUsed { .. } => Self::new(ProblemKind::AlreadyExists, "NODE_ID_USED", message),
            ChangeError::Members(_) => Self::violation("node", message),
            ChangeError::InProgress | ChangeError::Unknown => {
                Self::new(ProblemKind::Unavailable, "CHANGE_UNCERTAIN", message)
                    .after(Duration::from_millis(100))
            }
            ChangeError::NotMembers(_) | ChangeError::NotLearner(_) | ChangeError::Refused(_) => {
                Self::new(ProblemKind::Precondition, "CHANGE_REFUSED", message)
            }
            ChangeError::Stopped(_) => Self::new(ProblemKind::Unavailable, "NODE_STOPPED", message),
        }
    }
}

impl From<TransferError> for Problem {
    fn from(error: TransferError) -> Self {
        let message = error.to_string();
        match error {
            TransferError::NotLeader { leader } => NotLeader { leader }.into(),
            TransferError::NotVoter(_) => Self::new(ProblemKind::Precondition, "NOT_A_VOTER", message),
            TransferError::Behind(_) => Self::new(ProblemKind::Unavailable, "VOTER_BEHIND", message),
            TransferError::TimedOut(_) => Self::new(ProblemKind::Unavailable, "NOT_TAKEN_OVER", message),
            TransferError::Stopped(_) => Self::new(ProblemKind::Unavailable, "NODE_STOPPED", message),
        }
    }
}
