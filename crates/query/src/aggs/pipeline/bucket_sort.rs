//! `bucket_sort` pipeline: sorts and truncates buckets.

use std::cmp::Ordering;

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::common::{unexpected, validation, whole};
use super::gap::GapPolicy;
use super::path::BucketsPath;
use super::{Needs, Parent, Pipeline};
use crate::aggs::Aggregations;
use crate::aggs::finished::{Buckets, FinishedBucket};
use crate::aggs::parse::Request;
use crate::expression::Steps;

pub(super) const NAME: &str = "bucket_sort";

/// `bucket_sort`.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketSort {
    /// Sort keys with direction (true: largest first). Empty: the order does not change.
    pub sort: Vec<(BucketsPath, bool)>,
    /// Buckets to skip at the start.
    pub from: usize,
    /// Maximum buckets; `None`: all.
    pub size: Option<usize>,
    /// With `skip`, buckets without any sort value are removed.
    pub gap_policy: GapPolicy,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let mut sort = BucketSort {
        sort: Vec::new(),
        from: 0,
        size: None,
        gap_policy: GapPolicy::default(),
    };
    for (key, value) in request.body {
        match key.as_str() {
            "sort" => {
                let keys = match value {
                    Value::Array(keys) => keys.as_slice(),
                    one => std::slice::from_ref(one),
                };
                for key in keys {
                    sort.sort.extend(sort_key(request, key)?);
                }
            }
            "from" => {
                let refusal = |number| format!("[from] must be a non-negative integer: [{number}]");
                sort.from = whole(request, key, value, 0, refusal)?;
            }
            "size" => {
                let refusal = |number| format!("[size] must be a positive integer: [{number}]");
                sort.size = Some(whole(request, key, value, 1, refusal)?);
            }
            "gap_policy" => sort.gap_policy = GapPolicy::parse(value)?,
            _ => return Err(firn_model::Error::parsing(format!("[{NAME}] unknown field [{key}]"))),
        }
    }
    if sort.sort.is_empty() && sort.size.is_none() && sort.from == 0 {
        return Err(validation(format!(
            "[{}] is configured to perform nothing. Please set either of [sort, size, from] to use bucket_sort",
            request.name
        )));
    }
    Ok(Pipeline::BucketSort(sort))
}

/// Parses `"path"`, `{"path": "desc"}` or `{"path": {"order": "desc"}}`.
fn sort_key(request: &Request<'_>, value: &Value) -> Result<Vec<(BucketsPath, bool)>> {
    let descending = |order: &Value| match order.as_str() {
        Some(text) if text.eq_ignore_ascii_case("asc") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("desc") => Ok(true),
        _ => Err(unexpected(request, "order", order)),
    };
    match value {
        Value::String(path) => Ok(vec![(BucketsPath::parse(path)?, false)]),
        Value::Object(keys) => {
            let mut sort = Vec::new();
            for (path, order) in keys {
                let order = match order {
                    Value::Object(body) => match (body.get("order"), body.len()) {
                        (Some(order), 1) => descending(order)?,
                        (None, 0) => false,
                        _ => return Err(unexpected(request, path, order)),
                    },
                    order => descending(order)?,
                };
                sort.push((BucketsPath::parse(path)?, order));
            }
            Ok(sort)
        }
        other => Err(unexpected(request, "sort", other)),
    }
}

impl BucketSort {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        let key = |(path, descending): &(BucketsPath, bool)| json!({ path.text(): {"order": if *descending { "desc" } else { "asc" }} });
        body.insert("sort".into(), self.sort.iter().map(key).collect());
        body.insert("from".into(), json!(self.from));
        if let Some(size) = self.size {
            body.insert("size".into(), json!(size));
        }
        body.insert("gap_policy".into(), json!(self.gap_policy.name()));
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &BucketsPath> {
        self.sort.iter().map(|(path, _)| path)
    }
}

/// Sort value of a bucket; `None` comes last in either direction.
#[derive(Debug, PartialEq)]
enum SortValue {
    None,
    Number(f64),
    /// `_key` of a bucket whose key is not a number.
    Text(String),
}

impl SortValue {
    fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let ordering = match (self, other) {
            (Self::None, Self::None) => return Ordering::Equal,
            (Self::None, _) => return Ordering::Greater,
            (_, Self::None) => return Ordering::Less,
            (Self::Number(left), Self::Number(right)) => left.total_cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        };
        if descending { ordering.reverse() } else { ordering }
    }
}

