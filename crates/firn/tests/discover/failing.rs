//! Failing stages next to successful ones.

use serde_json::{Value, json};

use crate::{BEGIN_MS, EVENTS, World};

#[test]
fn a_stage_that_cannot_be_answered_takes_no_other_with_it() {
    let world = World::new(&[]);
    let events = world.alpha.discover(&json!({
        "index": "events", "time": {"from": 0},
        "stages": [
            {"stage": "sample"},
            {"stage": "histogram", "split_by": "message"},
            {"stage": "top_values", "field": "message"},
            {"stage": "top_values", "field": "tags"},
            {"stage": "top_values", "field": "noname_has_it"},
            {"stage": "cardinality", "fields": ["message", "status"]},
        ],
    }));
    assert_eq!(events.result("sample")["total"]["value"], EVENTS);
    for name in ["histogram", "top_values:message"] {
        let end = events.end_of(name);
        assert_eq!(
            (&end["event"], &end["status"]),
            (&json!("failed"), &json!(400)),
            "{end}"
        );
        assert!(end["error"].to_string().contains("message"), "{end}");
        assert!(end["error"]["root_cause"].is_array(), "in Elasticsearch's shape: {end}");
    }
    assert_eq!(events.result("top_values:tags")["values"][0]["value"], "seventh");
    let missing = events.result("top_values:noname_has_it");
    assert_eq!((&missing["missing"], &missing["values"]), (&json!(EVENTS), &json!([])));
    let fields = events.result("cardinality")["fields"].as_array().unwrap();
    assert!(fields[0]["error"].is_object(), "{fields:?}");
    assert_eq!(
        (&fields[1]["name"], &fields[1]["cardinality"]),
        (&json!("status"), &json!(4))
    );
    assert_eq!(events.0.last().unwrap()["event"], "end");
}

#[test]
fn a_sample_that_fails_ends_no_other_stage() {
    let world = World::new(&[]);
    let events = world.alpha.discover(&json!({
        "index": "events", "time": {"from": 0}, "sort": [{"message": "asc"}],
    }));
    let end = events.end_of("sample");
    assert_eq!(
        (&end["event"], &end["status"]),
        (&json!("failed"), &json!(400)),
        "{end}"
    );
    assert!(events.result("histogram")["buckets"].is_array());
    assert!(events.result("cardinality")["fields"].is_array());
}

