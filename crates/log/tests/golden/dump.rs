//! Files of a log as text: 16 bytes to a line with their offset, lines of zeros left out.
//!
//! ```text
//! file 0000000001.segment 65536
//!
//! 00000000: 47 41 50 4c 45 53 53 4c 01 00 00 00 8a 3f 11 c2  GAPLESSL.....?..
//! ```
//! A file whose name ends in `.tmp` is void, whatever it holds: its content is neither written down nor compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, write_all_at};

const LINE_BYTES: usize = 16;

/// Where every golden log lies on its disk.
pub(crate) const DIRECTORY: &str = "log";

/// The files of a log: name and content.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What lies in the log's directory of a disk.
pub(crate) fn files_of(io: &MemoryIo) -> Files {
    let directory = Path::new(DIRECTORY);
    let names = io.list(directory).unwrap();
    names
        .into_iter()
        .map(|name| {
            let mut content = io.bytes_of(&directory.join(&name)).unwrap();
            if name.ends_with(".tmp") {
                content.fill(0);
            }
            (name, content)
        })
        .collect()
}

/// A disk with these files in the log's directory, all of them durable.
pub(crate) fn disk_with(files: &Files) -> MemoryIo {
    let io = MemoryIo::new();
    let directory = Path::new(DIRECTORY);
    io.create_dir(directory).unwrap();
    for (name, content) in files {
        let file = io.open(&directory.join(name), OpenMode::Create).unwrap();
        write_all_at(&*file, content, 0).unwrap();
        file.sync().unwrap();
    }
    io.sync_dir(directory).unwrap();
    io
}

/// The files as text.
pub(crate) fn write(files: &Files) -> String {
    let mut text = String::new();
    for (name, content) in files {
        writeln!(text, "file {name} {}", content.len()).unwrap();
        let mut previous = None;
        for (number, line) in content.chunks(LINE_BYTES).enumerate() {
            if line.iter().all(|&byte| byte == 0) {
                continue;
            }
            if number.checked_sub(1) != previous || previous.is_none() {
                text.push('\n');
            }
            previous = Some(number);
            let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let shown: String = line.iter().copied().map(printable).collect();
            writeln!(text, "{:08x}: {}  {}", number * LINE_BYTES, bytes.join(" "), shown.trim_end()).unwrap();
        }
        text.push('\n');
    }
    text
}

/// The files that a text stands for.
pub(crate) fn parse(text: &str) -> Files {
    let mut files = Files::new();
    let mut current: Option<&mut Vec<u8>> = None;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("file ") {
            let (name, length) = heading.split_once(' ').expect("a name and a length");
            current = Some(files.entry(name.to_owned()).or_default());
            if let Some(content) = &mut current {
                content.resize(length.parse().unwrap(), 0);
            }
            continue;
        }
        let (offset, rest) = line.split_once(": ").expect("an offset and bytes");
        let offset = usize::from_str_radix(offset, 16).unwrap();
        let bytes = hex_bytes(rest.split("  ").next().unwrap_or_default());
        let content = current.as_mut().expect("bytes belong to a file");
        content[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    files
}

/// The content of one file of this length, out of lines with an offset, bytes and a remark, two spaces between them.
/// Whatever else the lines say is for people; bytes that are not listed are zero.
pub(crate) fn parse_annotated(text: &str, length: usize) -> Vec<u8> {
    let mut content = vec![0; length];
    for line in text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_hexdigit())) {
        let mut columns = line.split("  ").filter(|column| !column.is_empty());
        let offset = usize::from_str_radix(columns.next().unwrap_or_default(), 16).unwrap();
        let bytes = hex_bytes(columns.next().unwrap_or_default());
        content[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    content
}

/// Bytes written as pairs of hexadecimal digits with spaces between them.
fn hex_bytes(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}
