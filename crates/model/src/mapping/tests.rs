use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::Error;

fn parse(mappings: Value) -> Mapping {
    Mapping::parse(&mappings).unwrap()
}

fn reason<T: std::fmt::Debug>(result: crate::Result<T>) -> String {
    result.map_err(|error: Error| error.reason().to_owned()).unwrap_err()
}

/// Parses a mapping and compares the printed result (`None`: as written).
fn check(mappings: Value, expect: Option<Value>) {
    let mapping = parse(mappings.clone());
    let printed = mapping.print();
    assert_eq!(printed, expect.unwrap_or(mappings));
    assert_eq!(parse(printed), mapping);
}

#[test]
fn prints_what_was_set() {
    for fields in [
        json!({"type": "keyword"}),
        json!({"type": "keyword", "ignore_above": 256, "normalizer": "lowercase", "null_value": "none"}),
        json!({"type": "keyword", "index": false, "doc_values": false, "store": true, "copy_to": ["a", "b"]}),
        json!({"type": "text", "analyzer": "simple", "search_analyzer": "whitespace"}),
        json!({"type": "text", "norms": false, "fields": {"keyword": {"type": "keyword", "ignore_above": 1}}}),
        json!({"type": "match_only_text"}),
        json!({"type": "date", "format": "yyyy-MM-dd||epoch_second"}),
        json!({"type": "date_nanos"}),
        json!({"type": "scaled_float", "scaling_factor": 100.0}),
        json!({"type": "long", "coerce": false, "ignore_malformed": true, "null_value": -1}),
        json!({"type": "ip", "null_value": "::1"}),
        json!({"type": "constant_keyword", "value": "x"}),
        json!({"type": "flattened", "depth_limit": 5}),
        json!({"type": "geo_point"}),
        json!({"type": "object", "dynamic": "strict", "enabled": false}),
        json!({"properties": {"x": {"type": "boolean"}}}),
        json!({"type": "wildcard", "meta": {"unit": "ms"}}),
    ] {
        check(json!({"properties": {"f": fields}}), None);
    }
    check(json!({}), None);
    check(
        json!({
            "dynamic": "false", "_meta": {"by": "me"}, "_data_stream_timestamp": {"enabled": true},
            "_routing": {"required": true}, "_source": {"enabled": true}, "dynamic_date_formats": ["yyyy"],
            "dynamic_templates": [{"s": {"match_mapping_type": "string", "mapping": {"type": "keyword"}}}],
            "date_detection": false, "numeric_detection": true,
            "properties": {"a": {"type": "alias", "path": "b"}, "b": {"type": "byte"}},
        }),
        None,
    );
    check(
        json!({"dynamic": true, "properties": {"b.c": {"type": "ip"}, "b": {"properties": {"d": {"type": "ip"}}}, "a": {"type": "object", "properties": {}}}}),
        Some(
            json!({"dynamic": "true", "properties": {"a": {"type": "object"}, "b": {"properties": {"c": {"type": "ip"}, "d": {"type": "ip"}}}}}),
        ),
    );
}

