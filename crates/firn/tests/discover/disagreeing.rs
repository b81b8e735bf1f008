//! Exact counts although shards return different values as their most frequent ones.

use serde_json::{Value, json};

use crate::{BEGIN_MS, World};

/// Values of the first index: more than a shard returns. `zz` is the last of equal ones there, and so not returned.
const VALUES: usize = 1_100;

/// `zz` has 2 + 29 events, `x` 0 + 30: the sum over the returned values ranks `x` first.
fn write(world: &World) {
    let event = |value: String, number: usize| json!({"@timestamp": BEGIN_MS + number as i64, "value": value});
    for name in ["wide-0", "wide-1"] {
        world.index(name, json!({}), json!({"value": {"type": "keyword"}}));
    }
    let many = (0..2 * VALUES).map(|number| event(format!("v{:04}", number / 2), number));
    world.alpha.write(
        "wide-0",
        many.chain((0..2).map(|number| event("zz".to_owned(), number))),
    );
    let few = (0..29).map(|number| event("zz".to_owned(), number));
    world
        .alpha
        .write("wide-1", few.chain((0..30).map(|number| event("x".to_owned(), number))));
}

#[test]
fn values_that_a_shard_did_not_name_are_counted_again() {
    let world = World::empty(&[]);
    write(&world);
    // The result of one search, which proves that a correction is needed.
    let terms = |shard_size: u64| {
        let terms = json!({"field": "value", "size": 2, "shard_size": shard_size});
        let body = json!({"size": 0, "aggs": {"values": {"terms": terms}}});
        world.alpha.ok("POST", "/wide-*/_search", &body)["aggregations"]["values"].clone()
    };
    let (cut, whole) = (terms(1_000), terms(10_000));
    assert!(cut["doc_count_error_upper_bound"].as_u64() > Some(0), "{cut}");
    assert_eq!(cut["buckets"][0], json!({"key": "x", "doc_count": 30}));
    assert_eq!(whole["buckets"][0], json!({"key": "zz", "doc_count": 31}));

    let result = world
        .alpha
        .stage("wide-*", &json!({"stage": "top_values", "field": "value", "size": 2}));
    let counts: Vec<Value> = (0..2)
        .map(|at| json!({"key": result["values"][at]["value"], "doc_count": result["values"][at]["count"]}))
        .collect();
    assert_eq!(json!(counts), whole["buckets"]);
    assert_eq!(result["other"], whole["sum_other_doc_count"]);
    assert_eq!(
        (&result["exact"], &result["exact_choice"]),
        (&json!(true), &json!(true))
    );
    // Of many values with two events each, the first ones are not defined, but their counts are exact.
    let many = world
        .alpha
        .stage("wide-*", &json!({"stage": "top_values", "field": "value", "size": 50}));
    assert_eq!((&many["exact"], &many["exact_choice"]), (&json!(true), &json!(false)));
    assert_eq!(many["values"][49]["count"], 2);
}

#[test]
fn a_shard_says_which_values_it_has_named() {
    let world = World::empty(&[]);
    write(&world);
    let check = |segments: &str, first: u64| {
        let terms = json!({"field": "value", "size": 3, "shard_size": 1_000, "show_term_doc_count_error": true});
        let body = json!({"size": 0, "aggs": {"values": {"terms": terms}}});
        let found = world.alpha.ok("POST", "/wide-*/_search", &body)["aggregations"]["values"].clone();
        // A value that `wide-0` did not return has at most two events there; `wide-1` returned all its values.
        assert_eq!(found["doc_count_error_upper_bound"], 2, "{segments}");
        let expect = json!([
            {"key": "x", "doc_count": 30, "doc_count_error_upper_bound": 2},
            {"key": "zz", "doc_count": 29, "doc_count_error_upper_bound": 2},
            {"key": "v0000", "doc_count": first, "doc_count_error_upper_bound": 0},
        ]);
        assert_eq!(found["buckets"], expect, "{segments}");
    };
    world
        .operator
        .ok("POST", "/wide-0/_forcemerge?max_num_segments=1", &Value::Null);
    check("one segment", 2);
    world
        .alpha
        .write("wide-0", [json!({"@timestamp": BEGIN_MS, "value": "v0000"})]);
    // Counts of several segments are merged before the shard returns its values.
    check("two segments", 3);
}

#[test]
fn so_are_the_splits_of_the_histogram() {
    let world = World::empty(&[]);
    write(&world);
    let stage = json!({"stage": "histogram", "split_by": "value", "split_values": 2});
    let result = world.alpha.stage("wide-*", &stage);
    assert_eq!(result["splits"], json!(["zz", "x"]));
    assert_eq!(
        (&result["exact"], &result["exact_choice"]),
        (&json!(true), &json!(true))
    );
    let sum = |name: &str| -> u64 {
        let buckets = result["buckets"].as_array().unwrap().iter();
        buckets.map(|bucket| bucket["splits"][name].as_u64().unwrap_or(0)).sum()
    };
    assert_eq!((sum("zz"), sum("x")), (31, 30));
}
