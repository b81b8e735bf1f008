//! Tests of data streams with a backing index for each period.

use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use serde_json::{Value, json};

use crate::node::{Node, add, ctx, index, update};

/// Returns a node whose data streams `logs-*` have periods. It is 2026-01-01, a Thursday.
fn with_period(settings: Value) -> Node {
    let node = Node::new();
    put_template(&node, settings);
    node
}

fn put_template(node: &Node, settings: Value) {
    node.execute(Command::PutIndexTemplate {
        name: "logs".to_owned(),
        body: json!({"index_patterns": ["logs-*"], "data_stream": {}, "template": {"settings": settings}}),
        create: false,
    })
    .unwrap();
}

fn event(at: &str) -> firn_engine::document::BulkItem {
    add("logs-app", json!({"a": 1, "@timestamp": at}))
}

fn indices(node: &Node) -> Vec<String> {
    let metadata = node.run(node.engine.metadata(&ctx())).unwrap();
    metadata.data_streams["logs-app"].indices.clone()
}

#[test]
fn events_go_to_the_index_of_their_time() {
    let node = with_period(json!({"index.period": "week"}));
    let responses = node.bulk(
        [
            "2026-01-01T00:00:00Z",
            "2025-12-28T23:59:59.999Z",
            "2025-12-29T00:00:00+00:00",
            "2026-01-04T23:30:00-01:00",
            "2025-11-03",
            "1764633600000",
        ]
        .map(event)
        .to_vec(),
    );
    let written: Vec<&str> = responses.iter().map(|response| response.index.as_str()).collect();
    assert!(
        responses.iter().all(|response| response.result.is_ok()),
        "{responses:?}"
    );
    assert_eq!(
        written,
        [
            ".ds-logs-app-2025.12.29-000001",
            ".ds-logs-app-2025.12.22-000004",
            ".ds-logs-app-2025.12.29-000001",
            ".ds-logs-app-2026.01.05-000005",
            ".ds-logs-app-2025.11.03-000002",
            ".ds-logs-app-2025.12.01-000003",
        ]
    );
    let node = node.reopen();
    assert_eq!(node.count("logs-app", json!({"match_all": {}})), 6);
    assert_eq!(
        indices(&node),
        [
            ".ds-logs-app-2025.11.03-000002",
            ".ds-logs-app-2025.12.01-000003",
            ".ds-logs-app-2025.12.22-000004",
            ".ds-logs-app-2025.12.29-000001",
            ".ds-logs-app-2026.01.05-000005",
        ]
    );
}

#[test]
fn events_without_a_valid_time_are_refused_and_others_are_written() {
    let node = with_period(json!({"index.period": "day", "index.time.past_limit": "30d"}));
    let responses = node.bulk(vec![
        event("2026-01-01T00:00:00Z"),
        add("logs-app", json!({"a": 1})),
        event("yesterday"),
        add("logs-app", json!({"@timestamp": ["2026-01-01", "2026-01-02"]})),
        event("2025-11-01"),
        event("2026-01-09"),
        event("2025-12-31T12:00:00Z"),
    ]);
    let reasons: Vec<Option<String>> = responses
        .iter()
        .map(|response| response.result.as_ref().err().map(|error| error.reason().to_owned()))
        .collect();
    let says = |position: usize, text: &str| {
        let reason = reasons[position].as_deref().unwrap_or("none");
        assert!(reason.contains(text), "{position}: {reason}");
    };
    assert_eq!((&reasons[0], &reasons[6]), (&None, &None));
    says(1, "data stream timestamp field [@timestamp] is missing");
    says(2, "[@timestamp] is not a date");
    says(3, "encountered multiple values");
    says(
        4,
        "the document timestamp [2025-11-01T00:00:00.000Z] is older than data stream [logs-app] accepts",
    );
    says(5, "is later than data stream [logs-app] accepts");
    assert_eq!(
        responses[4].result.as_ref().unwrap_err().kind(),
        ErrorKind::IllegalArgument
    );
    assert_eq!(indices(&node).len(), 2);
    assert_eq!(node.count("logs-app", json!({"match_all": {}})), 2);
}

#[test]
fn limits_apply_to_existing_indices() {
    let node =
        with_period(json!({"index.period": "month", "index.time.past_limit": "1h", "index.time.future_limit": "1h"}));
    node.bulk(vec![event("2026-01-01T00:30:00Z")]);
    for (time, is_taken) in [
        ("2026-01-01T00:59:59Z", true),
        ("2026-01-01T01:00:01Z", false),
        ("2026-01-20T00:00:00Z", false),
        ("2025-12-31T22:00:00Z", false),
    ] {
        let response = node.bulk(vec![event(time)]).remove(0);
        assert_eq!(response.result.is_ok(), is_taken, "{time}");
    }
}

