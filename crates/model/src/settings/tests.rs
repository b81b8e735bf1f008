use serde_json::json;

use super::*;

fn reason<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().reason().to_owned()
}

#[test]
fn derives_what_firn_uses() {
    let settings = IndexSettings::parse(&json!({
        "number_of_shards": "3",
        "index": {"number_of_replicas": 2, "refresh_interval": "-1", "blocks": {"write": true}},
        "index.translog.durability": "async",
        "translog.sync_interval": "1s",
        "translog": {"flush_threshold_size": "1.5gb"},
        "mapping.total_fields.limit": 50,
        "codec": "best_compression",
        "query.default_field": ["a", "b"],
        "hidden": "true",
        "lifecycle.name": "logs",
        "priority": null,
    }))
    .unwrap();
    assert_eq!(settings.number_of_shards, 3);
    assert_eq!(settings.number_of_replicas, 2);
    assert_eq!(settings.refresh_interval_ms, None);
    assert_eq!(settings.durability, Durability::Async);
    assert_eq!(settings.sync_interval_ms, 1000);
    assert_eq!(settings.flush_threshold_bytes, 3 << 29);
    assert_eq!(settings.total_fields_limit, 50);
    assert!(settings.best_compression && settings.hidden && settings.write_blocked);
    assert_eq!(settings.query_default_fields, ["a", "b"]);
    assert_eq!(settings.typed["index.lifecycle.name"], json!("logs"));
    assert!(!settings.typed.contains_key("index.priority"));
    assert_eq!(IndexSettings::parse(&json!({})).unwrap(), IndexSettings::default());
    assert_eq!(IndexSettings::from_flat(settings.typed.clone()).unwrap(), settings);
}

#[test]
fn refuses_by_name() {
    for (settings, expect) in [
        (
            json!({"foo": 1}),
            "unknown setting [index.foo] please check that any required plugins are installed, or check the breaking \
             changes documentation for removed settings",
        ),
        (
            json!({"number_of_shards": 0}),
            "Failed to parse value [0] for setting [index.number_of_shards] must be >= 1",
        ),
        (
            json!({"number_of_shards": 2000}),
            "Failed to parse value [2000] for setting [index.number_of_shards] must be <= 1024",
        ),
        (
            json!({"number_of_shards": "many"}),
            "Failed to parse value [many] for setting [index.number_of_shards]",
        ),
        (
            json!({"refresh_interval": "5"}),
            "failed to parse setting [index.refresh_interval] with value [5] as a time value: unit is missing or \
             unrecognized",
        ),
        (
            json!({"hidden": "yes"}),
            "Failed to parse value [yes] as only [true] or [false] are allowed for setting [index.hidden]",
        ),
        (
            json!({"mode": "logsdb"}),
            "setting [index.mode] with value [logsdb] is not implemented by firn",
        ),
        (
            json!({"sort.field": "a"}),
            "setting [index.sort.field] is not implemented by firn",
        ),
        (
            json!({"analysis": {"analyzer": {"mine": {"type": "custom"}}}}),
            "custom analyzer [mine] of [index.analysis] is not implemented by firn",
        ),
        (
            json!({"provided_name": "p"}),
            "private index setting [index.provided_name] can not be set explicitly",
        ),
        (
            json!({"codec": "x"}),
            "unknown value for [index.codec] must be one of [default, lz4, best_compression] but was: x",
        ),
        (
            json!({"translog.sync_interval": "1ms"}),
            "failed to parse value [1ms] for setting [index.translog.sync_interval], must be >= [100ms]",
        ),
        (
            json!({"a": [{}]}),
            "malformed settings, the list [a] may only hold plain values",
        ),
        (json!(3), "malformed settings, expected an object but got [3]"),
    ] {
        assert_eq!(reason(IndexSettings::parse(&settings)), expect);
    }
}

#[test]
fn updates() {
    let settings = IndexSettings::parse(&json!({"number_of_shards": 2, "refresh_interval": "5s"})).unwrap();
    let update = |changes: Value, preserve: bool, closed: bool| {
        settings.update(&flatten(&changes, true).unwrap(), preserve, closed, "i", "u")
    };
    assert_eq!(
        update(json!({"refresh_interval": "9s"}), false, false)
            .unwrap()
            .refresh_interval_ms,
        Some(9000)
    );
    assert_eq!(
        update(json!({"refresh_interval": "9s"}), true, false)
            .unwrap()
            .refresh_interval_ms,
        Some(5000)
    );
    assert_eq!(
        update(json!({"index": {"refresh_interval": null}}), false, false)
            .unwrap()
            .refresh_interval_ms,
        Some(1000)
    );
    assert_eq!(
        update(json!({"index.refresh*": null}), false, false)
            .unwrap()
            .typed
            .len(),
        1
    );
    assert_eq!(
        reason(update(json!({"number_of_shards": 3, "codec": "default"}), false, false)),
        "Can't update non dynamic settings [[index.codec, index.number_of_shards]] for open indices [[i/u]]"
    );
    assert_eq!(
        reason(update(json!({"number_of_shards": 3}), false, true)),
        "final i setting [index.number_of_shards], not updateable"
    );
    assert!(
        update(json!({"codec": "best_compression"}), false, true)
            .unwrap()
            .best_compression
    );
}

#[test]
fn prints_strings() {
    let settings = IndexSettings::parse(&json!({"refresh_interval": "5s", "query.default_field": ["a"]})).unwrap();
    assert_eq!(
        Value::Object(nest(&settings.print_flat())),
        json!({"index": {
            "number_of_shards": "1", "number_of_replicas": "0", "refresh_interval": "5s",
            "query": {"default_field": ["a"]},
        }})
    );
    let defaults = settings.print_defaults();
    assert_eq!(defaults["index.codec"], json!("default"));
    assert!(!defaults.contains_key("index.refresh_interval"));
}

#[test]
fn parses_sizes() {
    for (text, expect) in [
        ("512mb", Ok(512 << 20)),
        ("1.5gb", Ok(3 << 29)),
        ("100b", Ok(100)),
        ("2K", Ok(2048)),
        ("1tb", Ok(1 << 40)),
        ("0", Ok(0)),
        (
            "100",
            Err("failed to parse value [100] as a size in bytes: unit is missing or unrecognized"),
        ),
        ("-1mb", Err("failed to parse value [-1mb]")),
        ("xmb", Err("failed to parse value [xmb]")),
        ("99999999pb", Err("failed to parse value [99999999pb]")),
    ] {
        let found = parse_bytes(text).map_err(|error| error.reason().to_owned());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }
}

#[test]
fn what_would_change_answers_is_refused_unless_it_is_what_firn_does() {
    for (name, does, other) in [
        ("index.query_string.lenient", json!(false), json!(true)),
        ("index.query.parse.allow_unmapped_fields", json!("true"), json!(false)),
        (
            "index.mapping.total_fields.ignore_dynamic_beyond_limit",
            json!(true),
            json!("false"),
        ),
        ("index.max_terms_count", json!(65_536), json!(100)),
        ("index.max_regex_length", json!("1000"), json!(50)),
        ("index.analyze.max_token_count", json!(10_000), json!(1)),
        ("index.mapping.field_name_length.limit", json!(i64::MAX), json!(50)),
    ] {
        IndexSettings::parse(&json!({name: does})).unwrap();
        let error = IndexSettings::parse(&json!({name: other})).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::NotImplemented, "{error}");
        assert!(error.reason().contains(name), "{error}");
    }
}
