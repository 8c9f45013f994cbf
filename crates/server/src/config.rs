//! What a node is told: a file, the environment, flags. Later wins, and all problems are told at once.
//!
//! ```text
//!  defaults ◀── FILE ◀── GAPLESS_SECTION__KEY ◀── flags          --print-config shows what came of it, as a file
//! ```
//!
//! A setting is a line of a table: its name, what its values look like, where it goes. So file, environment and what is printed
//! cannot know different ones.
//!
//! Must not know: what a setting does.

mod kinds;
mod table;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gapless_engine::admission::AdmissionLimits;
use gapless_engine::recall::RecallLimits;
use gapless_engine::{Config as EngineConfig, Housekeeping};
use gapless_server::{Config as ServerConfig, Limits};
use gapless_store::Budget;
use toml::{Table, Value};

use self::table::{SETTINGS, Setting};

/// What variables of the environment that are settings begin with.
const PREFIX: &str = "GAPLESS_";
/// What stands between section and key there. Variables without it are no settings of a node.
const BETWEEN: &str = "__";

/// Everything that a node can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Directory of the ledger; empty if nobody said one.
    pub(crate) data: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) insecure: bool,
    pub(crate) server: Limits,
    pub(crate) memory: Memory,
    pub(crate) log: Segments,
    pub(crate) admission: AdmissionLimits,
    pub(crate) recall: RecallLimits,
    pub(crate) housekeeping: Housekeeping,
}

/// Ceilings of memory for all partitions together, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) memtables: u64,
    pub(crate) cache: u64,
}

/// Length of segments, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    pub(crate) replicated: u32,
    pub(crate) partition: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let engine = EngineConfig::embedded("");
        Self {
            data: PathBuf::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7400)),
            insecure: false,
            server: Limits::default(),
            memory: Memory { memtables: 256 << 20, cache: 256 << 20 },
            log: Segments {
                replicated: engine.log.segment_bytes,
                partition: engine.partitions.log.segment_bytes,
            },
            admission: engine.admission,
            recall: engine.recall,
            housekeeping: engine.housekeeping,
        }
    }
}

/// Everything that is wrong, each with where it was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, origin: &str, name: &str, problem: &str) {
        self.0.push(format!("{origin}: {name}: {problem}"));
    }

    /// All of them, one a line; none if there are none.
    pub(crate) fn told(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("\n"))
    }
}

impl Settings {
    /// Takes over what a file says.
    pub(crate) fn read_file(&mut self, path: &Path, text: &str, problems: &mut Problems) {
        let origin = path.display().to_string();
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(error) => return problems.0.push(format!("{origin}: {error}")),
        };
        for (section, value) in &table {
            match value {
                Value::Table(keys) => {
                    for (key, value) in keys {
                        self.set(&origin, &format!("{section}.{key}"), value, problems);
                    }
                }
                _ => problems.add(
                    &origin,
                    section,
                    "is no section; settings lie in sections, such as [server]",
                ),
            }
        }
    }

    /// Takes over what the environment says: `GAPLESS_SERVER__LISTEN` is `server.listen`.
    pub(crate) fn read_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
        problems: &mut Problems,
    ) {
        // In one order, whatever the order of the environment is.
        let variables: BTreeMap<String, String> = variables.into_iter().collect();
        for (variable, text) in variables {
            let Some((section, key)) =
                variable.strip_prefix(PREFIX).and_then(|rest| rest.split_once(BETWEEN))
            else {
                continue;
            };
            let name = format!("{section}.{key}").to_ascii_lowercase();
            self.set(&variable, &name, &Value::String(text), problems);
        }
    }

    fn set(&mut self, origin: &str, name: &str, value: &Value, problems: &mut Problems) {
        match SETTINGS.iter().find(|setting| setting.name == name) {
            None => problems.add(origin, name, &unknown(name)),
            Some(Setting { set, .. }) => {
                if let Err(problem) = set(self, value) {
                    problems.add(origin, name, &problem);
                }
            }
        }
    }

    /// What contradicts itself.
    pub(crate) fn check(&self, problems: &mut Problems) {
        if self.data.as_os_str().is_empty() {
            problems.add("configuration", "node.data", "nobody says where the ledger lies: --data DIR");
        }
        if !self.insecure && !self.listen.ip().is_loopback() {
            let why = "it can be reached from other machines, and nothing is encrypted and nobody is asked who he is; listen on \
                       127.0.0.1, or say that the network is trusted: --insecure";
            problems.add("configuration", "server.listen", why);
        }
        if let Err(error) = self.admission.check() {
            problems.add("configuration", "admission", &error.to_string());
        }
    }

    /// All settings as a file that says the same.
    pub(crate) fn print(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for setting in SETTINGS {
            let (its, key) = setting.name.split_once('.').expect("settings lie in sections");
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
        config.partitions.log.segment_bytes = self.log.partition;
        config.partitions.budget = Budget::new(self.memory.memtables, self.memory.cache);
        config.admission = self.admission;
        config.recall = self.recall;
        config.housekeeping = self.housekeeping;
        config
    }

    /// For the server.
    pub(crate) fn server(&self) -> ServerConfig {
        ServerConfig { listen: self.listen, limits: self.server }
    }
}

