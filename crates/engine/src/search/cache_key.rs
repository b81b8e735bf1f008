//! Cache keys of search requests and their parts.
//!
//! Two keys of the same parts are equal if and only if the parts are: different spellings of a query that parse to the
//! same query share a key. The order of aggregations counts, because it is the order of the answer. Keys are for the
//! memory of one process; their bytes are not a format.

use std::sync::Arc;

use serde_json::Value;

use super::SearchRequest;
use super::visit::{Accept, Visitor};
use crate::aggs::Aggregations;
use crate::query::Query;

/// Initial capacity: the key of a search with a query and an aggregation, bytes.
const CAPACITY: usize = 256;

/// Writer of a cache key. No key of a sequence of parts is the beginning of the key of another sequence of such parts.
#[derive(Debug)]
pub struct CacheKeyWriter {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Default for CacheKeyWriter {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl CacheKeyWriter {
    /// Creates a writer of a key with at most this many bytes.
    pub fn with_limit(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(CAPACITY),
            bytes_max,
        }
    }

    /// Adds a whole request.
    pub fn request(mut self, request: &SearchRequest) -> Self {
        request.accept(&mut self);
        self
    }

    /// Adds a query.
    pub fn query(mut self, query: &Query) -> Self {
        query.accept(&mut self);
        self
    }

    /// Adds aggregations.
    pub fn aggregations(mut self, aggregations: &Aggregations) -> Self {
        aggregations.accept(&mut self);
        self
    }

    /// Returns the key; `None`: it is longer than the limit.
    pub fn finish(self) -> Option<Arc<[u8]>> {
        (!self.is_full()).then(|| self.bytes.into())
    }

    fn is_full(&self) -> bool {
        self.bytes.len() > self.bytes_max
    }

    /// Appends a number in groups of seven bits, the lowest first; the high bit says that another group follows.
    fn append_number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn append_text(&mut self, text: &str) {
        if !self.is_full() {
            self.append_number(text.len() as u64);
            self.bytes.extend_from_slice(text.as_bytes());
        }
    }

    fn append_json(&mut self, value: &Value) {
        if self.is_full() {
            return;
        }
        match value {
            Value::Null => self.bytes.push(0),
            Value::Bool(false) => self.bytes.push(1),
            Value::Bool(true) => self.bytes.push(2),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => {
                    self.bytes.push(3);
                    self.append_number(number);
                }
                (None, Some(number)) => {
                    self.bytes.push(4);
                    self.append_number(number.unsigned_abs());
                }
                (None, None) => {
                    self.bytes.push(5);
                    let bits = number.as_f64().unwrap_or(f64::NAN).to_bits();
                    self.bytes.extend_from_slice(&bits.to_le_bytes());
                }
            },
            Value::String(text) => {
                self.bytes.push(6);
                self.append_text(text);
            }
            Value::Array(values) => {
                self.bytes.push(7);
                self.append_number(values.len() as u64);
                for value in values {
                    self.append_json(value);
                }
            }
            Value::Object(entries) => {
                self.bytes.push(8);
                self.append_number(entries.len() as u64);
                for (name, value) in entries {
                    self.append_text(name);
                    self.append_json(value);
                }
            }
        }
    }
}

impl Visitor for CacheKeyWriter {
    fn number(&mut self, number: u64) {
        if !self.is_full() {
            self.append_number(number);
        }
    }

    fn text(&mut self, text: &str) {
        self.append_text(text);
    }

    fn value(&mut self, value: &Value) {
        self.append_json(value);
    }

    fn json(&mut self, value: &Value) {
        self.append_json(value);
    }
}