#[test]
fn indices_may_differ() {
    let world = World::empty(&[]);
    world.index("apart-words", json!({}), json!({"code": {"type": "keyword"}}));
    world.index("apart-numbers", json!({}), json!({"code": {"type": "long"}}));
    let event =
        |number: i64| json!({"@timestamp": BEGIN_MS + number, "code": number % 5, "both": format!("b{}", number % 2)});
    world.alpha.write("apart-words", (0..20).map(event));
    world.alpha.write("apart-numbers", (0..30).map(event));
    world.alpha.write(
        "apart-neither",
        (0..10).map(|number| json!({"@timestamp": BEGIN_MS + number})),
    );
    let events = world.alpha.discover(&json!({
        "index": "apart-*", "time": {"from": BEGIN_MS, "to": BEGIN_MS + 999},
        "stages": [
            {"stage": "sample"},
            {"stage": "histogram", "interval": "1s", "split_by": "both.keyword"},
            {"stage": "top_values", "field": "code"},
            {"stage": "top_values", "field": "both.keyword"},
            {"stage": "cardinality", "fields": ["code", "both.keyword"]},
        ],
    }));
    assert_eq!(events.result("sample")["total"], json!({"value": 60, "relation": "eq"}));
    // A field of two of three indices.
    let both = events.result("top_values:both.keyword");
    assert_eq!(
        (&both["with_value"], &both["missing"], &both["total"]),
        (&json!(50), &json!(10), &json!(60))
    );
    let counts: Vec<&Value> = both["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| &value["count"])
        .collect();
    assert_eq!(counts, [25, 25]);
    let histogram = events.result("histogram");
    assert_eq!(histogram["buckets"][0]["count"], 60);
    assert_eq!(histogram["buckets"][0]["other"], 10);
    // Text in one index and numbers in the other: counted as they are, or refused, but never half of them as if that
    // were all.
    let code = events.end_of("top_values:code");
    match code["event"].as_str().unwrap() {
        "failed" => assert_eq!(code["status"], 400, "{code}"),
        _ => {
            let values = code["result"]["values"].as_array().unwrap();
            let sum: u64 = values.iter().map(|value| value["count"].as_u64().unwrap()).sum();
            assert_eq!((sum, &code["result"]["type"]), (50, &json!("conflict")), "{code}");
        }
    }
    let fields = events.result("cardinality")["fields"].as_array().unwrap();
    let both = fields.iter().find(|field| field["name"] == "both.keyword").unwrap();
    assert_eq!((&both["cardinality"], &both["documents"]), (&json!(2), &json!(50)));
    let code = fields.iter().find(|field| field["name"] == "code").unwrap();
    assert_eq!(code["type"], "conflict", "{code}");
}

#[test]
fn what_some_shards_cannot_answer_is_partial_and_says_why() {
    let world = World::empty(&[]);
    world.index("part-good", json!({}), json!({"host": {"type": "keyword"}}));
    world.index("part-bad", json!({}), json!({"host": {"type": "text"}}));
    let event = |number: i64| json!({"@timestamp": BEGIN_MS + number, "host": format!("h{}", number % 3)});
    world.alpha.write("part-good", (0..20).map(event));
    world.alpha.write("part-bad", (0..10).map(event));
    // Texts cannot be sorted.
    let events = world.alpha.discover(&json!({
        "index": "part-*", "time": {"from": BEGIN_MS, "to": BEGIN_MS + 999}, "sort": [{"host": "asc"}],
        "stages": [{"stage": "sample"}, {"stage": "histogram", "split_by": null, "interval": "1s"}],
    }));
    let sample = events.end_of("sample");
    assert_eq!(
        (&sample["event"], &sample["partial"]),
        (&json!("done"), &json!(true)),
        "{sample}"
    );
    assert_eq!(sample["shards"]["failed"], 1);
    let failure = &sample["shards"]["failures"][0];
    assert_eq!(failure["index"], "part-bad");
    assert!(
        failure["reason"]["reason"].as_str().unwrap().contains("host"),
        "{failure}"
    );
    assert_eq!(sample["result"]["hits"].as_array().unwrap().len(), 20);
    assert_eq!(events.result("histogram")["buckets"][0]["count"], 30);
}

#[test]
fn an_invalid_request_is_refused_before_any_stage_starts() {
    let world = World::new(&[]);
    for (body, status, word) in [
        (json!({"index": "no-such-index"}), 404, "no-such-index"),
        (
            json!({"index": "events", "query": {"language": "lucene", "text": "a:(b"}}),
            400,
            "a:(b",
        ),
        (
            json!({"index": "events", "query": {"language": "dsl", "dsl": {"nonsense": {}}}}),
            400,
            "nonsense",
        ),
        (
            json!({"index": "events", "time": {"from": 2, "to": 1}}),
            400,
            "[from] of [time]",
        ),
        (
            json!({"index": "events", "time": {"zone": "Mars/Olympus"}}),
            400,
            "Mars/Olympus",
        ),
        (
            json!({"index": "events", "stages": [{"stage": "sample", "size": 1001}]}),
            400,
            "[size]",
        ),
        (json!({"index": "events", "columns": vec!["a"; 201]}), 400, "[columns]"),
        (json!({}), 400, "[index] is required"),
    ] {
        let (got, answer) = world.operator.ask("POST", "/_firn/discover", &body);
        assert_eq!(got, status, "{body}: {answer}");
        assert!(answer["error"]["reason"].to_string().contains(word), "{body}: {answer}");
        assert_eq!(answer["status"], status);
    }
    let long = json!({"index": "events", "query": {"language": "lucene", "text": "x ".repeat(600_000)}});
    assert_eq!(world.alpha.ask("POST", "/_firn/discover", &long).0, 413);
    assert_eq!(
        world
            .node
            .client()
            .json("POST", "/_firn/discover", &json!({"index": "events"}))
            .unwrap()
            .status,
        401
    );
    assert_eq!(world.operator.tasks(), Vec::<String>::new());
}
