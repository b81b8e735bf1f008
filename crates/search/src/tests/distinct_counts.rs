//! Tests that distinct counts from prepared hashes equal those from the dictionary.

use std::path::PathBuf;

use firn_segment::distinct::Sizes;
use serde_json::{Value, json};

use super::support::{Shard, mapping, run};

/// 2023-11-14T22:13:20Z.
const START_MS: i64 = 1_700_000_000_000;

/// The same documents in segments with and without prepared hashes.
struct Pair {
    prepared: Shard,
    plain: Shard,
}

impl Pair {
    fn new(sizes: Sizes) -> Self {
        let mut prepared = Shard::new(&mapping());
        prepared.prepare(sizes);
        Self {
            prepared,
            plain: Shard::new(&mapping()),
        }
    }

    fn segment(&mut self, documents: &[Value], deleted: &[usize]) {
        self.prepared.segment(documents, deleted);
        self.plain.segment(documents, deleted);
    }

    /// Asserts that both shards answer the same, and returns the aggregations.
    fn check(&self, query: &Value, aggs: &Value, seed: u64) -> Value {
        let body = json!({"size": 0, "track_total_hits": true, "query": query, "aggs": aggs});
        let [prepared, plain] = [&self.prepared, &self.plain].map(|shard| {
            let response = run(vec![shard.ready()], &body).unwrap();
            json!([response.total.unwrap().value, *response.aggregations.unwrap()])
        });
        assert_eq!(prepared, plain, "seed {seed}: {body}");
        prepared[1].clone()
    }
}

/// Draws documents of one segment: host names from `names` and addresses from `addresses` values, some without a value
/// and some with several.
fn documents(random: &mut fastrand::Rng, count: usize, names: u32, addresses: u32, sparse: bool) -> Vec<Value> {
    let address = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        format!("10.{a}.{b}.{c}")
    };
    let draw = |number: usize| {
        let time = START_MS + number as i64 * 1000 + random.i64(0..900);
        let mut document = json!({"@timestamp": time, "status": random.u32(0..4)});
        let mut host = json!({});
        if !sparse || random.u32(0..5) > 0 {
            host["name"] = format!("h{}", random.u32(..names)).into();
        }
        host["ip"] = match random.u32(0..10) {
            0 if sparse => Value::Null,
            1 if sparse => json!([address(random.u32(..addresses)), address(random.u32(..addresses))]),
            _ => address(random.u32(..addresses)).into(),
        };
        document["host"] = host;
        document
    };
    (0..count).map(draw).collect()
}

#[test]
fn prepared_counts_are_those_of_the_dictionary() {
    let seed = firn_testkit::seed("distinct counts");
    for case in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(case));
        let mut pair = Pair::new(Sizes {
            terms_min: random.usize(1..40),
            zone_docs: random.u32(1..400),
        });
        let sparse = random.bool();
        let total = random.usize(1..1500);
        for _ in 0..random.usize(1..4) {
            let (names, addresses) = (random.u32(1..200), random.u32(1..3000));
            let documents = documents(&mut random, total, names, addresses, sparse);
            let gone: Vec<usize> = match random.u32(0..3) {
                0 => (0..total).filter(|_| random.u32(0..20) == 0).collect(),
                _ => Vec::new(),
            };
            pair.segment(&documents, &gone);
        }
        let window = || {
            let mut ends = [0; 2].map(|_| START_MS + random.i64(-1000..total as i64 * 1000 + 1000));
            ends.sort_unstable();
            json!({"range": {"@timestamp": {"gte": ends[0], "lt": ends[1], "format": "epoch_millis"}}})
        };
        let windows: Vec<Value> = std::iter::repeat_with(window).take(3).collect();
        let mut queries = vec![json!({"match_all": {}}), json!({"term": {"status": 1}})];
        queries.push(json!({"bool": {"filter": [windows[0].clone(), {"terms": {"status": [0, 2]}}]}}));
        queries.extend(windows);
        for query in &queries {
            let threshold = random.pick_threshold();
            let cardinality = |field: &str| json!({"cardinality": {"field": field, "precision_threshold": threshold}});
            let with_missing = json!({"cardinality": {
                "field": "host.ip", "precision_threshold": threshold, "missing": "10.0.0.1",
            }});
            let counts = json!({"ips": cardinality("host.ip"), "names": cardinality("host.name")});
            pair.check(query, &json!({"ips": cardinality("host.ip")}), seed);
            pair.check(query, &counts, seed);
            pair.check(query, &json!({"a": with_missing, "b": cardinality("host.name")}), seed);
            let below = json!({
                "by_status": {"terms": {"field": "status"}, "aggs": counts},
                "by_name": {"terms": {"field": "host.name", "size": 1000}, "aggs": {"ips": cardinality("host.ip")}},
                "by_time": {
                    "date_histogram": {"field": "@timestamp", "fixed_interval": "200s"},
                    "aggs": {"a": with_missing, "b": cardinality("host.name")}
                },
            });
            pair.check(query, &below, seed);
        }
    }
}

