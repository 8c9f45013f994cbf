//! Where a server listens, and what it says to browsers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{Secured, program, says};
use crate::wire::parsed;

fn refused(arguments: &[&str], settings: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program();
    command.args(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(dir.path().join("data")).args(arguments);
    let output = command.envs(settings.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_server_that_can_be_reached_wants_tls_and_to_know_who_asks() {
    let said = refused(&[], &[]);
    assert!(said.contains("nothing is encrypted and nobody is asked who he is"), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    says(program().args(["tls", "init"]).arg(dir.path()));
    says(program().args(["tls", "issue"]).arg(dir.path()).arg("localhost"));
    crate::support::keygen(dir.path(), "one", "EdDSA");
    let (certificate, key, keys) = (at("localhost.pem"), at("localhost.key"), at("token-keys.json"));
    let tls = [("GAPLESS_TLS__CERTIFICATE", certificate.as_str()), ("GAPLESS_TLS__KEY", key.as_str())];
    let said = refused(&[], &tls);
    assert!(said.contains("and nobody is asked who he is"), "{said}");
    let said = refused(&[], &[("GAPLESS_ACCESS__TOKEN_KEYS", &keys)]);
    assert!(said.contains("and nothing is encrypted;"), "{said}");
    let said = refused(&[], &tls[..1]);
    assert!(said.contains("tls.key: certificate and key are given together"), "{said}");
    let said = refused(&["--insecure"], &[tls[0], ("GAPLESS_TLS__KEY", keys.as_str())]);
    assert!(said.contains("there is no private key in it") && said.contains("next: mend the file"), "{said}");
    let said = refused(&["--insecure"], &[tls[0], ("GAPLESS_TLS__KEY", "/no/such/key")]);
    assert!(said.contains("/no/such/key"), "{said}");
}

#[test]
fn every_answer_tells_a_browser_to_be_careful() {
    let server = Secured::start();
    let bearer = format!("authorization: Bearer {}", server.operator());
    for path in ["/", "/console/main.js", "/v1/namespaces", "/nowhere", "/metrics", "/healthz"] {
        let mut command = Command::new("curl");
        command.args(["--silent", "--include", "--http1.1", "--header", &bearer, "--cacert"]);
        command.arg(server.path("tls/ca.pem")).arg(format!("https://{}{path}", server.address));
        let said = says(&mut command).to_ascii_lowercase();
        let head = said.split_once("\r\n\r\n").unwrap().0;
        for header in [
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "content-security-policy: default-src 'none'",
            "strict-transport-security: max-age=",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-",
        ] {
            assert!(head.contains(header), "{path}: {header} in {head}");
        }
        assert!(!head.contains("\nserver:") && !head.contains("access-control-allow"), "{head}");
    }
}

#[test]
fn a_server_on_loopback_that_asks_nobody_who_he_is_takes_no_name_for_itself_and_no_page_from_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = program();
    server.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path().join("data"));
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").unwrap().to_owned();
    let asked = |method: &str, headers: &[(&str, &str)]| {
        let mut head = format!("{method} /v1/namespaces HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let answer = parsed(&said);
        (answer.status, answer.reason)
    };
    let foreign = (403, "FOREIGN_ORIGIN".to_owned());
    let own = ("host", address.as_str());
    assert_eq!(asked("GET", &[own]).0, 200);
    assert_eq!(asked("GET", &[("host", "localhost")]).0, 200);
    assert_eq!(asked("GET", &[own, ("sec-fetch-site", "same-origin")]).0, 200);
    for headers in [
        &[("host", "evil.example")][..],
        &[("host", "localhost.evil.example")],
        &[own, ("sec-fetch-site", "cross-site")],
        &[own, ("origin", "http://evil.example")],
        &[own, ("origin", "null")],
        &[own, ("host", "evil.example")],
    ] {
        for method in ["GET", "POST"] {
            assert_eq!(asked(method, headers), foreign, "{method} {headers:?}");
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
