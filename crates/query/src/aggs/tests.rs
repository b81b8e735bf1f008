//! Tests of levels, names and merging for all aggregation types together.

use firn_model::ErrorKind;
use proptest::prelude::*;
use serde_json::json;

use super::test_support::{check_fields, check_refused, check_round_trip, metric, parsed};
use super::*;

#[test]
fn levels() {
    check_round_trip(json!({}));
    check_round_trip(json!({
        "a": {"terms": {"field": "a"}, "aggregations": {
            "b": {"date_histogram": {"field": "t", "calendar_interval": "1d"}, "aggs": {
                "c": {"filter": {"match_all": {}}, "aggs": {"d": {"stats": {"field": "d"}}}}
            }}
        }, "meta": {"color": "red"}},
        "e": {"cardinality": {"field": "e"}}
    }));
    check_fields(
        json!({"a": {"terms": {"field": "z"}, "aggs": {"b": {"min": {"field": "y"}}}}, "c": {"max": {"field": "y"}}}),
        &["y", "z"],
    );
}

#[test]
fn refuses() {
    check_refused(
        json!([]),
        "Unexpected token START_ARRAY in [aggs]: aggregations definitions must start with START_OBJECT",
    );
    check_refused(
        json!({"a": 1}),
        "Aggregation definition for [a starts with a [VALUE_NUMBER], expected a [START_OBJECT].",
    );
    check_refused(json!({"a": {}}), "Missing definition for aggregation [a]");
    check_refused(json!({"a": {"aggs": {}}}), "Missing definition for aggregation [a]");
    check_refused(
        json!({"a": {"min": 1}}),
        "Expected [START_OBJECT] under [min], but got a [VALUE_NUMBER] in [a]",
    );
    check_refused(
        json!({"a": {"min": {"field": "x"}, "max": {"field": "x"}}}),
        "Found two aggregation type definitions in [a]: [min] and [max]",
    );
    check_refused(
        json!({"a": {"terms": {"field": "x"}, "aggs": {}, "aggregations": {}}}),
        "Found two sub aggregation definitions under [a]",
    );
    check_refused(json!({"a": {"foo": {}}}), "Unknown aggregation type [foo]");
    check_refused(
        json!({"a": {"scripted_metric": {}}}),
        "aggregation [scripted_metric] is not implemented by firn",
    );
    check_refused(
        json!({"a>b": {"min": {"field": "x"}}}),
        "Invalid aggregation name [a>b]. Aggregation names can contain any character except '[', ']', and '>'",
    );
}

#[test]
fn depth_and_count_are_bounded() {
    let nested = |depth: usize| {
        (1..depth).fold(
            json!({"a": {"min": {"field": "x"}}}),
            |below, _| json!({"a": {"terms": {"field": "x"}, "aggs": below}}),
        )
    };
    parsed(nested(DEPTH_MAX));
    check_refused(nested(DEPTH_MAX + 1), "aggregations are nested deeper than [20] levels");
    let wide: Map<String, Value> = (0..=COUNT_MAX)
        .map(|number| (number.to_string(), json!({"min": {"field": "x"}})))
        .collect();
    check_refused(Value::Object(wide), "the request has more than [4096] aggregations");
}

#[test]
fn merging_stays_within_its_bound() {
    let terms = |keys: std::ops::Range<i64>| {
        let buckets = keys.map(|key| (KeyBytes::I64(key), Bucket::default())).collect();
        let partial = TermsPartial {
            buckets,
            ..TermsPartial::default()
        };
        Partials([("x".to_owned(), Partial::Terms(partial))].into_iter().collect())
    };
    let mut merged = Partials::default();
    merged.merge_within(terms(0..6), 10).unwrap();
    merged.merge_within(terms(0..10), 10).unwrap();
    assert_eq!(merged.bucket_count(), 10);
    let error = merged.merge_within(terms(9..11), 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyBuckets);
    assert_eq!(
        error.reason(),
        "Trying to create too many buckets. Must be less than or equal to: [10] but this number of buckets was exceeded. \
         This limit can be set by changing the [search.max_buckets] cluster level setting."
    );
}

