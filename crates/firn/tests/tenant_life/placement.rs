use firn_testkit::Client;
use serde_json::{Value, json};

use crate::{ask, put_template, start, write};

/// Returns the documents of the large tenant on each of the two shards of an index.
fn large_on(client: &Client, index: &str) -> Vec<u64> {
    let query = json!({"size": 0, "track_total_hits": true, "query": {"term": {"tenant": "large"}}});
    let on = |shard: u32| {
        let path = format!("/{index}/_search?preference=_shards:{shard}");
        ask(client, "POST", &path, query.clone())["hits"]["total"]["value"]
            .as_u64()
            .unwrap()
    };
    vec![on(0), on(1)]
}

#[test]
fn a_proposal_takes_effect_in_the_next_index() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    assert_eq!(client.get("/_firn/placement").unwrap().status, 404);
    let nothing = client.json("POST", "/_firn/placement/_propose", &json!({})).unwrap();
    assert_eq!(nothing.status, 400, "{}", nothing.text());

    put_template(client, "day", 2);
    // One tenant with two thirds of all events, and ten small ones.
    let small: Vec<String> = (0..10).map(|number| format!("small-{number}")).collect();
    let events = || {
        let of_small = small
            .iter()
            .flat_map(|tenant| std::iter::repeat_n((tenant.as_str(), 0), 40));
        std::iter::repeat_n(("large", 0), 800).chain(of_small)
    };
    assert_eq!(write(client, events())["errors"], json!(false));

    let proposal = ask(client, "POST", "/_firn/placement/_propose", json!({}));
    let large = &proposal["moves"][0];
    assert_eq!(large["tenant"], json!("large"), "{proposal}");
    assert_eq!((&large["documents"], &large["to"]), (&json!(800), &json!([0, 1])));
    assert!(
        large["reason"]
            .as_str()
            .unwrap()
            .contains("times what one of 2 shards carries")
    );
    let ratio = |when: &str| proposal[when]["max_over_mean"].as_f64().unwrap();
    assert!(ratio("after") < ratio("before") && ratio("after") < 1.2, "{proposal}");
    assert_eq!(
        client.get("/_firn/placement").unwrap().status,
        404,
        "a proposal changes nothing"
    );

    let applied = ask(client, "POST", "/_firn/placement/_apply", json!({}));
    let placement = ask(client, "GET", "/_firn/placement", Value::Null);
    assert_eq!(applied["placement"], placement);
    assert_eq!(placement, proposal["placement"]);

    // Today's index does not change, the next one has the large tenant on both shards.
    let old = ask(client, "POST", "/events-app/_rollover", json!({}));
    assert_eq!(write(client, events())["errors"], json!(false));
    let before = large_on(client, old["old_index"].as_str().unwrap());
    let after = large_on(client, old["new_index"].as_str().unwrap());
    assert_eq!((before.iter().sum::<u64>(), after.iter().sum::<u64>()), (800, 800));
    assert!(before.contains(&0) && !after.contains(&0), "{before:?} {after:?}");

    node.stop().unwrap();
    let node = start(folder.path());
    assert_eq!(ask(node.client(), "GET", "/_firn/placement", Value::Null), placement);
    let refused = |body: Value| {
        let answer = node.client().json("PUT", "/_firn/placement", &body).unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text());
    };
    refused(json!({"number_of_shards": 2, "tenants": {"a": [2]}}));
    refused(json!({"number_of_shards": 1}));
    ask(node.client(), "DELETE", "/_firn/placement", Value::Null);
    assert_eq!(node.client().get("/_firn/placement").unwrap().status, 404);
}
