//! `filter` aggregation: one bucket of the documents that match a query.

use firn_model::Result;
use serde_json::Value;

use super::finish::Finisher;
use super::finished::SingleBucket;
use super::parse::Request;
use super::{AggregationKind, Aggregations, Bucket};
use crate::query::Query;

pub(super) const NAME: &str = "filter";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let query = Query::parse(&Value::Object(request.body.clone()))?;
    Ok(AggregationKind::Filter(Box::new(query)))
}

pub(super) fn answer(finisher: &mut Finisher<'_>, sub: &Aggregations, bucket: Bucket) -> Result<SingleBucket> {
    Ok(SingleBucket {
        doc_count: bucket.doc_count,
        after: Vec::new(),
        sub: finisher.level(sub, bucket.sub)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"filter": {"exists": {"field": "a"}}, "aggs": {"y": {"max": {"field": "b"}}}}}));
    }

    #[test]
    fn refuses() {
        check_refused(json!({"x": {"filter": {}}}), "query malformed, empty clause found");
        check_refused(json!({"x": {"filter": {"foo": {}}}}), "unknown query [foo]");
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"filter": {"exists": {"field": "b"}}, "aggs": {"y": {"max": {"field": "a"}}}}}),
            &["a", "b"],
        );
    }
}
