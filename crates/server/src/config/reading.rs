//! Where settings come from, one source after the other: who said what last, and everything that is wrong with it.
//!
//! Must not know: what a setting is, or does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Settings;
use super::table::{SETTINGS, Setting};

/// What variables of the environment that are settings begin with.
const PREFIX: &str = "GAPLESS_";
/// What stands between section and key there. Variables without it are no settings of a node.
const BETWEEN: &str = "__";

/// The variable that many programs have for what they say.
const LEVELS: &str = "GAPLESS_LOG";

/// Something that is wrong, and where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// A file, a variable or a flag; what nobody said has none.
    origin: Option<String>,
    /// The setting; none for a file that cannot be read at all.
    name: Option<String>,
    what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in [&self.origin, &self.name].into_iter().flatten() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Settings on the way from their sources.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    settings: Settings,
    /// Who said it last.
    origins: BTreeMap<&'static str, String>,
    problems: Vec<Problem>,
}

impl Reading {
    /// Takes over what a file says.
    pub(crate) fn file(&mut self, path: &Path, text: &str) {
        let origin = path.display().to_string();
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(error) => return self.problem(&origin, None, error.to_string().trim_end()),
        };
        for (section, value) in &table {
            match value {
                Value::Table(keys) => {
                    for (key, value) in keys {
                        self.set(&origin, &format!("{section}.{key}"), value);
                    }
                }
                _ => {
                    let what = "is no section; settings lie in sections, such as [server]";
                    self.problem(&origin, Some(section), what);
                }
            }
        }
    }

    /// A file that cannot be read.
    pub(crate) fn unreadable(&mut self, path: &Path, error: &std::io::Error) {
        let what = format!("cannot be read: {error}; `gapless serve --print-config` makes one");
        self.problem(&path.display().to_string(), None, &what);
    }

    /// Takes over what the environment says: `GAPLESS_SERVER__LISTEN` is `server.listen`.
    pub(crate) fn environment(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        // In one order, whatever the order of the environment is.
        let variables: BTreeMap<OsString, OsString> = variables.into_iter().collect();
        for (variable, text) in variables {
            let variable = variable.to_string_lossy();
            if variable == LEVELS {
                self.set(&variable, "telemetry.log", &Value::String(text.to_string_lossy().into_owned()));
                continue;
            }
            let parts = variable.strip_prefix(PREFIX).and_then(|rest| rest.split_once(BETWEEN));
            let Some((section, key)) = parts else { continue };
            let name = format!("{section}.{key}").to_ascii_lowercase();
            match text.into_string() {
                Ok(text) => self.set(&variable, &name, &Value::String(text)),
                Err(_) => self.problem(&variable, Some(&name), "is no UTF-8"),
            }
        }
    }

    /// Takes over what a flag says, if it is there. What its values look like was checked with the command line.
    pub(crate) fn flag(&mut self, flag: &str, name: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.set(flag, name, &Value::String(value.to_string()));
        }
    }

    /// The directory, whose name need not be text.
    pub(crate) fn data(&mut self, flag: &str, data: Option<&PathBuf>) {
        if let Some(data) = data {
            self.settings.data.clone_from(data);
            self.origins.insert("node.data", flag.to_owned());
        }
    }

    /// What came of it, and everything that is wrong.
    pub(crate) fn read(mut self) -> (Settings, Vec<Problem>) {
        self.blame(self.settings.contradictions());
        (self.settings, self.problems)
    }

    /// The same, for a node that is to serve with it.
    pub(crate) fn read_to_serve(mut self) -> (Settings, Vec<Problem>) {
        self.blame(self.settings.obstacles());
        self.read()
    }

    fn set(&mut self, origin: &str, name: &str, value: &Value) {
        let Some(setting) = Setting::find(name) else {
            return self.problem(origin, Some(name), &unknown(name));
        };
        match (setting.set)(&mut self.settings, value) {
            Ok(()) => {
                self.origins.insert(setting.name, origin.to_owned());
            }
            Err(what) => self.problem(origin, Some(name), &what),
        }
    }

    fn problem(&mut self, origin: &str, name: Option<&str>, what: &str) {
        let (origin, name) = (Some(origin.to_owned()), name.map(str::to_owned));
        self.problems.push(Problem { origin, name, what: what.to_owned() });
    }

    /// Each of them is the problem of whoever said it last.
    fn blame(&mut self, found: Vec<(&'static str, String)>) {
        for (name, what) in found {
            let origin = self.origins.get(name).cloned();
            self.problems.push(Problem { origin, name: Some(name.to_owned()), what });
        }
    }
}

