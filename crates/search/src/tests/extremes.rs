//! Tests of sort keys at their limits: documents without a value next to those with the most extreme value, and
//! blocks that become empty.

use serde_json::{Value, json};

use super::support::{Shard, ids, run};

/// Returns eight documents in two segments; every second document has `value`.
fn with_every_other(kind: &str, value: &Value) -> Shard {
    let mut shard = Shard::new(&json!({"properties": {
        "id": {"type": "keyword"}, "field": {"type": kind}, "uid": {"type": "long"}
    }}));
    for from in [0, 4] {
        let documents: Vec<Value> = (from..from + 4)
            .map(|number| match number % 2 {
                0 => json!({"id": number.to_string(), "uid": number, "field": value}),
                _ => json!({"id": number.to_string(), "uid": number}),
            })
            .collect();
        shard.segment(&documents, &[]);
    }
    shard
}

fn pages(shard: &Shard, sort: &Value, size: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut body = json!({"sort": sort, "size": size});
    for _ in 0..10 {
        let response = run(vec![shard.ready()], &body).unwrap();
        let Some(last) = response.hits.last() else { break };
        body["search_after"] = json!(last.sort);
        found.extend(response.hits.iter().map(|hit| hit.id.clone()));
    }
    found
}

/// As in Elasticsearch, documents without a value tie with those that have the most extreme integer.
#[test]
fn pages_are_complete_if_the_most_extreme_value_is_real() {
    let (least, most) = (json!(i64::MIN), json!(i64::MAX));
    for (kind, values) in [("long", [least, most]), ("unsigned_long", [json!(0), json!(u64::MAX)])] {
        for value in values {
            let shard = with_every_other(kind, &value);
            for order in ["asc", "desc"] {
                for missing in ["_first", "_last"] {
                    let sort = json!([{"field": {"order": order, "missing": missing}}, "uid"]);
                    let all = ids(&run(vec![shard.ready()], &json!({"sort": sort})).unwrap());
                    let all: Vec<&str> = all.split(' ').collect();
                    assert_eq!(all.len(), 8);
                    for size in [1, 3] {
                        assert_eq!(pages(&shard, &sort, size), all, "{kind} {value} {sort} by {size}");
                    }
                }
            }
        }
    }
    let shard = with_every_other("long", &json!(i64::MAX));
    let sort = json!(["field", "uid"]);
    assert_eq!(pages(&shard, &sort, 8).join(" "), "0 1 2 3 4 5 6 7");
}

#[test]
fn equal_scores_sort_an_empty_block() {
    let shard = with_every_other("long", &json!(7));
    let aggs = json!({"most": {"max": {"field": "uid"}}});
    for sort in [
        json!(["_score", "uid"]),
        json!(["uid", "_score"]),
        json!(["_score", "_doc"]),
    ] {
        let body = json!({"sort": sort, "aggs": aggs, "post_filter": {"term": {"id": "noname"}}});
        let response = run(vec![shard.ready()], &body).unwrap();
        assert!(response.hits.is_empty());
        assert_eq!(response.aggregations.as_deref(), Some(&json!({"most": {"value": 7.0}})));
        for count in 1..9 {
            let body = json!({"sort": sort, "terminate_after": count});
            assert!(!run(vec![shard.ready()], &body).unwrap().hits.is_empty());
        }
    }
}
