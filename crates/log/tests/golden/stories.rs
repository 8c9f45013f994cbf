//! How the golden logs came to be: each a short story told through the public interface.
//!
//! Whatever the bytes depend on is fixed: the log's id, who drives it, the length of its segments.

use std::path::Path;
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_log::{Drive, Layout, Log, LogId, OpenReport, Options, StateKey};
use gapless_types::Position;

use crate::dump::DIRECTORY;

/// The shortest segment there is.
const SEGMENT_BYTES: u32 = 64 << 10;

/// A story and its name.
pub(crate) struct Story {
    pub(crate) name: &'static str,
    /// Whether the bytes depend on nothing but this crate; those of a compressed payload depend on zstd's version.
    pub(crate) reproducible: bool,
    pub(crate) tell: fn(Layout) -> MemoryIo,
}

const fn story(name: &'static str, tell: fn(Layout) -> MemoryIo) -> Story {
    Story { name, reproducible: true, tell }
}

pub(crate) const STORIES: [Story; 11] = [
    story("records", records),
    story("sealed", sealed),
    story("truncate", truncate),
    story("release", release),
    story("release_beyond_the_end", release_beyond_the_end),
    story("repair", repair),
    story("suspect", suspect),
    story("settled", settled),
    story("loss", loss),
    story("blank_first_segment", blank_first_segment),
    Story { name: "compressed", reproducible: false, tell: compressed },
];

/// The two uses that the log is made for, on small segments.
pub(crate) fn options(layout: Layout) -> Options {
    let usual = match layout {
        Layout::Aligned => Options::replicated(),
        Layout::Packed => Options::partition(),
    };
    Options {
        drive: Drive::Caller,
        first_segment_bytes: SEGMENT_BYTES,
        segment_bytes: SEGMENT_BYTES,
        log_id: Some(LogId::from_bytes(*b"golden log files")),
        ..usual
    }
}

pub(crate) fn open(io: &MemoryIo, options: Options) -> (Log, OpenReport) {
    Log::open(Arc::new(io.clone()), DIRECTORY, options).unwrap()
}

/// Appends one batch, which becomes one frame.
fn append(log: &Log, payloads: &[&str]) {
    log.append_next(payloads).unwrap().wait().unwrap();
}

/// A payload that fills a quarter of a segment and not a dump: a letter and zeros.
fn filler(position: u64) -> Vec<u8> {
    let mut payload = vec![0; 12_000];
    payload[0] = b'a' + u8::try_from(position % 26).unwrap();
    payload
}

/// Appends until a segment begins, and one record more.
fn fill_a_segment(log: &Log) {
    let segments = log.statistics().segments;
    while log.statistics().segments == segments {
        log.append_next(&[filler(log.next().get())]).unwrap().wait().unwrap();
        log.maintain().unwrap();
    }
    append(log, &["in a new segment"]);
}

fn segment(number: u32) -> std::path::PathBuf {
    Path::new(DIRECTORY).join(format!("{number:010}.segment"))
}

/// Where in a file some bytes are.
fn find(io: &MemoryIo, path: &Path, wanted: &[u8]) -> u64 {
    let content = io.bytes_of(path).unwrap();
    let at = content.windows(wanted.len()).position(|window| window == wanted).expect("it was appended");
    at as u64
}

/// Two records in one frame, an empty one and a state in the next, two frames that one sync may make durable together, a
/// certifying frame, a clean close.
fn records(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    append(&log, &["first", "second"]);
    let queued = log.append_next(&[""]).unwrap();
    log.set_state(StateKey(7), b"vote").unwrap().wait().unwrap();
    queued.wait().unwrap();
    for payload in ["fourth", "fifth"] {
        let _settled_by_the_sync = log.append_next(&[payload]).unwrap();
        log.flush().unwrap();
    }
    log.sync().unwrap();
    log.certify().unwrap();
    log.close().unwrap();
    io
}

