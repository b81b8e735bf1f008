//! Texts with the queries they translate to, and properties of all texts.

use firn_model::mapping::Mapping;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::lexer::lex;
use super::syntax::expected_after;
use super::*;
use crate::query::test_support::{check_fields, check_refused};

fn mapping() -> Mapping {
    Mapping::parse(&json!({"properties": {
        "host": {"type": "keyword"},
        "message": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        "bytes": {"type": "long"},
        "@timestamp": {"type": "date"},
        "source": {"properties": {"ip": {"type": "ip"}, "name": {"type": "keyword"}}},
    }}))
    .unwrap()
}

fn lowered(body: Json) -> Json {
    let query = Query::parse(&json!({"kql": body})).unwrap_or_else(|error| panic!("{error}"));
    query.without_kql(&mapping()).unwrap().print()
}

/// Checks the translation of a text for an index with the mapping above.
#[track_caller]
fn check(text: &str, expect: Json) {
    let expect = Query::parse(&expect).unwrap().print();
    assert_eq!(lowered(json!({"query": text})), expect, "{text}");
}

/// Checks the error of a text: its byte range and message, with the expected texts.
#[track_caller]
fn check_error(text: &str, at: std::ops::Range<usize>, message: &str) {
    match parse(text) {
        Ok(node) => panic!("{text} was read as {node:?}"),
        Err(error) => assert_eq!((error.at, error.message.as_str()), (at, message), "{text}"),
    }
}

fn term(field: &str, value: &str) -> Json {
    json!({"term": {field: value}})
}

fn any(queries: Json) -> Json {
    json!({"bool": {"should": queries, "minimum_should_match": "1"}})
}

#[test]
fn values_depend_on_the_field_type() {
    check("", json!({"match_all": {}}));
    check(" \n ", json!({"match_all": {}}));
    check("host: web-1", term("host", "web-1"));
    check("host : \"web 1\"", term("host", "web 1"));
    check("host:web 1", term("host", "web 1"));
    check("message: quick  fox", json!({"match": {"message": "quick  fox"}}));
    check(
        "message: \"quick fox\"",
        json!({"match_phrase": {"message": "quick fox"}}),
    );
    check("message.raw: quick fox", term("message.raw", "quick fox"));
    check("bytes: 5", term("bytes", "5"));
    check("source.ip: 10.0.0.0/8", term("source.ip", "10.0.0.0/8"));
    check("unmapped: x", term("unmapped", "x"));
    check(
        "@timestamp: 2024-01",
        json!({"range": {"@timestamp": {"gte": "2024-01", "lte": "2024-01"}}}),
    );
    check("\"host\": x", term("host", "x"));
}

#[test]
fn stars_are_patterns() {
    check("host: web*1", json!({"wildcard": {"host": "web*1"}}));
    check("host: *cmd /c*", json!({"wildcard": {"host": "*cmd /c*"}}));
    check("host: a\\*?*", json!({"wildcard": {"host": "a\\*\\?*"}}));
    check(
        "message: qu* AND* x",
        json!({"query_string": {"query": "qu* AND* x", "fields": ["message"]}}),
    );
    check(
        "message: a-b* \\or c",
        json!({"query_string": {"query": "a\\-b* or c", "fields": ["message"]}}),
    );
    check("host: \"web*\"", term("host", "web*"));
    check("host: *", json!({"exists": {"field": "host"}}));
    check("source.*: *", json!({"exists": {"field": "source.*"}}));
    check("*: *", json!({"match_all": {}}));
    check("*", json!({"match_all": {}}));
    check("not *", json!({"bool": {"must_not": [{"match_all": {}}]}}));
    check(
        "source.*: x",
        any(json!([
            term("source.name", "x"),
            {"multi_match": {"query": "x", "fields": ["source.ip"], "lenient": true}},
        ])),
    );
    check("nothing.*: x", json!({"match_none": {}}));
    check("*: x y", json!({"multi_match": {"query": "x y", "lenient": true}}));
}

#[test]
fn ranges_compare() {
    check("bytes > 5", json!({"range": {"bytes": {"gt": "5"}}}));
    check("bytes>=5", json!({"range": {"bytes": {"gte": "5"}}}));
    check("bytes <\"5\"", json!({"range": {"bytes": {"lt": "5"}}}));
    check(
        "@timestamp <= now-1d/d",
        json!({"range": {"@timestamp": {"lte": "now-1d/d"}}}),
    );
    check(
        "b*s > 5",
        json!({"query_string": {"query": "{\"5\" TO *}", "fields": ["b*s"], "lenient": true}}),
    );
    check_error("bytes > 5*", 8..10, "Expected a value without * to compare with");
}

