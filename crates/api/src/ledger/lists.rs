//! Lists, page by page. A page ends at its size or when it is large, whichever comes first.

use std::time::Duration;

use gapless_engine::partition::{Entity, View};
use gapless_engine::types::limits::MAX_ENTITY_KEY_BYTES;
use gapless_engine::types::{RecordId, WorkspaceId};
use prost::Message;

use super::{LedgerCalls, expiry, record};
use crate::page;
use crate::problem::Problem;
use crate::reading::{Question, off_thread};
use crate::v1;

/// Bytes of items on a page, about: an answer stays below what clients take by default.
const PAGE_BYTES: usize = 1 << 20;
/// Items that are read at once while a page is filled.
const CHUNK: usize = 8;

impl LedgerCalls {
    /// The entities of a workspace, by ascending key.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn list_entities(
        &self,
        request: v1::ListEntitiesRequest,
        patience: Duration,
    ) -> Result<v1::ListEntitiesResponse, Problem> {
        let mut asked = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        let size = asked.check.page_size(request.page_size);
        if request.prefix.len() > MAX_ENTITY_KEY_BYTES {
            asked.check.add(
                "prefix",
                format_args!("{} bytes; the most are {MAX_ENTITY_KEY_BYTES}", request.prefix.len()),
            );
        }
        let workspace = request.workspace.to_le_bytes();
        let question: [&[u8]; 4] = [b"entities", request.namespace.as_bytes(), &workspace, &request.prefix];
        let after = page::after(&question, &request.page_token, &mut asked.check);
        let (view, _held) = asked.view_for(&self.engine, &self.unsent, patience).await?;
        let (workspace, prefix) = (WorkspaceId::new(request.workspace), request.prefix.clone());
        let (entities, more) = off_thread(move || entities(&view, workspace, &prefix, after, size)).await?;
        let next_page_token = match entities.last() {
            Some(last) if more => page::token(&question, &last.key),
            _ => String::new(),
        };
        Ok(v1::ListEntitiesResponse { entities, next_page_token })
    }

    /// The records of a workspace, by ascending id.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn list_records(
        &self,
        request: v1::ListRecordsRequest,
        patience: Duration,
    ) -> Result<v1::ListRecordsResponse, Problem> {
        let mut asked = Question::about(&request.namespace, request.workspace, request.options.as_ref());
        let size = asked.check.page_size(request.page_size);
        let workspace = request.workspace.to_le_bytes();
        let question: [&[u8]; 4] =
            [b"records", request.namespace.as_bytes(), &workspace, request.record_type.as_bytes()];
        let after = page::number(&question, &request.page_token, &mut asked.check).and_then(RecordId::new);
        let (view, _held) = asked.view_for(&self.engine, &self.unsent, patience).await?;
        let (workspace, record_type) = (WorkspaceId::new(request.workspace), request.record_type.clone());
        let page = off_thread(move || records(&view, workspace, &record_type, after, size)).await?;
        let token = |last: RecordId| page::token(&question, &last.get().to_le_bytes());
        Ok(v1::ListRecordsResponse {
            records: page.records,
            next_page_token: page.go_on_behind.map_or(String::new(), token),
        })
    }
}

/// A page of entities, and whether there are more behind it.
fn entities(
    view: &View,
    workspace: WorkspaceId,
    prefix: &[u8],
    mut after: Option<Vec<u8>>,
    size: usize,
) -> Result<(Vec<v1::Entity>, bool), Problem> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    loop {
        // One more than fits: if it comes, there is a next page.
        let wanted = CHUNK.min(size + 1 - page.len());
        let chunk = view.entities(workspace, prefix, after.as_deref(), wanted)?;
        let is_last = chunk.len() < wanted;
        for found in chunk {
            if page.len() == size || bytes >= PAGE_BYTES {
                return Ok((page, true));
            }
            bytes += found.key.len() + found.value.len();
            after = Some(found.key.to_vec());
            page.push(entity(found));
        }
        if is_last {
            return Ok((page, false));
        }
    }
}

struct RecordPage {
    records: Vec<v1::Record>,
    go_on_behind: Option<RecordId>,
}

/// A page of records. With a type, as many are looked at as fit a page, so that the answer never takes long.
fn records(
    view: &View,
    workspace: WorkspaceId,
    record_type: &str,
    mut after: Option<RecordId>,
    size: usize,
) -> Result<RecordPage, Problem> {
    let (mut records, mut seen, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let wanted = CHUNK.min(size + 1 - seen);
        let chunk = view.records(workspace, after, wanted)?;
        let is_last = chunk.len() < wanted;
        for stored in chunk {
            if seen == size || bytes >= PAGE_BYTES {
                return Ok(RecordPage { records, go_on_behind: after });
            }
            seen += 1;
            after = Some(stored.id);
            let found = record(&stored)?;
            bytes += found.encoded_len();
            if record_type.is_empty() || found.record_type == record_type {
                records.push(found);
            }
        }
        if is_last {
            return Ok(RecordPage { records, go_on_behind: None });
        }
    }
}

/// An entity.
pub(super) fn entity(entity: Entity) -> v1::Entity {
    v1::Entity {
        key: entity.key,
        value: entity.value,
        version: entity.version,
        expires_at_ms: expiry(entity.expires_at),
    }
}
