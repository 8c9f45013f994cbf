//! Decoders of bytes that come from a disk or from another node, for the fuzz targets alone.
//!
//! Must not know: where the bytes come from.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, write_all_at};
use gapless_types::{Name, NamespaceId, PartitionId, PartitionIndex};
use sha2::{Digest, Sha256};

use crate::backup::{Directory, FileEntry, Manifest, PieceReader, What, entry_of, row_of};
use crate::catalog::{decode_catalog, encode_catalog};
use crate::questions::{Answer, Question};
use crate::retention::Domain;

/// A catalog file as it would be written again; none if it is not read.
#[must_use]
pub fn catalog_again(bytes: &[u8]) -> Option<Vec<u8>> {
    decode_catalog(bytes).ok().map(|stored| encode_catalog(&stored))
}

/// The manifest of a backup as it would be written again; none if it is not read.
#[must_use]
pub fn manifest_again(bytes: &[u8]) -> Option<Vec<u8>> {
    let manifest = Manifest::decode(bytes).ok()?;
    // What is in it is looked at as a restore does.
    let _ = manifest.stored_catalog();
    assert!(manifest.files.iter().all(|file| file.path().is_relative()), "no file lies elsewhere");
    Some(manifest.encode())
}

/// A manifest with the checksum that its bytes have.
#[must_use]
pub fn sealed_manifest(bytes: &[u8]) -> Vec<u8> {
    let content = &bytes[..bytes.len().saturating_sub(32)];
    let digest: [u8; 32] = Sha256::digest(content).into();
    [content, &digest[..]].concat()
}

/// The items of a file of a backup, of which the manifest says this length and this checksum; none if one of them is not read.
#[must_use]
pub fn piece_items(bytes: &[u8], kind: u8) -> Option<Vec<Vec<u8>>> {
    let partition = PartitionId { namespace: NamespaceId::new(16), index: PartitionIndex::new(0) };
    let what = match kind % 3 {
        0 => What::Outcomes(partition),
        1 => What::Entries,
        _ => What::Rows(Domain { projection: Name::new("totals").ok()?, version: 1, partition }),
    };
    let (length, digest) = (bytes.len() as u64, Sha256::digest(bytes).into());
    let file = FileEntry { what, first: 1, last: 1, length, digest };
    let (io, root) = (Arc::new(MemoryIo::new()), Path::new("backups"));
    let path = root.join(file.path());
    io.create_dir(path.parent()?).ok()?;
    write_all_at(&*io.open(&path, OpenMode::Create).ok()?, bytes, 0).ok()?;
    let mut reader = PieceReader::open(&*io, root, &file).ok()?;
    let mut items = Vec::new();
    while let Some(item) = reader.next().ok()? {
        let _ = (entry_of(&item), row_of(&item));
        items.push(item.to_vec());
    }
    assert_eq!(reader.position(), length, "everything was read");
    Some(items)
}

/// What one node asks another as it would be asked again, and the same of an answer; none if it is not read.
#[must_use]
pub fn question_again(bytes: &[u8]) -> (Option<Bytes>, Option<Bytes>) {
    let bytes = Bytes::copy_from_slice(bytes);
    let question = Question::decode(&bytes).ok().map(|question| question.encode());
    (question, Answer::decode(&bytes).ok().map(|answer| answer.encode()))
}

/// Makes every checksum of a backup right: of the items of its files, of the files, of its manifests. What the manifests say besides
/// stays as it is.
pub fn seal_backup(io: &MemoryIo, root: &Path) {
    let directory = Directory::new(Arc::new(io.clone()), root);
    for path in directory.manifest_files().unwrap_or_default() {
        let Ok(bytes) = io.bytes_of(&path) else { continue };
        let mut sealed = sealed_manifest(&bytes);
        if let Ok(mut manifest) = Manifest::decode(&sealed) {
            for file in &mut manifest.files {
                let path = root.join(file.path());
                let Ok(bytes) = io.bytes_of(&path) else { continue };
                let bytes = sealed_piece(bytes);
                // It is there: its bytes were read.
                let _ = io.overwrite(&path, 0, &bytes);
                (file.length, file.digest) = (bytes.len() as u64, Sha256::digest(&bytes).into());
            }
            sealed = manifest.encode();
        }
        let _ = io.set_len(&path, 0).and_then(|()| io.overwrite(&path, 0, &sealed));
    }
}

/// A file of a backup with the checksums that its items have.
fn sealed_piece(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 24;
    while let Some(&[a, b, c, d]) = bytes.get(at..at + 4) {
        let end = (at + 8).saturating_add(u32::from_le_bytes([a, b, c, d]) as usize);
        let Some(item) = bytes.get(at + 8..end) else { break };
        let sum = crc32c::crc32c(item).to_le_bytes();
        bytes[at + 4..at + 8].copy_from_slice(&sum);
        at = end;
    }
    bytes
}
