//! Rules that are evaluated on the raw fields of each record, while it is mapped.

use std::collections::HashMap;
use std::sync::Arc;

use firn_detect::{Evaluator, FieldId, RuleSet, Value as RuleValue};
use serde_json::{Map, Value as Json};

use super::pack::Pack;
use super::raw_fields::{CONSUMED, RawFields};
use super::scan::unescape;
use crate::event::Value;

/// Objects inside each other whose fields are read.
const DEPTH_MAX: usize = 32;

/// Evaluator of one thread, and where the fields of its rules are in the records of a pack.
///
/// Rules read what the source wrote, under its names or those that the pack gives for Sigma's: conversions of the pack
/// (lower case, parts of paths, words for numbers) do not change what a rule finds.
#[derive(Debug)]
pub(crate) struct Detector {
    evaluator: Evaluator,
    /// Fields of rules by the number of the raw field.
    known: Vec<Vec<FieldId>>,
    /// Fields of rules by the names of raw fields that the pack does not map.
    unmapped: HashMap<Box<str>, Vec<FieldId>>,
    unnamed_objects: bool,
    reads_all_texts: bool,
    /// Rules that the last record matches, by their numbers.
    matches: Vec<u32>,
    buffer: String,
}

impl Detector {
    pub(crate) fn new(pack: &Pack, rules: Arc<RuleSet>) -> Self {
        let mut known = vec![Vec::new(); pack.fields.len()];
        let mut unmapped: HashMap<Box<str>, Vec<FieldId>> = HashMap::new();
        for name in rules.names().names() {
            let Some(field) = rules.names().find(name) else {
                continue;
            };
            let own = [name.to_owned()];
            for raw in pack.sigma.fields.get(name).map_or(&own[..], Vec::as_slice) {
                match pack.fields.find(raw) {
                    Some(number) => known[usize::from(number)].push(field),
                    None => unmapped.entry(raw.as_str().into()).or_default().push(field),
                }
            }
        }
        Self {
            known,
            unmapped,
            unnamed_objects: pack.sigma.unnamed_objects,
            reads_all_texts: rules.reads_all_texts(),
            matches: Vec::new(),
            buffer: String::new(),
            evaluator: Evaluator::new(rules),
        }
    }

    pub(crate) fn rules(&self) -> &Arc<RuleSet> {
        self.evaluator.rules()
    }

    pub(crate) fn evaluator(&mut self) -> &mut Evaluator {
        &mut self.evaluator
    }

    /// Numbers of the rules that the last record matches, in order.
    pub(crate) fn matches(&self) -> &[u32] {
        &self.matches
    }

    /// Returns the value of a field of the last record, as rules read it; null if it has none.
    pub(crate) fn value(&self, name: &str) -> Json {
        self.evaluator.value(name)
    }

    /// Forgets the last record.
    pub(crate) fn clear(&mut self) {
        self.matches.clear();
    }

    /// Evaluates the rules on a record.
    pub(crate) fn evaluate(&mut self, fields: &RawFields<'_, '_>) {
        self.matches.clear();
        self.evaluator.begin();
        for (number, value) in &fields.known {
            if *number == CONSUMED {
                continue;
            }
            let targets = &self.known[usize::from(*number)];
            if !targets.is_empty() || self.reads_all_texts {
                push(&mut self.evaluator, targets, value, &mut self.buffer);
            }
        }
        for field in &fields.unmapped {
            let targets = self.unmapped.get(&*field.name).map_or(&[][..], Vec::as_slice);
            match &field.value {
                // Rules may name what is inside.
                Value::Json(json) if json.starts_with('{') => {
                    if let Ok(inner) = serde_json::from_str(json) {
                        let mut path = field.name.clone().into_owned();
                        self.push_object(&mut path, &inner, 0);
                    }
                }
                Value::Json(json) if targets.is_empty() && json.starts_with('[') && json.contains('{') => {
                    if let Ok(items) = serde_json::from_str::<Vec<Json>>(json) {
                        let mut path = field.name.clone().into_owned();
                        self.push_items(&mut path, &items, 0);
                    }
                }
                value if !targets.is_empty() || self.reads_all_texts => {
                    push(&mut self.evaluator, targets, value, &mut self.buffer);
                }
                _ => {}
            }
        }
        self.evaluator.evaluate(&mut self.matches);
    }

    /// Adds the fields of an object at `path` that the pack does not know.
    fn push_object(&mut self, path: &mut String, object: &Map<String, Json>, depth: usize) {
        let length = path.len();
        for (name, value) in object {
            path.push('.');
            path.push_str(name);
            match value {
                Json::Object(inner) if depth < DEPTH_MAX => self.push_object(path, inner, depth + 1),
                value => {
                    let by_path = self.unmapped.get(path.as_str());
                    let by_name = self.unnamed_objects.then(|| self.unmapped.get(name.as_str())).flatten();
                    let targets = by_path.or(by_name).map_or(&[][..], Vec::as_slice);
                    if targets.is_empty()
                        && depth < DEPTH_MAX
                        && let Json::Array(items) = value
                        && items.iter().any(Json::is_object)
                    {
                        self.push_items(path, items, depth + 1);
                    } else if !targets.is_empty() || self.reads_all_texts {
                        leaves(value, &mut |value| add(&mut self.evaluator, targets, value));
                    }
                }
            }
            path.truncate(length);
        }
    }

    /// Adds the fields of the objects of a list at `path`: a field has the values of all of them.
    fn push_items(&mut self, path: &mut String, items: &[Json], depth: usize) {
        for item in items {
            match item {
                Json::Object(inner) => self.push_object(path, inner, depth),
                Json::String(text) if self.reads_all_texts => self.evaluator.fields().push_other(text),
                _ => {}
            }
        }
    }
}

/// Adds a value to fields of rules, or to the texts that only keywords look at.
fn push(evaluator: &mut Evaluator, targets: &[FieldId], value: &Value<'_>, buffer: &mut String) {
    let mut add = |value: RuleValue<'_>| add(evaluator, targets, value);
    match value {
        Value::Null => add(RuleValue::Null),
        Value::Bool(value) => add(RuleValue::Boolean(*value)),
        Value::Int(number) => add(RuleValue::Number(&number.to_string())),
        Value::Number(text) => add(RuleValue::Number(text)),
        Value::Text(text) => add(RuleValue::Text(text)),
        Value::Escaped(inside) => {
            buffer.clear();
            unescape(inside, buffer);
            add(RuleValue::Text(buffer));
        }
        Value::Json(json) => {
            if let Ok(value) = serde_json::from_str::<Json>(json) {
                leaves(&value, &mut add);
            }
        }
    }
}

fn add(evaluator: &mut Evaluator, targets: &[FieldId], value: RuleValue<'_>) {
    match (targets, value) {
        ([], RuleValue::Text(text)) => evaluator.fields().push_other(text),
        (targets, value) => targets
            .iter()
            .for_each(|target| evaluator.fields().push(*target, value)),
    }
}

/// Calls `add` with the scalars of a list or object.
fn leaves(value: &Json, add: &mut impl FnMut(RuleValue<'_>)) {
    match value {
        Json::Null => add(RuleValue::Null),
        Json::Bool(value) => add(RuleValue::Boolean(*value)),
        Json::Number(number) => add(RuleValue::Number(&number.to_string())),
        Json::String(text) => add(RuleValue::Text(text)),
        Json::Array(values) => values.iter().for_each(|value| leaves(value, add)),
        Json::Object(object) => object.values().for_each(|value| leaves(value, add)),
    }
}
