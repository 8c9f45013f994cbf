//! The set-up of a production node, as the page about it has it: its commands are read from there, and executed.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The commands of the page, as they stand there.
fn commands() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/security.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```sh\n").expect("the page has commands");
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn ten_commands_make_a_node_that_strangers_learn_nothing_from() {
    let dir = tempfile::tempdir().unwrap();
    let commands = commands();
    let numbered = commands.lines().filter(|line| line.starts_with("# ")).count();
    assert_eq!(numbered, 10, "ten commands, each with what it is for");
    let port = crate::address::own().port();
    let script = format!(
        "set -eu\numask 022\ntrap 'kill $(cat node/pid)' EXIT\n{}\n{CHECKS}",
        commands.replace("7400", &port.to_string())
    );
    let folder = Path::new(env!("CARGO_BIN_EXE_gapless")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    for name in ["GAPLESS_SERVER", "GAPLESS_TOKEN", "GAPLESS_CA", "GAPLESS_LOG"] {
        shell.env_remove(name);
    }
    let output = shell.arg("-c").arg(&script).current_dir(dir.path()).env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let stderr = std::fs::read_to_string(dir.path().join("node/stderr")).unwrap_or_default();
    assert!(output.status.success(), "{said}\n{}\n{stderr}", String::from_utf8_lossy(&output.stderr));
    for line in
        ["401 /v1/namespaces", "401 /metrics", "200 /healthz", "tokenless: 1", "elsewhere: 1", "plain: 000"]
    {
        assert!(said.lines().any(|said| said == line), "{line} in {said}");
    }
    for name in SECRETS {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others on the machine can read {name}");
    }
}

/// Files that make whoever reads them somebody else.
const SECRETS: [&str; 6] = [
    "authority/ca.key",
    "authority/signing.jwk",
    "node/db.example.com.key",
    "node/token-keys.json",
    "operator.token",
    "till.token",
];

/// What a stranger sees of that node, and what the till may not do.
const CHECKS: &str = r#"
node="https://$GAPLESS_SERVER"
for path in /v1/namespaces /metrics /healthz; do
  echo "$(curl --silent --output /dev/null --write-out '%{http_code}' --cacert authority/ca.pem "$node$path") $path"
done
echo "plain: $(curl --silent --output /dev/null --write-out '%{http_code}' "http://$GAPLESS_SERVER/healthz" || true)"
code=0; env -u GAPLESS_TOKEN gapless namespace list --timeout 2s 2> /dev/null || code=$?; echo "tokenless: $code"
code=0; GAPLESS_TOKEN="$(cat till.token)" gapless write other/1 ItemSold 2> /dev/null || code=$?; echo "elsewhere: $code"
gapless read _system/1 -o json
"#;
