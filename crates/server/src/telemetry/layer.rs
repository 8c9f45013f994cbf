//! Makes a span of OTLP from a span of the program, if its trace is kept.
//!
//! A span without a parent begins a trace, or joins the one that it names by its fields `trace_id`, `parent_span_id` and `sampled`;
//! its children follow it. Of traces that begin here one in so many is kept.
//!
//! Must not know: where spans go.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::SpanCounters;
use super::messages::{self, KeyValue, Value};

/// Most attributes of a span, and most events.
const MAX_ATTRIBUTES: usize = 32;
const MAX_EVENTS: usize = 32;

/// Kinds of spans.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;

/// The name of spans that answer somebody.
const REQUEST: &str = "request";

/// A span that is kept, or is not.
#[derive(Debug)]
struct Kept {
    sampled: bool,
    span: messages::Span,
}

/// Puts spans of kept traces into the buffer.
#[derive(Debug)]
pub(super) struct SpanLayer {
    buffer: mpsc::Sender<messages::Span>,
    sample_one_in: u64,
    counters: Arc<SpanCounters>,
}

impl SpanLayer {
    pub(super) fn new(
        buffer: mpsc::Sender<messages::Span>,
        sample_one_in: u64,
        counters: Arc<SpanCounters>,
    ) -> Self {
        Self { buffer, sample_one_in: sample_one_in.max(1), counters }
    }
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().and_then(|parent| {
            let parent = parent.extensions();
            let kept = parent.get::<Kept>()?;
            Some((kept.sampled, kept.span.trace_id.clone(), kept.span.span_id.clone()))
        });
        let (sampled, trace_id, parent_span_id) = parent.unwrap_or_else(|| {
            (
                fastrand::u64(0..self.sample_one_in) == 0,
                fastrand::u128(1..).to_be_bytes().to_vec(),
                Vec::new(),
            )
        });
        let name = span.name();
        let mut kept = Kept {
            sampled,
            span: messages::Span {
                trace_id,
                span_id: fastrand::u64(1..).to_be_bytes().to_vec(),
                parent_span_id,
                name: name.to_owned(),
                kind: if name == REQUEST { SERVER } else { INTERNAL },
                start_time_unix_nano: now(),
                ..messages::Span::default()
            },
        };
        attributes.record(&mut kept);
        span.extensions_mut().insert(kept);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(kept) = span.extensions_mut().get_mut::<Kept>() {
            values.record(kept);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut extensions = span.extensions_mut();
        let Some(kept) = extensions.get_mut::<Kept>().filter(|kept| kept.sampled) else { return };
        if kept.span.events.len() < MAX_EVENTS {
            let mut fields = Fields(Vec::new());
            event.record(&mut fields);
            let name = event.metadata().level().as_str().to_owned();
            kept.span.events.push(messages::Event { time_unix_nano: now(), name, attributes: fields.0 });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(kept) = span.extensions_mut().remove::<Kept>().filter(|kept| kept.sampled) else { return };
        let mut span = kept.span;
        span.end_time_unix_nano = now();
        if self.buffer.try_send(span).is_err() {
            self.counters.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Kept {
    fn attribute(&mut self, field: &Field, value: Value) {
        if self.sampled && self.span.attributes.len() < MAX_ATTRIBUTES {
            self.span.attributes.push(KeyValue::new(field.name(), value));
        }
    }
}

impl Visit for Kept {
    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "sampled" => self.sampled = value,
            _ => self.attribute(field, Value::Flag(value)),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.attribute(field, Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attribute(field, Value::Integer(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.attribute(field, Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "trace_id" => self.span.trace_id = bytes(&text),
            "span_id" => self.span.span_id = bytes(&text),
            "parent_span_id" => self.span.parent_span_id = bytes(&text),
            _ => self.attribute(field, Value::Text(text)),
        }
    }
}

/// Fields of an event.
struct Fields(Vec<KeyValue>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push(KeyValue::new(field.name(), Value::Text(format!("{value:?}"))));
    }
}

/// Bytes of hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).filter_map(byte).collect()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tracing::{debug_span, field};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn spans_of(buffer: usize, one_in: u64, program: impl FnOnce()) -> (Vec<messages::Span>, u64) {
        let (sender, mut receiver) = mpsc::channel(buffer);
        let counters = Arc::new(SpanCounters::default());
        let layer = SpanLayer::new(sender, one_in, counters.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), program);
        let mut spans = Vec::new();
        while let Ok(span) = receiver.try_recv() {
            spans.push(span);
        }
        (spans, counters.dropped.load(Relaxed))
    }

    fn walk(sampled: bool) {
        let (empty, trace) = (field::Empty, field::display("0af7651916cd43dd8448eb211c80319c"));
        let request = debug_span!(
            "request",
            trace_id = empty,
            parent_span_id = empty,
            span_id = empty,
            sampled = empty
        );
        request.record("trace_id", trace);
        request.record("span_id", field::display("00f067aa0ba902b8"));
        request.record("parent_span_id", field::display("00f067aa0ba902b7"));
        request.record("sampled", sampled);
        let _entered = request.enter();
        let _step = debug_span!("recall", partition = "1/2", index = 7_u64).entered();
        tracing::info!("it happened");
    }

    #[test]
    fn children_are_in_the_trace_that_their_request_names() {
        let (spans, dropped) = spans_of(16, 1, || walk(true));
        let [recall, request] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((recall.name.as_str(), request.name.as_str(), dropped), ("recall", "request", 0));
        assert_eq!((recall.kind, request.kind), (INTERNAL, SERVER));
        assert_eq!(request.trace_id, bytes("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(request.parent_span_id, bytes("00f067aa0ba902b7"));
        assert_eq!(request.span_id, bytes("00f067aa0ba902b8"));
        assert_eq!((&recall.trace_id, &recall.parent_span_id), (&request.trace_id, &request.span_id));
        assert_eq!(recall.attributes[1], KeyValue::new("index", Value::Integer(7)));
        assert_eq!(recall.events.len(), 1);
        assert!(recall.end_time_unix_nano >= recall.start_time_unix_nano);
    }

    #[test]
    fn a_trace_that_nobody_wants_is_not_kept_and_what_finds_no_room_is_counted() {
        assert_eq!(spans_of(16, 1, || walk(false)), (Vec::new(), 0));
        let (kept, dropped) = spans_of(1, 1, || walk(true));
        assert_eq!((kept.len(), dropped), (1, 1));
        let (kept, _) = spans_of(2000, 1_000_000_000, || (0..1000).for_each(|_| drop(debug_span!("apply"))));
        assert!(kept.len() < 10, "{}", kept.len());
    }
}
