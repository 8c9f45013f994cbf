//! Walks through sorted rows: one memtable, one run, or many of them merged.
//!
//! Invariants
//! - A merge yields each key once, with the row of its newest source.
//! - After an error nothing more comes.
//!
//! Must not know: spaces, snapshots, why somebody walks.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::bounds::Bounds;
use crate::error::ReadError;
use crate::format::block::{Block, Row};
use crate::memtable::{Memtable, Scan};
use crate::position::Direction;
use crate::run::{Caching, Run};

/// One source of sorted rows.
#[derive(Debug)]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(RunCursor),
}

/// Walks through a memtable, a handful of rows at a time, so that the writer never waits long.
#[derive(Debug)]
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    scan: Scan,
    rows: VecDeque<Row>,
    more: bool,
}

impl MemtableCursor {
    pub(crate) fn new(memtable: Arc<Memtable>, scan: Scan) -> Self {
        Self { memtable, scan, rows: VecDeque::new(), more: true }
    }

    fn next(&mut self) -> Option<Row> {
        while self.rows.is_empty() && self.more {
            self.more = self.memtable.scan(&mut self.scan, &mut self.rows);
        }
        self.rows.pop_front()
    }
}

/// Walks through a run.
#[derive(Debug)]
pub(crate) struct RunCursor {
    run: Arc<Run>,
    bounds: Bounds,
    direction: Direction,
    caching: Caching,
    place: RunPlace,
}

#[derive(Debug)]
enum RunPlace {
    Unstarted,
    /// In a block, with so many of its rows left.
    Inside {
        number: usize,
        block: Block,
        left: Range<usize>,
    },
    Ended,
}

impl RunCursor {
    pub(crate) fn new(run: Arc<Run>, bounds: Bounds, direction: Direction, caching: Caching) -> Self {
        let place = if bounds.is_empty() { RunPlace::Ended } else { RunPlace::Unstarted };
        Self { run, bounds, direction, caching, place }
    }

    fn next(&mut self) -> Result<Option<Row>, ReadError> {
        loop {
            self.place = match &mut self.place {
                RunPlace::Ended => return Ok(None),
                RunPlace::Unstarted => self.start()?,
                RunPlace::Inside { number, block, left } => {
                    let next = match self.direction {
                        Direction::Forward => left.next(),
                        Direction::Backward => left.next_back(),
                    };
                    if let Some(row) = next {
                        return Ok(Some(block.row(row)));
                    }
                    let number = *number;
                    match self.direction {
                        Direction::Forward => self.enter(number + 1)?,
                        Direction::Backward if number == 0 => RunPlace::Ended,
                        Direction::Backward => self.enter(number - 1)?,
                    }
                }
            };
        }
    }

    fn start(&self) -> Result<RunPlace, ReadError> {
        let index = self.run.index()?;
        let first = match self.direction {
            Direction::Forward => index.partition_point(|last| self.bounds.is_before(last)),
            // The block in which the range ends begins inside it or before it; the last one if it has no end.
            Direction::Backward => index
                .partition_point(|last| !self.bounds.is_behind(last))
                .min(index.count().saturating_sub(1)),
        };
        self.enter(first)
    }

    /// The rows of a block that are inside the bounds. Behind them, in walking order, there is nothing once a block
    /// reaches out of the bounds.
    fn enter(&self, number: usize) -> Result<RunPlace, ReadError> {
        if number >= self.run.index()?.count() {
            return Ok(RunPlace::Ended);
        }
        let block = self.run.block(number, self.caching)?;
        let from = block.partition_point(|key| self.bounds.is_before(key));
        let until = block.partition_point(|key| !self.bounds.is_behind(key));
        let left_behind = match self.direction {
            Direction::Forward => until == 0,
            Direction::Backward => from == block.count(),
        };
        if left_behind {
            return Ok(RunPlace::Ended);
        }
        Ok(RunPlace::Inside { number, block, left: from..until })
    }
}

impl Source {
    fn next(&mut self) -> Result<Option<Row>, ReadError> {
        match self {
            Self::Memtable(cursor) => Ok(cursor.next()),
            Self::Run(cursor) => cursor.next(),
        }
    }
}

/// Many sources as one. Sources that come first are newer.
#[derive(Debug)]
pub(crate) struct Merge {
    sources: Vec<(Source, Option<Row>)>,
    direction: Direction,
    started: bool,
}

impl Merge {
    pub(crate) fn new(sources: Vec<Source>, direction: Direction) -> Self {
        let sources = sources.into_iter().map(|source| (source, None)).collect();
        Self { sources, direction, started: false }
    }

    /// The next row, deletions included.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, ReadError> {
        let next = self.try_next();
        if next.is_err() {
            self.sources.clear();
        }
        next
    }

    fn try_next(&mut self) -> Result<Option<Row>, ReadError> {
        if !self.started {
            for (source, head) in &mut self.sources {
                *head = source.next()?;
            }
            self.started = true;
        }
        let Some(first) = self.first_head() else { return Ok(None) };
        let (source, head) = &mut self.sources[first];
        let row = head.take().expect("the first head is one that is there");
        *head = source.next()?;
        for (source, head) in &mut self.sources[first + 1..] {
            if head.as_ref().is_some_and(|older| older.key == row.key) {
                *head = source.next()?;
            }
        }
        Ok(Some(row))
    }

    /// The newest source whose head comes first. There are few sources: looking at each is faster than a heap.
    fn first_head(&self) -> Option<usize> {
        let mut first: Option<(usize, &Row)> = None;
        for (index, (_, head)) in self.sources.iter().enumerate() {
            let Some(row) = head else { continue };
            let earlier = first.is_none_or(|(_, best)| match self.direction {
                Direction::Forward => row.key < best.key,
                Direction::Backward => row.key > best.key,
            });
            if earlier {
                first = Some((index, row));
            }
        }
        first.map(|(index, _)| index)
    }
}