#[test]
fn refuses_by_name() {
    let field = |field: Value| json!({"properties": {"f": field}});
    for (mappings, expect) in [
        (
            field(json!({"type": "sting"})),
            "No handler for type [sting] declared on field [f]",
        ),
        (
            field(json!({"type": "nested"})),
            "the type [nested] of field [f] is not implemented by firn",
        ),
        (field(json!({})), "No type specified for field [f]"),
        (
            field(json!("keyword")),
            "Expected map for property [properties] on field [f] but got a string",
        ),
        (
            field(json!({"type": "keyword", "foo": 1})),
            "unknown parameter [foo] on mapper [f] of type [keyword]",
        ),
        (
            field(json!({"type": "text", "doc_values": true})),
            "unknown parameter [doc_values] on mapper [f] of type [text]",
        ),
        (
            field(json!({"type": "keyword", "ignore_above": null})),
            "[ignore_above] on mapper [f] of type [keyword] must not have a [null] value",
        ),
        (
            field(json!({"type": "text", "analyzer": "german2"})),
            "analyzer [german2] has not been configured in mappings",
        ),
        (
            field(json!({"type": "keyword", "normalizer": "mine"})),
            "normalizer [mine] of field [f] is not implemented by firn",
        ),
        (
            field(json!({"type": "scaled_float"})),
            "Field [scaling_factor] is required",
        ),
        (
            field(json!({"type": "scaled_float", "scaling_factor": 0})),
            "[scaling_factor] must be a positive number, got [0]",
        ),
        (
            field(json!({"type": "alias"})),
            "The [path] property must be specified for field [f].",
        ),
        (
            field(json!({"type": "object", "foo": 1})),
            "Mapping definition for [f] has unsupported parameters:  [foo : 1]",
        ),
        (
            field(json!({"type": "object", "subobjects": false})),
            "[subobjects: false] is not implemented by firn",
        ),
        (
            field(json!({"type": "date", "format": "yyyy 'x"})),
            "Error parsing [format] on field [f]: Invalid format: [yyyy 'x]: Pattern ends with an incomplete string literal",
        ),
        (
            json!({"_doc": {"properties": {}}}),
            "The mapping definition cannot be nested under a type [_doc] unless include_type_name is set to true.",
        ),
        (
            json!({"foo": 1}),
            "Root mapping definition has unsupported parameters:  [foo : 1]",
        ),
        (
            json!({"_source": {"enabled": false}}),
            "[_source: {enabled: false}] is not implemented by firn",
        ),
        (
            json!({"_source": {"excludes": ["x"]}}),
            "[excludes] of [_source] is not implemented by firn",
        ),
        (
            json!({"runtime": {"x": {"type": "long"}}}),
            "[runtime] fields in mappings is not implemented by firn",
        ),
        (
            json!({"dynamic": "maybe"}),
            "Could not convert [dynamic] to boolean: [maybe]",
        ),
        (
            json!({"properties": {"": {"type": "long"}}}),
            "field name cannot be an empty string",
        ),
        (
            json!({"properties": {"a..b": {"type": "long"}}}),
            "field name cannot contain consecutive dots: [a..b]",
        ),
        (
            json!({"properties": {"a": {"type": "long"}, "a.b": {"type": "long"}}}),
            "can't merge a non object mapping [a] with an object mapping",
        ),
    ] {
        assert_eq!(reason(Mapping::parse(&mappings)), expect);
    }
    let deep = json!({"properties": {"a.".repeat(5000) + "b": {"type": "long"}}});
    assert!(Mapping::parse(&deep).is_err());
}

#[test]
fn resolves_paths() {
    let mapping = parse(json!({"properties": {
        "message": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "host": {"properties": {"ip": {"type": "ip"}, "labels": {"type": "flattened"}}},
        "address": {"type": "alias", "path": "host.ip"},
        "raw": {"type": "alias", "path": "message.keyword"},
    }}));
    mapping.validate().unwrap();
    let check = |path: &str, expect: &str| {
        let found = match mapping.resolve(path) {
            None => "-".to_owned(),
            Some(Resolved::Object(object)) => format!("object of {}", object.properties.len()),
            Some(Resolved::Field(path, field)) => format!("{path} {}", field.field_type.name()),
            Some(Resolved::Flattened(path, _, key)) => format!("{path} key {key}"),
        };
        assert_eq!(found, expect, "{path}");
    };
    check("message", "message text");
    check("message.keyword", "message.keyword keyword");
    check("message.other", "-");
    check("host", "object of 2");
    check("host.ip", "host.ip ip");
    check("host.labels", "host.labels flattened");
    check("host.labels.a.b", "host.labels key a.b");
    check("address", "host.ip ip");
    check("raw", "message.keyword keyword");
    check("missing", "-");
    check("", "-");
    let leaves: Vec<String> = mapping.leaves().into_iter().map(|leaf| leaf.0).collect();
    assert_eq!(
        leaves,
        ["address", "host.ip", "host.labels", "message", "message.keyword", "raw"]
    );
    assert_eq!(mapping.total_fields(), 7);
    assert_eq!(mapping.objects(), ["host"]);
}

#[test]
fn aliases_must_lead_somewhere() {
    let check = |target: &str, why: &str| {
        let mapping = parse(json!({"properties": {
            "a": {"type": "alias", "path": target}, "b": {"type": "alias", "path": "c"}, "c": {"type": "long"},
        }}));
        assert_eq!(
            reason(mapping.validate()),
            format!("Invalid [path] value [{target}] for field alias [a]: {why}")
        );
    };
    check("a", "an alias cannot refer to itself.");
    check("b", "an alias cannot refer to another alias.");
    check("d", "an alias must refer to an existing field in the mappings.");
}

