//! Alerts: the document of a match.
//!
//! An alert is a copy of the event, without its record, with ECS's fields of the rule and, under `firn.alert`, its state and
//! where the event is.

use firn_model::dates::{DateFormat, Zone};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::definition::{DetectionRule, EscalationStep};

/// Longest copy of an event, in bytes of JSON. A longer one is left out; the link to the event stays.
const EVENT_BYTES_MAX: usize = 32 << 10;

/// Most values of a field in `group_by`, and the longest one in bytes. The group itself is made of all.
const GROUP_VALUES_MAX: usize = 100;
const GROUP_VALUE_BYTES_MAX: usize = 1024;

/// Where an event comes from.
#[derive(Debug, Clone, Copy)]
pub struct EventPlace<'e> {
    /// Id of the pipeline.
    pub pipeline: &'e str,
    /// Partition of its source, if it has any.
    pub partition: Option<&'e str>,
    /// Offset in the partition.
    pub offset: u64,
    /// Tenant of the event.
    pub tenant: Option<&'e str>,
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of the parts, which are set apart.
pub(crate) fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the alert of a rule that matched an event. `detected` is the time of the detection (RFC 3339), `channels` are those that
/// deliver the alert.
pub fn alert(
    rule: &DetectionRule,
    event: &Map<String, Value>,
    place: EventPlace<'_>,
    detected: &str,
    channels: &[&str],
) -> Map<String, Value> {
    let source = &rule.rule;
    let group_by: Map<String, Value> = rule
        .group_by
        .iter()
        .map(|field| (field.clone(), values_of(event, field).into()))
        .collect();
    let group = hash(&[
        &source.id,
        place.tenant.unwrap_or_default(),
        &Value::Object(group_by.clone()).to_string(),
    ]);
    let group_by = shortened(group_by);
    let offset = place.offset.to_string();
    let partition = place.partition.unwrap_or_default();
    // Of the event only scalars: an alert whose own fields have other shapes would be rejected by each index.
    let time = event
        .get("@timestamp")
        .filter(|time| time.is_string() || time.is_number());
    let mut link = json!({"time": time, "pipeline": place.pipeline});
    if !partition.is_empty() {
        link["partition"] = partition.into();
        link["offset"] = place.offset.into();
    }
    let kind = event.get("event").and_then(|event| event.get("kind"));
    if let Some(kind) = kind.and_then(Value::as_str) {
        link["kind"] = kind.into();
    }
    let mut document = copy_of(event);
    document.insert("@timestamp".to_owned(), detected.into());
    let mut of_event = match document.remove("event") {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    };
    of_event.insert("kind".to_owned(), "signal".into());
    document.insert("event".to_owned(), of_event.into());
    document.insert("rule".to_owned(), rule_members(rule));
    if let Some(threat) = threat(&source.tags) {
        document.insert("threat".to_owned(), threat);
    }
    match place.tenant {
        Some(tenant) => document.insert("tenant".to_owned(), tenant.into()),
        // What the event has there names no tenant.
        None => document.remove("tenant"),
    };
    let mut state = json!({
        "status": "open",
        "severity": source.severity.name(),
        "risk_score": rule.risk_score,
        "rule_version": rule.version,
        "group": group,
        "group_by": group_by,
        "count": 1,
        "event": link,
        "pending": channels,
    });
    add_escalation(rule, detected, &mut state);
    if !partition.is_empty() {
        // The same after a repetition of the batch.
        state["id"] = hash(&[&source.id, place.pipeline, partition, &offset]).into();
    }
    document.insert("firn".to_owned(), json!({ "alert": state }));
    document
}

/// Adds when the alert goes to further channels if it is not acknowledged.
fn add_escalation(rule: &DetectionRule, detected: &str, state: &mut Value) {
    let format = DateFormat::default_millis();
    let Ok(detected_ms) = format.parse_ms(detected) else {
        return;
    };
    let step = |step: &EscalationStep| {
        let at = format.print_ms(detected_ms.saturating_add_unsigned(step.after_ms), &Zone::utc());
        json!({"at": at, "channels": step.channels})
    };
    let steps: Vec<Value> = rule.escalation.iter().map(step).collect();
    if let Some(first) = steps.first() {
        state["escalate_at"] = first["at"].clone();
        state["escalation"] = steps.into();
    }
}

