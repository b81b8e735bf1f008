//! Tests of the number of times that a search of splits waits for bytes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{IndexTarget, SearchRequest};
use firn_segment::segment::ShardSnapshot;
use firn_segment::splits::{
    ID_FIELD, RUN_ROWS, ReadRange, SplitBytes, WholeSplit, open_split, shared_hash, value_hash,
};
use firn_storage::split::pages::{self, PAGE_BYTES};
use firn_storage::split::{FilterOf, PartKind, SplitFilter, filter};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::{Handle, Runtime};

use super::splits::split_of;
use super::support::*;
use crate::{ShardSearch, cost};

/// A remote store: a page is local after it was fetched.
#[derive(Debug)]
struct Remote {
    whole: WholeSplit,
    io: Handle,
    here: Mutex<BTreeSet<u64>>,
    /// The ranges that each call fetched.
    rounds: Mutex<Vec<Vec<ReadRange>>>,
    /// The ranges that were read separately.
    alone: Mutex<Vec<ReadRange>>,
    is_down: bool,
}

fn pages_of(range: &Range<u64>) -> Range<u64> {
    let physical = pages::physical(range);
    physical.start / PAGE_BYTES..physical.end / PAGE_BYTES
}

#[async_trait]
impl SplitBytes for Remote {
    fn read(&self, kind: PartKind, logical: Range<u64>) -> Result<Bytes> {
        let mut here = self.here.lock();
        let before = here.len();
        here.extend(pages_of(&logical));
        if here.len() > before {
            self.alone.lock().push((kind, logical.clone()));
            if self.is_down && kind != PartKind::Footer {
                return Err(Error::new(ErrorKind::Unavailable, "the store is out of reach"));
            }
        }
        self.whole.read(kind, logical)
    }

    async fn fetch(&self, wanted: &[ReadRange]) -> Result<()> {
        self.rounds.lock().push(wanted.to_vec());
        if self.is_down {
            return Err(Error::new(ErrorKind::Unavailable, "the store is out of reach"));
        }
        let pages = wanted.iter().flat_map(|(_, range)| pages_of(range));
        self.here.lock().extend(pages);
        Ok(())
    }

    fn missing(&self, wanted: &[ReadRange]) -> (u64, u64) {
        let here = self.here.lock();
        let lacking = |(_, range): &&ReadRange| pages_of(range).any(|page| !here.contains(&page));
        let pages: BTreeSet<u64> = wanted.iter().flat_map(|(_, range)| pages_of(range)).collect();
        let bytes = pages.iter().filter(|page| !here.contains(page)).count() as u64 * PAGE_BYTES;
        (wanted.iter().filter(lacking).count() as u64, bytes)
    }

    fn io(&self) -> Option<&Handle> {
        Some(&self.io)
    }
}

/// A shard with remote segments.
struct Far {
    search: ShardSearch,
    stores: Vec<Arc<Remote>>,
    _io: Runtime,
}

fn far(is_down: bool) -> Far {
    let mut mapping = mapping();
    mapping["properties"]["user"] = json!({"type": "keyword"});
    let mut shard = Shard::new(&mapping);
    for part in 0..3 {
        let event = |number: usize| {
            json!({
                "id": format!("id-{part}-{number}"),
                "@timestamp": 1_700_000_000_000u64 + (part * 10_000 + number) as u64 * 1000,
                "user": format!("user-{}", (part * 8000 + number) % 20_000),
                "host": {"name": format!("h{}", number % 7)},
                "message": format!("request {number} took {} ms", number % 97),
                "status": 200 + number % 5,
            })
        };
        let events: Vec<Value> = (0..8000).map(event).collect();
        shard.segment(&events, &[]);
    }
    far_of(&shard, is_down)
}

