//! Choice of the fields for the queries.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use anyhow::{Context, bail};
use firn_tools::client::{Client, encode_segment};
use firn_tools::generate::Kind;
use serde_json::{Map, Value};

use super::super::core::CoreArgs;
use super::super::events::Events;

/// Events read to learn about the fields.
const EVENTS_MAX: usize = 100_000;
/// Maximum of distinct values counted per field.
const DISTINCT_MAX: usize = 50_000;
/// Longer strings are not names.
const NAME_BYTES_MAX: f64 = 64.0;

/// The time of an event.
pub(super) const TIME: &str = "@timestamp";

/// A field and the path of its values in an event: `host.keyword` reads `host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) field: String,
    pub(super) path: String,
}

/// The fields by their use.
#[derive(Debug, Clone)]
pub(super) struct Roles {
    /// The owner of an event: most queries are for one of its values.
    pub(super) tenant: Role,
    /// Few values, such as kinds of event.
    pub(super) few: Role,
    /// Many values, such as addresses.
    pub(super) many: Role,
    /// Names made of letters and digits, for wildcards.
    pub(super) code: Role,
    /// A whole number with few values.
    pub(super) number: Role,
    /// Sentences.
    pub(super) text: Role,
}

impl Role {
    fn new(field: &str) -> Self {
        Self {
            field: field.to_owned(),
            path: field.strip_suffix(".keyword").unwrap_or(field).to_owned(),
        }
    }
}

/// Returns the types of an index's fields by full path, including multi-fields.
pub(super) fn types(client: &Client, index: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let answer = client.json("GET", &format!("/{}/_mapping", encode_segment(index)), None)?;
    let properties = answer.as_object().and_then(|indices| indices.values().next());
    let properties = properties
        .and_then(|index| index.pointer("/mappings/properties"))
        .and_then(Value::as_object)
        .with_context(|| format!("{index} has no mapping"))?;
    let mut types = BTreeMap::new();
    gather("", properties, &mut types);
    Ok(types)
}

fn gather(prefix: &str, properties: &Map<String, Value>, types: &mut BTreeMap<String, String>) {
    for (name, field) in properties {
        let path = format!("{prefix}{name}");
        if let Some(kind) = field.get("type").and_then(Value::as_str) {
            types.insert(path.clone(), kind.to_owned());
        }
        for inner in ["properties", "fields"] {
            if let Some(inner) = field.get(inner).and_then(Value::as_object) {
                gather(&format!("{path}."), inner, types);
            }
        }
    }
}

/// The fields of web logs are known; those of other events are chosen by their values.
pub(super) fn choose(args: &CoreArgs, types: &BTreeMap<String, String>) -> anyhow::Result<Roles> {
    if args.file.is_none() && args.kind == Kind::Weblog {
        return Ok(Roles {
            tenant: Role::new("tenant"),
            few: Role::new("method"),
            many: Role::new("client_ip"),
            code: Role::new("session"),
            number: Role::new("status"),
            text: Role::new("message"),
        });
    }
    let seen = look(args)?;
    let found = |kinds: &[&str], fits: &dyn Fn(&Seen) -> bool, worth: &dyn Fn(&Seen) -> f64| -> Option<Role> {
        types
            .iter()
            .filter(|(field, kind)| kinds.contains(&kind.as_str()) && *field != TIME)
            .filter_map(|(field, _)| {
                let role = Role::new(field);
                let seen = seen.get(&role.path).filter(|seen| fits(seen))?;
                Some((worth(seen), role))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, role)| role)
    };
    const NAMES: &[&str] = &["keyword", "ip"];
    let within = |range: std::ops::RangeInclusive<usize>| {
        move |seen: &Seen| range.contains(&seen.distinct.len()) && seen.bytes_mean() <= NAME_BYTES_MAX
    };
    let often = |seen: &Seen| seen.events as f64;
    let few = found(NAMES, &within(3..=64), &often);
    let many = found(NAMES, &within(200..=DISTINCT_MAX), &|seen| seen.distinct.len() as f64);
    let tenant = found(NAMES, &within(4..=2000), &|seen| {
        seen.events as f64 + seen.distinct.len().min(100) as f64
    });
    let number = found(&["long", "integer"], &within(4..=2000), &often);
    let text = found(&["text"], &|_| true, &|seen| seen.bytes as f64);
    let (Some(tenant), Some(few), Some(many), Some(number), Some(text)) = (tenant, few, many, number, text) else {
        bail!("the events have too few kinds of field for the queries");
    };
    Ok(Roles {
        tenant,
        few,
        code: many.clone(),
        many,
        number,
        text,
    })
}

/// Statistics of a field's values.
#[derive(Default)]
struct Seen {
    events: usize,
    bytes: usize,
    /// Hashes of its values, up to [`DISTINCT_MAX`].
    distinct: HashSet<u64>,
}

impl Seen {
    fn bytes_mean(&self) -> f64 {
        self.bytes as f64 / self.events.max(1) as f64
    }
}

fn look(args: &CoreArgs) -> anyhow::Result<BTreeMap<String, Seen>> {
    let mut events = Events::open(args)?;
    let hashes = RandomState::new();
    let mut all: BTreeMap<String, Seen> = BTreeMap::new();
    let mut line = Vec::new();
    for _ in 0..EVENTS_MAX {
        line.clear();
        if !events.next(&mut line)? {
            break;
        }
        let event: Value = serde_json::from_slice(&line).context("an event is not JSON")?;
        visit("", &event, &mut |path, value| {
            let seen = match all.get_mut(path) {
                Some(seen) => seen,
                None => all.entry(path.to_owned()).or_default(),
            };
            seen.events += 1;
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            seen.bytes += text.len();
            if seen.distinct.len() < DISTINCT_MAX {
                seen.distinct.insert(hashes.hash_one(&text));
            }
        });
    }
    Ok(all)
}

/// Calls `each` with every value that is not an object, by path.
fn visit(path: &str, value: &Value, each: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match path {
                    "" => visit(name, value, each),
                    _ => visit(&format!("{path}.{name}"), value, each),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| visit(path, value, each)),
        Value::Null => {}
        value => each(path, value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mappings_are_flattened() {
        let properties = json!({
            "a": {"properties": {"b": {"type": "long"}}},
            "c": {"type": "text", "fields": {"keyword": {"type": "keyword"}}}
        });
        let mut types = BTreeMap::new();
        gather("", properties.as_object().unwrap(), &mut types);
        let flat: Vec<_> = types.iter().map(|(path, kind)| format!("{path} {kind}")).collect();
        assert_eq!(flat, ["a.b long", "c text", "c.keyword keyword"]);
        assert_eq!(Role::new("c.keyword").path, "c");
    }

    #[test]
    fn values_are_visited_by_path() {
        let mut seen = Vec::new();
        visit(
            "",
            &json!({"a": {"b": [1, {"c": "x"}]}, "d": null}),
            &mut |path, value| {
                seen.push(format!("{path}={value}"));
            },
        );
        assert_eq!(seen, ["a.b=1", "a.b.c=\"x\""]);
    }
}
