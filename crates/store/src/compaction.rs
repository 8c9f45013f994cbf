//! Merges runs, so that reading stays fast and what was overwritten, deleted or dropped gives its room back.
//!
//! Runs of a space are merged when at least four neighbours in age are of similar length: each row is written about
//! once for every fourfold growth of its space. A bucket that nobody writes to any more becomes one run.
//!
//! Invariants
//! - A merge changes no row that anybody can read.
//! - A step does a bounded amount of work; what a crash interrupts starts over.
//!
//! Must not know: memtables, when somebody has time for a step.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bounds::Bounds;
use crate::checkpoint::Workshop;
use crate::cursor::{Merge, RunCursor, Source};
use crate::error::MaintainError;
use crate::limits::MAX_RUN_BYTES;
use crate::position::{Direction, Space};
use crate::run::{Caching, Run};
use crate::run_writer::RunWriter;
use crate::version::Version;

/// So many runs of similar length are merged.
const SIMILAR_RUNS: usize = 4;
/// More runs than this are merged whatever their length.
const MOST_RUNS: usize = 12;
/// A bucket is quiet when so many checkpoints have named no new run of it.
const QUIET_CHECKPOINTS: u64 = 4;

/// What a step of maintenance has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintained {
    /// Nothing: there is nothing to do.
    Idle,
    /// A part of a merge; there is more.
    Partly,
    /// The last part of a merge. Another one may be due.
    Finished,
}

/// Which runs to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    space: Space,
    runs: Range<usize>,
}

/// What is most worth merging: of all spaces that have a candidate, the one with the most runs.
pub(crate) fn plan(version: &Version) -> Option<Plan> {
    let candidates = version.spaces().filter_map(|(space, runs)| {
        let lengths: Vec<u64> = runs.iter().map(|run| run.length).collect();
        let newest = runs.first().map_or(0, |run| run.born);
        let quiet = space != Space::Main && newest + QUIET_CHECKPOINTS <= version.number;
        Some((lengths.len(), Plan { space, runs: similar_runs(&lengths, quiet)? }))
    });
    // The first of equals, so that the choice depends on the version alone.
    candidates.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, plan)| plan)
}

/// The newest runs that should be one, given the lengths of all, the newest first.
fn similar_runs(lengths: &[u64], quiet: bool) -> Option<Range<usize>> {
    let total_of = |count: usize| lengths[..count].iter().sum::<u64>();
    let mut count = 1;
    while count < lengths.len() && lengths[count] <= total_of(count) {
        count += 1;
    }
    let wanted = if quiet && lengths.len() > 1 {
        lengths.len()
    } else if count >= SIMILAR_RUNS {
        count
    } else if lengths.len() > MOST_RUNS {
        lengths.len() - MOST_RUNS + 1
    } else {
        return None;
    };
    let fitting = (2..=wanted.max(2)).rev().find(|count| total_of(*count) <= MAX_RUN_BYTES)?;
    Some(0..fitting)
}

/// A merge under way. It can be stepped on any thread; dropping it loses nothing.
#[derive(Debug)]
pub struct Compaction {
    workshop: Workshop,
    pub(crate) space: Space,
    pub(crate) inputs: Vec<Arc<Run>>,
    /// Whether nothing older is left that a deletion would have to hide.
    oldest: bool,
    merge: Merge,
    writer: Option<RunWriter>,
    progress: Progress,
    pub(crate) underway: Arc<()>,
}

#[derive(Debug)]
enum Progress {
    Merging,
    /// The output; none if no row is left.
    Done(Option<Arc<Run>>),
}

impl Compaction {
    pub(crate) fn new(workshop: &Workshop, version: &Version, plan: Plan, underway: Arc<()>) -> Self {
        let runs = version.runs(plan.space);
        let oldest = plan.runs.end == runs.len();
        let inputs = runs[plan.runs].to_vec();
        let cursor = |run: &Arc<Run>| {
            let run = Arc::clone(run);
            Source::Run(RunCursor::new(run, Bounds::all(), Direction::Forward, Caching::Bypass))
        };
        let merge = Merge::new(inputs.iter().map(cursor).collect(), Direction::Forward);
        Self {
            workshop: workshop.clone(),
            space: plan.space,
            inputs,
            oldest,
            merge,
            writer: None,
            progress: Progress::Merging,
            underway,
        }
    }

