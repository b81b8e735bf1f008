//! All queries together: the round trip, the bounds, and input that is no query.

use proptest::prelude::*;
use serde_json::json;

use super::test_support::check_refused;
use super::*;

#[test]
fn what_is_no_query() {
    check_refused(json!(null), "[_na] query malformed, must start with start_object");
    check_refused(json!({}), "query malformed, empty clause found");
    check_refused(json!({"foo": {}}), "unknown query [foo]");
    check_refused(json!({"fuzzy": {}}), "query [fuzzy] is not implemented by firn");
    check_refused(
        json!({"term": {"a": 1}, "range": {}}),
        "[term] malformed query, expected [END_OBJECT] but found [FIELD_NAME]",
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| {
        let innermost = json!({"match_all": {}});
        (1..depth).fold(innermost, |query, _| json!({"bool": {"must": query}}))
    };
    assert!(Query::parse(&nested(DEPTH_MAX)).is_ok());
    check_refused(
        nested(DEPTH_MAX + 1),
        "The nested depth of the query exceeds the maximum nested depth of [100]",
    );
}

#[test]
fn clauses_are_bounded() {
    let wide = |count: usize| json!({"bool": {"should": vec![json!({"match_all": {}}); count]}});
    assert!(Query::parse(&wide(CLAUSES_MAX - 1)).is_ok());
    check_refused(
        wide(CLAUSES_MAX),
        "Query contains too many clauses; maxClauseCount is set to 16384",
    );
    let words = json!({"query_string": {"query": "a ".repeat(CLAUSES_MAX / 2)}});
    check_refused(
        json!({"bool": {"should": [words, words]}}),
        "Query contains too many clauses; maxClauseCount is set to 16384",
    );
}

#[test]
fn every_query_is_known_once() {
    for (index, (name, _)) in QUERIES.iter().enumerate() {
        assert!(!NOT_YET.contains(name), "{name}");
        assert!(QUERIES[..index].iter().all(|(other, _)| other != name), "{name}");
    }
}

fn field() -> impl Strategy<Value = String> {
    "[a-z@_]{1,5}(\\.[a-z]{1,3})?"
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        "\\PC{0,8}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Quarters: serde_json reads other fractions off by a bit unless built with `float_roundtrip`.
        (-1_000_000_000_i32..1_000_000_000).prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        any::<bool>().prop_map(Value::from),
    ]
}

fn boosted() -> impl Strategy<Value = f32> {
    prop_oneof![Just(1.0), 0.0_f32..10.0]
}

fn should_match_spec() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop_oneof![
        (-5..5_i32).prop_map(|count| count.to_string()),
        (-100..=100_i32).prop_map(|percent| format!("{percent}%")),
        Just("2<-25% 9<-3".to_owned()),
    ])
}

fn leaf() -> impl Strategy<Value = Query> {
    let bound = || prop::option::of((scalar(), any::<bool>()));
    let words = "[a-z]{1,4}( AND [a-z]{1,4}| -[a-z]{1,3}\\*| [a-z]:\\[1 TO \\*\\})?";
    prop_oneof![
        boosted().prop_map(|boost| Query::MatchAll(MatchAll { boost })),
        Just(Query::MatchNone),
        (field(), scalar(), boosted(), any::<bool>()).prop_map(|(field, value, boost, case_insensitive)| {
            Query::Term(Term {
                field,
                value,
                boost,
                case_insensitive,
            })
        }),
        (field(), prop::collection::vec(scalar(), 0..4), boosted())
            .prop_map(|(field, values, boost)| Query::Terms(Terms { field, values, boost })),
        (field(), bound(), bound(), boosted()).prop_map(|(field, lower, upper, boost)| {
            Query::Range(Range {
                field,
                lower,
                upper,
                format: None,
                time_zone: None,
                boost,
            })
        }),
        (field(), boosted()).prop_map(|(field, boost)| Query::Exists(Exists { field, boost })),
        (prop::collection::vec("\\PC{0,8}", 0..4), boosted())
            .prop_map(|(values, boost)| Query::Ids(Ids { values, boost })),
        (
            (field(), scalar(), any::<bool>(), should_match_spec()),
            (any::<bool>(), any::<bool>(), boosted())
        )
            .prop_map(
                |((field, query, operator_and, minimum_should_match), (lenient, zero_terms_all, boost))| {
                    Query::Match(Match {
                        field,
                        query,
                        operator_and,
                        minimum_should_match,
                        lenient,
                        zero_terms_all,
                        boost,
                    })
                }
            ),
        (field(), scalar(), 0..5_u32, any::<bool>(), boosted()).prop_map(
            |(field, query, slop, zero_terms_all, boost)| {
                Query::MatchPhrase(MatchPhrase {
                    field,
                    query,
                    slop,
                    zero_terms_all,
                    boost,
                })
            }
        ),
        (field(), "\\PC{0,8}", any::<bool>(), boosted()).prop_map(|(field, value, case_insensitive, boost)| {
            Query::Prefix(Prefix {
                field,
                value,
                case_insensitive,
                boost,
            })
        }),
        (field(), "\\PC{0,8}", any::<bool>(), boosted()).prop_map(|(field, value, case_insensitive, boost)| {
            Query::Wildcard(Wildcard {
                field,
                value,
                case_insensitive,
                boost,
            })
        }),
        (
            words,
            prop::collection::vec((field(), boosted()), 2..4),
            any::<bool>(),
            any::<bool>(),
            boosted()
        )
            .prop_map(|(query, default_fields, operator_and, lenient, boost)| {
                let parsed = query_string::parse(&query, operator_and).unwrap();
                Query::QueryString(QueryString {
                    query,
                    default_fields,
                    operator_and,
                    lenient,
                    analyze_wildcard: lenient,
                    time_zone: None,
                    boost,
                    parsed,
                })
            }),
    ]
}

fn query() -> impl Strategy<Value = Query> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            ((list(), list(), list(), list()), should_match_spec(), boosted()).prop_map(
                |((must, filter, should, must_not), minimum_should_match, boost)| {
                    Query::Bool(Bool {
                        must,
                        filter,
                        should,
                        must_not,
                        minimum_should_match,
                        boost: Boost(boost),
                    })
                }
            ),
            (inner.clone(), boosted()).prop_map(|(filter, boost)| {
                Query::ConstantScore(ConstantScore {
                    filter: Box::new(filter),
                    boost,
                })
            }),
        ]
    })
}

/// JSON that looks a little like queries.
fn json() -> impl Strategy<Value = Value> {
    let names: Vec<&str> = QUERIES.iter().map(|(name, _)| *name).collect();
    let params = [
        "query",
        "value",
        "values",
        "field",
        "fields",
        "gte",
        "boost",
        "must",
        "filter",
        "should",
        "operator",
        "a",
        "minimum_should_match",
        "_name",
    ];
    let key = prop_oneof![prop::sample::select(names), prop::sample::select(params.to_vec())];
    let leaf = prop_oneof![scalar(), Just(Value::Null)];
    leaf.prop_recursive(5, 32, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..3).prop_map(|entries| entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn printed_queries_parse_to_themselves(query in query()) {
        let printed = query.print();
        let text = serde_json::to_string(&printed).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(Query::parse(&read).unwrap(), query, "{}", text);
    }

    #[test]
    fn no_json_panics(value in json()) {
        if let Ok(query) = Query::parse(&value) {
            prop_assert_eq!(Query::parse(&query.print()).unwrap(), query);
        }
    }
}
