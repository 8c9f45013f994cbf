//! Transactions of start, two numbers and flush: how long they take, and how many are refused.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use gapless_sequencer::{Drive, Params, Sequencer, StartError};
use gapless_types::{WorkspaceId, WorkspaceKind};
use serde::Serialize;

use crate::flat_storage::{FlatStorage, SEQUENCES};

const KIND: WorkspaceKind = WorkspaceKind::new(1);

/// Transactions between two calls of the background work, where the caller does it.
const PACE: u64 = 64;

/// Which workspaces, and how many.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Shape {
    pub(crate) workspaces: u64,
    pub(crate) transactions: u64,
}

/// Who does the background work, and how many values may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Setting {
    pub(crate) thread: bool,
    pub(crate) max_unflushed: usize,
}

/// What a run gave.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) microseconds: f64,
    /// Per transaction.
    pub(crate) refusals: f64,
}

/// Parameters of all runs: the default cache.
pub(crate) fn params(max_unflushed: usize) -> Params {
    let params = Params { max_unflushed, ..Params::new() };
    params.with_kind(KIND, SEQUENCES.map(|sequence| (sequence, 1)))
}

/// A sequencer in its stride.
pub(crate) struct Runner {
    sequencer: Sequencer<FlatStorage>,
    workspaces: u64,
    random: fastrand::Rng,
    refusals: u64,
}

impl Runner {
    pub(crate) fn new(workspaces: u64, setting: Setting) -> Result<Self> {
        let drive = if setting.thread { Drive::OS_THREAD } else { Drive::Caller };
        let mut params = params(setting.max_unflushed);
        if !setting.thread {
            params.flush_delay = Duration::ZERO;
        }
        let mut sequencer = Sequencer::new(params, FlatStorage::new(workspaces), drive)?;
        sequencer.wait_ready(Duration::from_secs(60))?;
        Ok(Self { sequencer, workspaces, random: fastrand::Rng::with_seed(1), refusals: 0 })
    }

    /// So many transactions on random workspaces; a refused one is tried again at once.
    pub(crate) fn run(&mut self, transactions: u64) -> Result<()> {
        for done in 0..transactions {
            let workspace = WorkspaceId::new(self.random.u64(..self.workspaces));
            self.transaction(workspace)?;
            if done % PACE == 0 {
                self.sequencer.run_background();
            }
        }
        Ok(())
    }

    /// Each workspace once.
    pub(crate) fn touch_all(&mut self) -> Result<()> {
        for workspace in 0..self.workspaces {
            self.transaction(WorkspaceId::new(workspace))?;
            if workspace % PACE == 0 {
                self.sequencer.run_background();
            }
        }
        Ok(())
    }

    pub(crate) fn statistics(&self) -> gapless_sequencer::Statistics {
        self.sequencer.statistics()
    }

    #[inline]
    fn transaction(&mut self, workspace: WorkspaceId) -> Result<()> {
        loop {
            match self.sequencer.start(KIND, workspace) {
                Ok(mut transaction) => {
                    std::hint::black_box(transaction.next(SEQUENCES[0])?);
                    std::hint::black_box(transaction.next(SEQUENCES[1])?);
                    transaction.flush();
                    return Ok(());
                }
                Err(StartError::Busy(_)) => {
                    self.refusals += 1;
                    std::thread::yield_now();
                }
                Err(other) => return Err(other.into()),
            }
        }
    }
}

/// One run, after a tenth of it for warming up.
pub(crate) fn measure(shape: Shape, setting: Setting) -> Result<Run> {
    let mut runner = Runner::new(shape.workspaces, setting)?;
    runner.run(shape.transactions / 10)?;
    runner.refusals = 0;
    let began = Instant::now();
    runner.run(shape.transactions)?;
    let took = began.elapsed();
    let transactions = shape.transactions as f64;
    Ok(Run {
        microseconds: took.as_secs_f64() * 1e6 / transactions,
        refusals: runner.refusals as f64 / transactions,
    })
}

/// What somebody would write who needs no bound on memory and no restart: two numbers of a map behind a lock.
pub(crate) fn measure_plain_map(shape: Shape) -> f64 {
    let numbers: Mutex<HashMap<(u64, u16), u64>> = Mutex::default();
    let mut random = fastrand::Rng::with_seed(1);
    let mut run = |transactions| {
        for _ in 0..transactions {
            let workspace = random.u64(..shape.workspaces);
            let mut numbers = numbers.lock().expect("nobody panics with it");
            for sequence in SEQUENCES {
                *numbers.entry((workspace, sequence.get())).or_default() += 1;
            }
        }
    };
    run(shape.transactions / 10);
    let began = Instant::now();
    run(shape.transactions);
    began.elapsed().as_secs_f64() * 1e6 / shape.transactions as f64
}
