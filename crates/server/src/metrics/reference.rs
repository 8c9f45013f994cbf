//! The page about all metrics, made from their definitions.

use std::fmt::Write as _;

use super::definitions::GROUPS;

const BEGINNING: &str = "\
# Metrics

<!-- Made by `cargo xtask docs` from crates/server/src/metrics/definitions.rs. -->

`GET /metrics` on the port of a node, in the text form of Prometheus. A name ends with its unit, that of a counter with `_total`.
Counters begin at 0 when the node starts. Every metric below is always there; one with labels may have no samples yet. Positions are
0 where there is nothing yet.

At most 4096 partitions are shown one by one; `gapless_partitions_omitted` says how many are left out.

[alerts.yaml](alerts.yaml) has rules for Prometheus, [dashboard.json](dashboard.json) a dashboard for Grafana.
";

/// The page.
pub fn metrics_reference() -> String {
    let mut page = BEGINNING.to_owned();
    for group in GROUPS {
        let _ = write!(
            page,
            "\n## {}\n\n| metric | kind | labels | what it is |\n|---|---|---|---|\n",
            group.title
        );
        for metric in group.metrics {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (kind, labels) = (metric.kind.name(), labels.join(", "));
            let _ = writeln!(page, "| `{}` | {kind} | {labels} | {} |", metric.name, metric.help);
        }
    }
    page
}