#[test]
fn a_stream_whose_periods_are_removed_loses_no_event() {
    let node = with_period(json!({"index.period": "day"}));
    node.bulk(vec![event("2026-01-01T00:00:00Z")]);
    put_template(&node, json!({}));
    let times = ["2025-08-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-04T00:00:00Z"];
    for response in node.bulk(times.map(event).to_vec()) {
        response.result.unwrap();
    }
    assert_eq!(indices(&node).len(), 2);
    assert_eq!(node.count("logs-app", json!({"match_all": {}})), 4);
}

#[test]
fn an_index_of_a_period_takes_no_other_time() {
    let node = with_period(json!({"index.period": "day"}));
    node.bulk(vec![event("2026-01-01T05:00:00Z")]);
    let backing = ".ds-logs-app-2026.01.01-000001";
    let inside = json!({"@timestamp": "2026-01-01T23:59:59.999Z"});
    node.write(index(backing, "a", inside.clone()));
    let error = node.write_error(index(backing, "b", json!({"@timestamp": "2026-01-02"})));
    assert_eq!(
        error.reason(),
        "index [.ds-logs-app-2026.01.01-000001] takes events from [2026-01-01T00:00:00.000Z] to before \
         [2026-01-02T00:00:00.000Z], and the document timestamp is [2026-01-02T00:00:00.000Z]"
    );
    let error = node.write_error(update(backing, "a", json!({"@timestamp": "2025-12-31"})));
    assert_eq!(error.kind(), ErrorKind::DocumentParsing);
    assert_eq!(node.source(backing, "a"), inside);
}

#[test]
fn a_search_skips_indices_of_other_times() {
    let node = with_period(json!({"index.period": "day", "index.number_of_shards": 2}));
    node.bulk((1..=5).map(|day| event(&format!("2026-01-0{day}T12:00:00Z"))).collect());
    node.refresh("logs-app");
    let search = |range: Value, aggs: Value| {
        let body = json!({"query": {"range": {"@timestamp": range}}, "aggs": aggs, "profile": true});
        let response = node.search("logs-app", body).unwrap();
        let searched = response
            .profile
            .as_ref()
            .map_or(0, |profile| profile.shards.len() as u32);
        assert_eq!(searched + response.shards.skipped, response.shards.total);
        assert_eq!(response.shards.successful, 10);
        (response.total.unwrap().value, response.shards.skipped)
    };
    assert_eq!(search(json!({"gte": "2026-01-02", "lt": "2026-01-04"}), json!({})).0, 2);
    // Both days, and the first instant of the third, which `lt` excludes only within the index.
    assert_eq!(search(json!({"gte": "2026-01-02", "lt": "2026-01-04"}), json!({})).1, 4);
    assert_eq!(search(json!({"gte": "2026-01-04T12:00:00Z"}), json!({})), (2, 6));
    assert_eq!(search(json!({"lt": "1999-01-01"}), json!({})), (0, 9));
    // Aggregations that ignore the query see all events.
    let response = node
        .search(
            "logs-app",
            json!({"size": 0, "query": {"range": {"@timestamp": {"lt": "2026-01-02"}}}, "aggs": {"all": {"global": {}}}}),
        )
        .unwrap();
    assert_eq!(response.aggregations.unwrap()["all"]["doc_count"], 5);
}

#[test]
fn too_many_new_periods_in_one_bulk_are_refused_together() {
    let node = with_period(json!({"index.period": "day"}));
    let days = |count: i64| -> Vec<_> {
        (0..count)
            .map(|day| {
                add(
                    "logs-app",
                    json!({"@timestamp": crate::node::START_MS - day * 86_400_000}),
                )
            })
            .collect()
    };
    let responses = node.bulk(days(110));
    assert!(responses[0].result.is_ok());
    let refused = responses[1].result.as_ref().unwrap_err();
    assert!(
        refused.reason().contains("would create [109] new backing indices"),
        "{refused}"
    );
    assert_eq!(
        responses.iter().filter(|response| response.result.is_err()).count(),
        109
    );
}

#[test]
fn without_a_period_events_follow_each_other() {
    let node = with_period(json!({}));
    let responses = node.bulk(vec![event("2020-01-01"), event("2030-01-01")]);
    for response in &responses {
        response.result.as_ref().unwrap();
        assert_eq!(response.index, ".ds-logs-app-2026.01.01-000001");
    }
    // The template's period applies from the next index on.
    put_template(&node, json!({"index.period": "day"}));
    assert!(node.bulk(vec![event("2020-01-01")])[0].result.is_ok());
    assert_eq!(indices(&node).len(), 1);
}
