//! Opening a log: take the directory, look at what is there, settle what follows from it, and only then accept appends.
//!
//! Must not know: how frames are scanned.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_types::limits::LAST_LOG_NUMBER;
use gapless_types::{FrameNumber, Position, SegmentNumber};

use crate::catalog::Catalog;
use crate::chores::{Blank, Chore, put_in_place};
use crate::damage::{Damage, Finding};
use crate::error::OpenError;
use crate::format::control::Suspect;
use crate::format::segment::SegmentHeader;
use crate::format::{Geometry, LogId, segment_file_name};
use crate::hot::HotTail;
use crate::inventory::{Inventory, io_error, take_inventory};
use crate::io::{Io, OpenMode, write_all_at};
use crate::options::Options;
use crate::queue::Queue;
use crate::recovery::{Recovered, Recovery, losses};
use crate::reserve::Reserve;
use crate::segment_state::{Controls, SegmentState};
use crate::shared::{Prepared, Shared, State};

/// What opening a log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// There was no log; now there is one.
    pub created: bool,
    /// First position that is kept.
    pub first: Position,
    /// Where the next record goes.
    pub next: Position,
    /// Segments with content.
    pub segments: u64,
    /// Everything that is wrong, most of it already dealt with; what is not makes the log read-only.
    pub damage: Vec<Damage>,
    /// A tail that was dropped, now or earlier, and that nobody settled yet.
    pub suspect: Option<Suspect>,
    /// State records may have been lost in a damaged frame: values may be older than the last ones set.
    pub state_in_doubt: bool,
    /// Bytes read to find all this out.
    pub bytes_read: u64,
    /// Frames read and checked for it.
    pub frames_scanned: u64,
}

/// Opens the log in a directory, or creates one where there is none.
pub(crate) fn open(io: Arc<dyn Io>, dir: &Path, options: Options) -> Result<(Shared, OpenReport), OpenError> {
    let options = options.within_limits();
    if options.first_position.get() > LAST_LOG_NUMBER {
        return Err(OpenError::FirstPosition(options.first_position));
    }
    io.create_dir(dir).map_err(|source| io_error("create", dir, source))?;
    let lock = io.lock(dir).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse(dir.to_path_buf()),
        _ => io_error("lock", dir, source),
    })?;
    let inventory = take_inventory(&*io, dir, OpenMode::Write)?;
    let opener = Opener { io: &*io, dir, options: &options };
    let (log, state, report) = match inventory.log {
        Some(log) => opener.recover(log, inventory)?,
        None => opener.create(&inventory)?,
    };
    let shared = Shared::new(io, dir.to_path_buf(), options, log, state, lock);
    Ok((shared, report))
}

struct Opener<'a> {
    io: &'a dyn Io,
    dir: &'a Path,
    options: &'a Options,
}

