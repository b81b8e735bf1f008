//! `significant_terms` aggregation: values that are more frequent in the query's documents than in the background.

mod answer;
mod heuristic;

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Value, json};

use super::AggregationKind;
use super::parse::{self, Request, unknown_field};
use super::terms::TermsFilter;
use crate::query::Query;

pub use answer::SignificantTermsPartial;
pub(super) use answer::answer;
pub use heuristic::{Heuristic, Sets};

pub(super) const NAME: &str = "significant_terms";

/// Default `size`.
const SIZE: usize = 10;

/// Default `min_doc_count`, in foreground documents.
const MIN_DOC_COUNT: u64 = 3;

/// `significant_terms`.
#[derive(Debug, Clone, PartialEq)]
pub struct SignificantTerms {
    /// Full path.
    pub field: String,
    /// Buckets returned (default 10).
    pub size: usize,
    /// Candidates per shard; `None`: twice the number of `terms`.
    pub shard_size: Option<usize>,
    /// Minimum foreground documents of a bucket (default 3).
    pub min_doc_count: u64,
    /// Minimum documents of a candidate that a shard reports (default 0).
    pub shard_min_doc_count: u64,
    /// Measure of significance.
    pub heuristic: Heuristic,
    /// Query of the background documents; `None`: all documents.
    pub background_filter: Option<Box<Query>>,
    /// Only these keys.
    pub include: Option<TermsFilter>,
    /// Not these keys.
    pub exclude: Option<TermsFilter>,
    /// Format of keys.
    pub format: Option<String>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut heuristic = None;
    let mut terms = SignificantTerms {
        field: String::new(),
        size: SIZE,
        shard_size: None,
        min_doc_count: MIN_DOC_COUNT,
        shard_min_doc_count: 0,
        heuristic: Heuristic::Jlh,
        background_filter: None,
        include: None,
        exclude: None,
        format: None,
    };
    for (key, value) in request.body {
        let number = |least| parse::number(request, NAME, key, value, least);
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "size" => terms.size = number(1)? as usize,
            "shard_size" => terms.shard_size = Some(number(1)? as usize),
            "min_doc_count" => terms.min_doc_count = number(0)?,
            "shard_min_doc_count" => terms.shard_min_doc_count = number(0)?,
            "background_filter" => terms.background_filter = Some(Box::new(Query::parse(value)?)),
            "include" => terms.include = Some(TermsFilter::parse(key, value)?),
            "exclude" => terms.exclude = Some(TermsFilter::parse(key, value)?),
            "format" => terms.format = Some(parse::text(NAME, key, value)?),
            // A hint for the computation that does not change the answer.
            "execution_hint" => drop(parse::text(NAME, key, value)?),
            name => {
                let found = match value {
                    Value::Object(body) => Heuristic::parse(name, body)?,
                    _ => None,
                };
                let found = found.ok_or_else(|| unknown_field(NAME, key))?;
                if heuristic.replace(found).is_some() {
                    return Err(Error::parsing(format!(
                        "[{NAME}] has more than one significance heuristic"
                    )));
                }
            }
        }
    }
    terms.field = parse::required_field(field)?;
    terms.heuristic = heuristic.unwrap_or(Heuristic::Jlh);
    Ok(AggregationKind::SignificantTerms(terms))
}

impl SignificantTerms {
    /// Returns the number of candidates that each shard retains: more than for `terms`, because a value that is rare on
    /// a shard may still be significant.
    pub fn shard_size(&self) -> usize {
        match self.shard_size {
            Some(size) => size.max(self.size),
            None => self
                .size
                .saturating_add(self.size / 2)
                .saturating_add(10)
                .saturating_mul(2),
        }
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("size".into(), json!(self.size));
        parse::put(&mut body, "shard_size", self.shard_size);
        body.insert("min_doc_count".into(), json!(self.min_doc_count));
        body.insert("shard_min_doc_count".into(), json!(self.shard_min_doc_count));
        let (name, heuristic) = self.heuristic.print();
        body.insert(name.into(), heuristic);
        parse::put(
            &mut body,
            "background_filter",
            self.background_filter.as_ref().map(|query| query.print()),
        );
        parse::put(&mut body, "include", self.include.as_ref().map(TermsFilter::print));
        parse::put(&mut body, "exclude", self.exclude.as_ref().map(TermsFilter::print));
        parse::put(&mut body, "format", self.format.as_ref());
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
        if let Some(query) = &self.background_filter {
            fields.extend(query.fields());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"significant_terms": {"field": "a"}}}));
        for heuristic in ["jlh", "percentage", "chi_square", "mutual_information", "gnd"] {
            check_round_trip(json!({"x": {"significant_terms": {
                "field": "a", "size": 5, "shard_size": 7, "min_doc_count": 1, "shard_min_doc_count": 2, heuristic: {},
                "background_filter": {"exists": {"field": "b"}}, "include": "x.*", "exclude": ["y"],
                "execution_hint": "map"
            }, "aggs": {"m": {"max": {"field": "c"}}}}}));
        }
        check_round_trip(json!({"x": {"significant_terms": {
            "field": "a", "chi_square": {"include_negatives": true, "background_is_superset": false}
        }}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"significant_terms": body}}), error);
        check(
            json!({}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check(
            json!({"field": "a", "foo": {}}),
            "[significant_terms] unknown field [foo]",
        );
        check(
            json!({"field": "a", "jlh": {"include_negatives": true}}),
            "[jlh] unknown field [include_negatives]",
        );
        check(
            json!({"field": "a", "jlh": {}, "gnd": {}}),
            "[significant_terms] has more than one significance heuristic",
        );
        check(
            json!({"field": "a", "script_heuristic": {"script": {}}}),
            "parameter [script_heuristic] of aggregation [significant_terms] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"significant_text": {"field": "a"}}}),
            "aggregation [significant_text] is not implemented by firn",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"significant_terms": {"field": "b", "background_filter": {"exists": {"field": "a"}}}}}),
            &["a", "b"],
        );
    }
}