/// A full segment with its sealed footer, and the next one, which repeats the state.
fn sealed(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    log.set_state(StateKey(7), b"vote").unwrap().wait().unwrap();
    fill_a_segment(&log);
    log.maintain().unwrap();
    io
}

/// A suffix that became void, what was appended in its place, and the next segment, which still tells of it.
fn truncate(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    append(&log, &["first", "second", "third, void"]);
    append(&log, &["fourth, void"]);
    log.truncate_from(Position::new(4)).unwrap().wait().unwrap();
    let cut = log.truncate_from(Position::new(3)).unwrap();
    append(&log, &["third, in the frame that cuts"]);
    cut.wait().unwrap();
    fill_a_segment(&log);
    log.close().unwrap();
    io
}

/// A prefix that nobody needs: the first segment is gone, its file waits to be filled anew.
fn release(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    log.set_state(StateKey(7), b"vote").unwrap().wait().unwrap();
    fill_a_segment(&log);
    let last = log.next().previous().unwrap();
    log.release_to(last).unwrap().wait().unwrap();
    log.maintain().unwrap();
    append(&log, &["after the release"]);
    io
}

/// A release behind the end: the log is empty and goes on there.
fn release_beyond_the_end(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    append(&log, &["first", "second"]);
    log.release_to(Position::new(100)).unwrap().wait().unwrap();
    append(&log, &["the hundredth"]);
    log.close().unwrap();
    io
}

/// A damaged record in a certified frame: its neighbours are rescued, it is a hole, and a repair fills it.
fn repair(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    append(&log, &["rescued", "damaged", "rescued too", "damaged for ever"]);
    append(&log, &["certifies the frame before"]);
    drop(log);
    for payload in ["damaged", "damaged for ever"] {
        let at = find(&io, &segment(1), payload.as_bytes());
        io.overwrite(&segment(1), at, b"D").unwrap();
    }
    let (log, _) = open(&io, options(layout));
    log.repair(Position::new(2), b"damaged").unwrap().wait().unwrap();
    log.close().unwrap();
    io
}

/// A torn frame at the end: dropped, never overwritten; a new segment goes on and tells of it.
fn suspect(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    append(&log, &["first"]);
    append(&log, &["second, torn"]);
    drop(log);
    let at = find(&io, &segment(1), b"second, torn");
    io.overwrite(&segment(1), at + 8, &[0; 4]).unwrap();
    let (log, _) = open(&io, options(layout));
    append(&log, &["second"]);
    log.maintain().unwrap();
    io
}

/// The same, once the dropped range was passed again.
fn settled(layout: Layout) -> MemoryIo {
    let io = suspect(layout);
    // The log above is gone without a close, as in a crash.
    let (log, _) = open(&io, options(layout));
    log.settle_suspect().unwrap().wait().unwrap();
    append(&log, &["third"]);
    log.close().unwrap();
    io
}

/// A segment in the middle that is gone, and an operator who accepts that.
fn loss(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, options(layout));
    append(&log, &["first"]);
    fill_a_segment(&log);
    fill_a_segment(&log);
    log.maintain().unwrap();
    drop(log);
    io.remove(&segment(2)).unwrap();
    let (log, _) = open(&io, Options { accept_loss: true, ..options(layout) });
    append(&log, &["after the loss"]);
    log.close().unwrap();
    io
}

/// A log without a record: the header of its first segment, and a second segment prepared.
fn blank_first_segment(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, Options { first_position: Position::new(0), ..options(layout) });
    log.maintain().unwrap();
    io
}

/// A payload that is stored compressed between two that are not.
fn compressed(layout: Layout) -> MemoryIo {
    let io = MemoryIo::new();
    let (log, _) = open(&io, Options { compress_from: Some(64), ..options(layout) });
    append(&log, &["too short to compress", &"c".repeat(600), "not worth it"]);
    log.close().unwrap();
    io
}
