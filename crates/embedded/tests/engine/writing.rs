//! Tests of writes: the effect of each operation, and their order.

use std::sync::Barrier;
use std::thread;

use firn_engine::document::{BulkRequest, Effect, Expectation, Refresh};
use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use firn_query::source::SourceFilter;
use serde_json::json;

use crate::node::{Node, add, create, ctx, delete, index, update, update_with};

#[test]
fn a_document_lives_changes_and_dies() {
    let node = Node::new();
    let (id, written) = node.write(index("logs", "a", json!({"n": 1})));
    assert_eq!((id.as_str(), written.effect), ("a", Effect::Created));
    assert_eq!((written.version, written.seq_no, written.primary_term), (1, 0, 1));

    let (_, written) = node.write(index("logs", "a", json!({"n": 2})));
    assert_eq!(
        (written.effect, written.version, written.seq_no),
        (Effect::Updated, 2, 1)
    );
    assert_eq!(node.source("logs", "a"), json!({"n": 2}));

    let (_, written) = node.write(delete("logs", "a"));
    assert_eq!((written.effect, written.version), (Effect::Deleted, 3));
    assert!(node.get("logs", "a").is_none());
    let (_, written) = node.write(delete("logs", "a"));
    assert_eq!(written.effect, Effect::NotFound);
    assert_eq!(node.count("logs", json!({"match_all": {}})), 0);
}

#[test]
fn items_of_a_bulk_happen_in_order_and_fail_alone() {
    let node = Node::new();
    let responses = node.bulk(vec![
        create("logs", "a", json!({"n": 1})),
        create("logs", "a", json!({"n": 2})),
        update("logs", "a", json!({"m": 3})),
        update("logs", "a", json!({"n": 4})),
        index("logs", "b", json!({"n": 5})),
        delete("logs", "b"),
        update("logs", "b", json!({"n": 6})),
        index("logs", "c", json!({"n": 7})),
    ]);
    let outcomes: Vec<_> = responses
        .iter()
        .map(|response| match &response.result {
            Ok(written) => format!("{:?}", written.effect),
            Err(error) => format!("{:?}", error.kind()),
        })
        .collect();
    assert_eq!(
        outcomes,
        [
            "Created",
            "VersionConflict",
            "Updated",
            "Updated",
            "Created",
            "Deleted",
            "DocumentMissing",
            "Created"
        ]
    );
    assert_eq!(node.source("logs", "a"), json!({"n": 4, "m": 3}));
    assert_eq!(node.get("logs", "a").unwrap().version, 3);
    assert_eq!(node.count("logs", json!({"match_all": {}})), 2);
}

#[test]
fn updates_merge_insert_or_do_nothing() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"o": {"x": 1}, "n": 1})));
    let (_, written) = node.write(update("logs", "a", json!({"o": {"x": 1}})));
    assert_eq!((written.effect, written.version), (Effect::Noop, 1));
    let (_, written) = node.write(update_with("logs", "a", json!({"o": {"x": 1}}), |update| {
        update.detect_noop = false;
    }));
    assert_eq!((written.effect, written.version), (Effect::Updated, 2));
    let (_, written) = node.write(update_with("logs", "a", json!({"o": {"y": 2}}), |update| {
        update.source = Some(SourceFilter::All);
    }));
    assert_eq!(written.get, Some(json!({"o": {"x": 1, "y": 2}, "n": 1})));

    let error = node.write_error(update("logs", "new", json!({"n": 1})));
    assert_eq!(error.kind(), ErrorKind::DocumentMissing);
    assert_eq!(error.reason(), "[new]: document missing");
    let (_, written) = node.write(update_with("logs", "new", json!({"n": 1}), |update| {
        update.upsert = Some(json!({"first": true}));
    }));
    assert_eq!(written.effect, Effect::Created);
    assert_eq!(node.source("logs", "new"), json!({"first": true}));
    node.write(update_with("logs", "newer", json!({"n": 1}), |update| {
        update.doc_as_upsert = true;
    }));
    assert_eq!(node.source("logs", "newer"), json!({"n": 1}));
}