/// Returns the shard, with remote segments.
fn far_of(shard: &Shard, is_down: bool) -> Far {
    let io = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let ready = shard.ready();
    let mut stores = Vec::new();
    let mut segments = Vec::new();
    for segment in &ready.snapshot.segments {
        let (split, object, _) = split_of(segment);
        let store = Arc::new(Remote {
            whole: WholeSplit::new(object, split.salt),
            io: io.handle().clone(),
            here: Mutex::default(),
            rounds: Mutex::default(),
            alone: Mutex::default(),
            is_down,
        });
        let opened = open_split(&split, Arc::clone(&store) as Arc<dyn SplitBytes>, None).unwrap();
        store.alone.lock().clear();
        stores.push(store);
        segments.push(Arc::new(opened));
    }
    let snapshot = ShardSnapshot {
        segments,
        index: Arc::clone(&ready.snapshot.index),
        tenant_field: ready.snapshot.tenant_field.clone(),
        ..*ready.snapshot
    };
    Far {
        search: ShardSearch {
            snapshot: Arc::new(snapshot),
            ..ready
        },
        stores,
        _io: io,
    }
}

impl Far {
    /// Returns the most rounds of a split, and the separate reads.
    fn waits(&self) -> (usize, Vec<ReadRange>) {
        let rounds = self.stores.iter().map(|store| store.rounds.lock().len()).max();
        let alone = self
            .stores
            .iter()
            .flat_map(|store| store.alone.lock().clone())
            .collect();
        (rounds.unwrap_or_default(), alone)
    }

    fn check(&self, question: &Value, rounds_max: usize) {
        run(vec![self.search.clone()], question).unwrap();
        let (rounds, alone) = self.waits();
        assert!(rounds <= rounds_max, "{rounds} rounds for {question}");
        assert_eq!(alone, [], "{question}");
        // The second search fetches nothing.
        run(vec![self.search.clone()], question).unwrap();
        assert_eq!(self.waits().0, rounds, "{question}");
    }
}

#[test]
fn a_needle_takes_three_rounds() {
    // Terms, postings, documents.
    far(false).check(&json!({"query": {"term": {"user": "user-17001"}}}), 3);
    far(false).check(
        &json!({"query": {"bool": {"filter": [{"term": {"user": "user-17001"}}]}}}),
        3,
    );
    far(false).check(&json!({"query": {"ids": {"values": ["id-1-77", "id-2-5"]}}}), 3);
}

#[test]
fn a_dashboard_takes_four_rounds() {
    let question = json!({
        "query": {"bool": {
            "filter": [
                {"range": {"@timestamp": {"gte": 1_700_002_000_000u64, "lt": 1_700_025_000_000u64}}},
                {"terms": {"user": ["user-3000", "user-11000"]}},
                {"range": {"status": {"gte": 201}}}
            ],
            "must_not": [{"term": {"host.name": "h3"}}]
        }},
        "sort": [{"@timestamp": "desc"}],
        "aggs": {
            "t": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1m"}},
            "h": {"terms": {"field": "host.name"}, "aggs": {"s": {"avg": {"field": "status"}}}}
        }
    });
    far(false).check(&question, 4);
}

#[test]
fn texts_and_patterns_take_four_rounds() {
    far(false).check(&json!({"query": {"match": {"message": "took 96 7777"}}}), 4);
    far(false).check(&json!({"query": {"match_phrase": {"message": "request 7777"}}}), 4);
    far(false).check(&json!({"query": {"prefix": {"user": "user-1700"}}}), 4);
    far(false).check(
        &json!({"query": {"query_string": {"query": "user:user-17001 AND host.name:h1"}}}),
        4,
    );
}

/// Returns one clustered segment of three tenants, with more rows than four runs of a column; `jitter_ms` makes
/// timestamps irregular.
fn far_tenants(jitter_ms: usize) -> Far {
    let mut mapping = mapping();
    mapping["properties"]["tenant"] = json!({"type": "keyword"});
    let mut shard = Shard::new(&mapping);
    let event = |number: usize| {
        json!({
            "id": format!("id-{number}"),
            "@timestamp": 1_700_000_000_000u64 + (number * 1000 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % jitter_ms) as u64,
            "tenant": format!("t{}", number % 3),
            "status": 200 + number * number % 5,
        })
    };
    let events: Vec<Value> = (0..5 * RUN_ROWS as usize).map(event).collect();
    shard.by_tenant().clustered_segment(&events, &[]);
    far_of(&shard, false)
}

