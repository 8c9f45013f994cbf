//! The text form of Prometheus.
//!
//! Must not know: which metrics there are.

use std::fmt::{Display, Write as _};

use super::definitions::{Kind, Metric};
use super::histogram::Distribution;

/// A page under way.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Begins a metric; its samples follow.
    pub(super) fn family(&mut self, metric: &'static Metric) -> Family<'_> {
        let Metric { name, kind, help, .. } = metric;
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        Family { page: self, metric }
    }

    /// A metric with one sample.
    pub(super) fn one(&mut self, metric: &'static Metric, value: impl Display) {
        self.family(metric).sample(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &str, value: &dyn Display) {
        let _ = match labels.is_empty() {
            true => writeln!(self.0, "{name}{suffix} {value}"),
            false => writeln!(self.0, "{name}{suffix}{{{labels}}} {value}"),
        };
    }
}

/// A metric whose samples are being written.
pub(super) struct Family<'a> {
    page: &'a mut Page,
    metric: &'static Metric,
}

impl Family<'_> {
    /// A sample; one value for each label.
    pub(super) fn sample(&mut self, labels: &[&str], value: impl Display) -> &mut Self {
        assert_ne!(self.metric.kind, Kind::Histogram, "{} has distributions", self.metric.name);
        let labels = self.labels(labels);
        self.page.line(self.metric.name, "", &labels, &value);
        self
    }

    /// All samples of a histogram; one value for each label.
    pub(super) fn distribution(&mut self, labels: &[&str], distribution: &Distribution) -> &mut Self {
        assert_eq!(self.metric.kind, Kind::Histogram, "{} has samples", self.metric.name);
        let (name, labels) = (self.metric.name, self.labels(labels));
        let comma = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        for (bound, count) in &distribution.buckets {
            total += count;
            let bound = bound.map_or("+Inf".to_owned(), |bound| bound.as_secs_f64().to_string());
            self.page.line(name, "_bucket", &format!("{labels}{comma}le=\"{bound}\""), &total);
        }
        self.page.line(name, "_sum", &labels, &distribution.sum.as_secs_f64());
        self.page.line(name, "_count", &labels, &total);
        self
    }

    fn labels(&self, values: &[&str]) -> String {
        let names = self.metric.labels;
        assert_eq!(names.len(), values.len(), "{} has labels {names:?}", self.metric.name);
        let shown = names.iter().zip(values).map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        shown.collect::<Vec<_>>().join(",")
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PLAIN: &Metric = &Metric { name: "plain", kind: Kind::Gauge, labels: &["who"], help: "What it is" };
    const TIMES: &Metric = &Metric { name: "times", kind: Kind::Histogram, labels: &[], help: "How long" };

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let mut page = Page::default();
        page.family(PLAIN).sample(&["a \"b\" \\ \n"], 7).sample(&["c"], 0.5);
        let buckets = vec![(Some(Duration::from_millis(1)), 2), (None, 1)];
        page.family(TIMES).distribution(&[], &Distribution { buckets, sum: Duration::from_millis(1500) });
        let expected = "# HELP plain What it is\n# TYPE plain gauge\nplain{who=\"a \\\"b\\\" \\\\ \\n\"} 7\nplain{who=\"c\"} 0.5\n\
                        # HELP times How long\n# TYPE times histogram\ntimes_bucket{le=\"0.001\"} 2\ntimes_bucket{le=\"+Inf\"} 3\n\
                        times_sum 1.5\ntimes_count 3\n";
        assert_eq!(page.finish(), expected);
    }
}
