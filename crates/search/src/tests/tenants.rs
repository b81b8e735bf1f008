//! Tests of requests for one tenant: stored row ranges of tenants change no answer, and neither do cached results.

use std::sync::atomic::Ordering;

use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{Shard, run, run_request};
use crate::{ShardSearch, TenantRestriction};

const HOUR_MS: i64 = 3_600_000;
/// 2024-03-30T00:00:00Z: summer time begins in Berlin the next night.
const START_MS: i64 = 1_711_756_800_000;

fn mapping() -> Value {
    json!({"properties": {
        "@timestamp": {"type": "date"}, "id": {"type": "keyword"}, "tenant": {"type": "keyword"},
        "class": {"type": "keyword"}, "size": {"type": "long"}
    }})
}

#[derive(Debug, Clone)]
struct Event {
    tenant: Option<&'static str>,
    class: &'static str,
    size: i64,
    hours: Option<i64>,
    deleted: bool,
}

impl Event {
    fn source(&self, id: usize) -> Value {
        let mut source = json!({"id": format!("{id:03}"), "class": self.class, "size": self.size});
        if let Some(tenant) = self.tenant {
            source["tenant"] = json!(tenant);
        }
        if let Some(hours) = self.hours {
            source["@timestamp"] = json!(START_MS + hours * HOUR_MS);
        }
        source
    }
}

fn event() -> impl Strategy<Value = Event> {
    (
        prop::option::weighted(0.95, prop::sample::select(vec!["a", "b", "c"])),
        prop::sample::select(vec!["login", "click", "error"]),
        0i64..5,
        prop::option::weighted(0.95, 0i64..72),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(tenant, class, size, hours, deleted)| Event {
            tenant,
            class,
            size,
            hours,
            deleted,
        })
}

/// The information that a segment stores about its tenants.
#[derive(Debug, Clone, Copy)]
enum Knowledge {
    Nothing,
    Counts,
    Order,
}

fn segment() -> impl Strategy<Value = (Vec<Event>, Knowledge)> {
    let knowledge = prop::sample::select(vec![
        Knowledge::Nothing,
        Knowledge::Counts,
        Knowledge::Order,
        Knowledge::Order,
    ]);
    (prop::collection::vec(event(), 1..60), knowledge)
}

fn shard(segments: &[(Vec<Event>, Knowledge)]) -> Shard {
    let mut shard = Shard::new(&mapping());
    shard.by_tenant();
    let mut next = 0;
    for (events, knowledge) in segments {
        let documents: Vec<Value> = (next..).zip(events).map(|(id, event)| event.source(id)).collect();
        next += events.len();
        let deleted: Vec<usize> = (0..events.len()).filter(|number| events[*number].deleted).collect();
        match knowledge {
            Knowledge::Nothing => shard.segment(&documents, &deleted),
            Knowledge::Counts => shard.counted_segment(&documents, &deleted),
            Knowledge::Order => shard.clustered_segment(&documents, &deleted),
        };
    }
    shard
}

/// A request of a dashboard.
#[derive(Debug, Clone)]
struct Question {
    tenant: &'static str,
    /// The way in which the request names the tenant.
    manner: usize,
    from: i64,
    hours: i64,
    class: Option<&'static str>,
    should: bool,
    size: usize,
    sort: Option<&'static str>,
    aggs: usize,
}

fn question() -> impl Strategy<Value = Question> {
    (
        prop::sample::select(vec!["a", "b", "c", "d"]),
        0usize..6,
        -5i64..75,
        0i64..80,
        prop::option::weighted(0.3, prop::sample::select(vec!["login", "click", "error"])),
        prop::bool::weighted(0.2),
        prop_oneof![Just(0usize), 1usize..8],
        prop::option::of(prop::sample::select(vec!["asc", "desc"])),
        0usize..6,
    )
        .prop_map(
            |(tenant, manner, from, hours, class, should, size, sort, aggs)| Question {
                tenant,
                manner,
                from,
                hours,
                class,
                should,
                size,
                sort,
                aggs,
            },
        )
}

impl Question {
    /// Returns the same request with a later window.
    fn slid(&self, hours: i64) -> Self {
        Self {
            from: self.from + hours,
            ..self.clone()
        }
    }

