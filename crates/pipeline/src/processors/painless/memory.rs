//! Memory of a running script: the document, parameters, and lists and maps that the script created.

use serde_json::{Map, Value};

use super::super::budget::Budget;
use super::super::document::{self, Document, METADATA, Path};
use super::super::failure::{Failure, FailureKind};
use super::value::{Key, Place, Root, Val};

/// Nesting of a value that a script builds.
const DEPTH_MAX: usize = 200;

/// The document: conditions may only read it.
pub(super) enum Access<'a> {
    Read(&'a Document),
    Write(&'a mut Document),
}

pub(super) struct Memory<'a> {
    access: Access<'a>,
    params: &'a Value,
    heap: Vec<Value>,
    pub(super) budget: &'a mut Budget,
}

impl<'a> Memory<'a> {
    pub(super) fn new(access: Access<'a>, params: &'a Value, budget: &'a mut Budget) -> Self {
        Self {
            access,
            params,
            heap: Vec::new(),
            budget,
        }
    }

    fn document(&self) -> &Document {
        match &self.access {
            Access::Read(document) => document,
            Access::Write(document) => document,
        }
    }

    /// Returns the value at a place; `None` for `ctx` itself, which is no value.
    pub(super) fn value(&self, place: &Place) -> Option<&Value> {
        let mut keys = place.path.iter();
        let mut at = match place.root {
            Root::Params => self.params,
            Root::Heap(slot) => self.heap.get(slot)?,
            Root::Ctx => match keys.next()? {
                Key::Name(name) => self.document().root_value(document::Root::Document, name)?,
                Key::At(_) => return None,
            },
        };
        for key in keys {
            at = match (key, at) {
                (Key::Name(name), Value::Object(fields)) => fields.get(name)?,
                (Key::At(index), Value::Array(values)) => values.get(*index)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// Returns what is at a place: a scalar, or the place.
    pub(super) fn load(&mut self, place: Place) -> Result<Val, Failure> {
        let value = match self.value(&place) {
            None if is_ctx(&place) => None,
            None => Some(Val::Null),
            Some(value) => Val::scalar(value),
        };
        match value {
            Some(Val::Text(text)) => {
                self.budget.write(text.len())?;
                Ok(Val::Text(text))
            }
            Some(value) => Ok(value),
            None => Ok(Val::Place(place)),
        }
    }

    /// Returns a copy of a value as JSON.
    pub(super) fn json(&mut self, value: &Val) -> Result<Value, Failure> {
        let Val::Place(place) = value else {
            return value
                .to_json()
                .ok_or_else(|| Failure::illegal(format!("JSON has no number [{}]", value.text())));
        };
        if is_ctx(place) {
            return Ok(Value::Object(self.ctx_map()?));
        }
        let copied = self.value(place).cloned().unwrap_or_default();
        self.budget.write_value(&copied)?;
        Ok(copied)
    }

    /// Returns all fields of `ctx`.
    pub(super) fn ctx_map(&mut self) -> Result<Map<String, Value>, Failure> {
        let document = self.document();
        let mut map = document.metadata().clone();
        map.extend(
            document
                .source
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        for value in map.values() {
            self.budget.write_value(value)?;
        }
        Ok(map)
    }

    /// Puts a new list or map on the heap.
    pub(super) fn create(&mut self, value: Value) -> Result<Val, Failure> {
        self.budget.write_value(&value)?;
        match Val::scalar(&value) {
            Some(scalar) => Ok(scalar),
            None => {
                self.heap.push(value);
                let root = Root::Heap(self.heap.len() - 1);
                Ok(Val::Place(Place { root, path: Vec::new() }))
            }
        }
    }

    /// Sets a field or an element.
    pub(super) fn store(&mut self, place: &Place, key: Key, value: Val) -> Result<(), Failure> {
        let value = self.json(&value)?;
        if place.path.len() + depth(&value) > DEPTH_MAX {
            return Err(Failure::illegal(format!(
                "a value nests deeper than {DEPTH_MAX} levels"
            )));
        }
        if is_ctx(place) {
            let Key::Name(name) = key else {
                return Err(Failure::illegal("a field of ctx needs a name"));
            };
            return self
                .document_mut()?
                .set(&Path::parse("ctx")?.with_one_name(&name), value);
        }
        self.check_metadata(place)?;
        match (key, self.value_mut(place)?) {
            (Key::Name(name), Value::Object(fields)) => {
                fields.insert(name, value);
                Ok(())
            }
            (Key::At(index), Value::Array(values)) => match values.get_mut(index) {
                Some(slot) => {
                    *slot = value;
                    Ok(())
                }
                None => Err(out_of_bounds(index as i64, values.len())),
            },
            _ => Err(Failure::illegal("a list has elements, a map has fields")),
        }
    }

    /// Removes a field of a map and returns it.
    pub(super) fn remove_field(&mut self, place: &Place, name: &str) -> Result<Value, Failure> {
        if is_ctx(place) {
            let path = Path::parse("ctx")?.with_one_name(name);
            let document = self.document_mut()?;
            return match document.find(&path) {
                Some(_) => document.remove(&path),
                None => Ok(Value::Null),
            };
        }
        Ok(self.map_mut(place)?.shift_remove(name).unwrap_or_default())
    }

    pub(super) fn map_mut(&mut self, place: &Place) -> Result<&mut Map<String, Value>, Failure> {
        match self.value_mut(place)? {
            Value::Object(fields) => Ok(fields),
            _ => Err(Failure::illegal("not a map")),
        }
    }

    pub(super) fn list_mut(&mut self, place: &Place) -> Result<&mut Vec<Value>, Failure> {
        match self.value_mut(place)? {
            Value::Array(values) => Ok(values),
            _ => Err(Failure::illegal("not a list")),
        }
    }

    fn document_mut(&mut self) -> Result<&mut Document, Failure> {
        match &mut self.access {
            Access::Write(document) => Ok(document),
            Access::Read(_) => Err(read_only()),
        }
    }

    fn value_mut(&mut self, place: &Place) -> Result<&mut Value, Failure> {
        let mut keys = place.path.iter();
        let gone = || Failure::illegal("the list or map does not exist any more");
        let mut at = match place.root {
            Root::Params => return Err(read_only()),
            Root::Heap(slot) => self.heap.get_mut(slot).ok_or_else(gone)?,
            Root::Ctx => match keys.next() {
                Some(Key::Name(name)) => {
                    let document = self.document_mut()?;
                    document
                        .root_value_mut(document::Root::Document, name)
                        .ok_or_else(gone)?
                }
                _ => return Err(Failure::illegal("ctx cannot be changed as a whole")),
            },
        };
        for key in keys {
            at = match (key, at) {
                (Key::Name(name), Value::Object(fields)) => fields.get_mut(name).ok_or_else(gone)?,
                (Key::At(index), Value::Array(values)) => values.get_mut(*index).ok_or_else(gone)?,
                _ => return Err(gone()),
            };
        }
        Ok(at)
    }

    /// Only dynamic templates have an inside.
    fn check_metadata(&self, place: &Place) -> Result<(), Failure> {
        match (place.root, place.path.first()) {
            (Root::Ctx, Some(Key::Name(name))) if METADATA.contains(&name.as_str()) && name != "_dynamic_templates" => {
                Err(Failure::illegal(format!("[{name}] has no fields")))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn is_ctx(place: &Place) -> bool {
    place.root == Root::Ctx && place.path.is_empty()
}

pub(super) fn out_of_bounds(index: i64, len: usize) -> Failure {
    let reason = format!("Index {index} out of bounds for length {len}");
    Failure::new(FailureKind::IndexOutOfBounds, reason)
}

fn read_only() -> Failure {
    Failure::new(
        FailureKind::UnsupportedOperation,
        "the ingest document and params cannot be changed here",
    )
}

/// Nesting of a value, counted up to the limit.
fn depth(value: &Value) -> usize {
    fn below(value: &Value, remaining: usize) -> usize {
        if remaining == 0 {
            return 0;
        }
        match value {
            Value::Array(values) => {
                1 + values
                    .iter()
                    .map(|value| below(value, remaining - 1))
                    .max()
                    .unwrap_or(0)
            }
            Value::Object(fields) => {
                1 + fields
                    .values()
                    .map(|value| below(value, remaining - 1))
                    .max()
                    .unwrap_or(0)
            }
            _ => 0,
        }
    }
    below(value, DEPTH_MAX + 1)
}
