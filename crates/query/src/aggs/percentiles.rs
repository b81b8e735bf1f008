//! `percentiles` aggregation: values below which given parts of all values lie.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::digest::{DigestMethod, DigestPartial};
use super::parse::{self, Request};
use super::percents::{self, PERCENTS};
use super::{AggregationKind, Metric};

pub(super) const NAME: &str = "percentiles";

/// `percentiles`.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles {
    /// Field and value options.
    pub metric: Metric,
    /// Requested percents, ascending.
    pub percents: Vec<f64>,
    /// Return an object by name instead of a list.
    pub keyed: bool,
    /// Digest options.
    pub method: DigestMethod,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut percents = PERCENTS.to_vec();
    let (metric, keyed, method) = parse_ranked(NAME, request, |key, value| {
        if key == "percents" {
            percents = percents::parse_percents(request.name, key, value)?;
        }
        Ok(key == "percents")
    })?;
    Ok(AggregationKind::Percentiles(Percentiles {
        metric,
        percents,
        keyed,
        method,
    }))
}

/// Parses the options that `percentiles` and `percentile_ranks` share; passes further keys to `other`, which returns
/// whether it knows them.
pub(super) fn parse_ranked(
    kind: &str,
    request: &Request<'_>,
    mut other: impl FnMut(&str, &Value) -> Result<bool>,
) -> Result<(Metric, bool, DigestMethod)> {
    let (mut keyed, mut method) = (true, None);
    let metric = Metric::parse_with(kind, request.body, |key, value| {
        match key {
            "keyed" => keyed = parse::flag(kind, key, value)?,
            "tdigest" | "hdr" => {
                if method.replace(DigestMethod::parse(key, value)?).is_some() {
                    return Err(Error::illegal_argument(
                        "Only one percentiles method should be declared.",
                    ));
                }
            }
            _ => return other(key, value),
        }
        Ok(true)
    })?;
    Ok((metric, keyed, method.unwrap_or_default()))
}

impl Percentiles {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("percents".into(), json!(self.percents));
        body.insert("keyed".into(), json!(self.keyed));
        self.method.print(&mut body);
        self.metric.print_with(body)
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self.method {
            DigestMethod::TDigest(_) => "tdigest_percentiles",
            DigestMethod::Hdr(_) => "hdr_percentiles",
        }
    }
}

pub(super) fn answer(percentiles: &Percentiles, partial: DigestPartial) -> Map<String, Value> {
    let digest = partial.digest.sorted();
    let percents = percentiles.percents.iter();
    let values = percents.map(|percent| (*percent, digest.quantile(percent / 100.0)));
    percents::print(values, percentiles.keyed, &partial.format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip, digest};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"percentiles": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"percentiles": {
            "field": "a", "percents": [99.9, 50], "keyed": false, "tdigest": {"compression": 200, "execution_hint": "default"},
            "missing": 1, "format": "0.0"
        }}}));
        check_round_trip(
            json!({"x": {"percentiles": {"field": "a", "hdr": {"number_of_significant_value_digits": 2}}}}),
        );
    }

    #[test]
    fn refuses() {
        let check = |more: Value, reason: &str| {
            let mut body = json!({"field": "a"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            check_refused(json!({"x": {"percentiles": body}}), reason);
        };
        check(json!({"percents": []}), "[percents] must not be empty: [x]");
        check(
            json!({"percents": [101]}),
            "percent must be in [0,100], got [101.0]: [x]",
        );
        check(
            json!({"tdigest": {"compression": -1}}),
            "[compression] must be greater than or equal to 0. Found [-1.0]",
        );
        check(json!({"tdigest": {"foo": 1}}), "[tdigest] unknown field [foo]");
        check(
            json!({"hdr": {"number_of_significant_value_digits": 9}}),
            "[numberOfSignificantValueDigits] must be between 0 and 5",
        );
        check(
            json!({"hdr": {}, "tdigest": {}}),
            "Only one percentiles method should be declared.",
        );
        check(json!({"foo": 1}), "[percentiles] unknown field [foo]");
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"percentiles": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_partial(
            json!({"percentiles": {"field": "n", "percents": [95, 0, 50, 99.9]}}),
            digest(&[1.0, 2.0, 3.0, 4.0, 5.0]),
            json!({"values": {"0.0": 1.0, "50.0": 3.0, "95.0": 4.8, "99.9": 4.996}}),
        );
        check_partial(
            json!({"percentiles": {"field": "n", "percents": [50], "keyed": false}}),
            digest(&[1.0, 2.0]),
            json!({"values": [{"key": 50.0, "value": 1.5}]}),
        );
        check_partial(
            json!({"percentiles": {"field": "n", "percents": [50]}}),
            digest(&[]),
            json!({"values": {"50.0": null}}),
        );
    }
}
