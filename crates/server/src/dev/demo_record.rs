//! What the demonstration writes: records that say who wrote them and carry a check of that.
//!
//! Must not know: logs, processes.

use serde::Deserialize;

/// One record of a demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct DemoRecord {
    /// The position at which its run of the demonstration began.
    pub(super) run: u64,
    /// Which of the writers wrote it, from 1.
    pub(super) writer: u64,
    /// Which of that writer's records it is, from 1.
    pub(super) count: u64,
}

impl DemoRecord {
    /// Its bytes.
    pub(super) fn encode(&self) -> String {
        let Self { run, writer, count } = self;
        let check = self.check();
        format!(r#"{{"run":{run},"writer":{writer},"count":{count},"check":"{check:016x}"}}"#)
    }

    /// The record with these bytes; `None` if no demonstration wrote them.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(bytes).ok()?;
        (record.encode().as_bytes() == bytes).then_some(record)
    }

    /// FNV-1a over the three numbers: enough to tell bytes that were mixed up.
    fn check(&self) -> u64 {
        let numbers = [self.run, self.writer, self.count];
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_another_text_does_not_pass_for_one() {
        let record = DemoRecord { run: 1, writer: 3, count: 17 };
        let text = record.encode();
        assert_eq!(DemoRecord::decode(text.as_bytes()), Some(record));
        assert_eq!(DemoRecord::decode(text.replace("17", "18").as_bytes()), None);
        assert_eq!(DemoRecord::decode(b"{}"), None);
    }
}
