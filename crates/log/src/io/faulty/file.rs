//! An open file of the faulty disk: where planned faults meet writes, reservations and syncs.
//!
//! Must not know: why a fault was planned.

use std::io;
use std::sync::MutexGuard;

use fastrand::Rng;

use super::controls::{Controls, Interrupted, Verdict};
use super::journal::{Injected, InjectedKind, Landing, Operation, OperationKind};
use super::plan::Lie;
use super::{FaultyIo, crash, input_output_error};
use crate::io::File;
use crate::io::memory::disk::{Disk, Handle, InodeNumber};
use crate::io::memory::{MemoryFile, power_cut_error};

/// Where misdirected writes land: at multiples of a sector or of a page.
const ALIGNMENTS: [u64; 2] = [512, 4096];

#[derive(Debug)]
pub(super) struct FaultyFile {
    io: FaultyIo,
    file: MemoryFile,
}

impl FaultyFile {
    pub(super) fn new(io: FaultyIo, file: MemoryFile) -> Self {
        Self { io, file }
    }

    /// Controls and disk, in the order in which they are always taken, if there is power and the handle is alive.
    fn powered(&self) -> io::Result<(MutexGuard<'_, Controls>, MutexGuard<'_, Disk>)> {
        let controls = self.io.powered()?;
        let disk = self.file.disk();
        disk.file(self.file.handle)?;
        Ok((controls, disk))
    }
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut controls, mut disk) = self.powered()?;
        let portion = controls.read_portion(buffer.len())?;
        disk.read(self.file.handle, &mut buffer[..portion], offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (mut controls, mut disk) = self.powered()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let handle = self.file.handle;
        let end = offset.saturating_add(bytes.len() as u64);
        let file = disk.file_mut(handle)?;
        let (path, before) = (file.path().to_owned(), file.current().length());
        let operation = Operation::on(OperationKind::Write, &path).over(offset, bytes.len() as u64);
        let verdict = controls.begin(operation);
        let room = controls.has_room(&disk, before, end);
        match verdict {
            Verdict::Fail | Verdict::Cut => {
                let portion = if room { controls.rng.usize(0..=bytes.len()) } else { 0 };
                // What it did not write is lost in any case; which error it has makes no difference.
                let _ = disk.write(handle, &bytes[..portion], offset);
                Err(if verdict == Verdict::Cut { power_cut_error() } else { input_output_error() })
            }
            Verdict::Proceed if !room => Err(io::ErrorKind::StorageFull.into()),
            Verdict::Proceed => match controls.take_lie() {
                Some(lie) => tell_lie(&mut controls, &mut disk, handle, lie, bytes, offset),
                None => {
                    let portion = controls.write_portion(bytes.len())?;
                    disk.write(handle, &bytes[..portion], offset)
                }
            },
        }
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let (mut controls, mut disk) = self.powered()?;
        let handle = self.file.handle;
        let file = disk.file_mut(handle)?;
        let (path, before) = (file.path().to_owned(), file.current().length());
        let verdict = controls.begin(Operation::on(OperationKind::Reserve, &path).over(0, length));
        let room = controls.has_room(&disk, before, length);
        match verdict {
            Verdict::Proceed if !room => Err(io::ErrorKind::StorageFull.into()),
            Verdict::Proceed => disk.reserve(handle, length),
            Verdict::Fail => Err(input_output_error()),
            Verdict::Cut => {
                if room && controls.rng.bool() {
                    // Whether it would have worked interests nobody any more.
                    let _ = disk.reserve(handle, length);
                }
                Err(power_cut_error())
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let (mut controls, mut disk) = self.powered()?;
        let handle = self.file.handle;
        let operation = Operation::on(OperationKind::Sync, disk.file(handle)?.path());
        match controls.begin(operation) {
            Verdict::Proceed => disk.sync(handle),
            Verdict::Fail => {
                disk.fail_sync(handle, |pending| crash::torn(pending, &mut controls.rng));
                Err(input_output_error())
            }
            Verdict::Cut => {
                controls.interrupt(Interrupted::Content(handle.inode));
                Err(power_cut_error())
            }
        }
    }

    fn forget_cache(&self) -> io::Result<()> {
        let (_controls, mut disk) = self.powered()?;
        disk.forget_cache(self.file.handle)
    }

    fn len(&self) -> io::Result<u64> {
        let (_controls, disk) = self.powered()?;
        Ok(disk.file(self.file.handle)?.current().length())
    }
}

/// Reports a write as done that is nowhere or elsewhere, and journals where.
fn tell_lie(
    controls: &mut Controls,
    disk: &mut Disk,
    handle: Handle,
    lie: Lie,
    bytes: &[u8],
    offset: u64,
) -> io::Result<usize> {
    disk.reserve(handle, offset.saturating_add(bytes.len() as u64))?;
    let landing = match lie {
        Lie::Lost => None,
        Lie::Misdirected => wrong_place(&mut controls.rng, disk, handle, offset),
    };
    let landed = landing.map(|(inode, start)| {
        let file = disk.inode_mut(inode);
        let length = (bytes.len() as u64).min(file.current().length() - start);
        file.damage(start..start + length, |position, byte| {
            *byte = bytes[usize::try_from(position - start).expect("a place in a slice")];
        });
        Landing { path: file.path().to_owned(), offset: start, length }
    });
    let kind = match lie {
        Lie::Lost => InjectedKind::LostWrite,
        Lie::Misdirected => InjectedKind::MisdirectedWrite,
    };
    controls.journal_last(|operation| Injected { landed, ..Injected::during(kind, operation) });
    Ok(bytes.len())
}

/// Another aligned place in the same file or in one beside it; either with equal chances, if there are both.
fn wrong_place(rng: &mut Rng, disk: &Disk, handle: Handle, offset: u64) -> Option<(InodeNumber, u64)> {
    let alignment = ALIGNMENTS[rng.usize(0..ALIGNMENTS.len())];
    let elsewhere = place_beside(rng, disk, handle, alignment);
    let inside = place_inside(rng, disk, handle, offset, alignment);
    match (inside, elsewhere) {
        (Some(inside), Some(elsewhere)) => Some(if rng.bool() { inside } else { elsewhere }),
        (inside, elsewhere) => inside.or(elsewhere),
    }
}

fn place_inside(
    rng: &mut Rng,
    disk: &Disk,
    handle: Handle,
    offset: u64,
    alignment: u64,
) -> Option<(InodeNumber, u64)> {
    let length = disk.file(handle).ok()?.current().length();
    let places = length.div_ceil(alignment);
    let start = rng.u64(0..places) * alignment;
    // The right place is stepped over, to the next one or around to the first.
    let wrong = if start == offset { (start / alignment + 1) % places * alignment } else { start };
    (wrong != offset).then_some((handle.inode, wrong))
}

fn place_beside(rng: &mut Rng, disk: &Disk, handle: Handle, alignment: u64) -> Option<(InodeNumber, u64)> {
    let dir = disk.file(handle).ok()?.path().parent()?;
    let beside: Vec<_> = disk
        .files()
        .filter(|(inode, file)| *inode != handle.inode && file.path().parent() == Some(dir))
        .filter(|(_, file)| file.current().length() > 0)
        .collect();
    let (inode, file) = beside.get(rng.usize(0..beside.len().max(1)))?;
    Some((*inode, rng.u64(0..file.current().length().div_ceil(alignment)) * alignment))
}
