//! What a node counts: everything that is documented is there, nothing else is, and it is what Prometheus reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::http::ask;
use crate::support::{Node, invoice, sale, with, written};

/// A page as Prometheus reads it.
#[derive(Debug, Default)]
struct Scraped {
    /// Kind of each metric.
    kinds: BTreeMap<String, String>,
    /// Value of each sample, by its name with its labels.
    samples: BTreeMap<String, f64>,
}

impl Scraped {
    fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("{sample} in {:#?}", self.samples.keys()))
    }

    /// Reads a page, strictly: HELP and TYPE before samples, every sample under its own metric, nothing twice.
    fn read(page: &str) -> Self {
        let (mut scraped, mut current, mut helped) = (Self::default(), String::new(), String::new());
        assert!(page.ends_with('\n'));
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                helped = help.split_once(' ').expect("a help has a text").0.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, helped, "HELP stands before TYPE");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(scraped.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
                current = name.to_owned();
            } else {
                scraped.sample(line, &current);
            }
        }
        scraped
    }

    fn sample(&mut self, line: &str, metric: &str) {
        let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
        let name = sample.split('{').next().unwrap();
        let suffixes: &[&str] =
            if self.kinds[metric] == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.iter().any(|suffix| name == format!("{metric}{suffix}")), "{line} under {metric}");
        if let Some(labels) = sample.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            let labels = labels.strip_prefix('{').and_then(|labels| labels.strip_suffix('}')).unwrap();
            for label in labels.split("\",") {
                let (name, value) = label.split_once("=\"").unwrap();
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
                assert!(!value.trim_end_matches('"').contains('"'), "{line}");
            }
        }
        let value: f64 = value.parse().unwrap();
        assert!(value >= 0.0, "{line}");
        assert!(self.samples.insert(sample.to_owned(), value).is_none(), "{sample} twice");
    }

    /// Buckets rise, and the last one holds all.
    fn check_histograms(&self) {
        for (name, kind) in &self.kinds {
            if kind != "histogram" {
                continue;
            }
            let counts = self.samples.iter().filter(|(sample, _)| {
                sample.starts_with(&format!("{name}_count")) && !sample.starts_with(&format!("{name}_counts"))
            });
            for (sample, count) in counts {
                let labels = sample.strip_prefix(&format!("{name}_count")).unwrap();
                let inside = labels.trim_matches(['{', '}']);
                let of_it = |sample: &str| {
                    let bucket = sample.strip_prefix(&format!("{name}_bucket{{"))?;
                    let (before, bound) = bucket.strip_suffix("\"}")?.rsplit_once("le=\"")?;
                    let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
                    (before.trim_end_matches(',') == inside).then_some(bound)
                };
                let mut buckets: Vec<(f64, f64)> = self
                    .samples
                    .iter()
                    .filter_map(|(sample, value)| Some((of_it(sample)?, *value)))
                    .collect();
                buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
                assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{sample}: {buckets:?}");
                assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{sample}");
            }
        }
    }
}

fn operations() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations")
}

/// Names of all metrics that are documented.
fn documented() -> BTreeSet<String> {
    let page = gapless_server::metrics_reference();
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    page.lines().filter_map(name).collect()
}

async fn scrape(node: &Node) -> Scraped {
    let answer = ask(node, "GET", "/metrics", "", "").await;
    assert_eq!(answer.status, 200);
    Scraped::read(&answer.body)
}

