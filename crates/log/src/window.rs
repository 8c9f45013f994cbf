//! A file read through a buffer, forwards, with a count of what was read.
//!
//! Must not know: what the bytes mean.

use std::io;

use crate::io::{File, read_up_to};

const READ_AHEAD: u32 = 1 << 20;

/// A buffered view of a file.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    file: &'a dyn File,
    /// Nothing at or behind this is read.
    end: u32,
    start: u32,
    buffer: Vec<u8>,
    bytes_read: u64,
}

impl<'a> Window<'a> {
    pub(crate) fn new(file: &'a dyn File, end: u32) -> Self {
        Self { file, end, start: 0, buffer: Vec::new(), bytes_read: 0 }
    }

    /// `length` bytes from `offset` on; fewer at the end.
    pub(crate) fn bytes(&mut self, offset: u32, length: u32) -> io::Result<&[u8]> {
        let length = length.min(self.end.saturating_sub(offset));
        if !self.holds(offset, length) {
            self.fill(offset, length.max(READ_AHEAD).min(self.end.saturating_sub(offset)))?;
        }
        let from = (offset.saturating_sub(self.start) as usize).min(self.buffer.len());
        let to = (from + length as usize).min(self.buffer.len());
        Ok(&self.buffer[from..to])
    }

    /// The first bytes of a place that is only glanced at: nothing is read ahead.
    pub(crate) fn glance<const N: usize>(&mut self, offset: u32) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        let length = u32::try_from(N).expect("a glance is short");
        if self.holds(offset, length) {
            bytes.copy_from_slice(self.bytes(offset, length)?);
        } else {
            self.bytes_read += read_up_to(self.file, &mut bytes, u64::from(offset))? as u64;
        }
        Ok(bytes)
    }

    /// The bytes at a place, read ahead; zeros behind the end.
    pub(crate) fn fixed<const N: usize>(&mut self, offset: u32) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        let found = self.bytes(offset, u32::try_from(N).expect("a fixed part is short"))?;
        bytes[..found.len()].copy_from_slice(found);
        Ok(bytes)
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn holds(&self, offset: u32, length: u32) -> bool {
        let from = offset.checked_sub(self.start);
        from.is_some_and(|from| from as usize + length as usize <= self.buffer.len())
    }

    /// Makes the buffer hold `length` bytes from `offset` on. What it holds of them already is not read again.
    fn fill(&mut self, offset: u32, length: u32) -> io::Result<()> {
        let skipped = offset.checked_sub(self.start).map(|skipped| skipped as usize);
        match skipped.filter(|&skipped| skipped < self.buffer.len()) {
            Some(skipped) => drop(self.buffer.drain(..skipped)),
            None => self.buffer.clear(),
        }
        self.start = offset;
        let kept = self.buffer.len();
        self.buffer.resize(length as usize, 0);
        let read = match read_up_to(self.file, &mut self.buffer[kept..], u64::from(offset) + kept as u64) {
            Ok(read) => read,
            Err(error) => {
                self.buffer.clear();
                return Err(error);
            }
        };
        self.buffer.truncate(kept + read);
        self.bytes_read += read as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::io::memory::MemoryIo;
    use crate::io::{Io, OpenMode, write_all_at};

    #[test]
    fn whatever_is_asked_for_is_there_and_nothing_is_read_twice_going_forwards() {
        let io = MemoryIo::new();
        io.create_dir(Path::new("dir")).unwrap();
        let file = io.open(Path::new("dir/file"), OpenMode::Create).unwrap();
        let content: Vec<u8> = (0..5_000_000u32).map(|n| (n / 7 % 251) as u8).collect();
        write_all_at(&*file, &content, 0).unwrap();
        let mut window = Window::new(&*file, 4_900_000);
        let mut at = 0;
        for length in [64, 1_500_000, 64, 3, 2_000_000, 64, 900_000].into_iter().chain([64; 1000]) {
            let end = (at + length).min(4_900_000);
            assert_eq!(window.bytes(at, length).unwrap(), &content[at as usize..end as usize]);
            at = end;
        }
        let ahead = window.bytes_read() - u64::from(at);
        assert!(ahead <= u64::from(READ_AHEAD), "{ahead} bytes more than were asked for");
        assert_eq!(window.bytes(10, 20).unwrap(), &content[10..30], "backwards it reads again");
    }
}
