//! Rows, and what changed them. Whoever reads slowly is waited for; nothing is read far ahead of him.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use gapless_engine::projection::limits::{MAX_CHANGED_BYTES, MAX_ID_BYTES, MAX_NAME_BYTES};
use gapless_engine::projection::{Effect, View, Waiter};
use gapless_engine::retention::Domain;
use gapless_engine::types::WorkspaceId;
use gapless_engine::{Consistency, Freshness};
use prost::Message;

use super::{ProjectionCalls, messages, names};
use crate::check::Check;
use crate::ledger::Answers;
use crate::page;
use crate::problem::Problem;
use crate::reading::{Newness, off_thread, with_room};
use crate::unsent::Held;
use crate::v1;

/// Bytes of rows on a page or in a message, about: an answer stays below what clients take by default.
const PAGE_BYTES: usize = 1 << 20;
/// Most rows of an effect in one message.
const ROWS_OF_MESSAGE: usize = 1000;
/// Effects that are read at once, at most.
const EFFECTS_AT_ONCE: usize = 64;
/// Bytes of them, at most: the last one is the one that goes beyond.
const EFFECT_BYTES: usize = PAGE_BYTES + MAX_CHANGED_BYTES;

impl ProjectionCalls {
    /// Rows of a table.
    ///
    /// # Errors
    /// If the request breaks rules, there is no such projection, or it cannot be read as new as asked for.
    pub async fn query(
        &self,
        request: v1::QueryRequest,
        patience: Duration,
    ) -> Result<v1::QueryResponse, Problem> {
        let mut check = Check::default();
        names(&request.namespace, &request.projection, &mut check);
        let newness = Newness::of(request.options.as_ref(), &mut check);
        let size = check.page_size(request.page_size);
        if !(1..=MAX_NAME_BYTES).contains(&request.table.len()) {
            check.add(
                "table",
                format_args!("{} bytes; 1 to {MAX_NAME_BYTES} are needed", request.table.len()),
            );
        }
        for (field, text) in [("id", request.id.as_deref().unwrap_or_default()), ("prefix", &request.prefix)]
        {
            if text.len() > MAX_ID_BYTES {
                check.add(field, format_args!("{} bytes; the most are {MAX_ID_BYTES}", text.len()));
            }
        }
        if request.id.is_some() && !request.prefix.is_empty() {
            check.add("prefix", "an id is asked for, or ids that begin with something");
        }
        let number = request.workspace.to_le_bytes();
        let question: [&[u8]; 6] = [
            b"rows",
            request.namespace.as_bytes(),
            request.projection.as_bytes(),
            request.table.as_bytes(),
            &number,
            request.prefix.as_bytes(),
        ];
        let after = page::after(&question, &request.page_token, &mut check);
        check.end()?;
        let workspace = WorkspaceId::new(request.workspace);
        let (domain, workspace) = self.domain_of(&request.namespace, &request.projection, workspace)?;
        let (view, _held) =
            with_room(&self.unsent, patience, |patience| self.view(&request, &domain, newness, patience))
                .await?;
        let watermark = view.watermark();
        let (table, prefix, id) = (request.table.clone(), request.prefix.clone(), request.id.clone());
        let (rows, has_more) = off_thread(move || match id {
            Some(id) => {
                let (version, row) = view.row(&table, workspace, &id)?;
                Ok((vec![messages::row(&id, version, row.as_ref())], false))
            }
            None => rows(&view, &table, workspace, &prefix, after.as_deref(), size),
        })
        .await?;
        let next_page_token = match rows.last() {
            Some(last) if has_more => page::token(&question, last.id.as_bytes()),
            _ => String::new(),
        };
        Ok(v1::QueryResponse { rows, next_page_token, watermark })
    }

    async fn view(
        &self,
        request: &v1::QueryRequest,
        domain: &Domain,
        newness: Newness,
        patience: Duration,
    ) -> Result<View, Problem> {
        let started = tokio::time::Instant::now();
        let mut view = None;
        for consistency in newness.steps() {
            let freshness = match consistency {
                Consistency::Linearizable => Freshness::Linearizable,
                Consistency::Stale => Freshness::Stale,
                Consistency::AtLeast(offset) => Freshness::AtLeast(offset),
            };
            let left = patience.saturating_sub(started.elapsed());
            let read = self.engine.projected(domain, freshness, left).await;
            view = Some(read.map_err(|error| self.named(error, &request.namespace, &request.projection))?);
        }
        view.ok_or_else(|| Problem::violation("options.consistency", "is not known here"))
    }

