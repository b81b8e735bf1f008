//! Comparison of an answer with its expectations: every mismatch becomes a line with the path, the expected and the
//! actual value.

use firn_testkit::Answer;
use serde_json::{Map, Value};

use crate::scenario::{ErrorExpect, Expect};

/// Maximum characters of a shown value; the rest of a large answer is no help.
const SHOWN_CHARS_MAX: usize = 600;

/// Returns the mismatches between an answer and its expectations; none if all hold.
pub(crate) fn mismatches(expect: &Expect, answer: &Answer) -> Vec<String> {
    let body = answer.json();
    let mut found = Found { lines: Vec::new() };
    let status = expect.status.unwrap_or(if expect.error.is_some() { 400 } else { 200 });
    if answer.status != status {
        found.lines.push(format!(
            "status: expected {status}, got {}: {}",
            answer.status,
            shorten(&answer.text())
        ));
        return found.lines;
    }
    if let Some(ids) = &expect.ids {
        found.equal("_id of the hits", &ids.clone().into(), &hit_ids(&body));
    }
    if let Some(ids) = &expect.id_set {
        let (mut expected, mut got) = (ids.clone(), strings(&hit_ids(&body)));
        expected.sort();
        got.sort();
        found.equal("_id of the hits, sorted", &expected.into(), &got.into());
    }
    if let Some(total) = expect.total {
        found.equal("hits.total.value", &total.into(), &get(&body, "hits.total.value"));
    }
    for (path, expected) in &expect.equal {
        found.equal(path, expected, &get(&body, path));
    }
    for (path, expected) in &expect.has {
        found.has(path, expected, &get(&body, path));
    }
    for (path, (expected, tolerance)) in &expect.near {
        let got = get(&body, path);
        if !got.as_f64().is_some_and(|got| (got - expected).abs() <= *tolerance) {
            found.add(path, &format!("{expected} ± {tolerance}"), &got);
        }
    }
    for (path, length) in &expect.length {
        let got = get(&body, path);
        let is = match &got {
            Value::Array(items) => Some(items.len()),
            Value::Object(keys) => Some(keys.len()),
            Value::String(text) => Some(text.chars().count()),
            _ => None,
        };
        if is != Some(*length) {
            found.add(path, &format!("length {length}"), &got);
        }
    }
    for (path, expected) in &expect.set {
        let got = get(&body, path);
        let mut left: Vec<&Value> = got.as_array().into_iter().flatten().collect();
        let all = expected.iter().all(|value| {
            let place = left.iter().position(|other| *other == value);
            place.map(|place| left.remove(place)).is_some()
        });
        if !all || !left.is_empty() || !got.is_array() {
            found.add(path, &format!("in any order {}", Value::from(expected.clone())), &got);
        }
    }
    for path in &expect.is_true {
        let got = get(&body, path);
        if is_false(&got) {
            found.add(path, "something", &got);
        }
    }
    for path in &expect.is_false {
        let got = get(&body, path);
        if !is_false(&got) {
            found.add(path, "nothing", &got);
        }
    }
    for (path, bound) in &expect.gt {
        let got = get(&body, path);
        if !got.as_f64().is_some_and(|got| got > *bound) {
            found.add(path, &format!("more than {bound}"), &got);
        }
    }
    for (path, bound) in &expect.lt {
        let got = get(&body, path);
        if !got.as_f64().is_some_and(|got| got < *bound) {
            found.add(path, &format!("less than {bound}"), &got);
        }
    }
    if let Some(error) = &expect.error {
        found.error(error, &body);
    }
    let text = answer.text();
    for pattern in &expect.lines {
        if !text.lines().any(|line| has_pieces(line, pattern)) {
            found.lines.push(format!("no line has `{pattern}`: {}", shorten(&text)));
        }
    }
    found.lines
}

struct Found {
    lines: Vec<String>,
}

impl Found {
    fn add(&mut self, path: &str, expected: &str, got: &Value) {
        let path = if path.is_empty() { "the body" } else { path };
        self.lines.push(format!(
            "{path}: expected {}, got {}",
            shorten(expected),
            shorten(&got.to_string())
        ));
    }

    /// Descends to the place where two values differ, so that a large tree shows one small difference.
    fn equal(&mut self, path: &str, expected: &Value, got: &Value) {
        match (expected, got) {
            (Value::Object(expected), Value::Object(got)) => {
                for (key, value) in expected {
                    self.equal(&join(path, key), value, got.get(key).unwrap_or(&Value::Null));
                }
                for (key, value) in got.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                    self.add(&join(path, key), "no such key", value);
                }
            }
            (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
                for (place, (expected, got)) in expected.iter().zip(got).enumerate() {
                    self.equal(&join(path, &place.to_string()), expected, got);
                }
            }
            _ if same(expected, got) => {}
            _ => self.add(path, &expected.to_string(), got),
        }
    }

    fn has(&mut self, path: &str, expected: &Value, got: &Value) {
        match (expected, got) {
            (Value::Object(expected), Value::Object(got)) => {
                for (key, value) in expected {
                    self.has(&join(path, key), value, got.get(key).unwrap_or(&Value::Null));
                }
            }
            (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
                for (place, (expected, got)) in expected.iter().zip(got).enumerate() {
                    self.has(&join(path, &place.to_string()), expected, got);
                }
            }
            _ => self.equal(path, expected, got),
        }
    }

    fn error(&mut self, expected: &ErrorExpect, body: &Value) {
        let mut levels = Vec::new();
        collect_levels(&body["error"], &mut levels);
        let fits = levels.iter().any(|level| {
            let text = |key: &str| level.get(key).and_then(Value::as_str).unwrap_or_default();
            expected.error_type.as_ref().is_none_or(|wanted| text("type") == wanted)
                && expected
                    .reason
                    .as_ref()
                    .is_none_or(|wanted| has_pieces(text("reason"), wanted))
        });
        if !fits {
            let wanted = format!(
                "{:?} with `{}`",
                expected.error_type,
                expected.reason.as_deref().unwrap_or("…")
            );
            self.add("error", &wanted, &body["error"]);
        }
    }
}

