//! Events of schedules, their rules, and what they do in plain words of the test.

use std::collections::BTreeMap;

use fastrand::Rng;
use gapless_projection::Rules;
use serde_json::{Value, json};

/// Rows by id, columns by name: the state as the test computes it.
pub(crate) type Table = BTreeMap<String, BTreeMap<String, Value>>;

/// How a slot is worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By its rule.
    Rule,
    /// By a worker that reads a row of `acc` and adds to it.
    Add { id: String, amount: i64 },
    /// By a worker that has only a result.
    Result,
    /// Allocated: a row of `alloc` that nobody reads.
    Allocated,
}

/// The events of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) key: Option<String>,
    pub(crate) payload: Value,
}

impl Event {
    pub(crate) fn kind(&self) -> Kind {
        match self.name {
            "Add" => Kind::Add {
                id: self.payload["id"].as_str().unwrap().to_owned(),
                amount: self.payload["amount"].as_i64().unwrap(),
            },
            "Note" => Kind::Result,
            _ => Kind::Rule,
        }
    }

    /// What it does to the table `order`, as anybody would write it down. False if it cannot be done.
    pub(crate) fn fold(&self, orders: &mut Table) -> bool {
        let field = |name: &str| self.payload[name].clone();
        let number = |row: &BTreeMap<String, Value>| row["n"].as_i64().unwrap();
        match self.name {
            "Open" => {
                let row = orders.entry(field("id").as_str().unwrap().to_owned()).or_default();
                row.extend([
                    ("cust".to_owned(), field("cust")),
                    ("st".to_owned(), json!("pending")),
                    ("n".to_owned(), json!(0)),
                ]);
            }
            "Bump" => {
                for row in orders.values_mut().filter(|row| number(row) < field("lim").as_i64().unwrap()) {
                    let next = number(row) + 1;
                    row.insert("n".to_owned(), json!(next));
                }
            }
            "Scale" => {
                let by = field("by").as_i64().unwrap();
                if orders.values().any(|row| number(row).checked_mul(by).is_none()) {
                    return false;
                }
                for row in orders.values_mut() {
                    let next = number(row) * by;
                    row.insert("n".to_owned(), json!(next));
                }
            }
            "Move" => {
                for row in orders.values_mut().filter(|row| row["cust"] == field("from")) {
                    row.insert("cust".to_owned(), field("to"));
                }
            }
            "CancelCust" => {
                for row in
                    orders.values_mut().filter(|row| row["cust"] == field("cust") && row["st"] == "pending")
                {
                    row.insert("st".to_owned(), json!("cancelled"));
                }
            }
            "Purge" => orders.retain(|_, row| row["st"] != "cancelled"),
            "Tag" => {
                for row in orders.values_mut().filter(|row| row["cust"] == "c1" || row["cust"] == "c3") {
                    row.insert("tag".to_owned(), field("tag"));
                }
            }
            other => panic!("no rule for {other}"),
        }
        true
    }
}

/// The same in the words of rules.
pub(crate) fn rules() -> Rules {
    let set_n = |expression: Value| json!({ "n": expression });
    let rules = json!({
        "Open": {"kind": "upsert", "entity": "order", "id": {"event": "id"},
            "set": {"cust": {"event": "cust"}, "st": "pending", "n": 0}},
        "Bump": {"kind": "update", "entity": "order", "where": {"lt": ["n", {"event": "lim"}]},
            "set": set_n(json!({"add": [{"row": "n"}, 1]}))},
        "Scale": {"kind": "update", "entity": "order", "set": set_n(json!({"mul": [{"row": "n"}, {"event": "by"}]}))},
        "Move": {"kind": "update", "entity": "order", "where": {"eq": ["cust", {"event": "from"}]},
            "set": {"cust": {"event": "to"}}},
        "CancelCust": {"kind": "update", "entity": "order", "set": {"st": "cancelled"},
            "where": {"and": [{"eq": ["cust", {"event": "cust"}]}, {"eq": ["st", "pending"]}]}},
        "Purge": {"kind": "delete", "entity": "order", "where": {"eq": ["st", "cancelled"]}},
        "Tag": {"kind": "update", "entity": "order", "where": {"in": ["cust", ["c1", "c3"]]}, "set": {"tag": {"event": "tag"}}},
    });
    Rules::from_json(&rules).unwrap()
}

impl Script {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let count = rng.usize(4..26);
        Self { events: (0..count).map(|_| random_event(rng)).collect() }
    }

    /// The script whose hashes are prescribed.
    pub(crate) fn ten_events() -> Self {
        let open = |id: &str, cust: &str| ("Open", json!({"type": "Open", "id": id, "cust": cust}));
        let bump = |limit: i64| ("Bump", json!({"type": "Bump", "lim": limit}));
        let events = [
            open("o1", "c1"),
            open("o2", "c2"),
            bump(5),
            open("o3", "c1"),
            ("CancelCust", json!({"type": "CancelCust", "cust": "c1"})),
            bump(2),
            ("Purge", json!({"type": "Purge"})),
            open("o1", "c3"),
            bump(1),
            ("Tag", json!({"type": "Tag", "tag": "z"})),
        ];
        Self {
            events: events.into_iter().map(|(name, payload)| Event { name, key: None, payload }).collect(),
        }
    }
}

fn random_event(rng: &mut Rng) -> Event {
    let customer = |rng: &mut Rng| format!("c{}", rng.u32(1..4));
    let (name, payload) = match rng.u32(0..24) {
        0..6 => ("Open", json!({"id": format!("o{}", rng.u32(1..5)), "cust": customer(rng)})),
        6..9 => ("Bump", json!({"lim": rng.i64(1..6)})),
        9..11 => ("Scale", json!({"by": *rng.choice(&[2_i64, -3, i64::MAX]).unwrap()})),
        11..13 => ("Move", json!({"from": customer(rng), "to": customer(rng)})),
        13..15 => ("CancelCust", json!({"cust": customer(rng)})),
        15..17 => ("Purge", json!({})),
        17..18 => ("Tag", json!({"tag": format!("t{}", rng.u32(0..3))})),
        18..23 => ("Add", json!({"id": format!("a{}", rng.u32(1..3)), "amount": rng.i64(-3..9)})),
        _ => ("Note", json!({"text": "nothing"})),
    };
    let key = rng.bool().then(|| format!("k{}", rng.u32(0..3)));
    Event { name, key, payload }
}
