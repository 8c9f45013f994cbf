//! What there is, how it does, and what it could not take in.

use std::time::Duration;

use gapless_engine::projection::{Blocking, Health, Stage, Status, View, Vitals};
use gapless_engine::types::{LogIndex, PartitionOffset};
use gapless_engine::{DomainReport, DomainState, Freshness, ProjectionReport};

use super::{ProjectionCalls, names};
use crate::check::Check;
use crate::definition::projection_toml;
use crate::page;
use crate::problem::{Problem, ProblemKind};
use crate::reading::off_thread;
use crate::v1;
use crate::write::milliseconds;

impl ProjectionCalls {
    /// The projections of a namespace, page by page.
    ///
    /// # Errors
    /// If the request breaks rules, or there is no such namespace.
    pub fn list(&self, request: &v1::ListRequest) -> Result<v1::ListResponse, Problem> {
        let mut check = Check::default();
        check.name("namespace", &request.namespace);
        let size = check.page_size(request.page_size);
        let question: [&[u8]; 2] = [b"projections", request.namespace.as_bytes()];
        let after = page::after(&question, &request.page_token, &mut check);
        check.end()?;
        let found = self.engine.projections(&request.namespace);
        let mut found = found.map_err(|error| self.named(error, &request.namespace, ""))?;
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.retain(|report| after.as_deref().is_none_or(|after| report.name.as_str().as_bytes() > after));
        let has_more = found.len() > size;
        found.truncate(size);
        let token = |last: &ProjectionReport| page::token(&question, last.name.as_str().as_bytes());
        let next_page_token = found.last().filter(|_| has_more).map_or(String::new(), token);
        Ok(v1::ListResponse { projections: found.iter().map(projection).collect(), next_page_token })
    }

    /// A projection with its domains, page by page.
    ///
    /// # Errors
    /// If the request breaks rules, or there is no such projection.
    pub fn describe(&self, request: &v1::DescribeRequest) -> Result<v1::DescribeResponse, Problem> {
        let mut check = Check::default();
        names(&request.namespace, &request.projection, &mut check);
        let size = check.page_size(request.page_size);
        let question: [&[u8]; 3] = [b"domains", request.namespace.as_bytes(), request.projection.as_bytes()];
        let after = page::number(&question, &request.page_token, &mut check);
        check.end()?;
        let report = self.report(&request.namespace, &request.projection)?;
        let mut found: Vec<&DomainReport> = report.domains.iter().collect();
        found.sort_by_key(|report| index(report));
        found.retain(|report| after.is_none_or(|after| u64::from(index(report)) > after));
        let has_more = found.len() > size;
        found.truncate(size);
        let token = |last: &&DomainReport| page::token(&question, &u64::from(index(last)).to_le_bytes());
        let next_page_token = found.last().filter(|_| has_more).map_or(String::new(), token);
        Ok(v1::DescribeResponse {
            projection: Some(projection(&report)),
            domains: found.into_iter().map(domain).collect(),
            next_page_token,
        })
    }

    /// Slots whose event had no effect, by partition and slot, page by page.
    ///
    /// # Errors
    /// If the request breaks rules, there is no such projection, or it cannot be read.
    pub async fn list_dead_letters(
        &self,
        request: v1::ListDeadLettersRequest,
        patience: Duration,
    ) -> Result<v1::ListDeadLettersResponse, Problem> {
        let mut check = Check::default();
        names(&request.namespace, &request.projection, &mut check);
        let size = check.page_size(request.page_size);
        let question: [&[u8]; 3] =
            [b"dead letters", request.namespace.as_bytes(), request.projection.as_bytes()];
        let behind = page::after(&question, &request.page_token, &mut check);
        let (from, mut after) = place(behind, &mut check);
        check.end()?;
        let report = self.report(&request.namespace, &request.projection)?;
        let mut domains: Vec<&DomainReport> = report.domains.iter().collect();
        domains.sort_by_key(|report| index(report));
        let mut letters: Vec<v1::DeadLetter> = Vec::new();
        for report in domains.into_iter().filter(|report| index(report) >= from) {
            let view = self.engine.projected(&report.domain, Freshness::Stale, patience).await;
            let view = view.map_err(|error| self.named(error, &request.namespace, &request.projection))?;
            let (partition, wanted) = (index(report), size + 1 - letters.len());
            letters.extend(off_thread(move || dead_letters(&view, partition, after, wanted)).await?);
            after = 0;
            if letters.len() > size {
                break;
            }
        }
        let has_more = letters.len() > size;
        letters.truncate(size);
        let token = |last: &v1::DeadLetter| {
            let mut bytes = last.partition.to_le_bytes().to_vec();
            bytes.extend_from_slice(&last.slot.to_le_bytes());
            page::token(&question, &bytes)
        };
        let next_page_token = letters.last().filter(|_| has_more).map_or(String::new(), token);
        Ok(v1::ListDeadLettersResponse { dead_letters: letters, next_page_token })
    }

    pub(super) fn report(&self, namespace: &str, projection: &str) -> Result<ProjectionReport, Problem> {
        self.engine
            .projection(namespace, projection)
            .map_err(|error| self.named(error, namespace, projection))
    }
}

