//! Members of a group.
//!
//! ```text
//! | voter sets: u8 | set: | voters: u16 | node: u64 ... | ... | members: u16 | node: u64 | length: u16 | address | ... |
//! ```
//!
//! Nodes ascend in every set and in the list, so that the same members have one encoding.

use std::collections::{BTreeMap, BTreeSet};

use super::{Input, Malformed, count16};
use crate::identity::NodeId;
use crate::limits::{MAX_ADDRESS_BYTES, MAX_MEMBERS};
use crate::members::Members;

pub(crate) fn put(bytes: &mut Vec<u8>, members: &Members) {
    bytes.push(u8::try_from(members.voters.len()).expect("a joint configuration has a few sets"));
    for set in &members.voters {
        bytes.extend_from_slice(&count16(set.len()));
        for node in set {
            bytes.extend_from_slice(&node.get().to_le_bytes());
        }
    }
    bytes.extend_from_slice(&count16(members.addresses.len()));
    for (node, address) in &members.addresses {
        bytes.extend_from_slice(&node.get().to_le_bytes());
        bytes.extend_from_slice(&count16(address.len()));
        bytes.extend_from_slice(address.as_bytes());
    }
}

pub(crate) fn get(input: &mut Input<'_>) -> Result<Members, Malformed> {
    let mut members = Members::default();
    for _ in 0..input.u8()? {
        let count = count(input)?;
        let mut set = BTreeSet::new();
        for _ in 0..count {
            ascending(set.last(), NodeId::new(input.u64()?)).map(|node| set.insert(node))?;
        }
        if set.is_empty() {
            return Err(Malformed("a set of voters is empty"));
        }
        members.voters.push(set);
    }
    let mut addresses = BTreeMap::new();
    for _ in 0..count(input)? {
        let node = ascending(addresses.last_key_value().map(|(node, _)| node), NodeId::new(input.u64()?))?;
        let length = usize::from(input.u16()?);
        if length > MAX_ADDRESS_BYTES {
            return Err(Malformed("an address is too long"));
        }
        let address =
            std::str::from_utf8(input.take(length)?).map_err(|_| Malformed("an address is no text"))?;
        addresses.insert(node, address.to_owned());
    }
    if members.voters.iter().flatten().any(|voter| !addresses.contains_key(voter)) {
        return Err(Malformed("a voter has no address"));
    }
    members.addresses = addresses;
    Ok(members)
}

fn count(input: &mut Input<'_>) -> Result<usize, Malformed> {
    match usize::from(input.u16()?) {
        count if count <= MAX_MEMBERS => Ok(count),
        _ => Err(Malformed("there are too many members")),
    }
}

fn ascending(last: Option<&NodeId>, node: NodeId) -> Result<NodeId, Malformed> {
    match last {
        Some(last) if *last >= node => Err(Malformed("members do not ascend")),
        _ => Ok(node),
    }
}
