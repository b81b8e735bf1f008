//! Tests of the documents that queries on terms and texts find, and of their scores.

use std::time::{Duration, Instant};

use firn_model::ErrorKind;
use serde_json::{Value, json};

use super::queries::{check, query_string};
use super::support::{Shard, failure, ids, run, shard};

/// Returns scores by id, in order of ids, rounded to thousandths.
fn scores(shard: &Shard, query: &Value) -> Vec<(String, f32)> {
    let body = json!({"query": query, "sort": ["id"], "track_scores": true});
    let response = run(vec![shard.ready()], &body).unwrap();
    let rounded = |score: Option<f32>| (score.unwrap() * 1000.0).round() / 1000.0;
    let hits = response.hits.iter();
    hits.map(|hit| (hit.id.clone(), rounded(hit.score))).collect()
}

fn refused(query: Value, reason: &str) {
    let error = failure(&json!({"query": query}));
    assert!(error.reason().contains(reason), "{query}: {error}");
}

#[test]
fn regexp() {
    check(&json!({"regexp": {"host.name": "web-[0-9]"}}), "a b");
    check(
        &json!({"regexp": {"host.name": {"value": "WEB-.*", "case_insensitive": true}}}),
        "a b d",
    );
    check(&json!({"regexp": {"message": "bro.+"}}), "a b");
    check(&json!({"regexp": {"host.name": "[a-z]+-<2-7>"}}), "b c");
    check(&json!({"regexp": {"host.name": "~(web.*)"}}), "c d");
    check(&json!({"regexp": {"host.name": ".*1&~(web.*)"}}), "c d");
    check(
        &json!({"regexp": {"host.name": {"value": "web-1@", "flags": "NONE"}}}),
        "",
    );
    check(&json!({"regexp": {"hidden": "[xz]"}}), "a");
    check(&json!({"regexp": {"env": "p.*d"}}), "a b c d e");
    check(&json!({"regexp": {"_index": "te.t"}}), "a b c d e");
    check(&json!({"regexp": {"unmapped": ".*"}}), "");
    refused(
        json!({"regexp": {"status": "2.*"}}),
        "Can only use regexp queries on keyword and text fields - not on [status] which is of type [integer]",
    );
    refused(json!({"regexp": {"host.ip": "1.*"}}), "which is of type [ip]");
    refused(json!({"regexp": {"host.name": "(a"}}), "expected ')'");
    refused(
        json!({"regexp": {"host.name": "((((a{100}){100}){100}){100})"}}),
        "failed to create query",
    );
}

#[test]
fn fuzzy() {
    check(&json!({"fuzzy": {"message": "browm"}}), "a b");
    check(&json!({"fuzzy": {"message": "borwn"}}), "a b");
    check(
        &json!({"fuzzy": {"message": {"value": "borwn", "transpositions": false, "fuzziness": 1}}}),
        "",
    );
    check(&json!({"fuzzy": {"message": {"value": "fix", "fuzziness": 0}}}), "");
    check(
        &json!({"fuzzy": {"message": {"value": "fix", "fuzziness": 1}}}),
        "a b c",
    );
    check(
        &json!({"fuzzy": {"message": {"value": "xox", "fuzziness": 1, "prefix_length": 1}}}),
        "",
    );
    check(
        &json!({"fuzzy": {"message": {"value": "fixx", "fuzziness": 2, "prefix_length": 1}}}),
        "a b c",
    );
    check(&json!({"fuzzy": {"host.name": "web-3"}}), "a b");
    check(
        &json!({"fuzzy": {"host.name": {"value": "web-3", "max_expansions": 1}}}),
        "a",
    );
    check(
        &json!({"fuzzy": {"host.name": {"value": "web-3", "rewrite": "constant_score"}}}),
        "a b",
    );
    check(&json!({"fuzzy": {"env": "prud"}}), "a b c d e");
    check(&json!({"fuzzy": {"unmapped": "x"}}), "");
    refused(
        json!({"fuzzy": {"status": "200"}}),
        "Can only use fuzzy queries on keyword and text fields - not on [status] which is of type [integer]",
    );
    refused(
        json!({"fuzzy": {"message": "x".repeat(256)}}),
        "a fuzzy word may have at most [255] characters, got [256]",
    );
    refused(json!({"fuzzy": {"hidden": "xxx"}}), "since it is not indexed");
}

