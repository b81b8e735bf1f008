//! Tests of the packs that are part of the program, with recorded records where there are some.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::{MapOptions, Mapper, Pack, builtin, builtin_names, ecs, run_examples};
use crate::tables::Tables;

const RECEIVED: Option<i64> = Some(1_795_507_200_000_000_000);

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
pub(super) struct UniqueKeys;

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
