//! What a load showed, for people and for programs.
//!
//! Must not know: how it was measured.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::recorder::Measured;
use crate::cli::DumpForm;
use crate::output::{Bytes, Count, heading, rate, time, write_json};

/// Characters of the longest bar.
const BAR: u64 = 40;

/// How the load was put on.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setting {
    /// Which command.
    pub(super) what: &'static str,
    pub(super) clients: u32,
    pub(super) connections: u32,
    /// Things a second that were asked for; none in a closed loop.
    pub(super) rate: Option<u32>,
    pub(super) in_flight: Option<u32>,
    pub(super) events_per_read: Option<u32>,
    pub(super) size: u32,
    pub(super) workspaces: u64,
    pub(super) warm_up_seconds: f64,
    /// How long the work on an event takes, of a projection.
    pub(super) work_ms: Option<f64>,
}

/// What a load showed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) setting: Setting,
    /// Whether it was ended by hand.
    pub(super) interrupted: bool,
    measured_seconds: f64,
    /// Calls, or writes of a stream, that succeeded.
    succeeded: u64,
    events: u64,
    events_per_second: f64,
    latency_us: LatencyReport,
    histogram: Vec<Bucket>,
    /// How often each reason was given.
    errors: BTreeMap<String, u64>,
    /// What was due at the rate and never sent, because every client was still waiting.
    not_sent: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct LatencyReport {
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// Latencies up to a time, and longer than the bucket before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Bucket {
    up_to_us: u64,
    count: u64,
}

impl Report {
    pub(super) fn new(
        setting: Setting,
        measured: Measured,
        took: Duration,
        interrupted: bool,
        not_sent: u64,
    ) -> Self {
        let latencies = &measured.latencies;
        Self {
            setting,
            interrupted,
            measured_seconds: took.as_secs_f64(),
            succeeded: latencies.len(),
            events: measured.events,
            events_per_second: measured.events as f64 / took.as_secs_f64().max(1e-9),
            latency_us: LatencyReport {
                mean: latencies.mean(),
                p50: latencies.value_at_quantile(0.5),
                p90: latencies.value_at_quantile(0.9),
                p99: latencies.value_at_quantile(0.99),
                p999: latencies.value_at_quantile(0.999),
                max: latencies.max(),
            },
            histogram: buckets(&measured),
            errors: measured.errors,
            not_sent,
        }
    }

    pub(super) fn write(&self, form: DumpForm, out: &mut dyn Write) -> Result<()> {
        match form {
            DumpForm::Json => write_json(out, self),
            DumpForm::Raw => Ok(writeln!(out, "{:.0}", self.events_per_second)?),
            DumpForm::Table => self.write_text(out),
        }
    }

    fn write_text(&self, out: &mut dyn Write) -> Result<()> {
        let took = Duration::from_secs_f64(self.measured_seconds);
        let microseconds = |count| time(Duration::from_micros(count));
        writeln!(out, "{}", heading(&self.title()))?;
        if self.interrupted {
            writeln!(out, "interrupted: this is what was measured in {}", time(took))?;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is rounded, and never negative"
        )]
        let per_second = Count(self.events_per_second.round() as u64);
        let bytes = self.events.saturating_mul(u64::from(self.setting.size));
        writeln!(out, "events      {}, {per_second}/s, {}", Count(self.events), rate(bytes, took))?;
        let LatencyReport { p50, p99, p999, max, .. } = self.latency_us;
        let [p50, p99, p999, max] = [p50, p99, p999, max].map(microseconds);
        writeln!(out, "latency     p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}")?;
        let highest = self.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
        for bucket in &self.histogram {
            let length = usize::try_from((bucket.count * BAR).div_ceil(highest)).unwrap_or(0);
            writeln!(
                out,
                "{:>10}  {:<40}  {}",
                microseconds(bucket.up_to_us),
                "#".repeat(length),
                Count(bucket.count)
            )?;
        }
        for (reason, count) in &self.errors {
            writeln!(out, "failed      {} with {reason}", Count(*count))?;
        }
        if self.not_sent > 0 {
            writeln!(
                out,
                "not sent    {}: due at that rate, when every client was still waiting for an answer",
                Count(self.not_sent)
            )?;
        }
        Ok(())
    }

    fn title(&self) -> String {
        let Setting { what, clients, rate, in_flight, events_per_read, size, workspaces, .. } = &self.setting;
        let mut title =
            format!("{what}: {} client{}", Count(u64::from(*clients)), if *clients == 1 { "" } else { "s" });
        match rate {
            Some(rate) => title.push_str(&format!(", open loop at {}/s", Count(u64::from(*rate)))),
            None => title.push_str(", closed loop"),
        }
        if let Some(in_flight) = in_flight {
            title.push_str(&format!(", {} in flight each", Count(u64::from(*in_flight))));
        }
        if let Some(events) = events_per_read {
            title.push_str(&format!(", {} events a read", Count(u64::from(*events))));
        }
        if let Some(work_ms) = self.setting.work_ms {
            title.push_str(&format!(", {work_ms} ms of work each"));
        }
        title.push_str(&format!(
            ", events of {}, {} workspaces",
            Bytes(u64::from(*size)),
            Count(*workspaces)
        ));
        title
    }
}

/// Latencies by powers of two.
fn buckets(measured: &Measured) -> Vec<Bucket> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for value in measured.latencies.iter_recorded() {
        let up_to_us = value.value_iterated_to().max(1).next_power_of_two();
        *counts.entry(up_to_us).or_default() += value.count_since_last_iteration();
    }
    let Some((&first, &last)) = counts.keys().next().zip(counts.keys().next_back()) else {
        return Vec::new();
    };
    let powers =
        std::iter::successors(Some(first), |power| power.checked_mul(2)).take_while(|power| *power <= last);
    powers.map(|up_to_us| Bucket { up_to_us, count: counts.get(&up_to_us).copied().unwrap_or(0) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_command::recorder::Recorder;

    #[test]
    fn a_histogram_has_every_power_of_two_between_the_first_and_the_last() {
        let recorder = Recorder::new();
        for latency in [3, 4, 5, 30] {
            recorder.succeeded(0, Duration::from_micros(latency), 1);
        }
        let bucket = |up_to_us, count| Bucket { up_to_us, count };
        assert_eq!(buckets(&recorder.measured()), [bucket(4, 2), bucket(8, 1), bucket(16, 0), bucket(32, 1)]);
        assert_eq!(buckets(&Recorder::new().measured()), []);
    }
}
