//! Looks at the files of a log without opening it: for tools, and for people who want to know.
//!
//! Changes nothing and takes no lock. On the files of a running log the end may look torn, because it is being written.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use gapless_types::{FrameNumber, Position, SegmentNumber};

use crate::damage::Damage;
use crate::error::OpenError;
use crate::format::control::{Loss, StateKey, Suspect};
use crate::format::record::{RecordType, Stored, records, unpack};
use crate::format::{Layout, LogId, Salt};
use crate::inventory::take_inventory;
use crate::io::{Io, OpenMode};
use crate::recovery::Recovery;
use crate::scan::GoodFrame;

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// As opening does: headers, footers, and the frames of the last segment.
    Opening,
    /// Every frame of every segment.
    EveryFrame,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSurvey {
    /// Its place among the segments.
    pub number: SegmentNumber,
    /// How frames lie in it.
    pub layout: Layout,
    /// Length of the file it should have.
    pub capacity: u32,
    /// Where its last frame ends.
    pub end_offset: u32,
    /// Number of its first frame.
    pub first_frame: u64,
    /// Number behind its last frame.
    pub next_frame: u64,
    /// The next position when it began.
    pub first_position: Position,
    /// The next position at its end.
    pub next_position: Position,
    /// It has a good footer that covers all of it.
    pub indexed: bool,
}

/// What the files of a log hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Which log it is; `None` if there is none.
    pub log: Option<LogId>,
    /// First position that is kept.
    pub first: Position,
    /// Where the next record would go.
    pub next: Position,
    /// Segments with content, in order.
    pub segments: Vec<SegmentSurvey>,
    /// Segments that are prepared and not used yet.
    pub prepared: Vec<SegmentNumber>,
    /// Unfinished files that the next opening removes.
    pub leftovers: Vec<String>,
    /// The small state.
    pub states: BTreeMap<StateKey, Bytes>,
    /// A dropped tail that nobody settled yet.
    pub suspect: Option<Suspect>,
    /// Losses that were accepted.
    pub losses: Vec<Loss>,
    /// Everything that is wrong.
    pub damage: Vec<Damage>,
    /// Missing and short segments: the log does not open because of them.
    pub missing: Vec<Damage>,
    /// State records may have been lost in a damaged frame.
    pub state_in_doubt: bool,
    /// Bytes read to find this out.
    pub bytes_read: u64,
    /// Frames read and checked for it.
    pub frames_scanned: u64,
}

/// A good frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Its number.
    pub number: FrameNumber,
    /// Its segment.
    pub segment: SegmentNumber,
    /// Where it starts.
    pub offset: u32,
    /// Bytes of its records.
    pub body_length: u32,
    /// How many records it has.
    pub record_count: u32,
    /// The next position before it.
    pub first_position: Position,
    /// The last frame known durable when it was written; 0 if none.
    pub certified: u64,
    body: &'a [u8],
    salt: Salt,
}

/// A record of a good frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordView {
    /// What it is.
    pub kind: RecordType,
    /// Its position, or what its type makes of it.
    pub position: Position,
    /// Bytes as stored.
    pub stored_length: u32,
    /// Whether they are compressed.
    pub compressed: bool,
    /// Bytes as appended; `None` if they do not decompress.
    pub payload: Option<Bytes>,
}

impl FrameView<'_> {
    /// Its records, in order.
    pub fn records(&self) -> impl Iterator<Item = RecordView> {
        records(self.salt, self.body).flatten().map(|(_, record, _)| {
            let (stored, compressed) = match record.payload {
                Stored::Plain(stored) => (stored, None),
                Stored::Compressed(stored, length) => (stored, Some(length)),
            };
            let payload = match compressed {
                None => Some(Bytes::copy_from_slice(stored)),
                Some(length) => unpack(stored, length).map(Bytes::from),
            };
            RecordView {
                kind: record.kind,
                position: record.position,
                stored_length: u32::try_from(stored.len()).unwrap_or(u32::MAX),
                compressed: compressed.is_some(),
                payload,
            }
        })
    }
}

/// Looks at the log in a directory; `on_frame` sees every frame that is read and good.
pub fn inspect(
    io: &dyn Io,
    dir: &Path,
    depth: Depth,
    on_frame: &mut dyn FnMut(&FrameView<'_>),
) -> Result<Survey, OpenError> {
    let inventory = take_inventory(io, dir, OpenMode::Read)?;
    let mut survey = Survey {
        log: inventory.log,
        first: Position::FIRST,
        next: Position::FIRST,
        segments: Vec::new(),
        prepared: inventory.blank,
        leftovers: inventory.leftovers,
        states: BTreeMap::new(),
        suspect: None,
        losses: Vec::new(),
        damage: Vec::new(),
        missing: Vec::new(),
        state_in_doubt: false,
        bytes_read: 0,
        frames_scanned: 0,
    };
    let Some(log) = inventory.log else { return Ok(survey) };
    let salt = log.salt();
    let headers: Vec<_> = inventory.used.iter().map(|segment| segment.header).collect();
    let mut visit = |frame: &GoodFrame<'_>| {
        let header = &frame.header;
        on_frame(&FrameView {
            number: header.number,
            segment: header.segment,
            offset: header.offset,
            body_length: header.body_length,
            record_count: header.record_count,
            first_position: header.first_position,
            certified: header.certified(),
            body: frame.body,
            salt,
        });
    };
    let thorough = depth == Depth::EveryFrame;
    let recovered = Recovery::new(dir, log, Position::FIRST, thorough, &mut visit).run(inventory.used)?;
    survey.first = recovered.controls.first;
    survey.next = recovered.next_position;
    survey.states = recovered.controls.states;
    survey.suspect = recovered.controls.suspect;
    survey.losses = recovered.controls.losses;
    survey.damage = recovered.damage;
    survey.missing = recovered.missing;
    survey.state_in_doubt = recovered.state_in_doubt;
    survey.bytes_read = recovered.bytes_read;
    survey.frames_scanned = recovered.frames_scanned;
    survey.segments = headers
        .iter()
        .zip(&recovered.segments)
        .map(|(header, segment)| SegmentSurvey {
            number: segment.number,
            layout: segment.geometry.layout,
            capacity: segment.geometry.capacity,
            end_offset: segment.state.offset,
            first_frame: header.first_frame.get(),
            next_frame: segment.state.next_frame.get(),
            first_position: header.first_position,
            next_position: segment.state.next_position,
            indexed: segment.footer_covers_all,
        })
        .collect();
    Ok(survey)
}
