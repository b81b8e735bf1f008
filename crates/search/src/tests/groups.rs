//! Tests of hits by group: `collapse`, `inner_hits` and the aggregation `top_hits`.

use firn_model::ErrorKind;
use firn_query::search::{Hit, SearchResponse, TotalHits};
use serde_json::{Value, json};

use super::support::{Shard, failure, ids, run, shard};

fn logins() -> Shard {
    let mut shard = Shard::new(&json!({"properties": {
        "id": {"type": "keyword"}, "user": {"type": "keyword"}, "code": {"type": "double"}, "n": {"type": "long"},
        "message": {"type": "text"}
    }}));
    shard
        .segment(
            &[
                json!({"id": "a", "user": "ann", "code": 1, "n": 5, "message": "fox"}),
                json!({"id": "b", "user": "bob", "code": 2, "n": 4, "message": "fox fox"}),
                json!({"id": "c", "n": 9, "message": "dog"}),
            ],
            &[],
        )
        .segment(
            &[
                json!({"id": "d", "user": "bob", "code": 1.5, "n": 7, "message": "dog"}),
                json!({"id": "e", "user": "ann", "code": 1.0, "n": 1, "message": "fox dog dog"}),
                json!({"id": "f", "n": 8, "message": "fox"}),
                json!({"id": "g", "user": "cid", "code": 2, "n": 2}),
            ],
            &[],
        );
    shard
}

fn search(body: &Value) -> SearchResponse {
    run(vec![logins().ready()], body).unwrap_or_else(|error| panic!("{body}: {error}"))
}

#[test]
fn collapses_to_the_first_of_each_group() {
    let check = |body: Value, expected: &str| {
        let response = search(&body);
        assert_eq!(ids(&response), expected, "{body}");
        assert_eq!(response.total, Some(TotalHits { value: 7, exact: true }), "{body}");
    };
    check(
        json!({"collapse": {"field": "user"}, "sort": [{"n": "desc"}]}),
        "c d a g",
    );
    check(
        json!({"collapse": {"field": "user"}, "sort": [{"n": "asc"}]}),
        "e g b f",
    );
    check(
        json!({"collapse": {"field": "user"}, "sort": [{"n": "asc"}], "from": 1, "size": 2}),
        "g b",
    );
    // Doubles that one segment stores as integers; documents without a value are one group.
    check(json!({"collapse": {"field": "code"}, "sort": ["n"]}), "e g d f");
    check(json!({"collapse": {"field": "user"}}), "a b c g");
    check(
        json!({"collapse": {"field": "user"}, "sort": ["user"], "search_after": ["ann"]}),
        "b g c",
    );
}

#[test]
fn collapsed_hits_show_their_group() {
    let response = search(&json!({"collapse": {"field": "code"}, "sort": ["id"], "fields": ["n"]}));
    let fields: Vec<Value> = response.hits.iter().map(|hit| json!(hit.fields)).collect();
    assert_eq!(
        fields,
        [
            json!({"n": [5], "code": [1.0]}),
            json!({"n": [4], "code": [2.0]}),
            json!({"n": [9]}),
            json!({"n": [7], "code": [1.5]})
        ]
    );
}

#[test]
fn groups_of_several_shards_are_one() {
    let shards = || vec![logins().ready(), logins().ready()];
    let response = run(
        shards(),
        &json!({"collapse": {"field": "user", "inner_hits": {"name": "all", "size": 0}}, "sort": [{"n": "desc"}]}),
    )
    .unwrap();
    assert_eq!(ids(&response), "c d a g");
    let totals = response.hits.iter().map(|hit| hit.inner_hits[0].1.total.unwrap().value);
    assert_eq!(totals.collect::<Vec<_>>(), [4, 4, 4, 2]);
}

#[test]
fn inner_hits_search_the_group() {
    let inner = |hit: &Hit, number: usize| {
        let (name, page) = &hit.inner_hits[number];
        let ids: Vec<&str> = page.hits.iter().map(|hit| hit.id.as_str()).collect();
        format!("{name} {} {}", page.total.unwrap().value, ids.join(" "))
    };
    let response = search(&json!({
        "query": {"exists": {"field": "message"}}, "post_filter": {"range": {"n": {"lt": 9}}},
        "collapse": {"field": "user", "inner_hits": [
            {"name": "newest", "sort": [{"n": "desc"}], "size": 1, "version": true},
            {"name": "codes", "sort": ["n"], "from": 1, "_source": false, "collapse": {"field": "code"}}
        ]},
        "sort": [{"n": "desc"}]
    }));
    assert_eq!(ids(&response), "f d a");
    assert_eq!(response.total.unwrap().value, 5);
    let seen: Vec<_> = response.hits.iter().map(|hit| (inner(hit, 0), inner(hit, 1))).collect();
    let expected = [
        ("newest 1 f", "codes 1 "),
        ("newest 2 d", "codes 2 d"),
        ("newest 2 a", "codes 2 "),
    ];
    assert_eq!(seen, expected.map(|(one, two)| (one.to_owned(), two.to_owned())));
    let first = &response.hits[0].inner_hits[0].1.hits[0];
    assert_eq!((first.version, &first.sort), (Some(1), &vec![json!(8)]));
    assert!(first.source.is_some() && response.hits[1].inner_hits[1].1.hits[0].source.is_none());
}

