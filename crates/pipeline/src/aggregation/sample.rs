//! Samples: what the aggregates of a pipeline read of one document, in one pass over its JSON.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::Discriminant;
use std::sync::Arc;

use firn_model::dates::DateFormat;
use foldhash::fast::RandomState;
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::definition::{AggregateDefinition, MetricDefinition};
use super::row::add;
use super::rule_windows::RecordFields;
use crate::murmur3::murmur3;

const TIMESTAMP: &str = "@timestamp";

/// What the aggregates read of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Time of the event, ms since the epoch.
    pub(crate) time_ms: i64,
    /// Of aggregates that are no rules', in their order.
    pub(crate) parts: Vec<Part>,
    pub(crate) rules: RuleSample,
}

/// What rules over several events read of a document.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RuleSample {
    /// Values of each key as a JSON array. Rules with the same key share it.
    pub(crate) keys: Vec<Arc<str>>,
    /// Values of the fields that are counted. Rules of the same field share it.
    pub(crate) values: Vec<Measured>,
    /// By the number of the rule's aggregate. A rule has none unless the event matches it and has a key for it; if its steps read
    /// different fields, it may have several.
    pub(crate) counts: Vec<RuleCount>,
}

/// One count of a document in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RuleCount {
    /// Number of the aggregate.
    pub(crate) aggregate: u32,
    /// Place of the key in the sample.
    pub(crate) key: u32,
    /// Place of the value in the sample, plus one; 0: the rule counts none.
    pub(crate) value: u32,
    /// Bits of the steps of the rule that the event is of.
    pub(crate) steps: u16,
    /// Number of the rule's counts of this document before this one.
    pub(crate) position: u16,
}

impl RuleSample {
    /// Returns the place of a key.
    fn place_of(&mut self, key: &str) -> u32 {
        let place = self.keys.iter().position(|known| **known == *key);
        let place = place.unwrap_or_else(|| {
            self.keys.push(key.into());
            self.keys.len() - 1
        });
        place as u32
    }

    /// Adds a value, and returns its place plus one.
    fn push_value(&mut self, value: Measured) -> u32 {
        self.values.push(value);
        self.values.len() as u32
    }
}

/// What an aggregate reads of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Number of the aggregate.
    pub(crate) place: usize,
    /// Values of the key as a JSON array. Aggregates with the same fields share it.
    pub(crate) key: Arc<str>,
    /// Value of each metric.
    pub(crate) measured: Vec<Measured>,
}

/// Rule over several events that a document matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Matched {
    /// Number of its aggregate.
    pub(crate) place: usize,
    /// Number of the step that it matches; 0 if the rule has none.
    pub(crate) step: usize,
}

/// Value of a metric in a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Measured {
    /// The field is absent or has no number.
    Nothing,
    /// For sums, least and greatest values. Of a list: computed over its numbers.
    Number(f64),
    /// Hashes of the values.
    Hashes(Arc<[u64]>),
}

/// Reads samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// In the order of the parts of a sample.
    plans: Vec<Plan>,
    /// Places of the fields of each key.
    keys: Vec<Vec<usize>>,
    /// Keys of which all fields but the first are of the record: the number of the list of the first, and the other fields.
    record_keys: Vec<(usize, Vec<String>)>,
    /// Fields of the record that rules count, with what they count of them.
    record_values: Vec<(String, MetricDefinition)>,
    fields: Trie,
    /// Number of places.
    places: usize,
    dates: DateFormat,
}

/// Places of the fields that an aggregate reads.
#[derive(Debug)]
struct Plan {
    /// Number of the list of fields of the key.
    key: usize,
    metrics: Vec<(usize, MetricDefinition)>,
    rule: Option<RulePlan>,
}

#[derive(Debug)]
struct RulePlan {
    id: String,
    /// Fields of the record by step; empty: the rule reads the event.
    record: Vec<RecordPlan>,
}

