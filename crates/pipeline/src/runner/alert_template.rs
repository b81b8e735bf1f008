//! Index template of alerts.

use serde_json::{Value, json};

use crate::aggregation::TENANT_FIELD;

/// Template of alerts.
pub(super) const TEMPLATE: &str = "firn-alerts";
/// Start of the names of the data streams of alerts; the tenant follows.
pub(super) const PREFIX: &str = ".alerts-";

/// Returns the template of alerts.
pub(super) fn template() -> Value {
    let keyword = || json!({"type": "keyword", "ignore_above": 1024});
    let event = json!({
        "time": {"type": "date", "ignore_malformed": true}, "pipeline": keyword(), "partition": keyword(), "offset": {"type": "long"},
        "index": keyword(), "id": keyword(), "kind": keyword(),
    });
    let state = json!({
        "id": keyword(), "status": keyword(), "severity": keyword(), "risk_score": {"type": "short"}, "rule_version": keyword(),
        "group": keyword(), "group_by": {"type": "flattened"}, "count": {"type": "long"}, "last_event_time": {"type": "date", "ignore_malformed": true},
        "event": {"properties": event}, "maintenance_windows": keyword(), "pending": keyword(), "failed": keyword(), "resent_at": {"type": "date"},
        "window": {"properties": {
            "start": {"type": "date"}, "end": {"type": "date"}, "events": {"type": "long"}, "value": {"type": "double"},
            "baseline": {"type": "double"}, "steps": {"properties": {"name": keyword(), "time": {"type": "date"}}},
        }},
        "escalate_at": {"type": "date"}, "escalation": {"properties": {"at": {"type": "date"}, "channels": keyword()}},
        "deliveries": {"properties": {
            "channel": keyword(), "at": {"type": "date"}, "outcome": keyword(), "attempts": {"type": "long"},
            "digest": {"type": "boolean"}, "reason": {"type": "text"},
        }},
        "changed": {"properties": {"at": {"type": "date"}, "by": keyword(), "reason": {"type": "text"}}},
    });
    json!({
        "index_patterns": [format!("{PREFIX}*")],
        "data_stream": {"hidden": true},
        "template": {
            "settings": {
                "index.number_of_shards": 1, "index.tenant.field": TENANT_FIELD, "index.mapping.ignore_malformed": true,
                "index.hidden": true,
            },
            "mappings": {
                "properties": {
                    TENANT_FIELD: keyword(),
                    "event": {"properties": {"kind": keyword()}},
                    "rule": {"properties": {
                        "id": keyword(), "name": keyword(), "author": keyword(), "reference": keyword(), "description": {"type": "text"},
                    }},
                    "threat": {"properties": {
                        "framework": keyword(), "technique": {"properties": {"id": keyword()}}, "tactic": {"properties": {"name": keyword()}},
                    }},
                    "firn": {"properties": {"alert": {"properties": state}}},
                },
            },
        },
        "_meta": {"managed": true, "description": "alerts of detection rules"},
    })
}
