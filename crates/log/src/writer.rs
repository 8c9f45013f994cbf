//! Turns what is queued into frames on disk: one write and, where the policy says so, one sync per frame.
//!
//! Invariants
//! - ACK-1: a ticket is settled with success only after the sync of its frame returned.
//! - A frame number, once written, is never written again in the same segment; a block that was acknowledged is never
//!   written again at all.
//! - A segment is begun only after everything in the segment before is durable.
//!
//! Must not know: who reads, how segments are prepared.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, TryLockError};

use gapless_types::mistakes::{Mistake, makes};

use crate::chores::Chore;
use crate::error::{AppendError, Fault};
use crate::format::control::Control;
use crate::format::frame::FrameHeader;
use crate::format::record::records;
use crate::format::segment::SegmentHeader;
use crate::format::{FRAME_HEADER_BYTES, FRAME_HEADER_LENGTH, Layout};
use crate::index::{Extent, Override, advance};
use crate::io::{File, write_all_at};
use crate::options::SyncPolicy;
use crate::queue::{Action, Item};
use crate::segment_state::{Controls, SegmentState};
use crate::shared::{Prepared, Shared, State, length, wake_all};
use crate::stats::add;
use crate::ticket::{Completion, Settled};

/// A write buffer larger than this is given back.
const KEPT_BUFFER_BYTES: usize = 1 << 20;
/// Segments of at least this length get a footer at half, so that opening never scans all of them.
const HALF_FOOTER_FROM: u32 = 16 << 20;

/// What only the writer needs.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The log's own records as of the last frame.
    controls: Controls,
    /// Number of the last frame known durable.
    durable_frame: u64,
    /// Tickets of frames that are written and not synced.
    unsynced: Vec<Arc<Completion>>,
    /// What can be done once the frames written so far are durable.
    after_sync: Vec<Chore>,
    /// Segments that may go once a footer knows of their release, too.
    removals: Vec<Chore>,
    dirty: bool,
    /// Up to where a footer in the active segment covers it.
    footer_covers: u32,
    buffer: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(controls: Controls, durable_frame: u64) -> Self {
        Self {
            controls,
            durable_frame,
            unsynced: Vec::new(),
            after_sync: Vec::new(),
            removals: Vec::new(),
            dirty: false,
            footer_covers: 0,
            buffer: Vec::new(),
        }
    }

    /// Tickets that nobody will settle any more.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<Completion>> {
        std::mem::take(&mut self.unsynced)
    }

    /// Fills the buffer with a frame of these items; returns its header and checksum.
    fn encode(
        &mut self,
        shared: &Shared,
        segment: &SegmentState,
        bodies: &[&[u8]],
        count: u32,
    ) -> (FrameHeader, u32) {
        self.buffer.clear();
        self.buffer.resize(FRAME_HEADER_BYTES, 0);
        for body in bodies {
            self.buffer.extend_from_slice(body);
        }
        let body = &self.buffer[FRAME_HEADER_BYTES..];
        let number = segment.next_frame;
        let header = FrameHeader {
            number,
            segment: segment.number,
            offset: segment.offset,
            body_length: u32::try_from(body.len()).expect("a group is checked against the frame limit"),
            record_count: count,
            body_checksum: shared.salt.checksum(&[body]),
            previous_checksum: segment.last_checksum,
            durable_distance: u32::try_from(number.get() - self.durable_frame).unwrap_or(u32::MAX),
            truncations: segment.truncations,
            first_position: segment.next_position,
            lowest_truncated: segment.lowest_truncated_nearby(),
        };
        let checksum = header.encode(shared.salt, &mut self.buffer);
        let padded = segment.geometry.layout.frame_bytes(header.body_length) as usize;
        self.buffer.resize(padded, 0);
        (header, checksum)
    }
}

/// A frame that was written, and what was in it.
struct Written {
    header: FrameHeader,
    checksum: u32,
    items: Vec<Item>,
}

impl Shared {
    /// Writes everything that is queued; synced as the policy says.
    pub(crate) fn flush(&self) -> Settled {
        let mut writer = self.lock_writer();
        while self.write_group(&mut writer)? {}
        Ok(())
    }

    /// The same, unless somebody else has the writer and no more than so many bytes wait for him.
    pub(crate) fn flush_unless_busy(&self, most_queued: u64) -> Settled {
        match self.writer.try_lock() {
            Ok(mut writer) => {
                while self.write_group(&mut writer)? {}
                Ok(())
            }
            Err(TryLockError::WouldBlock) if self.state().queue.bytes() <= most_queued => Ok(()),
            Err(_) => self.flush(),
        }
    }

