//! Runs a log on a faulty disk against a model, from one seed.
//!
//! A run is a sequence of lives. In each, the log is opened, operated at random, and ends by a clean close, a killed
//! process, a power cut or a failing operation. After each end the log must hold what the model holds after all
//! acknowledged operations and some of those that were on their way, in order: nothing lost, nothing invented, nothing
//! reordered. In lives with a lying or rotting disk it may hold less, but it must say so.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "two targets include this module, and each uses its part of it"
)]

pub mod model;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use gapless_log::io::Io;
use gapless_log::io::faulty::{Crash, Fault, FaultyIo, InjectedKind, OperationKind};
use gapless_log::{
    AppendError, DamagePolicy, Drive, Finding, Follow, Layout, Log, LogId, OpenError, OpenReport, Options,
    StateKey, SyncPolicy, Ticket,
};
use gapless_types::Position;

use model::{Model, Op};

/// What runs have met, so that a test can insist on having met everything.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    pub lives: u64,
    pub acknowledged: u64,
    pub torn_tails: u64,
    pub bad_footers: u64,
    pub bad_headers: u64,
    pub corrupt_frames: u64,
    pub lost_writes: u64,
    pub broken_chains: u64,
    pub refusals_to_open: u64,
    pub unreadable: u64,
    pub rescued: u64,
    pub poisonings: u64,
    pub full_disks: u64,
    pub truncations: u64,
    pub releases: u64,
    pub rotations: u64,
    pub recycled: u64,
    pub unacknowledged_survivors: u64,
    pub lies: u64,
}

impl Sightings {
    pub fn add(&mut self, other: &Sightings) {
        let Sightings {
            lives,
            acknowledged,
            torn_tails,
            bad_footers,
            bad_headers,
            corrupt_frames,
            lost_writes,
            broken_chains,
            refusals_to_open,
            unreadable,
            rescued,
            poisonings,
            full_disks,
            truncations,
            releases,
            rotations,
            recycled,
            unacknowledged_survivors,
            lies,
        } = other;
        self.lives += lives;
        self.acknowledged += acknowledged;
        self.torn_tails += torn_tails;
        self.bad_footers += bad_footers;
        self.bad_headers += bad_headers;
        self.corrupt_frames += corrupt_frames;
        self.lost_writes += lost_writes;
        self.broken_chains += broken_chains;
        self.refusals_to_open += refusals_to_open;
        self.unreadable += unreadable;
        self.rescued += rescued;
        self.poisonings += poisonings;
        self.full_disks += full_disks;
        self.truncations += truncations;
        self.releases += releases;
        self.rotations += rotations;
        self.recycled += recycled;
        self.unacknowledged_survivors += unacknowledged_survivors;
        self.lies += lies;
    }

    fn count(&mut self, report: &OpenReport) {
        for damage in &report.damage {
            self.rescued += damage.rescued;
            *match damage.finding {
                Finding::TornTail => &mut self.torn_tails,
                Finding::BadFooter => &mut self.bad_footers,
                Finding::BadHeader => &mut self.bad_headers,
                Finding::CorruptFrame | Finding::BadRecord => &mut self.corrupt_frames,
                Finding::LostWrite => &mut self.lost_writes,
                Finding::BrokenChain => &mut self.broken_chains,
                Finding::MissingSegment | Finding::WrongLength => &mut self.refusals_to_open,
            } += 1;
        }
    }
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Kill,
    PowerCut(Crash),
    Failure(Fault),
}

const DIR: &str = "log";

/// Whether the disk keeps its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// What it says it did, it did; it may lose power, fail and fill up.
    Honest,
    /// It also loses writes, misdirects them, and rots.
    Lying,
}

/// A run from one seed.
pub struct Run {
    rng: Rng,
    io: FaultyIo,
    options: Options,
    disk: Disk,
    /// The state after all acknowledged operations.
    acknowledged: Model,
    /// Operations on their way.
    pending: Vec<(Op, Ticket)>,
    /// The state after those.
    view: Model,
    /// The acknowledged state before the disk began to lie. A lie may come out lives later.
    before_lie: Option<Model>,
    /// The last acknowledged states: a lie about the last frame takes the log back to one of them.
    recent: VecDeque<Model>,
    counter: u64,
    pub sightings: Sightings,
}