    /// Merges about `bytes` bytes of rows. [`Maintained::Finished`] once the output is durable; after an error the
    /// merge is to be dropped.
    pub fn step(&mut self, bytes: u64) -> Result<Maintained, MaintainError> {
        if let Progress::Done(_) = self.progress {
            return Ok(Maintained::Finished);
        }
        let mut merged = 0;
        while merged < bytes.max(1) {
            let Some(row) = self.merge.next()? else {
                self.finish()?;
                return Ok(Maintained::Finished);
            };
            merged += (row.key.len() + row.value.as_ref().map_or(0, bytes::Bytes::len)) as u64;
            if row.value.is_some() || !self.oldest {
                self.writer()?.push(&row.key, row.value.as_deref())?;
            }
        }
        // So that no single sync has to carry a whole large run.
        if let Some(writer) = &mut self.writer {
            writer.sync()?;
        }
        Ok(Maintained::Partly)
    }

    pub(crate) fn output(&self) -> Option<&Arc<Run>> {
        match &self.progress {
            Progress::Merging => panic!("a merge is installed when it is finished"),
            Progress::Done(output) => output.as_ref(),
        }
    }

    fn writer(&mut self) -> Result<&mut RunWriter, MaintainError> {
        if self.writer.is_none() {
            let most_rows = self.inputs.iter().map(|run| run.trailer.rows).sum();
            let number = self.workshop.new_file();
            self.writer = Some(RunWriter::create(&self.workshop.disk, number, most_rows)?);
        }
        Ok(self.writer.as_mut().expect("it was just made"))
    }

    fn finish(&mut self) -> Result<(), MaintainError> {
        let born = self.inputs.iter().map(|run| run.born).max().unwrap_or(0);
        let output = match self.writer.take() {
            None => None,
            Some(writer) => {
                let run = writer.finish(born, &self.workshop.budget)?;
                if let Err(error) = self.workshop.disk.sync_names() {
                    // What cannot be removed now is removed by the next opening.
                    let _ = self.workshop.disk.remove(run.path());
                    return Err(error.into());
                }
                self.workshop.counters.bytes_written.fetch_add(run.length, Ordering::Relaxed);
                Some(Arc::new(run))
            }
        };
        self.progress = Progress::Done(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_similar_runs_become_one() {
        assert_eq!(similar_runs(&[10, 10, 10], false), None);
        assert_eq!(similar_runs(&[10, 10, 10, 10], false), Some(0..4));
        assert_eq!(similar_runs(&[10, 10, 10, 10, 100], false), Some(0..4));
        assert_eq!(similar_runs(&[10, 10, 10, 10, 35], false), Some(0..5));
        assert_eq!(similar_runs(&[10, 100, 1000, 10_000], false), None);
    }

    #[test]
    fn too_many_runs_are_merged_whatever_their_length() {
        let growing: Vec<u64> = (0..14).map(|power| 10 << power).collect();
        assert_eq!(similar_runs(&growing[..12], false), None);
        assert_eq!(similar_runs(&growing, false), Some(0..3));
    }

    #[test]
    fn a_quiet_bucket_becomes_one_run() {
        assert_eq!(similar_runs(&[10, 1000], true), Some(0..2));
        assert_eq!(similar_runs(&[10], true), None);
    }

    #[test]
    fn no_merge_makes_a_run_that_is_too_long() {
        let lengths = [MAX_RUN_BYTES / 3; 6];
        assert_eq!(similar_runs(&lengths, false), Some(0..3));
        assert_eq!(similar_runs(&[MAX_RUN_BYTES; 6], false), None);
    }
}