/// A name that nothing has, with those of its section.
fn unknown(name: &str) -> String {
    let section = name.split('.').next().unwrap_or_default();
    let there: Vec<&str> =
        SETTINGS.iter().filter(|known| known.parts().0 == section).map(|known| known.name).collect();
    match there.is_empty() {
        true => "there is no such section; `gapless serve --print-config` shows all settings".to_owned(),
        false => format!("there is no such setting; there are {}", there.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn later_wins() {
        let mut reading = Reading::default();
        reading.file(
            Path::new("gapless.toml"),
            "[server]\nlisten = '127.0.0.1:1'\ndrain = '1s'\npatience = '1s'",
        );
        let variables = [
            ("GAPLESS_SERVER__LISTEN", "127.0.0.1:2"),
            ("GAPLESS_SERVER__PATIENCE", "2s"),
            ("GAPLESS_SERVER", "x"),
            ("HOME", "/"),
        ];
        reading.environment(variables.map(|(name, value)| (name.into(), value.into())));
        reading.flag("--listen", "server.listen", Some("127.0.0.1:3"));
        reading.flag("--insecure", "server.insecure", None::<bool>);
        let (settings, problems) = reading.read();
        assert_eq!(told(&problems), Vec::<String>::new());
        assert_eq!((settings.listen.port(), settings.insecure), (3, false));
        assert_eq!(settings.server.drain, Duration::from_secs(1));
        assert_eq!(settings.server.patience, Duration::from_secs(2));
    }

    #[test]
    fn all_problems_are_told_at_once_each_with_its_place() {
        let text = "port = 1\n[server]\nlisten = 'here'\ncolour = 'red'\ndrain = 10\nconnections = -1\n[memory]\ncache = '7B'\n\
                    [moon]\nphase = 'full'";
        let mut reading = Reading::default();
        reading.file(Path::new("gapless.toml"), text);
        reading.environment([("GAPLESS_MEMORY__CACHE".into(), "64MB".into())]);
        let told = told(&reading.read().1);
        let expected = [
            "gapless.toml: port: is no section",
            "gapless.toml: server.listen: `here` is not",
            "gapless.toml: server.colour: there is no such setting; there are server.listen, ",
            "gapless.toml: server.drain: `10` is not a duration",
            "gapless.toml: server.connections: `-1`",
            "gapless.toml: memory.cache: `7B` is out of bounds",
            "gapless.toml: moon.phase: there is no such section",
            "GAPLESS_MEMORY__CACHE: memory.cache: `64MB` is not a size",
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for begins in expected {
            assert!(told.iter().any(|problem| problem.starts_with(begins)), "{begins} in {told:#?}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_the_problem_of_whoever_said_it_last() {
        let mut reading = Reading::default();
        reading.file(Path::new("gapless.toml"), "[consensus]\nelection_timeout = '10ms'");
        reading.environment([("GAPLESS_SERVER__LISTEN".into(), "0.0.0.0:1".into())]);
        let told = told(&reading.read_to_serve().1);
        assert_eq!(told.len(), 3, "{told:#?}");
        assert!(told[0].starts_with("node.data: nobody says"), "{told:#?}");
        assert!(told[1].starts_with("GAPLESS_SERVER__LISTEN: server.listen: 0.0.0.0:1 can be"), "{told:#?}");
        assert!(told[2].starts_with("gapless.toml: consensus.election_timeout: "), "{told:#?}");
    }

    #[test]
    fn a_file_that_is_no_toml_is_told_with_its_line() {
        let mut reading = Reading::default();
        reading.file(Path::new("gapless.toml"), "[server]\nlisten = \n");
        let told = told(&reading.read().1);
        assert!(told[0].starts_with("gapless.toml: ") && told[0].contains("line 2"), "{told:#?}");
    }
}
