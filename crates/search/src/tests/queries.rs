//! Tests of the documents that each query finds.

use firn_model::ErrorKind;
use serde_json::{Value, json};

use super::support::{Shard, failure, ids, mapping, run, shard};

/// Checks the ids, in order of `id`; the count must agree, with and without hits.
pub(super) fn check(query: &Value, expect: &str) {
    let body = json!({"query": query, "sort": ["id"], "track_total_hits": true});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(ids(&response), expect, "{query}");
    let count = expect.split_whitespace().count() as u64;
    assert_eq!(response.total.unwrap().value, count, "{query}");
    let body = json!({"query": query, "size": 0, "track_total_hits": true});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(response.total.unwrap().value, count, "count of {query}");
    // Scoring uses other code to find the same documents.
    let body = json!({"query": {"bool": {"must": [query]}}, "track_total_hits": true});
    let response = run(vec![shard().ready()], &body).unwrap();
    let mut found: Vec<String> = response.hits.iter().map(|hit| hit.id.clone()).collect();
    found.sort_unstable();
    assert_eq!(found.join(" "), expect, "scored {query}");
    let negated = json!({"query": {"bool": {"must_not": [query]}}, "size": 0, "track_total_hits": true});
    let response = run(vec![shard().ready()], &negated).unwrap();
    assert_eq!(response.total.unwrap().value, 5 - count, "not {query}");
}

pub(super) fn query_string(text: &str, expect: &str) {
    check(&json!({"query_string": {"query": text}}), expect);
}

#[test]
fn all_and_nothing() {
    check(&json!({"match_all": {}}), "a b c d e");
    check(&json!({"match_none": {}}), "");
    check(&json!({"bool": {}}), "a b c d e");
}

#[test]
fn term_on_strings() {
    check(&json!({"term": {"host.name": "web-1"}}), "a");
    check(
        &json!({"term": {"host.name": {"value": "web-1", "case_insensitive": true}}}),
        "a d",
    );
    check(&json!({"term": {"nickname": "db-2"}}), "c");
    check(&json!({"term": {"lower": "äBc"}}), "a");
    check(&json!({"term": {"message": "fox"}}), "a b c");
    check(&json!({"term": {"message": "Fox"}}), "");
    check(&json!({"term": {"message.raw": "fox"}}), "c");
    check(&json!({"term": {"env": "prod"}}), "a b c d e");
    check(&json!({"term": {"env": "test"}}), "");
    check(&json!({"term": {"labels": "red"}}), "a e");
    check(&json!({"term": {"labels.team": "blue"}}), "b e");
    check(&json!({"term": {"labels.tier.name": "gold"}}), "a");
    check(&json!({"term": {"hidden": "y"}}), "b");
    check(&json!({"term": {"terms_only": "t2"}}), "e");
    check(&json!({"term": {"unmapped": "x"}}), "");
    check(&json!({"term": {"host": "web-1"}}), "");
    check(&json!({"term": {"_index": "test"}}), "a b c d e");
    check(&json!({"term": {"_index": "other"}}), "");
    check(&json!({"term": {"_id": "d"}}), "d");
    check(&json!({"term": {"_ignored": "status"}}), "d");
}

#[test]
fn term_on_numbers() {
    check(&json!({"term": {"status": 200}}), "a");
    check(&json!({"term": {"status": "200"}}), "a");
    check(&json!({"term": {"status": 503}}), "c");
    check(&json!({"term": {"status": 200.5}}), "");
    check(&json!({"term": {"status": 99999999999i64}}), "");
    check(&json!({"term": {"size": 9007199254740993i64}}), "c");
    check(&json!({"term": {"size": 9007199254740992i64}}), "");
    check(&json!({"term": {"size": 10}}), "a e");
    check(&json!({"term": {"big": 18446744073709551615u64}}), "a");
    check(&json!({"term": {"ratio": 3}}), "c");
    check(&json!({"term": {"small": 0.1}}), "a");
    check(&json!({"term": {"price": 9.99}}), "a");
    check(&json!({"term": {"price": "10.0"}}), "b");
    check(&json!({"term": {"ok": true}}), "a c");
    check(&json!({"term": {"ok": "false"}}), "b");
    check(&json!({"term": {"_seq_no": 2}}), "b");
}

