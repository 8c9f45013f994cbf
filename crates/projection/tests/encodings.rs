//! Bytes that are stored or sent: golden files, round trips, and decoders that take anything.
//!
//! After a deliberate change: `GAPLESS_BLESS=1 cargo nextest run -p gapless-projection --test encodings`, and a new version in front.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use gapless_log::io::memory::MemoryIo;
use gapless_projection::{
    Answer, Applied, Command, CommitStatus, Definition, Domain, Done, Event, Exploded, Grant, Held, Input,
    Next, Payload, Place, Refusal, RowRead, RowWrite, RuleKind, Rules, Settings, Stamp, row_from_json,
};
use gapless_store::{Budget, Options};
use gapless_types::{LogIndex, PartitionOffset, WorkspaceId};
use proptest::prelude::*;
use serde_json::json;

const HELD: Held = Held { slot: 3, token: 0x0102_0304 };

fn commands() -> Vec<Command<'static>> {
    vec![
        Command::Lease { worker: "worker-1", ttl_ms: 30_000, max: 64 },
        Command::Allocate { worker: "é", ttl_ms: -1, workspace: WorkspaceId::new(9) },
        Command::Renew { held: HELD, ttl_ms: i64::MAX },
        Command::Commit { held: HELD, part: 2, is_last: false, bytes: b"half of it" },
        Command::commit(HELD, b"all"),
        Command::Release { held: HELD },
        Command::Fail { held: HELD, error: "no room" },
        Command::Skip { slot: u64::MAX },
        Command::Tick,
        Command::LeaderChange,
    ]
}

fn payloads() -> Vec<Payload> {
    let row =
        row_from_json(&json!({"a": null, "b": true, "c": -7, "d": "text", "e": [1, {"x": "y"}], "f": false}));
    vec![
        Payload::result(&json!({"z": 1.5, "a": [null, "é"]})),
        Payload::Exploded {
            read_watermark: 12,
            exploded: Exploded {
                kind: RuleKind::Update,
                table: "order".into(),
                ids: vec!["o1".into(), "o10".into()],
            },
        },
        Payload::Effects {
            effects: vec![
                RowWrite { table: "acc".into(), id: "x".into(), row },
                RowWrite { table: "acc".into(), id: "y".into(), row: None },
            ],
            reads: vec![RowRead { table: "acc".into(), id: "x".into(), version: 4 }],
        },
    ]
}

