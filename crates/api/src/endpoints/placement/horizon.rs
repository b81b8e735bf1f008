//! `horizon` of `_propose`: recent events of tenants instead of all their events.
//!
//! A placement table is for future indices. The tenant with most events two years ago may send few now. So with a
//! horizon only events count whose `@timestamp` is recent enough. Bytes follow from the average bytes per event of the
//! tenant.

use std::collections::{BTreeMap, BTreeSet};

use firn_engine::Error;
use firn_lifecycle::placement::TenantVolume;
use firn_model::dates::parse_duration_ms;
use firn_model::metadata::Metadata;
use firn_model::names::IndicesOptions;
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;

/// Maximum number of counted tenants, which equals the maximum of declared tenants.
const TENANTS_MAX: usize = 10_000;
/// Name of the aggregation.
const TENANTS: &str = "tenants";

/// Parses `"30d"`.
pub(super) fn parse(value: &Value) -> Result<u64, Error> {
    let text = value
        .as_str()
        .ok_or_else(|| Error::illegal_argument(format!("[horizon] must be a time like [30d], not [{value}]")))?;
    match parse_duration_ms(text)? {
        0 => Err(Error::illegal_argument(
            "[horizon] must be longer than [0]: nothing would count",
        )),
        ms => Ok(ms),
    }
}

/// Counts the events of each tenant within the horizon, in the indices that [`firn_engine::Engine::tenant_usage`]
/// covers.
pub(super) async fn events_since(
    edge: &Edge,
    call: &Call,
    metadata: &Metadata,
    horizon_ms: u64,
) -> Result<BTreeMap<String, u64>, ApiError> {
    let mut by_field: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for index in metadata.indices.values() {
        let settings = &index.settings;
        if let (Some(field), false, false) = (&settings.tenant_field, index.closed, settings.is_mounted()) {
            by_field.entry(field).or_default().insert(&index.name);
        }
    }
    let horizon_ms = i64::try_from(horizon_ms).unwrap_or(i64::MAX);
    let since_ms = edge.now_ms().saturating_sub(horizon_ms);
    let mut events = BTreeMap::new();
    for (field, names) in by_field {
        let target = IndexTarget {
            expression: names.into_iter().map(str::to_owned).collect(),
            // An index may be deleted between the two reads.
            options: IndicesOptions {
                ignore_unavailable: true,
                ..IndicesOptions::default()
            },
        };
        let body = json!({
            "size": 0,
            "track_total_hits": false,
            "query": {"range": {"@timestamp": {"gte": since_ms, "format": "epoch_millis"}}},
            "aggs": {TENANTS: {"terms": {"field": field, "size": TENANTS_MAX}}},
        });
        let mut request = SearchRequest::parse(target, Some(&body))?;
        request.allow_partial_results = false;
        let response = search::run_plain(edge, &call.ctx, request).await?;
        let buckets = response
            .aggregations
            .as_deref()
            .map(|aggregations| &aggregations[TENANTS]["buckets"]);
        for bucket in buckets.and_then(Value::as_array).into_iter().flatten() {
            if let (Some(tenant), Some(count)) = (bucket["key"].as_str(), bucket["doc_count"].as_u64()) {
                *events.entry(tenant.to_owned()).or_default() += count;
            }
        }
    }
    Ok(events)
}

/// Reduces the volumes of tenants to their recent events. A tenant without recent events keeps only its
/// searches.
pub(super) fn narrow(volumes: &mut [TenantVolume], events: &BTreeMap<String, u64>) {
    for volume in volumes {
        let recent = events.get(&volume.tenant).copied().unwrap_or(0).min(volume.documents);
        let bytes = u128::from(volume.bytes) * u128::from(recent) / u128::from(volume.documents.max(1));
        (volume.documents, volume.bytes) = (recent, bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_weighs_nothing() {
        let volume = |tenant: &str, documents, bytes| TenantVolume {
            tenant: tenant.to_owned(),
            documents,
            bytes,
            search_cost: 5,
        };
        let mut volumes = [volume("a", 100, 1000), volume("b", 50, 500)];
        narrow(&mut volumes, &[("a".to_owned(), 25)].into());
        assert_eq!(volumes, [volume("a", 25, 250), volume("b", 0, 0)]);
    }

    #[test]
    fn a_horizon_is_a_time() {
        assert_eq!(parse(&json!("2d")).unwrap(), 2 * 86_400_000);
        for wrong in [json!("0"), json!(7), json!("soon")] {
            assert!(parse(&wrong).is_err(), "{wrong}");
        }
    }
}
