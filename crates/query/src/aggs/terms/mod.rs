//! `terms` aggregation: a bucket per frequent value.

mod answer;
mod counts;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::order;
use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, TermsOrder};
use crate::json::token;

pub use answer::TermsPartial;
pub(super) use answer::answer;
pub use counts::{StoredCounts, ValueCounts};

pub(super) const NAME: &str = "terms";

/// Default `size`.
const SIZE: usize = 10;

/// Maximum values in one `include` or `exclude` (`index.max_terms_count`).
const FILTER_VALUES_MAX: usize = 65_536;

/// Maximum length of a regular expression (`index.max_regex_length`), bytes.
const PATTERN_LENGTH_MAX: usize = 1000;

/// `terms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Full path.
    pub field: String,
    /// Buckets returned (default 10).
    pub size: usize,
    /// Candidates per shard; `None`: `size * 1.5 + 10`. firn merges all candidates of a shard's segments exactly, so
    /// the error comes from the shard cut alone.
    pub shard_size: Option<usize>,
    /// Minimum documents of a bucket (default 1).
    pub min_doc_count: u64,
    /// Minimum documents of a candidate that a shard reports (default 0).
    pub shard_min_doc_count: u64,
    /// Sort keys with direction (true: ascending); default count descending, ties by key ascending.
    pub order: Vec<(TermsOrder, bool)>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Only these keys.
    pub include: Option<TermsFilter>,
    /// Not these keys.
    pub exclude: Option<TermsFilter>,
    /// Print each bucket's `doc_count_error_upper_bound`.
    pub show_term_doc_count_error: bool,
    /// Date format of keys of date fields.
    pub format: Option<String>,
}

/// Selection of the retained and returned buckets: the common part of `terms` and `multi_terms`.
pub(in crate::aggs) struct Selection<'a> {
    /// `None`: depends on the type of the keys.
    pub(in crate::aggs) type_name: Option<&'static str>,
    pub(in crate::aggs) size: usize,
    pub(in crate::aggs) shard_size: usize,
    pub(in crate::aggs) min_doc_count: u64,
    pub(in crate::aggs) shard_min_doc_count: u64,
    pub(in crate::aggs) order: &'a [(TermsOrder, bool)],
    pub(in crate::aggs) show_errors: bool,
}

impl Selection<'_> {
    /// Returns the selection for one shard. If it is the only one (`is_lone`), no other shard can add documents, so
    /// `shard_min_doc_count` does not apply.
    pub(in crate::aggs) fn of_shard(mut self, is_lone: bool) -> Self {
        if is_lone {
            self.shard_min_doc_count = 0;
        }
        self
    }
}

