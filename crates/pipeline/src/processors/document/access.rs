//! Reading and writing of fields by path, with Elasticsearch's messages.

use serde_json::{Map, Value};

use super::super::failure::Failure;
use super::path::{Path, Root};
use super::{Document, METADATA, class_name};

impl Document {
    /// Returns the value of a field, or fails as Elasticsearch does for a missing one.
    pub(crate) fn get(&self, path: &Path) -> Result<&Value, Failure> {
        let mut at: Option<&Value> = None;
        for key in &path.elements {
            at = Some(match at {
                None => self.root_value(path.root, key).ok_or_else(|| not_present(path, key))?,
                Some(Value::Object(fields)) => fields.get(key).ok_or_else(|| not_present(path, key))?,
                Some(Value::Array(values)) => &values[place(path, key, values.len())?],
                Some(other) => return Err(cannot_resolve(path, key, other)),
            });
        }
        at.ok_or_else(|| Failure::illegal(format!("path [{}] is not valid", path.text())))
    }

    /// Returns the value of a field that exists, `null` included.
    pub(crate) fn find(&self, path: &Path) -> Option<&Value> {
        let mut at: Option<&Value> = None;
        for key in &path.elements {
            at = Some(match at {
                None => self.root_value(path.root, key)?,
                Some(Value::Object(fields)) => fields.get(key)?,
                Some(Value::Array(values)) => values.get(key.parse::<usize>().ok()?)?,
                Some(_) => return None,
            });
        }
        at
    }

    /// Returns the text of a field; `None` if it is null.
    pub(crate) fn get_text(&self, path: &Path) -> Result<Option<&str>, Failure> {
        match self.get(path)? {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err(cannot_cast(path.text(), other, "java.lang.String")),
        }
    }

