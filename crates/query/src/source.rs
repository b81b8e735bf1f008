//! `_source` filter.
//!
//! The filter works on the stored bytes: it copies included values unchanged, so numbers keep their digits and keys
//! their order. It parses only objects that are partly included.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use firn_model::names::matches_pattern;
use firn_model::{Error, Result};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::token;

/// Maximum patterns in one filter. Each path of a document is matched against all of them.
const PATTERNS_MAX: usize = 1024;

/// Maximum bytes of one pattern: longer than any path that indexing accepts.
const PATTERN_LENGTH_MAX: usize = 4096;

/// Maximum nesting of objects and lists that the filter parses. Mappings allow 20 levels.
const DEPTH_MAX: usize = 128;

/// Part of `_source` that goes into an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SourceFilter {
    /// Byte for byte as stored.
    #[default]
    All,
    /// Nothing.
    None,
    /// Only matching paths; patterns are full paths with `*` and name a whole object or a leaf.
    Paths {
        /// Empty: everything.
        includes: Vec<String>,
        /// Removed from what `includes` selects.
        excludes: Vec<String>,
    },
}

impl SourceFilter {
    /// Applies the filter to one JSON object. `All` returns the bytes unchanged (no copy). Fails with
    /// [`firn_model::ErrorKind::JsonParse`] if a part that must be parsed is not JSON.
    ///
    /// As in Elasticsearch `*` also crosses dots, an exclusion wins over an inclusion, and an object or list that
    /// becomes empty is left out, unless a pattern names it.
    pub fn apply(&self, source: &Bytes) -> Result<Option<Bytes>> {
        let (includes, excludes) = match self {
            Self::All => return Ok(Some(source.clone())),
            Self::None => return Ok(None),
            Self::Paths { includes, excludes } => (includes, excludes),
        };
        let mut writer = Writer {
            includes,
            excludes,
            path: String::new(),
            depth: 0,
            out: Vec::with_capacity(source.len().min(4096)),
        };
        let raw: &RawValue = serde_json::from_slice(source)?;
        let included = includes.is_empty();
        if !writer.object(raw, included)? {
            writer.out.extend_from_slice(b"{}");
        }
        Ok(Some(writer.out.into()))
    }

    /// Parses the `_source` of a body: a bool, a pattern, a list, or includes/excludes.
    pub fn parse(value: &Value) -> Result<Self> {
        match value {
            Value::Bool(true) => Ok(Self::All),
            Value::Bool(false) => Ok(Self::None),
            Value::String(_) | Value::Array(_) => Self::from_patterns(patterns("_source", value)?, Vec::new()),
            Value::Object(body) => {
                let (mut includes, mut excludes) = (Vec::new(), Vec::new());
                for (key, value) in body {
                    match key.as_str() {
                        "includes" | "include" => includes = patterns(key, value)?,
                        "excludes" | "exclude" => excludes = patterns(key, value)?,
                        _ => {
                            return Err(Error::parsing(format!(
                                "Unknown key for a {} in [{key}].",
                                token(value)
                            )));
                        }
                    }
                }
                Self::from_patterns(includes, excludes)
            }
            _ => Err(Error::parsing(format!(
                "Expected one of [VALUE_BOOLEAN, VALUE_STRING, START_ARRAY, START_OBJECT] but found [{}]",
                token(value)
            ))),
        }
    }

    /// Returns a filter of patterns (`_source_includes` and `_source_excludes` of a URL); without patterns it is `All`.
    /// Fails if there are more than 1024 or one is longer than 4096 bytes.
    pub fn from_patterns(includes: Vec<String>, excludes: Vec<String>) -> Result<Self> {
        let count = includes.len() + excludes.len();
        if count > PATTERNS_MAX {
            return Err(Error::illegal_argument(format!(
                "[_source] has [{count}] patterns, more than the allowed maximum of [{PATTERNS_MAX}]"
            )));
        }
        let mut all = includes.iter().chain(&excludes);
        if all.any(|pattern| pattern.len() > PATTERN_LENGTH_MAX) {
            return Err(Error::illegal_argument(format!(
                "[_source] has a pattern longer than [{PATTERN_LENGTH_MAX}] bytes"
            )));
        }
        if count == 0 {
            return Ok(Self::All);
        }
        Ok(Self::Paths { includes, excludes })
    }
}

