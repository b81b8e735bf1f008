//! Tests of scrolls and points in time: their view does not change when the index does.

use std::collections::BTreeSet;
use std::time::Duration;

use firn_engine::admin::ForceMergeRequest;
use firn_engine::context::{CloseContexts, ContextKind, OpenPointInTime, ScrollRequest};
use firn_engine::{Engine, ErrorKind, Result};
use firn_model::metadata::Command;
use firn_query::search::{SearchRequest, SearchResponse};
use serde_json::{Value, json};

use crate::node::{Node, add, ctx, delete, index, target};

/// Documents in the index of most tests, in many segments.
const COUNT: usize = 60;

fn filled(shards: u32) -> Node {
    let node = Node::new();
    let body = json!({
        "settings": {"number_of_shards": shards, "refresh_interval": -1},
        "mappings": {"properties": {"n": {"type": "long"}, "group": {"type": "keyword"}, "text": {"type": "text"}}}
    });
    node.create("logs", body).unwrap();
    for start in (0..COUNT).step_by(10) {
        let items = (start..start + 10).map(|n| {
            let source = json!({"n": n, "group": format!("g{}", n % 3), "text": "x ".repeat(1 + n % 4)});
            if n % 2 == 0 {
                index("logs", &format!("id-{n}"), source)
            } else {
                add("logs", source)
            }
        });
        for response in node.bulk(items.collect()) {
            response.result.unwrap();
        }
        node.refresh("logs");
    }
    node
}

fn open(node: &Node, expression: &str, keep_alive_s: u64) -> Result<String> {
    let request = OpenPointInTime {
        target: target(expression),
        routing: Vec::new(),
        keep_alive: Duration::from_secs(keep_alive_s),
        index_filter: None,
        allow_partial_results: false,
    };
    Ok(node.run(node.engine.open_point_in_time(&ctx(), request))?.id)
}

fn search(node: &Node, body: &Value) -> Result<SearchResponse> {
    let request = SearchRequest::parse(Default::default(), Some(body))?;
    node.run(node.engine.search(&ctx(), request))
}

fn start_scroll(node: &Node, body: &Value, keep_alive_s: u64) -> Result<SearchResponse> {
    let mut request = SearchRequest::parse(target("logs"), Some(body))?;
    request.scroll = Some(Duration::from_secs(keep_alive_s));
    node.run(node.engine.search(&ctx(), request))
}

fn next_page(node: &Node, id: &str) -> Result<SearchResponse> {
    let request = ScrollRequest {
        id: id.to_owned(),
        keep_alive: None,
    };
    node.run(node.engine.scroll(&ctx(), request))
}

fn numbers(response: &SearchResponse) -> Vec<i64> {
    let number = |source: &bytes::Bytes| serde_json::from_slice::<Value>(source).unwrap()["n"].as_i64().unwrap();
    response
        .hits
        .iter()
        .map(|hit| number(hit.source.as_ref().unwrap()))
        .collect()
}

/// Reads every page of a scroll.
fn scroll_all(node: &Node, body: &Value, between: impl Fn()) -> Vec<i64> {
    let mut page = start_scroll(node, body, 60).unwrap();
    let id = page.scroll_id.clone().unwrap();
    let mut all = numbers(&page);
    while !page.hits.is_empty() {
        between();
        page = next_page(node, &id).unwrap();
        assert_eq!(
            page.total.unwrap().value,
            COUNT as u64,
            "every page shows the first one's total"
        );
        all.extend(numbers(&page));
    }
    let ids = CloseContexts::Ids(vec![id]);
    node.run(node.engine.close_contexts(&ctx(), ContextKind::Scroll, ids))
        .unwrap();
    all
}

/// Reads every page of a point in time by `search_after`.
fn page_all(node: &Node, body: &Value, between: impl Fn()) -> Vec<i64> {
    let mut body = body.clone();
    let mut all = Vec::new();
    loop {
        let page = search(node, &body).unwrap();
        all.extend(numbers(&page));
        let Some(last) = page.hits.last() else {
            return all;
        };
        body["search_after"] = last.sort.clone().into();
        between();
    }
}

