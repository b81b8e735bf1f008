//! Hints for queries with unknown fields.

use serde_json::{Value, json};

use crate::{BEGIN_MS, DiscoverEvents, Party, World};

/// Returns the unknown fields in the hints of an answer.
fn unknown(events: &DiscoverEvents) -> Vec<Value> {
    let hints: Vec<&Value> = events.0.iter().filter(|event| event["event"] == "hints").collect();
    assert!(hints.len() <= 1, "{hints:?}");
    hints
        .first()
        .map_or_else(Vec::new, |hints| hints["unknown_fields"].as_array().unwrap().clone())
}

fn ask(party: &Party, language: &str, text: &str) -> DiscoverEvents {
    party.discover(&json!({"index": "events", "query": {"language": language, "text": text}}))
}

fn misspelled(field: &str, suggestion: &str, corrected: &str) -> Value {
    json!({"field": field, "suggestion": suggestion, "corrected": corrected})
}

#[test]
fn a_misspelled_field_is_reported_with_the_nearest_name() {
    let world = World::new(&[]);
    for (language, text, corrected) in [
        ("kql", "stauts: 200", "status: 200"),
        ("lucene", "stauts:200", "status:200"),
    ] {
        let events = ask(&world.alpha, language, text);
        assert_eq!(events.result("sample")["total"]["value"], 0);
        assert_eq!(unknown(&events), [misspelled("stauts", "status", corrected)]);
        // The first result does not wait for the hints, and the last event is still the end.
        let place = |name: &str| events.0.iter().position(|event| event["event"] == name).unwrap();
        let sample = events
            .0
            .iter()
            .position(|event| event["event"] == "done" && event["stage"] == "sample");
        assert!(sample.unwrap() < place("hints") && place("end") == events.0.len() - 1);
        let events = ask(&world.alpha, language, corrected);
        assert_ne!(events.result("sample")["total"]["value"], 0);
        assert!(unknown(&events).is_empty());
    }
    // Requests for counts only have no page that could show hints.
    let query = json!({"text": "stauts: 200"});
    for stage in [json!({"stage": "sample", "size": 0}), json!({"stage": "histogram"})] {
        let body = json!({"index": "events", "time": {"from": 0}, "query": query, "stages": [stage]});
        assert!(unknown(&world.alpha.discover(&body)).is_empty());
    }
}

#[test]
fn a_name_that_only_another_tenant_has_is_not_suggested() {
    let world = World::new(&[]);
    let event = json!({"@timestamp": BEGIN_MS, "event_class": "web", "salary_band": "x", "status": 200});
    world.bravo.write("events", [event]);
    let text = "salary_bond: x";
    let suggested = |party: &Party| unknown(&ask(party, "kql", text));
    for party in [&world.bravo, &world.operator] {
        let seen = misspelled("salary_bond", "salary_band", "salary_band: x");
        assert_eq!(suggested(party), [seen]);
    }
    let hidden = json!({"field": "salary_bond", "suggestion": null, "corrected": null});
    assert_eq!(suggested(&world.alpha), [hidden]);
    // For a tenant without this field, the right name is unknown too.
    let right = unknown(&ask(&world.alpha, "kql", "salary_band: x"));
    assert_eq!(
        right,
        [json!({"field": "salary_band", "suggestion": null, "corrected": null})]
    );
}
