//! Tests of highlighting. The expected fragments are the answers of OpenSearch 3.6.0 for the same documents and
//! requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind};
use firn_query::search::{HighlightBudget, IndexTarget, SearchRequest};
use firn_scheduler::Pool;
use serde_json::{Value, json};

use super::support::{LIMITS, NOW_MS, Shard, run, run_request};
use crate::search as search_shards;

const LOG: &str = "Sep  5 12:00:01 host sshd[12345]: Failed password for invalid user admin from 10.0.0.1 port 22 ssh2; \
                   repeated 5 times, the connection was closed by remote host after authentication failure for fox \
                   admin user-name and then some more text follows here without any sentence end at all so that it \
                   becomes long";

fn foxes() -> Shard {
    let mut shard = Shard::new(&json!({"properties": {
        "id": {"type": "keyword"}, "t": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "u": {"type": "text"},
        "k": {"type": "keyword", "ignore_above": 20}, "low": {"type": "keyword", "normalizer": "lowercase"}, "n": {"type": "long"}
    }}));
    shard.segment(
        &[
            json!({"id": "0", "u": "quick", "t": "The quick brown fox. It jumps over the lazy dog! Does the fox jump? \
                   yes, e.g. this fox is quick. Fox\nfox on a new line. version 3.14 fox is out"}),
            json!({
                "id": "1", "t": ["first fox value", "second value", "third fox value with dog's fox"],
                "k": ["foxes", "this fox is longer than twenty", "fo*"]
            }),
            json!({"id": "2", "t": LOG}),
            json!({"id": "3", "low": "FoX", "t": "<b>fox</b> & \"dog's\" / end", "n": 5}),
        ],
        &[],
    );
    shard
}

fn search(query: &Value, highlight: &Value) -> Result<Vec<Value>, Error> {
    let body = json!({"query": query, "highlight": highlight, "_source": false, "sort": ["id"]});
    let response = run(vec![foxes().ready()], &body)?;
    let hits = response.hits.into_iter();
    Ok(hits.map(|hit| json!({hit.id: hit.highlight})).collect())
}

/// Checks the fragments of `t`, by document.
fn check(query: &Value, options: &Value, expected: &[&[&str]]) {
    let found = search(query, &json!({"fields": {"t": options}})).unwrap();
    let expected: Vec<(&str, &[&str])> = ["0", "1", "2", "3"].into_iter().zip(expected.iter().copied()).collect();
    let shown: Vec<Value> = expected.iter().map(|(id, list)| json!({*id: {"t": list}})).collect();
    assert_eq!(json!(found), json!(shown), "{query} {options}");
}

fn fox() -> Value {
    json!({"match": {"t": "fox"}})
}

const TAGGED_LOG: &str = "22 ssh2; repeated 5 times, the connection was closed by remote host after authentication \
                          failure for <em>fox</em>";
const TAGGED_HTML: &str = "<b><em>fox</em></b> & \"dog's\" / end";

#[test]
fn sentences_by_default() {
    check(
        &fox(),
        &json!({}),
        &[
            &[
                "The quick brown <em>fox</em>. It jumps over the lazy dog! Does the <em>fox</em> jump? yes, e.g. this \
                 <em>fox</em> is quick.",
                "<em>Fox</em>\n<em>fox</em> on a new line. version 3.14 <em>fox</em> is out",
            ],
            &[
                "first <em>fox</em> value",
                "third <em>fox</em> value with dog's <em>fox</em>",
            ],
            &[TAGGED_LOG],
            &[TAGGED_HTML],
        ],
    );
}

