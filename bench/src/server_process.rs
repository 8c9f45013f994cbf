//! Servers in processes of their own, and the load generator in another one.
//!
//! Must not know: what is done with the figures.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Clock ticks of a second, in which the kernel counts processor time.
const TICKS_PER_SECOND: f64 = 100.0;

/// The programs: this one, and the real one beside it.
pub(crate) struct Programs {
    bench: PathBuf,
    gapless: PathBuf,
}

impl Programs {
    pub(crate) fn found() -> Result<Self> {
        let bench = std::env::current_exe().context("cannot find this program")?;
        let gapless = bench.with_file_name("gapless");
        ensure!(gapless.exists(), "{} is missing: `cargo xtask bench server` builds it", gapless.display());
        Ok(Self { bench, gapless })
    }

    /// A node on an empty directory.
    pub(crate) fn gapless(&self, data: &Path) -> Result<Server> {
        let mut command = Command::new(&self.gapless);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        Server::start(command)
    }

    /// The same with TLS and tokens, set up by the program's own commands in `home`.
    pub(crate) fn secured(&self, home: &Path) -> Result<Server> {
        let at = |name: &str| home.join(name).display().to_string();
        let (authority, keys, signing) = (at("tls"), at("keys.json"), at("signing.jwk"));
        self.says(&["tls", "init", &authority])?;
        self.says(&["tls", "issue", &authority, "localhost", "127.0.0.1"])?;
        self.says(&["token", "keygen", "--id", "one", "--key", &signing, "--keys", &keys])?;
        let issue = [
            "token",
            "issue",
            "--subject",
            "load",
            "--namespaces",
            "*",
            "--expires",
            "1d",
            "--key",
            &signing,
        ];
        let token = self.says(&[&issue[..], &["--actions", "read,write,admin"]].concat())?;
        let mut command = Command::new(&self.gapless);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", &at("data")]);
        command.env("GAPLESS_TLS__CERTIFICATE", at("tls/localhost.pem"));
        command.env("GAPLESS_TLS__KEY", at("tls/localhost.key"));
        command.env("GAPLESS_ACCESS__TOKEN_KEYS", keys);
        let mut server = Server::start(command)?;
        server.credentials =
            vec![("GAPLESS_CA", at("tls/ca.pem")), ("GAPLESS_TOKEN", token.trim().to_owned())];
        Ok(server)
    }

    /// Runs a command that asks no server; what it said.
    fn says(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.gapless).args(arguments).stdin(Stdio::null()).output()?;
        ensure!(
            output.status.success(),
            "gapless {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A server that does nothing.
    pub(crate) fn echo(&self) -> Result<Server> {
        let mut command = Command::new(&self.bench);
        command.arg("echo-server");
        Server::start(command)
    }

    /// Puts load on a server: `gapless bench` with these arguments.
    pub(crate) fn load(&self, server: &Server, arguments: &[String], span: Span) -> Result<Figures> {
        let mut command = Command::new(&self.gapless);
        command.arg("bench").args(arguments).args(["--json", "--server", &server.address]);
        command.args(["--duration", &format!("{}ms", span.measured.as_millis())]);
        command.args(["--warm-up", &format!("{}ms", span.warm_up.as_millis())]);
        command.envs(server.credentials.iter().cloned());
        figures(server, command)
    }

    /// Writes of so many clients who are nothing but tonic.
    pub(crate) fn bare_load(&self, server: &Server, clients: u32, span: Span) -> Result<Figures> {
        let mut command = Command::new(&self.bench);
        command.args(["bare-client", "--server", &server.address, "--clients", &clients.to_string()]);
        command.args(["--duration", &span.measured.as_millis().to_string()]);
        command.args(["--warm-up", &span.warm_up.as_millis().to_string()]);
        figures(server, command)
    }
}

/// What a load generator says of a server.
fn figures(server: &Server, mut generator: Command) -> Result<Figures> {
    let (began, before) = (Instant::now(), server.processor_time()?);
    let output = generator.stdin(Stdio::null()).output().context("cannot start the load generator")?;
    if !output.status.success() {
        bail!("{generator:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let told: Told = serde_json::from_slice(&output.stdout).context("what the load generator says")?;
    let busy = (server.processor_time()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    Ok(Figures {
        per_second: told.events_per_second,
        p50_us: told.latency_us.p50,
        p99_us: told.latency_us.p99,
        p999_us: told.latency_us.p999,
        busy_cpus: busy,
        errors: told.errors.values().sum(),
    })
}

/// How long load is put on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What one load showed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Events.
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// Processors that the server kept busy, over the whole run of the load generator.
    pub(crate) busy_cpus: f64,
    pub(crate) errors: u64,
}

/// What is read of the load generator's JSON.
#[derive(Debug, Deserialize)]
struct Told {
    events_per_second: f64,
    latency_us: ToldLatency,
    errors: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
struct ToldLatency {
    p50: f64,
    p99: f64,
    p999: f64,
}

/// A server that is ended when it is dropped.
pub(crate) struct Server {
    child: Child,
    address: String,
    /// What the load generator shows, as variables of its environment.
    credentials: Vec<(&'static str, String)>,
}

impl Server {
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
        let address = line.trim_end().strip_prefix("listening on ").map(str::to_owned);
        let mut server =
            Self { child, address: address.clone().unwrap_or_default(), credentials: Vec::new() };
        if address.is_none() {
            // Dropped, it is ended and waited for.
            let ended = server.child.try_wait();
            bail!("{command:?} does not listen: {read:?}, {ended:?}");
        }
        Ok(server)
    }

    /// User and system time so far.
    fn processor_time(&self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
        Ok(Duration::from_secs_f64(ticks.map(f64::from).sum::<f64>() / TICKS_PER_SECOND))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
