//! `adjacency_matrix` aggregation: a bucket for each of several queries and for each pair of them.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::finish::Finisher;
use super::finished::{Buckets, FinishedBucket, Keys};
use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, Aggregations, Bucket, Key, TermsPartial};
use crate::json::token;
use crate::query::Query;

pub(super) const NAME: &str = "adjacency_matrix";

/// Maximum filters, Elasticsearch's `index.max_adjacency_matrix_filters`: buckets grow with its square.
const FILTERS_MAX: usize = 100;

/// Default separator between the names of a pair.
const SEPARATOR: &str = "&";

/// `adjacency_matrix`.
#[derive(Debug, Clone, PartialEq)]
pub struct AdjacencyMatrix {
    /// Sorted by name.
    pub filters: Vec<(String, Query)>,
    /// Separator between the names of a pair (default `&`).
    pub separator: String,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut matrix = AdjacencyMatrix {
        filters: Vec::new(),
        separator: SEPARATOR.to_owned(),
    };
    for (key, value) in request.body {
        match (key.as_str(), value) {
            ("filters", Value::Object(named)) => {
                let named = named.iter();
                matrix.filters = named
                    .map(|(name, query)| Ok((name.clone(), Query::parse(query)?)))
                    .collect::<Result<_>>()?;
            }
            ("filters", other) => {
                return Err(Error::parsing(format!(
                    "[{NAME}] filters doesn't support values of type: {}",
                    token(other)
                )));
            }
            ("separator", value) => matrix.separator = parse::text(NAME, key, value)?,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    if matrix.filters.is_empty() {
        return Err(Error::illegal_argument(format!(
            "[{}] is missing : filters parameter",
            request.name
        )));
    }
    if matrix.filters.len() > FILTERS_MAX {
        return Err(Error::illegal_argument(format!(
            "Number of filters is too large, must be less than or equal to: [{FILTERS_MAX}] but was [{}]. This limit can \
             be set by changing the [index.max_adjacency_matrix_filters] index level setting.",
            matrix.filters.len()
        )));
    }
    matrix.filters.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(AggregationKind::AdjacencyMatrix(matrix))
}

impl AdjacencyMatrix {
    /// Returns the name of a bucket: that of one filter, or of a pair.
    pub fn name(&self, first: usize, second: usize) -> String {
        let (left, right) = (&self.filters[first].0, &self.filters[second].0);
        if first == second {
            left.clone()
        } else {
            format!("{left}{}{right}", self.separator)
        }
    }

    pub(super) fn print(&self) -> Value {
        let filters = self.filters.iter().map(|(name, query)| (name.clone(), query.print()));
        let mut body = Map::new();
        body.insert("filters".into(), filters.collect::<Map<_, _>>().into());
        if self.separator != SEPARATOR {
            body.insert("separator".into(), json!(self.separator));
        }
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        for (_, query) in &self.filters {
            fields.extend(query.fields());
        }
    }
}

/// Returns the buckets that hold documents, by name.
pub(super) fn answer(finisher: &mut Finisher<'_>, sub: &Aggregations, partial: TermsPartial) -> Result<Buckets> {
    let found = partial.buckets.into_iter().filter(|(_, bucket)| bucket.doc_count > 0);
    let mut found: Vec<(Key, Bucket)> = found.map(|(key, bucket)| (key.into(), bucket)).collect();
    finisher.count(found.len())?;
    found.sort_unstable_by(|(left, _), (right, _)| left.compare(right));
    let mut buckets = Vec::with_capacity(found.len());
    for (key, bucket) in found {
        let below = finisher.level(sub, bucket.sub)?;
        buckets.push(FinishedBucket::new(key, &partial.format, bucket.doc_count, below));
    }
    Ok(Buckets {
        type_name: NAME,
        head: Vec::new(),
        tail: Vec::new(),
        keyed: false,
        keys: Keys::KeyFirst,
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"adjacency_matrix": {
            "filters": {"b": {"exists": {"field": "b"}}, "a": {"match_all": {}}}, "separator": "|"
        }, "aggs": {"y": {"max": {"field": "c"}}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"adjacency_matrix": body}}), error);
        check(json!({}), "[x] is missing : filters parameter");
        check(json!({"filters": {}}), "[x] is missing : filters parameter");
        check(
            json!({"filters": []}),
            "[adjacency_matrix] filters doesn't support values of type: START_ARRAY",
        );
        let many: Map<String, Value> = (0..101)
            .map(|number| (number.to_string(), json!({"match_all": {}})))
            .collect();
        check(
            json!({"filters": many}),
            "Number of filters is too large, must be less than or equal to: [100] but was [101]. This limit can be set by \
             changing the [index.max_adjacency_matrix_filters] index level setting.",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"adjacency_matrix": {"filters": {"b": {"exists": {"field": "b"}}}}}}),
            &["b"],
        );
    }
}