/// Looks until what was answered is counted: that happens a moment after the answer has left. Marks are moved a moment later, too.
async fn settled(node: &Node) -> Scraped {
    let counted = |scraped: &Scraped| {
        let ended = "gapless_requests_total{protocol=\"grpc\",method=\"Write\",status=";
        let sum: f64 =
            scraped.samples.iter().filter(|(name, _)| name.starts_with(ended)).map(|(_, value)| value).sum();
        let mark = |mark: &str| {
            scraped.value(&format!("gapless_partition_{mark}{{namespace=\"shop\",partition=\"1\"}}"))
        };
        let marked = mark("durable_index") == 4.0
            && mark("applied_index") == 4.0
            && mark("applied_global") == scraped.value("gapless_log_dispatched_index");
        let looked = "gapless_requests_total{protocol=\"http\",method=\"other\",status=\"200\"}";
        // The one that follows, and nobody that has left.
        let followed = scraped.value("gapless_subscribers") == 1.0 && scraped.value("gapless_streams") == 1.0;
        sum == 5.0 && marked && followed && scraped.samples.contains_key(looked)
    };
    for _ in 0..6000 {
        let scraped = scrape(node).await;
        if counted(&scraped) {
            return scraped;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is never counted: {:#?}", scrape(node).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_is_documented_and_every_documented_one_is_there() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    for number in 1..=3 {
        written(&mut ledger, with(sale(1, number), vec![invoice()])).await;
    }
    assert!(written(&mut ledger, with(sale(1, 3), vec![invoice()])).await.duplicate);
    let mut wrong = sale(1, 9);
    wrong.namespace = "nowhere".to_owned();
    ledger.write(wrong).await.unwrap_err();
    let following = ledger
        .subscribe(gapless_api::v1::SubscribeRequest {
            namespace: "shop".to_owned(),
            what: Some(gapless_api::v1::subscribe_request::What::Workspace(1)),
            from: 1,
        })
        .await
        .unwrap();
    let scraped = settled(&node).await;
    let shown: BTreeSet<String> = scraped.kinds.keys().cloned().collect();
    assert_eq!(shown, documented());
    scraped.check_histograms();

    assert_eq!(scraped.value("gapless_writes_total{outcome=\"committed\"}"), 4.0);
    assert_eq!(scraped.value("gapless_retries_total{answered_by=\"memory\"}"), 1.0);
    assert_eq!(
        scraped.value("gapless_requests_total{protocol=\"grpc\",method=\"Write\",status=\"OK\"}"),
        4.0
    );
    assert_eq!(
        scraped.value("gapless_requests_total{protocol=\"grpc\",method=\"Write\",status=\"NOT_FOUND\"}"),
        1.0
    );
    assert!(
        scraped.value("gapless_requests_total{protocol=\"http\",method=\"other\",status=\"200\"}") >= 1.0
    );
    assert_eq!(
        scraped.value("gapless_request_seconds_count{protocol=\"grpc\",method=\"Write\",status=\"OK\"}"),
        4.0
    );
    assert_eq!(scraped.value("gapless_subscribers"), 1.0);
    assert_eq!(scraped.value("gapless_streams"), 1.0);
    assert!(scraped.value("gapless_connections") >= 1.0);
    assert_eq!(scraped.value("gapless_partitions{state=\"serving\"}"), 3.0);
    let partition = "{namespace=\"shop\",partition=\"1\"}";
    // The definition of the namespace is the first outcome of every partition.
    assert_eq!(scraped.value(&format!("gapless_partition_applied_index{partition}")), 4.0);
    assert_eq!(scraped.value(&format!("gapless_partition_durable_index{partition}")), 4.0);
    let global = scraped.value(&format!("gapless_partition_applied_global{partition}"));
    assert_eq!(global, scraped.value("gapless_log_dispatched_index"));
    assert_eq!(scraped.value("gapless_consensus_is_leader"), 1.0);
    assert!(scraped.value("gapless_consensus_elections_total") >= 1.0);
    assert!(scraped.value("gapless_log_sync_seconds_count") >= 3.0);
    assert!(scraped.value("gapless_log_sync_seconds_sum") > 0.0);
    assert!(scraped.value("process_resident_memory_bytes") > 0.0);
    assert!(scraped.value("process_open_fds") > 0.0);
    drop(following);
    node.stop().await;
}

/// Words of a text that can only be names of metrics.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("gapless_") || word.starts_with("process_")).collect()
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let documented = documented();
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = std::fs::read_to_string(operations().join(file)).unwrap();
        let named = named(&text);
        assert!(named.len() > 10, "{file} names {named:?}");
        for name in named {
            let plain = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let exists = documented.contains(name) || plain.is_some_and(|plain| documented.contains(plain));
            assert!(exists, "{file}: there is no metric {name}");
        }
    }
    let dashboard = std::fs::read_to_string(operations().join("dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().iter().all(|panel| panel["targets"].is_array()));
}