#[test]
fn fragment_sizes_and_numbers() {
    check(
        &fox(),
        &json!({"fragment_size": 20}),
        &[
            &[
                "The quick brown <em>fox</em>.",
                "Does the <em>fox</em> jump?",
                "yes, e.g. this <em>fox</em> is",
                "<em>Fox</em>\n<em>fox</em> on a new line",
                ". version 3.14 <em>fox</em> is",
            ],
            &[
                "first <em>fox</em> value",
                "third <em>fox</em> value with",
                "dog's <em>fox</em>",
            ],
            &["authentication failure for <em>fox</em>"],
            &["<b><em>fox</em></b> & \"dog's\""],
        ],
    );
    check(
        &fox(),
        &json!({"fragment_size": 20, "number_of_fragments": 2}),
        &[
            &[
                "The quick brown <em>fox</em>.",
                "<em>Fox</em>\n<em>fox</em> on a new line",
            ],
            &["first <em>fox</em> value", "dog's <em>fox</em>"],
            &["authentication failure for <em>fox</em>"],
            &["<b><em>fox</em></b> & \"dog's\""],
        ],
    );
    check(
        &fox(),
        &json!({"fragment_size": 20, "number_of_fragments": 2, "order": "score"}),
        &[
            &[
                "<em>Fox</em>\n<em>fox</em> on a new line",
                "The quick brown <em>fox</em>.",
            ],
            &["dog's <em>fox</em>", "first <em>fox</em> value"],
            &["authentication failure for <em>fox</em>"],
            &["<b><em>fox</em></b> & \"dog's\""],
        ],
    );
    let tagged = LOG.replace("fox", "<em>fox</em>");
    check(
        &fox(),
        &json!({"number_of_fragments": 0}),
        &[
            &[
                "The quick brown <em>fox</em>. It jumps over the lazy dog! Does the <em>fox</em> jump? yes, e.g. this \
                 <em>fox</em> is quick. <em>Fox</em>\n<em>fox</em> on a new line. version 3.14 <em>fox</em> is out",
            ],
            &[
                "first <em>fox</em> value",
                "third <em>fox</em> value with dog's <em>fox</em>",
            ],
            &[&tagged],
            &[TAGGED_HTML],
        ],
    );
    check(
        &fox(),
        &json!({"fragment_size": 0}),
        &[
            &[
                "The quick brown <em>fox</em>.",
                "Does the <em>fox</em> jump?",
                "yes, e.g. this <em>fox</em> is quick.",
                "<em>Fox</em>\n<em>fox</em> on a new line. version 3.14 <em>fox</em> is out",
            ],
            &[
                "first <em>fox</em> value",
                "third <em>fox</em> value with dog's <em>fox</em>",
            ],
            &[&tagged],
            &[TAGGED_HTML],
        ],
    );
    let one = "<em>fox</em>";
    check(
        &fox(),
        &json!({"boundary_scanner": "word"}),
        &[&[one, one, one, "<em>Fox</em>", one], &[one, one, one], &[one], &[one]],
    );
}

#[test]
fn phrases_are_marked_where_they_occur() {
    check(
        &json!({"match_phrase": {"t": "quick brown fox"}}),
        &json!({}),
        &[&[
            "The <em>quick</em> <em>brown</em> <em>fox</em>. It jumps over the lazy dog! Does the fox jump? yes, e.g. \
             this fox is quick.",
        ]],
    );
    check(
        &json!({"match_phrase": {"t": {"query": "fox quick", "slop": 4}}}),
        &json!({}),
        &[&[
            "The <em>quick</em> brown <em>fox</em>. It jumps over the lazy dog! Does the fox jump? yes, e.g. this \
             <em>fox</em> is <em>quick</em>.",
            "<em>Fox</em>\nfox on a new line. version 3.14 fox is out",
        ]],
    );
}

