//! `filters` aggregation: a bucket for each of several queries, and optionally one for all other documents.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::finish::Finisher;
use super::finished::{Buckets, FinishedBucket, Keys};
use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, Aggregations, ListedPartial};
use crate::json::token;
use crate::query::Query;

pub(super) const NAME: &str = "filters";

/// Maximum filters in one aggregation: each runs over every document.
const FILTERS_MAX: usize = 1024;

/// Default name of the bucket of all other documents.
const OTHER: &str = "_other_";

/// `filters`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filters {
    /// Sorted by name, as Elasticsearch returns them; without names in request order.
    pub filters: Vec<(Option<String>, Query)>,
    /// Name of the bucket of documents that match no filter, if requested.
    pub other: Option<String>,
    /// Return buckets as an object by name; without names always a list.
    pub keyed: bool,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut filters = Filters {
        filters: Vec::new(),
        other: None,
        keyed: true,
    };
    let mut other_bucket = None;
    for (key, value) in request.body {
        match key.as_str() {
            "filters" => filters.filters = list(value)?,
            "other_bucket" => other_bucket = Some(parse::flag(NAME, key, value)?),
            "other_bucket_key" => filters.other = Some(parse::text(NAME, key, value)?),
            "keyed" => filters.keyed = parse::flag(NAME, key, value)?,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    if filters.filters.is_empty() {
        return Err(Error::illegal_argument("[filters] cannot be empty."));
    }
    match other_bucket {
        Some(true) if filters.other.is_none() => filters.other = Some(OTHER.to_owned()),
        Some(false) => filters.other = None,
        _ => {}
    }
    Ok(AggregationKind::Filters(filters))
}

fn list(value: &Value) -> Result<Vec<(Option<String>, Query)>> {
    let mut filters = match value {
        Value::Object(named) => named
            .iter()
            .map(|(name, query)| Ok((Some(name.clone()), Query::parse(query)?)))
            .collect::<Result<Vec<_>>>()?,
        Value::Array(list) => list
            .iter()
            .map(|query| Ok((None, Query::parse(query)?)))
            .collect::<Result<Vec<_>>>()?,
        other => {
            return Err(Error::parsing(format!(
                "[{NAME}] filters doesn't support values of type: {}",
                token(other)
            )));
        }
    };
    if filters.len() > FILTERS_MAX {
        return Err(Error::illegal_argument(format!(
            "[{NAME}] lists [{}] filters, more than the allowed maximum of [{FILTERS_MAX}]",
            filters.len()
        )));
    }
    filters.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(filters)
}

impl Filters {
    /// Returns the number of buckets in the answer.
    pub fn bucket_count(&self) -> usize {
        self.filters.len() + usize::from(self.other.is_some())
    }

    fn is_named(&self) -> bool {
        self.filters.iter().any(|(name, _)| name.is_some())
    }

    pub(super) fn print(&self) -> Value {
        let filters: Value = if self.is_named() {
            let named = self.filters.iter();
            named
                .map(|(name, query)| (name.clone().unwrap_or_default(), query.print()))
                .collect::<Map<_, _>>()
                .into()
        } else {
            self.filters.iter().map(|(_, query)| query.print()).collect()
        };
        let mut body = Map::new();
        body.insert("filters".into(), filters);
        if let Some(other) = &self.other {
            body.insert("other_bucket_key".into(), json!(other));
        }
        if !self.keyed {
            body.insert("keyed".into(), false.into());
        }
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        for (_, query) in &self.filters {
            fields.extend(query.fields());
        }
    }
}

pub(super) fn answer(
    finisher: &mut Finisher<'_>,
    filters: &Filters,
    sub: &Aggregations,
    mut partial: ListedPartial,
) -> Result<Buckets> {
    let count = filters.bucket_count();
    finisher.count(count)?;
    let named = filters.is_named();
    let names = filters.filters.iter().map(|(name, _)| name).chain([&filters.other]);
    let mut buckets = Vec::with_capacity(count);
    for (bucket, name) in partial.take_buckets(count).into_iter().zip(names) {
        buckets.push(FinishedBucket {
            key: json!(name),
            doc_count: bucket.doc_count,
            sub: finisher.level(sub, bucket.sub)?,
            ..FinishedBucket::default()
        });
    }
    Ok(Buckets {
        type_name: NAME,
        head: Vec::new(),
        tail: Vec::new(),
        keyed: named && filters.keyed,
        keys: if named && !filters.keyed {
            Keys::KeyFirst
        } else {
            Keys::Hidden
        },
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, parsed};
    use crate::aggs::{Bucket, Partial, Partials};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"filters": {
            "filters": {"b": {"exists": {"field": "b"}}, "a": {"match_all": {}}}, "other_bucket": true, "keyed": false
        }, "aggs": {"y": {"max": {"field": "c"}}}}}));
        check_round_trip(json!({"x": {"filters": {
            "filters": [{"exists": {"field": "b"}}, {"match_all": {}}], "other_bucket_key": "rest"
        }}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"filters": body}}), error);
        check(json!({}), "[filters] cannot be empty.");
        check(json!({"filters": {}}), "[filters] cannot be empty.");
        check(json!({"filters": [{}]}), "query malformed, empty clause found");
        check(
            json!({"filters": 1}),
            "[filters] filters doesn't support values of type: VALUE_NUMBER",
        );
        check(
            json!({"filters": [{"match_all": {}}], "foo": 1}),
            "[filters] unknown field [foo]",
        );
        check(
            json!({"filters": vec![json!({"match_all": {}}); 1025]}),
            "[filters] lists [1025] filters, more than the allowed maximum of [1024]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"filters": {"filters": [{"exists": {"field": "b"}}, {"exists": {"field": "a"}}]}}}),
            &["a", "b"],
        );
    }

    #[test]
    fn answers_by_name_or_in_order() {
        let answered = |body: Value, counts: &[u64]| {
            let aggregations = parsed(json!({"x": {"filters": body}}));
            let bucket = |doc_count: &u64| Bucket {
                doc_count: *doc_count,
                ..Bucket::default()
            };
            let partial = ListedPartial {
                buckets: counts.iter().map(bucket).collect(),
                ..ListedPartial::default()
            };
            let partials = Partials([("x".to_owned(), Partial::Listed(partial))].into_iter().collect());
            aggregations.finish(partials, 10).unwrap()["x"]["buckets"].to_string()
        };
        let named = json!({"b": {"match_all": {}}, "a": {"match_all": {}}});
        assert_eq!(
            answered(json!({"filters": named, "other_bucket": true}), &[1, 2, 3]),
            r#"{"a":{"doc_count":1},"b":{"doc_count":2},"_other_":{"doc_count":3}}"#
        );
        assert_eq!(
            answered(json!({"filters": named, "keyed": false}), &[1, 2]),
            r#"[{"key":"a","doc_count":1},{"key":"b","doc_count":2}]"#
        );
        assert_eq!(
            answered(json!({"filters": [{"match_all": {}}], "other_bucket_key": "rest"}), &[]),
            r#"[{"doc_count":0},{"doc_count":0}]"#
        );
        assert_eq!(
            answered(
                json!({"filters": named, "other_bucket": false, "other_bucket_key": "r"}),
                &[1, 2]
            ),
            r#"{"a":{"doc_count":1},"b":{"doc_count":2}}"#
        );
    }
}
