//! Dead letters: records that cannot be parsed or indexed, with their bytes, their place and the reason.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::json_members::add_members;
use crate::mapping::dates::push_iso;
use crate::sources::SourceEvent;

/// Template of dead letters.
pub(super) const TEMPLATE: &str = "firn-dead-letters";
/// Start of the names that the template matches.
pub(super) const PREFIX: &str = "dead-letters";
/// Longest reason in a dead letter, bytes; reasons may quote the record.
const REASON_BYTES_MAX: usize = 2000;

/// Returns the dead letter of a record. `step` is the step that refused it.
pub(super) fn document(
    pipeline: &str,
    index: &str,
    partition: Option<&str>,
    event: &SourceEvent,
    step: &str,
    reason: &str,
) -> Vec<u8> {
    let mut time = String::new();
    push_iso(event.received_ns, &mut time);
    let text = String::from_utf8_lossy(&event.bytes);
    let mut letter = json!({
        "@timestamp": time,
        "event": {"kind": "pipeline_error", "original": text},
        "error": {"message": shortened(reason)},
        "firn": {"dead_letter": {"pipeline": pipeline, "step": step, "index": index}},
    });
    let place = &mut letter["firn"]["dead_letter"];
    if let Some(partition) = partition {
        place["partition"] = partition.into();
        place["offset"] = event.offset.into();
    }
    if matches!(text, std::borrow::Cow::Owned(_)) {
        // Not UTF-8: the text is not the record.
        place["base64"] = STANDARD.encode(&event.bytes).into();
    }
    let mut letter = letter.to_string().into_bytes();
    if let Some(context) = &event.context {
        add_members(&mut letter, context);
    }
    letter
}

fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

/// Returns the template of dead letters.
pub(super) fn template() -> Value {
    let keyword = || json!({"type": "keyword", "ignore_above": 1024});
    let place = json!({
        "pipeline": keyword(), "step": keyword(), "index": keyword(), "partition": keyword(), "offset": {"type": "long"},
        "base64": {"type": "keyword", "index": false, "doc_values": false},
    });
    json!({
        "index_patterns": [PREFIX, format!("{PREFIX}-*")],
        "data_stream": {},
        "template": {
            "settings": {"index.number_of_shards": 1, "index.tenant.field": "tenant"},
            "mappings": {
                "dynamic": false,
                "properties": {
                    "tenant": keyword(),
                    "event": {"properties": {"kind": keyword(), "original": {"type": "text"}}},
                    "error": {"properties": {"message": {"type": "text"}}},
                    "firn": {"properties": {"dead_letter": {"properties": place}}},
                },
            },
        },
        "_meta": {"managed": true, "description": "records that event pipelines could not parse or index"},
    })
}
