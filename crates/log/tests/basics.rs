//! What a user of the log sees when nothing goes wrong.

use std::sync::Arc;

use gapless_log::io::memory::MemoryIo;
use gapless_log::{Drive, Log, Options};
use gapless_types::Position;

fn caller() -> Options {
    Options {
        drive: Drive::Caller,
        first_segment_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        ..Options::replicated()
    }
}

#[test]
fn records_come_back_in_order_after_reopening_over_many_segments() {
    let io = MemoryIo::new();
    let (log, report) = Log::open(Arc::new(io.clone()), "log", caller()).unwrap();
    assert!(report.created);
    for n in 1..=500u64 {
        let ticket = log.append(Position::new(n), &[vec![(n % 251) as u8; 500]]).unwrap();
        ticket.wait().unwrap();
        log.maintain().unwrap();
    }
    assert!(log.statistics().segments > 5);
    for n in 1..=500u64 {
        assert_eq!(log.read(Position::new(n)).unwrap().payload[0], (n % 251) as u8);
    }
    drop(log);
    let (log, report) = Log::open(Arc::new(io), "log", caller()).unwrap();
    assert_eq!(report.damage, []);
    assert_eq!(log.next(), Position::new(501));
    for n in 1..=500u64 {
        let record = log.read(Position::new(n)).unwrap();
        assert_eq!(record.payload, vec![(n % 251) as u8; 500]);
    }
}
