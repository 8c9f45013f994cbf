//! Every route, asked by `curl` as people ask it: answers, refusals with their bodies, following.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::programs::{found, succeeded};
use crate::support::Process;

const SHOP: &str =
    "name = 'shop'\npartitions = 1\n[kinds.default.sequences]\ninvoice = 1\n[projections.work]\n";

/// What a server said.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) retry_after: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    #[track_caller]
    fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// The body of a problem.
    #[track_caller]
    fn problem(&self, status: u16, reason: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["reason"].as_str()), (status, Some(reason)), "{}", self.body);
        assert!(!problem["message"].as_str().unwrap().is_empty());
        problem
    }
}

/// A server, and `curl` at it.
pub(crate) struct Curl {
    process: Process,
    dir: tempfile::TempDir,
}

impl Curl {
    /// A server with the namespace `shop`.
    pub(crate) fn at_shop() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let curl = Self { process: Process::serve(&dir.path().join("data")), dir };
        curl.send("POST", "/v1/namespaces", &[], SHOP).ok();
        curl
    }

    fn command(&self) -> Command {
        let mut command = found("curl", "curl");
        command.args(["--silent", "--show-error", "--max-time", "60"]).stdin(Stdio::null());
        command
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.process.address)
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut command = self.command();
        command.args(["--request", method, "--data-binary", body]);
        for header in headers {
            command.args(["--header", header]);
        }
        self.answered(command, path)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.answered(self.command(), path)
    }

    /// What it said, with what is asked about it behind it.
    fn answered(&self, mut command: Command, path: &str) -> Answer {
        let asked = "\n%{http_code}\n%{content_type}\n%header{retry-after}";
        let output = command.args(["--write-out", asked]).arg(self.url(path)).output().unwrap();
        let said = succeeded("curl", output);
        let mut parts = said.rsplitn(4, '\n');
        let mut part = || parts.next().unwrap().to_owned();
        let (retry_after, content_type, status, body) = (part(), part(), part(), part());
        Answer { status: status.parse().unwrap(), content_type, retry_after, body }
    }

    /// Writes an event into workspace 1.
    pub(crate) fn write(&self, key: &str, body: &Value) -> Answer {
        let key = format!("Idempotency-Key: {key}");
        self.send("POST", EVENTS, &[&key, "Content-Type: application/json"], &body.to_string())
    }

    /// Follows until it is dropped.
    fn follow(&self, path: &str, headers: &[&str]) -> Following {
        let mut command = self.command();
        command.arg("--no-buffer");
        for header in headers {
            command.args(["--header", header]);
        }
        let mut child = command.arg(self.url(path)).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following { child, lines }
    }
}

