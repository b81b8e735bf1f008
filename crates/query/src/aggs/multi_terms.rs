//! `multi_terms` aggregation: a bucket per frequent combination of the values of several fields.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::order;
use super::parse::{self, Request, unknown_field};
use super::terms::Selection;
use super::{AggregationKind, TermsOrder};
use crate::json::token;

pub(super) const NAME: &str = "multi_terms";

/// Default `size`.
const SIZE: usize = 10;

/// Maximum fields in one combination.
const SOURCES_MAX: usize = 32;

/// `multi_terms`.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiTerms {
    /// At least two.
    pub sources: Vec<MultiTermsSource>,
    /// Buckets returned (default 10).
    pub size: usize,
    /// Candidates per shard; `None`: `size * 1.5 + 10`.
    pub shard_size: Option<usize>,
    /// Minimum documents of a bucket (default 1).
    pub min_doc_count: u64,
    /// Minimum documents of a candidate that a shard reports (default 0).
    pub shard_min_doc_count: u64,
    /// Sort keys with direction (true: ascending); default count descending, ties by key ascending.
    pub order: Vec<(TermsOrder, bool)>,
    /// Print each bucket's `doc_count_error_upper_bound`.
    pub show_term_doc_count_error: bool,
}

/// One field of a combination.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiTermsSource {
    /// Full path.
    pub field: String,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Date format of this field's part of the key.
    pub format: Option<String>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut terms = MultiTerms {
        sources: Vec::new(),
        size: SIZE,
        shard_size: None,
        min_doc_count: 1,
        shard_min_doc_count: 0,
        order: Vec::new(),
        show_term_doc_count_error: false,
    };
    for (key, value) in request.body {
        let number = |least| parse::number(request, NAME, key, value, least);
        match key.as_str() {
            "terms" => terms.sources = sources(value)?,
            "size" => terms.size = number(1)? as usize,
            "shard_size" => terms.shard_size = Some(number(1)? as usize),
            "min_doc_count" => terms.min_doc_count = number(0)?,
            "shard_min_doc_count" => terms.shard_min_doc_count = number(0)?,
            "order" => terms.order = order::parse(value)?,
            "show_term_doc_count_error" => terms.show_term_doc_count_error = parse::flag(NAME, key, value)?,
            // A hint for the computation that does not change the answer.
            "collect_mode" => drop(parse::text(NAME, key, value)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    if terms.sources.len() < 2 {
        return Err(Error::illegal_argument(format!(
            "The [terms] parameter in the aggregation [{}] must be present and have at least 2 fields or scripts.",
            request.name
        )));
    }
    order::check(&terms.order, request.sub)?;
    Ok(AggregationKind::MultiTerms(terms))
}

fn sources(value: &Value) -> Result<Vec<MultiTermsSource>> {
    let Value::Array(list) = value else {
        return Err(Error::parsing(format!(
            "[{NAME}] terms doesn't support values of type: {}",
            token(value)
        )));
    };
    if list.len() > SOURCES_MAX {
        return Err(Error::illegal_argument(format!(
            "[{NAME}] combines [{}] fields, more than the allowed maximum of [{SOURCES_MAX}]",
            list.len()
        )));
    }
    let one = |value: &Value| {
        let Value::Object(body) = value else {
            return Err(Error::parsing(format!(
                "[{NAME}] expected [START_OBJECT] under [terms], but got a [{}]",
                token(value)
            )));
        };
        let mut field = None;
        let (mut missing, mut format) = (None, None);
        for (key, value) in body {
            match key.as_str() {
                "field" => field = Some(parse::text(NAME, key, value)?),
                "missing" => missing = Some(parse::scalar(NAME, key, value)?),
                "format" => format = Some(parse::text(NAME, key, value)?),
                _ => return Err(unknown_field(NAME, key)),
            }
        }
        Ok(MultiTermsSource {
            field: parse::required_field(field)?,
            missing,
            format,
        })
    };
    list.iter().map(one).collect()
}

impl MultiTerms {
    /// Returns the number of candidates that each shard retains.
    pub fn shard_size(&self) -> usize {
        match self.shard_size {
            Some(size) => size.max(self.size),
            None => self.size.saturating_add(self.size / 2).saturating_add(10),
        }
    }

    pub(super) fn selection(&self) -> Selection<'_> {
        Selection {
            type_name: Some(NAME),
            size: self.size,
            shard_size: self.shard_size(),
            min_doc_count: self.min_doc_count,
            shard_min_doc_count: self.shard_min_doc_count,
            order: &self.order,
            show_errors: self.show_term_doc_count_error,
        }
    }

    pub(super) fn print(&self) -> Value {
        let one = |source: &MultiTermsSource| {
            let mut body = parse::body_of(&source.field);
            parse::put(&mut body, "missing", source.missing.as_ref());
            parse::put(&mut body, "format", source.format.as_ref());
            Value::Object(body)
        };
        let mut body = Map::new();
        body.insert("terms".into(), self.sources.iter().map(one).collect());
        body.insert("size".into(), json!(self.size));
        parse::put(&mut body, "shard_size", self.shard_size);
        body.insert("min_doc_count".into(), json!(self.min_doc_count));
        if self.shard_min_doc_count > 0 {
            body.insert("shard_min_doc_count".into(), json!(self.shard_min_doc_count));
        }
        order::put(&mut body, &self.order);
        parse::put_flag(&mut body, "show_term_doc_count_error", self.show_term_doc_count_error);
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.extend(self.sources.iter().map(|source| source.field.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, parsed};
    use crate::aggs::{Bucket, KeyBytes, Partial, Partials, TermsPartial, ValueFormat};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"multi_terms": {
            "terms": [{"field": "a"}, {"field": "b", "missing": 3, "format": "yyyy"}], "size": 5, "shard_size": 20,
            "min_doc_count": 2, "shard_min_doc_count": 1, "order": {"y": "desc"}, "show_term_doc_count_error": true,
            "collect_mode": "breadth_first"
        }, "aggs": {"y": {"max": {"field": "c"}}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"multi_terms": body}}), error);
        let few = "The [terms] parameter in the aggregation [x] must be present and have at least 2 fields or scripts.";
        check(json!({}), few);
        check(json!({"terms": [{"field": "a"}]}), few);
        check(
            json!({"terms": [{"field": "a"}, {}]}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check(
            json!({"terms": [{"field": "a"}, {"field": "b", "foo": 1}]}),
            "[multi_terms] unknown field [foo]",
        );
        check(
            json!({"terms": [{"field": "a"}, {"field": "b"}], "size": 0}),
            "[size] must be greater than 0. Found [0] in [x]",
        );
        check(
            json!({"terms": vec![json!({"field": "a"}); 33]}),
            "[multi_terms] combines [33] fields, more than the allowed maximum of [32]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"multi_terms": {"terms": [{"field": "b"}, {"field": "a"}]}}}),
            &["a", "b"],
        );
    }

    #[test]
    fn answers_with_lists_for_keys() {
        let aggregations =
            parsed(json!({"x": {"multi_terms": {"terms": [{"field": "a"}, {"field": "b"}, {"field": "c"}]}}}));
        let tuple = |name: &str, flag: i64, number: f64| {
            KeyBytes::Tuple(Box::new([
                KeyBytes::Str(name.into()),
                KeyBytes::I64(flag),
                KeyBytes::from_f64(number),
            ]))
        };
        let bucket = |doc_count| Bucket {
            doc_count,
            ..Bucket::default()
        };
        let partial = TermsPartial {
            buckets: [
                (tuple("b", 1, 0.5), bucket(1)),
                (tuple("b", 0, 2.0), bucket(1)),
                (tuple("a", 1, 1e10), bucket(3)),
            ]
            .into(),
            formats: vec![ValueFormat::Raw, ValueFormat::Boolean, ValueFormat::Raw],
            ..TermsPartial::default()
        };
        let partials = Partials([("x".to_owned(), Partial::Terms(partial))].into_iter().collect());
        assert_eq!(
            aggregations.finish(partials, 10).unwrap()["x"],
            json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
                {"key": ["a", true, 1e10], "key_as_string": "a|true|1.0E10", "doc_count": 3},
                {"key": ["b", false, 2.0], "key_as_string": "b|false|2.0", "doc_count": 1},
                {"key": ["b", true, 0.5], "key_as_string": "b|true|0.5", "doc_count": 1}
            ]})
        );
    }
}
