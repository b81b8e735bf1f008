//! `diversified_sampler` aggregation: one bucket of the best documents, with few of the same value.

use firn_model::Result;
use serde_json::{Value, json};

use super::AggregationKind;
use super::parse::{self, Request, unknown_field};
use super::sampler::{SHARD_SIZE, check_below};

pub(super) const NAME: &str = "diversified_sampler";

/// `diversified_sampler`. Documents without a value count as documents with the same value.
#[derive(Debug, Clone, PartialEq)]
pub struct DiversifiedSampler {
    /// Full path of the field whose values are limited.
    pub field: String,
    /// Number of best documents that each shard takes (default 100).
    pub shard_size: usize,
    /// Maximum documents per value (default 1).
    pub max_docs_per_value: usize,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut sampler = DiversifiedSampler {
        field: String::new(),
        shard_size: SHARD_SIZE,
        max_docs_per_value: 1,
    };
    for (key, value) in request.body {
        let number = |least| parse::number(request, NAME, key, value, least);
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "shard_size" => sampler.shard_size = number(0)? as usize,
            "max_docs_per_value" => sampler.max_docs_per_value = number(0)? as usize,
            // A hint for the computation that does not change the answer.
            "execution_hint" => drop(parse::text(NAME, key, value)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    sampler.field = parse::required_field(field)?;
    check_below(request)?;
    Ok(AggregationKind::DiversifiedSampler(sampler))
}

impl DiversifiedSampler {
    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("shard_size".into(), json!(self.shard_size));
        body.insert("max_docs_per_value".into(), json!(self.max_docs_per_value));
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {
            "diversified_sampler": {"field": "a", "shard_size": 7, "max_docs_per_value": 2, "execution_hint": "map"},
            "aggs": {"y": {"max": {"field": "b"}}}
        }}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"diversified_sampler": {"field": "a"}}}),
            "Sampler aggregation must be used with child aggregations.",
        );
        check_refused(
            json!({"x": {"diversified_sampler": {}, "aggs": {"y": {"max": {"field": "b"}}}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"diversified_sampler": {"field": "a", "size": 1}}}),
            "[diversified_sampler] unknown field [size]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"diversified_sampler": {"field": "c"}, "aggs": {"y": {"max": {"field": "b"}}}}}),
            &["b", "c"],
        );
    }
}