/// Changes the index in every way: deletes, updates, adds, refreshes, merges to one segment, flushes.
fn churn(node: &Node) {
    for n in [0, 2, 4, 20, 58] {
        node.bulk(vec![delete("logs", &format!("id-{n}"))]);
    }
    for n in [6, 8, 30] {
        node.bulk(vec![index("logs", &format!("id-{n}"), json!({"n": n + 1000}))]);
    }
    node.write(add("logs", json!({"n": -1})));
    node.refresh("logs");
    let merge = ForceMergeRequest {
        target: target("logs"),
        max_num_segments: Some(1),
        only_expunge_deletes: false,
        flush: true,
    };
    node.run(node.engine.force_merge(&ctx(), merge)).unwrap();
    node.flush("logs");
}

#[test]
fn a_point_in_time_stays_as_it_was() {
    let node = filled(3);
    let id = open(&node, "logs", 60).unwrap();
    churn(&node);
    assert_ne!(node.count("logs", json!({"match_all": {}})), COUNT as u64);
    let everything: Vec<i64> = (0..COUNT as i64).collect();
    let body = |sort: Value| json!({"size": 7, "pit": {"id": id}, "sort": sort});
    assert_eq!(page_all(&node, &body(json!(["n"])), || churn(&node)), everything);
    let backwards: Vec<i64> = everything.iter().rev().copied().collect();
    assert_eq!(page_all(&node, &body(json!([{"n": "desc"}])), || ()), backwards);
    // Only the tie-breaker distinguishes hits of a group.
    for sort in [
        json!(["group"]),
        json!(["_shard_doc"]),
        json!([{"group": "desc"}, {"_shard_doc": "desc"}]),
        json!(["_score"]),
    ] {
        let mut found = page_all(&node, &body(sort.clone()), || ());
        found.sort_unstable();
        assert_eq!(found, everything, "{sort}");
    }
    let page = search(&node, &body(json!(["n"]))).unwrap();
    assert_eq!(page.pit_id.as_deref(), Some(id.as_str()));
    assert_eq!(page.hits[0].sort.len(), 2, "the tie-breaker is among the values");
    assert_eq!(page.total.unwrap().value, COUNT as u64);
}

#[test]
fn a_scroll_reads_everything_once() {
    let node = filled(2);
    let everything: Vec<i64> = (0..COUNT as i64).collect();
    for (number, body) in [
        json!({"size": 7, "sort": ["_doc"]}),
        json!({"size": 7}),
        json!({"size": 7, "sort": ["group"]}),
        json!({"size": 7, "sort": [{"_doc": "desc"}]}),
        json!({"size": 7, "query": {"match": {"text": "x"}}}),
        json!({"size": 60}),
        json!({"size": 1000, "sort": ["n"]}),
        json!({"size": 9, "sort": [{"group": "desc"}, "n"], "query": {"range": {"n": {"gte": 0}}}}),
    ]
    .iter()
    .enumerate()
    {
        let mut found = scroll_all(&node, body, || ());
        if number == 6 {
            assert_eq!(found, everything, "in order");
        }
        found.sort_unstable();
        assert_eq!(found, everything, "{body}");
    }
    let sorted = scroll_all(&node, &json!({"size": 7, "sort": [{"n": "desc"}]}), || ());
    assert_eq!(sorted, everything.iter().rev().copied().collect::<Vec<_>>());
}

#[test]
fn a_scroll_stays_as_it_was_and_aggregates_once() {
    let node = filled(2);
    let everything: BTreeSet<i64> = (0..COUNT as i64).collect();
    let body = json!({"size": 25, "aggs": {"most": {"max": {"field": "n"}}}});
    let first = start_scroll(&node, &body, 60).unwrap();
    assert_eq!(first.aggregations.as_ref().unwrap()["most"]["value"], 59.0);
    let id = first.scroll_id.clone().unwrap();
    let mut found: BTreeSet<i64> = numbers(&first).into_iter().collect();
    churn(&node);
    for _ in 0..2 {
        let page = next_page(&node, &id).unwrap();
        assert!(page.aggregations.is_none());
        found.extend(numbers(&page));
    }
    assert_eq!(found, everything);
    assert!(next_page(&node, &id).unwrap().hits.is_empty());
    assert!(next_page(&node, &id).unwrap().hits.is_empty(), "the end stays the end");
}

