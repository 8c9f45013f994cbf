//! Every limit at and one beyond, fairness under floods, and that nothing leaks.

use std::sync::Arc;
use std::thread;

use gapless_types::{NamespaceId, PartitionIndex};
use proptest::prelude::*;

use super::*;
use crate::limits::SMALL_WRITE_BYTES;
use crate::log_time::Clock;
use crate::log_time::manual::ManualClock;

mod fairness;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn partition(number: u16) -> PartitionId {
    PartitionId { namespace: NamespaceId::new(1), index: PartitionIndex::new(number) }
}

/// Of somebody who asks for nothing else.
fn request(number: u16, bytes: u64, key: u64) -> Request<u64> {
    request_of(key, number, bytes, key)
}

fn request_of(client: u64, number: u16, bytes: u64, key: u64) -> Request<u64> {
    let mut key_bytes = [1; 16];
    key_bytes[..8].copy_from_slice(&key.to_le_bytes());
    Request { partition: partition(number), bytes, key: IdempotencyKey::new(key_bytes).unwrap(), client }
}

fn limits() -> AdmissionLimits {
    let budget = |operations, bytes| Budget { operations, bytes, age: 5 * SECOND, lag: 100 };
    AdmissionLimits {
        partition: budget(1000, 16 * MIB),
        node: budget(4000, 64 * MIB),
        ..AdmissionLimits::default()
    }
}

fn admission(limits: AdmissionLimits) -> (Admission, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    clock.advance(1000 * SECOND);
    (Admission::new(limits, clock.clone(), None).unwrap(), clock)
}

fn overloaded(result: Result<Permit, AdmissionError>) -> Overloaded {
    match result {
        Err(AdmissionError::Overloaded(overloaded)) => overloaded,
        other => panic!("expected an overload, found {other:?}"),
    }
}

#[test]
fn operations_of_a_partition_and_of_the_node_are_limited() {
    let mut limits = limits();
    limits.partition.operations = 3;
    limits.node.operations = 100;
    let (admission, _) = admission(limits);
    let permits: Vec<Permit> = (0..3).map(|key| admission.admit(request(0, 10, key)).unwrap()).collect();
    let refusal = overloaded(admission.admit(request(0, 10, 9)));
    assert_eq!((refusal.scope, refusal.limit), (Scope::Partition(partition(0)), Limit::Operations));
    assert_eq!((refusal.current, refusal.maximum), (4, 3));
    assert!(refusal.retry_after >= limits.min_retry && refusal.retry_after <= limits.max_retry);
    assert!(admission.admit(request(1, 10, 9)).is_ok(), "others have room");
    drop(permits);
    assert!(admission.admit(request(0, 10, 9)).is_ok());
    assert_eq!(admission.in_use(Scope::Node), (0, 0));
    assert!(admission.shared_partitions() == 0, "nothing is kept of partitions that nobody uses");
    assert_eq!(admission.shared_clients(), 0);
}

#[test]
fn bytes_of_a_partition_are_limited() {
    let (admission, _) = admission(limits());
    let fill = SMALL_WRITE_BYTES;
    let permits: Vec<Permit> =
        (0..16 * MIB / fill).map(|key| admission.admit(request(0, fill, key)).unwrap()).collect();
    let refusal = overloaded(admission.admit(request(0, 1, 9999)));
    let at = (Scope::Partition(partition(0)), Limit::Bytes, 16 * MIB + 1, 16 * MIB);
    assert_eq!((refusal.scope, refusal.limit, refusal.current, refusal.maximum), at);
    drop(permits);
    assert_eq!(admission.in_use(Scope::Partition(partition(0))), (0, 0));
}

#[test]
fn the_largest_write_is_admitted_and_one_byte_more_never() {
    let (admission, _) = admission(limits());
    let largest = MAX_COMMAND_BYTES as u64;
    assert!(admission.admit(request(0, largest, 1)).is_ok());
    let refusal = admission.admit(request(0, largest + 1, 1)).unwrap_err();
    assert_eq!(refusal, AdmissionError::TooLarge { bytes: largest + 1 });
}

#[test]
fn age_and_lag_are_limited_for_a_partition_and_for_the_node() {
    let (admission, clock) = admission(limits());
    let now = clock.monotonic();
    admission.report(partition(0), Backlog { oldest: Some(now), lag: 100 });
    clock.advance(5 * SECOND);
    assert!(admission.admit(request(0, 1, 1)).is_ok());
    clock.advance(Duration::from_millis(1));
    let refusal = overloaded(admission.admit(request(0, 1, 1)));
    assert_eq!((refusal.scope, refusal.limit), (Scope::Partition(partition(0)), Limit::Age));
    assert_eq!((refusal.current, refusal.maximum), (5001, 5000));
    assert!(admission.admit(request(1, 1, 1)).is_ok(), "ISO-1");
    admission.report(partition(0), Backlog { oldest: None, lag: 101 });
    let refusal = overloaded(admission.admit(request(0, 1, 1)));
    assert_eq!((refusal.limit, refusal.current, refusal.maximum), (Limit::Lag, 101, 100));
    admission.report(partition(0), Backlog::default());
    assert!(admission.admit(request(0, 1, 1)).is_ok());
    admission.report_node(Backlog { oldest: None, lag: 101 });
    let refusal = overloaded(admission.admit(request(1, 1, 1)));
    assert_eq!((refusal.scope, refusal.limit), (Scope::Node, Limit::Lag));
}

