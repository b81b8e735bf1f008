//! CSV writer for events: RFC 4180, with values as sent.
//!
//! The crate `csv` cannot write these lines: it quotes by one rule for all fields, and here only the quotes distinguish
//! an empty text (`""`) from an absent value.

use std::collections::HashMap;

use firn_engine::{Error, Result};
use firn_query::search::Hit;
use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum depth of parsed objects; deeper parts are one value, as sent.
const DEPTH_MAX: usize = 50;

/// Columns, with a lookup by name.
pub(super) struct Table {
    columns: Vec<String>,
    by_name: HashMap<String, usize>,
}

impl Table {
    /// Creates a table of fields by full path; `_id`, `_index` and `_routing` are allowed too.
    pub(super) fn new(columns: Vec<String>) -> Self {
        let by_name = columns.iter().enumerate().map(|(at, name)| (name.clone(), at));
        Self {
            by_name: by_name.collect(),
            columns,
        }
    }

    /// Returns the header line.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut output = Vec::new();
        for name in &self.columns {
            if !output.is_empty() {
                output.push(b',');
            }
            text(&mut output, name);
        }
        output.extend_from_slice(b"\r\n");
        output
    }

    /// Appends the line of an event.
    pub(super) fn write(&self, output: &mut Vec<u8>, hit: &Hit) -> Result<()> {
        let source = hit.source.as_deref().unwrap_or(b"{}");
        let source: &RawValue = serde_json::from_slice(source)?;
        let mut cells: Vec<Vec<&RawValue>> = vec![Vec::new(); self.columns.len()];
        self.collect(&mut String::new(), source, 0, &mut cells)?;
        for (at, (name, values)) in self.columns.iter().zip(&cells).enumerate() {
            if at > 0 {
                output.push(b',');
            }
            match (name.as_str(), values.as_slice()) {
                ("_id", _) => text(output, &hit.id),
                ("_index", _) => text(output, &hit.index),
                ("_routing", _) => hit.routing.iter().for_each(|routing| text(output, routing)),
                (name, []) => looked_up(output, hit, name),
                (_, values) => cell(output, values)?,
            }
        }
        output.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Adds each value of a part of an event to its column.
    fn collect<'s>(
        &self,
        path: &mut String,
        value: &'s RawValue,
        depth: usize,
        cells: &mut [Vec<&'s RawValue>],
    ) -> Result<()> {
        let json = value.get();
        let column = self.by_name.get(path.as_str());
        match json.as_bytes().first() {
            Some(b'{') if depth < DEPTH_MAX => {
                // A column that is an object gets the object as sent.
                if let Some(at) = column {
                    cells[*at].push(value);
                }
                let object: IndexMap<String, &RawValue> = serde_json::from_str(json)?;
                for (name, value) in object {
                    let length = path.len();
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(&name);
                    self.collect(path, value, depth + 1, cells)?;
                    path.truncate(length);
                }
            }
            Some(b'[') if depth < DEPTH_MAX => {
                for value in serde_json::from_str::<Vec<&RawValue>>(json)? {
                    self.collect(path, value, depth + 1, cells)?;
                }
            }
            Some(b'n') => {}
            _ => {
                if let Some(at) = column {
                    cells[*at].push(value);
                }
            }
        }
        Ok(())
    }
}

/// Writes a single value as it is, several as a JSON list.
fn cell(output: &mut Vec<u8>, values: &[&RawValue]) -> Result<()> {
    match values {
        [only] if only.get().starts_with('"') => {
            let value: String = serde_json::from_str(only.get()).map_err(Error::from)?;
            text(output, &value);
        }
        [only] => text(output, only.get()),
        several => {
            let several: Vec<&str> = several.iter().map(|value| value.get()).collect();
            text(output, &format!("[{}]", several.join(",")));
        }
    }
    Ok(())
}

/// Writes a value that the event does not contain under this name: an alias, a subfield, or a constant.
fn looked_up(output: &mut Vec<u8>, hit: &Hit, name: &str) {
    match hit.fields.get(name) {
        None => {}
        Some(Value::Array(values)) => match values.as_slice() {
            [Value::String(value)] => text(output, value),
            [only] => text(output, &only.to_string()),
            _ => text(output, &Value::from(values.clone()).to_string()),
        },
        Some(other) => text(output, &other.to_string()),
    }
}

/// Appends a quoted text. The quotes distinguish an empty text from an absent one.
pub(super) fn text(output: &mut Vec<u8>, text: &str) {
    let is_plain = !text.is_empty() && !text.bytes().any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n'));
    if is_plain {
        output.extend_from_slice(text.as_bytes());
        return;
    }
    output.push(b'"');
    output.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    output.push(b'"');
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn line(columns: &[&str], source: &str) -> String {
        let table = Table::new(columns.iter().map(|name| (*name).to_owned()).collect());
        let mut hit = Hit {
            index: "logs".to_owned(),
            id: "1".to_owned(),
            source: Some(Bytes::copy_from_slice(source.as_bytes())),
            ..Hit::default()
        };
        hit.fields.insert("alias".to_owned(), json!(["x"]));
        hit.fields.insert("aliases".to_owned(), json!([1, "a,b"]));
        let mut output = Vec::new();
        table.write(&mut output, &hit).unwrap();
        String::from_utf8(output)
            .unwrap()
            .strip_suffix("\r\n")
            .unwrap()
            .to_owned()
    }

    #[test]
    fn values_are_as_they_were_sent() {
        assert_eq!(line(&["a", "b"], r#"{"b": 1.10, "a": "x"}"#), "x,1.10");
        assert_eq!(
            line(&["n"], r#"{"n": 123456789012345678901234567890}"#),
            "123456789012345678901234567890"
        );
        assert_eq!(
            line(&["t", "u"], "{\"t\": true, \"u\": \"\\u00e9\\ud83d\\ude00\"}"),
            "true,é😀"
        );
        assert_eq!(line(&["a"], r#"{"a": "=1+1"}"#), "=1+1");
    }

    #[test]
    fn what_is_missing_is_not_what_is_empty() {
        assert_eq!(
            line(&["a", "b", "c", "d"], r#"{"a": "", "b": null, "c": []}"#),
            "\"\",,,"
        );
    }

    #[test]
    fn signs_of_the_format_are_quoted() {
        assert_eq!(line(&["a"], r#"{"a": "x,\"y\"\r\nz"}"#), "\"x,\"\"y\"\"\r\nz\"");
        let table = Table::new(vec!["a\"b".to_owned(), "c".to_owned()]);
        assert_eq!(table.head(), b"\"a\"\"b\",c\r\n");
    }

    #[test]
    fn objects_lists_and_dotted_names_are_paths() {
        let source = r#"{"a": {"b": 1, "c.d": [2, {"e": 3}]}, "a.b": 4, "f": [{"g": "x"}, {"g": "y"}]}"#;
        assert_eq!(
            line(&["a.b", "a.c.d", "a.c.d.e", "f.g"], source),
            r#""[1,4]","[2,{""e"": 3}]",3,"[""x"",""y""]""#
        );
        assert_eq!(line(&["a"], r#"{"a": {"b": 1}}"#), r#""{""b"": 1}""#);
    }

    #[test]
    fn names_that_no_event_has_are_looked_up() {
        assert_eq!(
            line(&["_id", "_index", "alias", "aliases", "_routing"], "{}"),
            "1,logs,x,\"[1,\"\"a,b\"\"]\","
        );
    }
}
