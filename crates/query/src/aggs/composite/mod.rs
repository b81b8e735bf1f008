//! `composite` aggregation: all combinations of the values of its sources, page by page.

mod answer;
mod source;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::AggregationKind;
use super::parse::{self, Request, unknown_field};
use crate::json::token;

pub use answer::CompositePartial;
pub(super) use answer::answer;
pub use source::{CompositeSource, SourceKind};

pub(super) const NAME: &str = "composite";

/// Default buckets of a page.
const SIZE: usize = 10;

/// Maximum sources in one aggregation.
const SOURCES_MAX: usize = 32;

/// `composite`.
#[derive(Debug, Clone, PartialEq)]
pub struct Composite {
    /// Buckets of a page (default 10).
    pub size: usize,
    /// The first varies slowest.
    pub sources: Vec<CompositeSource>,
    /// Last key of the previous page, by source.
    pub after: Option<Vec<Value>>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut composite = Composite {
        size: SIZE,
        sources: Vec::new(),
        after: None,
    };
    let mut after = None;
    for (key, value) in request.body {
        match key.as_str() {
            "size" => composite.size = parse::number(request, NAME, key, value, 1)? as usize,
            "sources" => composite.sources = sources(value)?,
            "after" => match value {
                Value::Object(body) => after = Some(body),
                other => {
                    return Err(Error::parsing(format!(
                        "[{NAME}] after doesn't support values of type: {}",
                        token(other)
                    )));
                }
            },
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    if composite.sources.is_empty() {
        return Err(Error::illegal_argument("Composite [sources] cannot be null or empty"));
    }
    composite.after = after.map(|after| composite.read_after(after)).transpose()?;
    Ok(AggregationKind::Composite(composite))
}

fn sources(value: &Value) -> Result<Vec<CompositeSource>> {
    let list = match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(_) => vec![value],
        other => {
            return Err(Error::parsing(format!(
                "[{NAME}] sources doesn't support values of type: {}",
                token(other)
            )));
        }
    };
    if list.len() > SOURCES_MAX {
        return Err(Error::illegal_argument(format!(
            "[{NAME}] has [{}] sources, more than the allowed maximum of [{SOURCES_MAX}]",
            list.len()
        )));
    }
    let sources: Vec<CompositeSource> = list.into_iter().map(CompositeSource::parse).collect::<Result<_>>()?;
    for (position, source) in sources.iter().enumerate() {
        if sources[..position].iter().any(|other| other.name == source.name) {
            return Err(Error::illegal_argument(format!(
                "Composite source names must be unique, found duplicates: [{}]",
                source.name
            )));
        }
    }
    Ok(sources)
}

/// Order of a composite's keys, and how many of the first ones are retained.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositeOrder {
    size: usize,
    /// (ascending, nulls first)
    sources: Vec<(bool, bool)>,
}

impl CompositeOrder {
    /// Compares two tuples in the order of the request.
    fn compare(&self, left: &super::KeyBytes, right: &super::KeyBytes) -> Ordering {
        use super::KeyBytes;
        let (KeyBytes::Tuple(left), KeyBytes::Tuple(right)) = (left, right) else {
            return left.cmp(right);
        };
        for ((left, right), (ascending, nulls_first)) in left.iter().zip(right.iter()).zip(&self.sources) {
            let ordering = match (left, right) {
                (KeyBytes::Null, KeyBytes::Null) => Ordering::Equal,
                (KeyBytes::Null, _) if *nulls_first => Ordering::Less,
                (KeyBytes::Null, _) => Ordering::Greater,
                (_, KeyBytes::Null) if *nulls_first => Ordering::Greater,
                (_, KeyBytes::Null) => Ordering::Less,
                (left, right) if *ascending => left.cmp(right),
                (left, right) => right.cmp(left),
            };
            if ordering.is_ne() {
                return ordering;
            }
        }
        Ordering::Equal
    }
}

impl Composite {
    /// Returns the order of the keys.
    pub fn order(&self) -> CompositeOrder {
        CompositeOrder {
            size: self.size,
            sources: self
                .sources
                .iter()
                .map(|source| (source.ascending, source.nulls_first()))
                .collect(),
        }
    }