impl Run {
    pub fn new(seed: u64, disk: Disk) -> Self {
        let mut rng = Rng::with_seed(seed);
        let io = FaultyIo::new(rng.u64(..));
        if rng.bool() {
            io.short_writes(rng.u8(..30));
            io.short_reads(rng.u8(..30));
            io.interrupts(rng.u8(..10));
        }
        let first = if rng.bool() { 1 } else { rng.u64(..1000) };
        let packed = rng.bool();
        let options = Options {
            layout: if packed { Layout::Packed } else { Layout::Aligned },
            sync: if packed && rng.bool() { SyncPolicy::OnRequest } else { SyncPolicy::EveryFrame },
            drive: Drive::Caller,
            first_segment_bytes: 64 << 10,
            segment_bytes: if rng.bool() { 64 << 10 } else { 128 << 10 },
            hot_bytes: if rng.bool() { 0 } else { 20_000 },
            cached_indexes: 1,
            compress_from: rng.bool().then_some(200),
            first_position: Position::new(first),
            damage: DamagePolicy::KeepAppending,
            log_id: Some(LogId::from_bytes([rng.u8(..); 16])),
            ..Options::replicated()
        };
        Self {
            rng,
            io,
            options,
            disk,
            acknowledged: Model::starting_at(first),
            pending: Vec::new(),
            view: Model::starting_at(first),
            before_lie: None,
            recent: VecDeque::new(),
            counter: 0,
            sightings: Sightings::default(),
        }
    }

    /// Lives `lives` lives, or until the log refuses to open because of what a lying disk did.
    pub fn live(&mut self, lives: u32) {
        for _ in 0..lives {
            self.sightings.lives += 1;
            if !self.one_life() {
                return;
            }
        }
    }

    fn one_life(&mut self) -> bool {
        let end = self.choose_end();
        self.plan(end);
        let opened = Log::open(Arc::new(self.io.clone()), DIR, self.options.clone());
        match opened {
            Ok((log, report)) => {
                self.sightings.count(&report);
                self.check_opening(&log, &report);
                self.operate(&log, end);
            }
            Err(OpenError::Io { .. }) => assert!(
                matches!(end, End::PowerCut(_) | End::Failure(_)),
                "opening fails on a disk that does not"
            ),
            Err(error) => panic!(
                "what opened when the last life ended still opens: {error}; {:?}; {}",
                self.io.injected(),
                self.io.trace().iter().map(|operation| format!("{operation}\n")).collect::<String>()
            ),
        }
        self.after_life(end);
        self.reopen_and_check()
    }

    fn choose_end(&mut self) -> End {
        let crash = self.rng.choice(Crash::ALL).expect("there are styles");
        match self.rng.u8(..8) {
            0 => End::Close,
            1 => End::Kill,
            2..=5 => End::PowerCut(crash),
            _ => {
                use OperationKind::{Rename, Reserve, Sync, SyncDir, Write};
                let faults = [
                    Fault::from(Write),
                    Sync.into(),
                    Rename.into(),
                    SyncDir.into(),
                    Reserve.into(),
                    Fault::Any,
                ];
                End::Failure(self.rng.choice(faults).expect("there are faults"))
            }
        }
    }

    fn plan(&mut self, end: End) {
        self.io.cancel_faults();
        self.io.reset_operations();
        let at = if self.rng.u8(..4) == 0 { self.rng.u64(1..12) } else { self.rng.u64(1..300) };
        match end {
            End::PowerCut(_) => self.io.cut_at(at),
            End::Failure(fault) => self.io.fail_at(at, fault),
            End::Close | End::Kill => {}
        }
        if self.disk == Disk::Lying && self.rng.bool() {
            let at = self.rng.u64(1..60);
            if self.rng.bool() { self.io.lose_write_at(at) } else { self.io.misdirect_write_at(at) }
        }
    }

    fn check_opening(&mut self, log: &Log, report: &OpenReport) {
        assert_eq!(log.next(), report.next);
        if self.disk == Disk::Honest {
            let (found, unreadable) = Model::of(log);
            assert_eq!(unreadable, [0; 0]);
            assert_eq!(found, self.acknowledged, "what was checked when the last life ended is still there");
        }
    }