#[test]
fn values_that_did_not_fit_are_found_as_text() {
    check(&json!({"term": {"status": "n/a"}}), "d");
    check(&json!({"match": {"status": "N/A"}}), "d");
    query_string("status:\"n/a\"", "d");
    check(&json!({"term": {"status": "nothing"}}), "");
}

#[test]
fn term_on_dates() {
    check(&json!({"term": {"@timestamp": "2024-06-15T10:00:00Z"}}), "a");
    check(&json!({"term": {"@timestamp": "2024-06-15"}}), "a b");
    check(&json!({"term": {"@timestamp": "now/d"}}), "a b");
    check(&json!({"term": {"@timestamp": 1718445600000i64}}), "a");
    // Digits that the text leaves open count, to the nanosecond.
    check(&json!({"term": {"nanos": "2024-06-15T10:00:00Z"}}), "a");
    check(&json!({"term": {"nanos": 1718445600000i64}}), "a");
    check(&json!({"term": {"nanos": "2024-06-15T10:00:00.000Z"}}), "");
    check(&json!({"term": {"nanos": "2024-06-15T10:00:00.000000001Z"}}), "a");
}

#[test]
fn term_on_addresses() {
    check(&json!({"term": {"host.ip": "10.0.0.1"}}), "a e");
    check(&json!({"term": {"host.ip": "10.0.0.0/8"}}), "a b e");
    check(&json!({"term": {"host.ip": "10.0.0.0/24"}}), "a e");
    check(&json!({"term": {"host.ip": "2001:db8::/32"}}), "c");
    check(&json!({"term": {"host.ip": "::/0"}}), "a b c e");
    check(&json!({"terms": {"host.ip": ["192.168.0.0/16", "2001:db8::1"]}}), "c e");
    check(
        &json!({"range": {"host.ip": {"gte": "10.0.0.2", "lt": "11.0.0.0"}}}),
        "b",
    );
}

#[test]
fn terms() {
    check(&json!({"terms": {"host.name": ["web-1", "db-1", "none"]}}), "a c");
    check(&json!({"terms": {"status": [200, "404", 1.5]}}), "a b");
    check(&json!({"terms": {"status": [200, "n/a"]}}), "a d");
    check(&json!({"terms": {"@timestamp": ["2024-06-14", "2024-05-31"]}}), "c e");
    check(&json!({"terms": {"_id": ["a", "e", "zz"]}}), "a e");
    check(&json!({"terms": {"env": ["prod"]}}), "a b c d e");
    check(&json!({"terms": {"message": ["dogs", "time"]}}), "b d");
    check(&json!({"terms": {"unmapped": ["x"]}}), "");
    check(&json!({"terms": {"host.name": []}}), "");
}

#[test]
fn ranges() {
    check(&json!({"range": {"status": {"gte": 201, "lt": 500}}}), "b e");
    check(&json!({"range": {"status": {"gt": 200, "lte": 404}}}), "b e");
    check(&json!({"range": {"status": {"gt": 502}}}), "c");
    check(&json!({"range": {"status": {"gte": 200.5, "lte": "404.9"}}}), "b e");
    check(&json!({"range": {"size": {"gte": 9007199254740993i64}}}), "c");
    check(&json!({"range": {"size": {"gt": 9007199254740993i64}}}), "");
    check(&json!({"range": {"size": {"lt": 0}}}), "b");
    check(&json!({"range": {"big": {"gt": 1}}}), "a");
    check(&json!({"range": {"ratio": {"gt": -1.25, "lte": 3}}}), "a c");
    check(&json!({"range": {"price": {"gte": 9.99, "lt": 10}}}), "a");
    check(&json!({"range": {"price": {"gt": 9.99}}}), "b");
    check(&json!({"range": {"status": {}}}), "a b c e");
    check(&json!({"range": {"status": {"gte": 500, "lte": 100}}}), "");
    check(&json!({"range": {"host.name": {"gte": "db-2", "lt": "web-2"}}}), "a c");
    check(&json!({"range": {"terms_only": {"gt": "t1"}}}), "e");
    check(&json!({"range": {"env": {"gte": "a", "lt": "q"}}}), "a b c d e");
    check(&json!({"range": {"unmapped": {"gte": 1}}}), "");
    let error = failure(&json!({"query": {"range": {"status": {"gte": "abc"}}}}));
    assert_eq!(error.kind(), ErrorKind::QueryShard);
    assert!(error.reason().contains("For input string: \"abc\""), "{error}");
}

