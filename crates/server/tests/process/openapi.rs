//! The description of HTTP against the specification that it claims to follow, and against what the server really says.

use std::fs;

use serde_json::{Value, json};

use crate::curl::{Answer, Curl, Question, questions, sale};
use crate::programs::{Python, repository, succeeded};

fn noted(question: &Question, answer: &Answer) -> Value {
    json!({
        "method": question.method,
        "route": question.route,
        "asked": question.body,
        "status": answer.status,
        "content_type": answer.content_type,
        "answered": answer.body,
    })
}

#[test]
fn the_description_is_valid_and_every_answer_is_as_described() {
    let curl = Curl::at_shop();
    let mut notes: Vec<Value> = Vec::new();
    for question in questions(&curl) {
        notes.push(noted(&question, &question.ask(&curl)));
    }
    // Refusals, too, and what a write gives that is asked for a proof.
    let route = "/v1/namespaces/{namespace}/workspaces/{workspace}/events".to_owned();
    let write = Question { method: "post", route, path: String::new(), body: String::new() };
    let mut proven = sale();
    proven["include_tx_proof"] = json!(true);
    let mut conditional = sale();
    conditional["operations"][2]["set_entity"]["condition"] = json!({"must_not_exist": true});
    let mut other = sale();
    other["event_type"] = json!("Other");
    for (key, body) in [("proven", &proven), ("conditional", &conditional), ("proven", &other), ("", &other)]
    {
        let mut note = noted(&write, &curl.write(key, body));
        note["asked"] = Value::from(body.to_string());
        notes.push(note);
    }
    let statuses: Vec<u64> =
        notes.iter().rev().take(4).map(|note| note["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [400, 422, 409, 200]);

    let dir = tempfile::tempdir().unwrap();
    let (document, answers) = (dir.path().join("openapi.json"), dir.path().join("answers.json"));
    fs::write(&document, curl.get("/openapi.json").body).unwrap();
    fs::write(&answers, Value::from(notes.clone()).to_string()).unwrap();
    let mut command = Python::found().command();
    command.arg(repository().join("crates/server/tests/python/described.py")).args([&document, &answers]);
    let said = succeeded("described.py", command.output().unwrap());
    assert!(said.ends_with(&format!("{} answers are as described\n", notes.len())), "{said}");
}
