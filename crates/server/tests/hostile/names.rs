//! Names that mean something to a file system, from somebody who may do everything: so it is the name that is refused, not whoever sends it.

use bytes::Bytes;
use gapless_api::v1;
use prost::Message;
use tonic::Code;

use crate::support::Secured;
use crate::wire::{framed, grpc};

const TRICKS: [&str; 9] = ["../shop", "shop/../..", "/etc", "shop\0", "SHOP", "shop%2F", ".", "..", "~"];

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\0', "\\u0000"))
}

/// A write of one operation to the shop.
fn operation(op: v1::operation::Op) -> Vec<u8> {
    v1::WriteRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        client_id: "till".to_owned(),
        idempotency_key: Bytes::from_static(&[7; 16]),
        event_type: "ItemSold".to_owned(),
        payload: Bytes::from_static(b"{}"),
        operations: vec![v1::Operation { op: Some(op) }],
        ..Default::default()
    }
    .encode_to_vec()
}

fn defined(definition: String) -> Vec<u8> {
    v1::ApplyNamespaceRequest { definition }.encode_to_vec()
}

/// Wherever a name can stand: a call, its message, and what it is of.
fn places(name: &str) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let (apply, write) = ("/gapless.v1.Admin/ApplyNamespace", "/gapless.v1.Ledger/Write");
    let named = quoted(name);
    let namespace = name.to_owned();
    vec![
        ("a namespace", apply, defined(format!("name = {named}\npartitions = 1\n"))),
        (
            "a projection",
            apply,
            defined(format!("name = 'new'\npartitions = 1\n[projections.{named}]\nevents = ['ItemSold']\n")),
        ),
        (
            "a sequence",
            apply,
            defined(format!("name = 'new'\npartitions = 1\n[kinds.default.sequences]\n{named} = 1\n")),
        ),
        (
            "a kind",
            apply,
            defined(format!("name = 'new'\npartitions = 1\n[kinds.{named}.sequences]\ninvoice = 1\n")),
        ),
        ("a write's namespace", write, v1::WriteRequest { namespace, ..Default::default() }.encode_to_vec()),
        (
            "a number's sequence",
            write,
            operation(v1::operation::Op::NextNumber(v1::NextNumber { sequence: name.to_owned() })),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_no_name_whoever_sends_it() {
    let server = Secured::start();
    let bearer = format!("Bearer {}", server.operator());
    let headers = [("authorization", bearer.as_str())];
    let state = server.state();
    let files = || {
        let mut found: Vec<_> =
            std::fs::read_dir(server.dir.path()).unwrap().map(|file| file.unwrap().path()).collect();
        found.sort();
        found
    };
    let before = files();
    let mut wrong = Vec::new();
    for name in TRICKS {
        for (what, path, message) in places(name) {
            let answer = grpc(&server, None, path, &headers, framed(&message)).await.unwrap();
            if (answer.code, answer.reason.as_str()) != (Code::InvalidArgument, "INVALID_REQUEST") {
                wrong.push(format!("{what} `{name:?}`: {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(server.state(), state, "nothing was defined or written");
    assert_eq!(files(), before, "and nothing is beside the data");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_lies_below_its_directory_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    let below = root.path().join("backups");
    std::fs::create_dir(&below).unwrap();
    let server = Secured::start_with(&[("GAPLESS_BACKUP__ROOT", below.to_str().unwrap())]);
    let bearer = format!("Bearer {}", server.operator());
    let headers = [("authorization", bearer.as_str())];
    let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(root.path(), below.join("link")).unwrap();
    for target in [
        at("outside"),
        at("backups/../outside"),
        at("backups/new/../../outside"),
        at("backups/link/outside"),
        at("backupsandmore"),
        "/".to_owned(),
        "outside".to_owned(),
        "../outside".to_owned(),
        ".".to_owned(),
        String::new(),
    ] {
        let message = v1::BackupRequest { target: target.clone() }.encode_to_vec();
        let answer =
            grpc(&server, None, "/gapless.v1.Admin/Backup", &headers, framed(&message)).await.unwrap();
        assert_eq!(
            (answer.code, answer.reason.as_str()),
            (Code::InvalidArgument, "INVALID_REQUEST"),
            "{target:?}"
        );
    }
    let left: Vec<_> =
        std::fs::read_dir(root.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["backups"], "nothing is beside it");
    assert_eq!(std::fs::read_dir(&below).unwrap().count(), 1, "or in it, but for the link");
}
