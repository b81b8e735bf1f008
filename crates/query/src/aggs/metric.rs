//! Common part of single-value metrics: the field, and the partial result.

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::ValueFormat;
use super::parse::{self, unknown_field};

/// Request of `min`, `max`, `sum`, `avg`, `stats`, `value_count`.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Full path.
    pub field: String,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Format of `value_as_string`.
    pub format: Option<String>,
}

impl Metric {
    /// Parses the body of the metric named `kind`.
    pub(super) fn parse(kind: &str, body: &Map<String, Value>) -> Result<Self> {
        Self::parse_with(kind, body, |_, _| Ok(false))
    }

    /// Like [`Metric::parse`], but passes further keys to `other`, which returns whether it knows them.
    pub(super) fn parse_with(
        kind: &str,
        body: &Map<String, Value>,
        mut other: impl FnMut(&str, &Value) -> Result<bool>,
    ) -> Result<Self> {
        let mut field = None;
        let mut metric = Self {
            field: String::new(),
            missing: None,
            format: None,
        };
        for (key, value) in body {
            match key.as_str() {
                "field" => field = Some(parse::text(kind, key, value)?),
                "missing" => metric.missing = Some(parse::scalar(kind, key, value)?),
                "format" => metric.format = Some(parse::text(kind, key, value)?),
                _ => {
                    if !other(key, value)? {
                        return Err(unknown_field(kind, key));
                    }
                }
            }
        }
        metric.field = parse::required_field(field)?;
        Ok(metric)
    }

    pub(super) fn print(&self) -> Value {
        self.print_with(Map::new())
    }

    /// Like [`Metric::print`], but adds to `body`.
    pub(super) fn print_with(&self, mut body: Map<String, Value>) -> Value {
        body.insert("field".into(), json!(self.field));
        parse::put(&mut body, "missing", self.missing.as_ref());
        parse::put(&mut body, "format", self.format.as_ref());
        Value::Object(body)
    }
}

/// Partial result of the single-value metrics: enough for any of them.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPartial {
    /// Number of values.
    pub count: u64,
    /// Sum of the values (Kahan compensated).
    pub sum: f64,
    /// Rounding error of `sum`: the exact sum is about `sum + sum_compensation`.
    pub sum_compensation: f64,
    /// Infinity if there are no values.
    pub min: f64,
    /// Minus infinity if there are no values.
    pub max: f64,
    /// Format of the values.
    pub format: ValueFormat,
}

impl Default for MetricPartial {
    fn default() -> Self {
        Self::new(ValueFormat::Raw)
    }
}

impl MetricPartial {
    /// Creates a partial result without values.
    pub fn new(format: ValueFormat) -> Self {
        Self {
            count: 0,
            sum: 0.0,
            sum_compensation: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            format,
        }
    }

    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.add_to_sum(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds another partial result.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.add_to_sum(other.sum);
        self.sum_compensation += other.sum_compensation;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.format.merge(&other.format);
    }

    /// Returns the sum; 0 without values.
    pub fn total(&self) -> f64 {
        if self.sum.is_finite() {
            self.sum + self.sum_compensation
        } else {
            self.sum
        }
    }

    /// Returns the mean; `None` without values.
    pub fn average(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total() / self.count as f64)
    }

    /// Neumaier's variant of Kahan summation: it is also exact when the addend is larger than the sum.
    #[inline]
    fn add_to_sum(&mut self, value: f64) {
        let sum = self.sum + value;
        if sum.is_finite() {
            self.sum_compensation += if self.sum.abs() >= value.abs() {
                (self.sum - sum) + value
            } else {
                (value - sum) + self.sum
            };
        }
        self.sum = sum;
    }

    /// See [`ValueFormat::print_value`].
    pub(super) fn print_value(&self, value: Option<f64>) -> Map<String, Value> {
        self.format.print_value(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sums_do_not_lose_small_values_beside_large_ones() {
        let mut partial = MetricPartial::default();
        for value in [1e100, 1.0, -1e100, 1.0] {
            partial.add(value);
        }
        assert_eq!(partial.total(), 2.0);
        let mut tenths = MetricPartial::default();
        (0..1_000_000).for_each(|_| tenths.add(0.1));
        assert!((tenths.total() - 100_000.0).abs() < 1e-8, "{}", tenths.total());
    }

    #[test]
    fn infinite_values_stay_infinite() {
        let mut partial = MetricPartial::default();
        partial.add(f64::MAX);
        partial.add(f64::MAX);
        partial.add(1.0);
        assert_eq!(partial.total(), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            values in prop::collection::vec(-1_000_000_i64..1_000_000, 0..50),
            parts in 1_usize..5,
        ) {
            let of = |values: &mut dyn Iterator<Item = i64>| {
                let mut partial = MetricPartial::default();
                values.for_each(|value| partial.add(value as f64));
                partial
            };
            let whole = of(&mut values.iter().copied());
            let mut merged = MetricPartial::default();
            for part in (0..parts).rev() {
                merged.merge(&of(&mut values.iter().copied().skip(part).step_by(parts)));
            }
            prop_assert_eq!(merged, whole);
        }
    }
}
