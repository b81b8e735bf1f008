//! Random documents through every processor: nothing panics, and each ends within its budget.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;
use super::{NOW_MS, document, parse};

/// A processor of each kind, in several forms.
fn processors() -> Vec<Value> {
    vec![
        json!({"set": {"field": "{{a}}", "value": {"x": ["{{b}}", "{{c.0}}"]}}}),
        json!({"set": {"field": "a.b.0", "copy_from": "c"}}),
        json!({"remove": {"field": ["a", "b.0"]}}),
        json!({"remove": {"keep": ["a.b", "c"]}}),
        json!({"rename": {"field": "a", "target_field": "b.c"}}),
        json!({"convert": {"field": "a", "type": "auto"}}),
        json!({"convert": {"field": "a", "type": "float"}}),
        json!({"convert": {"field": "a", "type": "integer"}}),
        json!({"date": {"field": "a", "formats": ["ISO8601", "UNIX", "UNIX_MS", "TAI64N", "MMM d HH:mm", "yyyy-MM-dd"]}}),
        json!({"date_index_name": {"field": "a", "date_rounding": "d", "date_formats": ["UNIX", "ISO8601"]}}),
        json!({"json": {"field": "a"}}),
        json!({"json": {"field": "a", "add_to_root": true, "add_to_root_conflict_strategy": "merge"}}),
        json!({"kv": {"field": "a", "field_split": " ", "value_split": "=", "strip_brackets": true, "trim_key": "<>"}}),
        json!({"csv": {"field": "a", "target_fields": ["x", "y", "a.z"], "trim": true, "empty_value": 1}}),
        json!({"split": {"field": "a", "separator": "[ ,]*"}}),
        json!({"join": {"field": "a", "separator": ","}}),
        json!({"trim": {"field": "a"}}),
        json!({"lowercase": {"field": "a"}}),
        json!({"uppercase": {"field": "a"}}),
        json!({"gsub": {"field": "a", "pattern": "(.)", "replacement": "$1$1"}}),
        json!({"html_strip": {"field": "a"}}),
        json!({"bytes": {"field": "a"}}),
        json!({"urldecode": {"field": "a"}}),
        json!({"uri_parts": {"field": "a"}}),
        json!({"user_agent": {"field": "a", "extract_device_type": true}}),
        json!({"geoip": {"field": "a"}}),
        json!({"fingerprint": {"fields": ["a", "b", "c"], "method": "MurmurHash3", "ignore_missing": true}}),
        json!({"append": {"field": "a", "value": ["{{b}}", 1], "allow_duplicates": false}}),
        json!({"foreach": {"field": "a", "processor": {"trim": {"field": "_ingest._value"}}}}),
        json!({"foreach": {"field": "a", "processor": {"remove": {"field": "_ingest._value"}}}}),
        json!({"dot_expander": {"field": "*", "override": true}}),
        json!({"dot_expander": {"field": "b.c", "path": "a"}}),
        json!({"sort": {"field": "a", "order": "desc"}}),
        json!({"community_id": {"source_ip": "a", "destination_ip": "b", "transport": "c"}}),
        json!({"network_direction": {"source_ip": "a", "destination_ip": "b", "internal_networks": ["private", "{{c}}"]}}),
        json!({"registered_domain": {"field": "a"}}),
        json!({"reroute": {"dataset": "{{a}}", "namespace": ["{{b}}", "x"]}}),
        json!({"grok": {"field": "a", "patterns": ["%{IP:b.x} %{WORD:c}", "%{NUMBER:c:int}", "%{GREEDYDATA:a}"], "trace_match": true}}),
        json!({"dissect": {"field": "a", "pattern": "%{+b.x->} %{+b.x} %{&c}=%{*c}"}}),
        json!({"redact": {"field": "a", "patterns": ["%{IP:IP}", "%{WORD:W}"], "trace_redact": true}}),
        json!({"script": "for (k in ctx.keySet()) { ctx[k + 'x'] = ctx[k] } ctx.a = ctx.b?.c ?: ctx.c"}),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[ -~]{0,12}",
        ".{0,8}",
        prop::sample::select(vec![
            "1.2.3.4",
            "10.0.0.1",
            "tcp",
            "a=1 b=[2]",
            "{\"a\":{\"x\":1}}",
            "<b>&amp;",
            "1kb",
            "%41%",
            "http://u:p@h:1/a.b?c#d",
            "www.example.co.uk",
            "\"a\",b",
            "2020-01-01",
            "@4000000050d506482dbdf024",
            "a.b",
            "0",
            "_index",
            "-0x8000000000000000",
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]|b\\.c", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_panics(a in value(), b in value(), c in value()) {
        for processor in processors() {
            let pipeline = parse(&processor).unwrap();
            let mut context = Context::new(NOW_MS);
            context.budget = Budget { steps: 20_000, output_bytes: 1 << 20 };
            let mut document = document(json!({"a": a, "b": b, "c": c, "d.e": 1}));
            if let Err(failure) = pipeline.run(&mut document, &context) {
                prop_assert!(failure.processor_type.is_some());
            }
            let _ = print_document(&document).to_string();
        }
    }

    #[test]
    fn random_options_are_refused_or_taken(name in prop::sample::select(PROCESSORS.to_vec()), options in value()) {
        let _ = parse(&json!({name: options}));
    }
}