/// Returns the bytes of columns that a request fetches from a store without cached bytes.
fn column_bytes(question: &Value) -> u64 {
    column_bytes_of(&far_tenants(7), question)
}

fn column_bytes_of(far: &Far, question: &Value) -> u64 {
    run(vec![far.search.clone()], question).unwrap();
    let (rounds, alone) = far.waits();
    assert!(rounds <= 3, "{rounds} rounds for {question}");
    assert_eq!(alone, [], "{question}");
    let fetched = far.stores[0].rounds.lock().concat();
    let of_columns = fetched.iter().filter(|(kind, _)| *kind == PartKind::Columns);
    of_columns.map(|(_, range)| range.end - range.start).sum()
}

#[test]
fn a_request_of_a_tenant_fetches_only_its_rows() {
    let histogram = |query: Value| {
        json!({"size": 0, "query": query, "aggs": {"t": {
            "date_histogram": {"field": "@timestamp", "fixed_interval": "1m"},
            "aggs": {"s": {"terms": {"field": "status"}}}
        }}})
    };
    let of_tenant = json!({"term": {"tenant": "t2"}});
    let all = column_bytes(&histogram(json!({"match_all": {}})));
    let own = column_bytes(&histogram(of_tenant.clone()));
    // Its rows are the last third: two of five runs.
    assert!(own > 0 && own * 2 < all, "{own} of {all}");
    let newest = column_bytes(&json!({"query": of_tenant, "sort": [{"@timestamp": "desc"}], "size": 20}));
    assert!(newest > 0 && newest * 2 < own, "{newest} of {own}");
}

#[test]
fn intervals_of_whole_hours_fetch_no_timestamps() {
    let by = |interval: &str, zone: &str| {
        let histogram = json!({"field": "@timestamp", "fixed_interval": interval, "time_zone": zone});
        column_bytes_of(
            &far_tenants(1009),
            &json!({"size": 0, "aggs": {"t": {"date_histogram": histogram}}}),
        )
    };
    let minutes = by("90m", "UTC");
    assert!(minutes > 5_000, "{minutes}");
    // There are so few hours that the footer has them.
    assert_eq!(by("2h", "UTC"), 0);
    // Hours in that zone start in the middle of hours in UTC.
    assert_eq!(by("2h", "Asia/Kolkata"), minutes);
}

#[test]
fn stored_totals_of_whole_splits_are_not_fetched() {
    let all = json!({"range": {"@timestamp": {"gte": 1_600_000_000_000u64, "lt": 1_800_000_000_000u64}}});
    let fetched = |query: &Value, aggs: Value| {
        let far = far(false);
        far.check(&json!({"size": 0, "query": query, "aggs": aggs}), 1);
        let stores = far.stores.iter();
        stores
            .flat_map(|store| store.rounds.lock().concat())
            .collect::<Vec<_>>()
    };
    let frequent = json!({"h": {"terms": {"field": "host.name"}}, "s": {"stats": {"field": "status"}}});
    assert_eq!(fetched(&all, frequent.clone()), []);
    let by_host = json!({"h": {"terms": {"field": "host.name"}, "aggs": {"s": {"avg": {"field": "status"}}}}});
    // The totals are so small here that the footer has them.
    assert_eq!(fetched(&all, by_host), []);
    let cut = json!({"range": {"@timestamp": {"gte": 1_700_000_100_000u64}}});
    assert_ne!(fetched(&cut, frequent), []);
}

#[test]
fn timestamps_at_the_edges_of_a_window_are_fetched_together() {
    let from = 1_700_020_000_123u64;
    let cut = json!({"range": {"@timestamp": {"gte": from, "lt": from + 30_000_000}}});
    // Its rounds and reads are within the limits.
    let fetched = column_bytes(&json!({"size": 0, "query": cut, "aggs": {"s": {"terms": {"field": "status"}}}}));
    assert!(fetched > 0);
}