/// Collects the error and all errors inside it.
fn collect_levels<'a>(error: &'a Value, levels: &mut Vec<&'a Map<String, Value>>) {
    match error {
        Value::Object(object) => {
            levels.push(object);
            for key in ["root_cause", "caused_by", "failed_shards", "reason"] {
                collect_levels(object.get(key).unwrap_or(&Value::Null), levels);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_levels(item, levels)),
        _ => {}
    }
}

/// Returns whether `line` has the pieces of `pattern`, separated by `…`, in order.
pub(crate) fn has_pieces(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    pattern.split('…').all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// Compares numbers up to the last bits of a double: engines sum in other orders.
fn same(left: &Value, right: &Value) -> bool {
    if left == right {
        return true;
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) if left.is_f64() && right.is_f64() => {
            let (left, right) = (left.as_f64().unwrap_or(f64::NAN), right.as_f64().unwrap_or(f64::NAN));
            (left - right).abs() <= left.abs().max(right.abs()) * 1e-12
        }
        _ => false,
    }
}

/// Follows Elasticsearch's own YAML tests.
fn is_false(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(true) => false,
    }
}

fn hit_ids(body: &Value) -> Value {
    let hits = body["hits"]["hits"].as_array();
    hits.into_iter().flatten().map(|hit| hit["_id"].clone()).collect()
}

fn strings(values: &Value) -> Vec<String> {
    let values = values.as_array().into_iter().flatten();
    values
        .map(|value| value.as_str().unwrap_or_default().to_owned())
        .collect()
}

fn join(path: &str, key: &str) -> String {
    let key = key.replace('.', "\\.");
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// Returns the value at a path: keys and array positions between dots, a dot inside a key as `\.`, the whole body as
/// the empty path. `Null` if it is absent.
pub(crate) fn get(body: &Value, path: &str) -> Value {
    let mut value = body;
    for part in split(path) {
        let next = match value {
            Value::Array(items) => part.parse::<usize>().ok().and_then(|place| items.get(place)),
            Value::Object(keys) => keys.get(&part),
            _ => None,
        };
        let Some(next) = next else {
            return Value::Null;
        };
        value = next;
    }
    value.clone()
}

fn split(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut part, mut chars) = (String::new(), path.chars());
    while let Some(next) = chars.next() {
        match next {
            '\\' => part.extend(chars.next()),
            '.' => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

pub(crate) fn shorten(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{start}… ({} bytes)", text.len())
}

#[test]
fn shows_where_two_answers_differ() {
    let check = |expect: &str, status: u16, body: &str| {
        let expect: Expect = serde_norway::from_str(expect).unwrap();
        let answer = Answer {
            status,
            headers: Vec::new(),
            body: body.into(),
        };
        mismatches(&expect, &answer).join("; ")
    };
    assert_eq!(
        check("match: {a.b: [1, {c: 2}]}", 200, r#"{"a":{"b":[1,{"c":2}]}}"#),
        ""
    );
    assert_eq!(
        check("match: {a.b: [1, {c: 2}]}", 200, r#"{"a":{"b":[1,{"c":3,"d":0}]}}"#),
        "a.b.1.c: expected 2, got 3; a.b.1.d: expected no such key, got 0"
    );
    assert_eq!(check("has: {a: {b: 1}}", 200, r#"{"a":{"b":1,"c":2}}"#), "");
    assert_eq!(
        check("has: {a: {b: 1.0}}", 200, r#"{"a":{"b":1}}"#),
        "a.b: expected 1.0, got 1"
    );
    assert_eq!(check(r"match: {a\.b: 1}", 200, r#"{"a.b":1}"#), "");
    assert_eq!(check("near: {a: [1, 0.1]}", 200, r#"{"a":1.05}"#), "");
    assert_eq!(
        check("near: {a: [1, 0.1]}", 200, r#"{"a":"1"}"#),
        "a: expected 1 ± 0.1, got \"1\""
    );
    assert_eq!(check("set: {a: [2, 1]}", 200, r#"{"a":[1,2]}"#), "");
    assert_eq!(
        check("set: {a: [2, 2]}", 200, r#"{"a":[1,2]}"#),
        "a: expected in any order [2,2], got [1,2]"
    );
    assert_eq!(check("is_false: [a, b]", 200, r#"{"a":[]}"#), "");
    assert_eq!(check("is_true: [a]", 200, r#"{"a":0}"#), "a: expected something, got 0");
    assert_eq!(check("{status: 404}", 200, "x"), "status: expected 404, got 200: x");
    assert_eq!(
        check(
            "error: {type: t, reason: 'o…r'}",
            400,
            r#"{"error":{"caused_by":{"type":"t","reason":"one or"}}}"#
        ),
        ""
    );
    assert!(
        check(
            "error: {type: t, reason: x}",
            400,
            r#"{"error":{"type":"t","reason":"y"}}"#
        )
        .starts_with("error: ")
    );
    assert_eq!(check("lines: ['a…c']", 200, "x\nabc\n"), "");
    assert!(check("lines: ['c…a']", 200, "abc").starts_with("no line"));
    assert!(check("id_set: [b, a]", 200, r#"{"hits":{"hits":[{"_id":"a"}]}}"#).contains("sorted"));
}