#[test]
fn fields_are_matched_by_name() {
    let query = json!({"query_string": {"query": "fo* \"lazy dog\""}});
    let found = search(&query, &json!({"fields": {"*": {}}})).unwrap();
    let patterns = json!({"k": ["<em>foxes</em>", "<em>fo*</em>"], "t": [
        "first <em>fox</em> value", "third <em>fox</em> value with dog's <em>fox</em>"
    ]});
    assert_eq!(found[1]["1"]["k"], patterns["k"]);
    assert_eq!(found[1]["1"]["t"], patterns["t"]);
    assert_eq!(
        found[0]["0"]["t"][0],
        "The quick brown <em>fox</em>. It jumps over the <em>lazy</em> <em>dog</em>! Does the <em>fox</em> jump? yes, \
         e.g. this <em>fox</em> is quick."
    );
    let on_k = json!({"query_string": {"query": "fo*", "default_field": "k"}});
    assert_eq!(
        search(&on_k, &json!({"fields": {"t": {}, "k": {}}})).unwrap(),
        [json!({"1": {"k": patterns["k"]}})]
    );
    let anywhere = json!({"require_field_match": false, "fields": {"t": {}, "k": {}}});
    assert_eq!(
        search(&on_k, &anywhere).unwrap(),
        [json!({"1": {"t": patterns["t"], "k": patterns["k"]}})]
    );
    let range = json!({"range": {"k": {"gte": "f", "lt": "g"}}});
    assert_eq!(
        search(&range, &json!({"fields": {"k": {}}})).unwrap(),
        [json!({"1": {"k": patterns["k"]}})]
    );
    let normalized = search(&json!({"term": {"low": "fox"}}), &json!({"fields": {"low": {}}})).unwrap();
    assert_eq!(normalized, [json!({"3": {"low": ["<em>fox</em>"]}})]);
    let number = search(&json!({"term": {"n": 5}}), &json!({"fields": {"n": {}, "t": {}}})).unwrap();
    assert_eq!(number, [json!({"3": {}})]);
}

#[test]
fn filters_count_and_exclusions_do_not() {
    let query = json!({"bool": {
        "filter": [fox()], "must_not": [{"match": {"t": "lazy"}}], "should": [{"term": {"t": "third"}}]
    }});
    let found = search(&query, &json!({"fields": {"t": {}}})).unwrap();
    assert_eq!(
        found[0],
        json!({"1": {"t": ["first <em>fox</em> value", "<em>third</em> <em>fox</em> value with dog's <em>fox</em>"]}})
    );
}

#[test]
fn without_a_match() {
    let all = json!({"match_all": {}});
    check(
        &all,
        &json!({"no_match_size": 12}),
        &[
            &["The quick brown"],
            &["first fox value"],
            &["Sep  5 12:00:"],
            &["<b>fox</b> &"],
        ],
    );
    let other = json!({"fields": {"t": {"highlight_query": {"match": {"t": "dog"}}}}});
    assert_eq!(
        search(&all, &other).unwrap()[..2],
        [
            json!({"0": {"t": [
                "It jumps over the lazy <em>dog</em>! Does the fox jump? yes, e.g. this fox is quick."
            ]}}),
            json!({"1": {}})
        ]
    );
}

#[test]
fn encoders_and_tags() {
    let highlight = json!({"encoder": "html", "tags_schema": "styled", "fields": {"t": {}}});
    let found = search(&fox(), &highlight).unwrap();
    assert_eq!(
        found[3]["3"]["t"],
        json!(["&lt;b&gt;<em class=\"hlt1\">fox</em>&lt;&#x2F;b&gt; &amp; &quot;dog&#x27;s&quot; &#x2F; end"])
    );
    let tags = json!({"pre_tags": ["[", "{"], "post_tags": ["]", "}"], "fields": {"t": {}}});
    assert_eq!(
        search(&fox(), &tags).unwrap()[3]["3"]["t"],
        json!(["<b>[fox]</b> & \"dog's\" / end"])
    );
}

