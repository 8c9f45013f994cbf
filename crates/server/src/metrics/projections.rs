//! What is read of projections, domain by domain.
//!
//! Must not know: how a page is written.

use std::collections::BTreeMap;

use gapless_engine::projection::{Blocking, Status};
use gapless_engine::{DomainReport, DomainState, Engine};

use super::definitions::*;
use super::page::Page;

/// Most domains that are shown one by one. More would be a page that nobody can scrape.
const MAX_SHOWN_DOMAINS: usize = 1024;

const STATES: [&str; 6] = ["opening", "serving", "catching_up", "failed", "quarantined", "closed"];

/// A domain, and what it is called.
struct Labelled {
    namespace: String,
    projection: String,
    partition: String,
    report: DomainReport,
}

pub(super) fn projections(page: &mut Page, engine: &Engine) {
    let domains = domains(engine);
    let mut states: BTreeMap<&str, u64> = STATES.iter().map(|state| (*state, 0)).collect();
    for domain in &domains {
        *states.entry(state(&domain.report.state)).or_default() += 1;
    }
    let mut family = page.family(PROJECTION_DOMAINS);
    for (state, count) in states {
        family.sample(&[state], count);
    }
    page.one(PROJECTION_DOMAINS_OMITTED, domains.len().saturating_sub(MAX_SHOWN_DOMAINS));
    let shown = &domains[..domains.len().min(MAX_SHOWN_DOMAINS)];
    for (metric, read) in BY_DOMAIN {
        let mut family = page.family(metric);
        for domain in shown {
            family.sample(&[&domain.namespace, &domain.projection, &domain.partition], read(&domain.report));
        }
    }
    for (metric, read) in RATIOS {
        let mut family = page.family(metric);
        for domain in shown {
            family.sample(&[&domain.namespace, &domain.projection, &domain.partition], read(&domain.report));
        }
    }
}

/// Every domain there is. One that is dropped meanwhile has no name any more.
fn domains(engine: &Engine) -> Vec<Labelled> {
    let mut domains = Vec::new();
    for namespace in engine.namespaces() {
        let name = namespace.name().as_str();
        for projection in engine.projections(name).unwrap_or_default() {
            domains.extend(projection.domains.into_iter().map(|report| Labelled {
                namespace: name.to_owned(),
                projection: projection.name.to_string(),
                partition: report.domain.partition.index.to_string(),
                report,
            }));
        }
    }
    domains
}

/// A metric, and what it reads of a domain.
type Read = (&'static Metric, fn(&DomainReport) -> u64);

/// The same, of what is a share.
type ReadShare = (&'static Metric, fn(&DomainReport) -> f64);

/// What is read of each domain.
const BY_DOMAIN: [Read; 28] = [
    (PROJECTION_GRANTED, |report| report.counters.granted),
    (PROJECTION_COMMITTED, |report| report.counters.committed),
    (PROJECTION_EXPIRED, |report| report.counters.expired),
    (PROJECTION_RELEASED, |report| report.counters.released),
    (PROJECTION_FAILED, |report| report.counters.failed),
    (PROJECTION_CONFLICTED, |report| report.counters.conflicted),
    (PROJECTION_VOIDED, |report| report.counters.voided),
    (PROJECTION_FENCED, |report| report.counters.fenced),
    (PROJECTION_FILLED, |report| report.counters.filled),
    (PROJECTION_DEAD_LETTERS, |report| report.counters.dead_letters),
    (PROJECTION_WINDOW_REFUSALS, |report| report.counters.window_refusals),
    (PROJECTION_CORRECTIONS, |report| report.counters.corrections),
    (PROJECTION_WAIT, |report| report.counters.wait_ms),
    (PROJECTION_HELD, |report| report.counters.held_ms),
    (PROJECTION_GRANTED_MS, |report| report.counters.granted_ms),
    (PROJECTION_ACTIVE, |report| report.counters.active),
    (PROJECTION_WAITING, |report| report.counters.waiting),
    (PROJECTION_EXPIRED_AT_ONCE, |report| report.counters.expired_at_once),
    (PROJECTION_REOPENINGS, |report| report.reopenings),
    (PROJECTION_WATERMARK, |report| status(report, |status| status.watermark)),
    (PROJECTION_TAIL, |report| status(report, |status| status.tail)),
    (PROJECTION_LAG, |report| status(report, Status::lag)),
    (PROJECTION_LAG_MS, |report| status(report, Status::lag_ms)),
    (PROJECTION_QUEUED, |report| report.queued as u64),
    (PROJECTION_HALTED, |report| status(report, |status| u64::from(status.is_halted))),
    (PROJECTION_BLOCKING_SLOT, |report| blocking(report, |slot| slot.slot)),
    (PROJECTION_BLOCKING_TOKEN, |report| blocking(report, |slot| slot.token)),
    (PROJECTION_BLOCKING_ATTEMPT, |report| blocking(report, |slot| u64::from(slot.attempt))),
];

/// Shares of each domain.
const RATIOS: [ReadShare; 2] = [
    (PROJECTION_EFFICIENCY, |report| report.counters.efficiency()),
    (PROJECTION_UTILIZATION, |report| report.counters.utilization()),
];

/// 0 while it is not open.
fn status(report: &DomainReport, read: impl Fn(&Status) -> u64) -> u64 {
    report.status.as_ref().map_or(0, read)
}

fn blocking(report: &DomainReport, read: impl Fn(&Blocking) -> u64) -> u64 {
    report.status.as_ref().and_then(|status| status.blocking.as_ref()).map_or(0, read)
}

fn state(state: &DomainState) -> &'static str {
    match state {
        DomainState::Opening => STATES[0],
        DomainState::Serving => STATES[1],
        DomainState::CatchingUp => STATES[2],
        DomainState::Failed(_) => STATES[3],
        DomainState::Quarantined(_) => STATES[4],
        DomainState::Closed => STATES[5],
    }
}