    /// Does random things until the disk fails or the life has been long enough.
    fn operate(&mut self, log: &Log, end: End) {
        let mut tail = log.tail(log.next(), Follow::Appended);
        let steps = self.rng.u32(1..120);
        for _ in 0..steps {
            let lies_before = self.io.injected().len();
            let before =
                (self.before_lie.is_none() && self.disk == Disk::Lying).then(|| self.acknowledged.clone());
            let alive = self.step(log);
            self.settle();
            if self.io.injected().len() > lies_before && self.before_lie.is_none() {
                self.before_lie = before;
            }
            if !alive {
                break;
            }
            let _ = tail.try_next(1000);
        }
        let statistics = log.statistics();
        self.sightings.rotations += statistics.segments_prepared;
        self.sightings.recycled += statistics.segments_recycled;
        drop(tail);
        if end == End::Close && log.clone().close().is_ok() {
            self.settle();
            assert!(self.pending.is_empty(), "a clean close leaves nothing open");
        }
        self.settle();
    }

    /// One random thing; `false` if the log is dead.
    fn step(&mut self, log: &Log) -> bool {
        let outcome = match self.rng.u8(..20) {
            0..=8 if self.view.records.len() < 300 => self.append(log),
            9 => self.truncate(log),
            0..=10 => self.release(log),
            11 => self.set_state(log),
            12..=14 => log.sync(),
            15 => log.flush(),
            16 => log.maintain(),
            17 => log.certify(),
            18 => self.fill_disk(log),
            _ => {
                self.read_something(log);
                Ok(())
            }
        };
        match outcome {
            Ok(()) | Err(AppendError::NoSegment(_) | AppendError::DiskFull { .. }) => true,
            Err(AppendError::Poisoned(_)) => {
                self.sightings.poisonings += 1;
                self.check_poisoned(log);
                false
            }
            Err(error) => panic!("unexpected refusal: {error}"),
        }
    }

    /// Notes an operation that was accepted.
    fn accepted(&mut self, op: Op, ticket: Ticket) {
        self.view.apply(&op);
        self.pending.push((op, ticket));
    }

    fn append(&mut self, log: &Log) -> Result<(), AppendError> {
        let count = if self.rng.u8(..5) == 0 { self.rng.usize(1..40) } else { 1 };
        let first = self.view.next;
        let payloads: Vec<Bytes> = (0..count).map(|index| self.payload(first + index as u64)).collect();
        let ticket = log.append(Position::new(first), &payloads)?;
        self.accepted(Op::Append { first, payloads }, ticket);
        self.maybe_wait(log)
    }

    /// A payload that says where it belongs and when it was written, of any length.
    fn payload(&mut self, position: u64) -> Bytes {
        self.counter += 1;
        let mut payload = Vec::new();
        if self.rng.u8(..20) != 0 {
            payload.extend_from_slice(format!("{position}@{}:", self.counter).as_bytes());
            let length =
                if self.rng.u8(..30) == 0 { self.rng.usize(..40_000) } else { self.rng.usize(..600) };
            let filling = if self.rng.bool() { None } else { Some(self.rng.u8(..)) };
            payload.extend((0..length).map(|_| filling.unwrap_or_else(|| self.rng.u8(..))));
        }
        payload.into()
    }

    fn truncate(&mut self, log: &Log) -> Result<(), AppendError> {
        let back = self.rng.u64(..=(self.view.next - self.view.first).min(30));
        let from = self.view.next - back;
        let ticket = log.truncate_from(Position::new(from))?;
        self.sightings.truncations += 1;
        self.accepted(Op::Truncate { from }, ticket);
        self.maybe_wait(log)
    }

    fn release(&mut self, log: &Log) -> Result<(), AppendError> {
        let first = match self.rng.u8(..10) {
            0 => self.view.next + self.rng.u64(..50),
            _ => self.rng.u64(self.view.first..=self.view.next),
        };
        let ticket = log.release_to(Position::new(first))?;
        self.sightings.releases += 1;
        self.accepted(Op::Release { first }, ticket);
        self.maybe_wait(log)
    }

    fn set_state(&mut self, log: &Log) -> Result<(), AppendError> {
        let key = self.rng.u16(..4);
        let value: Vec<u8> = (0..self.rng.usize(..60)).map(|_| self.rng.u8(..)).collect();
        let ticket = log.set_state(StateKey(key), &value)?;
        self.accepted(Op::SetState { key, value }, ticket);
        self.maybe_wait(log)
    }

    fn maybe_wait(&mut self, log: &Log) -> Result<(), AppendError> {
        if self.rng.bool() { log.sync() } else { Ok(()) }
    }

