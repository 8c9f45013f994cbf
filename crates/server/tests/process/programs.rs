//! Other people's programs that tests drive the server with. What is missing is installed; what cannot be installed fails the
//! test with what to do, and is never skipped.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The packages of the environment, exactly.
const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// A program, from the path or from Debian's packages.
pub(crate) fn found(program: &str, package: &str) -> Command {
    let runs = || Command::new(program).arg("--version").output().map(|_| ());
    if runs().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        install(package);
        runs().unwrap_or_else(|error| {
            panic!("{program} is not on the path although {package} is there: {error}")
        });
    }
    Command::new(program)
}

fn install(package: &str) {
    // Tests are processes of their own, and apt-get refuses the second one that comes.
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("apt.lock")).unwrap();
    lock.lock().unwrap();
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=300"]);
        command.args(arguments).stdin(Stdio::null());
        command.output().map(|output| output.status.success()).unwrap_or(false)
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    let installed = apt(&install) || (apt(&["update"]) && apt(&install));
    assert!(installed, "this test needs {package}, and apt-get cannot install it: install it by hand");
}

/// Python with packages of its own, in the folder that builds go to. Made once, and again when its packages change.
pub(crate) struct Python {
    bin: PathBuf,
}

impl Python {
    pub(crate) fn found() -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        let bin = dir.join("bin");
        // Tests are processes of their own, and all of them want it at the same time.
        let lock = File::create(dir.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        let stamp = dir.join("requirements.txt");
        if fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == REQUIREMENTS) {
            return Self { bin };
        }
        make(&dir);
        let wanted = dir.join("wanted.txt");
        fs::write(&wanted, REQUIREMENTS).unwrap();
        let mut pip = Command::new(bin.join("pip"));
        let arguments = ["install", "--disable-pip-version-check", "--no-input", "--quiet", "--requirement"];
        succeeded("packages from PyPI", pip.args(arguments).arg(&wanted).output().unwrap());
        // Last: what stands there is whole.
        fs::rename(wanted, stamp).unwrap();
        Self { bin }
    }

    /// The interpreter.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.bin.join("python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
        command
    }

    /// Stubs of the protocol, made from its files alone.
    pub(crate) fn stubs(&self, into: &Path) {
        let protocol = repository().join("crates/api/proto");
        let mut command = self.command();
        command.args(["-m", "grpc_tools.protoc"]);
        for (name, folder) in
            [("-I", &protocol), ("--python_out=", &into.to_owned()), ("--grpc_python_out=", &into.to_owned())]
        {
            command.arg(format!("{name}{}", folder.display()));
        }
        for file in fs::read_dir(protocol.join("gapless/v1")).unwrap() {
            command.arg(file.unwrap().path());
        }
        succeeded("grpc_tools.protoc", command.output().unwrap());
    }
}

fn make(dir: &Path) {
    let venv = || found("python3", "python3").args(["-m", "venv", "--clear"]).arg(dir).output().unwrap();
    let mut made = venv();
    if !made.status.success() {
        // Debian has it in a package of its own.
        install("python3-venv");
        made = venv();
    }
    succeeded("python3 -m venv", made);
}

/// The folder that everything of this project is in.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a program said, which must have succeeded.
#[track_caller]
pub(crate) fn succeeded(what: &str, output: Output) -> String {
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{said}{complained}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
