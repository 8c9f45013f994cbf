//! The log against a plain map: any sequence of operations, flushes, closes, kills and power cuts, shrunk when it fails.

#![allow(
    clippy::unwrap_used,
    clippy::let_underscore_future,
    reason = "the first thing that does not hold ends the test"
)]

mod torture;

use std::sync::Arc;

use bytes::Bytes;
use gapless_log::io::memory::MemoryIo;
use gapless_log::{Drive, Layout, Log, Options, StateKey, SyncPolicy};
use gapless_types::Position;
use proptest::prelude::*;
use torture::model::{Model, Op};

#[derive(Clone, Debug)]
enum Step {
    Append { count: usize, bytes: usize },
    TruncateBack(u64),
    ReleaseUpTo(u64),
    ReleaseBeyond(u64),
    SetState(u16, Vec<u8>),
    Sync,
    Flush,
    Maintain,
    Certify,
    CloseAndOpen,
    KillAndOpen,
    LosePowerAndOpen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..6usize, prop_oneof![4 => 0..300usize, 1 => 3000..20_000usize])
            .prop_map(|(count, bytes)| Step::Append { count, bytes }),
        1 => (0..20u64).prop_map(Step::TruncateBack),
        1 => (0..40u64).prop_map(Step::ReleaseUpTo),
        1 => (1..20u64).prop_map(Step::ReleaseBeyond),
        1 => (0..4u16, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(key, value)| Step::SetState(key, value)),
        3 => Just(Step::Sync),
        1 => Just(Step::Flush),
        2 => Just(Step::Maintain),
        1 => Just(Step::Certify),
        1 => Just(Step::CloseAndOpen),
        1 => Just(Step::KillAndOpen),
        1 => Just(Step::LosePowerAndOpen),
    ]
}

fn options(packed: bool, hot: bool) -> Options {
    Options {
        layout: if packed { Layout::Packed } else { Layout::Aligned },
        sync: if packed { SyncPolicy::OnRequest } else { SyncPolicy::EveryFrame },
        drive: Drive::Caller,
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        hot_bytes: if hot { 1 << 20 } else { 0 },
        cached_indexes: 1,
        ..Options::replicated()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_a_map_with_an_end(
        steps in prop::collection::vec(step(), 1..80),
        packed: bool,
        hot: bool,
    ) {
        let io = MemoryIo::new();
        let mut log = Log::open(Arc::new(io.clone()), "log", options(packed, hot)).unwrap().0;
        let mut model = Model::starting_at(1);
        let mut durable = model.clone();
        let mut written = model.clone();
        for step in steps {
            let op = match step.clone() {
                Step::Append { count, bytes } => {
                    let payloads = (0..count as u64)
                        .map(|n| Bytes::from([(model.next + n).to_string().as_bytes(), &vec![1; bytes]].concat()))
                        .collect();
                    Some(Op::Append { first: model.next, payloads })
                }
                Step::TruncateBack(back) => Some(Op::Truncate { from: model.next.saturating_sub(back).max(model.first) }),
                Step::ReleaseUpTo(up) => Some(Op::Release { first: (model.first + up).min(model.next) }),
                Step::ReleaseBeyond(beyond) => Some(Op::Release { first: model.next + beyond }),
                Step::SetState(key, value) => Some(Op::SetState { key, value }),
                _ => None,
            };
            if let Some(op) = op {
                let _ = match &op {
                    Op::Append { first, payloads } => log.append(Position::new(*first), payloads).unwrap(),
                    Op::Truncate { from } => log.truncate_from(Position::new(*from)).unwrap(),
                    Op::Release { first } => log.release_to(Position::new(*first)).unwrap(),
                    Op::SetState { key, value } => log.set_state(StateKey(*key), value).unwrap(),
                };
                model.apply(&op);
            }
            match step {
                Step::Sync => {
                    log.sync().unwrap();
                    durable = model.clone();
                    written = model.clone();
                }
                Step::Flush => {
                    log.flush().unwrap();
                    written = model.clone();
                    if !packed {
                        durable = model.clone();
                    }
                }
                Step::Maintain => log.maintain().unwrap(),
                Step::Certify => log.certify().unwrap(),
                Step::CloseAndOpen => {
                    log.close().unwrap();
                    log = Log::open(Arc::new(io.clone()), "log", options(packed, hot)).unwrap().0;
                    durable = model.clone();
                    written = model.clone();
                }
                Step::KillAndOpen => {
                    drop(log);
                    log = Log::open(Arc::new(io.clone()), "log", options(packed, hot)).unwrap().0;
                    let (found, _) = Model::of(&log);
                    // Making room for an append may have written some of what was queued before it.
                    if found != written {
                        prop_assert!(found.next >= written.first);
                    }
                    model = found;
                    durable = model.clone();
                    written = model.clone();
                }
                Step::LosePowerAndOpen => {
                    drop(log);
                    io.power_cut();
                    log = Log::open(Arc::new(io.clone()), "log", options(packed, hot)).unwrap().0;
                    let (found, unreadable) = Model::of(&log);
                    prop_assert!(unreadable.is_empty());
                    for (position, payload) in durable.records.range(found.first..found.next) {
                        if model.records.get(position) == Some(payload) {
                            prop_assert_eq!(found.records.get(position), Some(payload));
                        }
                    }
                    model = found;
                    durable = model.clone();
                    written = model.clone();
                }
                _ => {}
            }
            let (found, unreadable) = Model::of(&log);
            prop_assert!(unreadable.is_empty());
            prop_assert_eq!(found, model.clone());
        }
        let _ = durable;
    }
}
