//! Mapping of stored events again: the record that an event keeps in `event.original` goes through the steps of the pipeline as
//! it is now, and what becomes of it replaces the event at its place.

use std::sync::Arc;

use bytes::Bytes;
use firn_engine::document::{BulkItem, Expectation, Operation};
use firn_model::dates::DateFormat;
use firn_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::StoredDocument;
use super::json_members::member;
use super::write::Writer;
use crate::sources::SourceEvent;

/// Object that the protocol of Splunk carries beside a record.
const CARRIED: &str = "splunk";

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemapOutcome {
    /// It is replaced.
    Remapped,
    /// It is the same as before.
    Unchanged,
    /// It was changed or removed since it was read, and is left alone.
    Conflict,
    /// It is left as it was, for this reason.
    Failed(String),
}

impl Writer {
    /// Maps events again; returns one outcome for each, in the same order.
    ///
    /// # Errors
    /// A failure that may pass: some events may be replaced. The same events can be mapped again.
    pub(super) async fn remap(self: &Arc<Self>, stored: &[StoredDocument]) -> Result<Vec<RemapOutcome>> {
        self.check_stores()?;
        let mut outcomes: Vec<Option<RemapOutcome>> = stored.iter().map(|_| None).collect();
        let mut events = Vec::new();
        for (place, document) in stored.iter().enumerate() {
            match event(place, document) {
                Ok(event) => events.push(event),
                Err(reason) => outcomes[place] = Some(RemapOutcome::Failed(reason)),
            }
        }
        let steps = Arc::clone(&self.steps);
        let documents = tokio::task::spawn_blocking(move || steps.run(None, &events)).await;
        let documents =
            documents.map_err(|_| Error::internal("the steps of a pipeline failed because of a bug, see the log"))?;
        let (mut places, mut items) = (Vec::new(), Vec::new());
        for document in documents {
            let place = document.offset as usize;
            outcomes[place] = match document.error {
                Some(reason) => Some(RemapOutcome::Failed(reason)),
                None if document.source == stored[place].source => Some(RemapOutcome::Unchanged),
                None => {
                    places.push(place);
                    items.push(replace(&stored[place], document.source));
                    None
                }
            };
        }
        let response = self.bulk(items).await?;
        for (place, item) in places.into_iter().zip(response.items) {
            outcomes[place] = Some(match item.result {
                Ok(_) => RemapOutcome::Remapped,
                Err(error) if error.kind() == ErrorKind::VersionConflict => RemapOutcome::Conflict,
                Err(error) if error.kind().is_of_document() => RemapOutcome::Failed(error.reason().to_owned()),
                Err(error) => return Err(error),
            });
        }
        let undecided = || RemapOutcome::Failed("not decided because of a bug".to_owned());
        Ok(outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(undecided))
            .collect())
    }
}

fn replace(stored: &StoredDocument, source: Bytes) -> BulkItem {
    let (seq_no, primary_term) = stored.seq_no;
    BulkItem {
        index: stored.index.clone(),
        id: Some(stored.id.clone()),
        routing: stored.routing.clone(),
        operation: Operation::Index { source },
        expect: Expectation::SeqNo { seq_no, primary_term },
        require_alias: false,
        require_data_stream: false,
    }
}

/// Makes the event of a record again; an error says what the stored one lacks. Its time of arrival is not stored: the time of the
/// event stands in for it.
fn event(place: usize, stored: &StoredDocument) -> std::result::Result<SourceEvent, String> {
    let document: Map<String, Value> = serde_json::from_slice(&stored.source).map_err(|error| error.to_string())?;
    let member = |path: &str| member(&document, path);
    if member("firn.mapping.invalid_utf8").and_then(Value::as_bool) == Some(true) {
        return Err("the record was not UTF-8, so [event.original] is not the record".to_owned());
    }
    let original = member("event.original").and_then(Value::as_str);
    let original = original.ok_or("the event keeps no record in [event.original]")?;
    let time = document.get("@timestamp").and_then(Value::as_str);
    let nanos = time.and_then(|time| DateFormat::default_millis().parse_nanos(time).ok());
    let received_ns = nanos.and_then(|nanos| i64::try_from(nanos).ok());
    let carried = document.get(CARRIED).map(|value| {
        let mut members = Map::new();
        members.insert(CARRIED.to_owned(), value.clone());
        let printed = Value::Object(members).to_string();
        Bytes::from(printed[1..printed.len() - 1].to_owned())
    });
    Ok(SourceEvent {
        bytes: Bytes::from(original.to_owned()),
        offset: place as u64,
        received_ns: received_ns.ok_or("the event has no valid [@timestamp]")?,
        context: carried,
        stored_at: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(source: Value) -> std::result::Result<SourceEvent, String> {
        event(
            0,
            &StoredDocument {
                index: "events".to_owned(),
                id: "one".to_owned(),
                routing: None,
                seq_no: (0, 1),
                source: source.to_string().into(),
            },
        )
    }

    #[test]
    fn the_record_is_the_one_that_was_received() {
        let event = read(
            json!({"@timestamp": "1970-01-01T00:00:01Z", "event": {"original": "a line"}, "splunk": {"host": "h"}}),
        );
        let event = event.unwrap();
        assert_eq!(
            (&event.bytes[..], event.received_ns),
            (b"a line".as_slice(), 1_000_000_000)
        );
        assert_eq!(event.context.unwrap(), &b"\"splunk\":{\"host\":\"h\"}"[..]);
    }

    #[test]
    fn an_event_without_its_record_says_so() {
        let check = |source: Value, words: &str| assert!(read(source).unwrap_err().contains(words));
        check(
            json!({"@timestamp": "1970-01-01T00:00:01Z", "event": {}}),
            "[event.original]",
        );
        check(json!({"event": {"original": "x"}}), "[@timestamp]");
        check(
            json!({"@timestamp": "1970-01-01T00:00:01Z", "event": {"original": "x"}, "firn": {"mapping": {"invalid_utf8": true}}}),
            "UTF-8",
        );
    }
}
