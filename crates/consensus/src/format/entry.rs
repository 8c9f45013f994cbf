//! An entry as the payload of a record of the log. Its index is the record's position, its checksum the record's.
//!
//! ```text
//! | version: u8 | kind: u8 | reserved: 6 | term: u64 | content |
//!
//! kind 1, blank: no content    kind 2, members: as in `members.rs`    kind 3, proposed: the bytes as proposed
//! ```

use bytes::Bytes;
use gapless_types::LogIndex;

use super::{FORMAT_VERSION, Input, Malformed, get_version, members};
use crate::identity::Term;
use crate::limits::ENTRY_HEADER_BYTES;
use crate::machine::CommittedBody;
use crate::message::{Entry, EntryId};

const BLANK: u8 = 1;
const MEMBERS: u8 = 2;
const PROPOSED: u8 = 3;

pub(crate) fn encode(entry: &Entry) -> Vec<u8> {
    let content = if let CommittedBody::Entry(content) = &entry.body { content.len() } else { 0 };
    let mut bytes = Vec::with_capacity(ENTRY_HEADER_BYTES + content);
    let kind = match entry.body {
        CommittedBody::Blank => BLANK,
        CommittedBody::Members(_) => MEMBERS,
        CommittedBody::Entry(_) => PROPOSED,
    };
    bytes.extend_from_slice(&[FORMAT_VERSION, kind, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&entry.id.term.get().to_le_bytes());
    match &entry.body {
        CommittedBody::Blank => {}
        CommittedBody::Members(members) => members::put(&mut bytes, members),
        CommittedBody::Entry(content) => bytes.extend_from_slice(content),
    }
    bytes
}

/// The entry at `index`; what was proposed shares the memory of `bytes`.
pub(crate) fn decode(index: LogIndex, bytes: &Bytes) -> Result<Entry, Malformed> {
    let mut input = Input::new(bytes);
    get_version(&mut input)?;
    let kind = input.u8()?;
    input.reserved(6)?;
    let id = EntryId { term: Term::new(input.u64()?), index };
    let body = match kind {
        BLANK => {
            input.end()?;
            CommittedBody::Blank
        }
        MEMBERS => {
            let members = members::get(&mut input)?;
            input.end()?;
            CommittedBody::Members(members)
        }
        PROPOSED => CommittedBody::Entry(bytes.slice(ENTRY_HEADER_BYTES..)),
        _ => return Err(Malformed("its kind is unknown")),
    };
    Ok(Entry { id, body })
}
