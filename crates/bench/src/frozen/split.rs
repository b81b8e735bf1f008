//! One shard with one segment, queried cold: each query runs on a fresh node, beside the published results of Quickwit
//! for the same data and latency. At several sizes, as the basis of the model ([`crate::frozen::model`]).

use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use super::data::{self, Amount, Loaded};
use super::gateway::Store;
use super::measure::{self, Cost};
use super::node::{Ask, Mount, Node};
use super::questions;

/// Repetitions of a query after the first time.
const REPEATS: usize = 5;
/// The cache holds the whole split: these queries measure fetching, not caching.
const CACHE: &str = "2gb";

/// A query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    Needle,
    TopHundred,
    HistogramOfTenant,
    HistogramOfAll,
}

pub(super) const QUESTIONS: [Question; 4] = [
    Question::Needle,
    Question::TopHundred,
    Question::HistogramOfTenant,
    Question::HistogramOfAll,
];

impl Question {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Needle => "needle",
            Self::TopHundred => "top 100 of a tenant",
            Self::HistogramOfTenant => "histogram of a tenant",
            Self::HistogramOfAll => "histogram of all",
        }
    }

    fn body(self, needle: &str, tenant: &str) -> Value {
        match self {
            Self::Needle => questions::needle(needle),
            Self::TopHundred => questions::top_hundred(tenant),
            Self::HistogramOfTenant => questions::histogram(Some(tenant)),
            Self::HistogramOfAll => questions::histogram(None),
        }
    }
}

/// Results of a query on one split.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct QuestionTiming {
    pub(super) question: Question,
    pub(super) first: Cost,
    pub(super) repeated: Cost,
}

/// Results of a split of one size.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SplitReport {
    pub(super) loaded: Loaded,
    /// Cost of its mount.
    pub(super) mount: Cost,
    pub(super) timings: Vec<QuestionTiming>,
}

/// Creates a split of `events` events and queries it.
pub(super) fn run(
    store: &Store,
    base_path: &str,
    folder: &Path,
    events: u64,
    seed: u64,
    latency: &dyn Fn(bool),
) -> anyhow::Result<SplitReport> {
    let index = format!("split-{events}");
    let amount = Amount {
        events,
        shards: 1,
        seed,
    };
    latency(false);
    let writer = Node::start(&folder.join("writer"), store, base_path, &[])?;
    let loaded = data::load(&writer, &index, amount)?;
    let tenant = largest_tenant(&writer, &index)?;
    drop(writer);
    latency(true);
    let (mut timings, mut mount) = (Vec::new(), None);
    for question in QUESTIONS {
        let settings = [("xpack.searchable.snapshot.shared_cache.size", CACHE.to_owned())];
        let place = folder.join(format!("cold-{events}-{}", question as usize));
        let node = Node::start(&place, store, base_path, &settings)?;
        let (cpu, before) = (node.thread_times()?, store.proxy.traffic());
        let started = std::time::Instant::now();
        node.mount(&Mount {
            snapshot: &loaded.snapshot,
            index: &loaded.index,
            name: "mounted",
            storage: "shared_cache",
        })?;
        mount = Some(Cost {
            ms: started.elapsed().as_secs_f64() * 1000.0,
            traffic: store.proxy.traffic().since(before),
            cpu_ms: node.thread_times()?.seconds_since(&cpu) * 1000.0,
        });
        let needle = loaded.needles.first().context("no needle")?;
        let body = question.body(needle, &tenant);
        let ask = || Ok(measure::ask(&node, store, "/mounted/_search", &Ask::Json(&body))?.1);
        let first = ask()?;
        let repeated = (0..REPEATS).map(|_| ask()).collect::<anyhow::Result<Vec<_>>>()?;
        timings.push(QuestionTiming {
            question,
            first,
            repeated: measure::median(&repeated).context("not repeated")?,
        });
    }
    Ok(SplitReport {
        loaded,
        mount: mount.context("there is no mount")?,
        timings,
    })
}

fn largest_tenant(node: &Node, index: &str) -> anyhow::Result<String> {
    let body = serde_json::json!({"size": 0, "aggs": {"tenants": {"terms": {"field": "tenant", "size": 1}}}});
    let answer = node.client.json("POST", &format!("/{index}/_search"), Some(&body))?;
    let name = answer["aggregations"]["tenants"]["buckets"][0]["key"].as_str();
    name.map(str::to_owned).context("the events have no tenant")
}
