//! A domain with the log that feeds it: a restart forgets everything that is in neither.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use gapless_log::io::memory::MemoryIo;
use gapless_projection::{Answer, Applied, Command, Definition, Domain, Event, Input, Place, Stamp};
use gapless_store::{Budget, Options};
use gapless_types::{LogIndex, PartitionOffset, WorkspaceId};

/// Entries after which a checkpoint is made: few, so that restarts begin behind some and before others.
const ENTRIES_PER_CHECKPOINT: u64 = 3;
const MEMORY_BYTES: u64 = 1 << 30;

/// The workspace that all rows of these files belong to.
pub(crate) const WORKSPACE: WorkspaceId = WorkspaceId::new(0);

/// An event as a file gives it.
#[derive(Clone, Debug)]
pub(crate) struct OwnedEvent {
    pub(crate) event_type: String,
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
}

#[derive(Debug)]
enum Record {
    /// By its number among all events.
    Event(usize),
    Command(Vec<u8>),
}

/// A domain and everything it was ever given.
#[derive(Debug)]
pub(crate) struct LoggedDomain {
    io: Arc<MemoryIo>,
    budget: Budget,
    definition: Definition,
    domain: Option<Domain>,
    log: Vec<(u64, Record)>,
    events: Vec<OwnedEvent>,
}

impl LoggedDomain {
    pub(crate) fn new(definition: Definition) -> Result<Self> {
        let mut logged = Self {
            io: Arc::new(MemoryIo::new()),
            budget: Budget::new(MEMORY_BYTES, 1 << 20),
            definition,
            domain: None,
            log: Vec::new(),
            events: Vec::new(),
        };
        logged.restart()?;
        Ok(logged)
    }

    /// Stops without warning, and recovers from the last checkpoint and the log.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.domain = None;
        let io = Arc::clone(&self.io);
        let domain = Domain::open(io, "domain", self.definition.clone(), Options::default(), &self.budget)?;
        self.domain = Some(domain);
        for index in 0..self.log.len() {
            self.feed(index)?;
        }
        Ok(())
    }

    pub(crate) fn domain(&mut self) -> &mut Domain {
        self.domain.as_mut().expect("it is only away during a restart")
    }

    pub(crate) fn open(&mut self, time: u64, event: OwnedEvent) -> Result<u64> {
        self.events.push(event);
        self.log.push((time, Record::Event(self.events.len() - 1)));
        match self.feed_last()? {
            Applied::Opened(slot) => Ok(slot),
            other => bail!("an event was answered with {other:?}"),
        }
    }

    pub(crate) fn command(&mut self, time: u64, command: &Command<'_>) -> Result<Answer> {
        self.log.push((time, Record::Command(command.to_bytes())));
        match self.feed_last()? {
            Applied::Answered(answer) => {
                ensure!(
                    Answer::decode(&answer.to_bytes()) == Ok(answer.clone()),
                    "{answer:?} does not travel"
                );
                Ok(answer)
            }
            other => bail!("a command was answered with {other:?}"),
        }
    }

    /// An event by its place in the partition log.
    pub(crate) fn event(&self, source: PartitionOffset) -> Option<Event<'_>> {
        let number = usize::try_from(source.get()).ok()?.checked_sub(1)?;
        Some(event(source, self.events.get(number)?))
    }

    fn feed_last(&mut self) -> Result<Applied> {
        let index = self.log.len() - 1;
        let applied = self.feed(index)?;
        let index = LogIndex::new(index as u64);
        self.domain().passed(index);
        if index.get().is_multiple_of(ENTRIES_PER_CHECKPOINT) {
            self.domain().checkpoint(index)?;
            while self.domain().maintain()? {}
        }
        Ok(applied)
    }

    fn feed(&mut self, index: usize) -> Result<Applied> {
        let (time, record) = &self.log[index];
        let input = match record {
            Record::Command(bytes) => Input::Command(bytes),
            Record::Event(number) => {
                let source = PartitionOffset::try_from(*number as u64 + 1)?;
                Input::Outcome(event(source, &self.events[*number]))
            }
        };
        let place = Place { index: LogIndex::new(index as u64), position: 0 };
        let domain = self.domain.as_mut().expect("it is only away during a restart");
        Ok(domain.apply(place, Stamp::first(*time), input)?)
    }
}

fn event(source: PartitionOffset, event: &OwnedEvent) -> Event<'_> {
    Event {
        source,
        workspace: WORKSPACE,
        event_type: &event.event_type,
        key: event.key.as_deref(),
        payload: &event.payload,
    }
}