/// Numbers of what a step of a rule reads of the record.
#[derive(Debug)]
struct RecordPlan {
    key: usize,
    value: Option<usize>,
}

/// Fields by the segments of their names.
#[derive(Debug, Default)]
struct Trie {
    place: Option<usize>,
    children: HashMap<Box<str>, Trie, RandomState>,
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
        let mut keys: Vec<Vec<usize>> = Vec::new();
        let (mut record_keys, mut record_values) = (Vec::new(), Vec::new());
        let mut plans = Vec::new();
        for definition in definitions {
            // Of a rule that reads the record, the event has the tenant alone.
            let rule = definition.rule.as_ref();
            let reads_record = rule.is_some_and(|rule| !rule.record.is_empty());
            let by = &definition.by[..if reads_record { 1 } else { definition.by.len() }];
            let by: Vec<usize> = by.iter().map(|field| place_of(field)).collect();
            let key = keys.iter().position(|known| *known == by).unwrap_or_else(|| {
                keys.push(by);
                keys.len() - 1
            });
            let rule = rule.map(|rule| {
                let steps = rule.record.iter().map(|fields| RecordPlan {
                    key: number_of(&mut record_keys, (key, fields.keys.clone())),
                    value: record_value(definition, fields).map(|value| number_of(&mut record_values, value)),
                });
                RulePlan {
                    id: rule.id.clone(),
                    record: steps.collect(),
                }
            });
            let metrics = definition.metrics.values();
            let metrics =
                metrics.map(|metric| (if reads_record { 0 } else { place_of(metric.field()) }, metric.clone()));
            plans.push(Plan {
                key,
                metrics: metrics.collect(),
                rule,
            });
        }
        Self {
            plans,
            keys,
            record_keys,
            record_values,
            fields,
            places,
            dates: DateFormat::default_millis(),
        }
    }

    /// Returns the numbers of the aggregates of rules, by the ids of the rules.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&str, usize)> {
        let plans = self.plans.iter().enumerate();
        plans.filter_map(|(place, plan)| Some((plan.rule.as_ref()?.id.as_str(), place)))
    }

    /// Reads the sample of a document that matches these rules: also one that no aggregate reads has a time. An event without a time that
    /// can be read has that of its arrival. `record` returns the value of a field of the record.
    pub(crate) fn read(
        &self,
        document: &[u8],
        received_ns: i64,
        matched: &[Matched],
        record: &dyn Fn(&str) -> Value,
    ) -> Sample {
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
        let mut known = Known {
            texts: vec![None; self.keys.len()],
            hashes: Vec::new(),
            of_rules: KnownOfRules::default(),
        };
        let mut parts = Vec::new();
        for (place, plan) in self.plans.iter().enumerate() {
            if plan.rule.is_none() {
                parts.push(self.part(place, plan, &values, &mut known));
            }
        }
        let mut rules = RuleSample {
            counts: Vec::with_capacity(matched.len()),
            ..RuleSample::default()
        };
        for of_rule in matched.chunk_by(|one, other| one.place == other.place) {
            let place = of_rule[0].place;
            let Some(plan) = self.plans.get(place) else { continue };
            let Some(rule) = &plan.rule else { continue };
            if rule.record.is_empty() {
                let steps = of_rule.iter().fold(0, |steps, matched| steps | bit(matched.step));
                self.count(place, steps, &values, &mut known, &mut rules);
                continue;
            }
            let before = rules.counts.len();
            for matched in of_rule {
                let Some(plan) = rule.record.get(matched.step) else {
                    continue;
                };
                let Some(key) = self.record_key(plan.key, &values, record, &mut known.of_rules, &mut rules) else {
                    continue;
                };
                // An event counts once for each key.
                if let Some(same) = rules.counts[before..].iter_mut().find(|count| count.key == key) {
                    same.steps |= bit(matched.step);
                    continue;
                }
                let value = plan.value.map_or(0, |number| {
                    self.record_value(number, record, &mut known.of_rules, &mut rules)
                });
                let position = (rules.counts.len() - before) as u16;
                rules.counts.push(RuleCount {
                    aggregate: place as u32,
                    key,
                    value,
                    steps: bit(matched.step),
                    position,
                });
            }
        }
        Sample {
            time_ms: time_ms.unwrap_or(received_ns / 1_000_000),
            parts,
            rules,
        }
    }

    /// Reads what an aggregate that is no rule's reads of the event.
    fn part(&self, place: usize, plan: &Plan, values: &[Value], known: &mut Known) -> Part {
        let by = &self.keys[plan.key];
        let key = known.texts[plan.key].get_or_insert_with(|| print_key(by.iter().map(|place| &values[*place])).into());
        let key = Arc::clone(key);
        let measured = plan
            .metrics
            .iter()
            .map(|(place, metric)| known.measure(*place, &values[*place], metric));
        Part {
            place,
            key,
            measured: measured.collect(),
        }
    }

    /// Counts the event in a rule that reads it. An event without a field of the key is no event of a key.
    fn count(&self, place: usize, steps: u16, values: &[Value], known: &mut Known, rules: &mut RuleSample) {
        let plan = &self.plans[place];
        let by = &self.keys[plan.key];
        // The first one is the tenant.
        if by.iter().skip(1).any(|place| values[*place].is_null()) {
            return;
        }
        let known_key = known.of_rules.keys.iter().find(|(list, _)| *list == plan.key);
        let key = known_key.map(|(_, key)| *key).unwrap_or_else(|| {
            let key = rules.place_of(&print_key(by.iter().map(|place| &values[*place])));
            known.of_rules.keys.push((plan.key, key));
            key
        });
        let value = plan.metrics.first().map_or(0, |(place, metric)| {
            let kind = std::mem::discriminant(metric);
            let mut of_event = known.of_rules.values.iter();
            if let Some((.., value)) = of_event.find(|(other, of, _)| other == place && *of == kind) {
                return *value;
            }
            let value = rules.push_value(known.measure(*place, &values[*place], metric));
            known.of_rules.values.push((*place, kind, value));
            value
        });
        rules.counts.push(RuleCount {
            aggregate: place as u32,
            key,
            value,
            steps,
            position: 0,
        });
    }

    /// Returns the place of the key of an event whose fields are those of its record; `None`: it lacks one.
    fn record_key(
        &self,
        number: usize,
        values: &[Value],
        record: &dyn Fn(&str) -> Value,
        known: &mut KnownOfRules,
        rules: &mut RuleSample,
    ) -> Option<u32> {
        if let Some((_, key)) = known.record_keys.iter().find(|(other, _)| *other == number) {
            return *key;
        }
        let (list, fields) = &self.record_keys[number];
        let tenant = self.keys[*list].first().map_or(&Value::Null, |place| &values[*place]);
        let of_record: Vec<Value> = fields.iter().map(|field| record(field)).collect();
        let has_all = of_record.iter().all(|value| !value.is_null());
        let key = has_all.then(|| rules.place_of(&print_key(std::iter::once(tenant).chain(&of_record))));
        known.record_keys.push((number, key));
        key
    }

    /// Returns the place, plus one, of what is counted of a field of the record.
    fn record_value(
        &self,
        number: usize,
        record: &dyn Fn(&str) -> Value,
        known: &mut KnownOfRules,
        rules: &mut RuleSample,
    ) -> u32 {
        if let Some((_, value)) = known.record_values.iter().find(|(other, _)| *other == number) {
            return *value;
        }
        let (field, metric) = &self.record_values[number];
        let value = rules.push_value(measure(&record(field), metric));
        known.record_values.push((number, value));
        value
    }
}

