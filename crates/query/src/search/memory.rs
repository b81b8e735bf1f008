//! Approximate memory of search answers, for the accounting of caches that store them.

use serde_json::Value;

use super::{Hit, SearchResponse};

/// Approximate bytes of a hit without its source and values.
const HIT_BYTES: usize = 400;
/// Approximate bytes of a JSON value without its strings.
const VALUE_BYTES: usize = 64;
/// Approximate bytes of the profile of one shard or aggregation.
const PROFILE_BYTES: usize = 1024;
/// Approximate bytes of one shard failure.
const FAILURE_BYTES: usize = 512;

/// Returns the approximate bytes of a stored JSON value.
pub fn bytes_of_value(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(bytes_of_value).sum(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| name.len() + bytes_of_value(value))
                .sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

impl SearchResponse {
    /// Returns the approximate bytes of the hits, aggregations, profile and failures.
    pub fn bytes(&self) -> usize {
        let hits = self.hits.iter().map(Hit::bytes).sum::<usize>();
        let aggregations = self.aggregations.as_deref().map_or(0, bytes_of_value);
        let profile = self.profile.as_ref().map_or(0, |profile| {
            let shards = profile.shards.iter();
            let parts: usize = shards.map(|shard| 1 + shard.aggregations.len()).sum();
            bytes_of_value(&profile.query) + parts * PROFILE_BYTES
        });
        hits + aggregations + profile + self.shards.failures.len() * FAILURE_BYTES
    }
}

impl Hit {
    /// Returns the approximate bytes of the hit, inner hits included.
    pub fn bytes(&self) -> usize {
        let values = self.fields.values().chain(self.highlight.values()).chain(&self.sort);
        let names = self.fields.keys().chain(self.highlight.keys()).chain(&self.ignored);
        let queries = self.matched_queries.iter().map(|(name, _)| name);
        let inner = self.inner_hits.iter();
        HIT_BYTES
            + self.source.as_ref().map_or(0, |source| source.len())
            + values.map(bytes_of_value).sum::<usize>()
            + names.chain(queries).map(|name| VALUE_BYTES + name.len()).sum::<usize>()
            + inner
                .map(|(name, page)| VALUE_BYTES + name.len() + page.hits.iter().map(Self::bytes).sum::<usize>())
                .sum::<usize>()
    }
}