trait PickThreshold {
    /// Draws a precision threshold: often close to the number of values, and some that prepared hashes do not serve.
    fn pick_threshold(&mut self) -> u64;
}

impl PickThreshold for fastrand::Rng {
    fn pick_threshold(&mut self) -> u64 {
        match self.u32(0..4) {
            0 => self.u64(0..4),
            1 => self.u64(0..300),
            2 => self.u64(0..1500),
            _ => [1533, 1534, 3000, 3069, 3070, 40_000][self.usize(..6)],
        }
    }
}

/// The exact count ends at the same number of values, whether they come from zones, rows, or both.
#[test]
fn the_threshold_holds_across_zones_and_rows() {
    let mut pair = Pair::new(Sizes {
        terms_min: 1,
        zone_docs: 100,
    });
    let document = |number: i64| {
        let address = format!("10.0.{}.{}", number / 250, number % 250);
        json!({"@timestamp": START_MS + number, "host": {"ip": address}})
    };
    let documents: Vec<Value> = (0..450).map(document).collect();
    pair.segment(&documents, &[]);
    for count in [1, 99, 100, 101, 250, 300, 399, 400, 450] {
        let query = json!({"range": {"@timestamp": {"lt": START_MS + count, "format": "epoch_millis"}}});
        for threshold in [count - 1, count, count + 1] {
            let aggs = json!({"ips": {"cardinality": {"field": "host.ip", "precision_threshold": threshold}}});
            let answer = pair.check(&query, &aggs, 0);
            if threshold >= count {
                assert_eq!(answer["ips"]["value"], count, "{threshold}");
            }
        }
    }
}

#[test]
fn only_columns_with_enough_values_are_prepared() {
    for (terms_min, expect) in [(200, true), (201, false)] {
        let mut shard = Shard::new(&mapping());
        shard.prepare(Sizes {
            terms_min,
            zone_docs: 64,
        });
        let name = |number: usize| json!({"host": {"name": format!("h{number}")}});
        shard.segment(&(0..200).map(name).collect::<Vec<_>>(), &[]);
        let found = shard.ready().snapshot.segments[0].derived.distinct().unwrap();
        assert_eq!(found.is_some(), expect, "{terms_min}");
    }
}

/// Files of the first format are read. `FIRN_WRITE_FIXTURES=1` wrote the file, once: existing segments keep theirs.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "an order from the command line to write fixtures"
)]
fn files_of_format_1_are_read() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tests/fixtures/distinct-1.bin");
    let document = |number: i64| {
        let (name, ip) = (number % 50, format!("10.0.{}.{}", number / 200, number % 200));
        json!({"@timestamp": START_MS + number, "host": {"name": format!("h{name}"), "ip": ip}})
    };
    let documents: Vec<Value> = (0..301).map(document).collect();
    let mut pair = Pair::new(Sizes {
        terms_min: 1,
        zone_docs: 100,
    });
    pair.segment(&documents, &[]);
    if std::env::var_os("FIRN_WRITE_FIXTURES").is_some() && !path.exists() {
        std::fs::write(&path, pair.prepared.distinct_file.as_ref().unwrap()).unwrap();
    }
    pair.prepared = Shard::new(&mapping());
    pair.prepared.segment_with(&documents, std::fs::read(&path).unwrap());
    for (count, threshold) in [(301, 10), (300, 10), (150, 40), (150, 3000), (60, 55)] {
        let query = json!({"range": {"@timestamp": {"lt": START_MS + count, "format": "epoch_millis"}}});
        let cardinality = |field: &str| json!({"cardinality": {"field": field, "precision_threshold": threshold}});
        pair.check(&query, &json!({"ips": cardinality("host.ip")}), 0);
        pair.check(&query, &json!({"names": cardinality("host.name")}), 0);
    }
}