#[test]
fn nearer_terms_score_more() {
    let mut shard = Shard::new(&json!({"properties": {"id": {"type": "keyword"}, "word": {"type": "keyword"}}}));
    let documents: Vec<Value> = ["kitten", "mitten", "smitten", "kitchen", "dog"]
        .iter()
        .map(|word| json!({"id": word, "word": word}))
        .collect();
    shard.segment(&documents[..2], &[]).segment(&documents[2..], &[]);
    let of = |query: Value| {
        let response = run(vec![shard.ready()], &json!({"query": query})).unwrap();
        ids(&response)
    };
    assert_eq!(
        of(json!({"fuzzy": {"word": "kitten"}})),
        "kitten mitten smitten kitchen"
    );
    let two = json!({"fuzzy": {"word": {"value": "kitten", "max_expansions": 2}}});
    assert_eq!(of(two), "kitten mitten");
    let boost = json!({"fuzzy": {"word": {"value": "kitten", "rewrite": "top_terms_boost_9"}}});
    assert_eq!(
        scores(&shard, &boost),
        [
            ("kitchen", 0.667),
            ("kitten", 1.0),
            ("mitten", 0.833),
            ("smitten", 0.667)
        ]
        .map(|(id, score)| (id.to_owned(), score))
    );
    // All terms have the document frequency of the most frequent one: one of five documents.
    let idf = (1.0_f32 + (5.0 - 1.0 + 0.5) / 1.5).ln();
    let blended = scores(&shard, &json!({"fuzzy": {"word": "kitten"}}));
    assert_eq!(blended[1].1, (idf * 1000.0).round() / 1000.0);
}

#[test]
fn rewrites() {
    let mut shard = Shard::new(&json!({"properties": {"id": {"type": "keyword"}, "word": {"type": "keyword"}}}));
    let words = ["aa", "ab", "ab", "ac", "b"];
    let documents: Vec<Value> = (0..5).map(|n| json!({"id": n.to_string(), "word": words[n]})).collect();
    shard.segment(&documents[..2], &[]).segment(&documents[2..], &[]);
    let found = |query: &str, rewrite: &str| {
        let pattern = if query == "prefix" { "a" } else { "a.*" };
        let query = json!({query: {"word": {"value": pattern, "rewrite": rewrite, "boost": 2}}});
        scores(&shard, &query)
    };
    let idf = |frequency: f32| {
        let idf = 2.0 * (1.0 + (5.0 - frequency + 0.5) / (frequency + 0.5)).ln();
        (idf * 1000.0).round() / 1000.0
    };
    let all = |a: f32, b: f32| [("0", a), ("1", b), ("2", b), ("3", a)].map(|(id, score)| (id.to_owned(), score));
    for query in ["prefix", "regexp"] {
        assert_eq!(found(query, "constant_score"), all(2.0, 2.0));
        assert_eq!(found(query, "scoring_boolean"), all(idf(1.0), idf(2.0)));
        assert_eq!(found(query, "top_terms_2"), all(idf(1.0), idf(2.0))[..3]);
        assert_eq!(found(query, "top_terms_boost_2"), all(2.0, 2.0)[..3]);
        assert_eq!(found(query, "top_terms_blended_freqs_5"), all(idf(2.0), idf(2.0)));
    }
}

#[test]
fn too_many_terms_to_score_are_refused() {
    let mut shard = Shard::new(&json!({"properties": {"word": {"type": "keyword"}}}));
    let documents: Vec<Value> = (0..1100).map(|n| json!({"word": format!("w{n}")})).collect();
    shard.segment(&documents, &[]);
    let scored = json!({"query": {"prefix": {"word": {"value": "w", "rewrite": "scoring_boolean"}}}});
    let error = run(vec![shard.ready()], &scored).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IllegalArgument);
    assert!(error.reason().contains("maxClauseCount is set to 1024"), "{error}");
    let constant = json!({"query": {"prefix": {"word": "w"}}, "size": 0, "track_total_hits": true});
    assert_eq!(run(vec![shard.ready()], &constant).unwrap().total.unwrap().value, 1100);
}

