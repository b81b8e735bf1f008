//! Highlighting of matches in hits, which must never cost a hit.

use serde_json::{Value, json};

use crate::{BEGIN_MS, EVENTS, World};

/// Returns a sample, newest first.
fn hits(world: &World, index: &str, rest: Value, highlight: bool) -> Vec<Value> {
    let mut body = json!({
        "index": index, "time": {"from": BEGIN_MS},
        "stages": [{"stage": "sample", "size": 20, "highlight": highlight}],
    });
    body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let events = world.alpha.discover(&body);
    events.result("sample")["hits"].as_array().unwrap().clone()
}

fn marks(hits: &[Value]) -> Vec<&Value> {
    hits.iter().map(|hit| &hit["highlight"]).collect()
}

#[test]
fn what_was_found_is_marked_in_every_field() {
    let world = World::new(&[]);
    let kql = |text: &str| json!({"query": {"text": text}});
    let of_fields = hits(
        &world,
        "events",
        kql("event_class: dns and message: says and status: 200"),
        true,
    );
    assert!(!of_fields.is_empty());
    for hit in of_fields {
        let number = hit["_source"]["message"]
            .as_str()
            .unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned();
        let expected = json!({
            "event_class": ["@firn-mark@dns@/firn-mark@"],
            "message": [format!("alpha @firn-mark@says@/firn-mark@ {number}")],
        });
        assert_eq!(hit["highlight"], expected);
    }
    // A single word is searched in all fields, and of several values only the matching one is highlighted.
    let of_tags = hits(&world, "events", kql("seventh"), true);
    assert!(
        of_tags
            .iter()
            .all(|hit| hit["highlight"] == json!({"tags": ["@firn-mark@seventh@/firn-mark@"]})),
        "{of_tags:?}"
    );
    // Filters highlight too; negated conditions, times and numbers do not.
    let filters = json!({"filters": [
        {"term": {"event_class": "web"}},
        {"bool": {"must_not": [{"match": {"message": "bravo"}}]}},
        {"term": {"status": 200}},
    ]});
    let filtered = hits(&world, "events", filters, true);
    assert!(!filtered.is_empty());
    for hit in &filtered {
        assert_eq!(hit["highlight"], json!({"event_class": ["@firn-mark@web@/firn-mark@"]}));
    }
    // Without a request for highlighting, or without a query, there are no marks.
    let none = |hits: &[Value]| marks(hits).iter().all(|mark| mark.is_null());
    assert!(none(&hits(&world, "events", kql("message: says"), false)));
    assert!(none(&hits(&world, "events", json!({}), true)));
    // Columns are highlighted by default.
    let columns = json!({"query": {"text": "message: says and event_class: dns"}, "columns": ["event_class"]});
    for hit in hits(&world, "events", columns, false) {
        assert_eq!(hit["highlight"], json!({"event_class": ["@firn-mark@dns@/firn-mark@"]}));
    }
}

#[test]
fn a_text_too_long_to_be_highlighted_costs_no_hit() {
    let world = World::empty(&[]);
    world.index(
        "long",
        json!({"highlight.max_analyzed_offset": 50}),
        json!({"message": {"type": "text"}}),
    );
    let text = |number: usize| match number {
        3 => format!("needle {}", "x".repeat(1 << 20)),
        4 => format!("{} needle", "hay ".repeat(2_000)),
        _ => format!("needle {}", "hay ".repeat(100)),
    };
    let events =
        (0..6).map(|number| json!({"@timestamp": BEGIN_MS + number as i64, "number": number, "message": text(number)}));
    world.alpha.write("long", events);
    for columns in [json!([]), json!(["message"])] {
        let rest = json!({"query": {"text": "message: needle"}, "columns": columns});
        let found = hits(&world, "long", rest, true);
        assert_eq!(found.len(), 6);
        for hit in &found {
            let mark = &hit["highlight"]["message"][0];
            if hit["_source"]["number"] == 4 {
                assert!(mark.is_null(), "the match is behind the highlighted part");
                continue;
            }
            let mark = mark.as_str().unwrap();
            assert!(mark.starts_with("@firn-mark@needle@/firn-mark@ "));
            let whole = hit["_source"]["message"].as_str().unwrap();
            let expected: String = whole.chars().take(4_000).collect();
            assert_eq!(
                mark.replace("@firn-mark@", "").replace("@/firn-mark@", ""),
                expected.trim_end()
            );
        }
    }
}

#[test]
fn marks_are_the_same_in_the_next_page_and_for_each_tenant() {
    let world = World::new(&[]);
    let body = json!({
        "index": "events", "time": {"from": BEGIN_MS}, "query": {"text": "says"},
        "stages": [{"stage": "sample", "size": 500, "highlight": true}],
    });
    let first = world.alpha.discover(&body);
    let first = first.result("sample")["hits"].as_array().unwrap().clone();
    assert_eq!(first.len(), 500);
    let mut next = body.clone();
    next["stages"][0]["search_after"] = first[499]["sort"].clone();
    let next = world.alpha.discover(&next);
    let next = next.result("sample")["hits"].as_array().unwrap().clone();
    assert_eq!(first.len() + next.len(), EVENTS);
    for hit in first.iter().chain(&next) {
        let mark = hit["highlight"]["message"][0].as_str().unwrap();
        assert_eq!(
            mark.replace("@firn-mark@", "").replace("@/firn-mark@", ""),
            hit["_source"]["message"]
        );
        assert!(mark.starts_with("alpha @firn-mark@says@/firn-mark@"), "{mark}");
    }
}
