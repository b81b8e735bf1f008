//! `percentile_ranks` aggregation: parts of all values that lie below given values.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::digest::{DigestMethod, DigestPartial};
use super::parse::Request;
use super::percentiles::parse_ranked;
use super::{AggregationKind, Metric, percents};

pub(super) const NAME: &str = "percentile_ranks";

/// `percentile_ranks`.
#[derive(Debug, Clone, PartialEq)]
pub struct PercentileRanks {
    /// Field and value options.
    pub metric: Metric,
    /// Requested values, ascending.
    pub values: Vec<f64>,
    /// Return an object by name instead of a list.
    pub keyed: bool,
    /// Digest options.
    pub method: DigestMethod,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut values = None;
    let (metric, keyed, method) = parse_ranked(NAME, request, |key, value| {
        if key == "values" {
            values = Some(percents::parse_numbers(NAME, key, value)?);
        }
        Ok(key == "values")
    })?;
    let mut values =
        values.ok_or_else(|| Error::illegal_argument(format!("[values] must not be null: [{}]", request.name)))?;
    if values.is_empty() {
        return Err(Error::illegal_argument(format!(
            "[values] must not be an empty array: [{}]",
            request.name
        )));
    }
    values.sort_unstable_by(f64::total_cmp);
    Ok(AggregationKind::PercentileRanks(PercentileRanks {
        metric,
        values,
        keyed,
        method,
    }))
}

impl PercentileRanks {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("values".into(), json!(self.values));
        body.insert("keyed".into(), json!(self.keyed));
        self.method.print(&mut body);
        self.metric.print_with(body)
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self.method {
            DigestMethod::TDigest(_) => "tdigest_percentile_ranks",
            DigestMethod::Hdr(_) => "hdr_percentile_ranks",
        }
    }
}

/// Ranks are percents; nevertheless the field's format prints them, as in Elasticsearch.
pub(super) fn answer(ranks: &PercentileRanks, partial: DigestPartial) -> Map<String, Value> {
    let digest = partial.digest.sorted();
    let values = ranks.values.iter();
    let values = values.map(|value| (*value, digest.rank(*value).map(|part| part * 100.0)));
    percents::print(values, ranks.keyed, &partial.format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip, digest};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"percentile_ranks": {"field": "a.b", "values": [3, 1]}}}));
        check_round_trip(json!({"x": {"percentile_ranks": {
            "field": "a", "values": [1], "keyed": false, "hdr": {}, "missing": 1, "format": "0.0"
        }}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"percentile_ranks": {"field": "a"}}}),
            "[values] must not be null: [x]",
        );
        check_refused(
            json!({"x": {"percentile_ranks": {"field": "a", "values": []}}}),
            "[values] must not be an empty array: [x]",
        );
        check_refused(
            json!({"x": {"percentile_ranks": {"field": "a", "percents": [1]}}}),
            "[percentile_ranks] unknown field [percents]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"percentile_ranks": {"field": "a.b", "values": [1]}}}),
            &["a.b"],
        );
    }

    #[test]
    fn answers() {
        check_partial(
            json!({"percentile_ranks": {"field": "n", "values": [20, 0, 1, 2.5, 3]}}),
            digest(&[1.0, 2.0, 3.0, 4.0, 10.5]),
            json!({"values": {"0.0": 0.0, "1.0": 10.0, "2.5": 40.0, "3.0": 50.0, "20.0": 100.0}}),
        );
        check_partial(
            json!({"percentile_ranks": {"field": "n", "values": [1], "keyed": false}}),
            digest(&[]),
            json!({"values": [{"key": 1.0, "value": null}]}),
        );
    }
}
