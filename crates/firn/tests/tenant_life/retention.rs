use serde_json::{Value, json};

use crate::{ask, count, eventually, put_template, start, write};

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
    // A day ends at midnight: that of two days ago may hold events that are not too old yet.
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
