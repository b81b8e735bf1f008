//! The queue of deliveries: alerts whose `firn.alert.pending` names a channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Engine, RequestContext};
use firn_model::names::IndicesOptions;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{Hit, IndexTarget, SearchRequest, SearchResponse};
use serde_json::{Map, Value, json};

use crate::alert_documents::AlertKey;
use crate::notification::StoredAlert;

const DATA_STREAMS: &str = ".alerts-*";
/// Channels that one look at the queue finds; a node has at most as many.
const CHANNELS_MAX: usize = 1000;

/// Pending alerts of one channel.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The oldest ones.
    pub(crate) alerts: Vec<StoredAlert>,
    /// Number of all.
    pub(crate) total: u64,
}

/// Reads the queue.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) engine: Arc<dyn Engine>,
}

fn target() -> IndexTarget {
    IndexTarget {
        expression: vec![DATA_STREAMS.to_owned()],
        options: IndicesOptions {
            ignore_unavailable: true,
            expand_hidden: true,
            ..IndicesOptions::default()
        },
    }
}

impl Queue {
    async fn search(&self, body: &Value) -> Result<SearchResponse> {
        let request = SearchRequest::parse(target(), Some(body))?;
        let response = self.engine.search(&RequestContext::new(), request).await?;
        // What a shard that fails holds stays pending, and is found once the shard serves again.
        if let Some((index, _, error)) = response.shards.failures.first() {
            tracing::warn!(index, "cannot read some alerts for delivery: {error}");
        }
        match response.shards.successful == 0 && response.shards.total > 0 {
            true => Err(Error::new(ErrorKind::Unavailable, "cannot read any index of alerts")),
            false => Ok(response),
        }
    }

    /// Makes what was stored visible to the other methods.
    pub(crate) async fn refresh(&self) -> Result<()> {
        self.engine.refresh(&RequestContext::new(), target()).await.map(drop)
    }

    /// Returns the number of pending alerts by channel: of each of the known ones that has any, and of some others.
    pub(crate) async fn pending(&self, known: &[String]) -> Result<BTreeMap<String, u64>> {
        let terms = json!({"field": "firn.alert.pending", "size": CHANNELS_MAX});
        let mut aggs = json!({"all": {"terms": terms}});
        if !known.is_empty() {
            // However many other names there are.
            aggs["known"] = json!({"terms": terms});
            aggs["known"]["terms"]["include"] = known.into();
        }
        let body = json!({
            "size": 0, "track_total_hits": false, "query": {"exists": {"field": "firn.alert.pending"}}, "aggs": aggs,
        });
        let response = self.search(&body).await?;
        let aggregations = response.aggregations.unwrap_or_default();
        let buckets = ["all", "known"].map(|name| aggregations[name]["buckets"].as_array());
        let buckets = buckets.into_iter().flatten().flatten();
        let count = |bucket: &Value| Some((bucket["key"].as_str()?.to_owned(), bucket["doc_count"].as_u64()?));
        Ok(buckets.filter_map(count).collect())
    }

    /// Returns the oldest pending alerts of a channel, without those of `except`.
    pub(crate) async fn page(&self, channel: &str, except: &[AlertKey], size: usize) -> Result<Page> {
        let except: Vec<&str> = except.iter().map(|key| key.id.as_str()).collect();
        let response = self
            .search(&json!({
                "size": size, "track_total_hits": true, "sort": [{"@timestamp": {"order": "asc", "unmapped_type": "date"}}],
                "query": {"bool": {
                    "filter": [{"term": {"firn.alert.pending": channel}}], "must_not": [{"ids": {"values": except}}],
                }},
            }))
            .await?;
        Ok(Page {
            total: response.total.map_or(0, |total| total.value),
            alerts: stored_alerts(response)?,
        })
    }

    /// Returns some alerts that are pending for any of these channels.
    pub(crate) async fn pending_for(&self, channels: &[&String], size: usize) -> Result<Vec<AlertKey>> {
        let body = json!({
            "size": size, "track_total_hits": false, "_source": false, "sort": ["_doc"],
            "query": {"terms": {"firn.alert.pending": channels}},
        });
        Ok(keys(self.search(&body).await?))
    }

    /// Returns open alerts that are due for the next step of their escalation. `now` is RFC 3339.
    pub(crate) async fn due(&self, now: &str, size: usize) -> Result<Vec<AlertKey>> {
        let body = json!({
            "size": size, "track_total_hits": false, "_source": false, "sort": ["_doc"],
            "query": {"bool": {"filter": [
                {"term": {"firn.alert.status": "open"}}, {"range": {"firn.alert.escalate_at": {"lte": now}}},
            ]}},
        });
        Ok(keys(self.search(&body).await?))
    }
}

fn keys(response: SearchResponse) -> Vec<AlertKey> {
    let key = |hit: Hit| AlertKey {
        index: hit.index,
        id: hit.id,
        routing: hit.routing,
    };
    response.hits.into_iter().map(key).collect()
}

fn stored_alerts(response: SearchResponse) -> Result<Vec<StoredAlert>> {
    let mut alerts = Vec::with_capacity(response.hits.len());
    for hit in response.hits {
        let source = hit
            .source
            .ok_or_else(|| Error::internal("a bug: an alert has no source"))?;
        let document: Map<String, Value> = serde_json::from_slice(&source)?;
        let key = AlertKey {
            index: hit.index,
            id: hit.id,
            routing: hit.routing,
        };
        alerts.push(StoredAlert { key, document });
    }
    Ok(alerts)
}
