//! What a node is told: a file, the environment, flags. Later wins, and all problems are told at once.
//!
//! ```text
//!  defaults ◀── FILE ◀── GAPLESS_SECTION__KEY ◀── flags          --print-config shows what came of it, as a file
//! ```
//!
//! A setting is a line of a table: its name, what its values look like, where it goes. So file, environment, what is printed and
//! what is documented cannot know different ones.
//!
//! Must not know: what a setting does.

mod kinds;
mod reading;
mod reference;
mod table;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gapless_engine::admission::AdmissionLimits;
use gapless_engine::recall::RecallLimits;
use gapless_engine::{Config as EngineConfig, Housekeeping, QueueLimits};
use gapless_sequencer::{CacheBudget, Params};
use gapless_server::telemetry::Options as Telemetry;
use gapless_server::{Config as ServerConfig, Limits, Security};
use gapless_store::Budget;

pub(crate) use self::reading::{Problem, Reading};
pub(crate) use self::reference::reference;
use self::table::SETTINGS;

/// Everything that a node can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Directory of the ledger; empty if nobody said one.
    pub(crate) data: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) insecure: bool,
    /// Of the runtime; 0: as many as suit the machine.
    pub(crate) threads: usize,
    server: Limits,
    security: Security,
    /// Directory that backups lie below; empty if nobody said one.
    backup_root: PathBuf,
    memory: Memory,
    log: Logs,
    admission: AdmissionLimits,
    recall: RecallLimits,
    queue: QueueLimits,
    housekeeping: Housekeeping,
    report_interval: Duration,
    reopen_delay: Duration,
    consensus: Consensus,
    pub(crate) telemetry: Telemetry,
}

/// Ceilings of memory for all partitions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    /// Bytes.
    memtables: u64,
    /// Bytes.
    cache: u64,
    /// Entries.
    numbers: usize,
}

/// Lengths of segments and what is read again, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Logs {
    first: u32,
    replicated: u32,
    partition: u32,
    scrub_rate: u64,
}

/// Times of consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Consensus {
    heartbeat: Duration,
    election_timeout: Duration,
    full_disk_patience: Duration,
    max_clock_skew: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let engine = EngineConfig::embedded("");
        Self {
            data: PathBuf::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7400)),
            insecure: false,
            threads: 0,
            server: Limits::default(),
            security: Security::default(),
            backup_root: PathBuf::new(),
            memory: Memory { memtables: 256 << 20, cache: 256 << 20, numbers: Params::CACHE_ENTRIES },
            log: Logs {
                // A new log is filled with zeros before the node is ready: 64 MiB of them would be most of a start.
                first: 8 << 20,
                replicated: engine.log.segment_bytes,
                partition: engine.partitions.log.segment_bytes,
                scrub_rate: engine.log.scrub_bytes_per_second,
            },
            admission: engine.admission,
            recall: engine.recall,
            queue: engine.queue,
            housekeeping: engine.housekeeping,
            report_interval: engine.report_interval,
            reopen_delay: engine.reopen_delay,
            telemetry: Telemetry::default(),
            consensus: Consensus {
                heartbeat: engine.consensus.heartbeat,
                election_timeout: engine.consensus.election_timeout,
                full_disk_patience: engine.consensus.full_disk_patience,
                max_clock_skew: engine.max_clock_skew,
            },
        }
    }
}

/// Segments that the replicated log must have room for: with fewer, it could be full of what is still written to.
const LEAST_SEGMENTS: u64 = 4;

impl Settings {
    /// What contradicts itself: the setting, and why.
    fn contradictions(&self) -> Vec<(&'static str, String)> {
        let mut found = self.security.contradictions();
        if !self.backup_root.as_os_str().is_empty() && !self.backup_root.is_absolute() {
            found.push(("backup.root", "is not an absolute path".to_owned()));
        }
        if let Err(error) = self.admission.check() {
            found.push(("admission", error.to_string()));
        }
        if self.consensus.heartbeat * 3 > self.consensus.election_timeout {
            found.push(("consensus.election_timeout", "is shorter than three heartbeats".to_owned()));
        }
        if self.housekeeping.max_retained_bytes < LEAST_SEGMENTS * u64::from(self.log.replicated) {
            let why = format!("is less than {LEAST_SEGMENTS} segments; see log.replicated_segment");
            found.push(("housekeeping.max_retained", why));
        }
        found
    }

    /// What a node cannot serve with: the setting, and why.
    fn obstacles(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if self.data.as_os_str().is_empty() {
            found.push(("node.data", "nobody says where the ledger lies: --data DIR".to_owned()));
        }
        let missing = match (self.security.has_tls(), self.security.has_authentication()) {
            (true, true) => None,
            (true, false) => Some("nobody is asked who he is"),
            (false, true) => Some("nothing is encrypted"),
            (false, false) => Some("nothing is encrypted and nobody is asked who he is"),
        };
        if let Some(missing) = missing.filter(|_| !self.insecure && !self.listen.ip().is_loopback()) {
            let why = format!(
                "{} can be reached from other machines, and {missing}; set tls.certificate, tls.key and access.token_keys \
                 (docs/operations/security.md), listen on 127.0.0.1, or say that the network is trusted: --insecure",
                self.listen
            );
            found.push(("server.listen", why));
        }
        found
    }