#[test]
fn slices_cover_every_document_once() {
    let node = filled(2);
    let id = open(&node, "logs", 60).unwrap();
    for field in [Value::Null, json!("n"), json!("_id")] {
        let mut found = Vec::new();
        let mut totals = 0;
        for part in 0..4 {
            let mut slice = json!({"id": part, "max": 4});
            if !field.is_null() {
                slice["field"] = field.clone();
            }
            let page = search(
                &node,
                &json!({"size": 100, "pit": {"id": id}, "slice": slice, "query": {"match_all": {}}}),
            )
            .unwrap();
            totals += page.total.unwrap().value;
            assert!(page.hits.len() < COUNT / 2, "parts are about even");
            found.extend(numbers(&page));
            churn(&node);
        }
        found.sort_unstable();
        assert_eq!(found, (0..COUNT as i64).collect::<Vec<_>>(), "{field}");
        assert_eq!(totals, COUNT as u64);
    }
    let refused = |slice: Value| search(&node, &json!({"pit": {"id": id}, "slice": slice})).unwrap_err();
    let error = refused(json!({"id": 0, "max": 2, "field": "group"}));
    assert_eq!(error.reason(), "cannot load numeric doc values on group");
    assert_eq!(
        refused(json!({"id": 0, "max": 2, "field": "nope"})).reason(),
        "field nope not found"
    );
}

#[test]
fn the_parts_of_sliced_scrolls_are_disjoint() {
    let node = filled(1);
    let mut found = Vec::new();
    for part in 0..3 {
        let body = json!({"size": 5, "sort": ["_doc"], "slice": {"id": part, "max": 3}});
        let mut page = start_scroll(&node, &body, 60).unwrap();
        let id = page.scroll_id.clone().unwrap();
        while !page.hits.is_empty() {
            found.extend(numbers(&page));
            page = next_page(&node, &id).unwrap();
        }
        node.flush("logs");
    }
    found.sort_unstable();
    assert_eq!(found, (0..COUNT as i64).collect::<Vec<_>>());
}

#[test]
fn contexts_expire_and_close() {
    let node = filled(1);
    let id = open(&node, "logs", 10).unwrap();
    let body = json!({"pit": {"id": id}, "size": 1});
    node.advance_ms(9_000);
    search(&node, &body).unwrap();
    node.advance_ms(9_000);
    search(&node, &json!({"pit": {"id": id, "keep_alive": "30s"}, "size": 1})).unwrap();
    node.advance_ms(29_000);
    search(&node, &body).unwrap();
    node.advance_ms(31_000);
    let error = search(&node, &body).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SearchContextMissing);
    assert_eq!(error.reason(), format!("No search context found for id [{id}]"));

    let scroll = start_scroll(&node, &json!({"size": 1}), 10).unwrap().scroll_id.unwrap();
    let close = |ids: &[&str]| {
        let ids = CloseContexts::Ids(ids.iter().map(|id| (*id).to_owned()).collect());
        node.run(node.engine.close_contexts(&ctx(), ContextKind::Scroll, ids))
    };
    assert_eq!(close(&[&scroll]).unwrap()[0].shard_count, 1);
    assert_eq!(close(&[&scroll]).unwrap()[0].shard_count, 0);
    assert_eq!(
        next_page(&node, &scroll).unwrap_err().kind(),
        ErrorKind::SearchContextMissing
    );
    assert_eq!(close(&["nonsense"]).unwrap_err().reason(), "Cannot parse scroll id");
    assert_eq!(
        next_page(&node, "nonsense").unwrap_err().kind(),
        ErrorKind::IllegalArgument
    );

    let too_long = start_scroll(&node, &json!({}), 25 * 3600).unwrap_err();
    assert!(too_long.reason().contains("[search.max_keep_alive]"), "{too_long}");
}

