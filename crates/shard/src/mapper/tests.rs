//! Tests of single mapping rules: mapping, event, indexed values.

use std::sync::Arc;

use bytes::Bytes;
use firn_model::ErrorKind;
use firn_model::mapping::Mapping;
use firn_model::settings::IndexSettings;
use serde_json::{Value, json};

use super::*;

fn compile(mapping: &Value, settings: &Value) -> Arc<CompiledMapping> {
    let mapping = Mapping::parse(mapping).unwrap();
    let settings = IndexSettings::parse(settings).unwrap();
    Arc::new(CompiledMapping::new(Arc::new(mapping), &settings).unwrap())
}

fn map_with(mapping: &Value, settings: &Value, source: &str, unmapped: Unmapped) -> firn_model::Result<Mapped> {
    let source = Bytes::copy_from_slice(source.as_bytes());
    map_document(&compile(mapping, settings), &source, Some("1"), unmapped)
}

/// Checks the indexed values of `{"f": VALUE}` where `f` has this mapping.
#[track_caller]
fn check(field: Value, value: &str, expected: &[&str]) {
    check_event(
        json!({"properties": {"f": field}}),
        &format!(r#"{{"f":{value}}}"#),
        expected,
    );
}

#[track_caller]
fn check_event(mapping: Value, source: &str, expected: &[&str]) {
    let mapped = map_with(&mapping, &json!({}), source, Unmapped::Report).unwrap();
    assert_eq!(mapped.new_fields, None, "{source}");
    assert_eq!(mapped.document.dump(), expected, "{source}");
}

/// Checks the reason and its cause if `ignore_malformed` is off.
#[track_caller]
fn check_refused(field: Value, value: &str, cause: &str) {
    let mapping = json!({"properties": {"f": field}});
    let settings = json!({"index.mapping.ignore_malformed": false});
    let Err(error) = map_with(&mapping, &settings, &format!(r#"{{"f":{value}}}"#), Unmapped::Report) else {
        panic!("{value} was taken")
    };
    assert_eq!(error.kind(), ErrorKind::DocumentParsing, "{error}");
    assert!(error.to_string().contains(cause), "{error}");
}

#[test]
fn keyword() {
    check(json!({"type": "keyword"}), r#""a B""#, &["kw:f=a B"]);
    check(json!({"type": "keyword"}), r#""a\u0041\n""#, &["kw:f=aA\n"]);
    check(
        json!({"type": "keyword"}),
        r#"["a",["b",null],"c"]"#,
        &["kw:f=a", "kw:f=b", "kw:f=c"],
    );
    check(json!({"type": "keyword"}), "1.50", &["kw:f=1.50"]);
    check(json!({"type": "keyword"}), "true", &["kw:f=true"]);
    check(json!({"type": "keyword"}), "null", &[]);
    check(json!({"type": "keyword"}), "[]", &[]);
    check(json!({"type": "keyword", "null_value": "N"}), "null", &["kw:f=N"]);
    check(json!({"type": "keyword", "ignore_above": 3}), r#""äöü""#, &["kw:f=äöü"]);
    check(
        json!({"type": "keyword", "ignore_above": 3}),
        r#""äöüx""#,
        &["kw:_ignored=f"],
    );
    check(
        json!({"type": "keyword", "normalizer": "lowercase"}),
        r#""aBÄ""#,
        &["kw:f=abä"],
    );
    check(
        json!({"type": "keyword", "doc_values": false}),
        r#""a""#,
        &["kwi:f=a", "kwi:_field_names=f"],
    );
    check(json!({"type": "keyword", "index": false}), r#""a""#, &["kwc:f=a"]);
    check(
        json!({"type": "keyword", "index": false, "doc_values": false}),
        r#""a""#,
        &[],
    );
    check(json!({"type": "keyword"}), r#"{"a":1}"#, &["kw:_ignored=f"]);
    check(json!({"type": "wildcard"}), r#""a*""#, &["kw:f=a*"]);
}

#[test]
fn text() {
    check(
        json!({"type": "text"}),
        r#""Some words""#,
        &["kwi:_field_names=f", "text:f=Some words"],
    );
    check(
        json!({"type": "text"}),
        r#"["a",5]"#,
        &["kwi:_field_names=f", "text:f=a", "text:f=5"],
    );
    check(
        json!({"type": "text", "analyzer": "simple"}),
        r#""a""#,
        &["kwi:_field_names=f", "text_simple:f=a"],
    );
    check(
        json!({"type": "text", "analyzer": "whitespace"}),
        r#""a""#,
        &["kwi:_field_names=f", "text_whitespace:f=a"],
    );
    check(
        json!({"type": "text", "analyzer": "keyword"}),
        r#""a b""#,
        &["kwi:_field_names=f", "text_keyword:f=a b"],
    );
    check(json!({"type": "text", "index": false}), r#""a""#, &[]);
}

#[test]
fn numbers() {
    check(json!({"type": "long"}), "5", &["num:f=5"]);
    check(json!({"type": "long"}), r#""5""#, &["num:f=5"]);
    check(json!({"type": "long"}), "5.9", &["num:f=5"]);
    check(json!({"type": "long"}), "[1,2]", &["num:f=1", "num:f=2"]);
    check(json!({"type": "long", "null_value": -1}), "null", &["num:f=-1"]);
    check(json!({"type": "long"}), r#""x y""#, &["kw:_ignored=f", "text:f=x y"]);
    check(json!({"type": "long"}), r#"{"a":1}"#, &["kw:_ignored=f"]);
    check(
        json!({"type": "long"}),
        "99999999999999999999",
        &["kw:_ignored=f", "text:f=99999999999999999999"],
    );
    check(json!({"type": "byte"}), "128", &["kw:_ignored=f", "text:f=128"]);
    check(
        json!({"type": "unsigned_long"}),
        "18446744073709551615",
        &["num:f=18446744073709551615u"],
    );
    check(json!({"type": "double"}), "0.1", &["num:f=0.1f"]);
    check(json!({"type": "float"}), "0.1", &["num:f=0.10000000149011612f"]);
    check(
        json!({"type": "scaled_float", "scaling_factor": 100}),
        "1.239",
        &["num:f=124"],
    );
    check(
        json!({"type": "boolean"}),
        r#"[true,"false",""]"#,
        &["num:f=1", "num:f=0", "num:f=0"],
    );
    check(json!({"type": "boolean"}), r#""yes""#, &["kw:_ignored=f", "text:f=yes"]);
    check_refused(
        json!({"type": "long"}),
        r#""x""#,
        r#"failed to parse field [f] of type [long] in document with id '1'. Preview of field's value: 'x': For input string: "x""#,
    );
    check_refused(json!({"type": "integer"}), "3000000000", "out of range for an integer");
    check_refused(json!({"type": "long", "coerce": false}), r#""5""#, "coerce is disabled");
}

#[test]
fn dates() {
    check(
        json!({"type": "date"}),
        r#""2024-01-01T00:00:00.5Z""#,
        &["num:f=1704067200500"],
    );
    check(json!({"type": "date"}), "1704067200500", &["num:f=1704067200500"]);
    check(
        json!({"type": "date", "format": "epoch_second"}),
        "1704067200",
        &["num:f=1704067200000"],
    );
    check(
        json!({"type": "date_nanos"}),
        r#""2024-01-01T00:00:00.123456789Z""#,
        &["num:f=1704067200123456789"],
    );
    check(
        json!({"type": "date_nanos"}),
        r#""1960-01-01""#,
        &["kw:_ignored=f", "text:f=1960-01-01"],
    );
    check(
        json!({"type": "date"}),
        r#""yesterday""#,
        &["kw:_ignored=f", "text:f=yesterday"],
    );
    check(json!({"type": "date"}), "true", &["kw:_ignored=f", "text:f=true"]);
}

#[test]
fn the_event_knows_its_time() {
    let mapping = json!({"properties": {"@timestamp": {"type": "date"}}});
    let mapped = map_with(
        &mapping,
        &json!({}),
        r#"{"@timestamp":[2000,"1970-01-01T00:00:01Z"]}"#,
        Unmapped::Report,
    );
    assert_eq!(
        mapped.unwrap().document.time_range_ms().map(|range| range.0),
        Some(1000)
    );
    let mapped = map_with(&mapping, &json!({}), r#"{"@timestamp":"never"}"#, Unmapped::Report);
    assert_eq!(mapped.unwrap().document.time_range_ms(), None);
}

#[test]
fn addresses() {
    let encoded = firn_segment::schema::encode_ip("10.0.0.1".parse().unwrap());
    check(
        json!({"type": "ip"}),
        r#""10.0.0.1""#,
        &[&format!("kw:f={encoded}").replace('\u{1}', "\u{1}")],
    );
    check(
        json!({"type": "ip"}),
        r#""10.0.0.256""#,
        &["kw:_ignored=f", "text:f=10.0.0.256"],
    );
    check_refused(json!({"type": "ip"}), r#""x""#, "'x' is not an IP string literal.");
}

#[test]
fn geo_points() {
    let point = ["num:f#lat=41.5f", "num:f#lon=-71.25f"];
    for value in [
        r#"{"lat":41.5,"lon":-71.25}"#,
        r#"{"lon":"-71.25","lat":"41.5"}"#,
        r#"{"type":"Point","coordinates":[-71.25,41.5]}"#,
        r#""41.5,-71.25""#,
        r#""POINT (-71.25 41.5)""#,
        "[-71.25,41.5]",
        "[[-71.25,41.5]]",
        "[-71.25,41.5,100]",
        r#"["41.5,-71.25"]"#,
    ] {
        check(json!({"type": "geo_point"}), value, &point);
    }
    for value in [
        r#"{"lat":91,"lon":0}"#,
        r#"{"lat":1}"#,
        "[1]",
        "[1,2,3,4]",
        r#"{"x":[{}]}"#,
    ] {
        check(json!({"type": "geo_point"}), value, &["kw:_ignored=f"]);
    }
    check(
        json!({"type": "geo_point"}),
        r#""u33d""#,
        &["kw:_ignored=f", "text:f=u33d"],
    );
}

#[test]
fn flattened() {
    check(
        json!({"type": "flattened"}),
        r#"{"a":{"b":"x"},"c":[1,true]}"#,
        &["kw:f=x", "kw:f.a.b=x", "kw:f=1", "kw:f.c=1", "kw:f=true", "kw:f.c=true"],
    );
    check(
        json!({"type": "flattened", "ignore_above": 1}),
        r#"{"a":"xy"}"#,
        &["kw:_ignored=f.a"],
    );
    check(json!({"type": "flattened"}), r#""x""#, &["kw:_ignored=f", "text:f=x"]);
    let deep = format!("{}1{}", r#"{"a":"#.repeat(25), "}".repeat(25));
    check(json!({"type": "flattened"}), &deep, &["kw:_ignored=f"]);
    let mapping = json!({"properties": {"f": {"type": "flattened"}}});
    check_event(mapping, r#"{"f.k":"x"}"#, &["kw:f=x", "kw:f.k=x"]);
}

#[test]
fn constant_keyword() {
    check(json!({"type": "constant_keyword", "value": "x"}), r#""x""#, &[]);
    check_refused(
        json!({"type": "constant_keyword", "value": "x"}),
        r#""y""#,
        "only accepts values that are equal",
    );
    let mapping = json!({"properties": {"f": {"type": "constant_keyword"}}});
    let mapped = map_with(&mapping, &json!({}), r#"{"f":"x"}"#, Unmapped::Report).unwrap();
    assert_eq!(
        mapped.new_fields.unwrap().print(),
        json!({"properties": {"f": {"type": "constant_keyword", "value": "x"}}})
    );
}

#[test]
fn multi_fields_copies_and_aliases() {
    check(
        json!({"type": "text", "fields": {"raw": {"type": "keyword"}}}),
        r#""A b""#,
        &["kw:f.raw=A b", "kwi:_field_names=f", "text:f=A b"],
    );
    let mapping = json!({"properties": {"a": {"type": "keyword", "copy_to": ["b"]}, "b": {"type": "text"}}});
    check_event(mapping, r#"{"a":"x"}"#, &["kw:a=x", "kwi:_field_names=b", "text:b=x"]);
    let mapping = json!({"properties": {"a": {"type": "alias", "path": "b"}, "b": {"type": "text"}}});
    let error = map_with(&mapping, &json!({}), r#"{"a":"x"}"#, Unmapped::Report)
        .err()
        .unwrap();
    assert!(error.reason().contains("Cannot write to a field alias [a]."), "{error}");
    let mapping = json!({"properties": {"a": {"type": "keyword", "copy_to": ["n.m"]}}});
    let mapped = map_with(&mapping, &json!({}), r#"{"a":"x"}"#, Unmapped::Report).unwrap();
    assert!(mapped.new_fields.unwrap().node("n.m").is_some());
}

#[test]
fn objects() {
    let mapping = || json!({"properties": {"a": {"properties": {"b": {"type": "long"}}}}});
    check_event(mapping(), r#"{"a":{"b":1}}"#, &["num:a.b=1"]);
    check_event(mapping(), r#"{"a.b":1}"#, &["num:a.b=1"]);
    check_event(
        mapping(),
        r#"{"a":[{"b":1},{"b":[2,3]},null]}"#,
        &["num:a.b=1", "num:a.b=2", "num:a.b=3"],
    );
    check_event(mapping(), r#"{"a":"x"}"#, &["kw:_ignored=a", "text:a=x"]);
    check_event(mapping(), r#"{"a":null}"#, &[]);
    check_event(mapping(), r#"{"a.b.c":1}"#, &["kw:_ignored=a.b"]);
    let disabled = json!({"properties": {"a": {"type": "object", "enabled": false}}});
    check_event(disabled, r#"{"a":{"b":[1,{"c":"x"}]}}"#, &[]);
    let settings = json!({"index.mapping.ignore_malformed": false});
    let error = map_with(&mapping(), &settings, r#"{"a":"x"}"#, Unmapped::Report)
        .err()
        .unwrap();
    assert!(
        error
            .reason()
            .contains("object mapping for [a] tried to parse field [a] as object"),
        "{error}"
    );
}

#[test]
fn dynamic() {
    let new = |mapping: Value, source: &str| {
        let mapped = map_with(&mapping, &json!({}), source, Unmapped::Report).unwrap();
        mapped.new_fields.map(|mapping| mapping.print()["properties"].clone())
    };
    let text = json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}});
    assert_eq!(
        new(
            json!({}),
            r#"{"s":"x","l":1,"d":1.5,"b":true,"t":"2024-01-01T00:00:00Z","n":null,"e":[],"o":{"p":[{"q":1}]}}"#
        )
        .unwrap(),
        json!({
            "s": text, "l": {"type": "long"}, "d": {"type": "float"}, "b": {"type": "boolean"}, "t": {"type": "date"},
            "o": {"properties": {"p": {"properties": {"q": {"type": "long"}}}}},
        })
    );
    assert_eq!(
        new(json!({}), r#"{"a.b":1,"a":{"c":"x"}}"#).unwrap(),
        json!({"a": {"properties": {
            "b": {"type": "long"}, "c": text,
        }}})
    );
    assert_eq!(new(json!({"dynamic": false}), r#"{"a":1}"#), None);
    assert_eq!(new(json!({"dynamic": "runtime"}), r#"{"a":{"b":1}}"#), None);
    let mapping = json!({"dynamic": "strict", "properties": {"o": {"type": "object", "dynamic": true}}});
    assert!(new(mapping.clone(), r#"{"o":{"a":1}}"#).is_some());
    let error = map_with(&mapping, &json!({}), r#"{"a":1}"#, Unmapped::Report)
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::StrictDynamicMapping);
    assert_eq!(
        error.reason(),
        "[1:2] mapping set to strict, dynamic introduction of [a] within [_doc] is not allowed"
    );
}

#[test]
fn fields_past_the_limit_are_flattened() {
    let settings = json!({"index.mapping.total_fields.limit": 1});
    let mapping = json!({"properties": {"a": {"type": "long"}}});
    let mapped = map_with(
        &mapping,
        &settings,
        r#"{"a":1,"b":{"c":"x","d":[2]}}"#,
        Unmapped::Report,
    )
    .unwrap();
    assert_eq!(mapped.new_fields, None);
    assert_eq!(mapped.document.dump(), ["kw:b.c=x", "kw:b.d=2", "num:a=1"]);
}

#[test]
fn refuses_invalid_events() {
    for (source, reason) in [
        ("", "unexpected end of input"),
        ("[]", "must start with an object"),
        ("5", "must start with an object"),
        (r#"{"a":1}x"#, "end of the document"),
        (r#"{"a":1"#, "unexpected end of input"),
        (r#"{"a":}"#, "was expecting a JSON value"),
        (r#"{"f":1,"f":2}"#, "Duplicate field 'f'"),
        (r#"{"_id":"x"}"#, "is a metadata field"),
        (r#"{"":1}"#, "empty"),
        (r#"{"a..b":1}"#, "empty"),
    ] {
        let mapping = json!({"properties": {"f": {"type": "long"}}});
        let Err(error) = map_with(&mapping, &json!({}), source, Unmapped::Report) else {
            panic!("{source} was taken")
        };
        assert_eq!(error.kind(), ErrorKind::DocumentParsing, "{source}: {error}");
        assert!(error.to_string().contains(reason), "{source}: {error}");
    }
    let bad = Bytes::from_static(b"{\"a\":\"\xff\"}");
    let compiled = compile(&json!({}), &json!({}));
    let error = map_document(&compiled, &bad, None, Unmapped::Report).err().unwrap();
    assert!(error.to_string().contains("Invalid UTF-8"), "{error}");
}

#[test]
fn hostile_events_are_bounded() {
    let refuse = |source: &str, reason: &str| {
        let error = map_with(&json!({}), &json!({}), source, Unmapped::Report)
            .err()
            .unwrap();
        assert!(error.to_string().contains(reason), "{error}");
    };
    let keys: Vec<String> = (0..100_000).map(|key| format!(r#""k{key}":1"#)).collect();
    refuse(&format!("{{{}}}", keys.join(",")), "more than 10000 fields");
    refuse(&format!(r#"{{"a":{}"#, "[".repeat(100_000)), "nests deeper");
    refuse(&format!(r#"{{"a":{}"#, r#"{"a":"#.repeat(100_000)), "nests deeper");
    let mapping = json!({"properties": {"a": {"type": "long"}}});
    let many = format!(r#"{{"a":[{}]}}"#, vec!["1"; 200_000].join(","));
    let error = map_with(&mapping, &json!({}), &many, Unmapped::Report).err().unwrap();
    assert!(error.reason().contains("more than 100000 values"), "{error}");
    let skipped = format!(r#"{{"a":{}{}}}"#, "[".repeat(900), "]".repeat(900));
    assert!(map_with(&json!({"dynamic": false}), &json!({}), &skipped, Unmapped::Report).is_ok());
}

#[test]
fn accepts_only_json() {
    let seeds = [
        r#"{"a":1,"s":"x\u00e9\n","f":1.5e3,"o":{"k":[1,{"z":null}]},"g":[1.5,2],"t":"2024-01-01","l":[true,false]}"#,
        r#"{"a.b":{"c":[[],{}]},"fl":{"x":{"y":"z"}},"n":-0.0,"":0}"#,
    ];
    let mapping = json!({"dynamic": false, "properties": {
        "a": {"type": "long"}, "s": {"type": "keyword"}, "f": {"type": "float"}, "g": {"type": "geo_point"},
        "t": {"type": "date"}, "l": {"type": "boolean"}, "fl": {"type": "flattened"},
        "o": {"properties": {"k": {"type": "text"}}},
    }});
    let compiled = compile(&mapping, &json!({}));
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..20_000 {
        let mut bytes = seeds[round % seeds.len()].as_bytes().to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(0..bytes.len());
            match rng.u32(0..4) {
                0 => bytes[at] = *b"{}[],:\"\\0-.etn \xff".get(rng.usize(0..17)).unwrap_or(&b'x'),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, bytes[rng.usize(0..bytes.len())]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let source = Bytes::from(bytes);
        let taken = map_document(&compiled, &source, None, Unmapped::Report);
        let is_json = |text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let valid = std::str::from_utf8(&source).is_ok_and(is_json);
        let text = String::from_utf8_lossy(&source);
        match taken {
            Ok(_) => assert!(valid, "{text} was taken"),
            Err(error) => {
                let ours = ["Duplicate", "empty", "must start with an object", "metadata"];
                let known = ours.iter().any(|reason| error.to_string().contains(reason));
                assert!(!valid || known, "{text} was refused: {error}");
            }
        }
    }
}