#[test]
fn and_binds_tighter_than_or() {
    let (a, b, c) = (term("a", "1"), term("b", "2"), term("c", "3"));
    check("a:1 and b:2", json!({"bool": {"must": [a, b]}}));
    check("a:1 OR b:2 And c:3", any(json!([a, {"bool": {"must": [b, c]}}])));
    check(
        "(a:1 or b:2) and c:3",
        json!({"bool": {"must": [any(json!([a, b])), c]}}),
    );
    check(
        "not a:1 and b:2",
        json!({"bool": {"must": [{"bool": {"must_not": [a]}}, b]}}),
    );
    check("not (a:1 or b:2)", json!({"bool": {"must_not": [any(json!([a, b]))]}}));
    check(
        "not not a:1",
        json!({"bool": {"must_not": [{"bool": {"must_not": [a]}}]}}),
    );
    check(
        "a:(1 or \"2\" and not 3*)",
        any(json!([a, {"bool": {"must": [
            term("a", "2"),
            {"bool": {"must_not": [{"wildcard": {"a": "3*"}}]}},
        ]}}])),
    );
    check("a:((1))", a);
}

#[test]
fn values_without_a_field_search_default_fields() {
    check(
        "quick fox",
        json!({"multi_match": {"query": "quick fox", "lenient": true}}),
    );
    check(
        "\"quick fox\"",
        json!({"multi_match": {"query": "quick fox", "type": "phrase", "lenient": true}}),
    );
    check("qu*", json!({"query_string": {"query": "qu*", "lenient": true}}));
    assert_eq!(
        lowered(json!({"query": "x", "default_field": "a*"})),
        json!({"multi_match": {"query": "x", "fields": ["a*"], "lenient": true}})
    );
    assert_eq!(
        lowered(json!({"query": "x*", "default_field": "host", "boost": 2})),
        json!({"bool": {"must": [{"query_string": {"query": "x*", "fields": ["host"], "lenient": true}}], "boost": 2.0}})
    );
}

#[test]
fn options_apply_to_their_fields() {
    let zone = |query: &str| lowered(json!({"query": query, "time_zone": "Europe/Zurich"}));
    assert_eq!(
        zone("@timestamp: 2024-01-01"),
        json!({"range": {"@timestamp": {"gte": "2024-01-01", "lte": "2024-01-01", "time_zone": "Europe/Zurich"}}})
    );
    assert_eq!(
        zone("@timestamp > 2024"),
        json!({"range": {"@timestamp": {"gt": "2024", "time_zone": "Europe/Zurich"}}})
    );
    assert_eq!(zone("bytes > 5"), json!({"range": {"bytes": {"gt": "5"}}}));
    let either = |query: &str| lowered(json!({"query": query, "case_insensitive": true}));
    assert_eq!(
        either("host: A"),
        json!({"term": {"host": {"value": "A", "case_insensitive": true}}})
    );
    assert_eq!(
        either("host: A*"),
        json!({"wildcard": {"host": {"value": "A*", "case_insensitive": true}}})
    );
    assert_eq!(either("message: A"), json!({"match": {"message": {"query": "A"}}}));
    assert_eq!(either("bytes: 1"), json!({"term": {"bytes": {"value": "1"}}}));
}