#[test]
fn ranges_of_dates() {
    check(
        &json!({"range": {"@timestamp": {"gte": "now-1d", "lte": "now"}}}),
        "a b c",
    );
    check(&json!({"range": {"@timestamp": {"gte": "now/d"}}}), "a b");
    check(&json!({"range": {"@timestamp": {"gt": "2024-05||/M"}}}), "a b c");
    check(
        &json!({"range": {"@timestamp": {"gte": "2024-05", "lte": "2024-05||/M"}}}),
        "e",
    );
    check(&json!({"range": {"@timestamp": {"lt": "2024-06"}}}), "e");
    check(
        &json!({"range": {"@timestamp": {"gte": "15/06/2024", "format": "dd/MM/yyyy"}}}),
        "a b",
    );
    check(
        &json!({"range": {"@timestamp": {"gte": "2024-06-15T00:00:00", "time_zone": "+01:00"}}}),
        "a b c",
    );
    check(&json!({"range": {"nanos": {"gt": "2024-06-15T09:59:59.999Z"}}}), "a");
    check(&json!({"range": {"nanos": {"gt": "2024-06-15T10:00:00.000Z"}}}), "a");
    check(&json!({"range": {"nanos": {"gt": "2024-06-15T10:00:00Z"}}}), "");
}

#[test]
fn exists() {
    check(&json!({"exists": {"field": "host.name"}}), "a b c d");
    check(&json!({"exists": {"field": "host"}}), "a b c d e");
    check(&json!({"exists": {"field": "message"}}), "a b c d");
    check(&json!({"exists": {"field": "@timestamp"}}), "a b c e");
    check(&json!({"exists": {"field": "status"}}), "a b c e");
    check(&json!({"exists": {"field": "terms_only"}}), "a e");
    check(&json!({"exists": {"field": "hidden"}}), "a b");
    check(&json!({"exists": {"field": "place"}}), "a");
    check(&json!({"exists": {"field": "env"}}), "a b c d e");
    check(&json!({"exists": {"field": "labels.tier.name"}}), "a");
    check(&json!({"exists": {"field": "unmapped"}}), "");
    check(&json!({"exists": {"field": "_ignored"}}), "d");
}

#[test]
fn ids_given_and_made() {
    check(&json!({"ids": {"values": ["a", "c", "nope"]}}), "a c");
    check(&json!({"ids": {"values": []}}), "");
}

#[test]
fn full_text() {
    check(&json!({"match": {"message": "Quick DOGS"}}), "a b");
    check(
        &json!({"match": {"message": {"query": "fox brown", "operator": "and"}}}),
        "a b",
    );
    check(
        &json!({"match": {"message": {"query": "fox brown lazy", "minimum_should_match": 2}}}),
        "a b",
    );
    check(
        &json!({"match": {"message": {"query": "fox brown lazy", "minimum_should_match": "100%"}}}),
        "b",
    );
    check(&json!({"match": {"words": "Quick-Fox"}}), "a");
    check(&json!({"match": {"words": "quick-fox"}}), "");
    check(&json!({"match": {"message": "..."}}), "");
    check(
        &json!({"match": {"message": {"query": "", "zero_terms_query": "all"}}}),
        "a b c d e",
    );
    check(&json!({"match": {"host.name": "web-1"}}), "a");
    check(&json!({"match": {"status": 404}}), "b");
    check(&json!({"match_phrase": {"message": "brown fox"}}), "a");
    check(
        &json!({"match_phrase": {"message": {"query": "fox brown", "slop": 1}}}),
        "b",
    );
    // Values of one field have distant positions.
    let mut two = Shard::new(&mapping());
    two.segment(&[json!({"id": "a", "message": ["quick brown", "fox trots"]})], &[]);
    for (slop, expect) in [(0, ""), (50, ""), (99, ""), (100, "a")] {
        let body = json!({"query": {"match_phrase": {"message": {"query": "brown fox", "slop": slop}}}});
        assert_eq!(ids(&run(vec![two.ready()], &body).unwrap()), expect, "{slop}");
    }
    check(&json!({"match_phrase": {"message": "fox"}}), "a b c");
    check(&json!({"match_phrase": {"host.name": "db-2"}}), "c");
}