impl Opener<'_> {
    /// Creates a log. The header is durable before anything follows it, so that a file without one never was a log.
    fn create(&self, inventory: &Inventory) -> Result<(LogId, State, OpenReport), OpenError> {
        let blank = inventory.blank.iter().map(|&number| segment_file_name(number));
        self.remove(inventory.leftovers.iter().cloned().chain(blank))?;
        let number = SegmentNumber::FIRST;
        let log = match self.options.log_id {
            Some(log) => log,
            None => random_id().map_err(|source| io_error("find randomness for", self.dir, source))?,
        };
        let header = SegmentHeader {
            log,
            number,
            geometry: Geometry { capacity: self.options.first_segment_bytes, layout: self.options.layout },
            first_frame: FrameNumber::FIRST,
            previous_checksum: 0,
            first_position: self.options.first_position,
            truncations: 0,
            lowest_truncated: None,
        };
        let path = self.path(number);
        let unfinished = self.dir.join(format!("{:010}.new.tmp", number.get()));
        let capacity = header.geometry.capacity;
        let file = Blank::new(self.options.sync)
            .make(self.io, &unfinished, capacity)
            .and_then(|file| put_in_place(self.io, self.dir, &unfinished, number).map(|()| file))
            .and_then(|file| write_all_at(&*file, &header.encode(), 0).map(|()| file))
            .and_then(|file| file.sync().map(|()| file))
            .map_err(|source| io_error("create", &path, source))?;
        let controls = Controls::new(self.options.first_position);
        let mut catalog = Catalog::new(Vec::new(), BTreeMap::new(), Vec::new(), self.options.cached_indexes);
        catalog.add_segment(number, header.geometry);
        let report = OpenReport {
            created: true,
            first: header.first_position,
            next: header.first_position,
            segments: 1,
            damage: Vec::new(),
            suspect: None,
            state_in_doubt: false,
            bytes_read: 0,
            frames_scanned: 0,
        };
        let state = self.state(SegmentState::new(&header), file, controls, catalog, Vec::new());
        Ok((log, state, report))
    }

    fn recover(&self, log: LogId, inventory: Inventory) -> Result<(LogId, State, OpenReport), OpenError> {
        let Inventory { used, blank, leftovers, .. } = inventory;
        let mut ignore = |_: &crate::scan::GoodFrame<'_>| {};
        let mut recovered =
            Recovery::new(self.dir, log, self.options.first_position, false, &mut ignore).run(used)?;
        if !recovered.missing.is_empty() && !self.options.accept_loss {
            return Err(OpenError::MissingSegments(recovered.missing));
        }
        let accepted = losses(&recovered.missing, recovered.next_position);
        let highest_missing = recovered.missing.iter().map(|damage| damage.last_segment).max();
        recovered.controls.losses.extend(accepted);
        recovered.damage.append(&mut recovered.missing);

        self.tidy(&mut recovered, leftovers)?;
        let report = report_of(&recovered);
        let state = self.recovered_state(recovered, &blank, highest_missing)?;
        Ok((log, state, report))
    }

    /// What recovery leaves to do on disk: unfinished and released files, headers with one bad copy.
    fn tidy(&self, recovered: &mut Recovered, leftovers: Vec<String>) -> Result<(), OpenError> {
        for header in &recovered.damaged_headers {
            let path = self.path(header.number);
            let healed = self.io.open(&path, OpenMode::Write).and_then(|file| {
                write_all_at(&*file, &header.encode(), 0)?;
                file.sync()
            });
            healed.map_err(|source| io_error("heal", &path, source))?;
        }
        let first_segment = recovered.controls.first_segment;
        let released = |number: SegmentNumber| number < first_segment;
        let last = recovered.segments.last().map(|segment| segment.number);
        let names = recovered
            .segments
            .iter()
            .filter(|segment| released(segment.number) && Some(segment.number) != last);
        let names: Vec<String> = names.map(|segment| segment_file_name(segment.number)).collect();
        recovered.segments.retain(|segment| !released(segment.number) || Some(segment.number) == last);
        self.remove(leftovers.into_iter().chain(names))
    }

    fn recovered_state(
        &self,
        recovered: Recovered,
        blank: &[SegmentNumber],
        highest_missing: Option<SegmentNumber>,
    ) -> Result<State, OpenError> {
        let Recovered {
            mut segments,
            controls,
            next_position,
            runs,
            overrides,
            holes,
            damage,
            state_in_doubt,
            ..
        } = recovered;
        let last = segments.pop().expect("a log that has an id has a segment");
        let mut catalog = Catalog::new(runs, overrides, holes, self.options.cached_indexes);
        let mut chores = Vec::new();
        for segment in segments {
            catalog.add_segment(segment.number, segment.geometry);
            if !segment.indexed {
                let (encoded, _) = controls.encode(recovered.log.salt());
                let footer = Box::new(segment.state.footer(true, encoded));
                catalog.pin(segment.number, segment.file.clone(), segment.state.index);
                chores.push(Chore::Seal { file: segment.file, geometry: segment.geometry, footer });
            }
        }
        catalog.add_segment(last.number, last.geometry);
        let mut active = last.state;
        active.next_position = next_position;
        let short = damage
            .iter()
            .any(|found| found.finding == Finding::WrongLength && found.segment == active.number);
        // Nothing is written behind a gap: what follows goes to a segment of its own.
        active.tail_dropped |= short || highest_missing.is_some_and(|missing| missing > active.number);
        // A segment whose first frame never got to the disk would lack the repeated state.
        active.tail_dropped |=
            active.offset == Geometry::CONTENT_START && active.number > SegmentNumber::FIRST;
        let mut state = self.state(active, last.file, controls, catalog, damage);
        state.state_in_doubt = state_in_doubt;
        state.chores = chores;
        if let Some(missing) = highest_missing {
            let next = missing.next().expect("segment numbers end long before 32 bits do");
            state.next_segment = state.next_segment.max(next);
        }
        self.adopt_prepared(&mut state, blank)?;
        Ok(state)
    }

    /// A segment that was prepared before and never used is used now, if it has the right number and length.
    fn adopt_prepared(&self, state: &mut State, blank: &[SegmentNumber]) -> Result<(), OpenError> {
        for &number in blank {
            let path = self.path(number);
            let file =
                self.io.open(&path, OpenMode::Write).map_err(|source| io_error("open", &path, source))?;
            let length = file.len().map_err(|source| io_error("measure", &path, source))?;
            let usable =
                |length: &u32| number == state.next_segment && *length >= self.options.first_segment_bytes;
            match u32::try_from(length).ok().filter(usable) {
                Some(capacity) => {
                    // Its name may be one that a failed sync of the directory never made durable: give it anew.
                    let unfinished = self.dir.join(format!("{:010}.new.tmp", number.get()));
                    self.io
                        .rename(&path, &unfinished)
                        .and_then(|()| put_in_place(self.io, self.dir, &unfinished, number))
                        .map_err(|source| io_error("rename", &path, source))?;
                    let geometry = Geometry { capacity, layout: self.options.layout };
                    state.reserve.set_prepared(Some(geometry.content_bytes()));
                    state.prepared = Some(Prepared { number, file, geometry });
                }
                None => self.remove([segment_file_name(number)])?,
            }
        }
        Ok(())
    }

    fn state(
        &self,
        active: SegmentState,
        active_file: Arc<dyn crate::io::File>,
        controls: Controls,
        catalog: Catalog,
        damage: Vec<Damage>,
    ) -> State {
        State {
            next: active.next_position,
            durable: active.next_position,
            controls,
            queue: Queue::default(),
            reserve: Reserve::new(active.room()),
            hot: HotTail::new(self.options.hot_bytes),
            catalog,
            next_segment: active.number.next().expect("segment numbers end long before 32 bits do"),
            uncertified: active.next_frame > FrameNumber::FIRST,
            active,
            active_file,
            prepared: None,
            spares: Vec::new(),
            chores: Vec::new(),
            fault: None,
            closed: false,
            damage,
            state_in_doubt: false,
            tails: BTreeMap::new(),
            next_tail: 0,
            waiters: Vec::new(),
        }
    }

    fn remove(&self, names: impl IntoIterator<Item = String>) -> Result<(), OpenError> {
        let mut removed = false;
        for name in names {
            let path = self.dir.join(name);
            self.io.remove(&path).map_err(|source| io_error("remove", &path, source))?;
            removed = true;
        }
        if removed {
            self.io.sync_dir(self.dir).map_err(|source| io_error("sync", self.dir, source))?;
        }
        Ok(())
    }

    fn path(&self, number: SegmentNumber) -> PathBuf {
        self.dir.join(segment_file_name(number))
    }
}

fn report_of(recovered: &Recovered) -> OpenReport {
    OpenReport {
        created: false,
        first: recovered.controls.first,
        next: recovered.next_position,
        segments: recovered.segments.len() as u64,
        damage: recovered.damage.clone(),
        suspect: recovered.controls.suspect,
        state_in_doubt: recovered.state_in_doubt,
        bytes_read: recovered.bytes_read,
        frames_scanned: recovered.frames_scanned,
    }
}

fn random_id() -> io::Result<LogId> {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled < bytes.len() {
        return Err(io::Error::other("the system gave too few random bytes"));
    }
    // A random UUID, so that tools that show it find it in order.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Ok(LogId::from_bytes(bytes))
}