    /// Writes everything that is queued and makes it durable.
    pub(crate) fn sync_all(&self) -> Settled {
        let mut writer = self.lock_writer();
        while self.write_group(&mut writer)? {}
        self.sync_written(&mut writer)
    }

    /// Writes one frame; `false` if nothing is queued.
    pub(crate) fn write_group(&self, writer: &mut Writer) -> Result<bool, AppendError> {
        let (items, segment, file) = {
            let mut state = self.state();
            if let Some(fault) = &state.fault {
                return Err(AppendError::Poisoned(fault.clone()));
            }
            if state.queue.is_empty() {
                return Ok(false);
            }
            let (layout, room) = (state.active.geometry.layout, state.active.room());
            let items = state.queue.take_group(layout, room, self.options.max_frame_bytes);
            (items, FrameStart::of(&state.active), state.active_file.clone())
        };
        if items.is_empty() {
            self.rotate(writer)?;
            return Ok(true);
        }
        self.write_items(writer, items, &segment, &*file)?;
        Ok(true)
    }

    fn write_items(
        &self,
        writer: &mut Writer,
        items: Vec<Item>,
        segment: &FrameStart,
        file: &dyn File,
    ) -> Result<(), AppendError> {
        // Whatever happens from here on, these are told.
        writer.unsynced.extend(items.iter().map(|item| item.completion.clone()));
        let bodies: Vec<&[u8]> = items.iter().map(|item| &item.body[..]).collect();
        let count = items.iter().map(|item| item.records).sum();
        let (header, checksum) = writer.encode(self, &segment.0, &bodies, count);
        let written = write_all_at(file, &writer.buffer, u64::from(header.offset));
        self.check(writer, "write a frame", written)?;
        writer.dirty = true;
        add(&self.counters.frames, 1);
        add(&self.counters.bytes_written, writer.buffer.len() as u64);
        add(&self.unsynced_bytes, writer.buffer.len() as u64);
        if writer.buffer.capacity() > KEPT_BUFFER_BYTES {
            writer.buffer = Vec::new();
        }
        if self.options.sync == SyncPolicy::EveryFrame {
            self.sync_file(writer, file)?;
            writer.durable_frame = header.number.get();
        }
        let settled = self.publish(writer, Written { header, checksum, items });
        settled.into_iter().for_each(|completion| completion.settle(Ok(())));
        if self.options.sync == SyncPolicy::EveryFrame { self.write_footer_if_due(writer) } else { Ok(()) }
    }

    /// Makes a frame visible to readers of the file; returns the tickets that are settled by it.
    fn publish(&self, writer: &mut Writer, written: Written) -> Vec<Arc<Completion>> {
        let Written { header, checksum, items } = written;
        let mut state = self.state();
        let state = &mut *state;
        state.take_in_frame(self, writer, &header, checksum, &items);
        if let Some(last) = items.last() {
            state.hot.mark_written(last.ordinal);
        }
        if state.queue.is_empty() {
            let room = state.active.room();
            state.reserve.settle(room);
        }
        state.uncertified = !items.is_empty();
        if self.options.sync == SyncPolicy::OnRequest {
            return Vec::new();
        }
        self.settle_durable(writer, state)
    }

    /// Everything written is durable: moves the mark, starts what waited for it, returns the tickets to settle.
    fn settle_durable(&self, writer: &mut Writer, state: &mut State) -> Vec<Arc<Completion>> {
        let written = state.active.next_position.max(state.durable);
        let uncut = state.queue.lowest_truncation().map_or(written, |cut| written.min(cut));
        state.durable = uncut.min(state.next);
        // Files go only once the release stands in two places: see `write_release_twice`.
        let (removals, others) =
            writer.after_sync.drain(..).partition(|chore| matches!(chore, Chore::Remove { .. }));
        writer.removals.extend::<Vec<Chore>>(removals);
        self.hand_over(state, others);
        wake_all(std::mem::take(&mut state.waiters));
        std::mem::take(&mut writer.unsynced)
    }

    /// Syncs what is written and not synced yet.
    pub(crate) fn sync_written(&self, writer: &mut Writer) -> Settled {
        if !writer.dirty {
            return Ok(());
        }
        let file = self.state().active_file.clone();
        self.sync_file(writer, &*file)?;
        let mut state = self.state();
        writer.durable_frame = state.active.next_frame.get() - 1;
        let settled = self.settle_durable(writer, &mut state);
        drop(state);
        settled.into_iter().for_each(|completion| completion.settle(Ok(())));
        self.write_footer_if_due(writer)
    }

    fn hand_over(&self, state: &mut State, chores: Vec<Chore>) {
        if !chores.is_empty() {
            state.chores.extend(chores);
            self.upkeep.notify_all();
        }
    }