#[test]
fn expectations_are_checked_against_the_stored_document() {
    let node = Node::new();
    let (_, first) = node.write(index("logs", "a", json!({"n": 1})));
    let expecting = |seq_no| {
        let mut item = index("logs", "a", json!({"n": 2}));
        item.expect = Expectation::SeqNo {
            seq_no,
            primary_term: 1,
        };
        item
    };
    assert_eq!(
        node.write_error(expecting(first.seq_no + 1)).kind(),
        ErrorKind::VersionConflict
    );
    let (_, second) = node.write(expecting(first.seq_no));
    let mut stale = update("logs", "a", json!({"n": 3}));
    stale.expect = Expectation::SeqNo {
        seq_no: first.seq_no,
        primary_term: 1,
    };
    assert_eq!(node.write_error(stale).kind(), ErrorKind::VersionConflict);
    assert_eq!(node.get("logs", "a").unwrap().seq_no, second.seq_no);

    let external = |version| {
        let mut item = index("logs", "ext", json!({"v": version}));
        item.expect = Expectation::External(version);
        item
    };
    assert_eq!(node.write(external(10)).1.version, 10);
    assert_eq!(node.write_error(external(10)).kind(), ErrorKind::VersionConflict);
    assert_eq!(node.write(external(11)).1.version, 11);
}

#[test]
fn generated_ids_spread_over_shards_and_are_found_again() {
    let node = Node::new();
    node.create("logs", json!({"settings": {"number_of_shards": 3}}))
        .unwrap();
    let mut ids = Vec::new();
    for round in 0..3 {
        let items = (0..700).map(|n| add("logs", json!({"n": n + 700 * round}))).collect();
        for response in node.bulk(items) {
            response.result.unwrap();
            ids.push(response.id);
        }
    }
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 2100);
    for (n, id) in ids.iter().enumerate().step_by(97) {
        assert_eq!(id.len(), 20);
        assert_eq!(node.source("logs", id), json!({"n": n}));
    }
    node.refresh("logs");
    let stats = node
        .run(node.engine.stats(&ctx(), crate::node::target("logs")))
        .unwrap();
    for shard in &stats[0].shards {
        assert!(shard.doc_count > 0, "every shard got some");
    }
    // A generated id may be used like any other.
    node.write(update("logs", &ids[1], json!({"n": -1})));
    node.write(delete("logs", &ids[2]));
    let node = node.reopen();
    assert_eq!(node.source("logs", &ids[1]), json!({"n": -1}));
    assert_eq!(node.count("logs", json!({"match_all": {}})), 2099);
}

#[test]
fn refresh_decides_when_a_write_can_be_found() {
    let node = Node::new();
    let all = json!({"size": 0, "track_total_hits": true});
    let responses = node.bulk_with(vec![index("logs", "a", json!({"n": 1}))], Refresh::Now);
    assert!(responses[0].result.as_ref().unwrap().forced_refresh);
    assert_eq!(node.search("logs", all.clone()).unwrap().total.unwrap().value, 1);

    // The clock of this test stands still, so no periodic refresh runs.
    let engine = std::sync::Arc::clone(&node.engine);
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let request = BulkRequest {
            items: vec![index("logs", "b", json!({"n": 2}))],
            refresh: Refresh::WaitFor,
            timeout: None,
            origin: None,
        };
        runtime.block_on(engine.bulk(&ctx(), request)).unwrap()
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!waiting.is_finished());
    node.advance_ms(1000);
    let response = waiting.join().unwrap();
    assert!(!response.items[0].result.as_ref().unwrap().forced_refresh);
    assert_eq!(node.search("logs", all).unwrap().total.unwrap().value, 2);
}

#[test]
fn an_idle_index_is_refreshed_by_its_first_search() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"n": 1})));
    let found = node.search("logs", json!({"query": {"term": {"n": 1}}})).unwrap();
    assert_eq!(found.hits.len(), 1);
}