#[test]
fn escapes_are_characters() {
    check(r#"host: a\:b\(c\)\<\>\{\}\\\*"#, term("host", r"a:b(c)<>{}\*"));
    check(r#"host: "a\"b\\c\d""#, term("host", r#"a"b\c\d"#));
    check(r"host: \and", term("host", "and"));
    check(r"host: x \OR y", term("host", "x OR y"));
    check(r"host: a\u0041\tb", term("host", "aA\tb"));
    check(r"host: \ud83d\ude00", term("host", "😀"));
    check(r#"host: "\u20ac""#, term("host", "€"));
    check("not: x", term("not", "x"));
    check("host: nothing", term("host", "nothing"));
    check("host: cannot open", term("host", "cannot open"));
    check_error(
        r"host: a\b",
        7..9,
        "Expected a character that can be escaped after \\ outside of quotes",
    );
    check_error(r"host: \ud83d", 6..12, "Expected both halves of a surrogate pair");
}

#[test]
fn errors_have_positions() {
    let after = "Expected AND, OR or end of input";
    check_error("a: 1 b: 2", 6..7, &format!("{after} but \":\" found"));
    check_error("a: \"1\" \"2\"", 7..10, &format!("{after} but \"\"2\"\" found"));
    check_error("a: 1)", 4..5, &format!("{after} but \")\" found"));
    check_error("(a: 1", 5..5, "Expected AND, OR or ) but end of input found");
    check_error("a: (1 or )", 9..10, "Expected value, NOT or ( but \")\" found");
    check_error("a: ", 3..3, "Expected value or ( but end of input found");
    check_error("a: > 5", 3..4, "Expected value or ( but \">\" found");
    check_error("a >", 3..3, "Expected value but end of input found");
    check_error(
        "a and",
        5..5,
        "Expected field name, value, NOT or ( but end of input found",
    );
    check_error("and a", 0..3, "Expected field name, value, NOT or ( but \"and\" found");
    check_error("é: \"x", 4..6, "Expected \" at the end of a quoted value");
    check_error(
        "a \"b\"",
        2..5,
        "Expected AND, OR, :, <=, >=, <, > or end of input but \"\"b\"\" found",
    );
    check_error(
        "a: { b: 1 }",
        3..4,
        "Nested queries (field: { … }) are not implemented by firn",
    );
    check_error("}", 0..1, "Expected field name, value, NOT or ( but \"}\" found");
    // The first of two mistakes is reported.
    check_error("a: ) \"x", 3..4, "Expected value or ( but \")\" found");
}

#[test]
fn depth_and_clauses_are_bounded() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    check_error(
        &nested(DEPTH_MAX + 1),
        101..102,
        "Parentheses and NOT nest deeper than 100",
    );
    let negated = format!("{}a", "not ".repeat(DEPTH_MAX + 1));
    check_error(&negated, 404..405, "Parentheses and NOT nest deeper than 100");
    let wide = vec!["a"; crate::query::CLAUSES_MAX + 1].join(" or ");
    assert!(parse(&wide).unwrap_err().message.starts_with("More than 16384 clauses"));
}

#[test]
fn parameters_are_read_and_written() {
    use crate::query::test_support::check;
    let all = json!({"kql": {
        "query": "a: 1", "default_field": "b.*", "time_zone": "+01:00", "case_insensitive": true, "boost": 2.0
    }});
    check(all.clone(), all);
    check(json!({"kql": {"query": ""}}), json!({"kql": {"query": ""}}));
    check(
        json!({"kql": {"query": "x", "default_field": "*", "case_insensitive": false, "time_zone": null, "_name": "n"}}),
        json!({"kql": {"query": "x", "_name": "n"}}),
    );
    check_fields(
        json!({"kql": {"query": "a: 1 and b.*: * or not c > 1"}}),
        &["a", "b.*", "c"],
    );
    check_fields(json!({"kql": {"query": "x"}}), &["*"]);
    check_fields(json!({"kql": {"query": "x", "default_field": "d"}}), &["d"]);
    check_fields(json!({"kql": {"query": "*"}}), &[]);
}

#[test]
fn invalid_parameters_are_refused() {
    check_refused(json!({"kql": {}}), "[kql] must be provided with a [query]");
    check_refused(
        json!({"kql": {"query": "x", "fields": []}}),
        "[kql] query does not support [fields]",
    );
    check_refused(
        json!({"kql": {"query": "a: 1\nb: 2"}}),
        "line 2:2: Expected AND, OR or end of input but \":\" found",
    );
    assert!(Query::parse(&json!({"kql": {"query": "x", "time_zone": "Nowhere"}})).is_err());
    let error = Query::parse(&json!({"kql": {"query": "a: 😀 b:"}})).unwrap_err();
    let details = Json::Object(error.details().unwrap().clone());
    let expect = json!({"position": {"start": 7, "end": 8}, "expected": ["AND", "OR", "end of input"]});
    assert_eq!(details, expect);
}

#[test]
fn kql_within_other_queries_is_replaced() {
    let kql = json!({"kql": {"query": "host: x"}});
    let wrap = |inner: &Json| {
        json!({"bool": {
            "must": [{"constant_score": {"filter": inner}}],
            "filter": [{"dis_max": {"queries": [inner]}}],
            "must_not": [{"boosting": {"positive": inner, "negative": inner, "negative_boost": 0.5}}],
            "should": [{"match_all": {}}],
        }})
    };
    let query = Query::parse(&wrap(&kql)).unwrap();
    let expect = Query::parse(&wrap(&term("host", "x"))).unwrap();
    assert_eq!(*query.without_kql(&mapping()).unwrap(), expect);
    assert!(matches!(
        expect.without_kql(&mapping()).unwrap(),
        std::borrow::Cow::Borrowed(_)
    ));
}

#[test]
fn expected_continuations() {
    let check = |text: &str, expect: &[Expected], field: Option<&str>| {
        let field = field.map(|name| Pattern(vec![name.to_owned()]));
        assert_eq!(expected_after(text), Some((expect.to_vec(), field)), "{text}");
    };
    use Expected::*;
    check("", &[Field, Value, Not, Open], None);
    check("a: 1 and ", &[Field, Value, Not, Open], None);
    check("a ", &[And, Or, Colon, Comparison], None);
    check("a: 1 ", &[And, Or], None);
    check("(a: 1 ", &[And, Or, Close], None);
    check("host:", &[Value, Open], Some("host"));
    check("host: (x or ", &[Value, Not, Open], Some("host"));
    check("host >", &[Value], Some("host"));
    for mistaken in ["a: ) ", "a: \"x", "a: 1)"] {
        assert_eq!(expected_after(mistaken), None, "{mistaken}");
    }
}

fn letters() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_.@-]{1,6}",
        "\\PC{1,6}",
        prop::sample::select(vec![
            "and", "OR", "not", "a or b", "\\", "\"", "a  b", "\t", " a", "n\n", "é😀", "\u{a0}"
        ])
        .prop_map(str::to_owned),
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let starred = prop::collection::vec(prop_oneof![Just(String::new()), letters()], 2..4);
    prop_oneof![
        letters().prop_map(|text| Pattern(vec![text])),
        starred.prop_map(Pattern)
    ]
}

