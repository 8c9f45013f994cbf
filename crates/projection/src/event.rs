//! An event as it reaches a domain: what the partition made of it, routed here.

use bytes::BufMut;
use gapless_log::input::{Input, Malformed};
use gapless_types::{PartitionOffset, WorkspaceId};
use serde_json::Value as Json;

use crate::codec::{Put, Take};
use crate::limits::{MAX_EVENT_BYTES, MAX_KEY_BYTES, MAX_NAME_BYTES};
use crate::value::{Row, fields_from_json};

const VERSION: u8 = 1;

/// An event that a claimed slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its place in the partition log.
    pub source: PartitionOffset,
    /// The workspace whose rows it concerns.
    pub workspace: WorkspaceId,
    /// Its type: decides which rule it meets.
    pub event_type: &'a str,
    /// What it must stay in order with, where that is asked for.
    pub key: Option<&'a str>,
    /// Its fields, as a JSON object. Rules see none if it is anything else.
    pub payload: &'a [u8],
}

impl<'a> Event<'a> {
    /// Whether it is within the limits. One that is not cannot be routed.
    pub fn is_within_limits(&self) -> bool {
        self.event_type.len() <= MAX_NAME_BYTES
            && self.key.is_none_or(|key| key.len() <= MAX_KEY_BYTES)
            && self.payload.len() <= MAX_EVENT_BYTES
    }

    /// Its fields by name; none of them if the payload is no JSON object.
    pub(crate) fn fields(&self) -> Row {
        match serde_json::from_slice(self.payload) {
            Ok(Json::Object(fields)) => fields_from_json(&fields),
            _ => Row::new(),
        }
    }

    pub(crate) fn encode(&self, opened_at: u64, bytes: &mut Vec<u8>) {
        bytes.put_u8(VERSION);
        bytes.put_u64_le(opened_at);
        bytes.put_u64_le(self.source.get());
        bytes.put_u64_le(self.workspace.get());
        bytes.put_short(self.event_type.as_bytes());
        bytes.put_u8(u8::from(self.key.is_some()));
        bytes.put_short(self.key.unwrap_or_default().as_bytes());
        bytes.put_long(self.payload);
    }

    /// An event and when it was opened.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<(Self, u64), Malformed> {
        let mut input = Input::new(bytes);
        if input.u8()? != VERSION {
            return Err(Malformed("an event of an unknown version"));
        }
        let opened_at = input.u64()?;
        let source = PartitionOffset::new(input.u64()?).ok_or(Malformed("an event without a place"))?;
        let workspace = WorkspaceId::new(input.u64()?);
        let event_type = input.text(MAX_NAME_BYTES)?;
        let has_key = input.flag()?;
        let key = input.text(MAX_KEY_BYTES)?;
        let payload = input.long()?;
        input.end()?;
        Ok((Self { source, workspace, event_type, key: has_key.then_some(key), payload }, opened_at))
    }
}