/// Server-sent events as they come.
struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    /// The next one: its id, and what it says.
    fn next(&mut self) -> (String, Value) {
        let mut id = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended");
            if let Some(found) = line.strip_prefix("id: ") {
                found.trim_end().clone_into(&mut id);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It follows for ever.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const WORKSPACE: &str = "/v1/namespaces/shop/workspaces/1";
const EVENTS: &str = "/v1/namespaces/shop/workspaces/1/events";

/// An event with everything that can be read afterwards.
pub(crate) fn sale() -> Value {
    json!({
        "event_type": "ItemSold",
        "client_id": "till",
        "payload": {"amount": 3},
        "metadata": {"till": "north"},
        "operations": [
            {"next_number": {"sequence": "invoice"}},
            {"create_record": {"raw_id": 1, "record_type": "order", "fields": {"total": {"integer": -3}}}},
            {"set_entity": {"key": "c3RvY2svYXBwbGVz", "value": "MTI="}},
        ],
    })
}

#[test]
fn a_key_makes_a_write_one_write() {
    let curl = Curl::at_shop();
    let first = curl.write("order-1", &sale()).ok();
    assert_eq!(
        (
            &first["workspace_offset"],
            &first["assigned_sequence"],
            &first["record_ids"]["1"],
            &first["numbers"]["invoice"]
        ),
        (&json!(1), &json!(1), &json!(200_001), &json!(1))
    );
    let mut again = curl.write("order-1", &sale()).ok();
    assert_eq!(again["duplicate"], true);
    again["duplicate"] = json!(false);
    assert_eq!(again, first);
    let other = json!({"event_type": "Other", "client_id": "till"});
    let reused = curl.write("order-1", &other);
    assert_eq!(
        (reused.status, &reused.json()["code"]),
        (422, &json!("WRITE_ERROR_CODE_IDEMPOTENCY_KEY_REUSED"))
    );
    assert_eq!(curl.write("2f1c3f0e-6f0e-4a52-8a39-1e9e6a1c9f10", &other).ok()["workspace_offset"], 2);
    assert_eq!(curl.write("2F1C3F0E6F0E4A528A391E9E6A1C9F10", &other).ok()["duplicate"], true);
}

#[test]
fn refusals_have_their_statuses_and_bodies() {
    let curl = Curl::at_shop();
    curl.write("a", &sale()).ok();

    let keyless = curl.send("POST", EVENTS, &[], &sale().to_string()).problem(400, "INVALID_REQUEST");
    assert_eq!(keyless["violations"][0]["field"], "Idempotency-Key");
    let both = json!({"event_type": "", "client_id": ""});
    let fields: Vec<_> = curl.write("b", &both).problem(400, "INVALID_REQUEST")["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| violation["field"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(fields, ["client_id", "event_type"], "every violation at once");
    for body in ["{", "[]", "{\"colour\": 1}", "{\"workspace\": 2}"] {
        curl.send("POST", EVENTS, &["Idempotency-Key: c"], body).problem(400, "INVALID_REQUEST");
    }
    curl.get(&format!("{WORKSPACE}/root?colour=red")).problem(400, "INVALID_REQUEST");
    curl.get(&format!("{EVENTS}?follow=true&limit=3")).problem(400, "INVALID_REQUEST");
    curl.get("/v1/namespaces/nowhere").problem(404, "UNKNOWN_NAMESPACE");
    curl.get(&format!("{WORKSPACE}/records/7")).problem(404, "NO_SUCH_RECORD");
    curl.get("/v1/nowhere").problem(404, "NO_SUCH_ROUTE");
    curl.send("DELETE", EVENTS, &[], "").problem(405, "WRONG_METHOD");

    let mut conditional = sale();
    conditional["expected_workspace_offset"] = json!(0);
    let refused = curl.write("d", &conditional);
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("WRITE_ERROR_CODE_OFFSET_MISMATCH")));
    assert_eq!(refused.json()["current_version"], 1);

    curl.send("POST", "/v1/namespaces/shop/partitions/0/freeze", &[], "").ok();
    let frozen = curl.write("e", &sale()).problem(412, "PARTITION_FROZEN");
    assert!(frozen["details"]["partition"].is_string());
    curl.send("POST", "/v1/namespaces/shop/partitions/0/thaw", &[], "").ok();
    assert_eq!(curl.write("e", &sale()).ok()["workspace_offset"], 2);

    // A window of keys that is full, until the first of them is old enough.
    let small =
        "name = 'small'\npartitions = 1\nidempotency = { window = '24h', max_keys = 1, at_cap = 'refuse' }";
    curl.send("POST", "/v1/namespaces", &[], small).ok();
    let path = "/v1/namespaces/small/workspaces/1/events";
    let event = json!({"event_type": "A", "client_id": "t"}).to_string();
    let answers: Vec<Answer> =
        (0..3).map(|key| curl.send("POST", path, &[&format!("Idempotency-Key: {key}")], &event)).collect();
    let full = answers.iter().find(|answer| answer.status != 200).unwrap();
    let problem = full.problem(429, "WINDOW_FULL");
    assert!(full.retry_after.parse::<u64>().unwrap() >= 1 && problem["retry_after_ms"].as_u64().unwrap() > 0);

    let alone = json!({"node_id": 2, "address": "127.0.0.1:1"}).to_string();
    curl.send("POST", "/v1/cluster/nodes", &[], &alone).problem(412, "NO_PEER_NETWORK");
    curl.send("DELETE", "/v1/cluster/nodes/2", &[], "").problem(412, "NO_PEER_NETWORK");
    curl.send("POST", "/v1/cluster/nodes/2/lead", &[], "").problem(412, "NO_PEER_NETWORK");
    curl.send("POST", "/v1/backup", &[], "{\"target\": \"x\"}").problem(400, "INVALID_REQUEST");
}

#[test]
fn bytes_are_base64_and_json_is_json() {
    let curl = Curl::at_shop();
    let plain = json!({"event_type": "A", "client_id": "t", "payload": {"list": [1, "two", null]}});
    curl.write("json", &plain).ok();
    let text =
        json!({"event_type": "A", "client_id": "t", "content_type": "text/plain", "payload": "aGVsbG8="});
    curl.write("text", &text).ok();
    let wrong = json!({"event_type": "A", "client_id": "t", "content_type": "text/plain", "payload": "***"});
    curl.write("wrong", &wrong).problem(400, "INVALID_REQUEST");
    let events: Vec<Value> =
        curl.get(EVENTS).body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["payload"], plain["payload"]);
    assert_eq!(
        (&events[1]["payload"], &events[1]["content_type"]),
        (&json!("aGVsbG8="), &json!("text/plain"))
    );
    // In a path, bytes are the text itself.
    curl.write("entity", &sale()).ok();
    assert_eq!(curl.get(&format!("{WORKSPACE}/entities/stock/apples")).ok()["entity"]["value"], "MTI=");
    assert_eq!(curl.get(&format!("{WORKSPACE}/entities/stock%2Fapples")).ok()["entity"]["value"], "MTI=");
}

