//! Creation of an index template for a data stream if none matches.

use serde_json::{Value, json};

use crate::client::{Client, encode_segment};

/// Below the priority of users' templates for the same names (Elasticsearch's built-in templates have 100).
const PRIORITY: u32 = 100;

/// Returns a template for events, similar to Elasticsearch's built-in `logs`: strings are keywords, so that they sort
/// and aggregate, `message` is full text, addresses are IP addresses.
fn event_template(name: &str) -> Value {
    json!({
        "index_patterns": [name],
        "priority": PRIORITY,
        "data_stream": {},
        "_meta": {"description": "made by firn ingest for a data stream without a template"},
        "template": {
            "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0},
            "mappings": {
                "dynamic_templates": [
                    {"messages": {"match_mapping_type": "string", "match": "message", "mapping": {"type": "text"}}},
                    {"addresses": {"match_mapping_type": "string", "match": "*_ip", "mapping": {"type": "ip"}}},
                    {"texts": {
                        "match_mapping_type": "string",
                        "mapping": {"type": "keyword", "ignore_above": 1024}
                    }}
                ],
                "properties": {"@timestamp": {"type": "date"}}
            }
        }
    })
}

/// Creates the data stream if its name is unused: from a matching template, else from a new one. Without it the first
/// bulk would create a plain index of that name. Returns a message for the user.
pub(super) fn ensure_data_stream(client: &Client, name: &str) -> anyhow::Result<Option<String>> {
    let encoded = encode_segment(name);
    match client.exists_if_allowed(&format!("/{encoded}"))? {
        Some(true) => return Ok(None),
        Some(false) => {}
        // An API key that may only write.
        None => {
            return Ok(Some(format!(
                "these credentials may not read {name} (403): events are sent anyway; if it does not exist, an index \
                 template must define it as a data stream"
            )));
        }
    }
    let create = format!("/_data_stream/{encoded}");
    if client.json("PUT", &create, None).is_ok() {
        return Ok(None);
    }
    client.json(
        "PUT",
        &format!("/_index_template/{encoded}"),
        Some(&event_template(name)),
    )?;
    client.json("PUT", &create, None)?;
    Ok(Some(format!(
        "no index template matches the data stream {name}: created {name} (strings as keyword, message as text)"
    )))
}
