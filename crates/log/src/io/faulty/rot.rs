//! Damage to data at rest. It hits every version of the file that may ever be read, so that neither a sync nor a
//! crash heals it, and it works whether or not there is power.
//!
//! Must not know: what the bytes mean.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::FaultyIo;
use super::journal::{Injected, InjectedKind};
use crate::io::memory::inode::Inode;

impl FaultyIo {
    /// Flips a bit of the byte at `offset`; the lowest bit has number 0.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        assert!(bit < 8, "a byte has bits 0 to 7");
        self.flip(path, offset, bit)?;
        Ok(())
    }

    /// Flips a random bit of a random byte that is not zero, in a random file; none if all files are empty or zeros.
    pub fn flip_random_bit(&self) -> Option<Injected> {
        let (path, offset, bit) = self.random_bit()?;
        self.flip(&path, offset, bit).ok()
    }

    /// Fills a range with zeros, as far as the file goes.
    pub fn zero_range(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let length = self.damage(path, |file| {
            file.damage(range.clone(), |_, byte| *byte = 0);
            range.end.min(file.current().length()).saturating_sub(range.start)
        })?;
        self.journal_rot(InjectedKind::ZeroedRange, path, range.start, length);
        Ok(())
    }

    /// Cuts a file off behind `length` bytes, or lengthens it with zeros.
    pub fn truncate_file(&self, path: &Path, length: u64) -> io::Result<()> {
        let before = self.damage(path, |file| {
            let before = file.current().length();
            file.damage_length(length);
            before
        })?;
        self.journal_rot(InjectedKind::ChangedLength, path, length, before.saturating_sub(length));
        Ok(())
    }

    /// Lets a file vanish, durably. Whoever has it open goes on using it.
    pub fn delete_file(&self, path: &Path) -> io::Result<()> {
        let length = self.damage(path, |file| file.current().length())?;
        self.memory.disk().destroy(path)?;
        self.journal_rot(InjectedKind::DeletedFile, path, 0, length);
        Ok(())
    }

    fn flip(&self, path: &Path, offset: u64, bit: u8) -> io::Result<Injected> {
        let inside = self.damage(path, |file| {
            file.damage(offset..offset.saturating_add(1), |_, byte| *byte ^= 1 << bit);
            offset < file.current().length()
        })?;
        if !inside {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no bit to flip behind the end",
            ));
        }
        Ok(self.journal_rot(InjectedKind::FlippedBit(bit), path, offset, 1))
    }

    fn random_bit(&self) -> Option<(PathBuf, u64, u8)> {
        let mut controls = self.controls();
        let disk = self.memory.disk();
        let weighed = disk.files().map(|(_, file)| (file, file.current().non_zero_count()));
        let candidates: Vec<_> = weighed.filter(|(_, count)| *count > 0).collect();
        if candidates.is_empty() {
            return None;
        }
        let (file, count) = candidates[controls.rng.usize(0..candidates.len())];
        let offset = file.current().non_zero_offset(controls.rng.usize(0..count))?;
        Some((file.path().to_owned(), offset, controls.rng.u8(0..8)))
    }

    fn damage<Told>(&self, path: &Path, damage: impl FnOnce(&mut Inode) -> Told) -> io::Result<Told> {
        Ok(damage(self.memory.disk().named(path)?))
    }

    fn journal_rot(&self, kind: InjectedKind, path: &Path, offset: u64, length: u64) -> Injected {
        let mut controls = self.controls();
        let operation = controls.operations();
        let injected = Injected { kind, operation, path: path.to_owned(), offset, length, landed: None };
        controls.injected.push(injected.clone());
        injected
    }
}
