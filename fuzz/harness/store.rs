//! What a store is asked to do with files of arbitrary bytes: it opens or says why not, every row it shows was written, and
//! nothing panics; also where all checksums were made right.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, write_all_at};
use gapless_store::{Batch, BucketId, Budget, Offset, Options, Store, Synced};

const DIR: &str = "store";

/// Damages the files of a good store, by a program in the bytes: which file, where, what. The first byte says whether checksums
/// are made right afterwards, so that they do not keep anybody away from what lies behind them.
pub fn store(data: &[u8]) {
    let Some((&mode, mut program)) = data.split_first() else { return };
    let (io, rows) = good();
    let paths = files(&io);
    let mut changed = false;
    while let Some((&[file, low, high, length], rest)) = program.split_first_chunk() {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(length % 64)));
        program = rest;
        let path = &paths[usize::from(file) % paths.len()];
        let mut content = io.bytes_of(path).expect("it was listed");
        let place = usize::from(u16::from_le_bytes([low, high])) % (content.len() + 1);
        if length >= 192 {
            content.truncate(place);
        } else {
            let end = (place + bytes.len()).min(content.len());
            content.splice(place..end, bytes.iter().copied());
        }
        plant(&io, path, &content);
        changed = true;
    }
    let forged = mode % 2 == 1;
    if forged {
        reseal(&io);
    }
    let found = read(&io);
    if !changed {
        assert_eq!(found, Some(rows));
    } else if !forged && let Some(found) = found {
        // Without forgery, what can be read is what was written.
        assert!(found.iter().all(|row| rows.contains(row)), "{found:?}");
    }
}

type Row = (Vec<u8>, Vec<u8>);

/// Every row that can be read, and what follows from using the store; none if it says that it is damaged.
fn read(io: &MemoryIo) -> Option<Vec<Row>> {
    let budget = Budget::new(1 << 20, 1 << 20);
    let (mut store, opened) = Store::open(Arc::new(io.clone()), DIR, Options::default(), &budget).ok()?;
    let rows = store.everything().map(|row| row.map(|(_, key, value)| (key.to_vec(), value.to_vec())));
    let rows: Option<Vec<Row>> = rows.collect::<Result<_, _>>().ok();
    for key in [&b"key 3"[..], b"nothing", b""] {
        let _any = store.get(key);
        let _any = store.find_in_buckets(key);
    }
    let mut batch = Batch::new();
    batch.put(b"new", b"row").expect("it is small");
    if store.apply(&batch).is_ok() {
        let offset = Offset::new(opened.offset.get().saturating_add(1));
        let _any = store.checkpoint(offset, Synced::by_a_sync_up_to(offset));
        let _any = store.maintain(1 << 20);
    }
    rows
}

fn good() -> (MemoryIo, Vec<Row>) {
    let io = MemoryIo::new();
    let budget = Budget::new(1 << 20, 1 << 20);
    let (mut store, _) =
        Store::open(Arc::new(io.clone()), DIR, Options::default(), &budget).expect("a disk in memory");
    for round in 1..3 {
        let mut batch = Batch::new();
        for number in 0..20 {
            let key = format!("key {}", number * round);
            batch.put(key.as_bytes(), format!("value {number} of {round}").as_bytes()).expect("it is small");
            batch.put_in(BucketId(round), key.as_bytes(), b"kept").expect("it is small");
        }
        batch.delete(b"key 7").expect("it is small");
        store.apply(&batch).expect("there is memory");
        let offset = Offset::new(round);
        store.checkpoint(offset, Synced::by_a_sync_up_to(offset)).expect("a disk in memory");
    }
    let rows = store.everything().map(|row| row.expect("it is good"));
    let rows = rows.map(|(_, key, value)| (key.to_vec(), value.to_vec())).collect();
    (io, rows)
}

fn files(io: &MemoryIo) -> Vec<PathBuf> {
    let dir = Path::new(DIR);
    let mut names = io.list(dir).expect("it is there");
    names.sort();
    names.iter().map(|name| dir.join(name)).collect()
}

fn plant(io: &MemoryIo, path: &Path, content: &[u8]) {
    let file = io.open(path, OpenMode::Create).expect("a disk in memory");
    write_all_at(&*file, content, 0).expect("a disk in memory");
}

/// Makes checksums right: those of runs of one block, and that of the checkpoint, which is told of the runs.
fn reseal(io: &MemoryIo) {
    let mut sums = Vec::new();
    for path in files(io) {
        let number =
            path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        let Some(number) = number else { continue };
        let mut content = io.bytes_of(&path).expect("it was listed");
        if reseal_run(number, &mut content).is_some() {
            let sum = content[content.len() - 4..].to_vec();
            sums.push((number, content.len() as u64, sum));
            plant(io, &path, &content);
        }
    }
    let path = Path::new(DIR).join("CHECKPOINT");
    let Ok(mut content) = io.bytes_of(&path) else { return };
    if content.len() < 48 {
        return;
    }
    // Behind the buckets, 16 bytes each, an entry: kind (4), checksum of the trailer (4), bucket (8), file (8), length (8), born (8).
    let buckets = u32::from_le_bytes(content[40..44].try_into().expect("four bytes")) as usize;
    let entries = content.get_mut(48 + 16 * buckets..).unwrap_or_default();
    for entry in entries.chunks_exact_mut(40) {
        let known = sums.iter().find(|(number, ..)| entry[16..24] == number.to_le_bytes());
        if let Some((_, length, sum)) = known {
            entry[4..8].copy_from_slice(sum);
            entry[24..32].copy_from_slice(&length.to_le_bytes());
        }
    }
    let sum = crc32c::crc32c_append(crc32c::crc32c(&content[..12]), &content[16..]);
    content[12..16].copy_from_slice(&sum.to_le_bytes());
    plant(io, &path, &content);
}

/// Header (16), one block and its checksum, index and its checksum, filter and its checksum, trailer (56).
fn reseal_run(run: u64, content: &mut [u8]) -> Option<()> {
    let trailer = content.len().checked_sub(56)?;
    let number = |content: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(content[at..at + 8].try_into().expect("eight bytes"))).ok()
    };
    let index = number(content, trailer + 8)?;
    let filter = index.checked_add(number(content, trailer + 16)?)?.checked_add(4)?;
    let end = filter.checked_add(number(content, trailer + 24)?)?.checked_add(4)?;
    if end != trailer || index < 20 || filter < index + 4 {
        return None;
    }
    let mut sums = Vec::new();
    for (start, end) in [(16, index - 4), (index, filter - 4), (filter, trailer - 4)] {
        let sum = checksum(run, start, content.get(start..end)?);
        content[end..end + 4].copy_from_slice(&sum);
        sums.extend_from_slice(&sum);
    }
    let header = checksum(run, 0, &content[..12]);
    content[12..16].copy_from_slice(&header);
    content[trailer + 48..trailer + 52].copy_from_slice(&crc32c::crc32c(&sums).to_le_bytes());
    let sum = checksum(run, trailer, &content[trailer..trailer + 52]);
    content[trailer + 52..].copy_from_slice(&sum);
    Some(())
}

fn checksum(run: u64, offset: usize, bytes: &[u8]) -> [u8; 4] {
    let start = crc32c::crc32c(&run.to_le_bytes());
    let placed = crc32c::crc32c_append(start, &(offset as u64).to_le_bytes());
    crc32c::crc32c_append(placed, bytes).to_le_bytes()
}
