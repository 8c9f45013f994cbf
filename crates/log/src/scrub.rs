//! Reads sealed segments again, a little at a time, to find rot before a reader does.
//!
//! The scrub goes round: after the last sealed segment it starts over with the first. How fast is decided by whoever
//! calls [`Scrub::step`]; a log with threads of its own does it at the rate of its options.

use std::io;
use std::sync::Arc;

use gapless_types::SegmentNumber;

use crate::damage::{Damage, Finding};
use crate::format::footer::Footer;
use crate::format::segment_file_name;
use crate::io::OpenMode;
use crate::recovery::read_footer;
use crate::scan::{Scan, ScanError};
use crate::segment_state::Controls;
use crate::shared::Shared;
use crate::stats::add;

/// What a step of the scrub did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// The segment that was read.
    pub segment: SegmentNumber,
    /// Bytes read.
    pub bytes: u64,
    /// What was found that was not known.
    pub damage: Vec<Damage>,
    /// It was the last sealed segment: the next step starts over.
    pub round_complete: bool,
}

/// A scrub and how far it is.
#[derive(Debug)]
pub struct Scrub {
    shared: Arc<Shared>,
    after: Option<SegmentNumber>,
}

impl Scrub {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, after: None }
    }

    /// Reads the next sealed segment; `None` if there is none.
    pub fn step(&mut self) -> io::Result<Option<Scrubbed>> {
        let Some((segment, last)) = self.next_segment() else { return Ok(None) };
        self.after = (segment != last).then_some(segment);
        let read = self.read_segment(segment);
        let gone = !self.shared.state().catalog.segments.contains_key(&segment);
        let (damage, bytes) = match read {
            // Released meanwhile: its file is removed, or is being filled anew.
            _ if gone => (Vec::new(), 0),
            read => read?,
        };
        add(&self.shared.counters.scrubbed_bytes, bytes);
        let known = self.shared.state().damage.clone();
        let new: Vec<Damage> = damage.into_iter().filter(|found| !known.contains(found)).collect();
        for found in &new {
            self.shared.note_damage(found);
        }
        Ok(Some(Scrubbed { segment, bytes, damage: new, round_complete: self.after.is_none() }))
    }

    /// The sealed segment behind the last one read, and the last one there is.
    fn next_segment(&self) -> Option<(SegmentNumber, SegmentNumber)> {
        let state = self.shared.state();
        let active = state.active.number;
        let sealed = || state.catalog.segments.keys().copied().filter(|&number| number != active);
        let last = sealed().next_back()?;
        let next = sealed()
            .find(|&number| self.after.is_none_or(|after| number > after))
            .or_else(|| sealed().next())?;
        Some((next, last))
    }

    fn read_segment(&self, number: SegmentNumber) -> io::Result<(Vec<Damage>, u64)> {
        let shared = &*self.shared;
        let file = shared.io.open(&shared.dir.join(segment_file_name(number)), OpenMode::Read)?;
        let (start, successor) = match shared.segment_start(number, &*file) {
            Ok(start) => start,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok((vec![Damage::at(Finding::BadHeader, number, 0..4096)], 4096));
            }
            Err(error) => return Err(error),
        };
        let geometry = start.geometry;
        let length = file.len()?;
        let mut controls = Controls::new(start.next_position);
        let scanned =
            match Scan::new(&*file, shared.salt, start, successor, length).run(&mut controls, &mut |_| {}) {
                Ok(scanned) => scanned,
                Err(ScanError::Io(error)) => return Err(error),
                Err(ScanError::UnknownRecord(offset)) => {
                    return Ok((vec![Damage::at(Finding::CorruptFrame, number, offset..offset)], 0));
                }
            };
        let mut damage = scanned.damage;
        let footer = read_footer(shared.salt, geometry, number, &*file)?;
        if footer.bad || footer.footer.as_ref().is_some_and(|footer| !covers(footer, scanned.state.offset)) {
            damage.push(Damage::at(Finding::BadFooter, number, geometry.content_end()..geometry.capacity));
        }
        Ok((damage, scanned.bytes_read + footer.bytes_read))
    }
}

/// A footer at half of the segment is no damage; one that claims more than there is, is.
fn covers(footer: &Footer, end: u32) -> bool {
    footer.end_offset <= end
}
