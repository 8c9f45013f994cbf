//! Questions of this node's machine to those of others, over connections of their own.
//!
//! Must not know: what is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;

use super::Node;
use crate::error::AskError;
use crate::identity::{Identity, NodeId};
use crate::limits::MAX_QUESTION_BYTES;
use crate::message::{Request, Response};
use crate::network::{Channel, Link, LinkError, Network, Route};
use crate::replicator::Replicator;

/// Connections by node, each with the address that it was made to.
type Links = BTreeMap<NodeId, (String, Box<dyn Link>)>;

/// Connections to those who were asked.
pub(super) struct Asking {
    network: Arc<dyn Network>,
    links: Mutex<Links>,
}

impl Asking {
    pub(super) fn new(network: Arc<dyn Network>) -> Self {
        Self { network, links: Mutex::default() }
    }
}

impl Node {
    pub(super) async fn ask_machine(
        &self,
        node: NodeId,
        question: Bytes,
        patience: Duration,
    ) -> Result<Bytes, AskError> {
        if let Some(stopped) = self.stopped() {
            return Err(stopped.into());
        }
        if question.len() > MAX_QUESTION_BYTES {
            return Err(AskError::TooLong { bytes: question.len(), limit: MAX_QUESTION_BYTES });
        }
        let Identity { cluster, group, node: from } = self.0.identity;
        let address = self.members().addresses.remove(&node).filter(|_| node != from);
        let address = address.ok_or(AskError::NotMember(node))?;
        let mut links = self.0.asking.links.lock().await;
        // A member that moved is reached where it is now.
        links.retain(|known, (at, _)| *known != node || *at == address);
        let (_, link) = links.entry(node).or_insert_with(|| {
            let channel = Channel::Snapshots;
            let route = Route { cluster, group, from, to: node, address: address.clone(), channel };
            (address, self.0.asking.network.connect(route))
        });
        match link.call(Request::Ask(question), patience).await? {
            Response::Answer(answer) => Ok(answer),
            _ => Err(LinkError::Broken(node).into()),
        }
    }
}