    /// What slots changed from one on, then what they change.
    ///
    /// # Errors
    /// If the request breaks rules, or there is no such domain.
    pub fn subscribe_effects(
        &self,
        request: &v1::SubscribeEffectsRequest,
    ) -> Result<Answers<v1::SubscribeEffectsResponse>, Problem> {
        let place = self.place(&request.namespace, &request.projection, request.partition)?;
        let watermark = self.engine.watermark(&place.domain)?;
        let following = Following {
            calls: self.clone(),
            domain: place.domain,
            watermark,
            after: request.from.saturating_sub(1),
            read: VecDeque::new(),
            held: None,
        };
        let answers = stream::try_unfold(following, |mut following| async move {
            let effect = following.next().await?;
            Ok(effect.map(|effect| (v1::SubscribeEffectsResponse { effect: Some(effect) }, following)))
        });
        Ok(answers.boxed())
    }
}

/// A page of rows, and whether there are more behind it.
fn rows(
    view: &View,
    table: &str,
    workspace: WorkspaceId,
    prefix: &str,
    after: Option<&[u8]>,
    size: usize,
) -> Result<(Vec<v1::Row>, bool), Problem> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    let found: Box<dyn Iterator<Item = _>> = match after {
        Some(after) => Box::new(view.rows_behind(table, workspace, prefix, after)),
        None => Box::new(view.rows(table, workspace, prefix, gapless_engine::partition::Direction::Forward)),
    };
    for found in found {
        let (id, version, row) = found?;
        if page.len() == size || bytes >= PAGE_BYTES {
            return Ok((page, true));
        }
        let row = messages::row(&id, version, Some(&row));
        bytes += row.encoded_len();
        page.push(row);
    }
    Ok((page, false))
}

/// Somebody who follows the effects of a domain.
struct Following {
    calls: ProjectionCalls,
    domain: Domain,
    watermark: Waiter,
    /// The last slot that was read.
    after: u64,
    read: VecDeque<v1::Effect>,
    /// Room for what was read.
    held: Option<Held>,
}

impl Following {
    /// The next message; none when the domain is closed.
    async fn next(&mut self) -> Result<Option<v1::Effect>, Problem> {
        loop {
            if let Some(effect) = self.read.pop_front() {
                if self.read.is_empty() {
                    self.held = None;
                }
                return Ok(Some(effect));
            }
            let after = self.after;
            if self.watermark.reached(after + 1, std::future::pending()).await.is_err() {
                return Ok(None);
            }
            let mut held = self.calls.unsent.room(EFFECT_BYTES).await;
            let view =
                self.calls.engine.projected(&self.domain, Freshness::Slot(after + 1), PATIENCE).await?;
            let (read, bytes) = off_thread(move || effects(&view, after)).await?;
            held.keep(bytes);
            (self.read, self.held) = (read.into(), Some(held));
            if let Some(last) = self.read.back() {
                self.after = last.slot;
            }
        }
    }
}

/// How long a slot that is visible may take to be seen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Effects behind a slot: as many as fit, and at least one. And how many bytes they have.
fn effects(view: &View, after: u64) -> Result<(Vec<v1::Effect>, usize), Problem> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    for effect in view.effects(after).take(EFFECTS_AT_ONCE) {
        for message in pieces(&effect?) {
            bytes += message.encoded_len();
            read.push(message);
        }
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok((read, bytes))
}

/// An effect in messages that every client takes.
fn pieces(effect: &Effect) -> Vec<v1::Effect> {
    let empty = messages::effect(effect);
    let (mut pieces, mut piece, mut bytes) = (Vec::new(), empty.clone(), 0);
    for (table, id, row) in effect.writes() {
        if piece.rows.len() == ROWS_OF_MESSAGE || bytes >= PAGE_BYTES {
            piece.has_more = true;
            pieces.push(std::mem::replace(&mut piece, empty.clone()));
            bytes = 0;
        }
        let row = messages::row_write(table, id, row);
        bytes += row.encoded_len();
        piece.rows.push(row);
    }
    pieces.push(piece);
    pieces
}