#[test]
fn a_partition_that_does_not_move_is_throttled_then_frozen_and_alone() {
    let (admission, clock) = admission(limits());
    admission.report(partition(0), Backlog { oldest: Some(clock.monotonic()), lag: 1 });
    clock.advance(60 * SECOND);
    assert_eq!(overloaded(admission.admit(request(0, 1, 1))).limit, Limit::Age);
    clock.advance(Duration::from_millis(1));
    let frozen = AdmissionError::Frozen { partition: partition(0) };
    assert_eq!(admission.admit(request(0, 1, 1)).unwrap_err(), frozen);
    assert!(admission.admit(request(1, 1, 1)).is_ok());
    admission.report(partition(0), Backlog::default());
    assert!(admission.admit(request(0, 1, 1)).is_ok());
    admission.set_frozen(partition(0), true);
    assert_eq!(admission.admit(request(0, 1, 1)).unwrap_err(), frozen);
    admission.set_frozen(partition(0), false);
    assert!(admission.admit(request(0, 1, 1)).is_ok());
    admission.set_frozen(partition(0), true);
    admission.forget(partition(0));
    assert!(admission.admit(request(0, 1, 1)).is_ok());
}

#[derive(Debug)]
struct DiskFull;

impl Signal for DiskFull {
    fn check(&self, partition: PartitionId) -> Result<(), Overloaded> {
        let (scope, limit) = (Scope::Node, Limit::Signal("disk"));
        let full = Overloaded { scope, limit, current: 99, maximum: 90, retry_after: SECOND };
        if partition == self::partition(0) { Err(full) } else { Ok(()) }
    }
}

#[test]
fn a_signal_refuses_with_its_own_name() {
    let clock = Arc::new(ManualClock::default());
    let admission = Admission::new(limits(), clock, Some(Arc::new(DiskFull))).unwrap();
    let refusal = overloaded(admission.admit(request(0, 1, 1)));
    assert_eq!((refusal.limit, refusal.retry_after), (Limit::Signal("disk"), SECOND));
    assert!(admission.admit(request(1, 1, 1)).is_ok());
}

#[test]
fn limits_that_would_never_let_something_in_are_refused() {
    assert_eq!(AdmissionLimits::default().check(), Ok(()));
    let mut small = limits();
    small.partition.bytes = 2 * MAX_COMMAND_BYTES as u64 - 1;
    assert!(matches!(small.check(), Err(LimitsError::Bytes { .. })));
    let mut none = limits();
    none.node.operations = 1;
    assert_eq!(none.check(), Err(LimitsError::Operations));
    let retry = AdmissionLimits { min_retry: 9 * SECOND, ..limits() };
    assert_eq!(retry.check(), Err(LimitsError::Retry));
}

#[test]
fn large_writes_leave_room_for_small_ones() {
    let (admission, _) = admission(limits());
    let mut large = Vec::new();
    let mut key = 0;
    while let Ok(permit) = admission.admit(request(0, 4 * MIB, key)) {
        large.push(permit);
        key += 1;
    }
    assert_eq!(large.len(), 3, "three quarters of 16 MiB");
    // Also with a claim open.
    let small: Vec<_> =
        (0..64).map(|at| admission.admit(request(0, SMALL_WRITE_BYTES, 1000 + at)).unwrap()).collect();
    assert_eq!(small.len() as u64 * SMALL_WRITE_BYTES, 4 * MIB);
}

/// Small writes take every byte that comes free, first come first served; one large write comes back as it is told to.
#[test]
fn small_writes_do_not_keep_a_large_one_out_for_ever() {
    for partitions in [1_u16, 8, 64] {
        let (admission, clock) = admission(limits());
        let mut key = 0;
        let mut in_use = std::collections::VecDeque::new();
        let mut flood = |in_use: &mut std::collections::VecDeque<Permit>| {
            for number in (0..partitions).cycle().take(2000) {
                key += 1;
                if let Ok(permit) = admission.admit(request(number, SMALL_WRITE_BYTES, key)) {
                    in_use.push_back(permit);
                }
            }
        };
        flood(&mut in_use);
        let mut tries = 0;
        let permit = loop {
            tries += 1;
            match admission.admit(request(0, 4 * MIB, u64::MAX)) {
                Ok(permit) => break permit,
                Err(AdmissionError::Overloaded(refusal)) => {
                    // The engine answers a part of what is in it; whatever came free is asked for at once.
                    clock.advance(refusal.retry_after);
                    in_use.drain(..in_use.len().min(64));
                    flood(&mut in_use);
                }
                Err(other) => panic!("{other}"),
            }
            assert!(tries < 50, "a large write starves beside {partitions} partitions");
        };
        drop(permit);
        assert!(!in_use.is_empty(), "the small ones went on");
    }
}