    /// All settings as a file that says the same.
    pub(crate) fn print(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for setting in SETTINGS {
            let (its, key) = setting.parts();
            if its != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{gap}[{its}]");
                section = its;
            }
            let _ = writeln!(text, "{key} = {}  # {}", (setting.show)(self), setting.about);
        }
        text
    }

    /// For the engine.
    pub(crate) fn engine(&self) -> EngineConfig {
        let mut config = EngineConfig::embedded(&self.data);
        config.log.segment_bytes = self.log.replicated;
        config.log.first_segment_bytes = self.log.first;
        config.log.scrub_bytes_per_second = self.log.scrub_rate;
        config.partitions.log.segment_bytes = self.log.partition;
        config.partitions.budget = Budget::new(self.memory.memtables, self.memory.cache);
        config.partitions.numbers = Arc::new(CacheBudget::new(self.memory.numbers));
        config.admission = self.admission;
        config.recall = self.recall;
        config.queue = self.queue;
        config.housekeeping = self.housekeeping;
        config.report_interval = self.report_interval;
        config.reopen_delay = self.reopen_delay;
        config.consensus.heartbeat = self.consensus.heartbeat;
        config.consensus.election_timeout = self.consensus.election_timeout;
        config.consensus.full_disk_patience = self.consensus.full_disk_patience;
        config.max_clock_skew = self.consensus.max_clock_skew;
        config.log.alarm = Some(tell_damage("the replicated log"));
        config.partitions.log.alarm = Some(tell_damage("a partition log"));
        config
    }

    /// For the server.
    pub(crate) fn server(&self) -> ServerConfig {
        ServerConfig {
            limits: self.server,
            security: self.security.clone(),
            backup_root: Some(self.backup_root.clone()).filter(|root| !root.as_os_str().is_empty()),
            ..ServerConfig::new(self.listen)
        }
    }
}

/// Damage that is found while the node runs is told at once, by whoever finds it.
fn tell_damage(log: &'static str) -> gapless_log::Alarm {
    Arc::new(move |damage| tracing::error!("{log} is damaged: {damage}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> (Settings, Vec<Problem>) {
        let mut reading = Reading::default();
        reading.file(Path::new("gapless.toml"), text);
        reading.read()
    }

    #[test]
    fn what_is_printed_is_a_file_that_says_the_same() {
        let (settings, problems) = read(&Settings::default().print());
        assert_eq!(problems, []);
        assert_eq!(settings, Settings::default());
        let other = "[server]\nlisten = '[::1]:9'\npatience = '90s'\n[memory]\ncache = '1 GiB'\n[admission]\npartition_lag = 7\n\
                     [node]\ndata = '/a \"b\"\\c'";
        let (settings, problems) = read(other);
        assert_eq!(problems, []);
        assert_eq!(settings.server.patience, Duration::from_secs(90));
        assert_eq!((settings.memory.cache, settings.admission.partition.lag), (1 << 30, 7));
        assert_eq!(read(&settings.print()), (settings, Vec::new()));
    }

    /// From one seed: bytes of a good file that are changed, cut out, doubled or swapped for others.
    #[test]
    fn any_file_is_taken_or_told_what_is_wrong() {
        let good = Settings::default().print();
        let mut chance = fastrand::Rng::with_seed(7);
        let mut taken = 0;
        for _ in 0..5_000 {
            let mut bytes = good.clone().into_bytes();
            for _ in 0..chance.usize(1..6) {
                let at = chance.usize(..bytes.len());
                let end = (at + chance.usize(1..40)).min(bytes.len());
                match chance.u8(..4) {
                    0 => bytes[at] = chance.u8(..),
                    1 => drop(bytes.drain(at..end)),
                    2 => bytes.extend_from_within(at..end),
                    _ => bytes[at] = *chance.choice(b"0123456789=[]\"'.-_\\\n").expect("there are some"),
                }
            }
            let (settings, problems) = read(&String::from_utf8_lossy(&bytes));
            assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
            if problems.is_empty() {
                // What is taken can be said again.
                assert_eq!(read(&settings.print()), (settings, Vec::new()));
                taken += 1;
            }
        }
        assert!(taken > 100, "{taken} of 5000 say something");
    }

    #[test]
    fn every_setting_can_be_set_by_what_it_shows_and_has_its_own_name() {
        let default = Settings::default();
        for setting in SETTINGS {
            let mut settings = default.clone();
            (setting.set)(&mut settings, &(setting.show)(&default)).unwrap();
            assert_eq!(settings, default, "{}", setting.name);
        }
        let names: std::collections::BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        assert_eq!(names.len(), SETTINGS.len());
    }

    #[test]
    fn what_contradicts_itself_is_told() {
        let mut settings = Settings::default();
        assert_eq!(settings.contradictions(), []);
        settings.backup_root = "backups".into();
        settings.admission.min_retry = Duration::from_secs(100);
        settings.consensus.heartbeat = Duration::from_secs(1);
        settings.housekeeping.max_retained_bytes = 1 << 20;
        let told: Vec<&str> = settings.contradictions().into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            told,
            ["backup.root", "admission", "consensus.election_timeout", "housekeeping.max_retained"]
        );
    }

    #[test]
    fn what_is_set_arrives() {
        let text = "[memory]\nmemtables = '2MiB'\n[log]\nreplicated_segment = '1MiB'\nscrub_rate = '0B'\n[queue]\nentries = 3\n\
                    [housekeeping]\nmax_retained = '8MiB'\n[consensus]\nfull_disk_patience = '1s'";
        let (settings, problems) = read(text);
        assert_eq!(problems, []);
        let engine = settings.engine();
        assert_eq!((engine.log.segment_bytes, engine.log.scrub_bytes_per_second), (1 << 20, 0));
        assert_eq!((engine.queue.entries, engine.housekeeping.max_retained_bytes), (3, 8 << 20));
        assert_eq!(engine.consensus.full_disk_patience, Duration::from_secs(1));
    }
}