#[test]
fn the_best_of_several_scores() {
    let shard = shard();
    let fox = json!({"constant_score": {"filter": {"match": {"message": "fox"}}, "boost": 2}});
    let brown = json!({"constant_score": {"filter": {"match": {"message": "brown"}}, "boost": 3}});
    let either = |tie_breaker: f32| json!({"dis_max": {"queries": [fox, brown], "tie_breaker": tie_breaker}});
    check(&either(0.0), "a b c");
    let expect = |a: f32| [("a", a), ("b", a), ("c", 2.0)].map(|(id, score)| (id.to_owned(), score));
    assert_eq!(scores(&shard, &either(0.0)), expect(3.0));
    assert_eq!(scores(&shard, &either(0.5)), expect(4.0));
    assert_eq!(scores(&shard, &either(1.0)), expect(5.0));
}

#[test]
fn negative_matches_score_less() {
    let shard = shard();
    let boosting = json!({"boosting": {
        "positive": {"constant_score": {"filter": {"match": {"message": "fox"}}, "boost": 4}},
        "negative": {"match_phrase": {"message": "brown fox"}},
        "negative_boost": 0.25, "boost": 2
    }});
    check(&boosting, "a b c");
    let expect = [("a", 2.0), ("b", 8.0), ("c", 8.0)].map(|(id, score)| (id.to_owned(), score));
    assert_eq!(scores(&shard, &boosting), expect);
}

#[test]
fn words_of_match_may_be_fuzzy() {
    check(
        &json!({"match": {"message": {"query": "quik", "fuzziness": "AUTO"}}}),
        "a",
    );
    check(&json!({"match": {"message": "quik"}}), "");
    check(
        &json!({"match": {"message": {"query": "quik dgos", "fuzziness": 1, "operator": "and"}}}),
        "",
    );
    check(
        &json!({"match": {"host.name": {"query": "web-3", "fuzziness": 1}}}),
        "a b",
    );
    check(
        &json!({"match": {"host.name": {"query": "web-1 db-2", "analyzer": "whitespace"}}}),
        "a c",
    );
    check(
        &json!({"match": {"message": {"query": "FOX", "analyzer": "whitespace"}}}),
        "",
    );
    check(
        &json!({"match": {"message": {"query": "fox", "minimum_should_match": 2}}}),
        "a b c",
    );
    refused(
        json!({"match": {"host.name": {"query": "a b", "analyzer": "whitespace", "fuzziness": 1}}, "x": 1}),
        "malformed query",
    );
}

#[test]
fn phrase_prefixes() {
    check(&json!({"match_phrase_prefix": {"message": "quick bro"}}), "a");
    check(&json!({"match_phrase_prefix": {"message": "the bro"}}), "b");
    check(&json!({"match_phrase_prefix": {"message": "br"}}), "a b");
    check(
        &json!({"match_phrase_prefix": {"message": {"query": "quick f", "slop": 1}}}),
        "a",
    );
    check(&json!({"match_phrase_prefix": {"message": "quick f"}}), "");
    check(
        &json!({"match_phrase_prefix": {"message": {"query": "", "zero_terms_query": "all"}}}),
        "a b c d e",
    );
    refused(
        json!({"match_phrase_prefix": {"host.name": "web"}}),
        "Can only use phrase prefix queries on text fields - not on [host.name] which is of type [keyword]",
    );
    check(&json!({"match_bool_prefix": {"message": "lazy br"}}), "a b");
    check(
        &json!({"match_bool_prefix": {"message": {"query": "lazy br", "operator": "and"}}}),
        "b",
    );
    check(&json!({"match_bool_prefix": {"host.name": "web"}}), "a b");
    check(&json!({"match_bool_prefix": {"status": 404}}), "b");
}

