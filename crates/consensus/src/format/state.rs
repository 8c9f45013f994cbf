//! Values of the log's small state, which the log keeps through every release, with its checksums.
//!
//! ```text
//! key 1, vote:   | version: u8 | committed: u8 | reserved: 6 | term: u64 | node: u64 |
//! key 2, purged: | version: u8 | reserved: 7 | term: u64 | index: u64 |
//! ```

use gapless_log::StateKey;

use super::{FORMAT_VERSION, Input, Malformed, get_entry_id, get_version, put_entry_id};
use crate::identity::{NodeId, Term};
use crate::message::{EntryId, Vote};

/// The vote that was saved last.
pub(crate) const VOTE: StateKey = StateKey(1);
/// The last entry that was cut off.
pub(crate) const PURGED: StateKey = StateKey(2);

pub(crate) fn encode_vote(vote: Vote) -> Vec<u8> {
    let mut bytes = vec![FORMAT_VERSION, u8::from(vote.committed), 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&vote.term.get().to_le_bytes());
    bytes.extend_from_slice(&vote.node.get().to_le_bytes());
    bytes
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<Vote, Malformed> {
    let mut input = Input::new(bytes);
    get_version(&mut input)?;
    let committed = match input.u8()? {
        0 => false,
        1 => true,
        _ => return Err(Malformed("it is neither committed nor not")),
    };
    input.reserved(6)?;
    let vote = Vote { term: Term::new(input.u64()?), node: NodeId::new(input.u64()?), committed };
    input.end()?;
    Ok(vote)
}

pub(crate) fn encode_purged(id: EntryId) -> Vec<u8> {
    let mut bytes = vec![FORMAT_VERSION, 0, 0, 0, 0, 0, 0, 0];
    put_entry_id(&mut bytes, id);
    bytes
}

pub(crate) fn decode_purged(bytes: &[u8]) -> Result<EntryId, Malformed> {
    let mut input = Input::new(bytes);
    get_version(&mut input)?;
    input.reserved(7)?;
    let id = get_entry_id(&mut input)?;
    input.end()?;
    Ok(id)
}