#[test]
fn collapsing_fails_like_in_elasticsearch() {
    let refused = |body: Value, reason: &str| {
        let error = failure(&body);
        assert_eq!(
            (error.kind(), error.reason()),
            (ErrorKind::IllegalArgument, reason),
            "{body}"
        );
    };
    for (field, kind) in [
        ("message", "text"),
        ("ok", "boolean"),
        ("host.ip", "ip"),
        ("price", "scaled_float"),
    ] {
        refused(
            json!({"collapse": {"field": field}}),
            &format!("collapse is not supported for the field [{field}] of the type [{kind}]"),
        );
    }
    refused(
        json!({"collapse": {"field": "terms_only"}}),
        "cannot collapse on field `terms_only` without `doc_values`",
    );
    refused(
        json!({"collapse": {"field": "nowhere"}}),
        "no mapping found for `nowhere` in order to collapse on",
    );
    refused(
        json!({"collapse": {"field": "status"}}),
        "failed to collapse, the collapse field must be single valued",
    );
    refused(
        json!({"collapse": {"field": "id"}, "sort": ["size"], "search_after": [1]}),
        "Cannot use [collapse] in conjunction with [search_after] unless the search is sorted on the same field. \
         Multiple sort fields are not allowed.",
    );
}

#[test]
fn top_hits_of_buckets() {
    let response = search(&json!({
        "size": 0, "query": {"match": {"message": "fox"}},
        "aggs": {
            "users": {"terms": {"field": "user", "missing": "noname"}, "aggs": {
                "newest": {"top_hits": {"size": 1, "sort": [{"n": "desc"}], "_source": ["id"], "fields": ["code"], "version": true}},
                "best": {"top_hits": {"size": 2, "_source": false}}
            }},
            "second": {"top_hits": {"from": 1, "size": 1, "sort": [{"n": "asc"}], "track_scores": true, "_source": false}}
        }
    }));
    let aggs = response.aggregations.unwrap();
    let users = aggs["users"]["buckets"].as_array().unwrap();
    let newest: Vec<&Value> = users.iter().map(|bucket| &bucket["newest"]["hits"]).collect();
    assert_eq!(
        *newest[0],
        json!({
            "total": {"value": 2, "relation": "eq"}, "max_score": null,
            "hits": [{
                "_index": "test", "_id": "a", "_version": 1, "_score": null, "_source": {"id": "a"}, "fields": {"code": [1]},
                "sort": [5]
            }]
        })
    );
    assert_eq!(newest[1]["hits"][0]["_id"], "b");
    assert_eq!(newest[2]["hits"][0]["_id"], "f");
    // By score: the same scores as in the query.
    let alone = search(&json!({"query": {"match": {"message": "fox"}}}));
    let shortest = |score: Option<f32>| -> Value { serde_json::from_str(&score.unwrap().to_string()).unwrap() };
    let score = |id: &str| shortest(alone.hits.iter().find(|hit| hit.id == id).unwrap().score);
    let best = &users[0]["best"]["hits"];
    assert_eq!(
        (&best["hits"][0]["_id"], &best["hits"][1]["_id"]),
        (&json!("a"), &json!("e"))
    );
    assert_eq!(
        (&best["max_score"], &best["hits"][0]["_score"]),
        (&score("a"), &score("a"))
    );
    let second = &aggs["second"]["hits"];
    assert_eq!(second["total"]["value"], 4);
    assert_eq!(second["hits"][0]["_id"], "b");
    assert_eq!(second["hits"][0]["_score"], score("b"));
    assert_eq!(second["max_score"], shortest(alone.max_score));
}

#[test]
fn top_hits_do_not_depend_on_the_split() {
    let body = json!({"size": 0, "aggs": {"top": {"top_hits": {"size": 4, "_source": false, "sort": [
        {"code": {"order": "desc", "missing": "_first"}}, {"user": "asc"}, {"n": "desc"}
    ]}}}});
    let ids_of = |response: SearchResponse| {
        let hits = response.aggregations.unwrap()["top"]["hits"]["hits"].clone();
        let ids = hits
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| hit["_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids_of(search(&body)), "c f b g");
    // The same page as hits.
    let mut plain = body["aggs"]["top"]["top_hits"].clone();
    plain["size"] = json!(4);
    assert_eq!(ids(&search(&plain)), "c f b g");
}

#[test]
fn top_hits_are_bounded() {
    let error = failure(&json!({"aggs": {"t": {"top_hits": {"from": 1, "size": 100}}}}));
    assert_eq!(
        error.reason(),
        "Top hits result window is too large, the top hits aggregator [t]'s from + size must be less than or equal \
         to: [100] but was [101]. This limit can be set by changing the [index.max_inner_result_window] index level \
         setting."
    );
    let nothing = run(
        vec![shard().ready()],
        &json!({"query": {"match_none": {}}, "aggs": {"t": {"top_hits": {}}}}),
    );
    assert_eq!(
        *nothing.unwrap().aggregations.unwrap(),
        json!({"t": {"hits": {"total": {"value": 0, "relation": "eq"}, "max_score": null, "hits": []}}})
    );
}