#[test]
fn following_goes_on_where_it_broke_off() {
    let curl = Curl::at_shop();
    curl.write("a", &sale()).ok();
    curl.write("b", &sale()).ok();
    let mut following = curl.follow(&format!("{EVENTS}?follow=true"), &[]);
    assert_eq!(following.next().0, "1");
    assert_eq!(following.next().1["payload"], json!({"amount": 3}));
    curl.write("c", &sale()).ok();
    assert_eq!(following.next().0, "3");
    drop(following);
    curl.write("d", &sale()).ok();
    assert_eq!(curl.follow(&format!("{EVENTS}?follow=true"), &["Last-Event-ID: 3"]).next().0, "4");
    assert_eq!(curl.follow(&format!("{EVENTS}?follow=true&from=4"), &[]).next().0, "4");

    let all = "/v1/namespaces/shop/events?follow=true";
    let mut following = curl.follow(all, &[]);
    let offsets: Vec<_> = (0..3).map(|_| following.next()).collect();
    let last = format!("Last-Event-ID: {}", offsets[2].0);
    assert_eq!(offsets[2].1["workspace_offset"], 3);
    assert_eq!(curl.follow(all, &[&last]).next().1["workspace_offset"], 4);

    let outcomes = "/v1/namespaces/shop/partitions/0/outcomes?follow=true";
    // The first outcome of a partition is its definition.
    assert!(curl.follow(outcomes, &[]).next().1["defined"].is_string());
    assert_eq!(curl.follow(outcomes, &["Last-Event-ID: 1"]).next().1["event"]["workspace_offset"], 1);
    let wrong = curl.answered(
        {
            let mut command = curl.command();
            command.args(["--header", "Last-Event-ID: x"]);
            command
        },
        outcomes,
    );
    wrong.problem(400, "INVALID_REQUEST");
}