#[test]
fn several_fields() {
    let multi = |more: Value| {
        let mut body = json!({"query": "web-1 quick"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"multi_match": body})
    };
    check(&multi(json!({"fields": ["message", "host.name"]})), "a");
    check(&multi(json!({"query": "web-2", "fields": ["host.*"]})), "b");
    check(&multi(json!({"query": "200"})), "a");
    check(
        &multi(json!({"query": "fox", "fields": ["mess*"], "type": "most_fields"})),
        "a b c",
    );
    check(
        &multi(json!({"query": "brown fox", "fields": ["message"], "type": "phrase"})),
        "a",
    );
    check(
        &multi(json!({"query": "brown f", "fields": ["message"], "type": "phrase_prefix"})),
        "a",
    );
    check(
        &multi(json!({"query": "lazy br", "fields": ["message"], "type": "bool_prefix"})),
        "a b",
    );
    check(
        &multi(json!({"query": "quik", "fields": ["message"], "fuzziness": 1})),
        "a",
    );
    refused(
        multi(json!({"query": "x", "fields": ["status", "message"], "type": "phrase_prefix"})),
        "Can only use phrase prefix queries on text fields",
    );
    check(
        &multi(json!({"query": "brown f", "fields": ["message", "status"], "type": "phrase_prefix", "lenient": true})),
        "a",
    );
}

#[test]
fn fields_as_if_they_were_one() {
    let mapping = json!({"properties": {
        "id": {"type": "keyword"}, "first": {"type": "text"}, "last": {"type": "text"}, "nick": {"type": "keyword"}
    }});
    let mut shard = Shard::new(&mapping);
    let documents = [
        json!({"id": "a", "first": "will", "last": "smith"}),
        json!({"id": "b", "first": "smith", "last": "jones"}),
        json!({"id": "c", "first": "john", "last": "will", "nick": "will smith"}),
    ];
    shard.segment(&documents[..1], &[]).segment(&documents[1..], &[]);
    let of = |kind: &str, operator: &str| {
        let query = json!({"multi_match": {
            "query": "will smith", "fields": ["first", "last", "nick"], "type": kind, "operator": operator
        }});
        let response = run(vec![shard.ready()], &json!({"query": query, "sort": ["id"]})).unwrap();
        ids(&response)
    };
    assert_eq!(of("cross_fields", "and"), "a c");
    assert_eq!(of("best_fields", "and"), "c");
    assert_eq!(of("cross_fields", "or"), "a b c");
    // Blended: `smith` has the same document frequency in both fields.
    let query = json!({"multi_match": {"query": "smith", "fields": ["first", "last"], "type": "cross_fields"}});
    let scores = scores(&shard, &query);
    assert_eq!(scores[0].1, scores[1].1);
}