fn patterns(key: &str, value: &Value) -> Result<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(pattern) => Ok(pattern.clone()),
        _ => Err(Error::parsing(format!(
            "Unknown key for a {} in [{key}].",
            token(value)
        ))),
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

struct Writer<'f> {
    includes: &'f [String],
    excludes: &'f [String],
    /// Path of the current value from the root, with dots.
    path: String,
    depth: usize,
    out: Vec<u8>,
}

impl Writer<'_> {
    /// Writes the included part of an object. If no part is included, writes nothing and returns false.
    fn object(&mut self, raw: &RawValue, included: bool) -> Result<bool> {
        self.enter()?;
        let Entries(entries) = serde_json::from_str(raw.get())?;
        let start = self.out.len();
        self.out.push(b'{');
        let mut empty = true;
        let parent_length = self.path.len();
        for (key, value) in entries {
            if parent_length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            let before = self.out.len();
            if !empty {
                self.out.push(b',');
            }
            serde_json::to_writer(&mut self.out, &key)?;
            self.out.push(b':');
            if self.value(value, included)? {
                empty = false;
            } else {
                self.out.truncate(before);
            }
            self.path.truncate(parent_length);
        }
        self.depth -= 1;
        Ok(self.close(start, empty, b'}'))
    }

    /// Writes the included part of the value at `path`; `included` if a parent is included.
    fn value(&mut self, raw: &RawValue, included: bool) -> Result<bool> {
        if self.excludes.iter().any(|pattern| matches_pattern(pattern, &self.path)) {
            return Ok(false);
        }
        let included = included || self.includes.iter().any(|pattern| matches_pattern(pattern, &self.path));
        let reaches_below = |patterns: &[String]| patterns.iter().any(|pattern| may_match_below(pattern, &self.path));
        let is_container = raw.get().starts_with(['{', '[']);
        if !is_container || (included && !reaches_below(self.excludes)) {
            if included {
                self.out.extend_from_slice(raw.get().as_bytes());
            }
            return Ok(included);
        }
        if !included && !reaches_below(self.includes) {
            return Ok(false);
        }
        self.container(raw, included)
    }

    fn container(&mut self, raw: &RawValue, included: bool) -> Result<bool> {
        let is_object = raw.get().starts_with('{');
        let written = if is_object {
            self.object(raw, included)?
        } else {
            self.list(raw, included)?
        };
        if !written && included {
            let empty: &[u8] = if is_object { b"{}" } else { b"[]" };
            self.out.extend_from_slice(empty);
        }
        Ok(written || included)
    }

    /// Filters a list: each object in it is filtered at the path of the list.
    fn list(&mut self, raw: &RawValue, included: bool) -> Result<bool> {
        self.enter()?;
        let Elements(elements) = serde_json::from_str(raw.get())?;
        let start = self.out.len();
        self.out.push(b'[');
        let mut empty = true;
        for element in elements {
            let before = self.out.len();
            if !empty {
                self.out.push(b',');
            }
            let written = match element.get().as_bytes().first() {
                Some(b'{') => self.object(element, included)?,
                Some(b'[') => self.list(element, included)?,
                _ if included => {
                    self.out.extend_from_slice(element.get().as_bytes());
                    true
                }
                _ => false,
            };
            if written {
                empty = false;
            } else {
                self.out.truncate(before);
            }
        }
        self.depth -= 1;
        Ok(self.close(start, empty, b']'))
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::illegal_argument(format!(
                "cannot filter [_source]: it is nested deeper than [{DEPTH_MAX}] levels"
            )));
        }
        Ok(())
    }

    fn close(&mut self, start: usize, empty: bool, end: u8) -> bool {
        if empty {
            self.out.truncate(start);
        } else {
            self.out.push(end);
        }
        !empty
    }
}

/// Whether `pattern` could match a path below `path`. Up to its first star the pattern must equal the path; after the
/// star anything may follow.
fn may_match_below(pattern: &str, path: &str) -> bool {
    let (head, open) = match pattern.split_once('*') {
        Some((head, _)) => (head, true),
        None => (pattern, false),
    };
    match head.strip_prefix(path) {
        Some("") => open,
        Some(rest) => rest.starts_with('.'),
        None => open && (path.starts_with(head) || is_head_of_below(head, path)),
    }
}

