//! Collection of the data volumes, with requests that every Elasticsearch-compatible server supports.

use std::collections::HashMap;

use anyhow::{Context, bail, ensure};
use firn_model::dates::parse_duration_ms;
use serde::Serialize;
use serde_json::{Value, json};

use super::advice::Tenant;
use crate::client::{Client, encode_segment};

/// Maximum of tenants that are counted separately; all smaller ones do not matter for the placement.
const TENANTS_MAX: usize = 1000;
const DAY_MS: f64 = 86_400_000.0;
/// The traffic record of a firn server.
const TRAFFIC: &str = ".firn-traffic";
/// Prefixes of the server's internal indices, which are not part of the data.
const OWN_NAMES: [&str; 2] = [".firn", ".ds-.firn"];

/// Source of the volumes.
#[derive(Clone, Copy)]
pub(super) struct MeasuredIndices<'a> {
    pub(super) client: &'a Client,
    /// An index expression.
    pub(super) expression: &'a str,
    pub(super) tenant_field: &'a str,
    pub(super) time_field: &'a str,
}

/// Volumes of the data.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Volumes {
    pub(super) indices: usize,
    pub(super) shards: u64,
    /// Stored bytes, without replicas.
    pub(super) bytes: u64,
    /// Events that have a tenant.
    pub(super) events: u64,
    pub(super) tenant_count: u64,
    /// Tenants with most events first.
    pub(super) tenants: Vec<Tenant>,
    /// First and last timestamp, ms.
    pub(super) time_ms: (i64, i64),
    pub(super) busiest_day_events: u64,
    /// The shortest retention of their data streams.
    pub(super) retention_days: Option<f64>,
    /// Whether the server has a traffic record.
    pub(super) traffic_known: bool,
}

impl Volumes {
    /// Returns the days between the first event and the last.
    pub(super) fn days(&self) -> f64 {
        (self.time_ms.1 - self.time_ms.0) as f64 / DAY_MS
    }
}

