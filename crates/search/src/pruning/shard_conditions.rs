//! Pruning of indices and shards by the request's conditions, before any of them is opened.
//!
//! An index with one time span holds no documents of another, and a tenant's documents are in that tenant's shards,
//! so a pruned shard holds no match. As everywhere, the query itself decides about documents.

use firn_model::dates::DateFormat;
use firn_model::mapping::{Mapping, Resolved};
use firn_model::metadata::TIMESTAMP;
use firn_query::aggs::{AggregationKind, Aggregations};
use firn_query::query::{Query, TextOptions, TextQuery};
use firn_query::search::{SearchRequest, SortBy};
use serde_json::Value;

use crate::compile::field::{NANOS, scalar_text};
use crate::compile::query::range;
use crate::run::prepare::constant_score;

/// Returns inclusive bounds of `@timestamp`, in ms, for every match in an index with this mapping; `None`: the
/// query has no such condition.
pub fn window(mapping: &Mapping, query: &Query, now_ms: i64) -> Option<(i64, i64)> {
    let Some(Resolved::Field(path, field)) = mapping.resolve(TIMESTAMP) else {
        return None;
    };
    if path != TIMESTAMP || !field.field_type.is_date() {
        return None;
    }
    let default = DateFormat::default_millis();
    let format = field.format.as_deref().unwrap_or(&default);
    let mut bounds: Option<(i64, i64)> = None;
    query.for_each_required(&mut |query| {
        let Query::Range(part) = query else { return };
        if part.field != TIMESTAMP {
            return;
        }
        // An unreadable range fails when the whole query is compiled.
        let Ok((lower, upper)) = range::date_bounds(now_ms, format, part) else {
            return;
        };
        // Finer digits than a ms are compared within a segment.
        let ms = |(nanos, _): (i128, bool)| i64::try_from(nanos.div_euclid(NANOS.into()));
        let min = lower.map_or(i64::MIN, |bound| ms(bound).unwrap_or(i64::MIN));
        let max = upper.map_or(i64::MAX, |bound| ms(bound).unwrap_or(i64::MAX));
        bounds = Some(bounds.map_or((min, max), |own| (own.0.max(min), own.1.min(max))));
    });
    bounds
}

/// Returns the tenants of which every match has one, if `field` holds the tenant; `None`: the query does not
/// restrict it.
pub fn tenants(field: &str, query: &Query) -> Option<Vec<String>> {
    let mut found: Option<Vec<String>> = None;
    query.for_each_required(&mut |query| {
        let values = match query {
            Query::Term(part) if part.field == field && !part.case_insensitive => exact(&part.value),
            Query::Terms(part) if part.field == field => part.values.iter().map(scalar_text).collect(),
            Query::Match(part) | Query::MatchPhrase(part) if part.field == field => whole_text(part),
            _ => None,
        };
        if let Some(values) = values {
            found = Some(match found.take() {
                Some(known) => known.into_iter().filter(|value| values.contains(value)).collect(),
                None => values,
            });
        }
    });
    found
}

fn exact(value: &Value) -> Option<Vec<String>> {
    Some(vec![scalar_text(value)?])
}

/// On a keyword field, a text is one term.
fn whole_text(part: &TextQuery) -> Option<Vec<String>> {
    match part.options == TextOptions::default() {
        true => exact(&part.query),
        false => None,
    }
}

/// Returns whether aggregations read documents that the query excludes, so that the query must not prune shards.
pub fn looks_past_query(aggs: &Aggregations) -> bool {
    let mut looks = false;
    aggs.visit(&mut |_, aggregation| {
        looks |= match &aggregation.kind {
            AggregationKind::Global
            | AggregationKind::SignificantTerms(_)
            | AggregationKind::Sampler(_)
            | AggregationKind::DiversifiedSampler(_) => true,
            AggregationKind::Terms(terms) => terms.min_doc_count == 0,
            _ => false,
        };
    });
    looks
}