/// The partition and the slot behind which a page begins.
fn place(after: Option<Vec<u8>>, check: &mut Check) -> (u32, u64) {
    let Some(bytes) = after else { return (0, 0) };
    let parts = bytes.split_at_checked(4).and_then(|(partition, slot)| {
        let partition = partition.try_into().map(u32::from_le_bytes).ok()?;
        Some((partition, slot.try_into().map(u64::from_le_bytes).ok()?))
    });
    if parts.is_none() {
        page::refuse(check);
    }
    parts.unwrap_or((0, 0))
}

fn dead_letters(
    view: &View,
    partition: u32,
    after: u64,
    wanted: usize,
) -> Result<Vec<v1::DeadLetter>, Problem> {
    let letter = |fill: Result<gapless_engine::projection::Fill, _>| {
        let fill = fill?;
        let effect = view.effect(fill.slot)?;
        let effect = effect.ok_or_else(|| {
            Problem::new(ProblemKind::Internal, "STORAGE_FAULT", "a filled slot without an effect")
        })?;
        Ok(v1::DeadLetter {
            partition,
            slot: fill.slot,
            partition_offset: effect.source.map_or(0, PartitionOffset::get),
            workspace: effect.workspace.get(),
            filled_because: fill.why.name().to_owned(),
            filled_at_ms: milliseconds(effect.time),
        })
    };
    let fills = view.fills(after).filter(|fill| fill.as_ref().map_or(true, |fill| fill.is_dead_letter));
    // A fill above the watermark waits for its turn, and has no effect yet.
    let visible = fills.take_while(|fill| fill.as_ref().map_or(true, |fill| fill.slot <= view.watermark()));
    visible.take(wanted).map(letter).collect()
}

fn index(report: &DomainReport) -> u32 {
    u32::from(report.domain.partition.index.get())
}

/// None while it is not open.
fn health(report: &DomainReport) -> Option<Health> {
    report.status.as_ref().map(|status| Vitals::of(&report.counters, status).health())
}

fn projection(report: &ProjectionReport) -> v1::Projection {
    let domains = &report.domains;
    let open = || domains.iter().filter_map(|domain| domain.status.as_ref());
    let mut alerts: Vec<String> = domains
        .iter()
        .filter_map(health)
        .flat_map(|health| health.alerts)
        .map(|alert| alert.code().to_owned())
        .collect();
    alerts.sort();
    alerts.dedup();
    v1::Projection {
        name: report.name.to_string(),
        version: report.version,
        since_log_index: report.since.get(),
        definition: projection_toml(&report.plan.to_json()),
        computed_by_rules: !report.plan.rules.is_empty(),
        domains: u32::try_from(domains.len()).unwrap_or(u32::MAX),
        lag: open().map(Status::lag).sum(),
        lag_ms: open().map(Status::lag_ms).max().unwrap_or(0),
        dead_letters: domains.iter().map(|domain| domain.counters.dead_letters).sum(),
        halted: u32::try_from(open().filter(|status| status.is_halted).count()).unwrap_or(u32::MAX),
        alerts,
    }
}

fn domain(report: &DomainReport) -> v1::ProjectionDomain {
    use v1::DomainState as State;
    let (state, reason) = match &report.state {
        DomainState::Opening => (State::Opening, ""),
        DomainState::Serving => (State::Serving, ""),
        DomainState::CatchingUp => (State::CatchingUp, ""),
        DomainState::Failed(reason) => (State::Failed, &**reason),
        DomainState::Quarantined(reason) => (State::Quarantined, &**reason),
        DomainState::Closed => (State::Closed, ""),
    };
    let (counters, health) = (&report.counters, health(report));
    // One that is not open is nowhere.
    let nowhere = Status { watermark: 0, tail: 0, clock: 0, is_halted: false, blocking: None };
    let status = report.status.as_ref().unwrap_or(&nowhere);
    v1::ProjectionDomain {
        partition: index(report),
        state: state.into(),
        reason: reason.to_owned(),
        watermark: status.watermark,
        tail: status.tail,
        lag: status.lag(),
        lag_ms: status.lag_ms(),
        clock_ms: milliseconds(status.clock),
        halted: status.is_halted,
        blocking: status.blocking.as_ref().map(blocking),
        counters: counters.each().map(|(name, count)| (name.to_owned(), count)).collect(),
        efficiency: health.as_ref().map_or(1.0, |health| health.efficiency),
        mean_wait_ms: counters.mean_wait_ms(),
        utilization: counters.utilization(),
        queued_entries: report.queued as u64,
        reopenings: report.reopenings,
        through_log_index: report.through.map(LogIndex::get),
        performs_well: health.as_ref().is_some_and(|health| health.performs_well),
        alerts: health
            .iter()
            .flat_map(|health| &health.alerts)
            .map(|alert| alert.code().to_owned())
            .collect(),
    }
}

fn blocking(slot: &Blocking) -> v1::BlockingSlot {
    let stage = match slot.stage {
        Stage::Ready => "ready",
        Stage::Leased => "leased",
        Stage::Staged => "staged",
        Stage::Filled(_) => "filled",
    };
    v1::BlockingSlot {
        slot: slot.slot,
        stage: stage.to_owned(),
        token: slot.token,
        holder: slot.holder.to_string(),
        opened_at_ms: milliseconds(slot.opened_at),
        leased_at_ms: milliseconds(slot.leased_at),
        expires_at_ms: milliseconds(slot.expires_at),
        committed_at_ms: milliseconds(slot.committed_at),
        attempt: slot.attempt,
    }
}
