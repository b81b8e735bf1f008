//! Tests of the mapper with small packs.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::tests_of_records::UniqueKeys;
use super::{MapOptions, Mapper, Pack, run_examples};
use crate::tables::{TableHandle, TableSource, Tables};

const RECEIVED: Option<i64> = Some(1_795_507_200_000_000_000);

fn pack(yaml: &str) -> Arc<Pack> {
    Arc::new(Pack::parse(yaml).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn the_pack_of_the_manual_passes_its_examples() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/pipelines.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let yaml = blocks.find(|block| block.starts_with("name: ")).unwrap();
    assert_eq!(run_examples(&pack(yaml)), (1, Vec::new()));
}

#[test]
fn lines_that_are_no_events_are_reported_and_the_others_mapped() {
    let mut mapper = Mapper::new(pack(SMALL), &Tables::default(), MapOptions::default());
    let mut out = Vec::new();
    let mut failures = Vec::new();
    let input = "{\"who\":\"a\"}\r\n\nno JSON\n{\"who\":\"b\"}";
    let totals = super::map_lines(&mut mapper, input.as_bytes(), &mut out, |line, failure| {
        failures.push(format!("{line}: {failure}"))
    })
    .unwrap();
    assert_eq!((totals.events, totals.failures), (2, 1));
    assert_eq!(failures, ["3: cannot parse json: expected a JSON object at byte 0"]);
    let events: Vec<Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["event"]["original"], "{\"who\":\"a\"}");
    assert_eq!(events[1]["user"]["name"], "b");
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let mut mapper = Mapper::new(pack(SMALL), &Tables::default(), MapOptions::default());
    let input = format!(
        "{{\"who\":\"{}\"}}\n{{\"who\":\"b\"}}\n",
        "a".repeat(super::lines::LINE_BYTES_MAX)
    );
    let mut out = Vec::new();
    let mut failures = Vec::new();
    let totals = super::map_lines(&mut mapper, input.as_bytes(), &mut out, |line, failure| {
        failures.push((line, failure))
    })
    .unwrap();
    assert_eq!((totals.events, failures), (1, vec![(1, super::LineFailure::TooLong)]));
}

const SMALL: &str = r#"
name: small
version: 3
prefix: small
parser: json
absent: ["-"]
fields:
  src: source.ip
  a.b: {to: source.port}
  who | user: user.name
  ms: {to: event.duration, scale: 1000000}
  tags: tags
  second: user.name
lookups:
  - {table: owners, key: source.ip, columns: {owner: host.name, level: event.severity}}
"#;