impl MeasuredIndices<'_> {
    /// Returns `/EXPRESSION`, encoded.
    fn path(&self) -> String {
        let parts: Vec<String> = self.expression.split(',').map(encode_expression).collect();
        format!("/{}", parts.join(","))
    }

    /// Returns the path of measured searches. With the request cache they would measure the cache.
    pub(super) fn search_path(&self) -> String {
        format!("{}/_search?request_cache=false", self.path())
    }

    /// Reads all volumes.
    pub(super) fn volumes(&self) -> anyhow::Result<Volumes> {
        let (indices, shards, bytes) = self.sizes()?;
        let mut volumes = self.counts()?;
        volumes.indices = indices;
        volumes.shards = shards;
        volumes.bytes = bytes;
        volumes.retention_days = self.retention_days();
        if let Some(search_ms) = self.traffic()? {
            volumes.traffic_known = true;
            for tenant in &mut volumes.tenants {
                tenant.search_ms = search_ms.get(&tenant.tenant).copied().unwrap_or(0.0);
            }
        }
        Ok(volumes)
    }

    /// Returns the number of indices, their shards, and bytes.
    fn sizes(&self) -> anyhow::Result<(usize, u64, u64)> {
        let stats = self
            .client
            .json("GET", &format!("{}/_stats/store", self.path()), None)?;
        let settings = self.client.json(
            "GET",
            &format!("{}/_settings/index.number_of_shards?flat_settings=true", self.path()),
            None,
        )?;
        let is_data = |name: &str| !OWN_NAMES.iter().any(|own| name.starts_with(own));
        let (mut indices, mut shards, mut bytes) = (0, 0, 0);
        let list = stats["indices"]
            .as_object()
            .context("the response of _stats has no indices")?;
        for (name, index) in list.iter().filter(|(name, _)| is_data(name)) {
            let store = index.pointer("/primaries/store/size_in_bytes");
            bytes += store
                .and_then(Value::as_u64)
                .context("the response of _stats has no sizes")?;
            let count = &settings[name.as_str()]["settings"]["index.number_of_shards"];
            shards += count.as_str().and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
            indices += 1;
        }
        ensure!(indices > 0, "[{}] matches no index", self.expression);
        Ok((indices, shards, bytes))
    }

    /// Counts events by tenant and by day. Sizes stay empty.
    fn counts(&self) -> anyhow::Result<Volumes> {
        let body = json!({
            "size": 0,
            "track_total_hits": true,
            "query": {"bool": {"filter": [
                {"exists": {"field": self.tenant_field}},
                {"exists": {"field": self.time_field}},
            ]}},
            "aggs": {
                "tenants": {"terms": {"field": self.tenant_field, "size": TENANTS_MAX}},
                "tenant_count": {"cardinality": {"field": self.tenant_field}},
                "days": {"date_histogram": {"field": self.time_field, "calendar_interval": "day", "min_doc_count": 1}},
                "first": {"min": {"field": self.time_field}},
                "last": {"max": {"field": self.time_field}},
            },
        });
        let answer = self.client.json("POST", &self.search_path(), Some(&body))?;
        let found = &answer["aggregations"];
        let events = answer.pointer("/hits/total/value").and_then(Value::as_u64).unwrap_or(0);
        if events == 0 {
            bail!(
                "no event of [{}] has both [{}] and [{}]: use --tenant-field and --time-field to name other fields",
                self.expression,
                self.tenant_field,
                self.time_field
            );
        }
        let tenants = buckets(&found["tenants"], |bucket, events| {
            let key = &bucket["key"];
            Tenant {
                tenant: key.as_str().map_or_else(|| key.to_string(), str::to_owned),
                events,
                search_ms: 0.0,
            }
        });
        let instant = |name: &str| {
            found[name]["value"]
                .as_f64()
                .map(|ms| ms as i64)
                .context("the events have no timestamps")
        };
        Ok(Volumes {
            indices: 0,
            shards: 0,
            bytes: 0,
            events,
            tenant_count: (found["tenant_count"]["value"].as_u64()).unwrap_or(tenants.len() as u64),
            tenants,
            time_ms: (instant("first")?, instant("last")?),
            busiest_day_events: buckets(&found["days"], |_, events| events)
                .into_iter()
                .max()
                .unwrap_or(0),
            retention_days: None,
            traffic_known: false,
        })
    }

    /// Returns the retention of the data streams, if the server has any and the user may read them.
    fn retention_days(&self) -> Option<f64> {
        let path = format!("/_data_stream{}", self.path());
        let answer = self.client.send("GET", &path, None).ok()?;
        let streams: Value = serde_json::from_slice(&answer.body).ok()?;
        let retention = |stream: &Value| {
            let name = stream["name"].as_str()?;
            let text = stream["lifecycle"]["data_retention"].as_str()?;
            let ms = parse_duration_ms(text).ok()?;
            (!name.starts_with('.')).then_some(ms as f64 / DAY_MS)
        };
        let streams = streams["data_streams"].as_array()?;
        streams.iter().filter_map(retention).min_by(f64::total_cmp)
    }

    /// Returns the total search time by tenant, ms; `None`: there is no traffic record.
    fn traffic(&self) -> anyhow::Result<Option<HashMap<String, f64>>> {
        let body = json!({
            "size": 0,
            // Requests without a search contain no information about shards.
            "query": {"exists": {"field": "shards"}},
            "aggs": {"tenants": {
                "terms": {"field": "tenant", "size": TENANTS_MAX},
                "aggs": {"took": {"sum": {"field": "took_ms"}}},
            }},
        });
        let body = body.to_string();
        let path = format!("/{TRAFFIC}/_search");
        let answer = self
            .client
            .send("POST", &path, Some(("application/json", body.as_bytes())));
        let answer = answer.map_err(|failure| anyhow::anyhow!("{path}: {failure}"))?;
        // Missing or not readable: the recommendation uses volumes alone.
        if answer.status != 200 {
            return Ok(None);
        }
        let answer: Value = serde_json::from_slice(&answer.body).context("the traffic record is not JSON")?;
        let tenants = buckets(&answer["aggregations"]["tenants"], |bucket, _| {
            let tenant = bucket["key"].as_str().unwrap_or_default().to_owned();
            (tenant, bucket["took"]["value"].as_f64().unwrap_or(0.0))
        });
        Ok((!tenants.is_empty()).then(|| tenants.into_iter().collect()))
    }
}

fn buckets<T>(aggregation: &Value, read: impl Fn(&Value, u64) -> T) -> Vec<T> {
    let buckets = aggregation["buckets"].as_array().map_or(&[][..], Vec::as_slice);
    buckets
        .iter()
        .map(|bucket| read(bucket, bucket["doc_count"].as_u64().unwrap_or(0)))
        .collect()
}

/// Encodes a segment of a path, but not its wildcards.
fn encode_expression(text: &str) -> String {
    let parts: Vec<String> = text.split('*').map(encode_segment).collect();
    parts.join("*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_keep_their_wildcards() {
        assert_eq!(encode_expression("logs-*-a b*"), "logs-*-a%20b*");
    }
}