/// Returns the number of a member of a list, which may be new.
fn number_of<T: PartialEq>(list: &mut Vec<T>, member: T) -> usize {
    list.iter().position(|known| *known == member).unwrap_or_else(|| {
        list.push(member);
        list.len() - 1
    })
}

/// Returns what a step of a rule counts of its record, if it counts values.
fn record_value(definition: &AggregateDefinition, fields: &RecordFields) -> Option<(String, MetricDefinition)> {
    let (metric, field) = (definition.metrics.values().next()?, fields.value.as_ref()?);
    // The field is that of the record: rules that name the same one share the value.
    let metric = match metric {
        MetricDefinition::Sum(_) => MetricDefinition::Sum(field.clone()),
        MetricDefinition::Min(_) => MetricDefinition::Min(field.clone()),
        MetricDefinition::Max(_) => MetricDefinition::Max(field.clone()),
        MetricDefinition::Cardinality(_) => MetricDefinition::Cardinality(field.clone()),
    };
    Some((field.clone(), metric))
}

/// What aggregates of one document share.
struct Known {
    /// Keys of aggregates that are no rules', by their numbers.
    texts: Vec<Option<Arc<str>>>,
    /// By the place of the field.
    hashes: Vec<(usize, Measured)>,
    of_rules: KnownOfRules,
}