    fn sync_file(&self, writer: &mut Writer, file: &dyn File) -> Settled {
        if makes(Mistake::AcknowledgeBeforeSync) && self.options.sync == SyncPolicy::EveryFrame {
            writer.dirty = false;
            return Ok(());
        }
        let start = self.options.clock.now();
        let mut synced = file.sync();
        if synced.is_err() && makes(Mistake::RetryFailedSync) {
            synced = file.sync();
        }
        self.check(writer, "sync", synced)?;
        self.counters.record_sync(self.options.clock.now().saturating_sub(start));
        self.unsynced_bytes.store(0, Relaxed);
        writer.dirty = false;
        Ok(())
    }

    /// An idle log writes one frame without records, so that the last one with records is certified durable.
    pub(crate) fn certify(&self) -> Settled {
        let mut writer = self.lock_writer();
        let (segment, file) = {
            let state = self.state();
            let fits = state.active.room() >= state.active.geometry.layout.frame_bytes(0);
            if state.fault.is_some()
                || state.closed
                || !state.uncertified
                || !state.queue.is_empty()
                || !fits
                || writer.dirty
            {
                return Ok(());
            }
            (FrameStart::of(&state.active), state.active_file.clone())
        };
        add(&self.counters.certifying_frames, 1);
        self.write_items(&mut writer, Vec::new(), &segment, &*file)
    }

    /// Goes on to the prepared segment: its header, then all state repeated in its first frame.
    fn rotate(&self, writer: &mut Writer) -> Settled {
        self.sync_written(writer)?;
        // Room was promised before anything was queued: that it is gone is a fault, not a refusal.
        let prepared = self.take_prepared().map_err(|error| {
            let source = Arc::new(io::Error::other(error.to_string()));
            self.poison(Fault { action: "begin a segment", source }, &std::mem::take(&mut writer.unsynced))
        })?;
        let header = self.next_header(&prepared);
        let mut segment = SegmentState::new(&header);
        segment.lowest_before = self.state().active.lowest_truncated;
        let (body, count) = writer.controls.encode(self.salt);
        let (frame, checksum) = writer.encode(self, &segment, &[&body], count);
        let mut bytes = header.encode();
        bytes.extend_from_slice(&writer.buffer);
        let written = write_all_at(&*prepared.file, &bytes, 0);
        self.check(writer, "begin a segment", written)?;
        writer.dirty = true;
        writer.footer_covers = 0;
        add(&self.counters.frames, 1);
        add(&self.counters.bytes_written, bytes.len() as u64);
        add(&self.unsynced_bytes, bytes.len() as u64);
        segment.advance(&frame, checksum);
        self.activate(writer, segment, prepared);
        Ok(())
    }

    fn next_header(&self, prepared: &Prepared) -> SegmentHeader {
        let state = self.state();
        let before = &state.active;
        SegmentHeader {
            log: self.log,
            number: prepared.number,
            geometry: prepared.geometry,
            first_frame: before.next_frame,
            previous_checksum: before.last_checksum,
            first_position: before.next_position,
            truncations: before.truncations,
            lowest_truncated: before.lowest_for_next_segment(),
        }
    }

    fn activate(&self, writer: &mut Writer, segment: SegmentState, prepared: Prepared) {
        let mut state = self.state();
        let state = &mut *state;
        let before = std::mem::replace(&mut state.active, segment);
        let file = std::mem::replace(&mut state.active_file, prepared.file);
        state.catalog.add_segment(prepared.number, prepared.geometry);
        let (controls, _) = writer.controls.encode(self.salt);
        let footer = before.footer(true, controls);
        state.catalog.pin(before.number, file.clone(), before.index);
        writer.after_sync.push(Chore::Seal { file, geometry: before.geometry, footer: Box::new(footer) });
        self.upkeep.notify_all();
    }

    /// Everything written is durable: writes a footer where one is due.
    fn write_footer_if_due(&self, writer: &mut Writer) -> Settled {
        if writer.removals.is_empty() {
            self.write_half_footer(writer)
        } else {
            self.write_release_twice(writer)
        }
    }

    /// A release is the only word on segments whose files are gone. So it stands in its frame and in a footer, which lies
    /// elsewhere in the file, before the first file goes: one bad block does not make the log miss what it let go.
    fn write_release_twice(&self, writer: &mut Writer) -> Settled {
        self.write_active_footer(writer)?;
        let file = self.state().active_file.clone();
        self.sync_file(writer, &*file)?;
        let removals = std::mem::take(&mut writer.removals);
        self.hand_over(&mut self.state(), removals);
        Ok(())
    }

