//! Opening a node: whose directory it is, what of the log is still to be dispatched, who the members are.
//!
//! Invariants
//! - A directory of another node, or with another log than the one this node has voted with, is not opened.
//! - Dispatching goes on exactly behind what the machine has kept; if the log does not hold what comes next, nothing is opened.
//!
//! Must not know: how agreement works.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::{Log, Options};
use gapless_types::mistakes::{Mistake, makes};
use gapless_types::{LogIndex, Position};

use crate::error::OpenError;
use crate::format::control::{Control, Standing};
use crate::format::entry;
use crate::identity::Identity;
use crate::machine::{CommittedBody, Machine};
use crate::members::Members;
use crate::message::EntryId;
use crate::settings::Settings;
use crate::storage::control_file::ControlFile;
use crate::storage::log_store::{LogStore, log_index, position};

/// What to open, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who the node is.
    pub identity: Identity,
    /// Its directory: a control file, and the log in a directory of its own.
    pub dir: PathBuf,
    /// How the log behaves. Start from [`Options::replicated`]; its first position is set here.
    pub log: Options,
    /// Times and chances.
    pub settings: Settings,
    /// What a node without a past does.
    pub start: Start,
}

impl Config {
    /// A node with default settings.
    pub fn new(identity: Identity, dir: impl Into<PathBuf>, start: Start) -> Self {
        let (log, settings) = (Options::replicated(), Settings::default());
        Self { identity, dir: dir.into(), log, settings, start }
    }
}

/// What a node without a past does. A node with one goes on where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Founds the group, together with all other voters, who must be given the same members.
    Found(Members),
    /// Waits until a leader adds it as a learner.
    Join,
}

/// What was found in a directory.
pub(crate) struct Found {
    pub(crate) store: LogStore,
    pub(crate) control: ControlFile,
    pub(crate) standing: Standing,
}

/// Opens the log and the control file, and finds out where dispatching goes on.
pub(crate) fn open(io: &Arc<dyn Io>, config: &Config, machine: &dyn Machine) -> Result<Found, OpenError> {
    let dir = &config.dir;
    io.create_dir(dir).map_err(failed("create", dir))?;
    let options = Options { first_position: Position::new(LogIndex::FIRST.get()), ..config.log.clone() };
    let drive = options.drive;
    let (log, report) = Log::open(io.clone(), dir.join("log"), options)?;
    if report.state_in_doubt {
        return Err(OpenError::Unreadable { what: "the vote" });
    }
    let mut control = open_control(io, config, &log)?;
    let store = LogStore::new(log, drive, config.settings.full_disk_patience);
    store.finish_purge().map_err(failed("release a part of the log in", dir))?;
    let resume_after = machine.resume_after();
    if makes(Mistake::RollBackToLaggingPartition) {
        let end = resume_after.and_then(LogIndex::next).map_or(store.log.first(), position);
        let _ = store.log.truncate_from(end.min(store.log.next()));
    }
    settle_install(&mut control, resume_after).map_err(failed("write the control file in", dir))?;
    let standing = standing_at(&store, &control.content, resume_after, dir)?;
    Ok(Found { store, control, standing })
}

fn open_control(io: &Arc<dyn Io>, config: &Config, log: &Log) -> Result<ControlFile, OpenError> {
    let dir = &config.dir;
    let Some(control) = ControlFile::open(io.clone(), dir)? else {
        // The log is made first: an empty one without a control file is one whose making was interrupted.
        let untouched = log.first() == log.next() && log.next() == Position::new(LogIndex::FIRST.get());
        if !untouched || log.state(crate::format::state::VOTE).is_some() {
            return Err(OpenError::ControlMissing(ControlFile::path(dir)));
        }
        let content = Control {
            identity: config.identity,
            log: log.id(),
            changes: Vec::new(),
            snapshot: Standing::default(),
            installing: None,
        };
        return ControlFile::create(io.clone(), dir, content)
            .map_err(failed("write the control file in", dir));
    };
    let content = &control.content;
    if content.identity != config.identity {
        let (found, expected) = (content.identity, config.identity);
        return Err(OpenError::Foreign { dir: dir.clone(), found, expected });
    }
    if content.log != log.id() {
        return Err(OpenError::OtherLog { dir: dir.clone(), found: log.id(), expected: content.log });
    }
    Ok(control)
}

/// A snapshot was being installed when the process ended: it was, if the machine says so.
fn settle_install(control: &mut ControlFile, resume_after: Option<LogIndex>) -> io::Result<()> {
    let mut content = control.content.clone();
    let Some(installing) = content.installing.take() else { return Ok(()) };
    let last = installing.last.map(|last| last.index);
    if resume_after >= last {
        content.changes.retain(|&change| Some(change) > last);
        content.snapshot = installing;
    }
    control.write(content)
}

/// Where the group stands at the entry behind which dispatching goes on.
fn standing_at(
    store: &LogStore,
    control: &Control,
    resume_after: Option<LogIndex>,
    dir: &Path,
) -> Result<Standing, OpenError> {
    let read = failed("read the log in", dir);
    let purged = store.purged().map_err(&read)?;
    let Some(resume_after) = resume_after else {
        return match purged {
            None => Ok(Standing::default()),
            Some(_) => Err(astray(store, None)),
        };
    };
    let snapshot = &control.snapshot;
    let kept = [purged, snapshot.last].into_iter().flatten().find(|id| id.index == resume_after);
    let in_log = (store.log.first()..store.log.next()).contains(&position(resume_after));
    let at = match kept {
        Some(id) => id,
        None if in_log => store.entry_id(resume_after).map_err(&read)?,
        None => return Err(astray(store, Some(resume_after))),
    };
    if snapshot.last.is_some_and(|last| last.index > resume_after) {
        return Err(astray(store, Some(resume_after)));
    }
    let mut standing = snapshot.clone();
    let since = snapshot.last.map(|last| last.index);
    for &change in control.changes.iter().filter(|&&change| Some(change) > since && change <= resume_after) {
        let (id, members) = members_at(store, change)?;
        standing.change(id, &members);
    }
    standing.last = Some(at);
    Ok(standing)
}

fn members_at(store: &LogStore, index: LogIndex) -> Result<(EntryId, Members), OpenError> {
    let unreadable = OpenError::Unreadable { what: "a change of members" };
    let Ok(record) = store.log.read(position(index)) else { return Err(unreadable) };
    match entry::decode(index, &record.payload) {
        Ok(entry) => match entry.body {
            CommittedBody::Members(members) => Ok((entry.id, members)),
            _ => Err(unreadable),
        },
        Err(_) => Err(unreadable),
    }
}

fn astray(store: &LogStore, resume_after: Option<LogIndex>) -> OpenError {
    let shown = |index: Option<LogIndex>| index.map_or_else(|| "none".to_owned(), |index| index.to_string());
    let last = store.log.next().previous().map(log_index);
    OpenError::MachineAstray {
        resume_after: shown(resume_after),
        first: shown(Some(log_index(store.log.first()))),
        last: shown(last),
    }
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { action, path: path.clone(), source }
}
