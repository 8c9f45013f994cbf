//! What becomes of a proposal.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use gapless_types::LogIndex;
use tokio::sync::oneshot;

use crate::identity::NodeId;

/// A node that leads, as far as is known, and where to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Which node.
    pub node: NodeId,
    /// Its address.
    pub address: String,
}

/// Why a proposal is not known to be committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// This node does not lead, or can no longer reach a quorum. Certainly not appended.
    #[error("this node does not lead{}", known(.leader.as_ref()))]
    NotLeader {
        /// Who does, if anybody is known to.
        leader: Option<Leader>,
    },
    /// Too many proposals wait. Certainly not appended.
    #[error("too many proposals wait to be taken up")]
    Busy,
    /// Longer than an entry may be. Certainly not appended.
    #[error("an entry of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The longest there may be.
        limit: usize,
    },
    /// The node has stopped. Certainly not appended.
    #[error("the node has stopped")]
    Stopped,
    /// Appended, and then leadership or the node was lost: it may be committed, or become so, or never.
    #[error("the proposal was appended, but nobody knows whether it will be committed")]
    Unknown,
}

impl Refusal {
    /// Whether the entry is certainly in no log, so that proposing it again cannot make it happen twice.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// Names the leader at the end of a message.
pub(crate) fn known(leader: Option<&Leader>) -> String {
    leader.map_or_else(String::new, |leader| format!("; node {} at {} does", leader.node, leader.address))
}

/// A claim on a proposal's outcome: the index it was committed at, or why it was not. Dropping it takes nothing back.
#[derive(Debug)]
#[must_use = "nothing is known to be committed before the ticket is ready"]
pub struct ProposalTicket(State);

#[derive(Debug)]
enum State {
    Refused(Refusal),
    Waiting(oneshot::Receiver<Result<LogIndex, Refusal>>),
}

impl ProposalTicket {
    /// A ticket that is settled through `outcome`. If its sender is dropped, the outcome is [`Refusal::Unknown`].
    pub fn new(outcome: oneshot::Receiver<Result<LogIndex, Refusal>>) -> Self {
        Self(State::Waiting(outcome))
    }

    /// A ticket that was refused at once.
    pub fn refused(refusal: Refusal) -> Self {
        Self(State::Refused(refusal))
    }
}

impl Future for ProposalTicket {
    type Output = Result<LogIndex, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Refused(refusal) => Poll::Ready(Err(refusal.clone())),
            State::Waiting(outcome) => {
                Pin::new(outcome).poll(context).map(|settled| settled.unwrap_or(Err(Refusal::Unknown)))
            }
        }
    }
}
