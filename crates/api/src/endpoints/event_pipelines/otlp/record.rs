//! Records that a pipeline maps: one JSON object for each log record, with its resource and its scope.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_pipeline::runner::PushedEvent;
use serde_json::{Map, Value, json};

use super::message::{AnyKind, AnyValue, ExportLogsServiceRequest, InstrumentationScope, KeyValue, LogRecord};

/// Returns the events of a request in its order.
pub(super) fn events(request: &ExportLogsServiceRequest) -> Vec<PushedEvent> {
    let mut events = Vec::new();
    for resource_logs in &request.resource_logs {
        let attributes = resource_logs.resource.iter().flat_map(|resource| &resource.attributes);
        let resource = object(attributes);
        for scope_logs in &resource_logs.scope_logs {
            let scope = scope_logs.scope.as_ref().map(scope);
            for record in &scope_logs.log_records {
                events.push(event(record, &resource, scope.as_ref()));
            }
        }
    }
    events
}

fn event(record: &LogRecord, resource: &Map<String, Value>, scope: Option<&Value>) -> PushedEvent {
    let mut object_of_record = Map::new();
    let mut set = |name: &str, value: Value| {
        let is_absent = match &value {
            Value::String(text) => text.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Number(number) => number.as_u64() == Some(0),
            Value::Null => true,
            _ => false,
        };
        if !is_absent {
            object_of_record.insert(name.to_owned(), value);
        }
    };
    set("timeUnixNano", record.time_unix_nano.into());
    set("observedTimeUnixNano", record.observed_time_unix_nano.into());
    set("severityNumber", record.severity_number.into());
    set("severityText", record.severity_text.as_str().into());
    set("body", record.body.as_ref().map_or(Value::Null, value));
    set("attributes", object(&record.attributes).into());
    set("droppedAttributesCount", record.dropped_attributes_count.into());
    set("flags", record.flags.into());
    set("traceId", hexadecimal(&record.trace_id).into());
    set("spanId", hexadecimal(&record.span_id).into());
    set("eventName", record.event_name.as_str().into());
    if !resource.is_empty() {
        set("resource", json!({ "attributes": resource }));
    }
    set("scope", scope.cloned().unwrap_or_default());
    // By the specification, the time of observation stands for a time that is unknown.
    let time = [record.time_unix_nano, record.observed_time_unix_nano]
        .into_iter()
        .find(|time| *time > 0);
    PushedEvent {
        bytes: Value::Object(object_of_record).to_string().into(),
        time_ns: time.and_then(|time| i64::try_from(time).ok()),
        context: None,
    }
}

fn scope(scope: &InstrumentationScope) -> Value {
    let mut members = Map::new();
    for (name, text) in [("name", &scope.name), ("version", &scope.version)] {
        if !text.is_empty() {
            members.insert(name.to_owned(), text.as_str().into());
        }
    }
    if !scope.attributes.is_empty() {
        members.insert("attributes".to_owned(), object(&scope.attributes).into());
    }
    members.into()
}

fn object<'a>(attributes: impl IntoIterator<Item = &'a KeyValue>) -> Map<String, Value> {
    let member = |attribute: &KeyValue| {
        (
            attribute.key.clone(),
            attribute.value.as_ref().map_or(Value::Null, value),
        )
    };
    attributes.into_iter().map(member).collect()
}

fn value(any: &AnyValue) -> Value {
    match &any.kind {
        None => Value::Null,
        Some(AnyKind::StringValue(text)) => text.as_str().into(),
        Some(AnyKind::BoolValue(flag)) => (*flag).into(),
        Some(AnyKind::IntValue(number)) => (*number).into(),
        // JSON has no number for infinities and NaN.
        Some(AnyKind::DoubleValue(number)) if !number.is_finite() => number.to_string().into(),
        Some(AnyKind::DoubleValue(number)) => (*number).into(),
        Some(AnyKind::ArrayValue(array)) => array.values.iter().map(value).collect(),
        Some(AnyKind::KvlistValue(list)) => object(&list.values).into(),
        Some(AnyKind::BytesValue(bytes)) => STANDARD.encode(bytes).into(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn json_and_protobuf_give_the_same_records() {
        let json = json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeLogs": [{
                "scope": {"name": "app", "version": "1"},
                "logRecords": [
                    {
                        "timeUnixNano": "1544712660300000000", "observedTimeUnixNano": 1_544_712_660_300_000_001_u64,
                        "severityNumber": 10, "severityText": "INFO", "traceId": "5B8EFFF798038103D269B633813FC60C",
                        "spanId": "EEE19B7EC3C1B174", "body": {"stringValue": "hello"}, "unknown": 1,
                        "attributes": [
                            {"key": "n", "value": {"intValue": "10"}}, {"key": "f", "value": {"doubleValue": 0.5}},
                            {"key": "b", "value": {"boolValue": true}}, {"key": "raw", "value": {"bytesValue": "AAE="}},
                            {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": 2}]}}},
                            {"key": "map", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}}},
                            {"key": "none", "value": {}},
                        ],
                    },
                    {"observedTimeUnixNano": "7", "body": {"kvlistValue": {"values": []}}},
                ],
            }],
        }]});
        let request: ExportLogsServiceRequest = serde_json::from_value(json).unwrap();
        let decoded = ExportLogsServiceRequest::decode(&*request.encode_to_vec()).unwrap();
        assert_eq!(decoded, request);
        let events = events(&decoded);
        let first: Value = serde_json::from_slice(&events[0].bytes).unwrap();
        assert_eq!(
            first,
            json!({
                "timeUnixNano": 1_544_712_660_300_000_000_u64, "observedTimeUnixNano": 1_544_712_660_300_000_001_u64,
                "severityNumber": 10, "severityText": "INFO", "body": "hello",
                "attributes": {"n": 10, "f": 0.5, "b": true, "raw": "AAE=", "list": ["a", 2], "map": {"k": "v"}, "none": null},
                "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
                "resource": {"attributes": {"service.name": "shop"}}, "scope": {"name": "app", "version": "1"},
            })
        );
        assert_eq!(events[0].time_ns, Some(1_544_712_660_300_000_000));
        let second: Value = serde_json::from_slice(&events[1].bytes).unwrap();
        assert_eq!(second["observedTimeUnixNano"], 7);
        assert_eq!(events[1].time_ns, Some(7));
    }

    #[test]
    fn deep_values_are_refused() {
        let mut value = AnyValue {
            kind: Some(AnyKind::StringValue("deep".to_owned())),
        };
        for _ in 0..300 {
            let values = vec![value];
            value = AnyValue {
                kind: Some(AnyKind::ArrayValue(super::super::message::ArrayValue { values })),
            };
        }
        let record = LogRecord {
            body: Some(value),
            ..LogRecord::default()
        };
        assert!(LogRecord::decode(&*record.encode_to_vec()).is_err());
    }
}
