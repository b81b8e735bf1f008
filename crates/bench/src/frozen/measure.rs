//! Measurement of one query on one node: its time, the traffic at the proxy, and its CPU time.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use super::gateway::Store;
use super::node::{Ask, Node};
use super::proxy::Traffic;
use super::questions;

/// Cost of a query.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cost {
    /// At the client.
    pub(super) ms: f64,
    /// With the store.
    pub(super) traffic: Traffic,
    pub(super) cpu_ms: f64,
}

/// Runs one query; the result must be complete.
pub(super) fn ask(node: &Node, store: &Store, path: &str, body: &Ask<'_>) -> anyhow::Result<(Value, Cost)> {
    let (answer, cost) = cost(node, store, || node.ask(path, body))?;
    questions::check(&answer).with_context(|| path.to_owned())?;
    Ok((answer, cost))
}

/// Returns a response of a node, which contains its ms at the client, and its cost.
pub(super) fn cost<A>(
    node: &Node,
    store: &Store,
    request: impl FnOnce() -> anyhow::Result<(A, f64)>,
) -> anyhow::Result<(A, Cost)> {
    let (cpu, before) = (node.thread_times()?, store.proxy.traffic());
    let (answer, ms) = request()?;
    let cost = Cost {
        ms,
        traffic: store.proxy.traffic().since(before),
        cpu_ms: node.thread_times()?.seconds_since(&cpu) * 1000.0,
    };
    Ok((answer, cost))
}

/// Returns the median of each value.
pub(super) fn median(costs: &[Cost]) -> Option<Cost> {
    let of = |figure: &dyn Fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Some(Cost {
        ms: of(&|cost| cost.ms)?,
        traffic: Traffic {
            requests: of(&|cost| cost.traffic.requests as f64)? as u64,
            downloaded_bytes: of(&|cost| cost.traffic.downloaded_bytes as f64)? as u64,
            uploaded_bytes: of(&|cost| cost.traffic.uploaded_bytes as f64)? as u64,
        },
        cpu_ms: of(&|cost| cost.cpu_ms)?,
    })
}

/// Returns the bytes fetched by kind of file since the node started, as its cache counts them.
pub(super) fn fetched_by_kind(node: &Node) -> anyhow::Result<BTreeMap<String, u64>> {
    let stats = node.client.json("GET", "/_searchable_snapshots/cache/stats", None)?;
    Ok(find_kinds(&stats).unwrap_or_default())
}

/// Returns the first object with kinds of files side by side, each with its fetched bytes.
fn find_kinds(value: &Value) -> Option<BTreeMap<String, u64>> {
    let object = value.as_object()?;
    if object.get("postings").is_some_and(Value::is_object) {
        let fetched = |kind: &Value| {
            let of_kind = kind.as_object()?;
            let (_, bytes) = of_kind
                .iter()
                .find(|(key, value)| key.contains("fetched") && value.is_u64())?;
            bytes.as_u64()
        };
        return Some(
            object
                .iter()
                .filter_map(|(name, kind)| Some((name.clone(), fetched(kind)?)))
                .collect(),
        );
    }
    object.values().find_map(find_kinds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_found_wherever_they_stand() {
        let stats = json!({"nodes": {"n": {"shared_cache": {"reads": 1, "kinds": {
            "postings": {"requested_in_bytes": 9, "fetched_in_bytes": 4},
            "store": {"fetched_in_bytes": 5},
        }}}}});
        let expected = BTreeMap::from([("postings".to_owned(), 4), ("store".to_owned(), 5)]);
        assert_eq!(find_kinds(&stats), Some(expected));
        assert_eq!(find_kinds(&json!({"nodes": {}})), None);
    }

    #[test]
    fn the_median_is_taken_of_each_figure() {
        let cost = |ms: f64, requests: u64| Cost {
            ms,
            traffic: Traffic {
                requests,
                ..Traffic::default()
            },
            cpu_ms: 1.0,
        };
        let found = median(&[cost(1.0, 9), cost(3.0, 2), cost(2.0, 4)]).unwrap();
        assert_eq!((found.ms, found.traffic.requests), (2.0, 4));
        assert!(median(&[]).is_none());
    }
}