    /// At half of a large segment, an index of what is there. It is not synced, because it is only ever a short cut, but
    /// it covers only frames that are: whoever finds it may rely on them.
    fn write_half_footer(&self, writer: &mut Writer) -> Settled {
        let due = {
            let active = &self.state().active;
            let half = active.geometry.capacity / 2;
            active.geometry.capacity >= HALF_FOOTER_FROM
                && active.offset >= half
                && writer.footer_covers < half
        };
        if due { self.write_active_footer(writer) } else { Ok(()) }
    }

    /// When the log is closed, an index of what is there, so that the next opening need not scan.
    pub(crate) fn write_closing_footer(&self) -> Settled {
        let mut writer = self.lock_writer();
        self.write_active_footer(&mut writer)?;
        let file = self.state().active_file.clone();
        self.sync_file(&mut writer, &*file)
    }

    fn write_active_footer(&self, writer: &mut Writer) -> Settled {
        let (controls, _) = writer.controls.encode(self.salt);
        let (footer, file, geometry) = {
            let state = self.state();
            (state.active.footer(false, controls), state.active_file.clone(), state.active.geometry)
        };
        writer.footer_covers = footer.end_offset;
        let bytes = footer.encode(self.salt);
        if bytes.len() > (geometry.capacity - geometry.content_end()) as usize {
            return Ok(());
        }
        let written = write_all_at(&*file, &bytes, u64::from(geometry.capacity) - bytes.len() as u64);
        self.check(writer, "write a footer", written)
    }

    /// Poisons the log with the error, if it is one.
    fn check(&self, writer: &mut Writer, action: &'static str, result: io::Result<()>) -> Settled {
        match result {
            Ok(()) => Ok(()),
            Err(source) => {
                let unsynced = std::mem::take(&mut writer.unsynced);
                Err(self.poison(Fault { action, source: Arc::new(source) }, &unsynced))
            }
        }
    }
}

/// The active segment without its index: what a frame header needs.
struct FrameStart(SegmentState);

impl FrameStart {
    fn of(active: &SegmentState) -> Self {
        Self(SegmentState {
            number: active.number,
            geometry: active.geometry,
            offset: active.offset,
            next_frame: active.next_frame,
            last_checksum: active.last_checksum,
            next_position: active.next_position,
            truncations: active.truncations,
            lowest_truncated: active.lowest_truncated,
            inherited_lowest: active.inherited_lowest,
            lowest_before: active.lowest_before,
            index: crate::index::SegmentIndex::default(),
            tail_dropped: active.tail_dropped,
            state_in_doubt: active.state_in_doubt,
        })
    }
}

impl State {
    /// Folds a written frame into the index of the active segment and into the catalog.
    fn take_in_frame(
        &mut self,
        shared: &Shared,
        writer: &mut Writer,
        header: &FrameHeader,
        checksum: u32,
        items: &[Item],
    ) {
        let layout: Layout = self.active.geometry.layout;
        let segment = self.active.number;
        let mut data = Extent {
            first: self.active.next_position,
            count: 0,
            offset: header.offset,
            length: layout.frame_bytes(header.body_length),
        };
        let mut repositioned = false;
        let mut record_at = header.offset + FRAME_HEADER_LENGTH;
        for item in items {
            match item.action {
                Action::Data { first, count, payload_bytes } => {
                    assert_eq!(first, data.end(), "NUM-1: positions in a frame are dense");
                    data.count += count;
                    add(&shared.counters.records, u64::from(count));
                    add(&shared.counters.payload_bytes, payload_bytes);
                }
                Action::Truncate { from } => {
                    self.active.truncate(from);
                    self.catalog.truncate(from);
                    (data.first, repositioned) = (from, true);
                }
                Action::Release { first, first_segment, moves } => {
                    self.catalog.release(first);
                    if moves {
                        self.active.next_position = first;
                        (data.first, repositioned) = (first, true);
                    }
                    if self.catalog.segments.range(..first_segment).next().is_some() {
                        writer.after_sync.push(Chore::Remove { before: first_segment });
                    }
                }
                Action::Repair { position } => {
                    let entry = Override { position, offset: record_at, length: length(&item.body) };
                    self.active.index.overrides.push(entry);
                    self.catalog.add_override(segment, entry);
                }
                Action::Control => {}
            }
            writer.take_in_controls(shared, item);
            record_at += length(&item.body);
        }
        self.active.add_data(data, repositioned);
        self.active.advance(header, checksum);
        self.catalog.add_run(data.first..advance(data.first, u64::from(data.count)), segment);
    }
}

impl Writer {
    fn take_in_controls(&mut self, shared: &Shared, item: &Item) {
        if matches!(item.action, Action::Data { .. } | Action::Repair { .. }) {
            return;
        }
        for (_, record, _) in records(shared.salt, &item.body).flatten() {
            if let Some(control) = Control::decode(&record) {
                self.controls.apply(&control);
            }
        }
    }
}