/// `head` ends with the dot below `path`.
fn is_head_of_below(head: &str, path: &str) -> bool {
    head.strip_suffix('.') == Some(path)
}

/// Entries of an object in their order, with unparsed values.
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    entries.push((key.0, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Elements of a list, unparsed.
struct Elements<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Elements<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element::<&'de RawValue>()? {
                    elements.push(element);
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EVENT: &str = r#"{"z": 1.50, "a": {"b": {"c": 1e3, "d": [1, 2]}, "e": null}, "list": [{"x": 1, "y": 2}, 7, [{"x": 3}], {"y": 4}], "a\"q": "ü\u00fc", "empty": {}, "big": 12345678901234567890123}"#;

    fn check(filter: Value, expected: &str) {
        let filter = SourceFilter::parse(&filter).unwrap();
        let filtered = filter.apply(&Bytes::from_static(EVENT.as_bytes())).unwrap();
        assert_eq!(
            filtered
                .as_deref()
                .map(|filtered| std::str::from_utf8(filtered).unwrap()),
            Some(expected)
        );
    }

    #[test]
    fn all_and_none() {
        check(json!(true), EVENT);
        check(json!([]), EVENT);
        check(json!({}), EVENT);
        let none = SourceFilter::parse(&json!(false)).unwrap();
        assert_eq!(none.apply(&Bytes::from_static(b"{}")).unwrap(), None);
    }

    #[test]
    fn includes() {
        check(json!("z"), r#"{"z":1.50}"#);
        check(json!(["big", "z"]), r#"{"z":1.50,"big":12345678901234567890123}"#);
        check(json!("a.b"), r#"{"a":{"b":{"c": 1e3, "d": [1, 2]}}}"#);
        check(json!("a.b.c"), r#"{"a":{"b":{"c":1e3}}}"#);
        check(json!("a.*"), r#"{"a":{"b":{"c": 1e3, "d": [1, 2]},"e":null}}"#);
        check(json!("*.c"), r#"{"a":{"b":{"c":1e3}}}"#);
        check(
            json!("a*"),
            r#"{"a":{"b": {"c": 1e3, "d": [1, 2]}, "e": null},"a\"q":"ü\u00fc"}"#,
        );
        check(json!("empty"), r#"{"empty":{}}"#);
        check(json!("empty.*"), "{}");
        check(json!("nothing"), "{}");
        check(json!("a.b.c.d"), "{}");
        check(json!("ab"), "{}");
    }

    #[test]
    fn lists_of_objects() {
        check(json!("list.x"), r#"{"list":[{"x":1},[{"x":3}]]}"#);
        check(
            json!({"includes": "list", "excludes": "list.x"}),
            r#"{"list":[{"y":2},7,{"y":4}]}"#,
        );
    }

    #[test]
    fn excludes_win() {
        check(
            json!({"includes": ["a.*", "z"], "excludes": ["a.b.*", "z"]}),
            r#"{"a":{"b":{},"e":null}}"#,
        );
        check(
            json!({"include": "a", "exclude": "*.c"}),
            r#"{"a":{"b":{"d":[1,2]},"e":null}}"#,
        );
        check(json!({"excludes": ["a*", "list", "b*"]}), r#"{"z":1.50,"empty":{}}"#);
        check(json!({"excludes": "*"}), "{}");
    }

    #[test]
    fn refuses() {
        for (filter, reason) in [
            (
                json!(1),
                "Expected one of [VALUE_BOOLEAN, VALUE_STRING, START_ARRAY, START_OBJECT] but found [VALUE_NUMBER]",
            ),
            (json!({"only": ["a"]}), "Unknown key for a START_ARRAY in [only]."),
            (json!({"includes": 5}), "Unknown key for a VALUE_NUMBER in [includes]."),
            (
                json!(vec!["a"; 1025]),
                "[_source] has [1025] patterns, more than the allowed maximum of [1024]",
            ),
            (
                json!("a".repeat(4097)),
                "[_source] has a pattern longer than [4096] bytes",
            ),
        ] {
            assert_eq!(SourceFilter::parse(&filter).unwrap_err().reason(), reason);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let filter = SourceFilter::parse(&json!("*.x")).unwrap();
        for (open, close) in [("{\"a\":", "}"), ("[", "]")] {
            let deep = format!("{{\"a\":{}1{}}}", open.repeat(100_000), close.repeat(100_000));
            assert!(filter.apply(&Bytes::from(deep)).is_err());
        }
    }

    #[test]
    fn invalid_json_is_an_error() {
        let filter = SourceFilter::parse(&json!("a")).unwrap();
        for bad in ["", "[1]", "1", "{\"a\":}", "{\"a\":1", "\u{0}"] {
            assert!(filter.apply(&Bytes::from(bad)).is_err(), "{bad}");
        }
        assert!(filter.apply(&Bytes::from_static(b"{\"a\": \"\xff\"}")).is_err());
    }

    mod properties {
        use proptest::prelude::*;
        use serde_json::{Map, Value};

        use super::super::*;

        fn json() -> impl Strategy<Value = Value> {
            let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "[a-z]{0,3}".prop_map(Value::from)];
            let value = leaf.prop_recursive(4, 24, 3, |inner| {
                prop_oneof![
                    prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                    prop::collection::vec(("[ab]", inner), 0..3).prop_map(|entries| entries.into_iter().collect()),
                ]
            });
            prop::collection::vec(("[ab]", value), 0..3).prop_map(|entries| entries.into_iter().collect())
        }

        /// The same filter on a parsed tree, without lookahead.
        fn model(value: &Value, path: &str, included: bool, filter: (&[String], &[String])) -> Option<Value> {
            let matches = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, path));
            if matches(filter.1) {
                return None;
            }
            let included = included || matches(filter.0);
            match value {
                Value::Object(_) | Value::Array(_) => {
                    let inside = model_inside(value, path, included, filter);
                    let empty = match value {
                        Value::Object(_) => Value::Object(Map::new()),
                        _ => Value::Array(Vec::new()),
                    };
                    inside.or(included.then_some(empty))
                }
                leaf => included.then(|| leaf.clone()),
            }
        }

        fn model_inside(value: &Value, path: &str, included: bool, filter: (&[String], &[String])) -> Option<Value> {
            match value {
                Value::Object(entries) => {
                    let mut filtered = Map::new();
                    for (key, value) in entries {
                        let below = if path.is_empty() {
                            key.clone()
                        } else {
                            format!("{path}.{key}")
                        };
                        if let Some(value) = model(value, &below, included, filter) {
                            filtered.insert(key.clone(), value);
                        }
                    }
                    (!filtered.is_empty()).then_some(Value::Object(filtered))
                }
                Value::Array(elements) => {
                    let filtered = elements
                        .iter()
                        .filter_map(|element| model_inside(element, path, included, filter));
                    let filtered: Vec<Value> = filtered.collect();
                    (!filtered.is_empty()).then_some(Value::Array(filtered))
                }
                leaf => included.then(|| leaf.clone()),
            }
        }

        proptest! {
            /// Exception: a fully included part is copied with the empty objects in its lists.
            #[test]
            fn keeps_what_the_model_keeps(
                event in json(),
                includes in prop::collection::vec("[ab](\\.[ab*])?|\\*\\.[ab]", 0..3),
                excludes in prop::collection::vec("[ab]\\.[ab]|\\*\\.b\\*?", 1..3),
            ) {
                let filter = SourceFilter::Paths { includes: includes.clone(), excludes: excludes.clone() };
                let filtered = filter.apply(&Bytes::from(event.to_string())).unwrap().unwrap();
                let filtered: Value = serde_json::from_slice(&filtered).unwrap();
                let expected = model_inside(&event, "", includes.is_empty(), (&includes, &excludes))
                    .unwrap_or_else(|| Value::Object(Map::new()));
                prop_assert_eq!(without_empties(filtered), without_empties(expected));
            }

            #[test]
            fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
                let filter = SourceFilter::parse(&Value::from("a.*")).unwrap();
                let _ = filter.apply(&Bytes::from(bytes));
            }
        }

        fn without_empties(value: Value) -> Value {
            match value {
                Value::Array(elements) => {
                    let filtered = elements.into_iter().map(without_empties);
                    filtered
                        .filter(|filtered| !matches!(filtered, Value::Array(list) if list.is_empty()))
                        .filter(|filtered| !matches!(filtered, Value::Object(object) if object.is_empty()))
                        .collect()
                }
                Value::Object(entries) => entries
                    .into_iter()
                    .map(|(key, value)| (key, without_empties(value)))
                    .collect(),
                leaf => leaf,
            }
        }
    }
}