/// Shortens the values of a group to what an index takes as a term.
fn shortened(mut group_by: Map<String, Value>) -> Map<String, Value> {
    for values in group_by.values_mut().filter_map(Value::as_array_mut) {
        values.truncate(GROUP_VALUES_MAX);
        for value in values {
            if let Value::String(text) = value {
                text.truncate(text.floor_char_boundary(GROUP_VALUE_BYTES_MAX));
            }
        }
    }
    group_by
}

/// Returns the group of an alert.
pub fn group_of(alert: &Map<String, Value>) -> &str {
    alert["firn"]["alert"]["group"].as_str().unwrap_or_default()
}

/// Returns the copy of an event that its alert holds.
fn copy_of(event: &Map<String, Value>) -> Map<String, Value> {
    let mut copy = event.clone();
    copy.remove("firn");
    if let Some(Value::Object(of_event)) = copy.get_mut("event") {
        of_event.remove("original");
    }
    match serde_json::to_vec(&copy) {
        Ok(printed) if printed.len() <= EVENT_BYTES_MAX => copy,
        _ => Map::new(),
    }
}

/// Returns an alert without its copy of the event, for an index that takes no other.
pub fn without_event(alert: &Map<String, Value>) -> Map<String, Value> {
    let names = ["@timestamp", "rule", "threat", "tenant", "firn"];
    let members = alert.iter().filter(|(name, _)| names.contains(&name.as_str()));
    let mut reduced: Map<String, Value> = members.map(|(name, value)| (name.clone(), value.clone())).collect();
    reduced.insert("event".to_owned(), json!({"kind": "signal"}));
    reduced
}

fn rule_members(rule: &DetectionRule) -> Value {
    let source = &rule.rule;
    let mut members = json!({"id": source.id, "name": source.title});
    if !source.description.is_empty() {
        members["description"] = source.description.as_str().into();
    }
    if let Some(author) = &source.author {
        members["author"] = author.as_str().into();
    }
    if let Some(reference) = source.references.first() {
        members["reference"] = reference.as_str().into();
    }
    members
}

/// Returns ECS's `threat` for tags such as `attack.t1059.001` and `attack.defense_evasion`.
fn threat(tags: &[String]) -> Option<Value> {
    let of_attack = tags.iter().filter_map(|tag| tag.strip_prefix("attack."));
    let is_technique = |name: &&str| {
        let digits = name.strip_prefix('t').unwrap_or_default();
        digits.starts_with(|first: char| first.is_ascii_digit())
    };
    let (techniques, tactics): (Vec<&str>, Vec<&str>) = of_attack.partition(is_technique);
    if techniques.is_empty() && tactics.is_empty() {
        return None;
    }
    let techniques: Vec<String> = techniques.iter().map(|name| name.to_ascii_uppercase()).collect();
    let tactics: Vec<String> = tactics.iter().map(|name| name.replace(['_', '-'], " ")).collect();
    Some(json!({
        "framework": "MITRE ATT&CK",
        "technique": {"id": techniques},
        "tactic": {"name": tactics},
    }))
}

/// Returns the values of a field, by its path with dots: its objects may be nested, or have names with dots.
pub fn values_of(object: &Map<String, Value>, path: &str) -> Vec<String> {
    let mut values = Vec::new();
    collect(object, path, &mut values);
    values
}

fn collect(object: &Map<String, Value>, path: &str, values: &mut Vec<String>) {
    if let Some(value) = object.get(path) {
        scalars(value, values);
    }
    for (at, _) in path.match_indices('.') {
        match object.get(&path[..at]) {
            Some(Value::Object(inner)) => collect(inner, &path[at + 1..], values),
            Some(Value::Array(items)) => {
                for item in items {
                    if let Value::Object(inner) = item {
                        collect(inner, &path[at + 1..], values);
                    }
                }
            }
            _ => {}
        }
    }
}