    fn body(&self) -> Value {
        let ms = |hours: i64| START_MS + hours * HOUR_MS;
        let window = json!({"range": {"@timestamp": {"gte": ms(self.from), "lt": ms(self.from + self.hours)}}});
        let tenant = json!({"term": {"tenant": self.tenant}});
        let mut clauses = match self.manner {
            0 => json!({"filter": [tenant, window]}),
            1 => json!({"filter": [{"terms": {"tenant": [self.tenant]}}, {"bool": {"must": [window]}}]}),
            2 => json!({"must": [tenant], "filter": [window]}),
            3 => json!({"filter": [{"constant_score": {"filter": tenant}}]}),
            4 => json!({"filter": [{"term": {"tenant": {"value": self.tenant, "_name": "own"}}}, window]}),
            _ => json!({"must": [tenant, window]}),
        };
        if let Some(class) = self.class {
            let list = clauses.as_object_mut().unwrap().entry("must_not").or_insert(json!([]));
            list.as_array_mut().unwrap().push(json!({"term": {"class": class}}));
        }
        if self.should {
            clauses["should"] = json!([{"term": {"size": 1}}, {"term": {"class": "click"}}]);
        }
        let mut body = json!({"query": {"bool": clauses}, "size": self.size, "track_total_hits": true});
        if let Some(order) = self.sort {
            body["sort"] = json!([{"@timestamp": order}, {"size": "asc"}]);
        }
        let day = json!({"field": "@timestamp", "calendar_interval": "day", "time_zone": "Europe/Berlin"});
        let six_hours = json!({"field": "@timestamp", "fixed_interval": "6h", "offset": "1h", "min_doc_count": 1});
        match self.aggs {
            0 => {}
            1 => {
                body["aggs"] =
                    json!({"days": {"date_histogram": day, "aggs": {"classes": {"terms": {"field": "class"}}}}});
            }
            2 => {
                body["aggs"] = json!({
                    "days": {"date_histogram": day}, "hours": {"date_histogram": six_hours},
                    "first": {"min": {"field": "@timestamp"}}, "last": {"max": {"field": "@timestamp"}},
                    "timed": {"value_count": {"field": "@timestamp"}}
                });
            }
            3 => {
                body["aggs"] = json!({"classes": {"terms": {"field": "class", "size": 2}, "aggs": {
                    "hours": {"date_histogram": six_hours}, "size": {"stats": {"field": "size"}}}}});
            }
            4 => {
                body["aggs"] =
                    json!({"sizes": {"cardinality": {"field": "size"}}, "tenants": {"terms": {"field": "tenant"}}});
            }
            _ => {
                body["aggs"] = json!({"big": {"filter": {"range": {"size": {"gte": 2}}}, "aggs": {
                    "days": {"date_histogram": day}, "newest": {"max": {"field": "@timestamp"}}}}});
            }
        }
        body
    }
}

/// Returns the part of an answer that does not depend on its duration.
fn shown(response: SearchResponse) -> Value {
    let hits: Vec<Value> = response
        .hits
        .iter()
        .map(|hit| json!([hit.id, hit.sort, hit.score, hit.matched_queries]))
        .collect();
    let total = response.total.map(|total| (total.value, total.exact));
    json!({"total": total, "max_score": response.max_score, "hits": hits, "aggregations": response.aggregations.as_deref()})
}

