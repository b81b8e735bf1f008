//! Splunk's HTTP Event Collector, by its published protocol: `/services/collector`.
//!
//! A token is an API key of firn (`Authorization: Splunk KEY`). Events go to the pipeline with the source `splunk_hec` that the
//! caller may write to; if there are several, an event's `index` names the index of one. An answer of 200 means that all events
//! are stored durably, so there are no acknowledgements to ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use firn_engine::{Error, ErrorKind};
use firn_pipeline::definition::{Definition, SourceDefinition};
use firn_pipeline::runner::PushedEvent;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::events::{lines, pipelines_of};
use super::runner;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANO_DIGITS: usize = 9;

/// Parameters of the raw endpoint.
pub(crate) const RAW_PARAMS: &[&str] = &["channel", "host", "index", "source", "sourcetype", "time"];
/// Parameters of the event endpoint.
pub(crate) const EVENT_PARAMS: &[&str] = &["channel"];

/// Refusal with Splunk's status, code and text.
struct Refusal {
    status: StatusCode,
    code: u8,
    text: String,
    /// Number of the event in the request, from 0.
    invalid_event: Option<usize>,
}

/// What the protocol carries beside an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Envelope<'a> {
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    host: Option<String>,
    source: Option<String>,
    sourcetype: Option<String>,
    index: Option<String>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    fields: Option<Map<String, Value>>,
}

/// `POST /services/collector` and `/services/collector/event`: JSON objects one after another.
pub(crate) async fn event(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    store(&edge, &call, |pipelines| {
        let mut by_pipeline = BTreeMap::new();
        let envelopes = serde_json::Deserializer::from_slice(&call.body).into_iter::<Envelope<'_>>();
        for (number, envelope) in envelopes.enumerate() {
            let refuse = |code, text: &str| refusal(StatusCode::BAD_REQUEST, code, text, Some(number));
            let envelope = envelope.map_err(|_| refuse(6, "Invalid data format"))?;
            let event = envelope
                .event
                .filter(|event| event.get() != "null")
                .ok_or_else(|| refuse(12, "Event field is required"))?;
            if event.get() == "\"\"" {
                return Err(refuse(13, "Event field cannot be blank"));
            }
            let (id, definition) =
                pick(pipelines, envelope.index.as_deref()).ok_or_else(|| refuse(7, "Incorrect index"))?;
            let time_ns = match envelope.time {
                Some(time) => Some(nanos(time.get()).ok_or_else(|| refuse(6, "Invalid data format"))?),
                None => None,
            };
            let pushed = PushedEvent {
                bytes: record(event.get(), definition).map_err(|_| refuse(6, "Invalid data format"))?,
                time_ns,
                context: envelope.context(),
            };
            by_pipeline.entry(id.clone()).or_insert_with(Vec::new).push(pushed);
        }
        Ok(by_pipeline)
    })
    .await
}

/// `POST /services/collector/raw`: each line is an event; parameters stand for the members of the JSON form.
pub(crate) async fn raw(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let text = |name: &str| call.params.get(name).map(str::to_owned);
    let envelope = Envelope {
        host: text("host"),
        source: text("source"),
        sourcetype: text("sourcetype"),
        index: text("index"),
        ..Envelope::default()
    };
    store(&edge, &call, |pipelines| {
        let refuse = |code, text: &str| refusal(StatusCode::BAD_REQUEST, code, text, None);
        let (id, definition) =
            pick(pipelines, envelope.index.as_deref()).ok_or_else(|| refuse(7, "Incorrect index"))?;
        let time_ns = match call.params.get("time") {
            Some(time) => Some(nanos(time).ok_or_else(|| refuse(6, "Invalid data format"))?),
            None => None,
        };
        let context = envelope.context();
        let pushed = |line: Bytes| PushedEvent {
            bytes: match definition.pack {
                Some(_) => line,
                None => message(&String::from_utf8_lossy(&line)),
            },
            time_ns,
            context: context.clone(),
        };
        let events: Vec<PushedEvent> = lines(&call.body).into_iter().map(pushed).collect();
        Ok(BTreeMap::from_iter((!events.is_empty()).then(|| (id.clone(), events))))
    })
    .await
}

/// `GET /services/collector/health`.
pub(crate) async fn health(edge: Arc<Edge>, _: Call) -> Result<Reply, ApiError> {
    runner(&edge)?;
    Ok(Reply::ok(&json!({"text": "HEC is healthy", "code": 17})))
}

/// `POST /services/collector/ack`. An answer of 200 is the acknowledgement.
pub(crate) async fn ack(_: Arc<Edge>, _: Call) -> Result<Reply, ApiError> {
    Ok(refusal(StatusCode::BAD_REQUEST, 14, "ACK is disabled", None).reply())
}

