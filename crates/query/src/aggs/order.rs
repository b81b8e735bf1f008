//! Order of buckets.

use std::cmp::Ordering;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::sort_value::SortValue;
use super::{Aggregation, AggregationKind, Aggregations, Bucket, Key, Partial};
use crate::json::token;

/// A sort key of `order`; the bool next to it means ascending.
#[derive(Debug, Clone, PartialEq)]
pub enum TermsOrder {
    /// `_count`.
    Count,
    /// `_key`.
    Key,
    /// A metric sub-aggregation, `name` or `name.value` / `name.max`.
    Sub(String),
}

/// Parses `{"_count": "asc"}` or a list of such objects.
pub(super) fn parse(value: &Value) -> Result<Vec<(TermsOrder, bool)>> {
    match value {
        Value::Array(keys) => keys.iter().map(parse_one).collect(),
        one => Ok(vec![parse_one(one)?]),
    }
}

fn parse_one(value: &Value) -> Result<(TermsOrder, bool)> {
    let Value::Object(object) = value else {
        return Err(Error::parsing(format!(
            "Unexpected token [{}] for [order]",
            token(value)
        )));
    };
    let mut entries = object.iter();
    let (Some((key, direction)), None) = (entries.next(), entries.next()) else {
        return Err(Error::parsing("Must specify exactly one field for [order]"));
    };
    let ascending = match direction.as_str() {
        Some(text) if text.eq_ignore_ascii_case("asc") => true,
        Some(text) if text.eq_ignore_ascii_case("desc") => false,
        _ => return Err(Error::parsing(format!("Unknown order direction [{direction}]"))),
    };
    let by = match key.as_str() {
        "_count" => TermsOrder::Count,
        // `_term` and `_time` are old names of `_key`.
        "_key" | "_term" | "_time" => TermsOrder::Key,
        path => TermsOrder::Sub(path.to_owned()),
    };
    Ok((by, ascending))
}

/// Inserts `order` into the body of a request, if it is not the default.
pub(super) fn put(body: &mut Map<String, Value>, order: &[(TermsOrder, bool)]) {
    if !order.is_empty() {
        body.insert("order".into(), print(order));
    }
}

fn print(order: &[(TermsOrder, bool)]) -> Value {
    let one = |(by, ascending): &(TermsOrder, bool)| {
        let key = match by {
            TermsOrder::Count => "_count",
            TermsOrder::Key => "_key",
            TermsOrder::Sub(path) => path,
        };
        json!({ key: if *ascending { "asc" } else { "desc" } })
    };
    order.iter().map(one).collect()
}

/// Refuses paths that name no sub-aggregation.
pub(super) fn check(order: &[(TermsOrder, bool)], sub: &Aggregations) -> Result<()> {
    for (by, _) in order {
        if let TermsOrder::Sub(path) = by {
            Target::find(path, sub)?;
        }
    }
    Ok(())
}

/// Whether only keys are compared.
pub(super) fn is_by_key(order: &[(TermsOrder, bool)]) -> bool {
    matches!(order, [(TermsOrder::Key, _)])
}

/// Whether the first sort key is the count, descending.
pub(super) fn is_by_count_descending(order: &[(TermsOrder, bool)]) -> bool {
    matches!(order.first(), None | Some((TermsOrder::Count, false)))
}

/// Target of an order path: the single-bucket aggregations on the way, and the value to read.
struct Target<'a> {
    through: Vec<&'a str>,
    name: &'a str,
    value: SortValue,
}