#[test]
fn contents_of_empty_buckets_are_bounded() {
    let day_ms = 86_400_000_i64;
    let answer = |buckets: i64, sub: Value| {
        let bounds = json!({"min": 0, "max": (buckets - 1) * day_ms});
        let body = json!({"field": "t", "fixed_interval": "1d", "min_doc_count": 0, "extended_bounds": bounds});
        let aggregations = parsed(json!({"x": {"date_histogram": body, "aggs": sub}}));
        let partials = aggregations.empty();
        aggregations.finish(partials, 65_536).map(|_| ())
    };
    let metrics = |count: usize| -> Value {
        let one = |number: usize| (format!("m{number}"), json!({"max": {"field": "v"}}));
        Value::Object((0..count).map(one).collect())
    };
    answer(60_000, metrics(3)).unwrap();
    answer(600, metrics(300)).unwrap();
    let long = |name: String, meta: Value| json!({name: {"max": {"field": "v"}, "meta": meta}});
    answer(10, long("n".repeat(1 << 20), json!({}))).unwrap();
    for (buckets, sub) in [
        (60_000, metrics(300)),
        (60_000, long("n".repeat(10_000), json!({}))),
        (60_000, long("n".to_owned(), json!({"note": ["x".repeat(10_000)]}))),
    ] {
        let error = answer(buckets, sub).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CircuitBreaking, "{error}");
        assert!(error.reason().starts_with("[request] Data too large"), "{error}");
    }
}

#[test]
fn answers_are_bounded() {
    let aggregations = parsed(json!({"x": {"terms": {"field": "a"}, "aggs": {"y": {"terms": {"field": "b"}}}}}));
    let leaf = |sub: Partials| {
        let buckets = (0..3)
            .map(|key| {
                (
                    KeyBytes::I64(key),
                    Bucket {
                        doc_count: 1,
                        sub: sub.clone(),
                    },
                )
            })
            .collect();
        Partial::Terms(TermsPartial {
            buckets,
            ..TermsPartial::default()
        })
    };
    let inner = Partials([("y".to_owned(), leaf(Partials::default()))].into_iter().collect());
    let partials = Partials([("x".to_owned(), leaf(inner))].into_iter().collect());
    assert!(aggregations.finish(partials.clone(), 12).is_ok());
    assert_eq!(
        aggregations.finish(partials, 11).unwrap_err().kind(),
        ErrorKind::TooManyBuckets
    );
}

#[test]
fn kinds_must_agree() {
    let aggregations = parsed(json!({"x": {"terms": {"field": "a"}}}));
    let mut partials = aggregations.empty();
    let other = Partials(
        [("x".to_owned(), metric(&[1.0]))]
            .into_iter()
            .collect::<IndexMap<_, _>>(),
    );
    assert!(partials.merge(other.clone()).is_err());
    assert!(aggregations.finish(other, 10).is_err());
}

/// Returns a request with aggregations of all kinds.
fn all_kinds() -> Aggregations {
    parsed(json!({
        "by_name": {
            "terms": {"field": "name", "size": 2, "order": {"total": "desc"}},
            "meta": {"color": "red"},
            "aggs": {"total": {"sum": {"field": "n"}}, "all": {"stats": {"field": "n"}}}
        },
        "by_day": {
            "date_histogram": {"field": "t", "fixed_interval": "1d", "format": "yyyy-MM-dd"},
            "aggs": {"distinct": {"cardinality": {"field": "name"}}}
        },
        "large": {"filter": {"range": {"n": {"gte": 5}}}, "aggs": {
            "least": {"min": {"field": "n"}}, "most": {"max": {"field": "n"}}, "mean": {"avg": {"field": "n"}},
            "values": {"value_count": {"field": "n"}}
        }}
    }))
}

const DAY: i64 = 86_400_000;