#[test]
fn searches_during_the_first_refresh_wait_for_it() {
    let node = Node::new();
    for round in 0..20 {
        let name = format!("logs-{round}");
        let items = (0..1_000)
            .map(|n| {
                index(
                    &name,
                    &n.to_string(),
                    json!({"n": n, "text": format!("event {n} of many")}),
                )
            })
            .collect();
        node.bulk(items);
        let start = Barrier::new(6);
        let everything = json!({"size": 0, "track_total_hits": true});
        let counts: Vec<u64> = thread::scope(|scope| {
            let ask = |_| {
                scope.spawn(|| {
                    start.wait();
                    let found = node.search(&name, everything.clone()).unwrap();
                    found.total.unwrap().value
                })
            };
            let askers: Vec<_> = (0..6).map(ask).collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).collect()
        });
        assert_eq!(counts, [1_000; 6], "round {round}");
    }
}

#[test]
fn conflicting_new_fields_of_one_bulk_are_stored_unmapped() {
    let node = Node::new();
    let responses = node.bulk(vec![
        index("logs", "a", json!({"f": 1, "g": "x"})),
        index("logs", "b", json!({"f": {"deep": true}})),
        index("logs", "c", json!({"f": "text", "h": [1.5]})),
    ]);
    for response in responses {
        response.result.unwrap();
    }
    let metadata = node.run(node.engine.metadata(&ctx())).unwrap();
    let mapping = metadata.indices["logs"].mapping.print();
    assert_eq!(mapping["properties"]["f"]["type"], "long");
    assert_eq!(mapping["properties"]["h"]["type"], "float");
    assert_eq!(node.source("logs", "b"), json!({"f": {"deep": true}}));
    assert_eq!(node.count("logs", json!({"match_all": {}})), 3);
    assert_eq!(node.count("logs", json!({"term": {"f": 1}})), 1);
}

#[test]
fn events_above_the_field_limit_are_accepted() {
    let node = Node::new();
    node.create("logs", json!({"settings": {"index.mapping.total_fields.limit": 5}}))
        .unwrap();
    let items = (0..20)
        .map(|n| index("logs", &n.to_string(), json!({format!("field_{n}"): n})))
        .collect();
    for response in node.bulk(items) {
        response.result.unwrap();
    }
    let metadata = node.run(node.engine.metadata(&ctx())).unwrap();
    assert!(metadata.indices["logs"].mapping.total_fields() <= 5);
    assert_eq!(node.count("logs", json!({"match_all": {}})), 20);
}

#[test]
fn targets_are_checked() {
    let node = Node::new();
    node.create(
        "logs-1",
        json!({"aliases": {"logs": {"is_write_index": true, "index_routing": "r"}}}),
    )
    .unwrap();
    let (_, written) = node.write(index("logs", "a", json!({"n": 1})));
    assert_eq!(written.effect, Effect::Created);
    let mut item = index("logs", "b", json!({}));
    item.routing = Some("other".to_owned());
    let error = node.write_error(item);
    assert!(error.reason().contains("rejecting operation"), "{error}");

    let mut item = index("logs-1", "b", json!({}));
    item.require_alias = true;
    let error = node.write_error(item);
    assert_eq!(error.kind(), ErrorKind::IndexNotFound);
    assert!(error.reason().contains("[require_alias]"), "{error}");
    assert_eq!(
        node.write_error(delete("missing", "a")).kind(),
        ErrorKind::IndexNotFound
    );
    assert!(
        !node
            .run(node.engine.metadata(&ctx()))
            .unwrap()
            .indices
            .contains_key("missing")
    );
    let long = "x".repeat(513);
    assert!(
        node.write_error(index("logs-1", &long, json!({})))
            .reason()
            .contains("too long")
    );
    assert!(node.write_error(index("Bad*Name", "a", json!({}))).reason().len() > 5);

    node.execute(Command::PutSettings {
        names: vec!["logs-1".to_owned()],
        settings: json!({"index.blocks.write": true}),
        preserve_existing: false,
    })
    .unwrap();
    assert_eq!(
        node.write_error(index("logs", "a", json!({}))).kind(),
        ErrorKind::IndexBlocked
    );
}

