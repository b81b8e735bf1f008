//! Ingest pipelines are the operator's: tenants' writes run through them, and stay the tenants' own with every pipeline.

use serde_json::{Value, json};

use super::{MARK, world};

#[test]
fn a_pipeline_does_not_carry_events_to_another_tenant() {
    let world = world();
    let (alpha, bravo, operator) = (&world.alpha, &world.bravo, &world.operator);
    let put = |id: &str, processors: Value| {
        operator.ok(
            "PUT",
            &format!("/_ingest/pipeline/{id}"),
            &json!({"processors": processors}),
        )
    };
    put("steal-field", json!([{"set": {"field": "tenant", "value": "bravo"}}]));
    put(
        "steal-name",
        json!([{"set": {"field": "_index", "value": format!("{MARK}-own")}}]),
    );
    put("plain", json!([{"set": {"field": "class", "value": "al-piped"}}]));

    let count = |client: &firn_testkit::Client, index: &str| {
        let query = json!({"query": {"term": {"class": "al-piped"}}});
        client.ok("POST", &format!("/{index}/_count"), &query)["count"].clone()
    };
    let write = |pipeline: &str| {
        let path = format!("/events/_doc?pipeline={pipeline}&refresh=true");
        let event = json!({"@timestamp": "2026-01-01T00:00:00Z", "tenant": "alpha", "class": "al-piped"});
        alpha.json("POST", &path, &event).unwrap()
    };
    let answer = write("plain");
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!((count(alpha, "events"), count(bravo, "events")), (json!(1), json!(0)));

    // Refused, or stored as alpha's own: never bravo's.
    for pipeline in ["steal-field", "steal-name"] {
        let answer = write(pipeline);
        let bravos = count(bravo, "*");
        assert_eq!(bravos, json!(0), "{pipeline}: {}", answer.text());
    }
    for id in ["steal-field", "steal-name", "plain"] {
        operator.ok("DELETE", &format!("/_ingest/pipeline/{id}"), &Value::Null);
    }
}

#[test]
fn tenants_neither_read_nor_change_pipelines() {
    let world = world();
    let pipeline = json!({"description": MARK, "processors": []});
    world.operator.ok("PUT", "/_ingest/pipeline/hidden", &pipeline);
    let policy = json!({"match": {"indices": "hidden", "match_field": "a", "enrich_fields": "b"}});
    world.operator.ok("PUT", "/_enrich/policy/hidden", &policy);
    let simulated = json!({"pipeline": pipeline, "docs": [{"_source": {}}]});
    for (method, path, body) in [
        ("GET", "/_ingest/pipeline", Value::Null),
        ("GET", "/_ingest/pipeline/hidden", Value::Null),
        ("PUT", "/_ingest/pipeline/mine", pipeline.clone()),
        ("DELETE", "/_ingest/pipeline/hidden", Value::Null),
        ("GET", "/_enrich/policy", Value::Null),
        ("GET", "/_enrich/policy/hidden", Value::Null),
        ("PUT", "/_enrich/policy/mine", policy),
        ("DELETE", "/_enrich/policy/hidden", Value::Null),
        ("POST", "/_enrich/policy/hidden/_execute", Value::Null),
        ("GET", "/_enrich/_stats", Value::Null),
        ("POST", "/_ingest/pipeline/_simulate", simulated.clone()),
        ("POST", "/_ingest/pipeline/hidden/_simulate", simulated),
    ] {
        let answer = match &body {
            Value::Null => world.alpha.send(method, path, None, b"").unwrap(),
            body => world.alpha.json(method, path, body).unwrap(),
        };
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        assert!(!answer.text().contains(MARK), "{method} {path}");
    }
    world.operator.ok("DELETE", "/_ingest/pipeline/hidden", &Value::Null);
    world.operator.ok("DELETE", "/_enrich/policy/hidden", &Value::Null);
}