#[test]
fn merges_what_may_change() {
    let check = |old: Value, new: Value, expect: Result<Value, &str>| {
        let field = |field: Value| parse(json!({"properties": {"f": field}}));
        let merged = field(old).merge(&field(new));
        match expect {
            Ok(expect) => assert_eq!(merged.unwrap().print(), json!({"properties": {"f": expect}})),
            Err(expect) => assert_eq!(reason(merged), expect),
        }
    };
    check(
        json!({"type": "keyword"}),
        json!({"type": "keyword", "ignore_above": 9, "fields": {"t": {"type": "text"}}}),
        Ok(json!({"type": "keyword", "ignore_above": 9, "fields": {"t": {"type": "text"}}})),
    );
    check(
        json!({"properties": {"a": {"type": "long"}}}),
        json!({"dynamic": "false", "properties": {"b": {"type": "long"}}}),
        Ok(json!({"dynamic": "false", "properties": {"a": {"type": "long"}, "b": {"type": "long"}}})),
    );
    check(
        json!({"type": "long"}),
        json!({"type": "keyword"}),
        Err("mapper [f] cannot be changed from type [long] to [keyword]"),
    );
    check(
        json!({"type": "long"}),
        json!({"properties": {}}),
        Err("can't merge a non object mapping [f] with an object mapping"),
    );
    check(
        json!({"type": "text"}),
        json!({"type": "text", "analyzer": "simple", "index": false}),
        Err(
            "Mapper for [f] conflicts with existing mapper:\n\tCannot update parameter [index] from [true] to [false]\n\t\
             Cannot update parameter [analyzer] from [default] to [simple]",
        ),
    );
    check(
        json!({"type": "constant_keyword"}),
        json!({"type": "constant_keyword", "value": "x"}),
        Ok(json!({"type": "constant_keyword", "value": "x"})),
    );
    check(
        json!({"type": "constant_keyword", "value": "x"}),
        json!({"type": "constant_keyword", "value": "y"}),
        Err("Mapper for [f] conflicts with existing mapper:\n\tCannot update parameter [value] from [x] to [y]"),
    );
    let template = parse(json!({"properties": {"f": {"type": "long"}}}))
        .merge_template(&parse(json!({"properties": {"f": {"type": "ip"}}})))
        .unwrap();
    assert_eq!(template.print(), json!({"properties": {"f": {"type": "ip"}}}));
}

#[test]
fn adds_fields_up_to_the_limit() {
    let mapping = parse(json!({"properties": {"a": {"type": "long"}}}));
    let additions = parse(json!({"properties": {
        "a": {"type": "keyword"},
        "b": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "c": {"properties": {"d": {"type": "long"}, "e": {"type": "long"}}},
        "g": {"type": "long"},
    }}));
    let check = |limit: u32, depth: u32, expect: &[&str]| {
        let result = mapping.add_missing(&additions, limit, depth);
        let leaves = result.as_ref().unwrap_or(&mapping).leaves();
        let paths: Vec<&str> = leaves.iter().map(|leaf| leaf.0.as_str()).collect();
        assert_eq!(paths, expect, "{limit}");
        assert_eq!(result.is_some(), paths.len() > 1);
        if let Some(result) = result {
            let whole = result.resolve("g").is_some() && result.resolve("c.e").is_some();
            assert!(result.total_fields() == limit as usize || whole || depth == 1);
        }
    };
    check(100, 20, &["a", "b", "b.keyword", "c.d", "c.e", "g"]);
    check(5, 20, &["a", "b", "b.keyword", "c.d"]);
    check(4, 20, &["a", "b", "b.keyword"]);
    check(2, 20, &["a", "b"]);
    check(1, 20, &["a"]);
    check(100, 1, &["a", "b", "b.keyword", "g"]);
    assert_eq!(
        reason(additions.check_limits(5, 20)),
        "Limit of total fields [5] has been exceeded"
    );
    assert_eq!(
        reason(additions.check_limits(50, 1)),
        "Limit of mapping depth [1] has been exceeded due to object field [c]"
    );
}