    fn read_after(&self, after: &Map<String, Value>) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            match after.get(&source.name) {
                Some(Value::Null) if !source.missing_bucket => {
                    return Err(Error::illegal_argument(format!(
                        "Missing value for [after.{}]",
                        source.name
                    )));
                }
                Some(value @ (Value::Null | Value::String(_) | Value::Number(_) | Value::Bool(_))) => {
                    values.push(value.clone());
                }
                Some(other) => {
                    return Err(Error::illegal_argument(format!(
                        "Invalid value for [after.{}]: a {} is not a valid key",
                        source.name,
                        token(other)
                    )));
                }
                None => {
                    return Err(Error::illegal_argument(format!(
                        "Missing value for [after.{}]",
                        source.name
                    )));
                }
            }
        }
        if after.len() != self.sources.len() {
            return Err(Error::illegal_argument(format!(
                "[after] has {} value(s) but [sources] has {}",
                after.len(),
                self.sources.len()
            )));
        }
        Ok(values)
    }

    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("size".into(), json!(self.size));
        body.insert(
            "sources".into(),
            self.sources.iter().map(CompositeSource::print).collect(),
        );
        if let Some(after) = &self.after {
            let names = self.sources.iter().map(|source| source.name.clone());
            body.insert(
                "after".into(),
                names.zip(after.iter().cloned()).collect::<Map<_, _>>().into(),
            );
        }
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.extend(self.sources.iter().map(|source| source.field.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"composite": {"sources": [{"a": {"terms": {"field": "f"}}}]}}}));
        check_round_trip(json!({"x": {
            "composite": {
                "size": 3,
                "sources": [
                    {"a": {"terms": {"field": "f", "order": "desc", "missing_bucket": true, "missing_order": "first"}}},
                    {"h": {"histogram": {"field": "n", "interval": 5}}},
                    {"d": {"date_histogram": {"field": "t", "calendar_interval": "1M", "time_zone": "+01:00", "offset": "1h",
                                              "format": "yyyy"}}},
                    {"e": {"date_histogram": {"field": "t", "fixed_interval": "3h", "order": "ASC"}}}
                ],
                "after": {"a": null, "h": 5, "d": "2020", "e": 77}
            },
            "aggs": {"y": {"max": {"field": "b"}}}
        }}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"composite": body}}), error);
        let terms = |name: &str, body: Value| json!({ name: {"terms": body} });
        check(json!({}), "Composite [sources] cannot be null or empty");
        check(json!({"sources": []}), "Composite [sources] cannot be null or empty");
        check(json!({"sources": [{"a": {"foo": {}}}]}), "invalid source type: foo");
        check(
            json!({"sources": [terms("a", json!({}))]}),
            "value source config is invalid; must have either a field or a script",
        );
        check(
            json!({"sources": [terms("a", json!({"field": "f"})), terms("a", json!({"field": "g"}))]}),
            "Composite source names must be unique, found duplicates: [a]",
        );
        check(
            json!({"sources": [terms("a", json!({"field": "f", "missing_order": "last"}))]}),
            "missing_order requires missing_bucket to be true",
        );
        check(
            json!({"sources": [terms("a", json!({"field": "f", "interval": 1}))]}),
            "[terms] unknown field [interval]",
        );
        check(
            json!({"sources": [{"d": {"date_histogram": {"field": "t"}}}]}),
            "Invalid interval specified, must be non-null and non-empty",
        );
        check(
            json!({"sources": [{"d": {"histogram": {"field": "n", "interval": 0}}}]}),
            "[interval] must be greater than 0 for [histogram] source",
        );
        check(
            json!({"sources": [terms("a", json!({"field": "f"}))], "after": {"b": 1}}),
            "Missing value for [after.a]",
        );
        check(
            json!({"sources": [terms("a", json!({"field": "f"}))], "after": {"a": 1, "b": 1}}),
            "[after] has 2 value(s) but [sources] has 1",
        );
        check(
            json!({"sources": [terms("a", json!({"field": "f"}))], "size": 0}),
            "[size] must be greater than 0. Found [0] in [x]",
        );
        let below = json!({"c": {"composite": {"sources": [terms("a", json!({"field": "f"}))]}}});
        check_refused(
            json!({"x": {"terms": {"field": "f"}, "aggs": below}}),
            "[composite] aggregation cannot be used with a parentAggregation of type: [terms]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"composite": {"sources": [{"a": {"terms": {"field": "g"}}}, {"b": {"terms": {"field": "f"}}}]}}}),
            &["f", "g"],
        );
    }
}
