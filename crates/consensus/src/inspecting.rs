//! Looks at the directory of a node that nobody has open: control file, replicated log, small state. Changes nothing.
//!
//! Must not know: what entries mean.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_log::io::Io;
use gapless_log::{Damage, Depth, RecordType, inspect};
use gapless_types::LogIndex;

use crate::error::OpenError;
use crate::format::{entry, state};
use crate::identity::Identity;
use crate::machine::{Committed, CommittedBody};
use crate::storage::control_file::ControlFile;
use crate::storage::log_store::{log_index, position};

/// What was found in a directory.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Who the node is; none if the control file cannot be read.
    pub identity: Option<Identity>,
    /// The last entry of the snapshot that was published last: machines go on from there or behind it.
    pub snapshot: Option<LogIndex>,
    /// The last entry that was cut off, if one was.
    pub purged: Option<LogIndex>,
    /// The first entry that is kept.
    pub first: LogIndex,
    /// The one behind the last.
    pub next: LogIndex,
    /// Entries that were read.
    pub entries: u64,
    /// What is wrong with the files of the log.
    pub log_damage: Vec<Damage>,
    /// What else is wrong: in which file, and what.
    pub wrong: Vec<(PathBuf, String)>,
    /// Bytes that were read.
    pub bytes: u64,
}

/// Reads everything; `each` sees every entry that is kept and can be read, and says what is wrong with it, if something is.
pub fn inspect_directory(
    io: &Arc<dyn Io>,
    dir: &Path,
    each: &mut dyn FnMut(&Committed) -> Option<String>,
) -> Inspected {
    let mut found = Inspected {
        identity: None,
        snapshot: None,
        purged: None,
        first: LogIndex::FIRST,
        next: LogIndex::FIRST,
        entries: 0,
        log_damage: Vec::new(),
        wrong: Vec::new(),
        bytes: 0,
    };
    let control = match ControlFile::open(io.clone(), dir) {
        Ok(Some(control)) => Some(control),
        Ok(None) => {
            found.wrong.push((ControlFile::path(dir), "it is missing".to_owned()));
            None
        }
        Err(OpenError::ControlDamaged { path, what }) => {
            found.wrong.push((path, what.to_owned()));
            None
        }
        Err(error) => {
            found.wrong.push((ControlFile::path(dir), error.to_string()));
            None
        }
    };
    found.snapshot = control.as_ref().and_then(|control| Some(control.content.snapshot.last?.index));
    found.identity = control.as_ref().map(|control| control.content.identity);
    let log_dir = dir.join("log");
    let mut wrong = Vec::new();
    let mut entries = 0;
    let survey = inspect(&**io, &log_dir, Depth::EveryFrame, &mut |frame| {
        for record in frame.records() {
            if !matches!(record.kind, RecordType::Data | RecordType::Repair) {
                continue;
            }
            let index = log_index(record.position);
            let decoded = record.payload.map(|payload| entry::decode(index, &payload));
            let reason = match decoded {
                Some(Ok(entry)) => {
                    entries += 1;
                    let (term, body) = (entry.id.term, entry.body);
                    match body {
                        CommittedBody::Entry(_) => each(&Committed { index, term, body }),
                        CommittedBody::Blank | CommittedBody::Members(_) => None,
                    }
                }
                Some(Err(malformed)) => Some(malformed.0.to_owned()),
                None => Some("it does not decompress".to_owned()),
            };
            wrong.extend(reason.map(|reason| (index, reason)));
        }
    });
    found.entries = entries;
    let survey = match survey {
        Ok(survey) => survey,
        Err(error) => {
            found.wrong.push((log_dir, error.to_string()));
            return found;
        }
    };
    let kept = survey.first..survey.next;
    let said = wrong.into_iter().filter(|(index, _)| kept.contains(&position(*index)));
    found.wrong.extend(said.map(|(index, reason)| (log_dir.clone(), format!("entry {index}: {reason}"))));
    (found.first, found.next) = (log_index(survey.first), log_index(survey.next));
    found.bytes = survey.bytes_read;
    found.log_damage = survey.missing.iter().chain(&survey.damage).cloned().collect();
    if survey.log.is_none() {
        found.wrong.push((log_dir.clone(), "there is no log".to_owned()));
    }
    if let (Some(control), Some(log)) = (&control, survey.log)
        && control.content.log != log
    {
        found.wrong.push((log_dir.clone(), "it is another log than the control file names".to_owned()));
    }
    if survey.state_in_doubt {
        found.wrong.push((log_dir.clone(), "the vote may have been lost".to_owned()));
    }
    if survey.states.get(&state::VOTE).is_some_and(|vote| state::decode_vote(vote).is_err()) {
        found.wrong.push((log_dir.clone(), "the vote is not of a known form".to_owned()));
    }
    match survey.states.get(&state::PURGED).map(|purged| state::decode_purged(purged)) {
        Some(Ok(purged)) => found.purged = Some(purged.index),
        Some(Err(_)) => found.wrong.push((log_dir, "the purge mark is not of a known form".to_owned())),
        None => {}
    }
    found
}
