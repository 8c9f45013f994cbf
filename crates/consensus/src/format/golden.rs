//! Every encoding, byte for byte as `docs/format.md` draws it; and decoders that take anything.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gapless_log::LogId;
use gapless_types::{GroupId, LogIndex};
use proptest::prelude::*;

use super::control::{Control, Standing};
use super::snapshot::{BodyChecksum, SnapshotHeader};
use super::{entry, state};
use crate::identity::{ClusterId, Identity, NodeId, Term};
use crate::machine::CommittedBody;
use crate::members::Members;
use crate::message::{Entry, EntryId, Vote};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes in hexadecimal digits, with any space between them.
fn golden(digits: &str) -> String {
    digits.split_whitespace().collect()
}

fn at(term: u64, index: u64) -> EntryId {
    EntryId { term: Term::new(term), index: LogIndex::new(index) }
}

fn members() -> Members {
    let voters = vec![BTreeSet::from([NodeId::new(1)]), BTreeSet::from([NodeId::new(1), NodeId::new(2)])];
    let addresses = [(1, "a:1"), (2, "b:2"), (3, "c:3")];
    let addresses = addresses.map(|(node, address)| (NodeId::new(node), address.to_owned()));
    Members { voters, addresses: BTreeMap::from(addresses) }
}

const MEMBERS: &str = "02 0100 0100000000000000 0200 0100000000000000 0200000000000000
    0300 0100000000000000 0300 613a31 0200000000000000 0300 623a32 0300000000000000 0300 633a33";

fn control() -> Control {
    let identity = Identity {
        cluster: ClusterId::from_bytes(*b"the cluster's id"),
        group: GroupId::new(5),
        node: NodeId::new(3),
    };
    let snapshot = Standing {
        last: Some(at(2, 9)),
        members_at: Some(at(1, 4)),
        members: members(),
        highest_node: NodeId::new(7),
    };
    Control {
        identity,
        log: LogId::from_bytes(*b"the log's own id"),
        changes: vec![LogIndex::new(11), LogIndex::new(12)],
        snapshot,
        installing: Some(Standing::default()),
    }
}

#[test]
fn entries_have_their_golden_bytes() {
    let bodies = [
        (CommittedBody::Blank, "0101000000000000 0600000000000000".to_owned()),
        (CommittedBody::Members(members()), format!("0102000000000000 0600000000000000 {MEMBERS}")),
        (CommittedBody::Entry(Bytes::from("abc")), "0103000000000000 0600000000000000 616263".to_owned()),
    ];
    for (body, expected) in bodies {
        let entry = Entry { id: at(6, 8), body };
        let encoded = entry::encode(&entry);
        assert_eq!(hex(&encoded), golden(&expected));
        assert_eq!(entry::decode(LogIndex::new(8), &Bytes::from(encoded)), Ok(entry));
    }
}

#[test]
fn small_state_has_its_golden_bytes() {
    let vote = Vote { term: Term::new(6), node: NodeId::new(2), committed: true };
    let encoded = state::encode_vote(vote);
    assert_eq!(hex(&encoded), golden("0101000000000000 0600000000000000 0200000000000000"));
    assert_eq!(state::decode_vote(&encoded), Ok(vote));
    let encoded = state::encode_purged(at(6, 8));
    assert_eq!(hex(&encoded), golden("0100000000000000 0600000000000000 0800000000000000"));
    assert_eq!(state::decode_purged(&encoded), Ok(at(6, 8)));
}

#[test]
fn the_control_file_has_its_golden_bytes() {
    let encoded = control().encode();
    let expected = format!(
        "4741504c4553534e 93a6dbae 01 01 0200
         74686520636c757374657227732069 64 05000000 00000000 0300000000000000
         746865206c6f672773206f776e206964 0b00000000000000 0c00000000000000
         0101000000000000 0200000000000000 0900000000000000 0100000000000000 0400000000000000 0700000000000000 {MEMBERS}
         0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 00 0000"
    );
    assert_eq!(hex(&encoded), golden(&expected));
    assert_eq!(Control::decode(&encoded), Ok(control()));
}

#[test]
fn a_snapshot_has_its_golden_bytes() {
    let header = SnapshotHeader::new(&control().identity, control().snapshot);
    let header = header.behind(&Bytes::from_static(b"held"));
    let encoded = header.encode();
    let expected = format!(
        "4741504c45535353 4aa7ff4c 02 000000 74686520636c757374657227732069 64 05000000 00000000
         0101000000000000 0200000000000000 0900000000000000 0100000000000000 0400000000000000 0700000000000000 {MEMBERS}
         04000000 68656c64"
    );
    assert_eq!(hex(&encoded), golden(&expected));
    assert_eq!(SnapshotHeader::decode(&encoded), Ok(header));

    let mut checksum = BodyChecksum::default();
    assert_eq!(hex(&checksum.add(b"abc")), golden("03000000 b73f4b36"));
    assert_eq!(hex(&checksum.end()), golden("00000000 ca4067a0 0300000000000000"));
}

/// Whatever decodes is what its bytes say, and nothing else has the same bytes.
fn assert_canonical(bytes: &[u8]) {
    if let Ok(vote) = state::decode_vote(bytes) {
        assert_eq!(state::encode_vote(vote), bytes);
    }
    if let Ok(purged) = state::decode_purged(bytes) {
        assert_eq!(state::encode_purged(purged), bytes);
    }
    if let Ok(control) = Control::decode(bytes) {
        assert_eq!(control.encode(), bytes);
    }
    if let Ok(header) = SnapshotHeader::decode(bytes) {
        assert_eq!(header.encode(), bytes);
    }
    if let Ok(entry) = entry::decode(LogIndex::new(1), &Bytes::copy_from_slice(bytes)) {
        assert_eq!(entry::encode(&entry), bytes);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_canonical(&bytes);
    }

    #[test]
    fn changed_bytes_decode_to_what_they_say_or_to_nothing(
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        which in 0..2_usize,
    ) {
        let entry = Entry { id: at_entry(), body: CommittedBody::Members(members()) };
        let mut bytes = [entry::encode(&entry), state::encode_vote(vote())][which].clone();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        assert_canonical(&bytes);
    }
}

fn at_entry() -> EntryId {
    at(3, 1)
}

fn vote() -> Vote {
    Vote { term: Term::new(1), node: NodeId::new(1), committed: false }
}
