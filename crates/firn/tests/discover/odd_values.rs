//! Unusual events: hundreds of fields, megabytes, markup, emoji, right-to-left text.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{BEGIN_MS, DiscoverEvents, World};

/// Each is a value, and must be unchanged in every result.
const ODD: [&str; 9] = [
    "<script>alert('x')</script><img src=x onerror=alert(1)>",
    "\"quoted\" & 'single' \\ backslash / </textarea>",
    "line\nfeed\r\nand\ttab",
    "event: done\ndata: {\"event\":\"end\"}\n\n",
    "👩‍👩‍👧‍👦 🏳️‍🌈 e\u{301} 𝒳",
    "שלום עולם \u{202e}gnp.exe\u{202c}",
    "مرحبا بالعالم",
    "separators \u{2028} and \u{2029} and \u{85}",
    "nul \u{0} and delete \u{7f} and \u{feff}",
];

#[test]
fn an_object_has_no_values_to_count() {
    let world = World::empty(&[]);
    let event = json!({"@timestamp": BEGIN_MS, "geo": {"lat": 1.5, "lon": 2.5}, "geometry": "flat"});
    world.alpha.write("places", [event]);
    let fields = ["geo", "geo.lat", "geometry.keyword", "nothing"];
    let mut stages = fields
        .map(|field| json!({"stage": "top_values", "field": field}))
        .to_vec();
    stages.push(json!({"stage": "cardinality", "fields": fields}));
    let events = world
        .alpha
        .discover(&json!({"index": "places", "time": {"from": 0}, "stages": stages}));
    let ends = |name: &str| {
        events
            .0
            .iter()
            .filter(|event| event["event"] == name)
            .collect::<Vec<_>>()
    };
    let failed = ends("failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    let reason = failed[0]["error"]["reason"].as_str().unwrap();
    assert!(reason.contains("[geo] of type [object] cannot be counted"), "{reason}");
    let done = ends("done");
    assert_eq!(done.len(), 4);
    let counted = done.iter().find(|event| event["stage"] == "cardinality").unwrap();
    let counted = counted["result"]["fields"].as_array().unwrap();
    let counts_of = |name: &str| counted.iter().find(|field| field["name"] == name).unwrap();
    assert_eq!(
        (&counts_of("geo")["documents"], &counts_of("geo")["cardinality"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(counts_of("geo.lat")["cardinality"], 1);
    assert_eq!(counts_of("nothing")["cardinality"], 0);
}

#[test]
fn values_arrive_as_they_were_sent() {
    let world = World::empty(&[]);
    world.index("odd", json!({}), json!({"text": {"type": "keyword"}}));
    world.alpha.write(
        "odd",
        ODD.iter()
            .enumerate()
            .map(|(number, text)| json!({"@timestamp": BEGIN_MS + number as i64, "text": text})),
    );
    // A source of several lines, as sent.
    let several = format!(
        "{{\n  \"@timestamp\": {},\r\n  \"text\": \"several\",\n  \"list\": [\n1,\n2]\n}}",
        BEGIN_MS + 100
    );
    let put = world.alpha.client.send(
        "PUT",
        "/odd/_doc/several?refresh=true",
        Some("application/json"),
        several.as_bytes(),
    );
    assert_eq!(put.unwrap().status, 201);
    let body = json!({
        "index": "odd", "time": {"from": BEGIN_MS}, "columns": ["text"],
        "stages": [
            {"stage": "sample", "size": 50},
            {"stage": "histogram", "split_by": "text", "split_values": 20, "interval": "1d"},
            {"stage": "top_values", "field": "text", "size": 20},
        ],
    });
    let expect: BTreeSet<&str> = ODD.into_iter().chain(["several"]).collect();
    for accept in ["application/x-ndjson", "text/event-stream"] {
        let events: DiscoverEvents = world.alpha.stream("/_firn/discover", accept, &body).rest();
        let names: Vec<&str> = events.0.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names.iter().filter(|name| **name == "end").count(), 1, "{names:?}");
        let hits = events.result("sample")["hits"].as_array().unwrap();
        let shown: BTreeSet<&str> = hits
            .iter()
            .map(|hit| hit["_source"]["text"].as_str().unwrap())
            .collect();
        assert_eq!(shown, expect, "{accept}");
        let columns: BTreeSet<&str> = hits
            .iter()
            .map(|hit| hit["fields"]["text"][0].as_str().unwrap())
            .collect();
        assert_eq!(columns, expect, "{accept}");
        assert_eq!(hits[0]["_source"]["list"], json!([1, 2]));
        let values = events.result("top_values")["values"].as_array().unwrap();
        let values: BTreeSet<&str> = values.iter().map(|value| value["text"].as_str().unwrap()).collect();
        assert_eq!(values, expect, "{accept}");
        let splits = events.result("histogram")["splits"].as_array().unwrap();
        let splits: BTreeSet<&str> = splits.iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(splits, expect, "{accept}");
    }
}

#[test]
fn an_event_may_have_three_hundred_fields() {
    let world = World::empty(&[]);
    let event = |number: i64| {
        let mut event = Map::new();
        event.insert("@timestamp".to_owned(), json!(BEGIN_MS + number));
        for field in 0..300 {
            event.insert(format!("f{field:03}"), json!(number % (1 + field % 7)));
        }
        Value::Object(event)
    };
    world.alpha.write("many", (0..50).map(event));
    let events = world.alpha.discover(&json!({"index": "many", "time": {"from": 0}}));
    let source = events.result("sample")["hits"][0]["_source"].as_object().unwrap();
    assert_eq!(source.len(), 302, "with its time and its tenant");
    let fields = events.result("cardinality")["fields"].as_array().unwrap();
    assert_eq!(fields.len(), 100, "as many as are counted unless others are named");
    let names: Vec<String> = (0..300).map(|field| format!("f{field:03}")).collect();
    let events = world.alpha.discover(&json!({
        "index": "many", "time": {"from": 0}, "stages": [{"stage": "cardinality", "fields": names}],
    }));
    let fields = events.result("cardinality")["fields"].as_array().unwrap();
    assert_eq!(fields.len(), 300);
    for field in fields {
        let number: u64 = field["name"].as_str().unwrap()[1..].parse().unwrap();
        assert_eq!(
            (&field["cardinality"], &field["documents"]),
            (&json!(1 + number % 7), &json!(50)),
            "{field}"
        );
    }
    let too_many = json!({"index": "many", "stages": [{"stage": "cardinality", "fields": vec!["a"; 501]}]});
    assert_eq!(world.alpha.ask("POST", "/_firn/discover", &too_many).0, 400);
}

#[test]
fn megabytes_are_returned_up_to_a_bound_and_the_rest_counted() {
    let world = World::empty(&[]);
    let text = "a<b>&".repeat(200_000);
    for number in 0..18 {
        world.alpha.write(
            "large",
            [json!({"@timestamp": BEGIN_MS + number, "n": number, "text": text})],
        );
    }
    let events = world.alpha.discover(&json!({
        "index": "large", "time": {"from": 0},
        "stages": [{"stage": "sample"}, {"stage": "top_values", "field": "n", "size": 20}],
    }));
    let sample = events.result("sample");
    let hits = sample["hits"].as_array().unwrap();
    let omitted = sample["omitted"].as_u64().unwrap();
    assert_eq!(hits.len() as u64 + omitted, 18);
    assert!(omitted > 0 && hits.len() > 10, "{} hits, {omitted} omitted", hits.len());
    assert_eq!(hits[0]["_source"]["n"], 17, "the newest are returned");
    assert_eq!(hits[0]["_source"]["text"], text);
    assert_eq!(events.result("top_values")["with_value"], 18);
}