    /// Returns the text of a field. If `ignore_missing` is set, a missing or null field is `None`; otherwise it fails.
    pub(crate) fn text_or_missing(&self, path: &Path, ignore_missing: bool) -> Result<Option<&str>, Failure> {
        match self.value_or_missing(path, ignore_missing, "process it")? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(cannot_cast(path.text(), other, "java.lang.String")),
        }
    }

    /// Returns the value of a field. If `ignore_missing` is set, a missing or null field is `None`; otherwise it fails,
    /// for null with "field [x] is null, cannot `what`."
    pub(crate) fn value_or_missing(
        &self,
        path: &Path,
        ignore_missing: bool,
        what: &str,
    ) -> Result<Option<&Value>, Failure> {
        let value = match self.find(path) {
            Some(value) => value,
            None if ignore_missing => return Ok(None),
            None => self.get(path)?,
        };
        match value {
            Value::Null if ignore_missing => Ok(None),
            Value::Null => Err(Failure::illegal(format!(
                "field [{}] is null, cannot {what}.",
                path.text()
            ))),
            value => Ok(Some(value)),
        }
    }

    /// Sets a field; missing objects on the way are created.
    pub(crate) fn set(&mut self, path: &Path, value: Value) -> Result<(), Failure> {
        self.write(path, |slot| *slot.or_insert(Value::Null) = value)
    }

    /// Appends a value, or the values of a list. A field that is no list becomes one.
    pub(crate) fn append(&mut self, path: &Path, value: Value, allow_duplicates: bool) -> Result<(), Failure> {
        self.write(path, |slot| {
            let added = match value {
                Value::Array(values) => values,
                value => vec![value],
            };
            let slot = match slot {
                Slot::Vacant(..) => slot.or_insert(Value::Array(Vec::new())),
                Slot::Occupied(value) => value,
            };
            let mut values = match std::mem::take(slot) {
                Value::Array(values) => values,
                scalar if allow_duplicates || added.iter().any(|value| *value != scalar) => vec![scalar],
                scalar => {
                    *slot = scalar;
                    return;
                }
            };
            for value in added {
                if allow_duplicates || !values.contains(&value) {
                    values.push(value);
                }
            }
            *slot = Value::Array(values);
        })
    }

    /// Removes a field and returns its value.
    pub(crate) fn remove(&mut self, path: &Path) -> Result<Value, Failure> {
        let Some((leaf, parents)) = path.elements.split_last() else {
            return Err(Failure::illegal(format!("path [{}] is not valid", path.text())));
        };
        if parents.is_empty() {
            let map = match path.root {
                Root::Ingest => &mut self.ingest,
                Root::Document if is_metadata(leaf) => {
                    if leaf == "_index" || leaf == "_version" {
                        return Err(Failure::illegal(format!("{leaf} cannot be removed")));
                    }
                    &mut self.metadata
                }
                Root::Document => &mut self.source,
            };
            return map.shift_remove(leaf).ok_or_else(|| not_present(path, leaf));
        }
        let mut at = self
            .root_value_mut(path.root, &parents[0])
            .ok_or_else(|| not_present(path, &parents[0]))?;
        for key in &parents[1..] {
            at = match at {
                Value::Object(fields) => fields.get_mut(key).ok_or_else(|| not_present(path, key))?,
                Value::Array(values) => {
                    let place = place(path, key, values.len())?;
                    &mut values[place]
                }
                other => return Err(cannot_resolve(path, key, other)),
            };
        }
        match at {
            Value::Object(fields) => fields.shift_remove(leaf).ok_or_else(|| not_present(path, leaf)),
            Value::Array(values) => {
                let place = place(path, leaf, values.len())?;
                Ok(values.remove(place))
            }
            other => Err(cannot_remove(path, leaf, other)),
        }
    }

    /// Returns the fields of an object of the source or of `_ingest`, if there is one.
    pub(crate) fn object_mut(&mut self, path: &Path) -> Result<Option<&mut Map<String, Value>>, Failure> {
        self.get(path)?;
        let Some((first, rest)) = path.elements.split_first() else {
            return Ok(None);
        };
        let mut at = self.root_value_mut(path.root, first);
        for key in rest {
            at = match at {
                Some(Value::Object(fields)) => fields.get_mut(key),
                Some(Value::Array(values)) => key.parse::<usize>().ok().and_then(|place| values.get_mut(place)),
                _ => None,
            };
        }
        match at {
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(other) => Err(cannot_cast(path.text(), other, "java.util.Map")),
            None => Ok(None),
        }
    }

    /// Calls `change` with the place of a field; missing objects on the way are created.
    fn write(&mut self, path: &Path, change: impl FnOnce(Slot<'_>)) -> Result<(), Failure> {
        let Some((leaf, parents)) = path.elements.split_last() else {
            return Err(Failure::illegal(format!("path [{}] is not valid", path.text())));
        };
        let is_document = path.root == Root::Document;
        let first = parents.first().unwrap_or(leaf);
        let name_of_metadata = METADATA.iter().find(|name| is_document && **name == first.as_str());
        let map = match path.root {
            Root::Ingest => &mut self.ingest,
            Root::Document if name_of_metadata.is_some() => &mut self.metadata,
            Root::Document => &mut self.source,
        };
        let Some(name) = name_of_metadata else {
            return write_in(path, map, parents, leaf, change);
        };
        // Metadata are small: a change is made on a copy, which is checked before it counts.
        let mut changed = map.clone();
        write_in(path, &mut changed, parents, leaf, change)?;
        if let Some(value) = changed.get(*name) {
            Self::check_metadata(name, value)?;
        }
        *map = changed;
        Ok(())
    }

    /// Returns a field of the root, or of `_ingest`.
    pub(crate) fn root_value(&self, root: Root, key: &str) -> Option<&Value> {
        match root {
            Root::Ingest => self.ingest.get(key),
            Root::Document if is_metadata(key) => self.metadata.get(key).or_else(|| self.source.get(key)),
            Root::Document => self.source.get(key),
        }
    }

    /// Returns a field of the root, or of `_ingest`.
    pub(crate) fn root_value_mut(&mut self, root: Root, key: &str) -> Option<&mut Value> {
        match root {
            Root::Ingest => self.ingest.get_mut(key),
            Root::Document if is_metadata(key) => self.metadata.get_mut(key),
            Root::Document => self.source.get_mut(key),
        }
    }
}

