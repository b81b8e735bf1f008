//! `json`: parses a text of JSON.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::prelude::*;

/// Nesting of the parsed JSON. The parser recurses for each level.
const DEPTH_MAX: usize = 100;

#[derive(Debug)]
struct Json {
    field: Path,
    target: Option<Path>,
    merge: bool,
    allow_duplicate_keys: bool,
    strict: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let target = options.optional_path("target_field")?;
    let add_to_root = options.boolean("add_to_root", false)?;
    let strategy = options.optional_text("add_to_root_conflict_strategy")?;
    if add_to_root && target.is_some() {
        let reason = "Cannot set a target field while also setting `add_to_root` to true";
        return Err(options.error(Some("target_field"), reason));
    }
    if !add_to_root && strategy.is_some() {
        let reason = "Cannot set `add_to_root_conflict_strategy` if `add_to_root` is false";
        return Err(options.error(Some("add_to_root_conflict_strategy"), reason));
    }
    let merge = match strategy.as_deref() {
        None | Some("replace") => false,
        Some("merge") => true,
        Some(other) => {
            let reason = format!("conflict strategy [{other}] not supported, cannot convert field.");
            return Err(options.error(Some("add_to_root_conflict_strategy"), reason));
        }
    };
    boxed(Json {
        target: if add_to_root {
            None
        } else {
            Some(target.unwrap_or_else(|| field.clone()))
        },
        field,
        merge,
        allow_duplicate_keys: options.boolean("allow_duplicate_keys", false)?,
        strict: options.boolean("strict_json_parsing", true)?,
    })
}

impl Processor for Json {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let text = match document.get(&self.field)? {
            Value::Null => "null".to_owned(),
            value => java_text(value),
        };
        run.budget.take_text(text.len())?;
        run.budget.write(text.len())?;
        let value = self.parse_text(&text)?;
        match (&self.target, value) {
            (Some(target), value) => document.set(target, value)?,
            (None, Value::Object(fields)) => {
                for (name, value) in fields {
                    let merged = match (self.merge, document.source.get_mut(&name), value) {
                        (true, Some(Value::Object(into)), Value::Object(from)) => {
                            merge(into, from);
                            continue;
                        }
                        (_, _, value) => value,
                    };
                    document.set(&Path::parse(&name).map(|path| path.with_one_name(&name))?, merged)?;
                }
            }
            (None, _) => return Err(Failure::illegal("cannot add non-map fields to root of document")),
        }
        Ok(Flow::Continue)
    }
}

impl Json {
    fn parse_text(&self, text: &str) -> Result<Value, Failure> {
        if firn_model::json_depth::nests_deeper(text.as_bytes(), DEPTH_MAX) {
            return Err(Failure::illegal(format!("JSON nests deeper than {DEPTH_MAX} levels")));
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let seed = Tree {
            allow_duplicate_keys: self.allow_duplicate_keys,
        };
        let value = seed
            .deserialize(&mut deserializer)
            .map_err(|error| Failure::illegal(error.to_string()))?;
        if self.strict && deserializer.end().is_err() {
            let reason = format!("field [{}] contains more than one JSON value", self.field.text());
            return Err(Failure::illegal(reason));
        }
        Ok(value)
    }
}

fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// Reads a value and refuses names that come twice in an object.
#[derive(Clone, Copy)]
struct Tree {
    allow_duplicate_keys: bool,
}

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element_seed(self)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(self)?;
            if map.contains_key(&name) && !self.allow_duplicate_keys {
                return Err(A::Error::custom(format!("Duplicate field '{name}'")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"json": {}}), "[field] required property is missing");
        refused(
            json!({"json": {"field": "f", "target_field": "g", "add_to_root": true}}),
            "[target_field] Cannot set a target field while also setting `add_to_root` to true",
        );
        refused(
            json!({"json": {"field": "f", "add_to_root_conflict_strategy": "merge"}}),
            "[add_to_root_conflict_strategy] Cannot set `add_to_root_conflict_strategy` if `add_to_root` is false",
        );
    }

    #[test]
    fn results() {
        let parse = json!({"json": {"field": "f"}});
        check(
            parse.clone(),
            json!({"f": "{\"a\": [1, null, {\"b\": 1.5}]}"}),
            json!({"f": {"a": [1, null, {"b": 1.5}]}}),
        );
        for (text, value) in [
            ("1", json!(1)),
            ("\"x\"", json!("x")),
            ("true", json!(true)),
            ("null", json!(null)),
        ] {
            check(parse.clone(), json!({"f": text}), json!({"f": value}));
        }
        check(parse, json!({"f": 3}), json!({"f": 3}));
        let target = json!({"json": {"field": "f", "target_field": "g"}});
        check(target, json!({"f": "[]"}), json!({"f": "[]", "g": []}));
        let root = json!({"json": {"field": "f", "add_to_root": true}});
        let source = json!({"f": "{\"a\": {\"x\": 1}, \"b.c\": 2}", "a": {"y": 2}});
        check(root, source.clone(), json!({"f": source["f"], "a": {"x": 1}, "b.c": 2}));
        let merge = json!({"json": {"field": "f", "add_to_root": true, "add_to_root_conflict_strategy": "merge"}});
        check(
            merge,
            source.clone(),
            json!({"f": source["f"], "a": {"y": 2, "x": 1}, "b.c": 2}),
        );
        let last = json!({"json": {"field": "f", "allow_duplicate_keys": true}});
        check(last, json!({"f": "{\"a\": 1, \"a\": 2}"}), json!({"f": {"a": 2}}));
        let lenient = json!({"json": {"field": "f", "strict_json_parsing": false}});
        check(lenient, json!({"f": "1 rest"}), json!({"f": 1}));
    }

    #[test]
    fn failures() {
        let parse = json!({"json": {"field": "f"}});
        fails(parse.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(
            parse.clone(),
            json!({"f": "1 2"}),
            "field [f] contains more than one JSON value",
        );
        let reason = "Duplicate field 'a' at line 1 column 14";
        fails(parse.clone(), json!({"f": "{\"a\": 1,\"a\":2}"}), reason);
        let deep = "[".repeat(1000);
        fails(parse, json!({"f": deep}), "JSON nests deeper than 100 levels");
        let root = json!({"json": {"field": "f", "add_to_root": true}});
        fails(
            root,
            json!({"f": "[1]"}),
            "cannot add non-map fields to root of document",
        );
    }
}
