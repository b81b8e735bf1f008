//! `extended_stats` aggregation: `stats` with variance, deviation and bounds around the mean.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::key::float;
use super::parse::{self, Request};
use super::{AggregationKind, Metric, MetricPartial, ValueFormat, stats};

pub(super) const NAME: &str = "extended_stats";

/// Default `sigma`: deviations between the mean and its bounds.
pub(super) const SIGMA: f64 = 2.0;

/// `extended_stats`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtendedStats {
    /// Field and value options.
    pub metric: Metric,
    /// Deviations between the mean and its bounds.
    pub sigma: f64,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut sigma = SIGMA;
    let metric = Metric::parse_with(NAME, request.body, |key, value| {
        if key == "sigma" {
            sigma = parse::double(NAME, key, value)?;
            if sigma < 0.0 {
                return Err(Error::illegal_argument("[sigma] must be a non-negative double"));
            }
        }
        Ok(key == "sigma")
    })?;
    Ok(AggregationKind::ExtendedStats(ExtendedStats { metric, sigma }))
}

impl ExtendedStats {
    pub(super) fn print(&self) -> Value {
        let mut body = self.metric.print();
        body["sigma"] = json!(self.sigma);
        body
    }
}

/// Partial result: that of `stats`, and the sum of squares.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExtendedStatsPartial {
    /// Statistics of the values.
    pub stats: MetricPartial,
    /// Statistics of the squares; only their sum is used.
    squares: MetricPartial,
}

impl ExtendedStatsPartial {
    /// Creates a partial result without values.
    pub fn new(format: ValueFormat) -> Self {
        Self {
            stats: MetricPartial::new(format),
            squares: MetricPartial::default(),
        }
    }

    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.stats.add(value);
        self.squares.add(value * value);
    }

    /// Adds another partial result.
    pub fn merge(&mut self, other: &Self) {
        self.stats.merge(&other.stats);
        self.squares.merge(&other.squares);
    }

    /// Returns a field by its printed name; `None`: unknown name.
    pub(super) fn field(&self, name: &str, sigma: f64) -> Option<f64> {
        let count = self.stats.count as f64;
        let mean = self.stats.average().unwrap_or(f64::NAN);
        let squared = || {
            let total = self.stats.total();
            // Rounding may make the difference slightly negative.
            (self.squares.total() - total * total / count).max(0.0)
        };
        let population = || squared() / count;
        let sampling = || squared() / (count - 1.0);
        Some(match name {
            "count" => count,
            "min" => self.stats.min,
            "max" => self.stats.max,
            "avg" => mean,
            "sum" => self.stats.total(),
            "sum_of_squares" => self.squares.total(),
            "variance" | "variance_population" => population(),
            "variance_sampling" => sampling(),
            "std_deviation" | "std_deviation_population" => population().sqrt(),
            "std_deviation_sampling" => sampling().sqrt(),
            "std_upper" | "std_upper_population" => mean + sigma * population().sqrt(),
            "std_lower" | "std_lower_population" => mean - sigma * population().sqrt(),
            "std_upper_sampling" => mean + sigma * sampling().sqrt(),
            "std_lower_sampling" => mean - sigma * sampling().sqrt(),
            _ => return None,
        })
    }
}

const FIELDS: [&str; 7] = [
    "sum_of_squares",
    "variance",
    "variance_population",
    "variance_sampling",
    "std_deviation",
    "std_deviation_population",
    "std_deviation_sampling",
];

const BOUNDS: [&str; 6] = [
    "upper",
    "lower",
    "upper_population",
    "lower_population",
    "upper_sampling",
    "lower_sampling",
];