#[test]
fn a_store_that_is_down_is_named() {
    let error = run(
        vec![far(true).search],
        &json!({"query": {"term": {"user": "user-17001"}}}),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn a_cost_estimate_fetches_nothing() {
    let far = far(false);
    let estimate = |body: Value| {
        let request = SearchRequest::parse(IndexTarget::default(), Some(&body)).unwrap();
        let shards = [far.search.clone()];
        cost(&shards, &Arc::new(request), &RequestContext::new(), NOW_MS, &LIMITS).unwrap()
    };
    let hosts = json!({"size": 0, "aggs": {"t": {"terms": {"field": "host.name"}}}});
    let known = estimate(hosts);
    assert_eq!((known.splits, known.requests(), known.bytes()), (3, 0, 0));
    let histogram = json!({"size": 0, "aggs": {"t": {"percentiles": {"field": "status"}}}});
    let cold = estimate(histogram.clone());
    assert_eq!((cold.splits, cold.requests(), cold.rounds), (3, 3, 1));
    assert!(cold.bytes() >= 3 * PAGE_BYTES && cold.bytes() < 1 << 20, "{cold:?}");
    let needle = estimate(json!({"query": {"term": {"user": "user-17001"}}}));
    assert!(needle.requests() > 3 && needle.rounds == 2, "{needle:?}");
    let none = estimate(json!({"query": {"range": {"@timestamp": {"lt": 5}}}}));
    assert_eq!((none.splits, none.requests(), none.bytes()), (0, 0, 0));
    assert_eq!(far.waits(), (0, Vec::new()));
    run(vec![far.search.clone()], &histogram).unwrap();
    let warm = estimate(histogram);
    assert_eq!((warm.splits, warm.requests(), warm.bytes()), (3, 0, 0));
}

#[test]
fn term_filters_show_which_splits_hold_a_value() {
    let mut shard = Shard::new(&mapping());
    let events: Vec<Value> = (0..3000)
        .map(|number| json!({"id": format!("id-{number}"), "host": {"name": format!("n{number}")}, "lower": "x"}))
        .collect();
    shard.segment(&events, &[]);
    let (split, object, _) = split_of(&shard.ready().snapshot.segments[0]);
    let whole = WholeSplit::new(object, split.salt);
    let fields: Vec<&str> = split.filters.iter().map(|filter| filter.field.as_str()).collect();
    assert_eq!(fields, ["host.name", "id", ID_FIELD, SplitFilter::SHARED]);
    let holds = |field: &str, value: &str| {
        let found = split.filters.iter().find(|filter| filter.field == field).unwrap();
        let hash = value_hash(value);
        let slice = whole.read(PartKind::Filters, found.slice(hash)).unwrap();
        filter::may_hold(&slice, hash).unwrap()
    };
    assert!((0..3000).all(|number| holds("host.name", &format!("n{number}"))));
    assert!((0..3000).all(|number| holds(ID_FIELD, &format!("id-{number}"))));
    let others = (0..3000)
        .filter(|number| holds("host.name", &format!("m{number}")))
        .count();
    assert!(others < 40, "{others}");
    // Fields with few values share a filter, which has no values of fields with many.
    let FilterOf::Shared(shared) = split.filter_of("lower") else {
        panic!("the field has a separate filter");
    };
    assert_eq!(split.filter_of("absent"), FilterOf::Shared(shared));
    assert!(matches!(split.filter_of("host.name"), FilterOf::Own(_)));
    let holds = |field: &str, value: &str| {
        let hash = shared_hash(field, value);
        let slice = whole.read(PartKind::Filters, shared.slice(hash)).unwrap();
        filter::may_hold(&slice, hash).unwrap()
    };
    assert!(holds("lower", "x"));
    let others = (0..3000).filter(|number| holds("absent", &format!("n{number}")));
    assert!(others.count() < 40);
}
