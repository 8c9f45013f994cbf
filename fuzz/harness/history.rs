//! Valid logs, and everything that was ever true of them.
//!
//! A payload says which position and which write it is, and the rest of it follows from that: whoever reads one can tell
//! whether it was ever written, byte for byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use gapless_log::io::memory::MemoryIo;
use gapless_log::{DamagePolicy, Depth, Drive, Layout, Log, Options, StateKey, inspect};
use gapless_types::Position;

use super::LOG;

/// Where the log lies on its disk.
pub(super) const DIRECTORY: &str = "log";
const SEGMENT_BYTES: u32 = 64 << 10;

/// Which write a payload came from, over the whole life of a log.
pub(super) type Write = u32;

/// What was true of a log after one of its frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub(super) next: u64,
    pub(super) records: BTreeMap<u64, Write>,
    pub(super) states: BTreeMap<u16, Vec<u8>>,
}

/// A log on a disk, and its life.
#[derive(Debug)]
pub(super) struct History {
    pub(super) io: MemoryIo,
    pub(super) layout: Layout,
    /// The log after each of its frames, oldest first.
    pub(super) moments: Vec<Moment>,
    /// Places worth damaging: the fields of headers, records, footers.
    pub(super) points: Vec<(String, u64)>,
}

/// All histories, told once.
pub(super) fn all() -> &'static [History] {
    static ALL: OnceLock<Vec<History>> = OnceLock::new();
    ALL.get_or_init(|| {
        let layouts = [Layout::Aligned, Layout::Packed];
        let lives = [short_life, long_life, life_with_a_release];
        let mut all = Vec::new();
        for layout in layouts {
            for life in lives {
                for closed in [false, true] {
                    all.push(History::tell(layout, life, closed));
                }
            }
        }
        all
    })
}

/// How these logs are opened.
pub(super) fn options(layout: Layout) -> Options {
    let usual = match layout {
        Layout::Aligned => Options::replicated(),
        Layout::Packed => Options::partition(),
    };
    Options {
        drive: Drive::Caller,
        first_segment_bytes: SEGMENT_BYTES,
        segment_bytes: SEGMENT_BYTES,
        compress_from: Some(2000),
        damage: DamagePolicy::KeepAppending,
        log_id: Some(LOG),
        ..usual
    }
}

/// The payload of a write at a position: a short one, noise that takes more than a block, or one that is compressed.
pub(super) fn payload(position: u64, write: Write) -> Vec<u8> {
    let (length, noise) = match position % 12 {
        1 | 4 | 7 | 10 => (4200, true),
        2 => (3000, false),
        _ => (5, true),
    };
    let mut payload = format!("position {position}, write {write}: ").into_bytes();
    let end = payload.len() + length;
    let mut state = position.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(write);
    while payload.len() < end {
        if noise {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        payload.push(state.to_le_bytes()[5]);
    }
    payload
}

/// Which write of a position a payload is, if it is one, byte for byte.
pub(super) fn write_of(position: u64, bytes: &[u8]) -> Option<Write> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned();
    let rest = head.strip_prefix(&format!("position {position}, write "))?;
    let write = rest.split(':').next()?.parse().ok()?;
    (payload(position, write) == bytes).then_some(write)
}

struct Teller {
    log: Log,
    moments: Vec<Moment>,
    writes: Write,
}

impl History {
    fn tell(layout: Layout, life: fn(&mut Teller), closed: bool) -> Self {
        let io = MemoryIo::new();
        let (log, report) =
            Log::open(Arc::new(io.clone()), DIRECTORY, options(layout)).expect("an empty disk takes a log");
        let start = Moment { next: report.next.get(), ..Moment::default() };
        let mut teller = Teller { log, moments: vec![start], writes: 0 };
        life(&mut teller);
        let Teller { log, moments, .. } = teller;
        if closed {
            log.close().expect("a disk in memory does not fail");
        }
        let points = points(&io);
        Self { io, layout, moments, points }
    }
}

