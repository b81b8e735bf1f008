//! Tests of packs as a whole.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::{MapOptions, Mapper, Pack, builtin, builtin_names, ecs, run_examples};
use crate::tables::{TableHandle, TableSource, Tables};

const RECEIVED: Option<i64> = Some(1_795_507_200_000_000_000);

fn pack(yaml: &str) -> Arc<Pack> {
    Arc::new(Pack::parse(yaml).unwrap_or_else(|error| panic!("{error}")))
}

fn packs() -> Vec<Arc<Pack>> {
    builtin_names()
        .map(|name| Arc::new(builtin(name).unwrap().unwrap_or_else(|error| panic!("{error}"))))
        .collect()
}

/// Returns a file of the shared data, or says that the test is skipped.
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn shared(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(file);
    if !path.exists() {
        eprintln!("skipped: there is no file [{}]", path.display());
        return None;
    }
    Some(path)
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn the_examples_of_all_packs_pass() {
    for pack in packs() {
        let (count, failures) = run_examples(&pack);
        assert!(count > 0, "pack [{}] has no examples", pack.name());
        let failures: Vec<_> = failures
            .iter()
            .map(|failure| format!("{}\n  {}", failure.name, failure.difference.join("\n  ")))
            .collect();
        assert!(failures.is_empty(), "pack [{}]:\n{}", pack.name(), failures.join("\n"));
    }
}

/// Objects of packs that are not in the schema.
const OWN_OBJECTS: &[&str] = &[
    "firn.",
    "winlog.",
    "powershell.",
    "cef.",
    "zeek.",
    "suricata.",
    "company.",
    "otel.",
    "apache.",
    "nginx.",
    "linux.",
];

/// Fields that CEF has and the schema has not, under the names that logstash-codec-cef gave them.
const OF_CEF: &[&str] = &[
    "agent.ip",
    "agent.mac",
    "destination.process.name",
    "destination.process.pid",
    "destination.service.name",
    "deviceExternalId",
    "deviceHostName",
    "host.nat.ip",
    "observer.registered_domain",
    "source.process.name",
    "source.process.pid",
    "source.service.name",
];

#[test]
fn the_targets_of_packs_are_in_the_schema() {
    let Some(path) = shared("ecs_flat.yml.gz") else { return };
    let flat: BTreeMap<String, serde_norway::Value> = serde_norway::from_str(&unpacked(&path)).unwrap();
    let mut wrong = Vec::new();
    for pack in packs() {
        let prefix = pack.targets.name(pack.stamps.prefix).to_owned();
        for target in pack.targets().filter(|target| *target != prefix) {
            let name = target
                .strip_suffix(".lat")
                .or_else(|| target.strip_suffix(".lon"))
                .unwrap_or(target);
            match (flat.get(name), ecs::field(target)) {
                (None, None) if OF_CEF.contains(&target) => {}
                (None, None) if OWN_OBJECTS.iter().any(|object| target.starts_with(object)) => {}
                (None, _) => wrong.push(format!("{}: [{target}] is not in the schema", pack.name())),
                (Some(_), None) => wrong.push(format!("{}: [{target}] is not in firn's list", pack.name())),
                (Some(_), Some(_)) => {}
            }
        }
    }
    for target in ecs::DEFAULT_VIEW {
        if ecs::field(target).is_none() {
            wrong.push(format!("default view: [{target}] is not in firn's list"));
        }
    }
    for (name, field) in ecs::all() {
        let Some(facts) = flat.get(name) else {
            wrong.push(format!("[{name}] is not in the schema"));
            continue;
        };
        let kind = ecs::Kind::parse(facts["type"].as_str().unwrap());
        let is_list = facts["normalize"].as_sequence().is_some_and(|rules| !rules.is_empty());
        if kind != Some(field.kind) || is_list != field.is_list {
            wrong.push(format!("[{name}] is {kind:?} with list {is_list}, not {field:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recorded_windows_events_are_mapped_without_loss() {
    let Some(path) = shared("windows-events.ndjson.gz") else {
        return;
    };
    let pack = Arc::new(builtin("windows").unwrap().unwrap());
    let mut mapper = Mapper::new(
        pack,
        &Tables::default(),
        MapOptions {
            original: true,
            received: RECEIVED,
        },
    );
    let text = unpacked(&path);
    let mut out = Vec::new();
    let mut errors: BTreeMap<String, usize> = BTreeMap::new();
    let mut actions = 0;
    let lines: Vec<&str> = text.lines().step_by(17).collect();
    for line in &lines {
        out.clear();
        mapper.map(line.as_bytes(), &mut out).unwrap();
        let event: Value = serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(event["event"]["original"], *line);
        actions += usize::from(event["event"]["action"].is_string());
        for name in event["firn"]["mapping"]["errors"].as_array().into_iter().flatten() {
            *errors.entry(name.as_str().unwrap().to_owned()).or_default() += 1;
        }
        serde_json::from_slice::<UniqueKeys>(&out).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert!(
        actions * 100 > lines.len() * 98,
        "{actions} of {} have an action",
        lines.len()
    );
    assert!(errors.len() <= 2, "{errors:?}");
}

/// JSON without repeated keys in an object.
struct UniqueKeys;

impl<'de> serde::Deserialize<'de> for UniqueKeys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> serde::de::Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut elements: A) -> Result<Self, A::Error> {
        while elements.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut keys = std::collections::HashSet::new();
        while let Some((key, _)) = entries.next_entry::<String, Self>()? {
            if !keys.insert(key.clone()) {
                return Err(serde::de::Error::custom(format!("the key [{key}] is repeated")));
            }
        }
        Ok(self)
    }
}

/// Rows of the table of logstash-codec-cef that the pack maps differently, and why.
const OTHER_TARGETS: &[(&str, &str)] = &[
    ("fileHash", "file.hash is an object in the schema"),
    ("oldFileHash", "as the hash of the file"),
];

#[test]
fn all_keys_of_cef_are_mapped() {
    let Some(path) = shared("cef-ecs.tsv") else { return };
    let pack = builtin("cef").unwrap().unwrap();
    let table = std::fs::read_to_string(path).unwrap();
    let mut wrong = Vec::new();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() >= 127, "{} rows", rows.len());
    for row in &rows {
        let [name, key, target] = row.as_slice() else {
            panic!("{row:?}")
        };
        let numbered = |text: &str| text.replace("#{idx}", "1");
        for name in [numbered(name), numbered(key)] {
            if !pack.maps(&name) {
                wrong.push(format!("[{name}] is not mapped"));
            }
        }
        let target = target.replace("#{@device}", "observer");
        let is_custom = target.contains("#{idx}");
        if !is_custom
            && !pack.targets().any(|other| other == target)
            && !OTHER_TARGETS.iter().any(|(other, _)| other == name)
        {
            wrong.push(format!("[{target}] of [{name}] is no target"));
        }
        if !is_custom && !OTHER_TARGETS.iter().any(|(other, _)| other == name) && !maps_to(&pack, name, &target) {
            wrong.push(format!("[{name}] is not mapped onto [{target}]"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn maps_to(pack: &Pack, name: &str, target: &str) -> bool {
    let actions = pack
        .fields
        .find(name)
        .and_then(|field| pack.common.of(field))
        .unwrap_or_default();
    pack.actions[actions]
        .iter()
        .any(|action| pack.targets.name(action.target) == target)
}

#[test]
fn all_fields_of_generated_events_are_mapped() {
    let pack = builtin("company").unwrap().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/src/generate/types");
    let mut fields = 0;
    let mut types = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some(head) = line.strip_prefix("type ") {
                let name = head.split(' ').next().unwrap();
                types += 1;
                let has_section = pack.chooser.values.find(name).is_some();
                assert!(has_section, "type [{name}] has no section");
                continue;
            }
            let mut object: Option<&str> = None;
            for word in line.split_whitespace().take_while(|word| *word != ">") {
                if word == "}" {
                    object = None;
                } else if let Some(name) = word.strip_suffix('{') {
                    object = Some(name);
                } else {
                    let name = word.split(['=', '?', '[']).next().unwrap();
                    let name = object.map_or(name.to_owned(), |object| format!("{object}.{name}"));
                    assert!(pack.maps(&name), "[{name}] is not mapped");
                    fields += 1;
                }
            }
        }
    }
    assert!(types >= 60 && fields >= 250, "{types} types, {fields} fields");
}

/// Maps all lines of a file and returns how many have a field, and how many there are.
fn mapped_lines(file: &str, pack: &str, field: &str) -> Option<(usize, usize)> {
    let text = unpacked(&shared(file)?);
    let pack = Arc::new(builtin(pack).unwrap().unwrap());
    let mut mapper = Mapper::new(
        pack,
        &Tables::default(),
        MapOptions {
            original: true,
            received: RECEIVED,
        },
    );
    let (mut having, mut lines) = (0, 0);
    let mut out = Vec::new();
    for line in text.lines() {
        lines += 1;
        out.clear();
        if mapper.map(line.as_bytes(), &mut out).is_ok() {
            let event: Value = serde_json::from_slice(&out).unwrap();
            having += usize::from(event.pointer(field).is_some_and(|value| !value.is_null()));
        }
    }
    Some((having, lines))
}

#[test]
fn recorded_logs_are_mapped() {
    for (file, pack, field, percent) in [
        ("apache-access.log.gz", "apache", "/source/address", 100),
        ("apache-access.log.gz", "nginx", "/http/response/status_code", 99),
        ("linux-auth.log.gz", "linux-auth", "/@timestamp", 100),
        ("linux-auth.log.gz", "linux-auth", "/event/action", 70),
        ("linux-auth.log.gz", "linux-auth", "/user/name", 20),
    ] {
        if let Some((having, lines)) = mapped_lines(file, pack, field) {
            assert!(
                having * 100 >= lines * percent,
                "{pack}: {having} of {lines} lines have {field}"
            );
        }
    }
}

#[test]
fn the_pack_of_the_manual_passes_its_examples() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/pipelines.md");
    let page = std::fs::read_to_string(page).unwrap();
    let yaml = page
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    assert_eq!(run_examples(&pack(yaml)), (1, Vec::new()));
}

#[test]
fn lines_that_are_no_events_are_told_and_the_others_mapped() {
    let mut mapper = Mapper::new(pack(SMALL), &Tables::default(), MapOptions::default());
    let mut out = Vec::new();
    let mut told = Vec::new();
    let input = "{\"who\":\"a\"}\r\n\nno JSON\n{\"who\":\"b\"}";
    let totals = super::map_lines(&mut mapper, input.as_bytes(), &mut out, |line, failure| {
        told.push(format!("{line}: {failure}"))
    })
    .unwrap();
    assert_eq!((totals.events, totals.failures), (2, 1));
    assert_eq!(told, ["3: cannot parse json: expected a JSON object at byte 0"]);
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
    let mut told = Vec::new();
    let totals = super::map_lines(&mut mapper, input.as_bytes(), &mut out, |line, failure| {
        told.push((line, failure))
    })
    .unwrap();
    assert_eq!((totals.events, told), (1, vec![(1, super::LineFailure::TooLong)]));
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