#[test]
fn plain() {
    check(
        &fox(),
        &json!({"type": "plain"}),
        &[
            &[
                "The quick brown <em>fox</em>. It jumps over the lazy dog! Does the <em>fox</em> jump? yes, e.g. this \
                 <em>fox</em> is quick. <em>Fox</em>\n<em>fox</em> on a new line. version 3.14 <em>fox</em> is out",
            ],
            &[
                "first <em>fox</em> value",
                "third <em>fox</em> value with dog's <em>fox</em>",
            ],
            &[
                "; repeated 5 times, the connection was closed by remote host after authentication failure for \
               <em>fox</em>",
            ],
            &[TAGGED_HTML],
        ],
    );
    check(
        &fox(),
        &json!({"type": "plain", "fragment_size": 20}),
        &[
            &[
                "The quick brown <em>fox</em>",
                " <em>fox</em> jump? yes, e.g",
                ". this <em>fox</em> is quick",
                ". <em>Fox</em>\n<em>fox</em> on a new line",
                ". version 3.14 <em>fox</em> is out",
            ],
            &[
                "first <em>fox</em> value",
                "third <em>fox</em> value",
                " with dog's <em>fox</em>",
            ],
            &[" authentication failure for <em>fox</em>"],
            &[TAGGED_HTML],
        ],
    );
}

#[test]
fn refusals() {
    let refused = |options: Value, reason: &str| {
        let error = search(&fox(), &json!({"fields": {"t": options}})).unwrap_err();
        assert_eq!(error.reason(), reason, "{options}");
    };
    refused(
        json!({"type": "fvh"}),
        "the field [t] should be indexed with term vector with position offsets to be used with fast vector \
         highlighter",
    );
    refused(
        json!({"boundary_scanner": "chars"}),
        "Invalid boundary scanner type: CHARS",
    );
    let limited = |options: Value| {
        let mut shard = foxes().ready();
        shard.max_analyzed_offset = 20;
        let body = json!({"query": {"ids": {"values": ["1"]}}, "highlight": {"fields": {"t": options}}});
        run(vec![shard], &body).map(|response| json!(response.hits[0].highlight))
    };
    let query = json!({"match": {"t": "fox"}});
    let error = limited(json!({"highlight_query": query})).unwrap_err();
    assert_eq!(
        error.reason(),
        "The length [59] of field [t] in index[test] exceeds the [index.highlight.max_analyzed_offset] limit \
         [20]. To avoid this error, set the query parameter [max_analyzed_offset] to a value less than index setting \
         [20] and this will tolerate long field values by truncating them."
    );
    assert_eq!(
        limited(json!({"highlight_query": query, "max_analyzed_offset": 20})).unwrap(),
        json!({"t": ["first <em>fox</em> value"]})
    );
}

/// Highlights within a budget; without one, the shard rejects such long texts.
fn budgeted(field_chars: usize, spent_max: usize, fields: &Value) -> Vec<Value> {
    let body = json!({
        "query": {"match": {"t": "fox"}}, "sort": ["id"],
        "highlight": {"fields": fields, "number_of_fragments": 0},
    });
    let mut request = SearchRequest::parse(IndexTarget::default(), Some(&body)).unwrap();
    request.shape.highlight.as_mut().unwrap().budget = Some(HighlightBudget { field_chars, spent_max });
    let mut shard = foxes().ready();
    shard.max_analyzed_offset = 20;
    let response = run_request(vec![Ok(shard)], request).unwrap();
    response.hits.into_iter().map(|hit| json!(hit.highlight)).collect()
}

#[test]
fn within_a_budget_hits_are_never_lost() {
    let all = json!({"*": {}});
    // Only the beginning of each field, and only fields that the query is about.
    assert_eq!(
        budgeted(20, 1_000_000, &all),
        [
            json!({"t": ["The quick brown <em>fox</em>."]}),
            json!({"t": ["first <em>fox</em> value"]}),
            json!({}),
            json!({"t": ["<b><em>fox</em></b> & \"dog's\""]}),
        ]
    );
    assert_eq!(
        budgeted(19, 1_000_000, &all)[0],
        json!({"t": ["The quick brown <em>fox</em>"]})
    );
    assert_eq!(budgeted(18, 1_000_000, &all)[0], json!({}));
    // After the budget is spent, later hits have no fragments: 20 characters of the first hit, and its fragment,
    // count.
    for spent_max in [1, 20, 48] {
        let shown = budgeted(20, spent_max, &all);
        assert_eq!(shown[0], json!({"t": ["The quick brown <em>fox</em>."]}));
        assert_eq!(shown[1..], [json!({}), json!({}), json!({})], "{spent_max}");
    }
    assert_eq!(budgeted(20, 0, &all), [json!({}), json!({}), json!({}), json!({})]);
    assert_eq!(budgeted(20, 60, &all)[1], json!({"t": ["first <em>fox</em> value"]}));
}