/// Returns the partial results of documents (name, day, number).
fn partials_of(documents: &[(u8, i64, i32)]) -> Partials {
    let mut partials = all_kinds().empty();
    for &(name, day, number) in documents {
        let of = |value: i32| metric(&[f64::from(value)]);
        let bucket = |sub: Vec<(&str, Partial)>| Bucket {
            doc_count: 1,
            sub: Partials(
                sub.into_iter()
                    .map(|(name, partial)| (name.to_owned(), partial))
                    .collect(),
            ),
        };
        let terms = TermsPartial {
            buckets: [(
                KeyBytes::Str(format!("n{name}").into()),
                bucket(vec![("total", of(number)), ("all", of(number))]),
            )]
            .into(),
            ..TermsPartial::default()
        };
        let mut sketch = cardinality::Sketch::new(3000);
        sketch.insert(cardinality::hash_bytes(&[name]));
        let format = firn_model::dates::DateFormat::new("yyyy-MM-dd").unwrap();
        let histogram = DateHistogramPartial {
            buckets: [(day * DAY, bucket(vec![("distinct", Partial::Cardinality(sketch))]))].into(),
            format: ValueFormat::Date(format.into()),
        };
        let mut one = vec![
            ("by_name", Partial::Terms(terms)),
            ("by_day", Partial::DateHistogram(histogram)),
        ];
        if number >= 5 {
            let sub = ["least", "most", "mean", "values"].map(|name| (name, of(number)));
            one.push(("large", Partial::Single(bucket(sub.to_vec()))));
        }
        let one = one.into_iter().map(|(name, partial)| (name.to_owned(), partial));
        partials.merge(Partials(one.collect())).unwrap();
    }
    partials
}

#[test]
fn a_whole_answer() {
    let partials = partials_of(&[(1, 0, 3), (1, 2, 7), (2, 2, 5), (3, 2, 1)]);
    insta::assert_json_snapshot!(all_kinds().finish(partials, 100).unwrap(), @r#"
    {
      "by_name": {
        "meta": {
          "color": "red"
        },
        "doc_count_error_upper_bound": 0,
        "sum_other_doc_count": 1,
        "buckets": [
          {
            "key": "n1",
            "doc_count": 2,
            "total": {
              "value": 10.0
            },
            "all": {
              "count": 2,
              "min": 3.0,
              "max": 7.0,
              "avg": 5.0,
              "sum": 10.0
            }
          },
          {
            "key": "n2",
            "doc_count": 1,
            "total": {
              "value": 5.0
            },
            "all": {
              "count": 1,
              "min": 5.0,
              "max": 5.0,
              "avg": 5.0,
              "sum": 5.0
            }
          }
        ]
      },
      "by_day": {
        "buckets": [
          {
            "key_as_string": "1970-01-01",
            "key": 0,
            "doc_count": 1,
            "distinct": {
              "value": 1
            }
          },
          {
            "key_as_string": "1970-01-02",
            "key": 86400000,
            "doc_count": 0,
            "distinct": {
              "value": 0
            }
          },
          {
            "key_as_string": "1970-01-03",
            "key": 172800000,
            "doc_count": 3,
            "distinct": {
              "value": 3
            }
          }
        ]
      },
      "large": {
        "doc_count": 2,
        "least": {
          "value": 5.0
        },
        "most": {
          "value": 7.0
        },
        "mean": {
          "value": 6.0
        },
        "values": {
          "value": 2
        }
      }
    }
    "#);
}

#[test]
fn dates_print_as_numbers_and_text() {
    let aggregations = parsed(json!({"m": {"stats": {"field": "t"}}, "x": {"max": {"field": "t"}}}));
    let mut partial = MetricPartial::new(ValueFormat::Date(
        firn_model::dates::DateFormat::default_millis().into(),
    ));
    partial.add(0.0);
    partial.add(1000.0);
    let partials = ["m", "x"].map(|name| (name.to_owned(), Partial::Metric(partial.clone())));
    assert_eq!(
        aggregations
            .finish(Partials(partials.into_iter().collect()), 1)
            .unwrap(),
        json!({
            "m": {
                "count": 2, "min": 0.0, "max": 1000.0, "avg": 500.0, "sum": 1000.0,
                "min_as_string": "1970-01-01T00:00:00.000Z", "max_as_string": "1970-01-01T00:00:01.000Z",
                "avg_as_string": "1970-01-01T00:00:00.500Z", "sum_as_string": "1970-01-01T00:00:01.000Z"
            },
            "x": {"value": 1000.0, "value_as_string": "1970-01-01T00:00:01.000Z"}
        })
    );
}

#[test]
fn typed_keys() {
    let mut options = FinishOptions::new(100);
    options.typed_keys = true;
    let answer = all_kinds().finish_with(partials_of(&[(1, 0, 9)]), &options).unwrap();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&answer),
        ["sterms#by_name", "date_histogram#by_day", "filter#large"]
    );
    assert_eq!(
        names(&answer["filter#large"]),
        ["doc_count", "min#least", "max#most", "avg#mean", "value_count#values"]
    );
    let bucket = &answer["sterms#by_name"]["buckets"][0];
    assert_eq!(names(bucket), ["key", "doc_count", "sum#total", "stats#all"]);
}

