//! `boxplot` aggregation: extremes, quartiles and whiskers.

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::digest::{self, Digest, DigestPartial, SortedDigest};
use super::key::float;
use super::parse::Request;
use super::{AggregationKind, Metric};

pub(super) const NAME: &str = "boxplot";

/// Whiskers extend to the outermost values within this multiple of the box height.
const WHISKER: f64 = 1.5;

/// `boxplot`.
#[derive(Debug, Clone, PartialEq)]
pub struct Boxplot {
    /// Field and value options.
    pub metric: Metric,
    /// Compression of the digest.
    pub compression: f64,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut compression = digest::COMPRESSION;
    let metric = Metric::parse_with(NAME, request.body, |key, value| {
        match key {
            "compression" => compression = digest::compression(NAME, value)?,
            "execution_hint" => digest::execution_hint(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(AggregationKind::Boxplot(Boxplot { metric, compression }))
}

impl Boxplot {
    /// Returns an empty digest.
    pub fn digest(&self) -> Digest {
        Digest::new(self.compression)
    }

    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("compression".into(), json!(self.compression));
        self.metric.print_with(body)
    }
}

/// Returns a field of the answer by name; `None`: unknown name. A field without a value is NaN; the extremes of no
/// values are infinite.
pub(super) fn field(digest: &SortedDigest, name: &str) -> Option<f64> {
    let quartile = |part: f64| digest.quantile(part).unwrap_or(f64::NAN);
    let reach = || WHISKER * (quartile(0.75) - quartile(0.25));
    let values = || digest.centroids().map(|(value, _)| value);
    Some(match name {
        "min" => digest.min().unwrap_or(f64::INFINITY),
        "max" => digest.max().unwrap_or(f64::NEG_INFINITY),
        "q1" => quartile(0.25),
        "q2" => quartile(0.5),
        "q3" => quartile(0.75),
        "lower" => {
            let end = quartile(0.25) - reach();
            values().find(|value| *value >= end).unwrap_or(f64::NAN)
        }
        "upper" => {
            let end = quartile(0.75) + reach();
            values().filter(|value| *value <= end).last().unwrap_or(f64::NAN)
        }
        _ => return None,
    })
}

/// Whether the answer has a field of this name.
pub(super) fn is_field(name: &str) -> bool {
    FIELDS.contains(&name)
}

const FIELDS: [&str; 7] = ["min", "max", "q1", "q2", "q3", "lower", "upper"];

pub(super) fn answer(partial: DigestPartial) -> Map<String, Value> {
    let digest = partial.digest.sorted();
    let values = FIELDS.map(|name| (name, field(&digest, name).unwrap_or(f64::NAN)));
    let mut answer = Map::new();
    for (name, value) in values {
        answer.insert(name.into(), float(value));
    }
    for (name, value) in values {
        if let Some(text) = partial.format.print(value).filter(|_| value.is_finite()) {
            answer.insert(format!("{name}_as_string"), text.into());
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip, digest};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"boxplot": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"boxplot": {
            "field": "a", "compression": 20, "execution_hint": "high_accuracy", "missing": 1, "format": "0.0"
        }}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"boxplot": {"field": "a", "execution_hint": "foo"}}}),
            "Invalid execution_hint [foo], valid values are [default, high_accuracy]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"boxplot": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_partial(
            json!({"boxplot": {"field": "n"}}),
            digest(&[1.0, 2.0, 3.0, 4.0, 5.0, 100.0, -50.0]),
            json!({"min": -50.0, "max": 100.0, "q1": 1.5, "q2": 3.0, "q3": 4.5, "lower": 1.0, "upper": 5.0}),
        );
        check_partial(
            json!({"boxplot": {"field": "n"}}),
            digest(&[]),
            json!({
                "min": "Infinity", "max": "-Infinity", "q1": "NaN", "q2": "NaN", "q3": "NaN", "lower": "NaN",
                "upper": "NaN"
            }),
        );
    }
}