/// Returns one document of a hundred thousand distinct words.
fn wordy() -> Shard {
    let words: Vec<String> = (0..100_000).map(|word| format!("w{word:05}")).collect();
    let mut shard = Shard::new(&json!({"properties": {"id": {"type": "keyword"}, "t": {"type": "text"}}}));
    shard.segment(&[json!({"id": "0", "t": words.join(" ")})], &[]);
    shard
}

/// Returns a query that takes minutes: each word is tested against each of two hundred patterns.
fn laborious() -> Value {
    let patterns: Vec<Value> = (0..200)
        .map(|number| json!({"wildcard": {"t": {"value": format!("*x{number}*y?")}}}))
        .collect();
    json!({"fields": {"t": {"highlight_query": {"bool": {"should": patterns}}}}})
}

#[test]
fn a_timeout_ends_highlighting() {
    let started = Instant::now();
    let body = json!({"timeout": "1s", "highlight": laborious()});
    let response = run(vec![wordy().ready()], &body).unwrap();
    assert!(response.timed_out);
    assert_eq!(response.hits.len(), 1, "the hit was found in time");
    assert!(response.hits[0].highlight.is_empty(), "part would look like all");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_disconnect_ends_highlighting() {
    let ctx = RequestContext::new();
    let cancel = ctx.cancel.clone();
    let leaving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        cancel.cancel();
    });
    let body = json!({"highlight": laborious()});
    let request = SearchRequest::parse(IndexTarget::default(), Some(&body)).unwrap();
    let pool = Arc::new(Pool::new("test", 2, 100));
    let outcome = search_shards(
        vec![Ok(wordy().ready())],
        Arc::new(request),
        &pool,
        &ctx,
        NOW_MS,
        LIMITS,
    );
    leaving.join().unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn tags_and_names_count_as_memory() {
    let large = "x".repeat(1 << 20);
    let mut shard = Shard::new(&json!({"properties": {"id": {"type": "keyword"}, "t": {"type": "text"}}}));
    let documents: Vec<Value> = (0..100).map(|id| json!({"id": id.to_string(), "t": "fox"})).collect();
    shard.segment(&documents, &[]);
    let outcome = |kind: &str, size: usize| {
        let body = json!({
            "query": {"match": {"t": {"query": "fox", "_name": large}}}, "size": size,
            "highlight": {"type": kind, "pre_tags": [large], "post_tags": [""], "fields": {"t": {}}}
        });
        run(vec![shard.ready()], &body).map(|response| response.hits.len())
    };
    for kind in ["unified", "plain"] {
        assert_eq!(outcome(kind, 5).unwrap(), 5, "{kind}");
        assert_eq!(
            outcome(kind, 100).unwrap_err().kind(),
            ErrorKind::CircuitBreaking,
            "{kind}"
        );
    }
    let named = json!({"query": {"match_all": {"_name": large}}, "size": 100});
    let error = run(vec![shard.ready()], &named).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CircuitBreaking);
    let many = json!({"t": "fox ".repeat(100)});
    let mut shard = Shard::new(&json!({"properties": {"t": {"type": "text"}}}));
    shard.segment(&[many], &[]);
    let one = json!({
        "query": {"match": {"t": "fox"}},
        "highlight": {"pre_tags": [large], "post_tags": [""], "number_of_fragments": 0, "fields": {"t": {}}}
    });
    let error = run(vec![shard.ready()], &one).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CircuitBreaking, "one hit alone");
}