/// Place of a field that is written.
enum Slot<'a> {
    Occupied(&'a mut Value),
    Vacant(&'a mut Map<String, Value>, &'a str),
}

impl<'a> Slot<'a> {
    fn or_insert(self, default: Value) -> &'a mut Value {
        match self {
            Self::Occupied(value) => value,
            Self::Vacant(fields, name) => fields.entry(name).or_insert(default),
        }
    }
}

fn write_in(
    path: &Path,
    root: &mut Map<String, Value>,
    parents: &[String],
    leaf: &str,
    change: impl FnOnce(Slot<'_>),
) -> Result<(), Failure> {
    let Some((first, parents)) = parents.split_first() else {
        change(slot(root, leaf));
        return Ok(());
    };
    let mut at = root.entry(first.as_str()).or_insert_with(|| Value::Object(Map::new()));
    for key in parents {
        at = match at {
            Value::Object(fields) => fields.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new())),
            Value::Array(values) => {
                let place = place(path, key, values.len())?;
                &mut values[place]
            }
            other => return Err(cannot_resolve(path, key, other)),
        };
    }
    match at {
        Value::Object(fields) => change(slot(fields, leaf)),
        Value::Array(values) => {
            let place = place(path, leaf, values.len())?;
            change(Slot::Occupied(&mut values[place]));
        }
        other => return Err(cannot_set(path, leaf, other)),
    }
    Ok(())
}

fn slot<'a>(fields: &'a mut Map<String, Value>, name: &'a str) -> Slot<'a> {
    if fields.contains_key(name) {
        // The second look-up is what the borrow checker needs; `entry` would copy the name.
        return Slot::Occupied(&mut fields[name]);
    }
    Slot::Vacant(fields, name)
}

pub(crate) fn is_metadata(name: &str) -> bool {
    name.starts_with('_') && METADATA.contains(&name)
}

/// Parses a place in a list.
fn place(path: &Path, key: &str, len: usize) -> Result<usize, Failure> {
    let text = path.text();
    let place: i32 = key.parse().map_err(|_| {
        Failure::illegal(format!(
            "[{key}] is not an integer, cannot be used as an index as part of path [{text}]"
        ))
    })?;
    usize::try_from(place).ok().filter(|place| *place < len).ok_or_else(|| {
        Failure::illegal(format!(
            "[{place}] is out of bounds for array with length [{len}] as part of path [{text}]"
        ))
    })
}

fn not_present(path: &Path, key: &str) -> Failure {
    Failure::illegal(format!("field [{key}] not present as part of path [{}]", path.text()))
}

/// Message of a value that has another type than a processor needs.
pub(crate) fn cannot_cast(field: &str, value: &Value, class: &str) -> Failure {
    let found = class_name(value);
    Failure::illegal(format!("field [{field}] of type [{found}] cannot be cast to [{class}]"))
}

fn of_type(value: &Value, is_null: &str, is_other: &str) -> String {
    match value {
        Value::Null => is_null.to_owned(),
        other => format!("{is_other} [{}]", class_name(other)),
    }
}

fn cannot_resolve(path: &Path, key: &str, value: &Value) -> Failure {
    let from = of_type(value, "from null", "from object of type");
    Failure::illegal(format!(
        "cannot resolve [{key}] {from} as part of path [{}]",
        path.text()
    ))
}

fn cannot_remove(path: &Path, key: &str, value: &Value) -> Failure {
    let from = of_type(value, "from null", "from object of type");
    Failure::illegal(format!(
        "cannot remove [{key}] {from} as part of path [{}]",
        path.text()
    ))
}

fn cannot_set(path: &Path, key: &str, value: &Value) -> Failure {
    let with = of_type(value, "with null parent", "with parent object of type");
    Failure::illegal(format!("cannot set [{key}] {with} as part of path [{}]", path.text()))
}
