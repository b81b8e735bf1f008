//! `string_stats` aggregation: lengths of strings, and frequencies of their characters.

use std::collections::BTreeMap;

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::key::float;
use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, ValueFormat};

pub(super) const NAME: &str = "string_stats";

/// `string_stats`.
#[derive(Debug, Clone, PartialEq)]
pub struct StringStats {
    /// Full path of a string field.
    pub field: String,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Print the frequency of each character.
    pub show_distribution: bool,
    /// Format of `…_as_string`.
    pub format: Option<String>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut stats = StringStats {
        field: String::new(),
        missing: None,
        show_distribution: false,
        format: None,
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "missing" => stats.missing = Some(parse::scalar(NAME, key, value)?),
            "show_distribution" => stats.show_distribution = parse::flag(NAME, key, value)?,
            "format" => {
                let pattern = parse::text(NAME, key, value)?;
                super::DecimalFormat::new(&pattern)?;
                stats.format = Some(pattern);
            }
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    stats.field = parse::required_field(field)?;
    Ok(AggregationKind::StringStats(stats))
}

impl StringStats {
    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        parse::put(&mut body, "missing", self.missing.as_ref());
        body.insert("show_distribution".into(), json!(self.show_distribution));
        parse::put(&mut body, "format", self.format.as_ref());
        Value::Object(body)
    }
}

/// Partial result. The number of distinct characters is small: real text uses some hundred.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StringStatsPartial {
    count: u64,
    /// Total length as Java counts it, in UTF-16 units.
    length_total: u64,
    length_min: Option<u64>,
    length_max: u64,
    characters: BTreeMap<char, u64>,
}

impl StringStatsPartial {
    /// Adds a string that occurs `count` times; returns the approximate bytes by which the result grew.
    pub fn add(&mut self, text: &str, count: u64) -> usize {
        let before = self.characters.len();
        let mut length = 0;
        for character in text.chars() {
            length += character.len_utf16() as u64;
            *self.characters.entry(character).or_default() += count;
        }
        self.count += count;
        self.length_total += length * count;
        self.length_min = Some(self.length_min.map_or(length, |min| min.min(length)));
        self.length_max = self.length_max.max(length);
        (self.characters.len() - before) * size_of::<(char, u64)>()
    }

    /// Adds another partial result.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.length_total += other.length_total;
        self.length_min = match (self.length_min, other.length_min) {
            (Some(own), Some(theirs)) => Some(own.min(theirs)),
            (own, theirs) => own.or(theirs),
        };
        self.length_max = self.length_max.max(other.length_max);
        for (character, count) in &other.characters {
            *self.characters.entry(*character).or_default() += count;
        }
    }

    /// Returns the entropy in bits per character.
    fn entropy(&self) -> f64 {
        let parts = self.parts();
        // Without characters the result is 0, not -0.
        0.0 - parts.map(|(_, part)| part * part.log2()).sum::<f64>()
    }

    fn parts(&self) -> impl Iterator<Item = (char, f64)> + '_ {
        let total: u64 = self.characters.values().sum();
        let characters = self.characters.iter();
        characters.map(move |(character, count)| (*character, *count as f64 / total as f64))
    }

    /// Returns a field by its printed name; `None`: unknown name.
    pub(super) fn field(&self, name: &str) -> Option<f64> {
        let some = |value: f64| if self.count > 0 { value } else { f64::NAN };
        Some(match name {
            "count" => self.count as f64,
            "min_length" => some(self.length_min.unwrap_or(0) as f64),
            "max_length" => some(self.length_max as f64),
            "avg_length" => some(self.length_total as f64 / self.count as f64),
            "entropy" => self.entropy(),
            _ => return None,
        })
    }
}

pub(super) fn answer(request: &StringStats, partial: &StringStatsPartial) -> Result<Map<String, Value>> {
    let mut answer = Map::new();
    let is_empty = partial.count == 0;
    let some = |value: Value| if is_empty { Value::Null } else { value };
    answer.insert("count".into(), partial.count.into());
    answer.insert("min_length".into(), some(partial.length_min.into()));
    answer.insert("max_length".into(), some(partial.length_max.into()));
    answer.insert(
        "avg_length".into(),
        some(float(partial.field("avg_length").unwrap_or(f64::NAN))),
    );
    answer.insert("entropy".into(), float(partial.entropy()));
    if request.show_distribution {
        let mut parts: Vec<(char, f64)> = partial.parts().collect();
        // Stable: equally frequent characters stay in character order.
        parts.sort_by(|(_, left), (_, right)| right.total_cmp(left));
        let parts: Map<String, Value> = parts
            .into_iter()
            .map(|(name, part)| (name.to_string(), float(part)))
            .collect();
        answer.insert("distribution".into(), some(parts.into()));
    }
    let format = match request.format.as_deref().filter(|_| !is_empty) {
        Some(pattern) => ValueFormat::of_pattern(Some(super::DecimalFormat::new(pattern)?)),
        None => ValueFormat::Raw,
    };
    for name in ["min_length", "max_length", "avg_length", "entropy"] {
        if let Some(text) = partial.field(name).and_then(|value| format.print(value)) {
            answer.insert(format!("{name}_as_string"), text.into());
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggs::Partial;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip};

    fn of(texts: &[&str]) -> StringStatsPartial {
        let mut partial = StringStatsPartial::default();
        texts.iter().for_each(|text| {
            partial.add(text, 1);
        });
        partial
    }

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"string_stats": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"string_stats": {
            "field": "a", "missing": "-", "show_distribution": true, "format": "0.0"
        }}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"string_stats": {"field": "a", "foo": 1}}}),
            "[string_stats] unknown field [foo]",
        );
        check_refused(
            json!({"x": {"string_stats": {"field": "a", "format": "abc"}}}),
            "Malformed pattern \"abc\"",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"string_stats": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_partial(
            json!({"string_stats": {"field": "a", "show_distribution": true, "format": "0.0"}}),
            Partial::StringStats(of(&["ab", "aa", "😀"])),
            json!({
                "count": 3, "min_length": 2, "max_length": 2, "avg_length": 2.0, "entropy": 1.3709505944546687,
                "distribution": {"a": 0.6, "b": 0.2, "😀": 0.2},
                "min_length_as_string": "2.0", "max_length_as_string": "2.0", "avg_length_as_string": "2.0",
                "entropy_as_string": "1.4"
            }),
        );
        check_partial(
            json!({"string_stats": {"field": "a"}}),
            Partial::StringStats(of(&[])),
            json!({"count": 0, "min_length": null, "max_length": null, "avg_length": null, "entropy": 0.0}),
        );
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            texts in prop::collection::vec("[a-dé]{0,5}", 0..30),
            parts in 1_usize..5,
        ) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut merged = StringStatsPartial::default();
            for part in (0..parts).rev() {
                merged.merge(&of(&texts.iter().copied().skip(part).step_by(parts).collect::<Vec<_>>()));
            }
            prop_assert_eq!(merged, of(&texts));
        }
    }
}
