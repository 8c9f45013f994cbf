//! Clients beside each other in one partition: whoever floods, the others come in.

use std::collections::VecDeque;

use super::*;

/// Two clients: one that asks for whatever comes free before anybody else does, and one that comes now and then.
const GREEDY: u64 = 1;
const MODEST: u64 = 2;

/// Asks until it is refused. Every request has a key of its own.
fn fill(admission: &Admission, client: u64, number: u16, bytes: u64, keys: &mut u64) -> Vec<Permit> {
    let mut next = || {
        *keys += 1;
        admission.admit(request_of(client, number, bytes, *keys)).ok()
    };
    std::iter::from_fn(&mut next).collect()
}

fn only_operations(operations: u64) -> AdmissionLimits {
    let mut limits = limits();
    limits.partition.operations = operations;
    limits
}

#[test]
fn one_client_holds_three_quarters_and_leaves_the_rest_to_others() {
    let (admission, _) = admission(only_operations(64));
    let mut keys = 0;
    let greedy = fill(&admission, GREEDY, 0, 10, &mut keys);
    assert_eq!(greedy.len(), 48);
    let refusal = overloaded(admission.admit(request_of(GREEDY, 0, 10, u64::MAX)));
    assert_eq!((refusal.scope, refusal.limit), (Scope::Partition(partition(0)), Limit::Client));
    assert_eq!((refusal.current, refusal.maximum), (49, 48));
    assert!(refusal.retry_after >= limits().min_retry && refusal.retry_after <= limits().max_retry);
    assert!(admission.admit(request_of(GREEDY, 1, 10, u64::MAX)).is_ok(), "it is so in this partition alone");
    let modest = fill(&admission, MODEST, 0, 10, &mut keys);
    assert_eq!(modest.len(), 12, "three quarters of what was left");
    assert!(admission.admit(request(0, 10, u64::MAX)).is_ok(), "and there is room for a third");
    drop((greedy, modest));
    assert_eq!(admission.shared_clients(), 0);
}

#[test]
fn bytes_are_shared_like_operations() {
    let (admission, _) = admission(limits());
    let mut keys = 0;
    let greedy = fill(&admission, GREEDY, 0, SMALL_WRITE_BYTES, &mut keys);
    assert_eq!(greedy.len() as u64 * SMALL_WRITE_BYTES, 12 * MIB, "three quarters of 16 MiB");
    assert_eq!(
        overloaded(admission.admit(request_of(GREEDY, 0, SMALL_WRITE_BYTES, u64::MAX))).limit,
        Limit::Client
    );
    let modest = fill(&admission, MODEST, 0, SMALL_WRITE_BYTES, &mut keys);
    assert_eq!(modest.len() as u64 * SMALL_WRITE_BYTES, 3 * MIB);
}

#[test]
fn what_large_writes_may_use_is_shared_too() {
    let (admission, _) = admission(limits());
    let mut keys = 0;
    let greedy = fill(&admission, GREEDY, 0, MIB, &mut keys);
    assert_eq!(greedy.len(), 9, "three quarters of 12 MiB");
    let refusal = overloaded(admission.admit(request_of(GREEDY, 0, MIB, u64::MAX)));
    assert_eq!((refusal.limit, refusal.current, refusal.maximum), (Limit::Client, 10 * MIB, 9 * MIB));
    assert!(admission.admit(request_of(MODEST, 0, MIB, u64::MAX)).is_ok(), "nobody has claimed the rest");
}

/// Writes that are answered between two tries.
const ANSWERED: usize = 16;

