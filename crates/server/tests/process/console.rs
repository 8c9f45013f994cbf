//! The console in a real browser, driven as a person would: it writes, follows, retries, verifies, and shows hostile text as text.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::programs::{found, succeeded};
use crate::support::{Process, program};

const SHOP: &str = "name = 'shop'\npartitions = 2\n[kinds.default.sequences]\ninvoice = 1\n";
/// How long a page may take for what it is asked: a bound, not a measure.
const PATIENCE: u32 = 1200;

/// A browser without a window, and the program that drives it.
struct Browser {
    driver: Child,
    session: String,
}

impl Browser {
    fn open() -> Self {
        found("chromium", "chromium");
        let mut driver = found("chromedriver", "chromium-driver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let started = said.find_map(|line| {
            let line = line.unwrap();
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        // Whoever writes to a pipe that nobody reads comes to a stop.
        std::thread::spawn(move || said.for_each(drop));
        let address = format!("http://127.0.0.1:{}/session", started.expect("it says its port"));
        let arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let asked = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = curl(&address, &asked)["sessionId"].as_str().expect("a session").to_owned();
        Self { driver, session: format!("{address}/{session}") }
    }

    fn go(&self, url: &str) {
        curl(&format!("{}/url", self.session), &json!({"url": url}));
    }

    /// What a function of the page returns.
    fn run(&self, script: &str) -> Value {
        curl(&format!("{}/execute/sync", self.session), &json!({"script": script, "args": []}))
    }

    /// Waits until an expression of the page holds.
    #[track_caller]
    fn until(&self, expression: &str) {
        for _ in 0..PATIENCE {
            if self.run(&format!("return Boolean({expression})")) == Value::Bool(true) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never: {expression}\n{}", self.run("return document.body.innerText"));
    }

    fn click(&self, selector: &str) {
        self.run(&format!("document.querySelector({selector:?}).click()"));
    }

    /// What the browser itself complained of.
    fn complaints(&self) -> Vec<String> {
        let log = curl(&format!("{}/se/log", self.session), &json!({"type": "browser"}));
        let lines = log.as_array().unwrap().iter().filter(|line| line["level"] == "SEVERE");
        lines.map(|line| line["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = Command::new("curl").args(["--silent", "--request", "DELETE", &self.session]).output();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Asks the driver; the value that it answers with.
fn curl(url: &str, body: &Value) -> Value {
    let mut command = found("curl", "curl");
    command.args(["--silent", "--show-error", "--max-time", "120", "--data-binary", &body.to_string(), url]);
    let said = succeeded("chromedriver", command.output().unwrap());
    let mut answer: Value = serde_json::from_str(&said).unwrap();
    assert!(answer["value"]["error"].is_null(), "{said}");
    answer["value"].take()
}

#[test]
fn a_person_writes_follows_retries_and_verifies_in_the_console() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::serve(&dir.path().join("data"));
    let definition = dir.path().join("shop.toml");
    std::fs::write(&definition, SHOP).unwrap();
    server.says(&["namespace", "apply", definition.to_str().unwrap()]);
    let browser = Browser::open();

    browser.go(&format!("http://{}/", server.address));
    browser.until("document.querySelectorAll('main section')[2].querySelectorAll('tbody tr').length === 2");
    browser.until("document.querySelector('#node').innerText.includes('node 1 leads')");

    browser.go(&format!("http://{}/#/shop/1", server.address));
    browser.until("document.querySelector('main .columns section').innerText.includes('live')");
    browser.until("document.querySelector('input[name=number]')");
    browser.click("input[name=number]");
    browser.click("form.write button");
    browser.until("document.querySelector('tr[data-offset=\"1\"]')?.innerText.includes('invoice 1')");
    // The same request again: the first answer, and no second event.
    browser.click("form.write button.second");
    browser.until("document.querySelector('form.write').innerText.includes('Known already')");

    // What somebody else writes comes by itself, and is text whatever it looks like.
    let hostile = r#"{"note":"<img src=x onerror=document.title=1>"}"#;
    server.says(&["write", "shop/1", "<b>Sold</b>", hostile]);
    browser.until("document.querySelector('tr[data-offset=\"2\"]')?.innerText.includes('<b>Sold</b>')");
    assert_eq!(browser.run("return document.querySelectorAll('tbody img, tbody b').length"), json!(0));
    assert_eq!(browser.run("return document.querySelectorAll('tbody tr').length"), json!(2));

    for _ in 3..=7 {
        server.says(&["write", "shop/1", "Sold", "{}"]);
    }
    browser.until("document.querySelector('tr[data-offset=\"7\"]')");
    // One whose path turns to both sides, and the last one, who has no brother.
    for offset in [3, 7] {
        browser.click(&format!("tr[data-offset=\"{offset}\"] button"));
        let row = format!("document.querySelector('tr[data-offset=\"{offset}\"]')");
        browser.until(&format!("{row}.innerText.includes('in the tree of 7')"));
    }

    browser.go(&format!("http://{}/#/shop/1/sequences", server.address));
    browser.until("document.querySelector('main .columns section').innerText.includes('invoice')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_server_that_wants_to_know_who_asks_is_told_in_the_console() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let ran = |arguments: &[&str]| succeeded("gapless", program().args(arguments).output().unwrap());
    ran(&["token", "keygen", "--id", "one", "--key", &at("one.jwk"), "--keys", &at("keys.json")]);
    let issue = [
        "token",
        "issue",
        "--subject",
        "person",
        "--namespaces",
        "shop",
        "--expires",
        "1h",
        "--key",
        &at("one.jwk"),
    ];
    let token = ran(&[&issue[..], &["--actions", "read,write,admin"]].concat());
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &at("data")]).stderr(Stdio::null());
    let server = Process::spawn(command.env("GAPLESS_ACCESS__TOKEN_KEYS", at("keys.json")));
    std::fs::write(at("shop.toml"), SHOP).unwrap();
    let apply =
        ["namespace", "apply", &at("shop.toml"), "--server", &server.address, "--token", token.trim()];
    ran(&apply);

    let browser = Browser::open();
    browser.go(&format!("http://{}/#/shop/1", server.address));
    browser.until("!document.querySelector('#knock').hidden");
    browser.run(&format!("document.querySelector('#token').value = {:?}", token.trim()));
    browser.click("#knock button");
    browser.until("document.querySelector('main .columns section').innerText.includes('live')");
    browser.until("document.querySelector('#knock').hidden");
    browser.click("form.write button");
    browser.until("document.querySelector('tr[data-offset=\"1\"]')");
    // A token is nowhere that another page, or the next person at this browser, could find it.
    let kept = browser.run("return JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, document.body.innerHTML])");
    assert!(!kept.to_string().contains(token.trim()), "{kept}");
    // What the browser complains of is that it was asked who it is, and nothing of its policy.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|complaint| complaint.contains("401")), "{complaints:?}");
}