fn name() -> impl Strategy<Value = Pattern> {
    prop_oneof![pattern(), Just(Pattern(vec![String::new()]))]
}

fn node() -> impl Strategy<Value = Node> {
    let value = prop_oneof![
        pattern().prop_map(Value::Words),
        "\\PC{0,8}".prop_map(Value::Phrase),
        letters().prop_map(Value::Phrase),
    ];
    let comparison = prop::sample::select(vec![
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ]);
    let leaf = prop_oneof![
        (prop::option::of(name()), value).prop_map(|(field, value)| Node::Is { field, value }),
        (name(), comparison, "\\PC{0,8}").prop_map(|(field, comparison, value)| Node::Range {
            field,
            comparison,
            value
        }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Node::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Node::Or),
            inner.prop_map(|node| Node::Not(Box::new(node))),
        ]
    })
}

/// Fragments of texts, valid and broken.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop_oneof![
        prop::sample::select(vec![
            "a", "b.c", ":", "(", ")", "{", "}", "\"", "\\", "*", "<", ">=", " and ", " or ", "not ", " ", "\\u",
            "\\u0041", "\\ud83d", "é", "😀", "\n",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
    ];
    prop::collection::vec(scrap, 0..16).prop_map(|scraps| scraps.concat())
}

#[test]
fn an_escaped_keyword_before_a_star_is_printed_as_text() {
    for text in ["\\not *", "a \\or *", "\\and", "x: (\\not *)", "\\not  \\or"] {
        let node = parse(text).unwrap();
        assert_eq!(parse(&node.print()), Ok(node.clone()), "{text}: {}", node.print());
    }
}

proptest! {
    #[test]
    fn printed_trees_parse_back(node in node()) {
        let printed = node.print();
        prop_assert_eq!(parse(&printed), Ok(node), "{}", printed);
    }

    #[test]
    fn every_text_parses_or_fails_at_a_position(text in scraps()) {
        match parse(&text) {
            Ok(node) => {
                prop_assert_eq!(parse(&node.print()), Ok(node.clone()));
                let query = Kql::new(&text, Some("Asia/Kolkata")).unwrap();
                prop_assert!(query.lower(&mapping()).is_ok());
            }
            Err(error) => {
                prop_assert!(text.get(error.at.clone()).is_some(), "{:?} of {}", error.at, text);
                prop_assert!(!error.message.is_empty());
                // The position in UTF-16 code units, as browsers count, is within the text too.
                let length = text.encode_utf16().count() as u64;
                let position = error.into_error(&text).details().unwrap()["position"].clone();
                prop_assert!(position["start"].as_u64() <= position["end"].as_u64());
                prop_assert!(position["end"].as_u64() <= Some(length));
            }
        }
        for (end, _) in text.char_indices() {
            expected_after(&text[..end]);
        }
        let lexed = lex(&text);
        prop_assert!(lexed.lexemes.windows(2).all(|two| two[0].at.end <= two[1].at.start));
    }
}