#[test]
fn open_scrolls_are_bounded_and_a_failed_first_page_leaves_none() {
    let node = filled(1);
    node.execute(Command::PutClusterSettings {
        settings: json!({"search.max_open_scroll_context": 2}),
    })
    .unwrap();
    let first = start_scroll(&node, &json!({"size": 1}), 60).unwrap();
    for _ in 0..3 {
        assert!(start_scroll(&node, &json!({"size": 1, "sort": ["text"]}), 60).is_err());
    }
    start_scroll(&node, &json!({"size": 1}), 60).unwrap();
    let error = start_scroll(&node, &json!({"size": 1}), 60).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyScrollContexts);
    assert_eq!(
        error.reason(),
        "Trying to create too many scroll contexts. Must be less than or equal to: [2]. This limit can be set by \
         changing the [search.max_open_scroll_context] setting."
    );
    next_page(&node, &first.scroll_id.unwrap()).unwrap();
}

#[test]
fn a_deleted_index_takes_its_part_of_a_context_with_it() {
    let node = filled(2);
    node.create("other", json!({})).unwrap();
    node.write(index("other", "1", json!({"n": 1})));
    node.refresh("other");
    let alone = open(&node, "logs", 60).unwrap();
    let both = open(&node, "logs,other", 60).unwrap();
    let scroll = start_scroll(&node, &json!({"size": 5}), 60).unwrap().scroll_id.unwrap();
    let stats = || {
        let stats = node.run(node.engine.stats(&ctx(), target("other"))).unwrap();
        stats[0].shards[0].clone()
    };
    assert_eq!(stats().open_contexts, 1);
    node.execute(Command::DeleteIndices {
        names: vec!["logs".to_owned()],
    })
    .unwrap();
    for error in [
        search(&node, &json!({"pit": {"id": alone}})).unwrap_err(),
        next_page(&node, &scroll).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::SearchContextMissing);
    }
    let rest = search(&node, &json!({"pit": {"id": both}, "sort": ["n"]})).unwrap();
    assert_eq!((rest.hits.len(), rest.shards.successful, rest.shards.total), (1, 1, 3));
    assert_eq!(rest.shards.failures.len(), 2);
    assert!(open(&node, "logs", 60).is_err());
}

#[test]
fn held_segments_are_counted() {
    let node = filled(1);
    let id = open(&node, "logs", 60).unwrap();
    let stats = || node.run(node.engine.stats(&ctx(), target("logs"))).unwrap()[0].shards[0].clone();
    assert_eq!((stats().point_in_time_current, stats().held_size_bytes), (1, 0));
    churn(&node);
    assert!(stats().held_size_bytes > 0, "segments that were merged away are held");
    let ids = CloseContexts::Ids(vec![id]);
    node.run(node.engine.close_contexts(&ctx(), ContextKind::PointInTime, ids))
        .unwrap();
    let after = stats();
    assert_eq!(
        (
            after.point_in_time_current,
            after.point_in_time_total,
            after.held_size_bytes
        ),
        (0, 1, 0)
    );
    assert_eq!(after.open_contexts, 0);
}

#[test]
fn shards_that_cannot_match_are_left_out() {
    let node = Node::new();
    for (name, day) in [("old", "2020-01-01"), ("new", "2026-01-01")] {
        node.create(
            name,
            json!({"mappings": {"properties": {"@timestamp": {"type": "date"}}}}),
        )
        .unwrap();
        node.write(index(name, "1", json!({"@timestamp": day})));
        node.refresh(name);
    }
    let filter = json!({"range": {"@timestamp": {"gte": "2025-01-01"}}});
    let request = OpenPointInTime {
        target: target("old,new"),
        routing: Vec::new(),
        keep_alive: Duration::from_secs(60),
        index_filter: Some(firn_query::query::Query::parse(&filter).unwrap()),
        allow_partial_results: false,
    };
    let opened = node.run(node.engine.open_point_in_time(&ctx(), request)).unwrap();
    assert_eq!((opened.shards.total, opened.shards.skipped), (2, 1));
    let found = search(&node, &json!({"pit": {"id": opened.id}})).unwrap();
    assert_eq!(found.hits.len(), 1);
    assert_eq!(found.hits[0].index, "new");
}
