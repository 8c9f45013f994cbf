//! A server as a process on a free port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

/// The program, without anything of the environment that would change what it does.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
    // Started by cargo, it would tell people to start it by cargo.
    command
        .env_remove("GAPLESS_SERVER")
        .env_remove("GAPLESS_LOG")
        .env_remove("CARGO_MANIFEST_DIR")
        .stdin(Stdio::null());
    command
}

/// A server that runs until it is killed or dropped.
pub(crate) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Process {
    /// `gapless serve` on a directory; ready when it serves.
    pub(crate) fn serve(data: &Path) -> Self {
        Self::serve_at("127.0.0.1:0", data)
    }

    /// The same at this address.
    pub(crate) fn serve_at(address: &str, data: &Path) -> Self {
        Self::start(&["serve", "--listen", address, "--data", data.to_str().unwrap()])
    }

    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(program().args(arguments).stderr(Stdio::null()))
    }

    /// Starts what is to serve; ready when it does.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").expect("it says where").to_owned();
        Self { child, output, address }
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// `GET` of a path: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        get(&self.address, path).unwrap()
    }

    /// SIGKILL: it has no say in it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and what it ends with.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        self.child.wait().unwrap()
    }

    /// A client command that asks this server.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        program().env("GAPLESS_SERVER", &self.address).args(arguments).output().unwrap()
    }

    /// The same, which must succeed; what it said.
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same, which must be refused; the reason.
    pub(crate) fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("\n next: "), "every error says what to do next: {error}");
        error
    }
}

/// `GET` of a path on a connection of its own: status and body.
pub(crate) fn get(address: &str, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok((head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap(), body.to_owned()))
}

/// `POST` to a path on a connection of its own: status and body.
pub(crate) fn post(address: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap(), body.to_owned())
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