#[test]
fn simple_query_strings() {
    let simple = |query: &str, more: Value, expect: &str| {
        let mut body = json!({"query": query, "fields": ["message"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check(&json!({"simple_query_string": body}), expect);
    };
    simple("fox", json!({}), "a b c");
    simple("fox + brown", json!({}), "a b");
    simple("fox + -brown", json!({}), "c");
    simple("quick | lazy", json!({}), "a b");
    simple("\"brown fox\"", json!({}), "a");
    simple("\"fox brown\"~1", json!({}), "b");
    simple("bro*", json!({}), "a b");
    simple("quik~1", json!({}), "a");
    simple("(quick | lazy) + fox", json!({}), "a b");
    simple("*", json!({}), "a b c d e");
    simple("", json!({}), "");
    simple("quick dogs", json!({"default_operator": "and"}), "");
    simple("quick brown fox", json!({"minimum_should_match": 3}), "a");
    simple("AND OR (", json!({}), "b");
    simple("web-2 fox", json!({"fields": ["host.name", "message"]}), "a b c");
}

#[test]
fn parameters_of_query_string() {
    let string = |query: &str, more: Value, expect: &str| {
        let mut body = json!({"query": query, "default_field": "message"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check(&json!({"query_string": body}), expect);
    };
    string("quick brown fox", json!({"minimum_should_match": 2}), "a b");
    string("quick OR brown OR fox", json!({"minimum_should_match": "100%"}), "a");
    string("\"fox brown\"", json!({"phrase_slop": 1}), "b");
    string("FOX", json!({"analyzer": "whitespace"}), "");
    string("FOX \"FOX\"", json!({"quote_analyzer": "whitespace"}), "a b c");
    string("quickk~", json!({"fuzziness": 0}), "");
    string("brown fox", json!({"type": "phrase"}), "a");
    string("brown f", json!({"type": "phrase_prefix"}), "a");
    string("(brown)", json!({"escape": true}), "a b");
    string("bro*", json!({"rewrite": "top_terms_1"}), "a b");
    string("\"fox\"", json!({"quote_field_suffix": ".raw"}), "c");
    query_string("host.name:/WEB.*/ OR lazzy~1", "b d");
}

#[test]
fn a_word_in_too_many_places_is_refused() {
    let properties: serde_json::Map<String, Value> =
        (0..100).map(|n| (format!("f{n}"), json!({"type": "text"}))).collect();
    let shard = Shard::new(&json!({"properties": properties}));
    let many = "word ".repeat(5_000);
    for query in [
        json!({"query_string": {"query": many}}),
        json!({"multi_match": {"query": many}}),
        json!({"multi_match": {"query": many, "type": "cross_fields"}}),
        json!({"simple_query_string": {"query": many}}),
    ] {
        let error = run(vec![shard.ready()], &json!({"query": query})).unwrap_err();
        assert!(error.reason().contains("too many nested clauses"), "{error}");
    }
}

#[test]
fn a_sloppy_phrase_finds_the_same_with_and_without_scores() {
    const WORDS: [&str; 4] = ["aa", "bb", "cc", "dd"];
    for seed in 1..=5u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % end
        };
        let mut words = |count: u64| {
            let words: Vec<&str> = (0..count).map(|_| WORDS[below(4) as usize]).collect();
            words.join(" ")
        };
        let mut documents = |from: usize| -> Vec<Value> {
            let document = |id: usize| json!({"id": format!("{id:03}"), "message": words(2 + id as u64 % 9)});
            (from..from + 40).map(document).collect()
        };
        let mut shard = Shard::new(&json!({"properties": {"id": {"type": "keyword"}, "message": {"type": "text"}}}));
        shard.segment(&documents(0), &[3]).segment(&documents(40), &[]);
        for phrase in (2..14).map(|number| words(2 + number % 3)) {
            for slop in 1..5 {
                let phrase = json!({"match_phrase": {"message": {"query": phrase, "slop": slop}}});
                let find = |query: &Value, more: Value| {
                    let mut body = json!({"query": query, "size": 100, "track_total_hits": true});
                    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                    let response = run(vec![shard.ready()], &body).unwrap();
                    let mut ids: Vec<String> = response.hits.iter().map(|hit| hit.id.clone()).collect();
                    ids.sort_unstable();
                    (ids, response.total.unwrap().value)
                };
                let (scored, total) = find(&phrase, json!({}));
                let what = format!("seed {seed}: {phrase}");
                assert_eq!(scored.len() as u64, total, "{what}");
                let filtered = json!({"bool": {"filter": [phrase]}});
                for (query, more) in [(&filtered, json!({})), (&phrase, json!({"sort": ["id"]}))] {
                    assert_eq!(find(query, more), (scored.clone(), total), "{what}");
                }
                assert_eq!(find(&phrase, json!({"size": 0})).1, total, "{what}");
                let missed = json!({"bool": {"must_not": [phrase]}});
                assert_eq!(find(&missed, json!({"size": 0})).1, 79 - total, "{what}");
            }
        }
    }
}

/// A phrase of many words against a much longer text; earlier results are retained.
#[test]
fn a_timeout_ends_a_search_in_the_middle_of_a_phrase() {
    let mut shard = Shard::new(&json!({"properties": {"id": {"type": "keyword"}, "message": {"type": "text"}}}));
    let short = json!({"id": "short", "message": "aa bb ".repeat(200)});
    // At every position, the words are too far apart.
    let long = json!({"id": "long", "message": "aa cc bb ".repeat(100_000)});
    shard.segment(&[short], &[]).segment(&[long.clone(), long], &[]);
    let phrase = json!({"match_phrase": {"message": {"query": "aa bb ".repeat(200), "slop": 3}}});
    for (query, aggs, found) in [
        (phrase.clone(), json!({}), Some("short")),
        (json!({"bool": {"filter": [phrase]}}), json!({}), Some("short")),
        (json!({"bool": {"must_not": [phrase]}}), json!({}), None),
        (json!({"match_all": {}}), json!({"x": {"filter": phrase}}), None),
        (
            json!({"match_all": {}}),
            json!({"x": {"filters": {"filters": {"y": phrase}}}}),
            None,
        ),
    ] {
        let body = json!({"timeout": "600ms", "query": query, "aggs": aggs});
        let started = Instant::now();
        let response = run(vec![shard.ready()], &body).unwrap();
        let what = &body.to_string()[..80];
        assert!(response.timed_out, "{what}");
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{what}: {:?}",
            started.elapsed()
        );
        if let Some(found) = found {
            assert_eq!(ids(&response), found, "{what}");
        }
    }
}

#[test]
fn the_number_of_words_is_limited() {
    let words = |count: usize| json!({"match_phrase": {"message": "aa ".repeat(count)}});
    check(&words(60_000), "");
    refused(words(70_000), "each word of a text is a clause");
    // Each expansion of the last word is a phrase.
    let prefix = |words: usize| json!({"match_phrase_prefix": {"message": "fox ".repeat(words) + "b"}});
    check(&prefix(10_000), "");
    refused(prefix(60_000), "each word of a text is a clause");
}

#[test]
fn a_repeated_word_scores_twice() {
    let shard = shard();
    let score = |query: Value| scores(&shard, &json!({"match": {"message": query}}));
    let once = score(json!("fox"));
    let twice: Vec<_> = once.iter().map(|(id, score)| (id.clone(), score * 2.0)).collect();
    for (found, wanted) in score(json!("fox fox")).into_iter().zip(twice) {
        assert!(
            found.0 == wanted.0 && (found.1 - wanted.1).abs() < 0.002,
            "{found:?} {wanted:?}"
        );
    }
    check(
        &json!({"match": {"message": {"query": "fox fox brown", "operator": "and"}}}),
        "a b",
    );
    // Two words of four are enough, and both may be the same one.
    let half = json!({"query": "fox fox zebra zebra", "minimum_should_match": "50%"});
    check(&json!({"match": {"message": half}}), "a b c");
    check(
        &json!({"match_bool_prefix": {"message": {"query": "fox fox fo", "operator": "and"}}}),
        "a b c",
    );
}

#[test]
fn a_word_repeated_very_often_is_looked_up_once() {
    let mut shard = Shard::new(&json!({"properties": {"message": {"type": "text"}}}));
    let documents = vec![json!({"message": "fox"}); 1500];
    shard.segment(&documents, &[]);
    let started = Instant::now();
    for operator in ["or", "and"] {
        let body = json!({"query": {"match": {"message": {"query": "fox ".repeat(60_000), "operator": operator}}}});
        let response = run(vec![shard.ready()], &body).unwrap();
        assert_eq!(response.total.unwrap().value, 1500);
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

/// Each word is looked up when it is compiled for scoring, and again when it is opened.
#[test]
fn a_timeout_ends_a_search_between_words_of_a_text() {
    let mut shard = Shard::new(&json!({"properties": {"message": {"type": "text"}}}));
    let words: Vec<String> = (0..60_000).map(|number| format!("w{number}")).collect();
    let text = words.join(" ");
    shard.segment(&[json!({"message": text})], &[]);
    let query = json!({"match": {"message": text}});
    for query in [query.clone(), json!({"bool": {"filter": [query]}})] {
        let started = Instant::now();
        let body = json!({"timeout": "300ms", "query": query});
        let response = run(vec![shard.ready()], &body).unwrap();
        assert!(response.timed_out);
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
