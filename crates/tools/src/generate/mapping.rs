//! Index templates for the generated events.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Kind;
use super::event_type::{COMMON_FIELDS, event_types};
use super::value::Mapping;
use super::weblog;

/// Returns a name and the body for `PUT _index_template/<name>`: explicit types for every field that
/// [`Generator`](super::Generator) writes. Events go to data streams `events-*`, web logs to plain indices `weblog-*`.
pub fn index_template(kind: Kind) -> Result<(&'static str, Value)> {
    let mut properties = Map::new();
    let mut add = |path: &str, mapping: Mapping| {
        let mut inner = &mut properties;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                inner.insert(name.to_owned(), field(mapping));
                return;
            }
            let object = inner.entry(name).or_insert_with(|| json!({ "properties": {} }));
            let Some(Value::Object(next)) = object.get_mut("properties") else {
                return;
            };
            inner = next;
        }
    };
    match kind {
        Kind::Events => {
            for (path, mapping) in COMMON_FIELDS {
                add(path, *mapping);
            }
            for event_type in event_types()? {
                for (path, mapping) in &event_type.fields {
                    add(path, *mapping);
                }
            }
        }
        Kind::Weblog => weblog::FIELDS.iter().for_each(|(path, mapping)| add(path, *mapping)),
    }
    let mappings = json!({ "properties": properties });
    Ok(match kind {
        Kind::Events => (
            "firn-events",
            json!({
                "index_patterns": ["events-*"],
                "data_stream": {},
                "priority": 200,
                "template": { "mappings": mappings }
            }),
        ),
        Kind::Weblog => (
            "firn-weblog",
            json!({ "index_patterns": ["weblog-*"], "priority": 200, "template": { "mappings": mappings } }),
        ),
    })
}

fn field(mapping: Mapping) -> Value {
    let name = match mapping {
        // Longer values are stored and shown, but are no useful terms.
        Mapping::Keyword => return json!({ "type": "keyword", "ignore_above": 1024 }),
        Mapping::Text => "text",
        Mapping::Long => "long",
        Mapping::Double => "double",
        Mapping::Boolean => "boolean",
        Mapping::Date => "date",
        Mapping::Ip => "ip",
        Mapping::GeoPoint => "geo_point",
    };
    json!({ "type": name })
}