/// Returns the number of cases: `PROPTEST_CASES`, or as many as take a few seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "the number of cases comes from the environment"
)]
fn config() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(64),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn stored_row_ranges_change_no_answer(
        segments in prop::collection::vec(segment(), 1..5),
        questions in prop::collection::vec((question(), 1i64..30), 1..5),
        deletes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..60), 0..6),
        limit_bytes in prop::sample::select(vec![0usize, 40_000, 8 << 20]),
    ) {
        let mut shard = shard(&segments);
        shard.keep_answers(limit_bytes);
        for round in 0..2 {
            for (question, step) in &questions {
                for question in [question.clone(), question.clone(), question.slid(*step), question.slid(-*step)] {
                    let body = question.body();
                    let expect = shown(run(vec![shard.plain()], &body).unwrap());
                    let found = shown(run(vec![shard.ready()], &body).unwrap());
                    prop_assert_eq!(found, expect, "round {}: {}", round, body);
                }
            }
            for (segment, row) in &deletes {
                shard.delete(segment.index(segments.len()), &[*row]);
            }
        }
    }

    #[test]
    fn a_tenant_restriction_equals_a_filter(
        segments in prop::collection::vec(segment(), 1..5),
        question in question(),
        other in prop::sample::select(vec!["a", "b"]),
    ) {
        let mut shard = shard(&segments);
        shard.keep_answers(8 << 20);
        let mut plain = shard.plain();
        plain.filters = vec![firn_query::query::Query::parse(&json!({"term": {"tenant": other}})).unwrap()];
        let mut scoped = shard.ready();
        scoped.tenant = Some(TenantRestriction { field: "tenant".into(), tenant: firn_model::tenant::TenantId::parse(other).unwrap() });
        let mut aliased = shard.ready();
        aliased.filters = plain.filters.clone();
        let body = question.body();
        let expect = shown(run(vec![plain], &body).unwrap());
        for search in [scoped.clone(), scoped, aliased.clone(), aliased] {
            prop_assert_eq!(&shown(run(vec![search], &body).unwrap()), &expect, "{}", body);
        }
    }
}

/// Returns 3 days of three tenants in one segment, with one event per hour each.
fn clustered() -> Shard {
    let mut shard = Shard::new(&mapping());
    let mut documents = Vec::new();
    for hour in 0..72 {
        for (number, tenant) in ["a", "b", "c"].into_iter().enumerate() {
            documents.push(json!({
                "id": format!("{tenant}{hour:02}"), "tenant": tenant, "size": number, "class": "login",
                "@timestamp": START_MS + hour * HOUR_MS
            }));
        }
    }
    shard.by_tenant().clustered_segment(&documents, &[]);
    shard
}

fn of_b(from: i64, to: i64, rest: Value) -> Value {
    let ms = |hours: i64| START_MS + hours * HOUR_MS;
    let mut body = json!({"profile": true, "track_total_hits": true, "query": {"bool": {"filter": [
        {"term": {"tenant": "b"}}, {"range": {"@timestamp": {"gte": ms(from), "lt": ms(to)}}}
    ]}}});
    body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    body
}

#[test]
fn profile_shows_segments_that_were_not_read() {
    let mut shard = clustered();
    shard.keep_answers(1 << 20);
    let ask = |shard: &Shard, body: &Value| {
        let profile = run(vec![shard.ready()], body)
            .unwrap()
            .profile
            .unwrap()
            .shards
            .remove(0);
        (profile.segments, profile.documents_matched)
    };
    let days = json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "1d"}});
    let (counts, read) = ask(&shard, &of_b(10, 60, json!({"size": 0, "aggs": {"days": days}})));
    assert_eq!((counts.from_statistics, counts.read, read), (1, 0, 0));
    let (counts, read) = ask(&shard, &of_b(10, 60, json!({"size": 0})));
    assert_eq!((counts.from_statistics, counts.read, read), (1, 0, 0));

    let classes = json!({"size": 0, "aggs": {"classes": {"terms": {"field": "class"}}}});
    let (counts, read) = ask(&shard, &of_b(10, 60, classes.clone()));
    assert_eq!((counts.from_cache, counts.read, read), (0, 1, 50));
    // Another window edge, the same rows.
    let mut body = of_b(10, 60, classes);
    body["query"]["bool"]["filter"][1]["range"]["@timestamp"]["gte"] = json!(START_MS + 10 * HOUR_MS - 5);
    let (counts, read) = ask(&shard, &body);
    assert_eq!((counts.from_cache, counts.read, read), (1, 0, 0));

    let (counts, read) = ask(
        &shard,
        &of_b(0, 72, json!({"size": 3, "sort": [{"@timestamp": "desc"}]})),
    );
    assert_eq!((counts.read, read), (1, 72), "all rows are fewer than the first part");

    let mut body = of_b(10, 60, json!({"size": 0}));
    body["query"]["bool"]["filter"][0]["term"]["tenant"] = json!("noname");
    let (counts, _) = ask(&shard, &body);
    assert_eq!((counts.pruned_by_tenant, counts.pruned, counts.read), (1, 0, 0));
}

