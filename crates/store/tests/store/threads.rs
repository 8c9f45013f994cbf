//! Readers on other threads while the writer goes on, across checkpoints and merges.

use std::sync::mpsc;
use std::thread;

use gapless_log::io::memory::MemoryIo;
use gapless_store::{BucketId, Direction, Maintained, Offset, Snapshot, Synced};

use crate::model::{batch_of, open_on, put, put_in};

const ACCOUNTS: u64 = 50;
const ROUNDS: u64 = 400;

fn account(number: u64) -> String {
    format!("account/{number:03}")
}

/// Every batch moves something from one account to another and notes its round: in every snapshot the sum is 0, and
/// all rows of the round are there.
fn check(snapshot: &Snapshot) {
    let number = |value: &[u8]| -> i64 { std::str::from_utf8(value).unwrap().parse().unwrap() };
    for direction in [Direction::Forward, Direction::Backward] {
        let rows: Vec<_> = snapshot.prefix(b"account/", direction).map(Result::unwrap).collect();
        assert_eq!(rows.len() as u64, ACCOUNTS);
        assert_eq!(rows.iter().map(|(_, value)| number(value)).sum::<i64>(), 0);
    }
    let one_by_one =
        (0..ACCOUNTS).map(|one| number(&snapshot.get(account(one).as_bytes()).unwrap().unwrap()));
    assert_eq!(one_by_one.sum::<i64>(), 0);
    let round = number(&snapshot.get(b"round").unwrap().unwrap()).unsigned_abs();
    let rounds = snapshot.range_in::<&[u8]>(BucketId(round / 100), .., Direction::Forward).count() as u64;
    assert_eq!(rounds, round % 100 + 1);
}

#[test]
fn snapshots_are_consistent_while_the_writer_goes_on() {
    let (mut store, _) = open_on(&MemoryIo::new()).unwrap();
    let mut balances = vec![0_i64; usize::try_from(ACCOUNTS).unwrap()];
    let mut first: Vec<_> = (0..ACCOUNTS).map(|number| put(&account(number), "0")).collect();
    first.extend([put("round", "0"), put_in(0, "000", "v")]);
    store.apply(&batch_of(&first)).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (sender, receiver) = mpsc::sync_channel::<Snapshot>(4);
                scope.spawn(move || receiver.iter().for_each(|snapshot| check(&snapshot)));
                sender
            })
            .collect();
        for round in 1..ROUNDS {
            let (from, to) = (rng.usize(0..balances.len()), rng.usize(0..balances.len()));
            balances[from] -= 5;
            balances[to] += 5;
            let changed = [from, to].map(|one| put(&account(one as u64), &balances[one].to_string()));
            let mut batch = changed.to_vec();
            batch
                .extend([put("round", &round.to_string()), put_in(round / 100, &format!("{round:03}"), "v")]);
            store.apply(&batch_of(&batch)).unwrap();
            readers[usize::try_from(round % 2).unwrap()].send(store.snapshot()).unwrap();
            if round % 20 == 0 {
                let proof = Synced::by_a_sync_up_to(Offset::new(round));
                let frozen = store.rotate(Offset::new(round)).unwrap();
                let writing = scope.spawn(move || frozen.write_out().unwrap());
                store.apply(&batch_of(&[put("beside", "v")])).unwrap();
                readers[0].send(store.snapshot()).unwrap();
                store.publish(writing.join().unwrap(), proof).unwrap();
            }
            if round % 60 == 0
                && let Some(mut merge) = store.begin_compaction()
            {
                let merging = scope.spawn(move || {
                    while merge.step(500).unwrap() != Maintained::Finished {}
                    merge
                });
                store.apply(&batch_of(&[put("beside", "w")])).unwrap();
                readers[1].send(store.snapshot()).unwrap();
                store.install_compaction(merging.join().unwrap()).unwrap();
            }
        }
    });
    check(&store.snapshot());
    assert!(store.statistics().compactions > 0);
}
