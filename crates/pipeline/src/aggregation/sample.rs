//! Samples: what the aggregates of a pipeline read of one document, in one pass over its JSON.

use std::collections::HashMap;

use firn_model::dates::DateFormat;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::definition::{AggregateDefinition, MetricDefinition};
use crate::murmur3::murmur3;

const TIMESTAMP: &str = "@timestamp";

/// What the aggregates read of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Time of the event, ms since the epoch.
    pub(crate) time_ms: i64,
    /// In the order of the aggregates; `None`: the aggregate is of a rule that the event does not match, or that has no key for it.
    pub(crate) parts: Vec<Option<Part>>,
}

/// What an aggregate reads of a document: the key as a JSON array, and the value of each metric.
pub(crate) type Part = (Box<str>, Vec<Measured>);

/// Value of a metric in a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Measured {
    /// The field is absent or has no number.
    Nothing,
    /// For sums, least and greatest values. Of a list: computed over its numbers.
    Number(f64),
    /// Hashes of the values.
    Hashes(Vec<u64>),
}

/// Reads samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// In the order of the parts of a sample.
    plans: Vec<Plan>,
    fields: Trie,
    /// Number of places.
    places: usize,
    dates: DateFormat,
}

/// Places of the fields that an aggregate reads.
#[derive(Debug)]
struct Plan {
    by: Vec<usize>,
    metrics: Vec<(usize, MetricDefinition)>,
    /// Id of the rule whose aggregate it is.
    rule: Option<String>,
}

/// Fields by the segments of their names.
#[derive(Debug, Default)]
struct Trie {
    place: Option<usize>,
    children: HashMap<Box<str>, Trie>,
}

impl Trie {
    fn insert(&mut self, name: &str, place: usize) -> usize {
        let node = name
            .split('.')
            .fold(self, |node, segment| node.children.entry(segment.into()).or_default());
        *node.place.get_or_insert(place)
    }

    fn child(&self, name: &str) -> Option<&Trie> {
        match self.children.get(name) {
            Some(child) => Some(child),
            None if name.contains('.') => name
                .split('.')
                .try_fold(self, |node, segment| node.children.get(segment)),
            None => None,
        }
    }
}

impl Sampler {
    pub(crate) fn new<'a>(definitions: impl IntoIterator<Item = &'a AggregateDefinition>) -> Self {
        let (mut fields, mut places) = (Trie::default(), 0);
        let mut place_of = |name: &str| {
            let place = fields.insert(name, places);
            places = places.max(place + 1);
            place
        };
        // Place 0.
        place_of(TIMESTAMP);
        let plans = definitions
            .into_iter()
            .map(|definition| Plan {
                by: definition.by.iter().map(|field| place_of(field)).collect(),
                metrics: definition
                    .metrics
                    .values()
                    .map(|metric| (place_of(metric.field()), metric.clone()))
                    .collect(),
                rule: definition.rule.as_ref().map(|rule| rule.id.clone()),
            })
            .collect();
        Self {
            plans,
            fields,
            places,
            dates: DateFormat::default_millis(),
        }
    }

    /// Reads the sample of a document that matches the rules with these ids: also one that no aggregate reads has a time. An event without
    /// a time that can be read has that of its arrival.
    pub(crate) fn read(&self, document: &[u8], received_ns: i64, matched: &[String]) -> Sample {
        let is_read = |plan: &Plan| plan.rule.as_ref().is_none_or(|rule| matched.contains(rule));

        let mut values = vec![Value::Null; self.places];
        let mut deserializer = serde_json::Deserializer::from_slice(document);
        let seed = Level {
            trie: &self.fields,
            values: &mut values,
        };
        // A document that is no JSON is not stored either.
        let _ = seed.deserialize(&mut deserializer);
        let time_ms = match &values[0] {
            Value::String(text) => self.dates.parse_ms(text).ok(),
            Value::Number(number) => number.as_i64(),
            _ => None,
        };
        let parts = self.plans.iter().map(|plan| {
            if !is_read(plan) {
                return None;
            }
            let Plan { by, metrics, .. } = plan;
            // The first one is the tenant. An event without a field of the key is no event of a key.
            if plan.rule.is_some() && by.iter().skip(1).any(|place| values[*place].is_null()) {
                return None;
            }
            let mut key = String::from("[");
            for place in by {
                if key.len() > 1 {
                    key.push(',');
                }
                key.push_str(&values[*place].to_string());
            }
            key.push(']');
            let measured = metrics.iter().map(|(place, metric)| measure(&values[*place], metric));
            Some((key.into(), measured.collect()))
        });
        Sample {
            time_ms: time_ms.unwrap_or(received_ns / 1_000_000),
            parts: parts.collect(),
        }
    }
}

