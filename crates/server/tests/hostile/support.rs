//! A server with TLS, tokens and client certificates, set up by the program's own commands; and a client beside everybody else.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gapless_client::{Client, Credentials, Ledger, Options, Retry, v1};

/// How long anything may take before a test has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// How long a connection may take for its headers where nobody is to be cut off for that: longer than any test.
const UNHURRIED: &str = "1h";
/// The setting of that, for those who want somebody to be cut off, and for how long everybody else has: a busy machine is no reason.
pub(crate) const HURRIED: (&str, &str) = ("GAPLESS_SERVER__HEADER_TIMEOUT", "5s");
/// More memory than this must nothing cost that is sent, at any moment, in KiB.
const MEMORY_KIB: u64 = 32 << 10;
/// Nothing is retried: what the first attempt comes to is the answer.
const ONCE: Retry =
    Retry { first: Duration::from_secs(24 * 3600), longest: Duration::from_secs(24 * 3600), deadline: LONG };

/// The program, without anything of the environment that would change what it does.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
    for name in ["GAPLESS_SERVER", "GAPLESS_TOKEN", "GAPLESS_CA", "GAPLESS_LOG", "CARGO_MANIFEST_DIR"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command that must succeed; what it said.
#[track_caller]
pub(crate) fn says(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A directory with an authority, certificates and keys, and a server that uses them.
pub(crate) struct Secured {
    pub(crate) dir: tempfile::TempDir,
    child: Child,
    /// Where, with a name that its certificate has.
    pub(crate) address: String,
    pub(crate) port: u16,
}

impl Secured {
    /// Keys, certificates, a server, and the namespaces `shop` and `well`.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        says(program().args(["tls", "init"]).arg(at("tls")));
        says(program().args(["tls", "issue"]).arg(at("tls")).args(["localhost", "127.0.0.1"]));
        says(program().args(["tls", "issue"]).arg(at("tls")).arg("till-1"));
        says(program().args(["tls", "issue"]).arg(at("tls")).arg("stranger"));
        keygen(dir.path(), "one", "EdDSA");
        keygen(dir.path(), "shared", "HS256");
        let clients = "[[client]]\nname = 'till-1'\nnamespaces = ['shop']\nactions = ['read', 'write']\n";
        std::fs::write(at("clients.toml"), clients).unwrap();
        let mut server = program();
        server.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(at("data"));
        server.env("GAPLESS_TLS__CERTIFICATE", at("tls/localhost.pem"));
        server.env("GAPLESS_TLS__KEY", at("tls/localhost.key"));
        server.env("GAPLESS_TLS__CLIENT_CA", at("tls/ca.pem"));
        server.env("GAPLESS_ACCESS__TOKEN_KEYS", at("token-keys.json"));
        server.env("GAPLESS_ACCESS__CLIENTS", at("clients.toml"));
        server.env("GAPLESS_ACCESS__LEEWAY", "0s");
        server.env("GAPLESS_ACCESS__RELOAD_INTERVAL", "20ms");
        server.env("GAPLESS_SERVER__HEADER_TIMEOUT", UNHURRIED);
        server.envs(settings.iter().copied());
        let lines = std::fs::File::create(at("stderr")).unwrap();
        let mut child = server.stdout(Stdio::piped()).stderr(lines).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim_end().strip_prefix("listening on ") else {
            panic!("it does not listen: {}", std::fs::read_to_string(at("stderr")).unwrap());
        };
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        let secured = Self { dir, child, address: format!("localhost:{port}"), port };
        for name in ["shop", "well"] {
            let file = secured.path(&format!("{name}.toml"));
            std::fs::write(&file, format!("name = '{name}'\npartitions = 2\n")).unwrap();
            secured.says(&secured.operator(), &["namespace", "apply", file.to_str().unwrap()]);
        }
        secured
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A token of the key `one`.
    pub(crate) fn token(&self, subject: &str, namespaces: &str, actions: &str) -> String {
        self.token_of("one", "gapless", subject, namespaces, actions, "1h")
    }

    pub(crate) fn token_of(
        &self,
        key: &str,
        audience: &str,
        subject: &str,
        namespaces: &str,
        actions: &str,
        expires: &str,
    ) -> String {
        let mut command = program();
        command.args(["token", "issue", "--subject", subject, "--audience", audience]);
        command.args(["--namespaces", namespaces, "--actions", actions, "--expires", expires, "--key"]);
        says(command.arg(self.path(&format!("{key}.jwk")))).trim().to_owned()
    }

    /// A token for everything.
    pub(crate) fn operator(&self) -> String {
        self.token("operator", "*", "read,write,work,admin")
    }

    /// A client command with a token.
    pub(crate) fn ask(&self, token: &str, arguments: &[&str]) -> Output {
        let mut command = program();
        command.env("GAPLESS_SERVER", &self.address).env("GAPLESS_CA", self.path("tls/ca.pem"));
        command.env("GAPLESS_TOKEN", token).args(arguments).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn says(&self, token: &str, arguments: &[&str]) -> String {
        let output = self.ask(token, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn refuses(&self, token: &str, arguments: &[&str]) -> String {
        let output = self.ask(token, arguments);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn client(&self, token: &str) -> Client {
        let ca = std::fs::read(self.path("tls/ca.pem")).unwrap();
        let credentials = Credentials::default().with_ca(ca).with_token(token).unwrap();
        let client = Client::connecting(std::slice::from_ref(&self.address), credentials).unwrap();
        client.with(Options { retry: ONCE, ..Options::default() })
    }

    /// Everything about the namespace `shop` that a request could change: which namespaces there are, and how far partitions are.
    pub(crate) fn state(&self) -> String {
        let token = self.token("observer", "*", "read");
        let namespaces = self.says(&token, &["namespace", "list", "-o", "raw"]);
        let partitions = self.says(&token, &["partitions", "shop", "-o", "json"]);
        let offsets = partitions.lines().map(|line| {
            let partition: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {} {}", partition["partition"], partition["highest_offset"], partition["frozen"])
        });
        format!("{namespaces}{}", offsets.collect::<Vec<_>>().join("\n"))
    }

    /// Memory of the server, in KiB. From here on, its highest is noted.
    pub(crate) fn memory(&self) -> u64 {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
        self.status_kib("VmRSS:")
    }

    /// The most that it had since it was asked for last.
    pub(crate) fn highest_memory(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// At no moment since `before` was taken there was much more.
    #[track_caller]
    pub(crate) fn memory_is_as_before(&self, before: u64, what: &str) {
        self.memory_is_within(before, MEMORY_KIB, what);
    }

    #[track_caller]
    pub(crate) fn memory_is_within(&self, before: u64, more: u64, what: &str) {
        let highest = self.highest_memory();
        assert!(highest < before + more, "{what}: {before} KiB became {highest} KiB");
    }

    /// A metric without labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics");
        let line =
            page.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.unwrap_or_else(|| panic!("{name} in {page}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// A page, as whoever may see everything sees it.
    pub(crate) fn page(&self, path: &str) -> String {
        says(&mut self.curl(path))
    }

    /// Asks for a page, on a connection of its own.
    pub(crate) fn curl(&self, path: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--cacert"]).arg(self.path("tls/ca.pem"));
        command.arg("--header").arg(format!("authorization: Bearer {}", self.operator()));
        command.arg(format!("https://{}{path}", self.address));
        command
    }

    /// What the server said so far.
    pub(crate) fn lines(&self) -> String {
        std::fs::read_to_string(self.path("stderr")).unwrap()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        says(Command::new("kill").args([name, &self.child.id().to_string()]));
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        // It may have ended already, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn keygen(dir: &Path, id: &str, algorithm: &str) {
    let mut command = program();
    command.args(["token", "keygen", "--id", id, "--algorithm", algorithm, "--key"]);
    command.arg(dir.join(format!("{id}.jwk"))).arg("--keys").arg(dir.join("token-keys.json"));
    says(&mut command);
}

/// Polls until something holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}

/// A client that minds its own business, whatever others do: it writes, and each of its writes is answered at the first attempt.
pub(crate) struct Neighbour {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    working: JoinHandle<()>,
    /// What it had written when it was ready.
    before: u64,
}

impl Neighbour {
    /// Ready once it writes.
    pub(crate) fn at(server: &Secured) -> Self {
        let client = server.client(&server.token("neighbour", "well", "read,write"));
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), written.clone());
        let working = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                while !stopped.load(Ordering::Relaxed) {
                    let request = v1::WriteRequest {
                        namespace: "well".to_owned(),
                        workspace: 1,
                        client_id: "neighbour".to_owned(),
                        event_type: "Lived".to_owned(),
                        payload: b"{}"[..].into(),
                        ..Default::default()
                    };
                    let answer = tokio::time::timeout(LONG, client.write(request)).await.unwrap().unwrap();
                    let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
                    assert_eq!(answer.workspace_offset, number, "no number is missing, none is there twice");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        });
        until("the neighbour writes", || written.load(Ordering::Relaxed) > 0 || working.is_finished());
        let before = written.load(Ordering::Relaxed);
        Self { stop, written, working, before }
    }

    /// Ends it once it has written beside what is done here and still held; everything it asked for was answered.
    #[track_caller]
    pub(crate) fn leave(self) {
        // On a busy machine it may not have had a turn yet.
        let has_written = || self.written.load(Ordering::Relaxed) > self.before;
        until("it is served beside the others", || has_written() || self.working.is_finished());
        self.stop.store(true, Ordering::Relaxed);
        self.working.join().expect("whoever behaves is served");
    }
}

/// Bytes to a program, and what it makes of them.
pub(crate) fn piped(command: &mut Command, bytes: &[u8]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    output.stdout
}
