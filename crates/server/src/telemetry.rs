//! Lines on stderr for people and machines, and spans for a collector.
//!
//! ```text
//!  events ──▶ lines: human or JSON, what the level lets through
//!  spans  ──▶ layer: those of sampled traces ──▶ a bounded buffer ──▶ exporter ──▶ OTLP over gRPC
//! ```
//!
//! Nothing here is waited for by a write: a span that finds the buffer full is dropped, and counted. Without a collector, and below
//! the level `debug`, spans are not even made.
//!
//! Must not know: what spans mean.

mod export;
mod layer;
#[doc(hidden)]
pub mod messages;

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thiserror::Error;
use tonic::transport::Endpoint;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use self::export::Exporter;
use self::layer::SpanLayer;

/// What lines look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// A JSON object each.
    Json,
}

impl LogFormat {
    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
    }
}

impl FromStr for LogFormat {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, TelemetryError> {
        let all = [Self::Human, Self::Json];
        all.into_iter().find(|format| format.name() == text).ok_or(TelemetryError::Format)
    }
}

/// What is told, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which lines: a level, or levels by target.
    pub log: String,
    /// What they look like.
    pub format: LogFormat,
    /// Where spans go; empty for nowhere.
    pub otlp_endpoint: String,
    /// Spans that wait to be exported; more are dropped.
    pub otlp_buffer: usize,
    /// Of traces that begin here, one in so many is kept.
    pub sample_one_in: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            format: LogFormat::Human,
            otlp_endpoint: String::new(),
            otlp_buffer: 8192,
            sample_one_in: 1,
        }
    }
}

/// Why nothing can be told like that.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// No level.
    #[error(
        "levels are error, warn, info, debug, trace and off, also by target: `info,gapless_engine=debug`"
    )]
    Levels,
    /// No format.
    #[error("lines are `human` or `json`")]
    Format,
    /// No endpoint.
    #[error("a collector has an address such as `http://127.0.0.1:4317`")]
    Endpoint,
    /// Somebody else in this process tells already.
    #[error("lines and spans of this process go somewhere else already")]
    Taken,
}

/// What becomes of spans.
#[derive(Debug, Default)]
pub struct SpanCounters {
    pub(crate) exported: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// Which lines a text asks for. Libraries are heard less unless somebody asks for more: what agrees on an order talks much, and is heard
/// from `warn` on; what reads from connections says something whenever a stranger does something wrong, as often as he likes, and is
/// heard from `error` on.
///
/// # Errors
/// If it does not say so.
pub fn levels(text: &str) -> Result<Targets, TelemetryError> {
    let asked: Targets = text.parse().map_err(|_| TelemetryError::Levels)?;
    let quiet = [
        ("openraft", LevelFilter::WARN),
        ("h2", LevelFilter::ERROR),
        ("hyper", LevelFilter::ERROR),
        ("hyper_util", LevelFilter::ERROR),
        ("rustls", LevelFilter::ERROR),
        ("tonic", LevelFilter::ERROR),
        ("tower", LevelFilter::ERROR),
    ];
    let mut levels = asked.clone();
    for (target, most) in quiet.into_iter().filter(|(target, _)| !text.contains(target)) {
        levels = levels.with_target(target, asked.default_level().unwrap_or(LevelFilter::OFF).min(most));
    }
    Ok(levels)
}

/// The address of a collector; none if there is none.
///
/// # Errors
/// If it is none.
pub fn endpoint(text: &str) -> Result<Option<Endpoint>, TelemetryError> {
    if text.is_empty() {
        return Ok(None);
    }
    let is_plain = text.starts_with("http://") && text.len() > "http://".len();
    let endpoint = Endpoint::from_shared(text.to_owned()).ok().filter(|_| is_plain);
    endpoint.map(Some).ok_or(TelemetryError::Endpoint)
}

/// What is told, for as long as the process lives.
#[derive(Debug)]
pub struct Telemetry {
    exporter: Option<Exporter>,
    spans: Arc<SpanCounters>,
}

impl Telemetry {
    /// Begins. Needs a runtime if spans go anywhere.
    ///
    /// # Errors
    /// If the options are wrong, or somebody else has begun before.
    pub fn begin(options: &Options) -> Result<Self, TelemetryError> {
        let spans = Arc::new(SpanCounters::default());
        let (exporter, layer) = match endpoint(&options.otlp_endpoint)? {
            None => (None, None),
            Some(endpoint) => {
                let (exporter, sender) = Exporter::start(&endpoint, options.otlp_buffer, spans.clone());
                let layer = SpanLayer::new(sender, options.sample_one_in, spans.clone());
                (Some(exporter), Some(layer.with_filter(our_spans())))
            }
        };
        let lines = lines(options.format).with_filter(levels(&options.log)?);
        let subscriber = tracing_subscriber::registry().with(lines).with(layer);
        subscriber.try_init().map_err(|_| TelemetryError::Taken)?;
        Ok(Self { exporter, spans })
    }

    /// What becomes of spans.
    #[must_use]
    pub fn spans(&self) -> Arc<SpanCounters> {
        self.spans.clone()
    }

    /// Exports what waits, for a moment at most.
    pub async fn end(self) {
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
    }
}

/// Spans of this program, and nobody else's.
fn our_spans() -> Targets {
    let ours = ["gapless", "gapless_engine", "gapless_server", "gapless_api"];
    Targets::new().with_targets(ours.map(|target| (target, LevelFilter::DEBUG)))
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::stderr);
    match format {
        LogFormat::Human => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn levels_are_a_level_or_levels_by_target() {
        let info = levels("info").unwrap();
        assert!(info.would_enable("gapless_engine", &Level::INFO));
        assert!(!info.would_enable("gapless_engine", &Level::DEBUG));
        assert!(!info.would_enable("openraft::core", &Level::INFO));
        assert!(info.would_enable("openraft::core", &Level::WARN));
        // Strangers make it talk.
        for library in ["h2::proto::streams", "hyper", "rustls::conn", "tonic::transport"] {
            assert!(!info.would_enable(library, &Level::WARN), "{library}");
            assert!(info.would_enable(library, &Level::ERROR), "{library}");
        }
        assert!(levels("info,h2=debug").unwrap().would_enable("h2::proto", &Level::DEBUG));
        let asked = levels("warn,openraft=debug").unwrap();
        assert!(asked.would_enable("openraft::core", &Level::DEBUG));
        assert!(!asked.would_enable("gapless", &Level::INFO));
        assert!(!levels("off").unwrap().would_enable("openraft", &Level::ERROR));
        assert!(levels("loud=very").is_err());
    }

    #[test]
    fn a_collector_has_an_address() {
        assert!(endpoint("").unwrap().is_none());
        assert!(endpoint("http://127.0.0.1:4317").unwrap().is_some());
        for wrong in ["127.0.0.1:4317", "http://", "ftp://a", "https://a:1", "http://a b"] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
