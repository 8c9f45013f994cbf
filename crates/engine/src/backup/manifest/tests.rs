//! The manifest as bytes: what is written is read again, the bytes stay what they are, and no flipped bit passes.

use super::*;
use crate::catalog::encode_catalog;

fn partition(namespace: u32, index: u16) -> PartitionId {
    PartitionId { namespace: NamespaceId::new(namespace), index: PartitionIndex::new(index) }
}

fn file(what: What, first: u64, last: u64) -> FileEntry {
    FileEntry { what, first, last, length: 24 + last, digest: [7; DIGEST_BYTES] }
}

fn example() -> Manifest {
    let domain = Domain { projection: Name::new("totals").unwrap(), version: 2, partition: partition(16, 0) };
    let stored = StoredCatalog { covered: Some(LogIndex::new(9)), ..StoredCatalog::default() };
    Manifest {
        cluster: ClusterId::from_bytes(*b"the cluster's id"),
        group: GroupId::new(0),
        node: NodeId::new(3),
        number: 2,
        added_bytes: 1234,
        index: LogIndex::new(9),
        term: Term::new(4),
        time: LogTime::from_millis(1000).unwrap(),
        made_at: 2000,
        previous: Some(LogIndex::new(5)),
        members: vec![Member { node: NodeId::new(3), votes: true, address: "three:7400".to_owned() }],
        catalog: encode_catalog(&stored).into(),
        partitions: vec![(partition(16, 0), 7), (partition(16, 1), 0)],
        files: vec![
            file(What::Outcomes(partition(16, 0)), 1, 4),
            file(What::Outcomes(partition(16, 0)), 5, 7),
            file(What::Entries, 6, 9),
            file(What::Rows(domain), 8, 0),
        ],
    }
}

#[test]
fn a_manifest_has_the_bytes_that_it_always_had() {
    let bytes = example().encode();
    assert_eq!(Manifest::decode(&bytes), Ok(example()));
    let digest: [u8; 32] = Sha256::digest(&bytes).into();
    let shown: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (bytes.len(), shown.as_str()),
        (536, "34a7c33e7fd74063804ff2d421025bd084472982a52fb926c7ee00d0913f1c9f")
    );
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let bytes = example().encode();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&bytes).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let refused = |change: fn(&mut Manifest)| {
        let mut manifest = example();
        change(&mut manifest);
        Manifest::decode(&manifest.encode()).unwrap_err().0
    };
    assert_eq!(refused(|it| it.files.swap(0, 1)), "its files are not in order");
    assert_eq!(refused(|it| it.partitions.swap(0, 1)), "its partitions are not in order");
    assert_eq!(refused(|it| drop(it.files.remove(0))), "outcomes of a partition are missing");
    assert_eq!(refused(|it| it.files[1].first = 6), "outcomes of a partition are missing");
    assert_eq!(
        refused(|it| it.partitions = it.partitions.split_off(1)),
        "it has outcomes of a partition that it does not list"
    );
    assert_eq!(refused(|it| it.previous = None), "entries are missing");
    assert_eq!(refused(|it| it.index = LogIndex::new(10)), "entries are missing");
}