#[test]
fn detects_strings() {
    let check = |mapping: &Mapping, text: &str, expect: MatchMappingType| {
        assert_eq!(mapping.detect_string(text), expect, "{text}");
    };
    use MatchMappingType as T;
    let default = Mapping::default();
    for (text, expect) in [
        ("2026-01-02T03:04:05Z", T::Date),
        ("2026-01-02", T::Date),
        ("2026/01/02", T::Date),
        ("2026/01/02 03:04:05", T::Date),
        ("2026", T::String),
        ("12345", T::String),
        ("10.0.0.1", T::String),
        ("hello", T::String),
        ("", T::String),
    ] {
        check(&default, text, expect);
    }
    let numeric = parse(json!({"numeric_detection": true, "date_detection": false}));
    check(&numeric, "12", T::Long);
    check(&numeric, "1.5", T::Double);
    check(&numeric, "infinite", T::String);
    check(&numeric, "2026-01-02", T::String);
    let own = parse(json!({"dynamic_date_formats": ["dd.MM.yyyy"]}));
    check(&own, "02.01.2026", T::Date);
    check(&own, "2026-01-02", T::String);
}

#[test]
fn new_fields_get_their_type() {
    let check = |mapping: &Mapping, path: &str, detected: MatchMappingType, expect: Option<Value>| {
        let node = mapping.dynamic_field(path, detected).unwrap();
        assert_eq!(node.map(|node| node.print()), expect, "{path}");
    };
    use MatchMappingType as T;
    let default = Mapping::default();
    let text = json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}});
    check(&default, "a", T::String, Some(text));
    check(&default, "a", T::Long, Some(json!({"type": "long"})));
    check(&default, "a", T::Double, Some(json!({"type": "float"})));
    check(&default, "a", T::Object, Some(json!({"type": "object"})));
    let date = default.dynamic_string_field("a", "2026/01/02").unwrap().unwrap();
    assert_eq!(
        date.print(),
        json!({"type": "date", "format": "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis"})
    );
    let date = default.dynamic_string_field("a", "2026-01-02").unwrap().unwrap();
    assert_eq!(date.print(), json!({"type": "date"}));

    let mapping = parse(json!({"dynamic_templates": [
        {"ips": {"match": ["*_ip", "ip"], "unmatch": "x*", "mapping": {"type": "ip"}}},
        {"labels": {"path_match": "labels.*", "mapping": {"type": "keyword"}}},
        {"flat": {"match_mapping_type": "object", "match": "meta", "mapping": {"type": "flattened"}}},
        {"regex": {"match_pattern": "regex", "match": "^p\\d+$", "mapping": {"type": "{dynamic_type}", "meta": {"n": "{name}"}}}},
        {"strings": {"match_mapping_type": "string", "mapping": {"type": "keyword"}}},
    ]}));
    check(&mapping, "src_ip", T::String, Some(json!({"type": "ip"})));
    check(&mapping, "x_ip", T::String, Some(json!({"type": "keyword"})));
    check(&mapping, "labels.a", T::Long, Some(json!({"type": "keyword"})));
    check(&mapping, "labels.a", T::Object, Some(json!({"type": "object"})));
    check(&mapping, "a.meta", T::Object, Some(json!({"type": "flattened"})));
    check(
        &mapping,
        "p12",
        T::Double,
        Some(json!({"type": "float", "meta": {"n": "p12"}})),
    );
    check(&mapping, "p12x", T::Double, Some(json!({"type": "float"})));

    let refused = |template: Value| reason(Mapping::parse(&json!({"dynamic_templates": [{"t": template}]})));
    assert!(refused(json!({"match": "a", "mapping": {"type": "sting"}})).contains("No handler for type [sting]"));
    assert_eq!(
        refused(json!({"match": "a", "foo": 1})),
        "Illegal dynamic template parameter: [foo]"
    );
    assert!(refused(json!({"match": "a", "runtime": {}})).contains("not implemented"));
    assert!(refused(json!({"match": "(", "match_pattern": "regex", "mapping": {}})).contains("is invalid"));
}

fn any_leaf() -> impl Strategy<Value = Value> {
    let types: Vec<&str> = FieldType::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, FieldType::Alias | FieldType::ScaledFloat))
        .map(FieldType::name)
        .collect();
    prop::sample::select(types).prop_map(|name| json!({"type": name}))
}

