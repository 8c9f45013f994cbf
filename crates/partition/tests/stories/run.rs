//! Runs the commands of a story against a partition on a disk of memory.

use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_partition::{Fault, Opened, View};
use gapless_store::{Direction, Store};
use gapless_types::{ClientSequence, PartitionOffset, RecordId, WorkspaceId, WorkspaceOffset};

use crate::harness::{Bench, DIR, define_command, definition, idempotency_key, options, record};
use crate::parse::{self, Parsed, Words, bytes, number};
use crate::show;

/// Where a story plays.
pub(crate) struct Stage {
    disk: Arc<MemoryIo>,
    bench: Bench,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let disk = Arc::new(MemoryIo::new());
        let bench = Bench::on(disk.clone() as Arc<dyn Io>, options());
        Self { disk, bench }
    }

    /// What a command gives, without a newline at its end.
    pub(crate) fn run(&mut self, lines: &[String]) -> Parsed<String> {
        let words = Words::of(&lines[0]);
        match words.at(0)? {
            "shop" => Ok(show::outcome(&self.bench.apply(define_command(&definition())))),
            "define" => {
                let definition = parse::definition(lines)?;
                Ok(show::outcome(&self.bench.apply(define_command(&definition))))
            }
            "write" => {
                let write = parse::write(lines)?;
                let key = words.number("key")?.unwrap_or(self.bench.commands.len() as u64 + 1);
                let mut command = Vec::new();
                gapless_partition::Command::encode_write(idempotency_key(key), &write, &mut command);
                Ok(show::outcome(&self.bench.apply(command)))
            }
            "command" => Ok(show::outcome(&self.bench.apply(bytes(words.at(1)?)?.to_vec()))),
            "apply" => self.apply_again(&words),
            "at" => {
                self.bench.time = number(words.at(1)?)?;
                Ok("ok".to_owned())
            }
            "checkpoint" => {
                self.bench.partition().checkpoint().map_err(|error| error.to_string())?;
                Ok(format!("checkpoint at {}", told(self.bench.partition().checkpointed())))
            }
            "restart" => Ok(self.restart()),
            "close" => {
                let opened = self.bench.close_and_open();
                Ok(opened_as(&opened))
            }
            "discard" => {
                self.bench.stop();
                Store::discard(self.disk.clone(), format!("{DIR}/store"))
                    .map_err(|error| error.to_string())?;
                Ok(opened_as(&self.bench.open()))
            }
            "survives" => self.survives(),
            read => {
                let view = self.bench.partition().view().map_err(|error| error.to_string())?;
                read_view(&view, read, &words)
            }
        }
    }

    /// The power goes: what was not synced is lost, and comes from the replicated log again.
    fn restart(&mut self) -> String {
        self.disk.power_cut();
        self.bench.stop();
        let opened = self.bench.open();
        opened_as(&opened)
    }

    /// `apply OFFSET [of=OFFSET] [index=N] [key=N]`: the command of a record once more, at a place.
    fn apply_again(&mut self, words: &Words) -> Parsed<String> {
        let at = number(words.at(1)?)? - 1;
        let of = words.number("of")?.map_or(at, |of| of - 1);
        let (time, mut command) =
            self.bench.commands.get(usize::try_from(of).unwrap()).ok_or("no such command")?.clone();
        if let Some(key) = words.number("key")? {
            command[2..18].copy_from_slice(idempotency_key(key).as_bytes());
        }
        let mut again = record(at, time, &command);
        if let Some(index) = words.number("index")? {
            again.log_index = gapless_types::LogIndex::new(index);
        }
        Ok(match self.bench.partition().apply(&again) {
            Ok(outcome) => {
                if again.offset.get() > self.bench.commands.len() as u64 {
                    self.bench.commands.push((time, command));
                }
                show::outcome(&outcome)
            }
            Err(error) => format!("error: {error}"),
        })
    }

    /// The state is the same after a crash, and after it was rebuilt from nothing.
    fn survives(&mut self) -> Parsed<String> {
        let before = self.bench.digest();
        self.restart();
        let crashed = self.bench.digest();
        self.bench.partition().log().sync().map_err(|error| error.to_string())?;
        self.bench.stop();
        Store::discard(self.disk.clone(), format!("{DIR}/store")).map_err(|error| error.to_string())?;
        self.bench.open();
        let rebuilt = self.bench.digest();
        Ok(match (before == crashed, before == rebuilt) {
            (true, true) => "the same after a crash and after rebuilding".to_owned(),
            (crashed, rebuilt) => format!("same after a crash: {crashed}, after rebuilding: {rebuilt}"),
        })
    }
}

