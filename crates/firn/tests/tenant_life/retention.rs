use std::time::Duration;

use serde_json::{Value, json};

use crate::{ask, count, eventually, fill, put_shared, put_template, start, write};

#[test]
fn a_data_stream_drops_indices_of_days_that_are_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    put_template(client, "day", 1);
    assert_eq!(write(client, (0..5).map(|days| ("acme", days)))["errors"], json!(false));
    let indices = || {
        let stream = ask(client, "GET", "/_data_stream/events-app", Value::Null);
        stream["data_streams"][0]["indices"].as_array().unwrap().len()
    };
    assert_eq!(indices(), 5);
    let lifecycle = "/_data_stream/events-app/_lifecycle";
    assert_eq!(
        ask(client, "GET", lifecycle, Value::Null),
        json!({"data_streams": [{"name": "events-app"}], "global_retention": {}})
    );
    ask(client, "PUT", lifecycle, json!({"data_retention": "2d"}));
    assert_eq!(
        ask(client, "GET", lifecycle, Value::Null)["data_streams"][0]["lifecycle"],
        json!({
            "enabled": true, "data_retention": "2d", "effective_retention": "2d",
            "retention_determined_by": "data_stream_configuration",
        })
    );
    // A day ends at midnight: the index of two days ago may contain events that are not expired yet.
    eventually("dropping of old indices", || indices() == 3);
    assert_eq!(count(client, "events-app", "acme"), 3);
    ask(client, "DELETE", lifecycle, Value::Null);
    let stream = ask(client, "GET", "/_data_stream/events-app", Value::Null);
    assert_eq!(stream["data_streams"][0]["lifecycle"], Value::Null);

    let refused = client
        .json("PUT", lifecycle, &json!({"data_retention": "soon"}))
        .unwrap();
    assert_eq!(refused.status, 400);
    let missing = client
        .json("PUT", "/_data_stream/nothing/_lifecycle", &json!({}))
        .unwrap();
    assert_eq!(missing.status, 404);
}

#[test]
fn a_closed_index_makes_no_tenant_come_more_than_once_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    put_shared(client, "open", None);
    put_shared(client, "closed", None);
    put_shared(client, "others", Some("zeta"));
    fill(client, "open", "acme", 3, 5);
    fill(client, "open", "acme", 1, 0);
    fill(client, "closed", "acme", 2, 5);
    ask(client, "POST", "/closed,others/_close", Value::Null);
    ask(client, "PUT", "/_firn/tenants/acme", json!({"retention": "2d"}));
    eventually("removal from what is open", || count(client, "open", "acme") == 1);
    // The retention run is over: equally old events that come later wait for the next one.
    std::thread::sleep(Duration::from_secs(1));
    fill(client, "open", "acme", 1, 5);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(count(client, "open", "acme"), 2);
    // Or until blocked work becomes possible.
    ask(client, "POST", "/closed/_open", Value::Null);
    eventually("removal from what was opened", || {
        count(client, "closed", "acme") == 0 && count(client, "open", "acme") == 1
    });
}