/// Returns whether the answer or the sort order uses scores; scores depend on all documents of a shard.
pub fn scores(request: &SearchRequest) -> bool {
    let by_score = request.sort.is_empty() || request.sort.iter().any(|key| key.by == SortBy::Score);
    let mut aggregated = false;
    request.aggs.visit(&mut |_, aggregation| {
        let kind = &aggregation.kind;
        aggregated |= matches!(kind, AggregationKind::TopHits(_) | AggregationKind::TopMetrics(_));
    });
    let wanted = by_score && request.size > 0 || request.track_scores || request.min_score.is_some() || aggregated;
    wanted && constant_score(&request.query).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn query(json: Value) -> Query {
        Query::parse(&json).unwrap()
    }

    #[test]
    fn conditions_on_time_make_a_window() {
        let mapping = Mapping::parse(&json!({"properties": {"@timestamp": {"type": "date"}}})).unwrap();
        let check = |json: Value, expect| assert_eq!(window(&mapping, &query(json), 10 * DAY_MS), expect);
        let range = |json: Value| json!({"range": {"@timestamp": json}});
        check(
            range(json!({"gte": "1970-01-02", "lt": "1970-01-03"})),
            Some((DAY_MS, 2 * DAY_MS)),
        );
        check(range(json!({"gte": "now-1d/d"})), Some((9 * DAY_MS, i64::MAX)));
        check(
            json!({"bool": {"filter": [range(json!({"gte": 5})), range(json!({"gte": 7, "lte": 9}))]}}),
            Some((7, 9)),
        );
        check(json!({"bool": {"should": [range(json!({"gte": 5}))]}}), None);
        check(json!({"range": {"other": {"gte": 5}}}), None);
        check(range(json!({"gte": "no date"})), None);
        let unmapped = Mapping::default();
        assert_eq!(window(&unmapped, &query(range(json!({"gte": 5}))), 0), None);
    }

    #[test]
    fn conditions_on_the_tenant_name_tenants() {
        let check = |json: Value, expect: Option<&[&str]>| {
            let found = tenants("tenant", &query(json.clone()));
            let expect = expect.map(|list| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
            assert_eq!(found, expect, "{json}");
        };
        check(json!({"term": {"tenant": "a"}}), Some(&["a"]));
        check(json!({"match": {"tenant": "a b"}}), Some(&["a b"]));
        check(json!({"match_phrase": {"tenant": "a"}}), Some(&["a"]));
        check(json!({"terms": {"tenant": ["a", 5]}}), Some(&["a", "5"]));
        check(
            json!({"bool": {"must": {"terms": {"tenant": ["a", "b"]}}, "filter": {"term": {"tenant": "b"}}}}),
            Some(&["b"]),
        );
        check(
            json!({"bool": {"filter": [{"term": {"tenant": "a"}}, {"term": {"tenant": "b"}}]}}),
            Some(&[]),
        );
        check(
            json!({"term": {"tenant": {"value": "a", "case_insensitive": true}}}),
            None,
        );
        check(json!({"match": {"tenant": {"query": "a", "fuzziness": 1}}}), None);
        check(json!({"bool": {"must_not": {"term": {"tenant": "a"}}}}), None);
        check(json!({"term": {"other": "a"}}), None);
    }

    #[test]
    fn some_aggregations_read_past_the_query() {
        let check = |json: Value| looks_past_query(&Aggregations::parse(&json).unwrap());
        assert!(!check(json!({"a": {"terms": {"field": "x"}}})));
        assert!(check(json!({"a": {"terms": {"field": "x", "min_doc_count": 0}}})));
        assert!(check(json!({"a": {"global": {}}})));
        assert!(check(
            json!({"a": {"filter": {"match_all": {}}, "aggs": {"b": {"significant_terms": {"field": "x"}}}}})
        ));
    }
}