/// Numbers of keys and values of one document with their places in its sample; of values, the places plus one.
#[derive(Default)]
struct KnownOfRules {
    keys: Vec<(usize, u32)>,
    values: Vec<(usize, Discriminant<MetricDefinition>, u32)>,
    /// `None`: the record lacks a field.
    record_keys: Vec<(usize, Option<u32>)>,
    record_values: Vec<(usize, u32)>,
}

impl Known {
    /// Returns what is computed of a field of the event. Hashes are computed once.
    fn measure(&mut self, place: usize, value: &Value, metric: &MetricDefinition) -> Measured {
        if !matches!(metric, MetricDefinition::Cardinality(_)) {
            return measure(value, metric);
        }
        if let Some((_, known)) = self.hashes.iter().find(|(known, _)| *known == place) {
            return known.clone();
        }
        let measured = measure(value, metric);
        self.hashes.push((place, measured.clone()));
        measured
    }
}

fn bit(step: usize) -> u16 {
    1_u16.checked_shl(step as u32).unwrap_or(0)
}

fn print_key<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    serde_json::to_string(&values.collect::<Vec<_>>()).unwrap_or_default()
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
            let printed = present.filter_map(|value| serde_json::to_vec(value).ok());
            let hashes: Arc<[u64]> = printed.map(|printed| murmur3(&printed).0).collect();
            return match hashes.is_empty() {
                true => Measured::Nothing,
                false => Measured::Hashes(hashes),
            };
        }
        MetricDefinition::Sum(_) => numbers().reduce(add),
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

/// Name of a member, which is copied only if it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

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
        while let Some(Name(name)) = map.next_key()? {
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
                None => map.next_value_seed(Level {
                    trie: child,
                    values: &mut *self.values,
                })?,
            }
        }
        Ok(())
    }

    // What is no object has no fields inside.

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
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
        sampler().read(document.to_string().as_bytes(), 7_000_000, &[], &|_| Value::Null)
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
        let Part { key, measured, .. } = &nested.parts[0];
        assert_eq!(&**key, r#"["10.0.0.1",["a","b"]]"#);
        assert_eq!(measured[..2], [Measured::Number(10.0), Measured::Number(10.0)]);
        assert!(matches!(&measured[2], Measured::Hashes(hashes) if hashes.len() == 1));
    }

    #[test]
    fn what_is_absent_or_of_another_type_is_no_value() {
        let sample = read(json!({"@timestamp": "soon", "source": "x", "network": {"bytes": "many"}}));
        assert_eq!(sample.time_ms, 7);
        let Part { key, measured, .. } = &sample.parts[0];
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
        let Part { measured, .. } = read(json!({"network": {"bytes": [1, 2, 4]}})).parts.remove(0);
        assert_eq!(measured[..2], [Measured::Number(7.0), Measured::Number(4.0)]);
    }
}