#[test]
fn typed_keys_of_terms_follow_the_keys() {
    let aggregations = parsed(json!({"x": {"terms": {"field": "a"}}}));
    let one = Bucket {
        doc_count: 1,
        sub: Partials::default(),
    };
    let check = |keys: Vec<Key>, format: ValueFormat, expected: &str| {
        let partial = TermsPartial {
            buckets: keys.into_iter().map(|key| (key.into(), one.clone())).collect(),
            format,
            ..TermsPartial::default()
        };
        let mut options = FinishOptions::new(100);
        options.typed_keys = true;
        let partials = Partials([("x".to_owned(), Partial::Terms(partial))].into_iter().collect());
        let answer = aggregations.finish_with(partials, &options).unwrap();
        assert_eq!(answer.as_object().unwrap().keys().next().unwrap(), expected);
    };
    check(vec![Key::I64(1)], ValueFormat::Raw, "lterms#x");
    check(vec![Key::F64(1.0), Key::I64(1)], ValueFormat::Raw, "dterms#x");
    check(vec![Key::U64(u64::MAX), Key::I64(1)], ValueFormat::Raw, "ulterms#x");
    check(vec![], ValueFormat::Boolean, "lterms#x");
    check(vec![], ValueFormat::Raw, "sterms#x");
}

fn json() -> impl Strategy<Value = Value> {
    let names = [
        "a",
        "aggs",
        "terms",
        "date_histogram",
        "min",
        "stats",
        "cardinality",
        "filter",
        "field",
        "size",
        "order",
        "missing",
        "include",
        "fixed_interval",
        "offset",
        "extended_bounds",
        "precision_threshold",
        "meta",
        "percentiles",
        "percents",
        "extended_stats",
        "top_metrics",
        "metrics",
        "sort",
        "derivative",
        "moving_fn",
        "window",
        "bucket_script",
        "bucket_sort",
        "avg_bucket",
        "buckets_path",
        "script",
        "format",
    ];
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        prop::sample::select(vec![
            "asc",
            "1d",
            "-6h",
            "_key",
            "_count",
            "a>b.c",
            "params._value + 1",
            "0.0"
        ])
        .prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 40, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((prop::sample::select(names.to_vec()), inner), 0..3).prop_map(|entries| entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_answer_does_not_depend_on_segments(
        documents in prop::collection::vec((0_u8..6, 0_i64..9, -20_i32..20), 0..40),
        parts in 1_usize..6,
        order in any::<u64>(),
    ) {
        let whole = all_kinds().finish(partials_of(&documents), 1000).unwrap();
        let mut split: Vec<Partials> = (0..parts)
            .map(|part| partials_of(&documents.iter().copied().skip(part).step_by(parts).collect::<Vec<_>>()))
            .collect();
        // Merged in a random order and tree shape.
        let mut random = fastrand::Rng::with_seed(order);
        while split.len() > 1 {
            let part = split.swap_remove(random.usize(..split.len()));
            let target = random.usize(..split.len());
            split[target].merge(part).unwrap();
        }
        prop_assert_eq!(all_kinds().finish(split.remove(0), 1000).unwrap(), whole);
    }

    #[test]
    fn no_json_panics(value in json()) {
        if let Ok(aggregations) = Aggregations::parse(&value) {
            let printed = aggregations.print();
            prop_assert_eq!(Aggregations::parse(&printed).unwrap(), aggregations.clone());
            let _ = aggregations.finish(aggregations.empty(), 100);
        }
    }
}
