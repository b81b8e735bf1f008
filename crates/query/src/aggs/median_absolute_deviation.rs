//! `median_absolute_deviation` aggregation: median distance of the values from their median.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::digest::{Digest, DigestPartial, execution_hint};
use super::parse::{self, Request};
use super::{AggregationKind, Metric};

pub(super) const NAME: &str = "median_absolute_deviation";

/// Default compression: finer than for percentiles, because a deviation is small compared to the values.
const COMPRESSION: f64 = 1000.0;

/// `median_absolute_deviation`.
#[derive(Debug, Clone, PartialEq)]
pub struct MedianAbsoluteDeviation {
    /// Field and value options.
    pub metric: Metric,
    /// Compression of the digest.
    pub compression: f64,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut compression = COMPRESSION;
    let metric = Metric::parse_with(NAME, request.body, |key, value| {
        match key {
            "compression" => {
                compression = parse::double(NAME, key, value)?;
                if compression <= 0.0 {
                    return Err(Error::illegal_argument(format!(
                        "[compression] must be greater than 0. Found [{compression:?}] in [{}]",
                        request.name
                    )));
                }
            }
            "execution_hint" => execution_hint(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(AggregationKind::MedianAbsoluteDeviation(MedianAbsoluteDeviation {
        metric,
        compression,
    }))
}

impl MedianAbsoluteDeviation {
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

/// Returns the answer; null without values.
pub(super) fn answer(partial: DigestPartial) -> Map<String, Value> {
    let value = partial.digest.sorted().median_absolute_deviation();
    partial.format.print_value(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip, digest};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"median_absolute_deviation": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"median_absolute_deviation": {
            "field": "a", "compression": 20, "missing": 1, "format": "0.0"
        }}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"median_absolute_deviation": {"field": "a", "compression": 0}}}),
            "[compression] must be greater than 0. Found [0.0] in [x]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"median_absolute_deviation": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        let definition = json!({"median_absolute_deviation": {"field": "n"}});
        check_partial(
            definition.clone(),
            digest(&[1.0, 2.0, 3.0, 4.0, 10.5]),
            json!({"value": 1.0}),
        );
        check_partial(definition, digest(&[]), json!({"value": null}));
    }
}
