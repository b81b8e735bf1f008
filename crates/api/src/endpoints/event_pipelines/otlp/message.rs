//! Messages of OTLP logs, with the field numbers of opentelemetry-proto 1.x and its JSON encoding: 64-bit numbers may be strings,
//! ids are hexadecimal. Unknown fields are ignored, as the specification demands.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ExportLogsServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    #[serde(deserialize_with = "unsigned")]
    pub(super) time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(super) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(super) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(super) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "7")]
    pub(super) dropped_attributes_count: u32,
    #[prost(fixed32, tag = "8")]
    pub(super) flags: u32,
    #[prost(bytes = "vec", tag = "9")]
    #[serde(deserialize_with = "hexadecimal")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    #[serde(deserialize_with = "hexadecimal")]
    pub(super) span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    #[serde(deserialize_with = "unsigned")]
    pub(super) observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    pub(super) event_name: String,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct AnyValue {
    #[prost(oneof = "AnyKind", tags = "1, 2, 3, 4, 5, 6, 7")]
    #[serde(flatten)]
    pub(super) kind: Option<AnyKind>,
}

#[expect(clippy::enum_variant_names, reason = "the names of OTLP")]
#[derive(Clone, PartialEq, prost::Oneof, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum AnyKind {
    #[prost(string, tag = "1")]
    StringValue(String),
    #[prost(bool, tag = "2")]
    BoolValue(bool),
    #[prost(int64, tag = "3")]
    #[serde(deserialize_with = "signed")]
    IntValue(i64),
    #[prost(double, tag = "4")]
    DoubleValue(f64),
    #[prost(message, tag = "5")]
    ArrayValue(ArrayValue),
    #[prost(message, tag = "6")]
    KvlistValue(KeyValueList),
    #[prost(bytes = "vec", tag = "7")]
    #[serde(deserialize_with = "base64_bytes")]
    BytesValue(Vec<u8>),
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<KeyValue>,
}

/// Number of JSON: itself or a string.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Number<T> {
    Plain(T),
    Text(String),
}

fn unsigned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match Number::deserialize(deserializer)? {
        Number::Plain(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(D::Error::custom),
    }
}

fn signed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    match Number::deserialize(deserializer)? {
        Number::Plain(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(D::Error::custom),
    }
}

fn hexadecimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    bytes.ok_or_else(|| D::Error::custom("an id is not hexadecimal"))
}

fn base64_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    use base64::Engine as _;
    let text = String::deserialize(deserializer)?;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(D::Error::custom)
}
