//! Random documents.

use serde_json::{Map, Value as Json, json};

use super::Random;
use crate::reference::{FIELDS, Kind};

pub(super) const KEYWORDS: &[&str] = &[
    "red", "Red", "rot", "green", "grün", "blue", "", "a b", "日本", "x-1", "x-2", "x-10", "zz😀", "10",
];

pub(super) const WORDS: &[&str] = &[
    "quick", "brown", "fox", "Fox", "lazy", "dog", "dogs", "the", "über", "42", "error", "errors", "timeout", "log",
];

pub(super) const ADDRESSES: &[&str] = &[
    "10.0.0.1",
    "10.0.0.2",
    "10.0.1.7",
    "10.255.255.255",
    "192.168.0.1",
    "2001:db8::1",
    "2001:db8::ff",
    "::1",
    "0.0.0.0",
];

/// Times in summer and winter time, at the ends of days, months and years, and at clock changes in Berlin and New York.
pub(super) const INSTANTS: &[&str] = &[
    "2024-06-15T10:00:00Z",
    "2024-06-15T10:00:00.001Z",
    "2024-06-15T23:59:59.999Z",
    "2024-06-16T00:00:00Z",
    "2024-06-16",
    "2024-06-15T22:30:00+02:00",
    "2024-06-30T23:30:00Z",
    "2024-07-01T00:00:00Z",
    "2024-03-31T00:59:59Z",
    "2024-03-31T01:00:00Z",
    "2024-10-27T00:30:00Z",
    "2024-10-27T01:30:00Z",
    "2024-03-10T07:00:00Z",
    "2024-11-03T06:30:00Z",
    "2023-12-31T23:59:59.5Z",
    "2024-01-01T00:00:00Z",
    "2024-02-29T12:00:00Z",
];

const MISFITS: &[&str] = &["n/a", "not a value", "unknown thing"];

impl Random {
    /// Returns the source of a document; `sequence` is its `seq`. It has no `tenant`.
    pub fn document(&mut self, sequence: u64) -> Json {
        let mut source = Map::new();
        source.insert("seq".into(), json!(sequence));
        let mut object = Map::new();
        for (name, kind) in FIELDS {
            if matches!(*name, "seq" | "msg.raw" | "tenant") || !self.chance(75) {
                continue;
            }
            // Metrics that need one value per document use these fields.
            let value = if matches!(*name, "small" | "obj.count") {
                self.single(*kind)
            } else {
                self.value(*kind)
            };
            match name.strip_prefix("obj.") {
                Some(leaf) => drop(object.insert(leaf.to_owned(), value)),
                None => drop(source.insert((*name).to_owned(), value)),
            }
        }
        if !object.is_empty() {
            source.insert("obj".into(), Json::Object(object));
        }
        Json::Object(source)
    }

    /// Returns the value of a field: mostly one value, sometimes several, none, or one of a wrong type.
    fn value(&mut self, kind: Kind) -> Json {
        match self.below(20) {
            0 => Json::Null,
            1 => json!([]),
            2..=5 => {
                let count = 1 + self.below(3);
                (0..count).map(|_| self.single(kind)).collect()
            }
            6 => json!([self.single(kind), null]),
            7 if !matches!(kind, Kind::Constant(_)) => self.misfit(kind),
            _ => self.single(kind),
        }
    }

    fn misfit(&mut self, kind: Kind) -> Json {
        let misfit = json!(self.pick(MISFITS));
        match kind {
            Kind::Keyword | Kind::Lower | Kind::Wildcard | Kind::Text => {
                self.pick(&[json!(7), json!(true), json!(2.5)])
            }
            Kind::Integer(name, ..) if name != "long" && self.chance(50) => json!(-9_000_000_000_i64),
            _ if self.chance(30) => json!([misfit, self.single(kind)]),
            _ => misfit,
        }
    }

    /// Returns a value that fits a type, in any notation.
    fn single(&mut self, kind: Kind) -> Json {
        match kind {
            Kind::Keyword | Kind::Lower | Kind::Wildcard => json!(self.pick(KEYWORDS)),
            Kind::Constant(value) => json!(value),
            Kind::Text => {
                let count = 1 + self.below(6);
                let words: Vec<&str> = (0..count).map(|_| self.pick(WORDS)).collect();
                json!(words.join(self.pick(&[" ", ", "])))
            }
            Kind::Integer("unsigned_long", ..) if self.chance(10) => json!(u64::MAX - self.below(2) as u64),
            Kind::Integer("long", ..) if self.chance(5) => {
                json!(self.pick(&[i64::MIN, i64::MAX, 9_007_199_254_740_993]))
            }
            Kind::Integer(name, ..) => {
                let least = if name == "unsigned_long" { 0 } else { -6 };
                let number = least + self.below(20) as i64;
                match self.below(10) {
                    0 => json!(number.to_string()),
                    // Truncated to the integer on indexing.
                    1 if name != "unsigned_long" => json!(number as f64 + if number < 0 { -0.5 } else { 0.5 }),
                    _ => json!(number),
                }
            }
            Kind::Double | Kind::Float | Kind::Scaled(_) => {
                let number = self.quarters();
                if self.chance(10) {
                    json!(number.to_string())
                } else {
                    json!(number)
                }
            }
            Kind::Boolean => self.pick(&[json!(true), json!(false), json!("true"), json!("false"), json!("")]),
            Kind::Date | Kind::DateNanos => match self.below(8) {
                0 => json!(1_718_452_800_000_i64 + self.below(5) as i64 * 3_600_000),
                1 => json!((1_718_452_800_000_i64 + self.below(5) as i64).to_string()),
                2 if kind == Kind::DateNanos => json!("2024-06-15T10:00:00.000000001Z"),
                _ => json!(self.pick(INSTANTS)),
            },
            Kind::Ip => json!(self.pick(ADDRESSES)),
        }
    }
}
