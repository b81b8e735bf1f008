//! Fields of an event that is a JSON object.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

use crate::evaluator::Evaluator;
use crate::event::{FieldId, Value, ValueKind};

/// Objects inside each other whose fields are read.
const DEPTH_MAX: usize = 32;

impl Evaluator {
    /// Adds the fields of an object. Names of nested fields are joined by dots; the values of lists are values of the field, and so are
    /// those of the objects in lists.
    pub fn push_object(&mut self, object: &Map<String, Json>) {
        push_object(self, &mut String::new(), object, 0);
    }

    /// Adds the fields of a printed object, as [`push_object`](Self::push_object) does.
    ///
    /// # Errors
    /// It is no JSON; some of its fields may have been added.
    pub fn push_printed(&mut self, object: &[u8]) -> serde_json::Result<()> {
        let mut input = serde_json::Deserializer::from_slice(object);
        let mut path = String::new();
        Printed {
            evaluator: self,
            path: &mut path,
            field: None,
        }
        .deserialize(&mut input)?;
        input.end()
    }

    /// Returns the value of a field of this event: a scalar, a list of several, or null if it has none or its set does not read it.
    pub fn value(&self, name: &str) -> Json {
        let Some(field) = self.rules().names().find(name) else {
            return Json::Null;
        };
        let mut values = self.event().values(field).map(|value| match value.kind {
            ValueKind::Null => Json::Null,
            ValueKind::Boolean => Json::Bool(value.raw == "true"),
            ValueKind::Number => serde_json::from_str(value.raw).unwrap_or(Json::Null),
            ValueKind::Text => value.raw.into(),
        });
        let Some(first) = values.next() else {
            return Json::Null;
        };
        let others: Vec<Json> = values.collect();
        match others.is_empty() {
            true => first,
            false => std::iter::once(first).chain(others).collect(),
        }
    }

    /// Adds a value by the name of its field, as [`push_object`](Self::push_object) does.
    pub fn push_json(&mut self, name: &str, value: &Json) {
        push_value(self, &mut name.to_owned(), value, 0);
    }
}

fn push_object(evaluator: &mut Evaluator, path: &mut String, object: &Map<String, Json>, depth: usize) {
    let length = path.len();
    for (name, value) in object {
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        push_value(evaluator, path, value, depth);
        path.truncate(length);
    }
}

fn push_value(evaluator: &mut Evaluator, path: &mut String, value: &Json, depth: usize) {
    match value {
        Json::Null => evaluator.push(path, Value::Null),
        Json::Bool(value) => evaluator.push(path, Value::Boolean(*value)),
        Json::Number(number) => evaluator.push(path, Value::Number(&number.to_string())),
        Json::String(text) => evaluator.push(path, Value::Text(text)),
        Json::Array(values) if depth < DEPTH_MAX => {
            for value in values {
                push_value(evaluator, path, value, depth + 1);
            }
        }
        Json::Object(object) if depth < DEPTH_MAX => push_object(evaluator, path, object, depth + 1),
        Json::Array(_) | Json::Object(_) => {}
    }
}

/// Value that is read without a tree. The depth is bounded by the parser.
struct Printed<'e> {
    evaluator: &'e mut Evaluator,
    path: &'e mut String,
    /// Field whose value it is; `None`: no rule reads it by name.
    field: Option<FieldId>,
}

impl Printed<'_> {
    fn push(self, value: Value<'_>) {
        self.evaluator.push_value(self.field, value);
    }
}

impl<'de> DeserializeSeed<'de> for Printed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Printed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.push(Value::Null);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.push(Value::Boolean(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.push(Value::Number(&value.to_string()));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.push(Value::Number(&value.to_string()));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.push(Value::Number(&Json::from(value).to_string()));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.push(Value::Text(value));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { evaluator, path, field } = self;
        while items.next_element_seed(Printed { evaluator, path, field })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { evaluator, path, .. } = self;
        let length = path.len();
        while let Some(()) = members.next_key_seed(Name(path))? {
            let field = evaluator.rules().names().find(path);
            match field.is_some() || evaluator.reads_below(path) {
                true => members.next_value_seed(Printed { evaluator, path, field })?,
                // Its texts need not be unescaped.
                false => drop(members.next_value::<IgnoredAny>()?),
            }
            path.truncate(length);
        }
        Ok(())
    }
}

/// Name of a member, which is appended to the path of its object.
struct Name<'p>(&'p mut String);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(name);
        Ok(())
    }
}