impl Parent for BucketSort {
    fn needs(&self) -> Needs {
        Needs::Buckets
    }

    fn apply(&self, _: usize, sub: &Aggregations, buckets: &mut Buckets, _: &mut Steps) -> Result<()> {
        let mut sorted = std::mem::take(&mut buckets.buckets);
        if !self.sort.is_empty() {
            sorted = self.sorted(sub, sorted)?;
        }
        let size = self.size.unwrap_or(usize::MAX);
        buckets.buckets = sorted.into_iter().skip(self.from).take(size).collect();
        Ok(())
    }
}

impl BucketSort {
    fn sorted(&self, sub: &Aggregations, buckets: Vec<FinishedBucket>) -> Result<Vec<FinishedBucket>> {
        let mut paths = Vec::with_capacity(self.sort.len());
        for path in self.paths() {
            paths.push((path.text() == "_key", path.bind(sub)?));
        }
        let mut ranked: Vec<(Vec<SortValue>, FinishedBucket)> = Vec::with_capacity(buckets.len());
        for bucket in buckets {
            let mut values = Vec::with_capacity(paths.len());
            for (is_key, path) in &paths {
                values.push(match &bucket.key {
                    Value::String(text) if *is_key => SortValue::Text(text.clone()),
                    _ if *is_key => path.read(&bucket)?.map_or(SortValue::None, SortValue::Number),
                    _ => match self.gap_policy.read(path, &bucket)? {
                        Some(value) if !value.is_nan() => SortValue::Number(value),
                        _ => SortValue::None,
                    },
                });
            }
            if values.iter().any(|value| *value != SortValue::None) {
                ranked.push((values, bucket));
            }
        }
        // Stable: equal buckets keep their order.
        ranked.sort_by(|(left, _), (right, _)| {
            let keys = self.sort.iter().zip(left.iter().zip(right));
            keys.map(|((_, descending), (left, right))| left.compare(right, *descending))
                .find(|ordering| ordering.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        Ok(ranked.into_iter().map(|(_, bucket)| bucket).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{check_refused, days_left};
    use super::*;

    const DAYS: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0], &[4.0]];

    #[test]
    fn answers() {
        let left = |body: Value| days_left(DAYS, json!({"bucket_sort": body}));
        assert_eq!(left(json!({"sort": ["total"]})), [1, 4, 3]);
        assert_eq!(left(json!({"sort": [{"total": {"order": "desc"}}]})), [3, 1, 4]);
        assert_eq!(
            left(json!({"sort": [{"total": "desc"}, {"_key": "desc"}]})),
            [3, 4, 1, 2]
        );
        assert_eq!(
            left(json!({"sort": {"total": {}}, "gap_policy": "insert_zeros"})),
            [2, 1, 4, 3]
        );
        assert_eq!(left(json!({"sort": [{"_count": "desc"}]})), [1, 3, 4, 2]);
        assert_eq!(
            left(json!({"sort": [{"_key": {"order": "desc"}}], "from": 1, "size": 2})),
            [3, 2]
        );
        assert_eq!(left(json!({"size": 2})), [1, 2]);
        assert_eq!(left(json!({"from": 3, "size": 5})), [4]);
        assert_eq!(left(json!({"from": 9})), Vec::<u32>::new());
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"bucket_sort": {}}),
            "Validation Failed: 1: [p] is configured to perform nothing. Please set either of [sort, size, from] to use \
             bucket_sort;",
        );
        check_refused(
            json!({"bucket_sort": {"size": 0}}),
            "[size] must be a positive integer: [0]",
        );
        check_refused(
            json!({"bucket_sort": {"from": -1}}),
            "[from] must be a non-negative integer: [-1]",
        );
        check_refused(json!({"bucket_sort": {"foo": 1}}), "[bucket_sort] unknown field [foo]");
        check_refused(
            json!({"bucket_sort": {"sort": ["nothing"]}}),
            "Validation Failed: 1: No aggregation found for path [nothing];",
        );
        check_refused(
            json!({"bucket_sort": {"sort": [{"total": "up"}]}}),
            "Unexpected token VALUE_STRING [order] in [p].",
        );
    }
}
