//! Where the cut goes, who drops out, and that nobody who needs something loses it unnamed.

use gapless_types::{NamespaceId, PartitionIndex};
use proptest::prelude::*;

use super::*;

/// A log of entries with one hundred bytes each.
struct Hundreds {
    end: u64,
}

impl RetainedLog for Hundreds {
    fn end(&self) -> LogIndex {
        LogIndex::new(self.end)
    }

    fn tail(&self) -> LogIndex {
        self.end()
    }

    fn bytes_from(&self, index: LogIndex) -> u64 {
        self.end.saturating_sub(index.get()) * 100
    }
}

fn index(value: u64) -> LogIndex {
    LogIndex::new(value)
}

fn partition(number: u16) -> PartitionId {
    PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(number) }
}

fn domain(number: u16) -> Domain {
    Domain { projection: Name::new("sales").unwrap(), version: 1, partition: partition(number) }
}

fn needs(partitions: &[u64], replicas: &[u64], acknowledgements: Option<u64>) -> Needs {
    let partitions = (0_u16..).zip(partitions).map(|(number, at)| (partition(number), index(*at)));
    let replicas = (1_u64..).zip(replicas).map(|(node, at)| (NodeId::new(node), index(*at)));
    Needs {
        partitions: partitions.collect(),
        replicas: replicas.collect(),
        acknowledgements: acknowledgements.map(index),
        domains: Vec::new(),
    }
}

const LOG: Hundreds = Hundreds { end: 100 };

#[test]
fn the_cut_is_what_nobody_needs() {
    let retention = Retention::new(index(1), None);
    let mut needs = needs(&[40, 30], &[60], Some(50));
    needs.domains.push((domain(0), index(35)));
    let cut = retention.cut(&needs, &LOG, Peers::Some);
    assert_eq!(cut.first_kept, index(30));
    assert_eq!(cut.held_by, [Holder::Partition(partition(1))]);
    assert_eq!((cut.dropped_out, cut.refuse_writes), (vec![], None));
    needs.partitions[1].1 = index(90);
    assert_eq!(retention.cut(&needs, &LOG, Peers::Some).held_by, [Holder::Domain(domain(0))]);
    let nobody = retention.cut(&Needs::default(), &LOG, Peers::Some);
    assert_eq!((nobody.first_kept, nobody.held_by), (index(100), vec![]));
}

#[test]
fn pins_hold_the_log_while_they_live_and_come_too_late_below_the_cut() {
    let retention = Retention::new(index(1), None);
    let mut reader = retention.pin(PinKind::Reader, index(10)).unwrap();
    let snapshot = retention.pin(PinKind::Snapshot, index(20)).unwrap();
    let cut = retention.cut(&Needs::default(), &LOG, Peers::Some);
    assert_eq!((cut.first_kept, cut.held_by), (index(10), vec![Holder::Pin(PinKind::Reader)]));
    reader.advance(index(50));
    reader.advance(index(5));
    let cut = retention.cut(&Needs::default(), &LOG, Peers::Some);
    assert_eq!((cut.first_kept, cut.held_by), (index(20), vec![Holder::Pin(PinKind::Snapshot)]));
    drop(snapshot);
    assert_eq!(retention.cut(&Needs::default(), &LOG, Peers::Some).first_kept, index(50));
    drop(reader);
    assert_eq!(retention.cut(&Needs::default(), &LOG, Peers::Some).first_kept, index(100));
    let late = PinRefused::TooLate { first_kept: index(100), wanted: index(99) };
    assert_eq!(retention.pin(PinKind::Reader, index(99)).unwrap_err(), late);
    let pins: Vec<Pin> = (0..MAX_PINS).map(|_| retention.pin(PinKind::Reader, index(100)).unwrap()).collect();
    assert_eq!(retention.pin(PinKind::Reader, index(100)).unwrap_err(), PinRefused::TooMany);
    drop(pins);
    assert!(retention.pin(PinKind::Reader, index(100)).is_ok());
}

