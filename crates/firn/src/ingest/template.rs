//! A data stream needs an index template; this makes one where none matches.

use serde_json::{Value, json};

use crate::client::{Client, encode_segment};

/// Below the priority of templates that people make for the same names (Elasticsearch's own
/// built-in templates have 100).
const PRIORITY: u32 = 100;

/// A template for events, in the spirit of Elasticsearch's built-in `logs`: texts are keywords,
/// so that they sort and aggregate, `message` is searched by its words, addresses are addresses.
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

/// Makes the data stream if nothing has its name: from a template that matches, else from one of
/// our own. Without it the first bulk would make a plain index of that name, which nobody asked
/// for. Returns what the user should know.
pub(super) fn ensure_data_stream(client: &Client, name: &str) -> anyhow::Result<Option<String>> {
    let encoded = encode_segment(name);
    match client.exists_if_told(&format!("/{encoded}"))? {
        Some(true) => return Ok(None),
        Some(false) => {}
        // A key that may only send.
        None => {
            return Ok(Some(format!(
                "these credentials may not look at {name} (403): events are sent to whatever it is; if it is not there, an index \
                 template has to say that it is a data stream"
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
        "no index template matches the data stream {name}: made the template {name} (texts as keyword, message as text)"
    )))
}