pub(super) fn answer(partial: &ExtendedStatsPartial, sigma: f64) -> Map<String, Value> {
    let mut answer = stats::answer(&partial.stats);
    let is_empty = partial.stats.count == 0;
    let value = |name: &str| partial.field(name, sigma).filter(|_| !is_empty);
    let number = |name: &str| value(name).map_or(Value::Null, float);
    let format = &partial.stats.format;
    // Elasticsearch prints deviations of booleans as words, and the other values as JSON booleans.
    let text = |name: &str| match value(name) {
        Some(value) if name.starts_with("std_") => format.print(value).map(Value::from),
        Some(value) => format.print_one_of_several(value),
        None => None,
    };
    for name in FIELDS {
        answer.insert(name.into(), number(name));
    }
    let bounds: Map<String, Value> = BOUNDS
        .iter()
        .map(|name| ((*name).to_owned(), number(&format!("std_{name}"))))
        .collect();
    answer.insert("std_deviation_bounds".into(), bounds.into());
    for name in FIELDS {
        if let Some(text) = text(name) {
            answer.insert(format!("{name}_as_string"), text);
        }
    }
    let texts: Map<String, Value> = BOUNDS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), text(&format!("std_{name}"))?)))
        .collect();
    if !texts.is_empty() {
        answer.insert("std_deviation_bounds_as_string".into(), texts.into());
    }
    answer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip};
    use crate::aggs::{DecimalFormat, Partial};

    fn of(values: &[f64]) -> ExtendedStatsPartial {
        let mut partial = ExtendedStatsPartial::default();
        values.iter().for_each(|value| partial.add(*value));
        partial
    }

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"extended_stats": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"extended_stats": {"field": "a", "sigma": 3, "missing": 0, "format": "0.0"}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"extended_stats": {"field": "a", "sigma": -1}}}),
            "[sigma] must be a non-negative double",
        );
        check_refused(
            json!({"x": {"extended_stats": {"field": "a", "foo": 1}}}),
            "[extended_stats] unknown field [foo]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"extended_stats": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_partial(
            json!({"extended_stats": {"field": "n"}}),
            Partial::ExtendedStats(of(&[1.0, 2.0, 3.0, 6.0])),
            json!({
                "count": 4, "min": 1.0, "max": 6.0, "avg": 3.0, "sum": 12.0, "sum_of_squares": 50.0,
                "variance": 3.5, "variance_population": 3.5, "variance_sampling": 14.0 / 3.0,
                "std_deviation": 3.5_f64.sqrt(), "std_deviation_population": 3.5_f64.sqrt(),
                "std_deviation_sampling": (14.0_f64 / 3.0).sqrt(),
                "std_deviation_bounds": {
                    "upper": 3.0 + 2.0 * 3.5_f64.sqrt(), "lower": 3.0 - 2.0 * 3.5_f64.sqrt(),
                    "upper_population": 3.0 + 2.0 * 3.5_f64.sqrt(), "lower_population": 3.0 - 2.0 * 3.5_f64.sqrt(),
                    "upper_sampling": 3.0 + 2.0 * (14.0_f64 / 3.0).sqrt(),
                    "lower_sampling": 3.0 - 2.0 * (14.0_f64 / 3.0).sqrt()
                }
            }),
        );
    }

    #[test]
    fn one_value_has_no_sample() {
        let answer = answer(&of(&[4.0]), SIGMA);
        assert_eq!(
            (&answer["variance"], &answer["variance_sampling"]),
            (&json!(0.0), &json!("NaN"))
        );
        assert_eq!(answer["std_deviation_bounds"]["upper_sampling"], "NaN");
    }

    #[test]
    fn no_values_give_null() {
        let mut nothing = of(&[]);
        nothing.stats.format = ValueFormat::of_pattern(DecimalFormat::new("0.0").ok());
        let answer = answer(&nothing, SIGMA);
        assert_eq!((&answer["sum"], &answer["variance"]), (&json!(0.0), &Value::Null));
        assert_eq!(answer["std_deviation_bounds"]["lower"], Value::Null);
        assert!(!answer.contains_key("variance_as_string"));
    }

    #[test]
    fn formats() {
        let mut partial = of(&[1.0, 2.0]);
        partial.stats.format = ValueFormat::of_pattern(DecimalFormat::new("0.00").ok());
        let answer = answer(&partial, 1.0);
        assert_eq!(answer["std_deviation_as_string"], "0.50");
        assert_eq!(answer["std_deviation_bounds_as_string"]["upper"], "2.00");
    }

    #[test]
    fn booleans_are_words_only_as_deviations() {
        let mut partial = of(&[0.0, 1.0]);
        partial.stats.format = ValueFormat::Boolean;
        let answer = answer(&partial, SIGMA);
        assert_eq!(
            (&answer["avg_as_string"], &answer["variance_as_string"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(answer["std_deviation_as_string"], "true");
        assert_eq!(answer["std_deviation_bounds_as_string"]["upper"], "true");
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            values in prop::collection::vec(-100_000_i32..100_000, 0..50),
            parts in 1_usize..5,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mut merged = ExtendedStatsPartial::default();
            for part in (0..parts).rev() {
                merged.merge(&of(&values.iter().copied().skip(part).step_by(parts).collect::<Vec<_>>()));
            }
            prop_assert_eq!(merged, of(&values));
        }
    }
}
