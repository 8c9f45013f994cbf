//! A node that is alone and cannot cut its replicated log refuses writes before its disk is full, and takes them again afterwards.

use std::time::Duration;

use gapless_engine::admission::{AdmissionError, Limit, Overloaded, Scope};
use gapless_engine::{Engine, WriteError};
use gapless_partition::Write;

use crate::disk::{Disk, Trouble};
use crate::harness::{committed, eventually, sale, shop, try_write};
use crate::{Acknowledged, PATIENT, config, directory};

static LARGE: [u8; 50_000] = [7; 50_000];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_cut_refuses_writes_until_it_can() {
    let disk = Disk::default();
    let mut config = config(&disk);
    let max_bytes = 4 * u64::from(config.log.segment_bytes);
    config.housekeeping.max_retained_bytes = max_bytes;
    config.report_interval = Duration::from_millis(20);
    let engine = Engine::open(config).await.unwrap();
    engine.wait_for_leader().await;
    engine.define(shop(4)).await.unwrap();
    let mut acknowledged = Acknowledged::default();
    acknowledged.write(&engine, 1, 1).await.unwrap();
    // The checkpoint of one partition keeps the log from being cut.
    disk.hurt(&directory(1), Trouble::Stalls);
    eventually("it waits for its disk", || disk.stalled() > 0).await;
    let _ = acknowledged.write_within(&engine, 2, 1, Duration::from_millis(10)).await;
    let large = Write { payload: &LARGE, ..sale(0) };
    let (mut written, mut refused) = (0, None);
    for number in 100..1000 {
        match try_write(&engine, number, &large, PATIENT).await {
            Ok(acknowledgement) => written = committed(&acknowledgement).workspace_offset.get(),
            Err(error) => {
                refused = Some((number, error));
                break;
            }
        }
    }
    let (number, refused) = refused.expect("it is refused at last");
    let WriteError::Admission(AdmissionError::Overloaded(overloaded)) = refused else { panic!("{refused}") };
    let Overloaded { scope, limit, current, maximum, retry_after } = overloaded;
    assert_eq!((scope, limit, maximum), (Scope::Node, Limit::LogBytes, max_bytes));
    assert!(current > maximum && retry_after > Duration::ZERO, "{overloaded}");
    assert!(
        engine.alarms().iter().any(|alarm| alarm.contains("writes are refused")),
        "{:?}",
        engine.alarms()
    );
    // What is refused is not written: neither this one nor any of the others.
    assert!(try_write(&engine, number, &large, PATIENT).await.is_err());
    disk.heal(&directory(1));
    let mut first = None;
    for _ in 0..3000 {
        match try_write(&engine, number, &large, PATIENT).await {
            Ok(acknowledgement) => {
                first = Some(committed(&acknowledgement).workspace_offset.get());
                break;
            }
            Err(error) => assert!(matches!(error, WriteError::Admission(_)), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(first, Some(written + 1), "NUM-2: what was refused took no number");
    acknowledged.insist(&engine, 2, 1).await;
    acknowledged.check(&engine).await;
    engine.close().await;
}