impl Teller {
    fn now(&self) -> Moment {
        self.moments.last().cloned().unwrap_or_default()
    }

    fn append(&mut self, count: u64) {
        let mut now = self.now();
        let payloads: Vec<Vec<u8>> = (0..count)
            .map(|index| {
                self.writes += 1;
                now.records.insert(now.next + index, self.writes);
                payload(now.next + index, self.writes)
            })
            .collect();
        now.next += count;
        self.log.append_next(&payloads).and_then(|ticket| ticket.wait()).expect("there is room");
        self.log.maintain().expect("a disk in memory does not fail");
        self.moments.push(now);
    }

    fn truncate(&mut self, from: u64) {
        let mut now = self.now();
        now.records.split_off(&from);
        now.next = from;
        self.log.truncate_from(Position::new(from)).and_then(|ticket| ticket.wait()).expect("it is there");
        self.moments.push(now);
    }

    fn release(&mut self, first: u64) {
        // What was released may come back when the release itself is damaged: it is no longer needed, but it is true.
        let mut now = self.now();
        now.next = now.next.max(first);
        self.log.release_to(Position::new(first)).and_then(|ticket| ticket.wait()).expect("there is room");
        self.log.maintain().expect("a disk in memory does not fail");
        self.moments.push(now);
    }

    fn set_state(&mut self, key: u16, value: &str) {
        let mut now = self.now();
        now.states.insert(key, value.as_bytes().to_vec());
        self.log.set_state(StateKey(key), value.as_bytes()).and_then(|ticket| ticket.wait()).expect("small");
        self.moments.push(now);
    }

    fn append_until_segment(&mut self, number: u64) {
        while self.log.statistics().segments < number {
            self.append(4);
        }
    }
}

/// One segment, a few frames.
fn short_life(teller: &mut Teller) {
    teller.append(3);
    teller.set_state(1, "a vote");
    teller.append(1);
    teller.truncate(3);
    teller.append(2);
    teller.log.certify().expect("a disk in memory does not fail");
    teller.append(1);
}

/// Four segments; truncations that reach into the segment before.
fn long_life(teller: &mut Teller) {
    teller.set_state(1, "a vote");
    teller.append_until_segment(2);
    let boundary = teller.now().next;
    teller.append(2);
    teller.truncate(boundary - 6);
    teller.set_state(2, "a position");
    teller.append_until_segment(3);
    teller.append(1);
    let end = teller.now().next;
    teller.truncate(end - 3);
    teller.set_state(1, "another vote");
    teller.append_until_segment(4);
    teller.append(3);
}

/// Three segments, of which the first is released, and then a release behind the end.
fn life_with_a_release(teller: &mut Teller) {
    teller.set_state(1, "a vote");
    teller.append_until_segment(3);
    let end = teller.now().next;
    teller.release(end - 9);
    teller.append(2);
    let end = teller.now().next;
    teller.release(end + 10);
    teller.append(3);
}

/// Offsets of everything that has a meaning to the log: headers, record headers, footers.
fn points(io: &MemoryIo) -> Vec<(String, u64)> {
    let mut points = Vec::new();
    let mut in_file = |number: u32, offset: u64, length: u64| {
        let name = format!("{number:010}.segment");
        points.extend((0..length).step_by(4).map(|at| (name.clone(), offset + at)));
    };
    let mut on_frame = |frame: &gapless_log::FrameView<'_>| {
        let number = frame.segment.get();
        in_file(number, u64::from(frame.offset), 64);
        let mut at = u64::from(frame.offset) + 64;
        for record in frame.records() {
            in_file(number, at, 32);
            at += (24 + u64::from(record.stored_length)).next_multiple_of(8);
        }
    };
    let survey = inspect(io, Path::new(DIRECTORY), Depth::EveryFrame, &mut on_frame).expect("it is whole");
    for segment in survey.segments {
        in_file(segment.number.get(), 0, 88);
        in_file(segment.number.get(), 2048, 88);
        in_file(segment.number.get(), u64::from(segment.capacity) - 200, 200);
    }
    points
}