fn told(offset: Option<PartitionOffset>) -> String {
    offset.map_or("nothing".to_owned(), |offset| offset.to_string())
}

fn opened_as(opened: &Opened) -> String {
    format!("opened: checkpoint at {}, folded {}", told(opened.checkpoint), opened.folded)
}

fn lines<T>(items: Result<Vec<T>, Fault>, show: impl Fn(&T) -> Parsed<String>) -> Parsed<String> {
    let items = items.map_err(|fault| fault.to_string())?;
    if items.is_empty() {
        return Ok("nothing".to_owned());
    }
    Ok(items.iter().map(show).collect::<Parsed<Vec<_>>>()?.join("\n"))
}

fn read_view(view: &View, read: &str, words: &Words) -> Parsed<String> {
    let workspace = || words.at(1).and_then(number).map(WorkspaceId::new);
    let limit = usize::try_from(words.number("limit")?.unwrap_or(100)).unwrap();
    let down = words.plain.last().is_some_and(|word| word == "down");
    let direction = if down { Direction::Backward } else { Direction::Forward };
    let from = words.number("from")?.unwrap_or(if down { u64::MAX } else { 1 });
    let after = words.get("after");
    let one = |found: Option<String>| Ok(found.unwrap_or("nothing".to_owned()));
    let fault = |fault: Fault| fault.to_string();
    match read {
        "events" => {
            let from = WorkspaceOffset::new(from).ok_or("no offset")?;
            lines(view.events(workspace()?, from, limit, direction), show::event)
        }
        "outcomes" => {
            let from = PartitionOffset::new(from).ok_or("no offset")?;
            lines(view.outcomes(from, limit, direction), |outcome| Ok(show::header(&outcome.header())))
        }
        "records" => {
            let after = after.map(number).transpose()?.and_then(RecordId::new);
            lines(view.records(workspace()?, after, limit), show::record)
        }
        "record" => {
            let id = RecordId::new(number(words.at(2)?)?).ok_or("no id")?;
            let found = view.record(workspace()?, id).map_err(fault)?;
            one(found.map(|record| show::record(&record)).transpose()?)
        }
        "entities" => {
            let prefix = bytes(words.get("prefix").unwrap_or("~"))?;
            let after = after.map(bytes).transpose()?;
            lines(view.entities(workspace()?, prefix, after, limit), |entity| Ok(show::entity(entity)))
        }
        "entity" => {
            let found = view.entity(workspace()?, bytes(words.at(2)?)?).map_err(fault)?;
            one(found.as_ref().map(show::entity))
        }
        "sequences" => lines(view.sequences(workspace()?), |sequence| {
            let last = sequence.last.map_or("nothing".to_owned(), |last| last.to_string());
            Ok(format!("{} from {}: {last}", sequence.name, sequence.initial_number))
        }),
        "client" => {
            let found = view.client_sequence(workspace()?, words.at(2)?).map_err(fault)?;
            one(found.map(ClientSequence::get).map(|sequence| sequence.to_string()))
        }
        "workspace" => one(view.workspace(workspace()?).map_err(fault)?.as_ref().map(show::workspace)),
        "workspaces" => {
            let after = after.map(number).transpose()?.map(WorkspaceId::new);
            lines(view.workspaces(after, limit), |workspace| Ok(show::workspace(workspace)))
        }
        "schema" => one(view.schema().map(|schema| show::schema(schema))),
        "time" => Ok(format!("{} at outcome {}", view.time(), told(view.applied()))),
        other => Err(format!("there is no command {other}")),
    }
}