/// Stores the events that `read` finds, by the ids of their pipelines. Nothing is stored if one of them is refused.
async fn store(
    edge: &Edge,
    call: &Call,
    read: impl FnOnce(&[(String, Arc<Definition>)]) -> Result<BTreeMap<String, Vec<PushedEvent>>, Refusal>,
) -> Result<Reply, ApiError> {
    let runner = Arc::clone(runner(edge)?);
    let pipelines = pipelines_of(&runner, call, &SourceDefinition::SplunkHec {});
    if pipelines.is_empty() {
        return Ok(refusal(StatusCode::BAD_REQUEST, 7, "Incorrect index", None).reply());
    }
    if let Err(error) = edge.check_events(call).await {
        return Ok(of_error(&error).reply());
    }
    let by_pipeline = match read(&pipelines) {
        Ok(by_pipeline) if by_pipeline.is_empty() => {
            return Ok(refusal(StatusCode::BAD_REQUEST, 5, "No data", None).reply());
        }
        Ok(by_pipeline) => by_pipeline,
        Err(refusal) => return Ok(refusal.reply()),
    };
    let count = by_pipeline.values().map(Vec::len).sum::<usize>() as u64;
    let admitted = edge.admit_events(&call.ctx, count, call.body.len() as u64).await;
    if let Err(error) = admitted {
        return Ok(of_error(&error).reply());
    }
    // As one body: a shipper that is refused sends it again as a whole.
    if let Err(error) = runner.submit_all(by_pipeline.into_iter().collect()).await {
        return Ok(of_error(&error).reply());
    }
    Ok(Reply::ok(&json!({"text": "Success", "code": 0})))
}

/// Returns the pipeline of an event: the one whose index it names, or the only one.
fn pick<'a>(pipelines: &'a [(String, Arc<Definition>)], index: Option<&str>) -> Option<&'a (String, Arc<Definition>)> {
    match (index, pipelines) {
        (Some(index), _) => pipelines.iter().find(|(_, definition)| definition.index == index),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// Returns the record of an event: the text of a string, the JSON of another value. Without a pack it is an object.
fn record(event: &str, definition: &Definition) -> serde_json::Result<Bytes> {
    let text = match event.starts_with('"') {
        true => Some(serde_json::from_str::<String>(event)?),
        false => None,
    };
    Ok(match (text, &definition.pack) {
        (Some(text), Some(_)) => text.into(),
        (Some(text), None) => message(&text),
        (None, None) if !event.starts_with('{') => message(event),
        (None, _) => Bytes::copy_from_slice(event.as_bytes()),
    })
}

fn message(text: &str) -> Bytes {
    json!({ "message": text }).to_string().into()
}

/// Reads seconds since the epoch, with an optional fraction, as a number or a string.
fn nanos(time: &str) -> Option<i64> {
    let time = time.trim_matches('"').trim();
    let (seconds, fraction) = time.split_once('.').unwrap_or((time, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let mut digits = fraction.get(..NANO_DIGITS.min(fraction.len()))?.to_owned();
    while digits.len() < NANO_DIGITS {
        digits.push('0');
    }
    let seconds = seconds.parse::<i64>().ok()?.checked_mul(NANOS_PER_SECOND)?;
    seconds.checked_add(digits.parse().ok()?)
}

impl Envelope<'_> {
    fn context(&self) -> Option<Bytes> {
        let mut members = Map::new();
        for (name, value) in [
            ("host", &self.host),
            ("source", &self.source),
            ("sourcetype", &self.sourcetype),
        ] {
            if let Some(value) = value {
                members.insert(name.to_owned(), value.as_str().into());
            }
        }
        if let Some(fields) = &self.fields {
            members.insert("fields".to_owned(), fields.clone().into());
        }
        (!members.is_empty()).then(|| format!("\"splunk\":{}", Value::Object(members)).into())
    }
}

fn refusal(status: StatusCode, code: u8, text: &str, invalid_event: Option<usize>) -> Refusal {
    Refusal {
        status,
        code,
        text: text.to_owned(),
        invalid_event,
    }
}

/// Splunk's status and code of an error of firn; the text has firn's reason.
fn of_error(error: &Error) -> Refusal {
    let (status, code, text) = match error.kind() {
        ErrorKind::Rejected
        | ErrorKind::QuotaExceeded
        | ErrorKind::CircuitBreaking
        | ErrorKind::DiskFull
        | ErrorKind::IndexBlocked
        | ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, 9, "Server is busy"),
        ErrorKind::Forbidden => (StatusCode::FORBIDDEN, 4, "Invalid token"),
        ErrorKind::ResourceNotFound | ErrorKind::IllegalArgument => (StatusCode::BAD_REQUEST, 7, "Incorrect index"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, 8, "Internal server error"),
    };
    refusal(status, code, &format!("{text}: {}", error.reason()), None)
}

impl Refusal {
    fn reply(&self) -> Reply {
        let mut body = json!({"text": self.text, "code": self.code});
        if let Some(number) = self.invalid_event {
            body["invalid-event-number"] = number.into();
        }
        Reply::json(self.status, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_fractions() {
        let check = |time: &str, expect: Option<i64>| assert_eq!(nanos(time), expect, "{time}");
        check("1426279439", Some(1_426_279_439_000_000_000));
        check("\"1433188255.253\"", Some(1_433_188_255_253_000_000));
        check("1433188255.2530000019", Some(1_433_188_255_253_000_001));
        check("0", Some(0));
        for bad in ["", "\"\"", "-1", "1e9", "now", ".5", "1.2.3", "99999999999"] {
            check(bad, None);
        }
    }
}