/// A name that nothing has, with those that look like it.
fn unknown(name: &str) -> String {
    let section = name.split('.').next().unwrap_or_default();
    let there: Vec<&str> = SETTINGS
        .iter()
        .map(|setting| setting.name)
        .filter(|known| known.split('.').next() == Some(section))
        .collect();
    match there.is_empty() {
        true => "there is no such section; `gapless serve --print-config` shows all settings".to_owned(),
        false => format!("there is no such setting; there are {}", there.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> (Settings, Vec<String>) {
        let (mut settings, mut problems) = (Settings::default(), Problems::default());
        settings.read_file(Path::new("gapless.toml"), text, &mut problems);
        (settings, problems.0)
    }

    #[test]
    fn what_is_printed_is_a_file_that_says_the_same() {
        let (settings, problems) = read(&Settings::default().print());
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings, Settings::default());
        let other = "[server]\nlisten = '[::1]:9'\npatience = '90s'\n[memory]\ncache = '1 GiB'\n[admission]\npartition_lag = 7";
        let (settings, problems) = read(other);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings.server.patience, Duration::from_secs(90));
        assert_eq!((settings.memory.cache, settings.admission.partition.lag), (1 << 30, 7));
        assert_eq!(read(&settings.print()).0, settings);
    }

    #[test]
    fn every_setting_can_be_set_by_what_it_shows_and_has_its_own_name() {
        let default = Settings::default();
        let mut names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        for setting in SETTINGS {
            let mut settings = default.clone();
            (setting.set)(&mut settings, &(setting.show)(&default)).unwrap();
            assert_eq!(settings, default, "{}", setting.name);
        }
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
    }

    #[test]
    fn later_wins() {
        let (mut settings, _) = read("[server]\nlisten = '127.0.0.1:1'\ndrain = '1s'");
        let mut problems = Problems::default();
        let variables = [("GAPLESS_SERVER__LISTEN", "127.0.0.1:2"), ("GAPLESS_SERVER", "x"), ("HOME", "/")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        settings.read_environment(variables, &mut problems);
        assert_eq!(problems.told(), None);
        assert_eq!((settings.listen.port(), settings.server.drain), (2, Duration::from_secs(1)));
    }

    #[test]
    fn all_problems_are_told_at_once_each_with_its_place() {
        let text = "port = 1\n[server]\nlisten = 'here'\ncolour = 'red'\ndrain = 10\nconnections = -1\n[memory]\ncache = 7\n[moon]\nphase = 'full'";
        let (mut settings, problems) = read(text);
        assert_eq!(problems.len(), 7, "{problems:#?}");
        for (problem, words) in
            problems.iter().zip(["port", "here", "colour", "10s", "connections", "MiB", "moon"])
        {
            assert!(problems.iter().any(|problem| problem.contains(words)), "{words} in {problem}");
        }
        assert!(problems.iter().all(|problem| problem.starts_with("gapless.toml: ")));
        let mut problems = Problems::default();
        settings.listen = "0.0.0.0:7400".parse().unwrap();
        settings.admission.min_retry = Duration::from_secs(100);
        settings.check(&mut problems);
        assert_eq!(problems.0.len(), 3, "{problems:?}");
        assert!(read("[server").1[0].contains("line 1"), "{:?}", read("[server").1);
    }
}