/// `include` / `exclude`.
#[derive(Debug, Clone, PartialEq)]
pub enum TermsFilter {
    /// Regular expression for the whole key, as written (anchored).
    Pattern(String),
    /// Exactly these.
    Values(Vec<Value>),
    /// Keys whose hash falls into one of several partitions; only for `include`.
    Partition {
        /// Below `count`.
        partition: u32,
        /// Number of partitions.
        count: u32,
    },
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut terms = Terms {
        field: String::new(),
        size: SIZE,
        shard_size: None,
        min_doc_count: 1,
        shard_min_doc_count: 0,
        order: Vec::new(),
        missing: None,
        include: None,
        exclude: None,
        show_term_doc_count_error: false,
        format: None,
    };
    for (key, value) in request.body {
        let number = |least| parse::number(request, NAME, key, value, least);
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "size" => terms.size = number(1)? as usize,
            "shard_size" => terms.shard_size = Some(number(1)? as usize),
            "min_doc_count" => terms.min_doc_count = number(0)?,
            "order" => terms.order = order::parse(value)?,
            "missing" => terms.missing = Some(parse::scalar(NAME, key, value)?),
            "include" => terms.include = Some(TermsFilter::parse(key, value)?),
            "exclude" => terms.exclude = Some(TermsFilter::parse(key, value)?),
            "show_term_doc_count_error" => terms.show_term_doc_count_error = parse::flag(NAME, key, value)?,
            "format" => terms.format = Some(parse::text(NAME, key, value)?),
            // Hints for the computation that do not change the answer.
            "execution_hint" => drop(parse::text(NAME, key, value)?),
            "collect_mode" => match value.as_str() {
                Some("depth_first" | "breadth_first") => {}
                _ => {
                    return Err(Error::parsing(format!(
                        "[{NAME}] no [collect_mode] found for value {value}"
                    )));
                }
            },
            "shard_min_doc_count" => terms.shard_min_doc_count = number(0)?,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    terms.field = parse::required_field(field)?;
    order::check(&terms.order, request.sub)?;
    Ok(AggregationKind::Terms(terms))
}

impl TermsFilter {
    pub(in crate::aggs) fn parse(key: &str, value: &Value) -> Result<Self> {
        match value {
            Value::String(pattern) if pattern.len() > PATTERN_LENGTH_MAX => Err(Error::illegal_argument(format!(
                "The length of regex [{}] used in the [{key}] has exceeded the allowed maximum of [{PATTERN_LENGTH_MAX}]. \
                 This maximum can be set by changing the [index.max_regex_length] index level setting.",
                pattern.len()
            ))),
            Value::String(pattern) => Ok(Self::Pattern(pattern.clone())),
            Value::Array(values) if values.len() > FILTER_VALUES_MAX => Err(Error::illegal_argument(format!(
                "[{key}] lists [{}] values, more than the allowed maximum of [{FILTER_VALUES_MAX}]",
                values.len()
            ))),
            Value::Array(values) => {
                let scalars = values.iter().map(|value| parse::scalar(NAME, key, value));
                Ok(Self::Values(scalars.collect::<Result<_>>()?))
            }
            Value::Object(body) if key == "include" => Self::parse_partition(body),
            _ => Err(Error::parsing(format!(
                "Unrecognized token [{}] in [{key}]",
                token(value)
            ))),
        }
    }

    /// Parses `{"partition": 0, "num_partitions": 20}`.
    fn parse_partition(body: &Map<String, Value>) -> Result<Self> {
        let (mut partition, mut count) = (None, None);
        for (key, value) in body {
            let target = match key.as_str() {
                "partition" => &mut partition,
                "num_partitions" => &mut count,
                _ => {
                    return Err(Error::parsing(format!(
                        "Unknown parameter in Include/Exclude clause: {key}"
                    )));
                }
            };
            let number = crate::json::as_i64(value).and_then(|number| i32::try_from(number).ok());
            *target =
                Some(number.ok_or_else(|| {
                    Error::parsing(format!("[{key}] of an include clause is [{value}], not an integer"))
                })?);
        }
        let missing =
            |name: &str| Error::illegal_argument(format!("Missing [{name}] parameter for partition-based include"));
        let partition = partition.ok_or_else(|| missing("partition"))?;
        let count = count.ok_or_else(|| missing("num_partitions"))?;
        match (u32::try_from(partition), u32::try_from(count)) {
            (Ok(partition), Ok(count)) if partition < count => Ok(Self::Partition { partition, count }),
            _ => Err(Error::illegal_argument(format!(
                "Partition must be >=0 and < numPartition which is {count}"
            ))),
        }
    }

    pub(in crate::aggs) fn print(&self) -> Value {
        match self {
            Self::Partition { partition, count } => json!({"partition": partition, "num_partitions": count}),
            Self::Pattern(pattern) => json!(pattern),
            Self::Values(values) => json!(values),
        }
    }
}

impl Terms {
    /// Returns a request for all values of a field; no cut happens before all are counted.
    pub fn all_of(field: &str) -> Self {
        Self {
            field: field.to_owned(),
            size: usize::MAX,
            shard_size: None,
            min_doc_count: 1,
            shard_min_doc_count: 1,
            order: Vec::new(),
            missing: None,
            include: None,
            exclude: None,
            show_term_doc_count_error: false,
            format: None,
        }
    }

    /// Returns the number of candidates that each shard retains: as requested but at least `size`, or Elasticsearch's
    /// `size * 1.5 + 10`.
    pub fn shard_size(&self) -> usize {
        match self.shard_size {
            Some(size) => size.max(self.size),
            None => self.size.saturating_add(self.size / 2).saturating_add(10),
        }
    }

