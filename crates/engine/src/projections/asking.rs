//! Asking a domain for something: the way of a command into the log, and of its answer back.
//!
//! Must not know: what commands mean.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gapless_projection::Command;
use gapless_types::IdempotencyKey;
use tokio::sync::oneshot;

use super::answers::{Asked, Told};
use super::request::encoded_bytes;
use super::slot::{DomainSlot, DomainState};
use super::{Asking, ProjectionError};
use crate::admission;
use crate::error::NotLeader;
use crate::node::Node;
use crate::proposing::Request;

/// Asks, and waits for the answer.
///
/// # Errors
/// If it was not asked, or nothing is known of what became of it.
pub(super) async fn ask(
    node: &Arc<Node>,
    slot: &Arc<DomainSlot>,
    command: &Command<'_>,
    patience: Duration,
) -> Result<Told, ProjectionError> {
    let command = Bytes::from(command.to_bytes());
    let asked = async {
        let answer = hand_over(node, slot, command).await?;
        answer.await.map_err(|_| unanswered(node, slot))
    };
    tokio::time::timeout(patience, asked).await.unwrap_or(Err(ProjectionError::DeadlineExceeded))
}

/// Hands a command over to the proposer.
async fn hand_over(
    node: &Arc<Node>,
    slot: &Arc<DomainSlot>,
    command: Bytes,
) -> Result<oneshot::Receiver<Told>, ProjectionError> {
    check(node, slot)?;
    let bytes = encoded_bytes(&slot.id, &command) as u64;
    let key = node.projections.next_key();
    let request = admission::Request { partition: slot.id.partition, bytes, key, client: &slot.id };
    let permit = node.admission.admit(request)?;
    let (reply, answer) = oneshot::channel();
    let asked = Asked { domain: slot.id.clone(), reply, permit };
    let sent = node.requests().send(Request::Domain(Asking { asked, command })).await;
    sent.map_err(|_| ProjectionError::Closing)?;
    Ok(answer)
}

/// Whether it can be asked for something.
fn check(node: &Node, slot: &DomainSlot) -> Result<(), ProjectionError> {
    if !*node.leads.borrow() {
        return Err(not_leading(node));
    }
    match &*slot.state.borrow() {
        DomainState::Serving | DomainState::CatchingUp | DomainState::Opening => Ok(()),
        DomainState::Failed(reason) | DomainState::Quarantined(reason) => {
            Err(ProjectionError::NotOpen { domain: slot.id.clone(), reason: reason.clone() })
        }
        DomainState::Closed => Err(ProjectionError::Closing),
    }
}

/// Nobody will answer: why.
fn unanswered(node: &Node, slot: &DomainSlot) -> ProjectionError {
    match check(node, slot) {
        Err(error) => error,
        Ok(()) => ProjectionError::Uncertain,
    }
}

pub(super) fn not_leading(node: &Node) -> ProjectionError {
    let leadership = node.replicator().leadership();
    let leadership = leadership.borrow();
    match &leadership.stopped {
        _ if *node.closing.borrow() => ProjectionError::Closing,
        Some(stopped) => ProjectionError::Stopped { reason: stopped.reason.clone() },
        None => NotLeader { leader: leadership.leader.clone() }.into(),
    }
}

/// A key for admission that no other request has: it knows by it who comes again.
pub(super) fn key_of(number: u64) -> IdempotencyKey {
    let mut bytes = *b"domain \0\0\0\0\0\0\0\0\0";
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    IdempotencyKey::new(bytes).expect("it does not consist of zeros")
}