#[test]
fn booleans() {
    let fox = json!({"term": {"message": "fox"}});
    let ok = json!({"term": {"status": 200}});
    let brown = json!({"term": {"message": "brown"}});
    check(&json!({"bool": {"must": [fox, brown]}}), "a b");
    check(&json!({"bool": {"filter": [fox], "must_not": [ok]}}), "b c");
    check(&json!({"bool": {"must_not": [fox]}}), "d e");
    check(&json!({"bool": {"should": [ok, brown]}}), "a b");
    check(&json!({"bool": {"filter": [fox], "should": [ok]}}), "a b c");
    check(&json!({"bool": {"should": [ok], "minimum_should_match": 0}}), "a");
    check(
        &json!({"bool": {"should": [fox, ok, brown], "minimum_should_match": 2}}),
        "a b",
    );
    check(
        &json!({"bool": {"should": [fox, ok, brown], "minimum_should_match": "-1"}}),
        "a b",
    );
    check(
        &json!({"bool": {"should": [fox, ok, brown], "minimum_should_match": 4}}),
        "",
    );
    check(
        &json!({"bool": {"filter": [fox], "should": [ok, brown], "minimum_should_match": 2}}),
        "a",
    );
    check(
        &json!({"bool": {"should": [{"match_all": {}}, ok], "minimum_should_match": 2}}),
        "a",
    );
    check(&json!({"constant_score": {"filter": fox}}), "a b c");
}

#[test]
fn patterns() {
    check(&json!({"prefix": {"host.name": "web-"}}), "a b");
    check(
        &json!({"prefix": {"host.name": {"value": "WEB-", "case_insensitive": true}}}),
        "a b d",
    );
    check(&json!({"prefix": {"message": "brow"}}), "a b");
    check(&json!({"wildcard": {"host.name": "*-1"}}), "a c d");
    check(&json!({"wildcard": {"host.name": "w?b-?"}}), "a b");
    check(&json!({"wildcard": {"hidden": "*"}}), "a b");
    check(&json!({"wildcard": {"labels.team": "r*"}}), "a e");
    check(&json!({"prefix": {"env": "pr"}}), "a b c d e");
    check(&json!({"wildcard": {"unmapped": "*"}}), "");
    assert_eq!(
        failure(&json!({"query": {"wildcard": {"status": "2*"}}})).kind(),
        ErrorKind::QueryShard
    );
}

#[test]
fn query_strings() {
    query_string("fox", "a b c");
    query_string("fox AND brown", "a b");
    query_string("fox -brown", "c");
    query_string("\"brown fox\"", "a");
    query_string("message:(quick OR lazy)", "a b");
    query_string("host.name:web*", "a b");
    query_string("host.name:/db-[0-9]/", "c");
    query_string("message:browm~1", "a b");
    query_string("status:[200 TO 404]", "a b e");
    query_string("status:>=500", "c");
    query_string("_exists_:terms_only", "a e");
    query_string("@timestamp:[2024-06-15 TO *]", "a b");
    query_string("*", "a b c d e");
    query_string("host.ip:\"10.0.0.0/8\"", "a b e");
    query_string("200", "a");
    query_string("nope", "");
    check(
        &json!({"query_string": {"query": "quick dogs", "default_field": "message", "default_operator": "AND"}}),
        "",
    );
}

#[test]
fn alias_filters_narrow() {
    let mut ready = shard().ready();
    ready.filters = vec![
        firn_query::query::Query::parse(&json!({"term": {"host.name": "web-1"}})).unwrap(),
        firn_query::query::Query::parse(&json!({"term": {"status": 404}})).unwrap(),
    ];
    let response = run(vec![ready], &json!({"query": {"match": {"message": "fox"}}})).unwrap();
    let mut found: Vec<&str> = response.hits.iter().map(|hit| hit.id.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["a", "b"]);
}