#[test]
fn routing_picks_the_shard_of_writes_and_reads() {
    let node = Node::new();
    node.create(
        "logs",
        json!({"settings": {"number_of_shards": 5}, "mappings": {"_routing": {"required": true}}}),
    )
    .unwrap();
    assert_eq!(
        node.write_error(index("logs", "a", json!({}))).kind(),
        ErrorKind::RoutingMissing
    );
    let items = (0..50)
        .map(|n| {
            let mut item = index("logs", &n.to_string(), json!({"n": n}));
            item.routing = Some(format!("tenant-{}", n % 7));
            item
        })
        .collect();
    for response in node.bulk(items) {
        response.result.unwrap();
    }
    assert_eq!(node.try_get("logs", "1").unwrap_err().kind(), ErrorKind::RoutingMissing);
    let request = firn_engine::document::GetRequest {
        index: "logs".to_owned(),
        id: "8".to_owned(),
        routing: Some("tenant-1".to_owned()),
        realtime: true,
        version: None,
    };
    let mut results = node.run(node.engine.get(&ctx(), vec![request])).unwrap();
    let found = results.pop().unwrap().unwrap().found.unwrap();
    assert_eq!(found.routing.as_deref(), Some("tenant-1"));
    assert_eq!(node.count("logs", json!({"match_all": {}})), 50);
}

#[test]
fn too_many_bytes_in_flight_are_refused_and_nothing_stays_reserved() {
    let node = Node::with(|config| config.write_bytes_in_flight_max = 10_000);
    let request = BulkRequest {
        items: vec![index("logs", "a", json!({"text": "x".repeat(20_000)}))],
        ..BulkRequest::default()
    };
    let error = node.run(node.engine.bulk(&ctx(), request)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    node.write(index("logs", "a", json!({"text": "short"})));
    let stats = node.run(node.engine.node_stats(&ctx())).unwrap();
    assert_eq!((stats.write_bytes_in_flight, stats.write_rejected), (0, 1));
}

#[test]
fn broken_documents_fail_alone() {
    let node = Node::new();
    let mut broken = index("logs", "a", json!({}));
    broken.operation = firn_engine::document::Operation::Index {
        source: bytes::Bytes::from_static(b"{\"a\": "),
    };
    let responses = node.bulk(vec![broken, index("logs", "b", json!({"n": 1}))]);
    assert_eq!(
        responses[0].result.as_ref().unwrap_err().kind(),
        ErrorKind::DocumentParsing
    );
    responses[1].result.as_ref().unwrap();
}

#[test]
fn concurrent_writers_may_add_the_same_new_fields() {
    let node = Node::new();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let engine = std::sync::Arc::clone(&node.engine);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                for round in 0..10 {
                    let items = (0..20)
                        .map(|n| add("logs", json!({format!("f{}", (round + n) % 25): n, "writer": writer})))
                        .collect();
                    let request = BulkRequest {
                        items,
                        ..BulkRequest::default()
                    };
                    for item in runtime.block_on(engine.bulk(&ctx(), request)).unwrap().items {
                        item.result.unwrap();
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(node.count("logs", json!({"match_all": {}})), 800);
    assert_eq!(node.count("logs", json!({"exists": {"field": "f7"}})), 4 * 8);
    let metadata = node.run(node.engine.metadata(&ctx())).unwrap();
    assert_eq!(metadata.indices["logs"].mapping.total_fields(), 26);
}

#[test]
fn writers_faster_than_merges_merge_segments_themselves() {
    let node = Node::new();
    node.create("logs", json!({"settings": {"refresh_interval": "-1"}}))
        .unwrap();
    let segments = || {
        let stats = node
            .run(Engine::stats(&*node.engine, &ctx(), crate::node::target("logs")))
            .unwrap();
        stats[0].shards[0].segments.len()
    };
    let mut most = 0;
    for bulk in 0..400 {
        let items = (0..100).map(|n| add("logs", json!({"n": bulk * 100 + n}))).collect();
        let responses = node.bulk_with(items, Refresh::Now);
        assert!(responses.iter().all(|response| response.result.is_ok()));
        most = most.max(segments());
    }
    // Each bulk created one segment; the periodic merges, one a second, would leave most of them.
    assert!(most <= 200, "{most} segments");
    assert_eq!(node.count("logs", json!({"match_all": {}})), 40_000);
}