/// One question to one route.
pub(crate) struct Question {
    pub(crate) method: &'static str,
    /// The route, as the description spells it.
    pub(crate) route: String,
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Question {
    pub(crate) fn ask(&self, curl: &Curl) -> Answer {
        match self.method {
            "get" => curl.get(&self.path),
            method => curl.send(&method.to_uppercase(), &self.path, &["Idempotency-Key: every"], &self.body),
        }
    }
}

/// Something to ask every route of this server, in an order in which there is an answer.
pub(crate) fn questions(curl: &Curl) -> Vec<Question> {
    let ask = |method, route: &str, path: &str, body: &str| Question {
        method,
        route: route.to_owned(),
        path: path.to_owned(),
        body: body.to_owned(),
    };
    let get = |route: &str, path: &str| ask("get", route, path, "");
    let workspace = |route: &str, path: &str| {
        get(
            &format!("/v1/namespaces/{{namespace}}/workspaces/{{workspace}}{route}"),
            &format!("{WORKSPACE}{path}"),
        )
    };
    let partition = |method, what: &str| {
        let route = format!("/v1/namespaces/{{namespace}}/partitions/{{partition}}/{what}");
        ask(method, &route, &format!("/v1/namespaces/shop/partitions/0/{what}"), "")
    };
    let projection = |method, route: &str, path: &str, body: &str| {
        let route = format!("/v1/namespaces/{{namespace}}/projections/{{projection}}{route}");
        ask(method, &route, &format!("/v1/namespaces/shop/projections/work{path}"), body)
    };
    let slot = |what: &str, body: &str| {
        let route = format!("/partitions/{{partition}}/slots/{{slot}}/{what}");
        projection("post", &route, &format!("/partitions/0/slots/1/{what}"), body)
    };
    let write = Question { method: "post", body: sale().to_string(), ..workspace("/events", "/events") };
    let target = json!({"targets": [{"namespace": "shop", "partition": 0, "partition_offset": 1}]});
    let node = json!({"node_id": 2, "address": "127.0.0.1:1"});
    let backups = json!({"target": curl.dir.path().join("backups")});
    vec![
        ask("post", "/v1/namespaces", "/v1/namespaces", "name = 'other'\npartitions = 1"),
        get("/v1/namespaces", "/v1/namespaces"),
        get("/v1/namespaces/{namespace}", "/v1/namespaces/other"),
        ask("delete", "/v1/namespaces/{namespace}", "/v1/namespaces/other", ""),
        write,
        workspace("/events", "/events"),
        get("/v1/namespaces/{namespace}/events", "/v1/namespaces/shop/events?limit=1"),
        partition("get", "outcomes"),
        workspace("", ""),
        workspace("/entities", "/entities?page_size=1"),
        workspace("/entities/{key}", "/entities/stock/apples?consistency=stale"),
        workspace("/entity", "/entity?key_base64=c3RvY2svYXBwbGVz"),
        workspace("/records", "/records"),
        workspace("/records/{record_id}", "/records/200001"),
        workspace("/sequences", "/sequences"),
        workspace("/clients/{client_id}", "/clients/till"),
        workspace("/blocks/{height}", "/blocks/1"),
        workspace("/proofs/{workspace_offset}", "/proofs/1"),
        workspace("/consistency", "/consistency?old_size=1"),
        workspace("/root", "/root"),
        get("/v1/namespaces/{namespace}/projections", "/v1/namespaces/shop/projections"),
        projection("get", "", "", ""),
        projection("get", "/tables/{table}/rows", "/tables/daily/rows?workspace=1&prefix=a", ""),
        projection("get", "/dead-letters", "/dead-letters", ""),
        projection("post", "/lease", "/lease", "{\"worker\": \"curl\", \"wait_ms\": 10000}"),
        projection("post", "/allocate", "/allocate", "{\"worker\": \"curl\", \"workspace\": 1}"),
        slot("renew", "{\"token\": 1}"),
        slot("commit", "{\"token\": 1, \"content\": {\"result\": \"{}\"}}"),
        slot("release", "{\"token\": 1}"),
        slot("fail", "{\"token\": 1, \"error\": \"no\"}"),
        slot("skip", ""),
        projection("post", "/pause", "/pause", ""),
        projection("post", "/resume", "/resume", ""),
        projection("post", "/dead-letters/replay", "/dead-letters/replay", ""),
        projection("post", "/rebuild", "/rebuild", ""),
        projection("post", "/switch", "/switch", ""),
        projection("post", "/audit", "/audit", ""),
        get("/v1/partitions", "/v1/partitions?namespace=shop"),
        partition("post", "freeze"),
        partition("post", "thaw"),
        partition("post", "repair"),
        ask("post", "/v1/barrier", "/v1/barrier", &target.to_string()),
        ask("post", "/v1/snapshot", "/v1/snapshot", ""),
        ask("post", "/v1/backup", "/v1/backup", &backups.to_string()),
        get("/v1/cluster", "/v1/cluster"),
        ask("post", "/v1/cluster/nodes", "/v1/cluster/nodes", &node.to_string()),
        ask("delete", "/v1/cluster/nodes/{node_id}", "/v1/cluster/nodes/2", ""),
        ask("post", "/v1/cluster/nodes/{node_id}/lead", "/v1/cluster/nodes/2/lead", ""),
        get("/openapi.json", "/openapi.json"),
        get("/metrics", "/metrics"),
        get("/healthz", "/healthz"),
        get("/readyz", "/readyz"),
    ]
}

#[test]
fn every_route_of_the_description_is_asked_and_answers() {
    let curl = Curl::at_shop();
    let mut asked = BTreeSet::new();
    for question in questions(&curl) {
        let answer = question.ask(&curl);
        let (method, path) = (question.method, &question.path);
        // A node that runs alone has nobody to add or remove; projections have one version yet.
        let later = ["/pause", "/resume", "/replay", "/rebuild", "/switch", "/audit"];
        let expected = match question.route.as_str() {
            route if later.iter().any(|later| route.ends_with(later)) => 501,
            route if route.starts_with("/v1/cluster/") => 412,
            _ => 200,
        };
        assert_eq!(answer.status, expected, "{method} {path}: {}", answer.body);
        asked.insert((question.route, method.to_owned()));
    }
    let document = curl.get("/openapi.json").ok();
    let mut described = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        described.extend(operations.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())));
        // What is not described is not answered either.
        for method in ["get", "post", "put", "delete", "patch"] {
            if operations.get(method).is_none() {
                let path = path.replace(['{', '}'], "");
                let refused = curl.send(&method.to_uppercase(), &path, &[], "");
                assert_eq!(refused.status, 405, "{method} {path}: {}", refused.body);
            }
        }
    }
    assert_eq!(asked, described);
    let metrics = curl.get("/metrics");
    assert!(
        metrics.content_type.starts_with("text/plain") && metrics.body.contains("gapless_partition_offset")
    );
}
