//! Limits on query expansion: a query of `alpha` expands to terms of `alpha` only, so its result does not reveal
//! whether `bravo` has terms with the same prefix.

use firn_testkit::Client;
use serde_json::{Value, json};

use crate::{MARK, world};

/// More terms than a query may expand to.
const TERMS: usize = 1100;

fn write(client: &Client, events: impl Iterator<Item = (String, String)>) {
    let mut body = String::new();
    for (class, message) in events {
        let event = json!({"@timestamp": "2026-02-01T00:00:00Z", "class": class, "message": message});
        body += &format!("{{\"create\":{{\"_index\":\"events\"}}}}\n{event}\n");
    }
    let answer = client.bulk("/_bulk", body.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

/// Returns queries that each find one event of `alpha`, whose terms sort after all of `bravo`'s or are further from the
/// word.
fn questions() -> Vec<Value> {
    let near = format!("{MARK}zzy");
    let mut questions = Vec::new();
    for rewrite in [
        "top_terms_1",
        "top_terms_boost_1",
        "top_terms_blended_freqs_1",
        "scoring_boolean",
    ] {
        for field in ["class", "message"] {
            questions.push(json!({"prefix": {field: {"value": MARK, "rewrite": rewrite}}}));
            questions.push(json!({"wildcard": {field: {"value": format!("{MARK}*"), "rewrite": rewrite}}}));
            questions.push(json!({"regexp": {field: {"value": format!("{MARK}.*"), "rewrite": rewrite}}}));
            let text = format!("{field}:{MARK}*");
            questions.push(json!({"query_string": {"query": text, "rewrite": rewrite}}));
        }
    }
    for expansions in [1, 50] {
        let phrase = json!({"query": MARK, "max_expansions": expansions});
        questions.push(json!({"match_phrase_prefix": {"message": phrase}}));
        let multi =
            json!({"query": MARK, "fields": ["message"], "type": "phrase_prefix", "max_expansions": expansions});
        questions.push(json!({"multi_match": multi}));
    }
    let text = json!({"query": near, "fuzziness": 1, "max_expansions": 1});
    questions.push(json!({"match": {"message": text}}));
    questions.push(json!({"match_bool_prefix": {"message": {"query": format!("{near} nothing"), "fuzziness": 1, "max_expansions": 1}}}));
    questions.push(json!({"multi_match": {"query": near, "fields": ["message"], "fuzziness": 1, "max_expansions": 1}}));
    for field in ["class", "message"] {
        questions.push(json!({"fuzzy": {field: {"value": near, "fuzziness": 1, "max_expansions": 1}}}));
        questions.push(json!({"query_string": {"query": format!("{field}:{near}~1"), "fuzzy_max_expansions": 1}}));
        let simple = json!({"query": format!("{near}~1"), "fields": [field], "fuzzy_max_expansions": 1});
        questions.push(json!({"simple_query_string": simple}));
    }
    questions
}

#[test]
fn terms_of_others_take_no_place() {
    let world = world();
    let (alpha, bravo) = (&world.alpha, &world.bravo);
    // One segment with interleaved events of both tenants.
    let of_bravo = |number: usize| (format!("{MARK}-{number:04}"), format!("{MARK}w{number:04}"));
    write(alpha, [("al".to_owned(), "first".to_owned())].into_iter());
    write(bravo, (0..TERMS).map(of_bravo));
    write(alpha, [(format!("{MARK}zzz"), format!("{MARK}zzz"))].into_iter());
    write(bravo, [(format!("{MARK}zzy"), format!("{MARK}zzy"))].into_iter());
    write(alpha, [("al".to_owned(), "last".to_owned())].into_iter());
    world.operator.ok("POST", "/events/_refresh", &Value::Null);
    for round in ["as written", "merged"] {
        for query in questions() {
            let body = json!({"query": {"bool": {"must": [query]}}});
            let found = alpha.ok("POST", "/events/_search", &body);
            let hits = found["hits"]["hits"].as_array().unwrap();
            assert_eq!(hits.len(), 1, "{round}: {query}: {found}");
            assert_eq!(hits[0]["_source"]["class"], format!("{MARK}zzz"), "{round}: {query}");
            let validation = alpha.ok("POST", "/events/_validate/query?explain=true", &body);
            assert_eq!(validation["valid"], true, "{round}: {query}: {validation}");
            let fields = json!({"index_filter": query});
            let fields = alpha.ok("POST", "/events/_field_caps?fields=class", &fields);
            assert_eq!(fields["indices"].as_array().map(Vec::len), Some(1), "{round}: {query}");
        }
        // All of its own terms count.
        let body = json!({"query": {"prefix": {"class": {"value": MARK, "rewrite": "scoring_boolean"}}}});
        let answer = bravo.json("POST", "/events/_search", &body).unwrap();
        assert_eq!(answer.status, 400, "{round}: {}", answer.text());
        assert!(answer.text().contains("maxClauseCount"), "{}", answer.text());
        world
            .operator
            .ok("POST", "/events/_forcemerge?max_num_segments=1", &Value::Null);
    }
}
