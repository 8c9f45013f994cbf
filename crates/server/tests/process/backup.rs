//! A server is backed up while it takes writes, killed, restored into another directory, and served again.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use gapless_client::{Ledger, v1};

use crate::kill::{SHOP, client, sale};
use crate::support::{Process, program};

type Told = BTreeMap<Vec<u8>, v1::WriteSuccess>;

/// Writes these, and takes in what is answered; a retry has to get the first answer.
async fn write(process: &Process, numbers: std::ops::Range<u64>, told: &mut Told) {
    let mut answers = client(process).write_stream(stream::iter(numbers.map(sale)).boxed());
    while let Some(answer) = answers.next().await {
        let Ok(answer) = answer else { return };
        let Some(v1::write_response::Result::Success(success)) = answer.result else {
            panic!("refused: {answer:?}")
        };
        let success = v1::WriteSuccess { duplicate: false, ..success };
        let first = told.entry(answer.idempotency_key.to_vec()).or_insert_with(|| success.clone());
        assert_eq!(*first, success, "IDEM-1: a retry gets the first answer");
    }
}

fn says(arguments: &[&str]) -> String {
    let output = program().args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn refuses(arguments: &[&str]) -> String {
    let output = program().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("\n next: "), "every error says what to do next: {error}");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_a_backup_is_there_after_kill_restore_and_serve() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (data, backups, restored) = (path("data"), path("backups"), path("restored"));
    let process = Process::serve(data.as_ref());
    let shop = v1::ApplyNamespaceRequest { definition: SHOP.to_owned() };
    client(&process).apply_namespace(shop).await.unwrap();
    let mut before = Told::new();
    write(&process, 0..300, &mut before).await;

    let writing = tokio::spawn({
        let client = client(&process);
        async move {
            let mut answers = client.write_stream(stream::iter((300..2000).map(sale)).boxed());
            let mut count = 0;
            while let Some(Ok(_)) = answers.next().await {
                count += 1;
            }
            count
        }
    });
    let first = tokio::task::block_in_place(|| process.says(&["backup", &backups, "-o", "json"]));
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(first["number"], 1);
    assert!(first["outcomes"].as_u64().unwrap() >= 303, "{first}");
    let second = tokio::task::block_in_place(|| process.says(&["backup", &backups]));
    assert!(second.contains("backup      2 in "), "{second}");
    tokio::task::block_in_place(|| {
        let refused = process.refuses(&["backup", "backups"]);
        assert!(refused.contains("absolute"), "{refused}");
        let refused = process.refuses(&["backup", &format!("{data}/backups")]);
        assert!(refused.contains("inside"), "{refused}");
        process.kill();
    });
    assert!(writing.await.unwrap() <= 1700);

    let refused = refuses(&["restore", &backups, "--data", &data]);
    assert!(refused.contains("is not empty"), "{refused}");
    let refused = refuses(&["restore", &data, "--data", &restored]);
    assert!(refused.contains("holds no backup"), "{refused}");
    let refused = refuses(&["restore", &backups, "--data", &restored, "--at-index", "1"]);
    assert!(refused.contains("Possible are entries"), "{refused}");
    let report = says(&["restore", &backups, "--data", &restored]);
    assert!(report.contains("out of backup 2"), "{report}");

    let verified = says(&["verify", &restored, "-o", "json"]);
    let verified: serde_json::Value = serde_json::from_str(&verified).unwrap();
    assert_eq!((&verified["kind"], &verified["sound"]), (&"node".into(), &true.into()), "{verified}");
    assert!(says(&["verify", &backups]).contains("Sound."));
    let process = Process::serve(restored.as_ref());
    let in_use = tokio::task::block_in_place(|| refuses(&["verify", &restored]));
    assert!(in_use.contains("in use"), "{in_use}");
    write(&process, 0..300, &mut before).await;
    write(&process, 300..2000, &mut before).await;
    assert_eq!(before.len(), 2000);
    let mut offsets: Vec<(u128, u64)> = before
        .iter()
        .map(|(key, told)| {
            let number = u128::from_le_bytes(key.as_slice().try_into().unwrap()) - 1;
            (number % 5, told.workspace_offset)
        })
        .collect();
    offsets.sort_unstable();
    let dense: Vec<(u128, u64)> =
        (0..5).flat_map(|workspace| (1..=400).map(move |offset| (workspace, offset))).collect();
    assert_eq!(offsets, dense, "NUM-1");
    assert!(process.terminate().success());

    // A node at rest, and a moment before the last one.
    let at_rest = path("at-rest");
    says(&["backup", &at_rest, "--data", &restored]);
    let index = first["log_index"].to_string();
    let earlier = path("earlier");
    says(&["restore", &backups, "--data", &earlier, "--at-index", &index, "-o", "json"]);
    let process = Process::serve(earlier.as_ref());
    assert!(process.terminate().success());

    // Damage is named with the command that repairs it.
    let store = std::fs::read_dir(format!("{restored}/partitions/16-0/store")).unwrap();
    let store = store.map(|entry| entry.unwrap().path()).find(|path| path.ends_with("CHECKPOINT"));
    let store = store.unwrap_or_else(|| panic!("a store has a checkpoint"));
    let mut bytes = std::fs::read(&store).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&store, bytes).unwrap();
    let damaged = refuses(&["verify", &restored]);
    assert!(damaged.contains(&format!("gapless repair {restored}")), "{damaged}");
    let repaired = says(&["repair", &restored]);
    assert!(repaired.contains("made anew from the partition log"), "{repaired}");
    assert!(says(&["verify", &restored]).contains("Sound."));
    assert_eq!(says(&["repair", &restored]), "nothing to repair\n");
}
