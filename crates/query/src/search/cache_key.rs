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

/// Writer of a cache key. The bytes of a part determine where it ends, so parts follow each other without separators.
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

    /// Adds the parts of another key.
    pub fn key(mut self, key: &[u8]) -> Self {
        self.bytes.extend_from_slice(key);
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    use firn_testkit::random::Random;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::search::IndexTarget;

    fn request(body: &Value) -> SearchRequest {
        let target = IndexTarget {
            expression: vec!["logs-*".to_owned()],
            ..IndexTarget::default()
        };
        SearchRequest::parse(target, Some(body)).unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    fn key(request: &SearchRequest) -> Arc<[u8]> {
        CacheKeyWriter::default().request(request).finish().unwrap()
    }

    /// Returns the body with the keys of all objects in the opposite order.
    fn reversed(body: &Value) -> Value {
        match body {
            Value::Array(values) => values.iter().map(reversed).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().rev();
                fields.map(|(key, value)| (key.clone(), reversed(value))).collect()
            }
            other => other.clone(),
        }
    }

    /// Changes one number, flag or text of a body: the one with this number.
    fn changed(body: &mut Value, number: &mut usize) {
        match body {
            Value::Array(values) => values.iter_mut().for_each(|value| changed(value, number)),
            Value::Object(fields) => fields.values_mut().for_each(|value| changed(value, number)),
            leaf => {
                if *number == 0 {
                    *leaf = match &*leaf {
                        Value::Bool(flag) => json!(!*flag),
                        Value::Number(value) => json!((value.as_f64().unwrap_or_default() as i64).saturating_add(1)),
                        Value::String(text) => json!(format!("{text}1")),
                        other => other.clone(),
                    };
                }
                *number = number.wrapping_sub(1);
            }
        }
    }

    #[test]
    fn every_part_counts() {
        let bodies = [
            json!({}),
            json!({"size": 11}),
            json!({"from": 10}),
            json!({"query": {"term": {"a": "1"}}}),
            json!({"query": {"term": {"a": 1}}}),
            json!({"query": {"term": {"a": 1.0}}}),
            json!({"query": {"term": {"a": -1}}}),
            json!({"query": {"term": {"a": true}}}),
            json!({"query": {"term": {"a1": ""}}}),
            json!({"query": {"terms": {"a": [1]}}}),
            json!({"query": {"match": {"a": "1"}}}),
            json!({"query": {"match_phrase": {"a": "1"}}}),
            json!({"query": {"match_phrase": {"a": {"query": "1", "slop": 1}}}}),
            json!({"query": {"bool": {"must": {"term": {"a": 1}}}}}),
            json!({"query": {"bool": {"filter": {"term": {"a": 1}}}}}),
            json!({"query": {"bool": {"should": {"term": {"a": 1}}}}}),
            json!({"query": {"bool": {"filter": [{"term": {"a": 1}}, {"term": {"b": 1}}]}}}),
            json!({"query": {"bool": {"filter": [{"bool": {"filter": [{"term": {"a": 1}}, {"term": {"b": 1}}]}}]}}}),
            json!({"query": {"range": {"a": {"gte": 1}}}}),
            json!({"query": {"range": {"a": {"gt": 1}}}}),
            json!({"query": {"range": {"a": {"lte": 1}}}}),
            json!({"query": {"query_string": {"query": "a b"}}}),
            json!({"query": {"query_string": {"query": "a b", "default_operator": "AND"}}}),
            json!({"query": {"simple_query_string": {"query": "a b"}}}),
            json!({"query": {"kql": {"query": "a b"}}}),
            json!({"query": {"regexp": {"a": {"value": "b"}}}}),
            json!({"query": {"regexp": {"a": {"value": "b", "flags": "NONE"}}}}),
            json!({"post_filter": {"term": {"a": "1"}}}),
            json!({"min_score": 1}),
            json!({"sort": ["a"]}),
            json!({"sort": [{"a": "desc"}]}),
            json!({"sort": ["a"], "search_after": [1]}),
            json!({"sort": ["a"], "search_after": [null]}),
            json!({"_source": false}),
            json!({"_source": ["a"]}),
            json!({"_source": {"excludes": ["a"]}}),
            json!({"collapse": {"field": "a"}}),
            json!({"highlight": {"fields": {"a": {}}}}),
            json!({"track_total_hits": true}),
            json!({"track_total_hits": 5}),
            json!({"timeout": "1s"}),
            json!({"terminate_after": 5}),
            json!({"aggs": {"a": {"min": {"field": "a"}}}}),
            json!({"aggs": {"a": {"max": {"field": "a"}}}}),
            json!({"aggs": {"b": {"max": {"field": "a"}}}}),
            json!({"aggs": {"a": {"max": {"field": "a"}, "meta": {"b": [1, {"c": null}]}}}}),
            json!({"aggs": {"a": {"max": {"field": "a"}, "meta": {"b": [1, {"c": false}]}}}}),
            json!({"aggs": {"a": {"max": {"field": "a"}}, "b": {"max": {"field": "a"}}}}),
            json!({"aggs": {"b": {"max": {"field": "a"}}, "a": {"max": {"field": "a"}}}}),
            json!({"aggs": {"a": {"terms": {"field": "a"}, "aggs": {"b": {"max": {"field": "a"}}}}}}),
            json!({"aggs": {"a": {"terms": {"field": "a"}}, "b": {"max": {"field": "a"}}}}),
            json!({"aggs": {"a": {"terms": {"field": "a", "include": "b"}}}}),
            json!({"aggs": {"a": {"terms": {"field": "a", "include": ["b"]}}}}),
            json!({"aggs": {"a": {"terms": {"field": "a", "exclude": ["b"]}}}}),
        ];
        let mut keys = HashMap::new();
        for body in bodies {
            if let Some(other) = keys.insert(key(&request(&body)), body.clone()) {
                panic!("{body} and {other} share a key");
            }
        }
    }

    #[test]
    fn spellings_of_the_same_request_share_a_key() {
        for (one, other) in [
            (json!({}), json!({"size": 10, "from": 0, "query": {"match_all": {}}})),
            (
                json!({"query": {"term": {"a": 1}}, "size": 5}),
                json!({"size": "5", "query": {"term": {"a": {"boost": 1, "value": 1}}}}),
            ),
            (
                json!({"query": {"range": {"a": {"from": 1, "include_lower": false}}}}),
                json!({"query": {"range": {"a": {"gt": 1}}}}),
            ),
            (
                json!({"query": {"bool": {"filter": {"term": {"a": 1}}, "must_not": []}}}),
                json!({"query": {"bool": {"filter": [{"term": {"a": 1}}]}}}),
            ),
            (
                json!({"aggs": {"a": {"terms": {"field": "b", "size": 10}}}}),
                json!({"aggregations": {"a": {"aggs": {}, "terms": {"size": 10, "field": "b"}}}}),
            ),
        ] {
            assert_eq!(key(&request(&one)), key(&request(&other)), "{one} {other}");
        }
    }

    #[test]
    fn sequences_of_parts_differ() {
        let queries = ["a", "b", "ab"].map(|text| Query::parse(&json!({"term": {"f": text}})).unwrap());
        let aggregations = [json!({}), json!({"a": {"max": {"field": "b"}}})].map(|aggregations| {
            let aggregations = Aggregations::parse(&aggregations).unwrap();
            CacheKeyWriter::default().aggregations(&aggregations).finish().unwrap()
        });
        let mut keys = HashMap::new();
        for (first, aggregations) in aggregations.iter().enumerate() {
            for count in 0..4 {
                for sequence in 0..3_usize.pow(count) {
                    let mut writer = CacheKeyWriter::default().key(aggregations);
                    for place in 0..count {
                        writer = writer.query(&queries[sequence / 3_usize.pow(place) % 3]);
                    }
                    let other = keys.insert(writer.finish().unwrap(), (first, count, sequence));
                    assert_eq!(other, None, "{first} {count} {sequence}");
                }
            }
        }
    }

    #[test]
    fn a_long_request_has_no_key() {
        let long = request(&json!({"query": {"terms": {"a": vec!["value"; 1000]}}}));
        let short = request(&json!({"query": {"terms": {"a": ["value"]}}}));
        let limited = |request| CacheKeyWriter::with_limit(1000).request(request).finish();
        assert_eq!(limited(&long), None);
        assert_eq!(limited(&short), Some(key(&short)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The debug output has every part of a request, so it tells whether two requests are the same.
        #[test]
        fn keys_are_equal_if_and_only_if_the_requests_are(seed: u64, leaf in 0_usize..60) {
            let body = Random::new(seed).search();
            let own = request(&body);
            prop_assert_eq!(key(&own), key(&request(&body)));
            let mut other = body.clone();
            changed(&mut other, &mut leaf.clone());
            for other in [reversed(&body), other, Random::new(seed.wrapping_add(1)).search()] {
                let target = own.target.clone();
                if let Ok(other) = SearchRequest::parse(target, Some(&other)) {
                    prop_assert_eq!(
                        key(&own) == key(&other),
                        format!("{own:?}") == format!("{other:?}"),
                        "{:?} {:?}", own, other
                    );
                }
            }
        }

        #[test]
        fn the_order_of_parameters_does_not_count(seed: u64) {
            let body = json!({"query": Random::new(seed).query(3)});
            prop_assert_eq!(key(&request(&body)), key(&request(&reversed(&body))));
        }
    }

    /// Returns the shortest time of one call, in nanoseconds, of some rounds of calls.
    fn measured(mut call: impl FnMut()) -> u128 {
        const CALLS: u32 = 2000;
        let round = |call: &mut dyn FnMut()| {
            let started = Instant::now();
            (0..CALLS).for_each(|_| call());
            started.elapsed() / CALLS
        };
        let rounds = (0..20).map(|_| round(&mut call));
        rounds.min().unwrap_or(Duration::ZERO).as_nanos()
    }

    #[expect(clippy::print_stdout, reason = "it prints what it measured")]
    #[test]
    #[ignore = "a measurement: cargo test --release -p firn-query --lib -- --ignored --nocapture key_and_properties"]
    fn key_and_properties_cost_less_than_the_debug_output() {
        let panel = json!({
            "size": 0,
            "query": {"bool": {"filter": [
                {"range": {"@timestamp": {"gte": "2026-01-01T00:00:00Z", "lt": "2026-01-02T00:00:00Z"}}},
                {"term": {"service.name": "checkout"}}, {"query_string": {"query": "level:error AND message:timeout*"}}
            ]}},
            "aggs": {"time": {"date_histogram": {"field": "@timestamp", "fixed_interval": "30m"}, "aggs": {
                "hosts": {"terms": {"field": "host.name", "size": 5}, "aggs": {"p": {"percentiles": {"field": "ms"}}}}
            }}}
        });
        let page = json!({
            "size": 50, "sort": [{"@timestamp": "desc"}], "_source": ["message", "host.*"],
            "query": {"kql": {"query": "level: error and message: \"timed out\""}},
            "highlight": {"fields": {"message": {}}}
        });
        for (name, body) in [("empty", json!({})), ("panel", panel), ("page", page)] {
            let request = request(&body);
            let before = measured(|| {
                let text = format!("{:?}", black_box(&request));
                assert!(!text.contains("now") && !text.contains("andom"));
                black_box::<Arc<str>>(text.into());
            });
            let after = measured(|| {
                assert!(black_box(&request).properties().is_repeatable());
                black_box(key(&request));
            });
            let printed = measured(|| {
                let text = black_box(&request).aggs.print().to_string();
                let text = format!("{text}\n{}", request.query.print());
                assert!(!text.contains("\"now"));
                black_box::<Arc<str>>(text.into());
            });
            let segment = measured(|| {
                let request = black_box(&request);
                assert!(request.aggs.properties().is_repeatable() && request.query.properties().is_repeatable());
                let key = CacheKeyWriter::default()
                    .aggregations(&request.aggs)
                    .query(&request.query);
                black_box(key.finish());
            });
            let bytes = (format!("{request:?}").len(), key(&request).len());
            println!(
                "{name}: response key {before} ns -> {after} ns ({} -> {} bytes), segment key {printed} ns -> {segment} ns",
                bytes.0, bytes.1
            );
        }
    }
}