fn answers() -> Vec<Answer> {
    let grant = Grant { slot: 1, token: 2, expires_at: 3, attempt: 4, source: PartitionOffset::new(5) };
    let done = vec![
        Done::Granted(vec![grant, Grant { source: None, ..grant }]),
        Done::Renewed { expires_at: 99, renewals: 2 },
        Done::Committed { status: CommitStatus::Staged, is_duplicate: true },
        Done::PartReceived { parts: 3 },
        Done::Released,
        Done::Skipped,
        Done::Failed { attempts: 2, next: Next::Retry(70) },
        Done::Failed { attempts: 2, next: Next::Filled },
        Done::Failed { attempts: 2, next: Next::Halted },
        Done::LeaderChanged,
        Done::Ticked { expired: vec![1, 9] },
    ];
    let refused = Refusal::ALL.iter().map(|refusal| Done::Refused(*refusal));
    done.into_iter().chain(refused).map(|done| Answer { watermark: 41, done }).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn is_golden(name: &str, lines: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text = lines.join("\n") + "\n";
    if std::env::var_os("GAPLESS_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "the bytes of {name} have changed");
}

#[test]
fn commands_payloads_and_answers_have_their_golden_bytes() {
    is_golden("commands.hex", &commands().iter().map(|command| hex(&command.to_bytes())).collect::<Vec<_>>());
    is_golden("payloads.hex", &payloads().iter().map(|payload| hex(&payload.to_bytes())).collect::<Vec<_>>());
    is_golden("answers.hex", &answers().iter().map(|answer| hex(&answer.to_bytes())).collect::<Vec<_>>());
}

#[test]
fn commands_payloads_and_answers_survive_their_bytes() {
    for command in commands() {
        assert_eq!(Command::decode(&command.to_bytes()), Ok(command));
    }
    for payload in payloads() {
        assert_eq!(Payload::decode(&payload.to_bytes()), Ok(payload));
    }
    for answer in answers() {
        assert_eq!(Answer::decode(&answer.to_bytes()), Ok(answer));
    }
}

#[test]
fn what_is_cut_off_or_goes_on_is_malformed() {
    let all = commands().iter().map(Command::to_bytes).collect::<Vec<_>>();
    for bytes in all {
        assert!((0..bytes.len()).all(|end| Command::decode(&bytes[..end]).is_err()));
        assert!(Command::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
    for bytes in payloads().iter().map(Payload::to_bytes) {
        assert!((0..bytes.len()).all(|end| Payload::decode(&bytes[..end]).is_err()));
        assert!(Payload::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
    for bytes in answers().iter().map(Answer::to_bytes) {
        assert!((0..bytes.len()).all(|end| Answer::decode(&bytes[..end]).is_err()));
        assert!(Answer::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn ids_that_are_not_sorted_and_rows_that_are_not_canonical_are_malformed() {
    let exploded = |ids: [&str; 2]| {
        let exploded =
            Exploded { kind: RuleKind::Update, table: "t".into(), ids: ids.map(Into::into).to_vec() };
        Payload::decode(&Payload::Exploded { read_watermark: 0, exploded }.to_bytes())
    };
    assert!(exploded(["a", "b"]).is_ok());
    assert!(exploded(["b", "a"]).is_err());
    assert!(exploded(["a", "a"]).is_err());
    // A result is put into its canonical form, whatever form it came in.
    let sent = Payload::Result("{ \"b\": 1, \"a\": 2 }".into());
    assert_eq!(Payload::decode(&sent.to_bytes()), Ok(Payload::Result("{\"a\":2,\"b\":1}".into())));
    assert!(Payload::decode(&Payload::Result("{".into()).to_bytes()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn decoders_take_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Command::decode(&bytes), Payload::decode(&bytes), Answer::decode(&bytes));
    }

    #[test]
    fn decoders_take_bytes_that_were_damaged(which in 0_usize..100, at in any::<usize>(), value in any::<u8>()) {
        let mut samples: Vec<Vec<u8>> = commands().iter().map(Command::to_bytes).collect();
        samples.extend(payloads().iter().map(Payload::to_bytes));
        samples.extend(answers().iter().map(Answer::to_bytes));
        let count = samples.len();
        let mut sample = samples.swap_remove(which % count);
        let length = sample.len();
        sample[at % length] = value;
        // What is still accepted says the same when it is encoded again.
        if let Ok(command) = Command::decode(&sample) {
            prop_assert_eq!(&command.to_bytes(), &sample);
        }
        if let Ok(answer) = Answer::decode(&sample) {
            prop_assert_eq!(&answer.to_bytes(), &sample);
        }
        let _ = Payload::decode(&sample);
    }
}

/// Every family of stored rows, in one small life: events, slots in every stage, parts, effects of every kind, fills, a parked key.
#[test]
fn stored_rows_have_their_golden_bytes() {
    let rules = json!({"Open": {"kind": "upsert", "entity": "order", "id": {"event": "id"}, "set": {"n": 0}},
        "Close": {"kind": "delete", "entity": "order", "where": {"eq": ["n", 7]}}});
    let settings = Settings { window: 6, max_attempts: 1, park_key: true, ..Settings::default() };
    let definition = Definition { settings, rules: Rules::from_json(&rules).unwrap() };
    let budget = Budget::new(64 << 20, 1 << 20);
    let io = Arc::new(MemoryIo::new());
    let mut domain = Domain::open(io, "domain", definition, Options::default(), &budget).unwrap();
    let mut index = 0;
    let mut apply = |input: Input<'_>| {
        index += 1;
        let place = Place { index: LogIndex::new(index), position: 2 };
        domain.apply(place, Stamp::first(1000 + index), input).unwrap()
    };
    for (number, event_type) in (1..).zip(["Open", "Close", "Add", "Note", "Poison", "Open", "Open", "Open"])
    {
        let event = Event {
            source: PartitionOffset::new(number * 10).unwrap(),
            workspace: WorkspaceId::new(2),
            event_type,
            key: (number != 2).then_some(if number == 6 { "k" } else { "other" }),
            payload: br#"{"id": "o1"}"#,
        };
        apply(Input::Outcome(event));
    }
    apply(Input::Command(&Command::Lease { worker: "w", ttl_ms: 500, max: 6 }.to_bytes()));
    let exploded = |kind, ids| Exploded { kind, table: "order".into(), ids };
    let effects = payloads().pop().unwrap();
    let Payload::Effects { effects, .. } = effects else { panic!("effects come last") };
    for (slot, payload) in [
        (1, Payload::Exploded { read_watermark: 0, exploded: exploded(RuleKind::Upsert, vec!["o1".into()]) }),
        (2, Payload::Exploded { read_watermark: 0, exploded: exploded(RuleKind::NoOp, vec![]) }),
        (3, Payload::Effects { effects, reads: vec![] }),
        (4, Payload::result(&json!(["done"]))),
        (6, Payload::Exploded { read_watermark: 4, exploded: exploded(RuleKind::Upsert, vec!["o1".into()]) }),
    ] {
        let held = Held { slot, token: slot };
        let applied = apply(Input::Command(&Command::commit(held, &payload.to_bytes()).to_bytes()));
        assert!(
            matches!(&applied, Applied::Answered(Answer { done: Done::Committed { .. }, .. })),
            "{applied:?}"
        );
    }
    let part =
        Command::Commit { held: Held { slot: 5, token: 5 }, part: 1, is_last: false, bytes: b"a part" };
    apply(Input::Command(&part.to_bytes()));
    apply(Input::Command(&Command::Lease { worker: "v", ttl_ms: 500, max: 1 }.to_bytes()));
    apply(Input::Command(&Command::Fail { held: Held { slot: 7, token: 7 }, error: "poison" }.to_bytes()));
    apply(Input::Command(&Command::Skip { slot: 6 }.to_bytes()));
    let image = domain.image().unwrap();
    let rows = image.rows.everything().map(|row| {
        let (_, key, value) = row.unwrap();
        format!("{} {}", hex(&key), hex(&value))
    });
    is_golden("rows.hex", &rows.collect::<Vec<_>>());
}