    /// Fills the disk, appends until that is refused, makes room, and appends again.
    fn fill_disk(&mut self, log: &Log) -> Result<(), AppendError> {
        self.io.set_capacity(Some(0));
        let mut outcome = Ok(());
        for _ in 0..60 {
            let payloads = vec![Bytes::from_static(&[7; 3000])];
            let first = self.view.next;
            match log.append(Position::new(first), &payloads) {
                Ok(ticket) => self.accepted(Op::Append { first, payloads }, ticket),
                Err(AppendError::DiskFull { .. }) => {
                    self.sightings.full_disks += 1;
                    break;
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        self.io.set_capacity(None);
        outcome?;
        // With room again, everything goes on; a planned failure may strike here as anywhere.
        log.sync()?;
        self.append(log)
    }

    /// Readers see what was appended, durable or not.
    fn read_something(&mut self, log: &Log) {
        let view = &self.view;
        assert_eq!((log.first().get(), log.next().get()), (view.first, view.next));
        if view.records.is_empty() || self.disk == Disk::Lying {
            return;
        }
        let position = self.rng.u64(view.first..view.next);
        match log.read(Position::new(position)) {
            Ok(record) => {
                assert_eq!(&record.payload[..], &view.records[&position][..], "position {position}");
            }
            Err(error) => {
                assert!(
                    !self.io.has_power() || !self.io.injected().is_empty(),
                    "reading {position}: {error}"
                );
            }
        }
    }

    /// Takes over what is acknowledged. Acknowledgements come in the order of the operations.
    fn settle(&mut self) {
        let settled =
            self.pending.iter().take_while(|(_, ticket)| matches!(ticket.settled(), Some(Ok(())))).count();
        for (op, _) in self.pending.drain(..settled) {
            if self.disk == Disk::Lying {
                self.recent.push_front(self.acknowledged.clone());
                self.recent.truncate(64);
            }
            self.acknowledged.apply(&op);
            self.sightings.acknowledged += 1;
        }
        let out_of_order = self.pending.iter().any(|(_, ticket)| matches!(ticket.settled(), Some(Ok(()))));
        // An operation that needed no writing is settled at once; it changes nothing.
        let harmless = self.pending.iter().all(|(op, ticket)| {
            !matches!(ticket.settled(), Some(Ok(())))
                || matches!(op, Op::Truncate { .. } | Op::Release { .. })
        });
        assert!(!out_of_order || harmless, "acknowledged out of order");
    }

    /// A poisoned log acknowledges nothing any more and refuses everything.
    fn check_poisoned(&mut self, log: &Log) {
        assert!(matches!(log.append_next(&[b"x"]), Err(AppendError::Poisoned(_))));
        assert!(matches!(log.sync(), Err(AppendError::Poisoned(_))));
        assert!(matches!(log.set_state(StateKey(0), b""), Err(AppendError::Poisoned(_))));
    }

    fn after_life(&mut self, end: End) {
        if let End::PowerCut(crash) = end {
            // The life may have been too short for the cut.
            self.io.restart(crash);
        }
        self.io.cancel_faults();
        if self.disk == Disk::Lying && self.rng.u8(..3) == 0 && self.io.flip_random_bit().is_some() {
            self.before_lie.get_or_insert_with(|| self.acknowledged.clone());
        }
    }

    /// Opens the log on a disk that works and compares. `false` if it does not open any more.
    fn reopen_and_check(&mut self) -> bool {
        let options = Options { hot_bytes: 0, ..self.options.clone() };
        let (log, report) = match Log::open(Arc::new(self.io.clone()), DIR, options) {
            Ok(opened) => opened,
            Err(error) => {
                let refused = matches!(
                    error,
                    OpenError::MissingSegments(_)
                        | OpenError::HeaderLost(_)
                        | OpenError::UnknownRecord { .. }
                        | OpenError::ForeignFile(_)
                );
                assert!(
                    self.disk == Disk::Lying && refused,
                    "does not open: {error}; files {:?}; after\n{}",
                    self.io.list(Path::new(DIR)),
                    self.io.trace().iter().map(|operation| format!("{operation}\n")).collect::<String>()
                );
                self.sightings.refusals_to_open += 1;
                return false;
            }
        };
        self.sightings.count(&report);
        let (found, unreadable) = Model::of(&log);
        self.sightings.unreadable += unreadable.len() as u64;
        let mut candidates = vec![self.acknowledged.clone()];
        for (op, _) in &self.pending {
            let mut next = candidates.last().expect("it starts with one").clone();
            next.apply(op);
            candidates.push(next);
        }
        let survivors = candidates.iter().rposition(|candidate| *candidate == found);
        match survivors {
            Some(count) => self.sightings.unacknowledged_survivors += count as u64,
            None => self.check_damaged(&found, &unreadable, &candidates, &log, &report),
        }
        if self.disk == Disk::Honest {
            let harmless =
                |finding| matches!(finding, Finding::TornTail | Finding::BadFooter | Finding::BadHeader);
            assert!(report.damage.iter().all(|damage| harmless(damage.finding)), "{:?}", report.damage);
            assert!(!report.state_in_doubt);
        }
        self.pending.clear();
        self.view = found.clone();
        self.acknowledged = found;
        if !unreadable.is_empty() {
            // What is gone is gone; the rest of the run needs a log without holes.
            return false;
        }
        true
    }

    /// A log that is none of the expected ones: only a lying disk does that, and then what is there must be right, and
    /// what is not there must be announced.
    fn check_damaged(
        &mut self,
        found: &Model,
        unreadable: &[u64],
        candidates: &[Model],
        log: &Log,
        report: &OpenReport,
    ) {
        let fullest = candidates.last().expect("it starts with one");
        let honest = |kind| matches!(kind, InjectedKind::PowerCut | InjectedKind::Failure(_));
        if self.io.injected().iter().any(|injected| !honest(injected.kind)) {
            // A lie may also strike while the log is opened or closed.
            self.before_lie.get_or_insert_with(|| self.acknowledged.clone());
        }
        assert!(
            self.disk == Disk::Lying && self.before_lie.is_some(),
            "the log holds {:?} without {unreadable:?}, expected one of {:?}; {report:?}; {:?}",
            summary(found),
            candidates.iter().map(summary).collect::<Vec<_>>(),
            self.io.injected()
        );
        self.sightings.lies += 1;
        if report.suspect.is_some() && self.recent.contains(found) {
            // The last frame went, whatever was in it, and that is reported.
            return;
        }
        // A release that is lost brings back what it had let go; that is old, but not wrong.
        for (position, payload) in found.records.range(fullest.first..) {
            let known = (candidates.iter().chain(&self.recent).chain(&self.before_lie))
                .any(|state| state.records.get(position) == Some(payload));
            assert!(
                known,
                "invented record at {position}: {:?} instead of {:?}; {report:?}; {:?}",
                start_of(Some(payload)),
                candidates
                    .iter()
                    .map(|candidate| start_of(candidate.records.get(position)))
                    .collect::<Vec<_>>(),
                self.io.injected()
            );
        }
        let announced = log.damage().iter().any(|damage| damage.finding.threatens_records());
        assert!(
            unreadable.is_empty() || announced,
            "{unreadable:?} are holes without a finding in {:?}; {report:?}; {:?}",
            summary(found),
            self.io.injected()
        );
        // What was acknowledged before the disk lied is there, or named as damaged.
        let before = self.before_lie.as_ref().expect("checked above");
        for (position, payload) in before.records.range(found.first.max(fullest.first)..) {
            if fullest.records.get(position) != Some(payload) {
                continue;
            }
            let there = found.records.get(position) == Some(payload);
            let named = unreadable.contains(position);
            let suspect = report.suspect.is_some() && *position >= found.next;
            assert!(
                there || named || suspect || announced,
                "position {position} vanished without a word from {:?}; {report:?}; {:?}; {}",
                summary(found),
                self.io.injected(),
                self.io.trace().iter().map(|operation| format!("{operation}\n")).collect::<String>()
            );
        }
    }
}

fn summary(model: &Model) -> (u64, u64, usize, usize) {
    (model.first, model.next, model.records.len(), model.states.len())
}

fn start_of(payload: Option<&Bytes>) -> Option<String> {
    payload.map(|payload| String::from_utf8_lossy(&payload[..payload.len().min(12)]).into_owned())
}

/// Names of the files of the log, for tests that damage them.
pub fn segment_path(number: u32) -> std::path::PathBuf {
    Path::new(DIR).join(format!("{number:010}.segment"))
}