fn any_object() -> impl Strategy<Value = Value> {
    any_leaf().prop_recursive(4, 30, 5, |inner| {
        prop::collection::btree_map("[a-e]{1,2}(\\.[a-e])?", inner, 1..5)
            .prop_map(|properties| json!({"properties": properties}))
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same(node in any_object()) {
        // Names with dots may conflict with each other; such mappings are refused.
        if let Ok(mapping) = Mapping::parse(&json!({"properties": {"root": node}})) {
            prop_assert_eq!(Mapping::parse(&mapping.print()).unwrap(), mapping.clone());
            prop_assert_eq!(mapping.merge(&mapping).unwrap(), mapping.clone());
            for (path, field) in mapping.leaves() {
                prop_assert_eq!(mapping.resolve(&path), Some(Resolved::Field(path, &field)));
            }
            prop_assert_eq!(Mapping::default().add_missing(&mapping, 1000, 100), Some(mapping));
        }
    }

    #[test]
    fn patterns_match_as_the_naive_way(pattern in "[ab*]{0,8}", name in "[ab]{0,8}") {
        fn naive(pattern: &[u8], name: &[u8]) -> bool {
            match pattern.split_first() {
                None => name.is_empty(),
                Some((b'*', rest)) => (0..=name.len()).any(|at| naive(rest, &name[at..])),
                Some((byte, rest)) => name.split_first().is_some_and(|(first, more)| first == byte && naive(rest, more)),
            }
        }
        prop_assert_eq!(crate::names::matches_pattern(&pattern, &name), naive(pattern.as_bytes(), name.as_bytes()));
    }
}

#[test]
fn a_foreign_mapping_keeps_what_firn_does_not_know() {
    let body = json!({
        "_meta": {"a": 1},
        "runtime": {"day": {"type": "keyword"}},
        "_size": {"enabled": true},
        "dynamic_templates": [{"geo": {"match": "geo*", "mapping": {"type": "geo_shape"}}}],
        "properties": {
            "area": {"type": "geo_shape", "orientation": "right"},
            "events": {"type": "nested", "properties": {"n": {"type": "long"}}},
            "host": {"properties": {"name": {"type": "keyword"}, "version": {"type": "version"}}},
            "items": {"dynamic": "false", "properties": {"vector": {"type": "knn_vector", "dimension": 3}}},
            "message": {
                "type": "text",
                "analyzer": "my_analyzer",
                "fields": {"raw": {"type": "keyword"}, "typed": {"type": "search_as_you_type"}},
            },
            "only": {"type": "keyword", "fields": {"typed": {"type": "search_as_you_type"}}},
            "plain": {"type": "long"},
            "tag": {"type": "keyword", "normalizer": "my_normalizer"},
        },
    });
    let mapping = Mapping::parse_foreign(&body).unwrap();
    assert_eq!(mapping.print(), body);
    assert_eq!(Mapping::parse_foreign(&mapping.print()).unwrap(), mapping);
    let type_of = |path: &str| match mapping.resolve(path) {
        Some(Resolved::Field(_, field)) => Some(field.field_type),
        _ => None,
    };
    for (path, expect) in [
        ("plain", Some(FieldType::Long)),
        ("host.name", Some(FieldType::Keyword)),
        ("message", Some(FieldType::Text)),
        ("message.raw", Some(FieldType::Keyword)),
        ("tag", Some(FieldType::Keyword)),
        ("area", None),
        ("events.n", None),
        ("host.version", None),
        ("message.typed", None),
    ] {
        assert_eq!(type_of(path), expect, "{path}");
    }
    let merged = mapping.merge(&Mapping::parse_foreign(&json!({"properties": {"spot": {"type": "shape"}}})).unwrap());
    let merged = merged.unwrap().print();
    assert_eq!(merged["properties"]["spot"], json!({"type": "shape"}));
    assert_eq!(merged["properties"]["area"], body["properties"]["area"]);
    let narrowed = mapping.narrowed(&|path| path == "area" || path == "plain");
    let both = json!({"area": body["properties"]["area"], "plain": {"type": "long"}});
    assert_eq!(narrowed.print(), json!({ "properties": both }));
    // An own mapping refuses each of them, as before.
    for path in ["area", "events", "message", "tag", "only"] {
        let own = json!({"properties": {path: body["properties"][path]}});
        assert!(Mapping::parse(&own).is_err(), "{path}");
    }
    assert!(Mapping::parse_foreign(&json!([])).is_err());
    assert!(Mapping::parse_foreign(&json!({"properties": 7})).is_err());
}