#[test]
fn a_page_continues_after_the_previous_one() {
    let shard = clustered();
    for order in ["asc", "desc"] {
        let mut found = Vec::new();
        let mut body = of_b(
            5,
            45,
            json!({"size": 7, "sort": [{"@timestamp": order}, {"id": "asc"}]}),
        );
        loop {
            let page = run(vec![shard.ready()], &body).unwrap().hits;
            let Some(last) = page.last() else {
                break;
            };
            body["search_after"] = json!(last.sort);
            found.extend(page.into_iter().map(|hit| hit.id));
        }
        let mut expect: Vec<String> = (5..45).map(|hour| format!("b{hour:02}")).collect();
        if order == "desc" {
            expect.reverse();
        }
        assert_eq!(found, expect, "{order}");
    }
}

#[test]
fn the_request_controls_the_cache() {
    let mut shard = clustered();
    let account = shard.keep_answers(1 << 20);
    let classes = json!({"size": 0, "aggs": {"classes": {"terms": {"field": "class"}}}});
    let body = of_b(10, 60, classes);
    let numbers = || {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        (count(&account.hits), count(&account.misses))
    };
    run(vec![shard.ready()], &body).unwrap();
    assert_eq!(numbers(), (0, 1));
    run(vec![shard.ready()], &body).unwrap();
    assert_eq!(numbers(), (1, 1));
    shard.delete(0, &[100]);
    run(vec![shard.ready()], &body).unwrap();
    assert_eq!(numbers(), (1, 2));
    run(vec![shard.ready()], &body).unwrap();
    assert_eq!(numbers(), (2, 2));
    let mut ready = shard.ready();
    ready.caches_by_default = false;
    run(vec![ready.clone()], &body).unwrap();
    assert_eq!(numbers(), (2, 2), "the index says no");
    let ask = |flag: bool, ready: ShardSearch| {
        let mut request = SearchRequest::parse(IndexTarget::default(), Some(&body)).unwrap();
        request.request_cache = Some(flag);
        run_request(vec![Ok(ready)], request).unwrap();
        numbers()
    };
    assert_eq!(ask(true, ready), (3, 2), "the request says yes");
    assert_eq!(ask(false, shard.ready()), (3, 2), "the request says no");
    assert!(account.bytes.load(Ordering::Relaxed) > 0);
    drop(shard);
    assert_eq!(account.bytes.load(Ordering::Relaxed), 0);
}

/// The cache looked for the letters `"now` in the printed request.
#[test]
fn only_date_math_with_now_is_not_cached() {
    let mut shard = clustered();
    let account = shard.keep_answers(1 << 20);
    let hits = |rest: Value, filter: Value| {
        let mut body = of_b(10, 60, rest);
        let filters = body["query"]["bool"]["filter"].as_array_mut().unwrap();
        filters.push(filter);
        let before = account.hits.load(Ordering::Relaxed);
        for _ in 0..2 {
            run(vec![shard.ready()], &body).unwrap();
        }
        account.hits.load(Ordering::Relaxed) - before
    };
    let now = |aggs: Value| json!({"size": 0, "aggs": {"now": aggs}});
    let known = json!({"term": {"class": "known"}});
    let classes = json!({"terms": {"field": "class", "missing": "nowhere"}});
    assert_eq!(hits(now(classes.clone()), known.clone()), 1);
    assert_eq!(hits(now(classes.clone()), json!({"term": {"class": "nowak"}})), 1);
    assert_eq!(hits(now(classes.clone()), json!({"exists": {"field": "now"}})), 1);
    let recent = json!({"range": {"@timestamp": {"gte": "now-1d"}}});
    let not_recent = json!({"bool": {"must_not": recent}});
    assert_eq!(hits(now(classes.clone()), not_recent.clone()), 0);
    for aggregation in [
        json!({"filter": recent}),
        json!({"date_range": {"field": "@timestamp", "ranges": [{"from": "now-1d/d"}]}}),
        json!({"max": {"field": "@timestamp", "missing": "now"}}),
    ] {
        assert_eq!(hits(now(aggregation.clone()), known.clone()), 0, "{aggregation}");
    }
}