fn check(yaml: &str, tables: &Tables, input: &str, expect: &str) {
    let mut mapper = Mapper::new(
        pack(yaml),
        tables,
        MapOptions {
            original: false,
            received: None,
        },
    );
    let mut out = Vec::new();
    let found = match mapper.map(input.as_bytes(), &mut out) {
        Ok(()) => String::from_utf8(out).unwrap(),
        Err(error) => error.to_string(),
    };
    let found = found
        .replace(r#""ecs":{"version":"9.4.0"},"#, "")
        .replace(r#""name":"small","version":3"#, "…")
        .replace(r#""name":"small","#, "…,")
        .replace(r#","version":3"#, "");
    assert_eq!(found, expect, "{input}");
}

#[test]
fn raw_fields_become_common_fields() {
    let none = Tables::default();
    let map = |input: &str, expect: &str| check(SMALL, &none, input, expect);
    map(
        r#"{"src":"1.2.3.4"}"#,
        r#"{"firn":{"mapping":{…}},"related":{"ip":["1.2.3.4"]},"source":{"ip":"1.2.3.4"}}"#,
    );
    map(
        r#"{"src":"x","a":{"b":"7","c":1}}"#,
        r#"{"firn":{"mapping":{"errors":["src"],…}},"small":{"a":{"c":1},"src":"x"},"source":{"port":7}}"#,
    );
    map(
        r#"{"a.b":8,"ms":1.5}"#,
        r#"{"event":{"duration":1500000},"firn":{"mapping":{…}},"source":{"port":8}}"#,
    );
    map(
        r#"{"src":["1.2.3.4","::1"]}"#,
        r#"{"firn":{"mapping":{…}},"related":{"ip":["1.2.3.4","::1"]},"source":{"ip":["1.2.3.4","::1"]}}"#,
    );
    map(
        r#"{"src":"-","who":null,"x":null}"#,
        r#"{"firn":{"mapping":{…}},"small":{"x":null}}"#,
    );
    map(
        r#"{"second":"b","user":"a\n"}"#,
        r#"{"firn":{"mapping":{…}},"related":{"user":["b","a\n"]},"small":{"second":"b"},"user":{"name":"a\n"}}"#,
    );
    map(
        r#"{"tags":"a","a":{}}"#,
        r#"{"firn":{"mapping":{…}},"small":{"a":{}},"tags":["a"]}"#,
    );
    map(
        r#"{"tags":["a",2,"a"]}"#,
        r#"{"firn":{"mapping":{…}},"tags":["a","2"]}"#,
    );
    map(
        r#"{"src":{"z":1}}"#,
        r#"{"firn":{"mapping":{"errors":["src"],…}},"small":{"src":{"z":1}}}"#,
    );
    map("[]", r#"cannot parse json: expected a JSON object at byte 0"#);
    map(
        r#"{"src":"1.2.3.4"} x"#,
        r#"cannot parse json: expected the end of the record at byte 18"#,
    );
}

#[test]
fn tables_are_looked_up_and_swapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("owners.csv");
    std::fs::write(&path, "ip,owner,level,rest\n1.2.3.4,ann,7,x\n5.6.7.8,eve,high,y\n").unwrap();
    let mut tables = Tables::default();
    tables.insert(TableHandle::open("owners", TableSource::of(&path).unwrap(), 0).unwrap());
    let version = tables.get("owners").unwrap().status(0).version;
    let stamped = |rest: &str| rest.replace("VERSION", &format!("owners@{version}"));
    check(
        SMALL,
        &tables,
        r#"{"src":"1.2.3.4"}"#,
        &stamped(
            r#"{"event":{"severity":7},"firn":{"mapping":{…,"tables":["VERSION"]}},"host":{"name":"ann"},"related":{"hosts":["ann"],"ip":["1.2.3.4"]},"source":{"ip":"1.2.3.4"}}"#,
        ),
    );
    check(
        SMALL,
        &tables,
        r#"{"src":"9.9.9.9"}"#,
        &stamped(
            r#"{"firn":{"mapping":{…,"tables":["VERSION"]}},"related":{"ip":["9.9.9.9"]},"source":{"ip":"9.9.9.9"}}"#,
        ),
    );
    check(
        SMALL,
        &tables,
        r#"{"who":"x"}"#,
        r#"{"firn":{"mapping":{…}},"related":{"user":["x"]},"user":{"name":"x"}}"#,
    );

    let mut mapper = Mapper::new(pack(SMALL), &tables, MapOptions::default());
    let mut owner = || {
        let mut out = Vec::new();
        mapper.map(br#"{"src":"1.2.3.4"}"#, &mut out).unwrap();
        let event: Value = serde_json::from_slice(&out).unwrap();
        event["host"]["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(owner(), "ann");
    std::fs::write(&path, "level,ip,owner\n0,x,y\n").unwrap();
    std::fs::write(&path, "ip,level,owner\n1.2.3.4,1,charlotte\n").unwrap();
    tables.get("owners").unwrap().refresh(1);
    assert_eq!(owner(), "charlotte");
}

#[test]
fn bad_packs_are_refused_by_name() {
    let base = "name: p\nversion: 1\nprefix: p\nparser: json\n";
    for (rest, reason) in [
        ("vrl: '. = {}'", "vrl"),
        ("fields: {a: p.b}", "need a prefix of their own"),
        ("fields: {a: source.ip, b: source.ip.x}", "source.ip"),
        ("fields: {a: {to: source.ip, type: long}}", "another type"),
        ("fields: {a: {to: x, type: nonsense}}", "nonsense"),
        ("fields: {a: {to: x, take: middle}}", "middle"),
        ("fields: {a: {to: x, tkae: middle}}", "fields"),
        ("constants: {source.port: abc}", "source.port"),
        ("sections: [{name: s, when: {}}]", "condition"),
        ("templates: {message: '{a'}", "closing brace"),
        ("lookups: [{table: t, key: source.ip}]", "table [t]"),
        ("unknown: 1", "unknown"),
    ] {
        let error = Pack::parse(&format!("{base}{rest}\n")).unwrap_err().to_string();
        assert!(error.contains(reason), "{rest}: {error}");
    }
    assert!(
        Pack::parse(&base.replace("parser: json", "parser: morse"))
            .unwrap_err()
            .to_string()
            .contains("morse")
    );
}

#[test]
fn invalid_utf8_is_replaced_and_flagged() {
    let mut mapper = Mapper::new(pack(SMALL), &Tables::default(), MapOptions::default());
    let mut out = Vec::new();
    mapper.map(b"{\"who\":\"a\xff\"}", &mut out).unwrap();
    let event: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(event["user"]["name"], "a\u{FFFD}");
    assert_eq!(event["firn"]["mapping"]["invalid_utf8"], true);
    out.clear();
    mapper.map(br#"{"who":"a\ud800"}"#, &mut out).unwrap();
    let event: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(event["firn"]["mapping"]["invalid_utf8"], true);
}

proptest::proptest! {
    /// Any JSON object gives a valid event that holds all its values, or an error.
    #[test]
    fn any_record_gives_valid_json(keys in proptest::collection::vec("(src|a|b|who|ms|tags|a\\.b|[a-c.\"\\\\]{0,3})", 0..6), values in proptest::collection::vec("(\"[a-z\\\\n\\\\u0012é]{0,5}\"|-?[0-9]{1,3}|\\[1,\"x\"\\]|\\{\"b\":1\\}|null|true|1\\.5)", 6)) {
        let fields: Vec<_> = keys.iter().zip(&values).map(|(key, value)| format!("{}:{value}", Value::from(key.as_str()))).collect();
        let input = format!("{{{}}}", fields.join(","));
        let is_valid = serde_json::from_str::<Value>(&input).is_ok();
        let mut mapper = Mapper::new(pack(SMALL), &Tables::default(), MapOptions { original: true, received: RECEIVED });
        let mut out = Vec::new();
        match mapper.map(input.as_bytes(), &mut out) {
            Ok(()) => {
                let event: Value = serde_json::from_slice(&out).unwrap();
                proptest::prop_assert_eq!(&event["event"]["original"], &Value::from(input.as_str()));
                proptest::prop_assert!(serde_json::from_slice::<UniqueKeys>(&out).is_ok(), "{}", String::from_utf8_lossy(&out));
            }
            Err(_) => proptest::prop_assert!(!is_valid, "{}", input),
        }
    }
}