#[test]
fn slow_replicas_drop_out_first_then_stuck_partitions_by_name() {
    // 20 entries may stay.
    let retention = Retention::new(index(1), Some(2000));
    let cut = retention.cut(&needs(&[85, 90], &[10, 82, 30], None), &LOG, Peers::Some);
    assert_eq!(cut.first_kept, index(82));
    let gone =
        vec![(Holder::Replica(NodeId::new(1)), index(10)), (Holder::Replica(NodeId::new(3)), index(30))];
    assert_eq!(cut.dropped_out, gone);
    assert_eq!(cut.refuse_writes, None);

    let retention = Retention::new(index(1), Some(2000));
    let cut = retention.cut(&needs(&[5, 90, 6], &[10], Some(50)), &LOG, Peers::Some);
    let gone: Vec<Holder> = cut.dropped_out.into_iter().map(|(holder, _)| holder).collect();
    let expected = [
        Holder::Replica(NodeId::new(1)),
        Holder::Acknowledgements,
        Holder::Partition(partition(0)),
        Holder::Partition(partition(2)),
    ];
    assert_eq!(gone, expected);
    assert_eq!((cut.first_kept, cut.refuse_writes), (index(90), None));
    let later = retention.cut(&needs(&[5, 95, 95], &[], None), &LOG, Peers::Some);
    assert_eq!(later.first_kept, index(95));
    assert_eq!(later.dropped_out, [(Holder::Partition(partition(0)), index(5))], "named until it is back");
}

#[test]
fn a_single_node_refuses_writes_and_keeps_everything() {
    let retention = Retention::new(index(1), Some(2000));
    let cut = retention.cut(&needs(&[5, 90], &[], None), &LOG, Peers::None);
    assert_eq!((cut.first_kept, &cut.dropped_out), (index(5), &vec![]));
    let refusal = cut.refuse_writes.unwrap();
    assert_eq!((refusal.bytes, refusal.max_bytes), (9500, 2000));
    assert_eq!(refusal.to_string(), "the replicated log has 9500 bytes of 2000, held by partition 1/0");
    assert_eq!(retention.cut(&needs(&[80, 90], &[], None), &LOG, Peers::None).refuse_writes, None);
}

#[test]
fn nobody_drops_out_in_vain() {
    let retention = Retention::new(index(1), Some(2000));
    let _pin = retention.pin(PinKind::Reader, index(7)).unwrap();
    let cut = retention.cut(&needs(&[5, 50], &[20], None), &LOG, Peers::Some);
    assert_eq!(cut.dropped_out, [(Holder::Partition(partition(0)), index(5))]);
    assert_eq!(cut.first_kept, index(7));
    assert_eq!(cut.refuse_writes.unwrap().held_by, [Holder::Pin(PinKind::Reader)]);
}

proptest! {
    /// TRUNC-1, whatever is needed, pinned and allowed.
    #[test]
    fn nobody_loses_what_he_needs_without_being_named(
        rounds in proptest::collection::vec(
            (proptest::collection::vec(0..100_u64, 0..4), proptest::collection::vec(0..100_u64, 0..3), proptest::option::of(0..100_u64), 0..100_u64),
            1..8,
        ),
        max_bytes in proptest::option::of(0..12_000_u64),
        alone in any::<bool>(),
    ) {
        let retention = Retention::new(index(0), max_bytes);
        let peers = if alone { Peers::None } else { Peers::Some };
        let mut pins = Vec::new();
        let mut last = index(0);
        for (partitions, replicas, acknowledgements, pin) in rounds {
            match retention.pin(PinKind::Reader, index(pin)) {
                Ok(pin) => pins.push(pin),
                Err(_) => prop_assert!(index(pin) < last),
            }
            let needs = needs(&partitions, &replicas, acknowledgements);
            let cut = retention.cut(&needs, &LOG, peers);
            prop_assert!(cut.first_kept >= last && cut.first_kept <= LOG.end());
            prop_assert!(pins.iter().all(|pin| pin.index() >= cut.first_kept));
            let named = |holder: Holder| cut.dropped_out.iter().any(|(name, _)| *name == holder);
            for (partition, at) in &needs.partitions {
                prop_assert!(*at >= cut.first_kept || named(Holder::Partition(*partition)));
            }
            for (node, at) in &needs.replicas {
                prop_assert!(*at >= cut.first_kept || named(Holder::Replica(*node)));
            }
            if let Some(max_bytes) = max_bytes {
                prop_assert_eq!(cut.refuse_writes.is_some(), LOG.bytes_from(cut.first_kept) > max_bytes);
            }
            if alone || max_bytes.is_none() {
                // Only what was lost before can be named.
                prop_assert!(cut.dropped_out.iter().all(|(_, at)| *at < last));
            }
            last = cut.first_kept;
            pins.truncate(2);
        }
    }
}