fn measure(value: &Value, metric: &MetricDefinition) -> Measured {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let numbers = || values.iter().filter_map(number);
    let number = match metric {
        MetricDefinition::Cardinality(_) => {
            let present = values.iter().filter(|value| !value.is_null());
            let hashes: Vec<u64> = present.map(|value| murmur3(value.to_string().as_bytes()).0).collect();
            return match hashes.is_empty() {
                true => Measured::Nothing,
                false => Measured::Hashes(hashes),
            };
        }
        MetricDefinition::Sum(_) => numbers().reduce(|one, other| one + other),
        MetricDefinition::Min(_) => numbers().reduce(f64::min),
        MetricDefinition::Max(_) => numbers().reduce(f64::max),
    };
    number.map_or(Measured::Nothing, Measured::Number)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

/// One object of a document.
struct Level<'a> {
    trie: &'a Trie,
    values: &'a mut Vec<Value>,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let Some(child) = self.trie.child(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            match child.place {
                Some(place) => {
                    let value: Value = map.next_value()?;
                    read_inner(child, &value, self.values);
                    if self.values[place].is_null() {
                        self.values[place] = value;
                    }
                }
                None => {
                    let value: Box<serde_json::value::RawValue> = map.next_value()?;
                    if value.get().starts_with('{') {
                        let level = Level {
                            trie: child,
                            values: &mut *self.values,
                        };
                        level
                            .deserialize(&mut serde_json::Deserializer::from_str(value.get()))
                            .map_err(A::Error::custom)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads the fields inside a value that is a field itself.
fn read_inner(trie: &Trie, value: &Value, values: &mut [Value]) {
    let Value::Object(object) = value else {
        return;
    };
    for (name, inner) in object {
        if let Some(child) = trie.child(name) {
            if let Some(place) = child.place
                && values[place].is_null()
            {
                values[place] = inner.clone();
            }
            read_inner(child, inner, values);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sampler() -> Sampler {
        let definition = json!({"index": "t", "every": "1m", "by": ["source.ip", "event.action"],
            "metrics": {"a": {"sum": "network.bytes"}, "b": {"max": "network.bytes"}, "c": {"cardinality": "user.name"}}});
        let definition: AggregateDefinition = serde_json::from_value(definition).unwrap();
        Sampler::new(&[definition])
    }

    fn read(document: Value) -> Sample {
        sampler().read(document.to_string().as_bytes(), 7_000_000, &[])
    }

    #[test]
    fn fields_are_found_in_objects_and_by_dotted_names() {
        let nested = read(
            json!({"@timestamp": "1970-01-01T00:00:01.5Z", "source": {"ip": "10.0.0.1", "port": 1},
            "event": {"action": ["a", "b"]}, "network": {"bytes": 10}, "user": {"name": "ann"}}),
        );
        let dotted = read(
            json!({"@timestamp": 1500, "source.ip": "10.0.0.1", "event": {"action": ["a", "b"]},
            "network.bytes": "10", "user.name": "ann"}),
        );
        assert_eq!(nested, dotted);
        assert_eq!(nested.time_ms, 1500);
        let (key, measured) = nested.parts[0].as_ref().unwrap();
        assert_eq!(&**key, r#"["10.0.0.1",["a","b"]]"#);
        assert_eq!(measured[..2], [Measured::Number(10.0), Measured::Number(10.0)]);
        assert!(matches!(&measured[2], Measured::Hashes(hashes) if hashes.len() == 1));
    }

    #[test]
    fn what_is_absent_or_of_another_type_is_no_value() {
        let sample = read(json!({"@timestamp": "soon", "source": "x", "network": {"bytes": "many"}}));
        assert_eq!(sample.time_ms, 7);
        let (key, measured) = sample.parts[0].as_ref().unwrap();
        assert_eq!(
            (&**key, &measured[..]),
            (
                "[null,null]",
                &[Measured::Nothing, Measured::Nothing, Measured::Nothing][..]
            )
        );
    }

    #[test]
    fn lists_are_computed_over_their_numbers() {
        let (_, measured) = read(json!({"network": {"bytes": [1, 2, 4]}})).parts.remove(0).unwrap();
        assert_eq!(measured[..2], [Measured::Number(7.0), Measured::Number(4.0)]);
    }
}