#[test]
fn a_claim_ends_when_its_owner_does_not_come_back() {
    let (admission, clock) = admission(limits());
    let fill = |first: u64| -> Vec<Permit> {
        (0..).map_while(|at| admission.admit(request(0, SMALL_WRITE_BYTES, first + at)).ok()).collect()
    };
    let before = fill(0);
    assert!(admission.admit(request(0, 4 * MIB, u64::MAX)).is_err());
    drop(before);
    let claimed = fill(1000);
    assert_eq!(claimed.len() as u64 * SMALL_WRITE_BYTES, 12 * MIB, "4 MiB wait for their owner");
    clock.advance(2 * limits().max_retry + Duration::from_millis(1));
    let rest = fill(2000);
    assert_eq!(rest.len() as u64 * SMALL_WRITE_BYTES, 4 * MIB);
}

#[test]
fn a_busy_partition_leaves_room_for_the_others() {
    let mut limits = limits();
    limits.partition.bytes = 64 * MIB;
    let (admission, _) = admission(limits);
    let fill = |number: u16| -> Vec<Permit> {
        (0..).map_while(|key| admission.admit(request(number, SMALL_WRITE_BYTES, key)).ok()).collect()
    };
    let first = fill(0);
    assert_eq!(first.len(), 683, "two thirds of 1024, of many clients");
    let refusal = overloaded(admission.admit(request(0, SMALL_WRITE_BYTES, u64::MAX)));
    assert_eq!((refusal.scope, refusal.limit), (Scope::Partition(partition(0)), Limit::Share));
    let second = fill(1);
    assert_eq!(second.len(), 228, "two thirds of the rest");
    assert!(admission.admit(request(2, SMALL_WRITE_BYTES, 1)).is_ok());
}

#[test]
fn permits_come_back_from_every_thread_and_every_panic() {
    let (admission, _) = admission(limits());
    thread::scope(|scope| {
        for number in 0..4 {
            let admission = &admission;
            scope.spawn(move || {
                for key in 0..2000 {
                    let _ = admission.admit(request(number % 2, key * 997 % (5 * MIB), key));
                }
            });
        }
    });
    let in_panic = admission.clone();
    let panicked = thread::spawn(move || {
        let _permit = in_panic.admit(request(0, 10, u64::MAX)).unwrap();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(admission.in_use(Scope::Node), (0, 0));
    assert_eq!(admission.in_use(Scope::Partition(partition(0))), (0, 0));
}

proptest! {
    /// Whatever comes and goes: pools count exactly what is held, and are never overdrawn.
    #[test]
    fn pools_count_what_is_held(
        steps in proptest::collection::vec((0..3_u16, 0..5 * MIB, 0..20_u64, any::<bool>(), 0..3000_u64, 0..4_u64), 1..200),
    ) {
        let (admission, clock) = admission(limits());
        let mut held: Vec<(u16, u64, u64, Permit)> = Vec::new();
        for (number, bytes, key, leave, passes, client) in steps {
            clock.advance(Duration::from_millis(passes));
            if leave && !held.is_empty() {
                let at = usize::try_from(bytes)? % held.len();
                drop(held.swap_remove(at));
            } else if let Ok(permit) = admission.admit(request_of(client, number, bytes, key)) {
                held.push((number, bytes, client, permit));
            }
            let sum = |of: Option<u16>| held.iter().filter(|(number, ..)| of.is_none_or(|of| of == *number))
                .fold((0, 0), |(count, sum), (_, bytes, ..)| (count + 1, sum + bytes));
            let clients: std::collections::BTreeSet<(u16, u64)> =
                held.iter().map(|(number, _, client, _)| (*number, *client)).collect();
            prop_assert_eq!(admission.shared_clients(), clients.len());
            prop_assert_eq!(admission.in_use(Scope::Node), sum(None));
            for number in 0..3 {
                let used = admission.in_use(Scope::Partition(partition(number)));
                prop_assert_eq!(used, sum(Some(number)));
                prop_assert!(used.1 <= 16 * MIB);
            }
        }
        held.clear();
        clock.advance(100 * SECOND);
        // All claims have ended: the largest write finds room at once.
        prop_assert!(admission.admit(request(0, MAX_COMMAND_BYTES as u64, u64::MAX)).is_ok());
        prop_assert_eq!(admission.shared_partitions(), 0);
        prop_assert_eq!(admission.shared_clients(), 0);
    }
}