    pub(super) fn selection(&self) -> Selection<'_> {
        Selection {
            type_name: None,
            size: self.size,
            shard_size: self.shard_size(),
            min_doc_count: self.min_doc_count,
            shard_min_doc_count: self.shard_min_doc_count,
            order: &self.order,
            show_errors: self.show_term_doc_count_error,
        }
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("size".into(), json!(self.size));
        parse::put(&mut body, "shard_size", self.shard_size);
        body.insert("min_doc_count".into(), json!(self.min_doc_count));
        if self.shard_min_doc_count > 0 {
            body.insert("shard_min_doc_count".into(), json!(self.shard_min_doc_count));
        }
        order::put(&mut body, &self.order);
        parse::put(&mut body, "missing", self.missing.as_ref());
        parse::put(&mut body, "include", self.include.as_ref().map(TermsFilter::print));
        parse::put(&mut body, "exclude", self.exclude.as_ref().map(TermsFilter::print));
        parse::put_flag(&mut body, "show_term_doc_count_error", self.show_term_doc_count_error);
        parse::put(&mut body, "format", self.format.as_ref());
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"terms": {"field": "a"}}}));
        check_round_trip(json!({"x": {"terms": {"field": "a", "include": {"partition": 1, "num_partitions": 9}}}}));
        check_round_trip(json!({"x": {
            "terms": {
                "field": "a", "size": 3, "shard_size": 50, "min_doc_count": 0, "missing": "none",
                "order": [{"m.max": "desc"}, {"f>c": "asc"}, {"_key": "asc"}, {"_count": "desc"}],
                "include": "a.*", "exclude": ["b", 1], "show_term_doc_count_error": true, "format": "yyyy",
                "execution_hint": "map", "collect_mode": "breadth_first", "shard_min_doc_count": 2
            },
            "aggs": {
                "m": {"stats": {"field": "b"}},
                "f": {"filter": {"exists": {"field": "c"}}, "aggs": {"c": {"cardinality": {"field": "d"}}}}
            }
        }}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"terms": body}}), error);
        check(
            json!({}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check(
            json!({"field": "a", "size": 0}),
            "[size] must be greater than 0. Found [0] in [x]",
        );
        check(
            json!({"field": "a", "shard_size": -1}),
            "[shardSize] must be greater than 0. Found [-1] in [x]",
        );
        check(
            json!({"field": "a", "min_doc_count": -1}),
            "[minDocCount] must be greater than or equal to 0. Found [-1] in [x]",
        );
        check(
            json!({"field": "a", "size": 3_000_000_000_u64}),
            "[terms] failed to parse field [size]: [3000000000] is out of range for an integer",
        );
        check(json!({"field": "a", "foo": 0}), "[terms] unknown field [foo]");
        check(
            json!({"field": "a", "order": {"_count": "up"}}),
            "Unknown order direction [\"up\"]",
        );
        check(
            json!({"field": "a", "order": {}}),
            "Must specify exactly one field for [order]",
        );
        check(
            json!({"field": "a", "order": {"foo": "asc"}}),
            "Invalid aggregator order path [foo]. The provided aggregation [foo] either does not exist, or is a pipeline \
             aggregation and cannot be used to sort the buckets.",
        );
        check(
            json!({"field": "a", "include": {"partition": 2, "num_partitions": 2}}),
            "Partition must be >=0 and < numPartition which is 2",
        );
        check(
            json!({"field": "a", "include": {"partition": 2}}),
            "Missing [num_partitions] parameter for partition-based include",
        );
        check(
            json!({"field": "a", "exclude": {"partition": 0, "num_partitions": 2}}),
            "Unrecognized token [START_OBJECT] in [exclude]",
        );
        check_refused(
            json!({"x": {"terms": {"field": "a", "order": {"s": "asc"}}, "aggs": {"s": {"stats": {"field": "b"}}}}}),
            "Invalid aggregator order path [s]. [value] of aggregation [s] cannot be used to sort the buckets.",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"terms": {"field": "a.b"}}}), &["a.b"]);
    }
}
