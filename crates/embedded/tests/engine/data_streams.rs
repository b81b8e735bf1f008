//! Tests of data streams and rollover.

use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::{Command, RolloverFacts};
use serde_json::json;

use crate::node::{Node, add, ctx, index};

fn with_template() -> Node {
    let node = Node::new();
    node.execute(Command::PutIndexTemplate {
        name: "logs".to_owned(),
        body: json!({"index_patterns": ["logs-*"], "data_stream": {}}),
        create: false,
    })
    .unwrap();
    node
}

#[test]
fn a_data_stream_takes_only_new_events_with_a_timestamp() {
    let node = with_template();
    let responses = node.bulk(vec![
        add("logs-app", json!({"@timestamp": "2026-01-01T00:00:00Z", "n": 1})),
        add("logs-app", json!({"n": 2})),
        index("logs-app", "a", json!({"@timestamp": "2026-01-01T00:00:00Z"})),
    ]);
    assert_eq!(responses[0].index, ".ds-logs-app-2026.01.01-000001");
    responses[0].result.as_ref().unwrap();
    let missing = responses[1].result.as_ref().unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::DocumentParsing);
    assert!(missing.to_string().contains("[@timestamp] is missing"), "{missing}");
    assert_eq!(
        responses[2].result.as_ref().unwrap_err().reason(),
        "only write ops with an op_type of create are allowed in data streams"
    );
    assert_eq!(node.count("logs-app", json!({"match_all": {}})), 1);
    let mut plain = add("plain", json!({"@timestamp": 1}));
    plain.require_data_stream = true;
    assert_eq!(node.write_error(plain).kind(), ErrorKind::IndexNotFound);
}

#[test]
fn rollover_measures_its_conditions() {
    let node = with_template();
    let event = |n: i32| add("logs-app", json!({"@timestamp": "2026-01-01T00:00:00Z", "n": n}));
    node.bulk((0..5).map(event).collect());
    let roll = |docs: u64| {
        node.execute(Command::Rollover {
            target: "logs-app".to_owned(),
            new_index: None,
            conditions: [("max_docs".to_owned(), json!(docs))].into_iter().collect(),
            body: json!({}),
            dry_run: false,
            facts: RolloverFacts::default(),
        })
        .unwrap()
        .rollover
        .unwrap()
    };
    assert!(!roll(6).rolled_over);
    let outcome = roll(5);
    assert!(outcome.rolled_over);
    assert_eq!(outcome.new_index, ".ds-logs-app-2026.01.01-000002");
    let responses = node.bulk(vec![event(6)]);
    assert_eq!(responses[0].index, outcome.new_index);
    let node = node.reopen();
    assert_eq!(node.count("logs-app", json!({"match_all": {}})), 6);
    let metadata = node.run(node.engine.metadata(&ctx())).unwrap();
    assert_eq!(metadata.data_streams["logs-app"].indices.len(), 2);
}