/// Whatever comes free is asked for at once by whoever floods. The other one comes when he is told to, and is let in before more is
/// answered than was in use when he was first refused: that much he would have waited for in a queue, too.
#[test]
fn a_flood_of_one_client_keeps_no_other_out() {
    for partitions in [1_u16, 8, 64] {
        for (greedy_bytes, modest_bytes) in
            [(10, 10), (SMALL_WRITE_BYTES, 10), (MIB, 10), (10, MIB), (MIB, MIB)]
        {
            let (admission, clock) = admission(limits());
            let (mut keys, mut in_use) = (0, VecDeque::new());
            let (mut modest, mut admitted) = (VecDeque::new(), 0);
            let (mut refused, mut most) = (0, 0);
            for round in 0..500 {
                for number in 0..partitions {
                    in_use.extend(fill(&admission, GREEDY, number, greedy_bytes, &mut keys));
                }
                assert!(!in_use.is_empty(), "whoever floods is served as well");
                let key = 1 << 40 | admitted;
                match admission.admit(request_of(MODEST, 0, modest_bytes, key)) {
                    Ok(permit) => {
                        modest.push_back(permit);
                        (admitted, refused) = (admitted + 1, 0);
                    }
                    Err(AdmissionError::Overloaded(refusal)) => {
                        clock.advance(refusal.retry_after);
                        most = if refused == 0 { in_use.len().div_ceil(ANSWERED) } else { most };
                        refused += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
                let told = format!(
                    "{partitions} partitions, {greedy_bytes} and {modest_bytes} bytes, round {round}"
                );
                assert!(refused <= most, "{told}: refused {refused} times in a row");
                in_use.drain(..in_use.len().min(ANSWERED));
                modest.drain(..modest.len().saturating_sub(2));
            }
        }
    }
}

/// Whoever comes last, and asks last, comes to have as much as the others.
#[test]
fn clients_that_all_want_everything_come_to_equal_parts() {
    for clients in 2..=8_u64 {
        let (admission, _) = admission(only_operations(1000));
        let (mut keys, mut in_use) = (0, VecDeque::new());
        for round in 0..2000 {
            let here = if round < 100 { 1 } else { clients };
            for client in 0..here {
                in_use.extend(
                    fill(&admission, client, 0, 10, &mut keys).into_iter().map(|held| (client, held)),
                );
            }
            in_use.drain(..in_use.len().min(5));
        }
        for client in 0..clients {
            in_use.extend(fill(&admission, client, 0, 10, &mut keys).into_iter().map(|held| (client, held)));
        }
        let held = |client: u64| in_use.iter().filter(|(of, _)| *of == client).count() as u64;
        // Three parts for each, one stays free.
        let equal = 1000 * 3 / (3 * clients + 1);
        for client in 0..clients {
            let held = held(client);
            assert!(
                held.abs_diff(equal) <= equal / 5,
                "{clients} clients: one of them holds {held} of {equal}"
            );
        }
    }
}

#[test]
fn room_is_claimed_by_whoever_has_little_and_not_by_whoever_has_much() {
    let (admission, clock) = admission(limits());
    let mut keys = 0;
    // Many others, so that a flood of one ends before the partition is full of it.
    let greedy = fill(&admission, GREEDY, 0, MIB, &mut keys);
    let others: Vec<Permit> =
        (0..64).map_while(|at| admission.admit(request(0, SMALL_WRITE_BYTES, 1 << 30 | at)).ok()).collect();
    let rest = fill(&admission, MODEST, 0, MIB, &mut keys);
    assert_eq!((greedy.len(), rest.len(), others.len()), (9, 2, 64));
    let large = |client: u64, key: u64| admission.admit(request_of(client, 0, 3 * MIB, key));
    assert_eq!(overloaded(large(GREEDY, u64::MAX)).limit, Limit::Bytes);
    assert_eq!(overloaded(large(9, u64::MAX - 1)).limit, Limit::Bytes);
    drop(rest);
    let mut greedy = VecDeque::from(greedy);
    greedy.drain(..2);
    assert!(large(GREEDY, u64::MAX).is_err(), "what came free is claimed");
    assert!(large(9, u64::MAX - 1).is_ok(), "by whoever has nothing yet");
    clock.advance(100 * SECOND);
}