fn scalars(value: &Value, values: &mut Vec<String>) {
    match value {
        Value::Null | Value::Object(_) => {}
        Value::Bool(_) | Value::Number(_) => values.push(value.to_string()),
        Value::String(text) => values.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| scalars(item, values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_is_the_event_with_its_rule() {
        let body = json!({
            "type": "query", "name": "Root", "query": "user.name: root", "severity": "high", "group_by": ["host.name", "x.y"],
            "tags": ["attack.t1059.001", "attack.defense_evasion", "cve.2021-1"], "channels": ["mail"],
            "escalation": [{"after": "1h", "channels": ["boss"]}, {"after": "15m", "channels": ["phone"]}],
        });
        let rule = DetectionRule::parse("root", body.as_object().unwrap()).unwrap();
        let event = json!({
            "@timestamp": "2026-01-01T00:00:00Z", "event": {"kind": "event", "original": "text", "action": "logon"},
            "host.name": "a", "user": {"name": "root"}, "x": [{"y": 1}, {"y": [true, "z"]}], "rule": {"name": "of a firewall"},
            "firn": {"mapping": {}},
        });
        let place = EventPlace {
            pipeline: "p",
            partition: Some("f"),
            offset: 7,
            tenant: Some("alpha"),
        };
        let made = alert(
            &rule,
            event.as_object().unwrap(),
            place,
            "2026-01-02T00:00:00Z",
            &["mail"],
        );
        let state = &made["firn"]["alert"];
        assert_eq!(state["escalate_at"], "2026-01-02T00:15:00.000Z");
        assert_eq!(
            state["escalation"][1],
            json!({"at": "2026-01-02T01:00:00.000Z", "channels": ["boss"]})
        );
        assert_eq!(made["event"], json!({"kind": "signal", "action": "logon"}));
        assert_eq!(made["rule"], json!({"id": "root", "name": "Root"}));
        assert_eq!(made["threat"]["technique"]["id"], json!(["T1059.001"]));
        assert_eq!(made["threat"]["tactic"]["name"], json!(["defense evasion"]));
        assert_eq!(
            (&made["user"]["name"], &made["tenant"]),
            (&json!("root"), &json!("alpha"))
        );
        assert_eq!(
            state["group_by"],
            json!({"host.name": ["a"], "x.y": ["1", "true", "z"]})
        );
        assert_eq!(state["pending"], json!(["mail"]));
        let link =
            json!({"time": "2026-01-01T00:00:00Z", "pipeline": "p", "partition": "f", "offset": 7, "kind": "event"});
        assert_eq!(state["event"], link);

        // The same event again has the same id; another one of the group has another.
        let again = alert(&rule, event.as_object().unwrap(), place, "2026-01-03T00:00:00Z", &[]);
        assert_eq!(again["firn"]["alert"]["id"], state["id"]);
        let next = alert(
            &rule,
            event.as_object().unwrap(),
            EventPlace { offset: 8, ..place },
            "2026-01-03T00:00:00Z",
            &[],
        );
        assert_ne!(next["firn"]["alert"]["id"], state["id"]);
        assert_eq!(group_of(&next), group_of(&made));
        let other = EventPlace {
            tenant: Some("bravo"),
            ..place
        };
        assert_ne!(
            group_of(&alert(&rule, event.as_object().unwrap(), other, "", &[])),
            group_of(&made)
        );

        // What the event has under names of the alert's own fields is not taken if it has another shape.
        let strange = json!({
            "@timestamp": {"a": 1}, "event": {"kind": {"b": 2}}, "tenant": {"id": 3}, "host.name": "x".repeat(2000),
        });
        let untenanted = EventPlace { tenant: None, ..place };
        let made = alert(
            &rule,
            strange.as_object().unwrap(),
            untenanted,
            "2026-01-02T00:00:00Z",
            &[],
        );
        let state = &made["firn"]["alert"];
        assert!(made.get("tenant").is_none() && without_event(&made).get("tenant").is_none());
        assert_eq!(
            (&state["event"]["time"], state["event"].get("kind")),
            (&Value::Null, None)
        );
        assert_eq!(state["group_by"]["host.name"][0].as_str().unwrap().len(), 1024);

        let mut long = event.as_object().unwrap().clone();
        long.insert("text".to_owned(), "x".repeat(EVENT_BYTES_MAX).into());
        let made = alert(&rule, &long, place, "", &[]);
        assert!(made.get("user").is_none() && made["firn"]["alert"]["event"] == link);
    }
}