impl<'a> Target<'a> {
    /// Resolves `filter>metric.value`.
    fn find(path: &'a str, mut sub: &Aggregations) -> Result<Self> {
        let missing = |name: &str| {
            Error::illegal_argument(format!(
                "Invalid aggregator order path [{path}]. The provided aggregation [{name}] either does not exist, or is \
                 a pipeline aggregation and cannot be used to sort the buckets."
            ))
        };
        let mut through = Vec::new();
        let mut rest = path;
        while let Some((name, below)) = rest.split_once('>') {
            let name = name.trim();
            match sub.0.get(name) {
                Some(Aggregation { kind, sub: next, .. }) if kind.is_single_bucket() => sub = next,
                Some(_) => {
                    return Err(Error::illegal_argument(format!(
                        "Invalid aggregator order path [{path}]. Buckets can only be sorted on a sub-aggregator path \
                         that is built out of zero or more single-bucket aggregations within the path and a final \
                         single-bucket or a metrics aggregation at the path end."
                    )));
                }
                None => return Err(missing(name)),
            }
            through.push(name);
            rest = below;
        }
        let rest = rest.trim();
        // Names may contain dots: the longest existing name wins.
        let (name, key) = if sub.0.contains_key(rest) {
            (rest, None)
        } else {
            let dots = rest
                .rmatch_indices('.')
                .map(|(dot, _)| (&rest[..dot], &rest[dot + 1..]));
            let brackets = rest.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
            match brackets
                .into_iter()
                .chain(dots)
                .find(|(name, _)| sub.0.contains_key(*name))
            {
                Some((name, key)) => (name, Some(key)),
                None => (rest.split_once('.').map_or(rest, |(name, _)| name), None),
            }
        };
        let aggregation = sub.0.get(name);
        let is_pipeline = |found: &&Aggregation| matches!(found.kind, AggregationKind::Pipeline(_));
        let aggregation = aggregation
            .filter(|found| !is_pipeline(found))
            .ok_or_else(|| missing(name))?;
        let value = SortValue::of(&aggregation.kind, key).ok_or_else(|| {
            Error::illegal_argument(format!(
                "Invalid aggregator order path [{path}]. [{}] of aggregation [{name}] cannot be used to sort the buckets.",
                key.unwrap_or("value"),
            ))
        })?;
        Ok(Self { through, name, value })
    }

    fn read(&self, mut bucket: &Bucket) -> f64 {
        for name in &self.through {
            match bucket.sub.0.get(*name) {
                Some(Partial::Single(inner)) => bucket = inner,
                _ => return f64::NAN,
            }
        }
        self.value.read(bucket.sub.0.get(self.name))
    }
}

/// A bucket with its sort values.
pub(super) struct Ranked {
    pub(super) key: Key,
    pub(super) bucket: Bucket,
    /// One per `Sub` in the order.
    values: Vec<f64>,
}

/// A compiled order for the buckets of one level.
pub(super) struct Sorter<'a> {
    order: &'a [(TermsOrder, bool)],
    targets: Vec<Target<'a>>,
}

impl<'a> Sorter<'a> {
    pub(super) fn new(order: &'a [(TermsOrder, bool)], sub: &Aggregations) -> Result<Self> {
        let mut targets = Vec::new();
        for (by, _) in order {
            if let TermsOrder::Sub(path) = by {
                targets.push(Target::find(path, sub)?);
            }
        }
        Ok(Self { order, targets })
    }

    pub(super) fn rank(&self, key: Key, bucket: Bucket) -> Ranked {
        let values = self.targets.iter().map(|target| target.read(&bucket)).collect();
        Ranked { key, bucket, values }
    }

    /// Moves the first `count` buckets of the order to the front, sorted; the order of the rest is unspecified.
    pub(super) fn sort_top(&self, ranked: &mut [Ranked], count: usize) {
        if count == 0 {
            return;
        }
        if ranked.len() > count {
            ranked.select_nth_unstable_by(count - 1, |left, right| self.compare(left, right));
        }
        let top = ranked.len().min(count);
        ranked[..top].sort_unstable_by(|left, right| self.compare(left, right));
    }

    /// A total order: equal buckets compare by their keys, ascending.
    fn compare(&self, left: &Ranked, right: &Ranked) -> Ordering {
        let mut values = left.values.iter().zip(&right.values);
        for (by, ascending) in self.order {
            let ordering = match by {
                TermsOrder::Count => left.bucket.doc_count.cmp(&right.bucket.doc_count),
                TermsOrder::Key => left.key.compare(&right.key),
                TermsOrder::Sub(_) => match values.next() {
                    // A bucket without a value comes last in either direction.
                    Some((left, right)) if left.is_nan() || right.is_nan() => {
                        let last = left.is_nan().cmp(&right.is_nan());
                        if last.is_ne() {
                            return last;
                        }
                        last
                    }
                    Some((left, right)) => left.total_cmp(right),
                    None => Ordering::Equal,
                },
            };
            if ordering.is_ne() {
                return if *ascending { ordering } else { ordering.reverse() };
            }
        }
        if self.order.is_empty() {
            let by_count = right.bucket.doc_count.cmp(&left.bucket.doc_count);
            return by_count.then_with(|| left.key.compare(&right.key));
        }
        left.key.compare(&right.key)
    }
}
