//! Domains of projections at rest: every row with its checksums, every row against the effects, every effect of a rule against its event.
//!
//! Effects that workers committed say themselves what they changed, and nothing else does: of those the rows alone are compared. So it is with
//! projections over a whole namespace, whose effects do not name the partition of their event.
//!
//! Must not know: how rules are evaluated; that is the projection's own business.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::{Log, Options};
use gapless_partition::{Header, OutcomeKind, Untouched, Write};
use gapless_projection::{Audit, OpenEvent, Plan, Scope, View};
use gapless_types::{PartitionOffset, Position};

use super::partitions::Looking;
use super::{Depth, OnStep, Remedy, SAMPLED_BYTES, Step, Verified};
use crate::projections::event_of;
use crate::retention::Domain;
use crate::worker::with_causes;

const UNREADABLE: &str = "the state of a projection cannot be read; its commands may be gone from the log";
const WRONG: &str = "the state of a projection is not what follows from its events and effects";

impl Looking<'_> {
    pub(super) fn domain(
        &self,
        domain: &Domain,
        plan: &Plan,
        partition_dir: &Path,
        dir: PathBuf,
        verified: &mut Verified,
        step: OnStep<'_>,
    ) {
        let untouched: Arc<dyn Io> = Arc::new(Untouched::over(self.io.clone()));
        let Ok(names) = self.io.list(&dir) else {
            // Its first checkpoint makes it.
            return;
        };
        step(&Step { what: domain.to_string(), done: 0, of: 1 });
        let options = gapless_partition::Options::new();
        let remedy = Remedy::PartitionFromBackup(domain.partition);
        match gapless_projection::read_domain(untouched.clone(), &dir, options.store, &options.budget) {
            Ok((rows, _)) => verified.rows += rows,
            Err(error) => {
                let what = format!("{domain}: {}", with_causes(&error));
                return verified.damaged(dir, what, UNREADABLE, remedy);
            }
        }
        let length = |name: &String| {
            let file = self.io.open(&dir.join(name), gapless_log::io::OpenMode::Read);
            file.and_then(|file| file.len()).unwrap_or(0)
        };
        let bytes: u64 = names.iter().map(length).sum();
        // Where the partition log is damaged, that is said already.
        let log_is_whole =
            !verified.findings.iter().any(|found| found.path.starts_with(partition_dir.join("log")));
        if self.depth == Depth::Full || bytes <= SAMPLED_BYTES {
            let opened = gapless_projection::Domain::open(
                untouched.clone(),
                &dir,
                plan.definition(),
                options.store,
                &options.budget,
            );
            let wrong = match opened {
                Ok(opened) => self.wrong_of(&opened.view(), plan, partition_dir, log_is_whole),
                Err(error) => Some(with_causes(&error)),
            };
            verified.computed_domains += 1;
            if let Some(wrong) = wrong {
                verified.damaged(dir, format!("{domain}: {wrong}"), WRONG, remedy);
            }
        }
        step(&Step { what: domain.to_string(), done: 1, of: 1 });
    }

    /// The first thing that is not what follows from events and effects.
    fn wrong_of(&self, view: &View, plan: &Plan, partition_dir: &Path, with_events: bool) -> Option<String> {
        match view.first_wrong_row() {
            Ok(None) => {}
            Ok(Some(row)) => return Some(format!("{row} is not what its effects say")),
            Err(error) => return Some(with_causes(&error)),
        }
        if !with_events || plan.scope == Scope::Namespace {
            return None;
        }
        let untouched: Arc<dyn Io> = Arc::new(Untouched::over(self.io.clone()));
        let options = Options::clone(&gapless_partition::Options::new().log);
        let (log, _) = Log::open(untouched, partition_dir.join("log"), options).ok()?;
        let audited = view.audit(|offset| event_at(&log, plan, offset));
        log.abandon();
        match audited {
            Ok(Audit::Same) => None,
            Ok(Audit::Differs { slot, stored, computed }) => {
                Some(format!("the effect of slot {slot} is {stored}, and its rule says {computed}"))
            }
            Err(error) => Some(with_causes(&error)),
        }
    }
}

fn event_at(log: &Log, plan: &Plan, offset: PartitionOffset) -> Option<OpenEvent> {
    let record = log.read(Position::new(offset.get())).ok()?;
    let (header, body) = Header::decode(&record.payload).ok()?;
    if header.kind != OutcomeKind::Event {
        return None;
    }
    let write = Write::decode(body).ok()?;
    let key = plan.key_of(write.workspace.get(), write.payload);
    Some(OpenEvent::of(&event_of(plan, offset, &write, key.as_deref())))
}
