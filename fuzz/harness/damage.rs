//! What bytes of the fuzzer do to the files of a log.
//!
//! The bytes are a program: each step begins with a byte that says what happens, followed by where and how much. Places
//! are mostly chosen among those that mean something to the log, because a file is mostly payload and zeros.

use std::path::{Path, PathBuf};

use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, write_all_at};

use super::history::{DIRECTORY, History};

/// Enough to hit a few things at once, and few enough to be fast.
const MAX_STEPS: usize = 12;

/// What a file system writes at once.
const BLOCK: usize = 4096;

/// Bytes that are read from the front; zeros once they are used up.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl Bytes<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(super) fn word(&mut self) -> u32 {
        u32::from(self.short()) | u32::from(self.short()) << 16
    }

    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A number that is likely to be at some edge.
    fn edge(&mut self) -> u32 {
        match self.byte() % 12 {
            0 => 0,
            1 => 1,
            2 => u32::MAX,
            3 => u32::MAX - 1,
            4 => 1 << 31,
            5 => (1 << 31) - 1,
            6 => 4096,
            7 => 65_536,
            8 => u32::MAX - u32::from(self.byte()),
            9 => u32::from(self.byte()),
            _ => self.word(),
        }
    }
}

/// Runs the program on a copy of a history's disk.
pub(super) fn run(history: &History, program: &mut Bytes<'_>) -> MemoryIo {
    let io = history.io.fork();
    for _ in 0..MAX_STEPS {
        if program.is_empty() {
            break;
        }
        // A step that does not fit what is there by now changes nothing.
        let _ = step(history, &io, program);
    }
    io
}

fn step(history: &History, io: &MemoryIo, program: &mut Bytes<'_>) -> std::io::Result<()> {
    let action = program.byte();
    let (path, offset) = place(history, program);
    let content = io.bytes_of(&path)?;
    let length = content.len() as u64;
    match action % 14 {
        0 | 1 => {
            let bit = program.byte();
            let byte = content.get(usize::try_from(offset).unwrap_or(usize::MAX)).copied().unwrap_or(0);
            io.overwrite(&path, offset, &[byte ^ (1 << (bit % 8))])
        }
        2 | 3 => io.overwrite(&path, offset, &program.edge().to_le_bytes()),
        4 => {
            let count = usize::from(program.byte());
            io.overwrite(&path, offset, program.take(count))
        }
        5 => zero(io, &path, offset / 512 * 512..offset / 512 * 512 + 512, length),
        6 => zero(io, &path, offset / 4096 * 4096..offset / 4096 * 4096 + 4096, length),
        7 => zero(io, &path, offset..length, length),
        8 => {
            // A write that went astray: whole blocks, wherever they came from.
            let (source, from) = place(history, program);
            let bytes = io.bytes_of(&source)?;
            let count = BLOCK * (1 + usize::from(program.byte() % 4));
            let from = (usize::try_from(from).unwrap_or(usize::MAX) / BLOCK * BLOCK).min(bytes.len());
            let piece = &bytes[from..(from + count).min(bytes.len())];
            let to = offset / BLOCK as u64 * BLOCK as u64;
            let room = usize::try_from(length.saturating_sub(to)).unwrap_or(0);
            io.overwrite(&path, to, &piece[..piece.len().min(room)])
        }
        9 => io.set_len(&path, shorter_or_longer(length, offset, program)),
        10 => io.remove(&path),
        11 => io.rename(&path, &some_name(program)),
        12 => plant(io, &some_name(program), &content),
        _ => {
            let count = usize::from(program.short());
            let name = some_name(program);
            let bytes = program.take(count).to_vec();
            plant(io, &name, &bytes)
        }
    }
}

fn place(history: &History, program: &mut Bytes<'_>) -> (PathBuf, u64) {
    let choice = program.short();
    let (name, offset) = &history.points[usize::from(choice) % history.points.len()];
    let offset = match choice % 7 {
        0 => u64::from(program.short()),
        1 => offset + u64::from(program.byte() % 4),
        _ => *offset,
    };
    (Path::new(DIRECTORY).join(name), offset)
}

fn zero(io: &MemoryIo, path: &Path, range: std::ops::Range<u64>, length: u64) -> std::io::Result<()> {
    let count = range.end.min(length).saturating_sub(range.start);
    io.overwrite(path, range.start, &vec![0; usize::try_from(count).unwrap_or(0)])
}

fn shorter_or_longer(length: u64, offset: u64, program: &mut Bytes<'_>) -> u64 {
    match program.byte() % 8 {
        0 => 0,
        1 => 4095,
        2 => 4096,
        3 => length.saturating_sub(1),
        4 => length + 1,
        5 => length * 2,
        6 => length / 2,
        _ => offset,
    }
}

/// Mostly the name of a segment that could be there.
fn some_name(program: &mut Bytes<'_>) -> PathBuf {
    let name = match program.byte() % 8 {
        0 => "0000000001.new.tmp".to_owned(),
        1 => "notes.txt".to_owned(),
        2 => format!("{:010}.segment", program.edge()),
        number => format!("{number:010}.segment"),
    };
    Path::new(DIRECTORY).join(name)
}

/// A durable file with this content.
pub(super) fn plant(io: &MemoryIo, path: &Path, content: &[u8]) -> std::io::Result<()> {
    let file = io.open(path, OpenMode::Create)?;
    write_all_at(&*file, content, 0)?;
    file.sync()?;
    io.sync_dir(Path::new(DIRECTORY))
}
