//! Replay of dead letters: their records go through the steps of the pipeline as it is now; what is stored then is no letter any more.
//!
//! An event of a letter has an id that is made of the letter's. It is stored first, and its letter is removed then: if that is
//! interrupted, the next replay meets the id, and only removes the letter.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use firn_detect::without_event;
use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkRequest, BulkResponse, Expectation, Operation, Refresh};
use firn_model::dates::DateFormat;
use firn_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::detection::Draft;
use super::write::Writer;
use crate::aggregation::Sample;
use crate::sources::SourceEvent;

/// Members of a letter that are not those of its record's protocol.
const OWN_MEMBERS: [&str; 5] = ["@timestamp", "event", "error", "firn", "tenant"];
/// Bytes of an id before it is encoded.
const ID_BYTES: usize = 16;

/// A document of an index: a dead letter, or an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Concrete index.
    pub index: String,
    /// Its id.
    pub id: String,
    /// Its routing.
    pub routing: Option<String>,
    /// Sequence number and primary term: a document that was changed since is left alone.
    pub seq_no: (u64, u64),
    /// The stored document.
    pub source: Bytes,
}

/// What became of a letter.
#[derive(Debug, Clone)]
pub enum ReplayOutcome {
    /// Its event is stored, and the letter removed.
    Replayed,
    /// The record still cannot be parsed or indexed, for this reason; the letter stays.
    Failed(String),
}

/// Letter on its way.
struct Entry {
    place: usize,
    source: Bytes,
}

impl Writer {
    /// Replays letters; returns one outcome for each, in the same order.
    ///
    /// # Errors
    /// A failure that may pass: some letters may be replayed, and their letters be left. The next replay continues.
    pub(super) async fn replay(self: &Arc<Self>, letters: &[StoredDocument]) -> Result<Vec<ReplayOutcome>> {
        self.check_stores()?;
        let mut outcomes: Vec<Option<ReplayOutcome>> = letters.iter().map(|_| None).collect();
        let mut events = Vec::new();
        for (place, letter) in letters.iter().enumerate() {
            match event(place, letter) {
                Ok(event) => events.push(event),
                Err(reason) => outcomes[place] = Some(ReplayOutcome::Failed(reason)),
            }
        }
        let steps = Arc::clone(&self.steps);
        let documents = tokio::task::spawn_blocking(move || steps.run(None, &events)).await;
        let documents =
            documents.map_err(|_| Error::internal("the steps of a pipeline failed because of a bug, see the log"))?;
        let mut entries = Vec::new();
        let mut samples: Vec<Option<Sample>> = letters.iter().map(|_| None).collect();
        let mut alerts: Vec<Vec<Draft>> = letters.iter().map(|_| Vec::new()).collect();
        for document in documents {
            let place = document.offset as usize;
            samples[place] = document.sample;
            alerts[place] = document.alerts;
            match document.error {
                Some(reason) => outcomes[place] = Some(ReplayOutcome::Failed(reason)),
                None => entries.push(Entry {
                    place,
                    source: document.source,
                }),
            }
        }
        let items = entries.iter().map(|entry| self.create(&letters[entry.place], entry));
        let response = self.bulk(items.collect()).await?;
        let mut stored = Vec::new();
        for (entry, item) in entries.iter().zip(response.items) {
            match item.result {
                Ok(_) => {
                    let (index, id) = (&item.index, &item.id);
                    alerts[entry.place]
                        .iter_mut()
                        .for_each(|draft| draft.set_event(index, id));
                    stored.push(entry.place);
                }
                // Stored by a replay that was interrupted.
                Err(error) if error.kind() == ErrorKind::VersionConflict => stored.push(entry.place),
                Err(error) if error.kind().is_of_document() => {
                    outcomes[entry.place] = Some(ReplayOutcome::Failed(error.reason().to_owned()));
                }
                Err(error) => return Err(error),
            }
        }
        self.add_replayed_alerts(letters, &stored, &alerts).await?;
        self.add_replayed_to_windows(letters, &stored, samples).await?;
        let removed = self
            .bulk(stored.iter().map(|place| delete(&letters[*place])).collect())
            .await?;
        for (place, item) in stored.into_iter().zip(removed.items) {
            // A conflict: it was removed or changed meanwhile.
            if let Err(error) = item.result
                && error.kind() != ErrorKind::VersionConflict
            {
                return Err(error);
            }
            outcomes[place] = Some(ReplayOutcome::Replayed);
        }
        let undecided = || ReplayOutcome::Failed("not decided because of a bug".to_owned());
        Ok(outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(undecided))
            .collect())
    }

    /// Stores the alerts of replayed events, with ids that are made of their letters': if the replay is interrupted before the letters
    /// are removed, it is made again.
    async fn add_replayed_alerts(
        &self,
        letters: &[StoredDocument],
        stored: &[usize],
        alerts: &[Vec<Draft>],
    ) -> Result<()> {
        let mut open = Vec::new();
        for place in stored {
            let id = event_id(&letters[*place]);
            let of_letter = alerts[*place].iter().enumerate();
            open.extend(of_letter.map(|(number, draft)| (format!("{id}-{number}"), draft)));
        }
        // One that its index rejects is stored without the copy of its event.
        for is_last in [false, true] {
            if open.is_empty() {
                break;
            }
            let items = open.iter().map(|(id, draft)| {
                let source = match is_last {
                    false => serde_json::to_vec(&draft.document)?,
                    true => serde_json::to_vec(&without_event(&draft.document))?,
                };
                Ok(BulkItem {
                    index: draft.index.clone(),
                    id: Some(id.clone()),
                    routing: None,
                    operation: Operation::Create { source: source.into() },
                    expect: Expectation::Any,
                    require_alias: false,
                    require_data_stream: true,
                })
            });
            let request = BulkRequest {
                items: items.collect::<Result<_>>()?,
                refresh: Refresh::No,
                timeout: None,
                origin: None,
            };
            // Alerts are firn's: a tenant's pipeline may not write to their index itself.
            let response = self.destination.bulk(&Arc::new(Scope::operator()), request).await?;
            let mut rejected = Vec::new();
            for (alert, item) in open.into_iter().zip(response.items) {
                match item.result {
                    Ok(_) => drop(self.counters.alerts.fetch_add(1, Ordering::Relaxed)),
                    // Stored by a replay that was interrupted.
                    Err(error) if error.kind() == ErrorKind::VersionConflict => {}
                    Err(error) if error.kind().is_of_document() && !is_last => rejected.push(alert),
                    Err(error) => return Err(error),
                }
            }
            open = rejected;
        }
        self.alerts_stored.notify_one();
        Ok(())
    }

    /// Adds replayed events to the windows of the pipeline's aggregates, by a token of the letters: if the replay is interrupted
    /// before they are removed, it is made again.
    async fn add_replayed_to_windows(
        &self,
        letters: &[StoredDocument],
        stored: &[usize],
        mut samples: Vec<Option<Sample>>,
    ) -> Result<()> {
        let Some(windows) = &self.windows else {
            return Ok(());
        };
        for place in stored {
            let Some(sample) = samples[*place].take() else {
                continue;
            };
            let one = Arc::new(vec![(0, sample.time_ms, sample)]);
            windows.add(None, &one, &event_id(&letters[*place])).await?;
        }
        Ok(())
    }

    pub(super) async fn bulk(&self, items: Vec<BulkItem>) -> Result<BulkResponse> {
        if items.is_empty() {
            return Ok(BulkResponse::default());
        }
        let request = BulkRequest {
            items,
            refresh: Refresh::No,
            timeout: None,
            origin: None,
        };
        self.destination.bulk(&self.scope, request).await
    }

    fn create(&self, letter: &StoredDocument, entry: &Entry) -> BulkItem {
        BulkItem {
            index: self.steps.index.clone(),
            id: Some(event_id(letter)),
            routing: None,
            operation: Operation::Create {
                source: entry.source.clone(),
            },
            expect: Expectation::Any,
            require_alias: false,
            require_data_stream: false,
        }
    }
}

fn delete(letter: &StoredDocument) -> BulkItem {
    let (seq_no, primary_term) = letter.seq_no;
    BulkItem {
        index: letter.index.clone(),
        id: Some(letter.id.clone()),
        routing: letter.routing.clone(),
        operation: Operation::Delete,
        expect: Expectation::SeqNo { seq_no, primary_term },
        require_alias: false,
        require_data_stream: false,
    }
}

fn event_id(letter: &StoredDocument) -> String {
    let mut hasher = Sha256::new();
    for part in [&letter.index, &letter.id] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    URL_SAFE_NO_PAD.encode(&hasher.finalize()[..ID_BYTES])
}

/// Makes the event of a letter again; an error says what the letter lacks.
fn event(place: usize, letter: &StoredDocument) -> std::result::Result<SourceEvent, String> {
    let invalid = |what: &str| format!("the letter has no valid [{what}]");
    let document: Map<String, Value> = serde_json::from_slice(&letter.source).map_err(|error| error.to_string())?;
    let member = |path: &str| {
        let (first, rest) = path.split_once('.')?;
        document.get(first)?.pointer(&format!("/{}", rest.replace('.', "/")))
    };
    let bytes = match member("firn.dead_letter.base64").and_then(Value::as_str) {
        Some(encoded) => STANDARD
            .decode(encoded)
            .map_err(|_| invalid("firn.dead_letter.base64"))?
            .into(),
        None => {
            let text = member("event.original").and_then(Value::as_str);
            Bytes::from(text.ok_or_else(|| invalid("event.original"))?.to_owned())
        }
    };
    let time = document.get("@timestamp").and_then(Value::as_str);
    let nanos = time.and_then(|time| DateFormat::default_millis().parse_nanos(time).ok());
    let received_ns = nanos.and_then(|nanos| i64::try_from(nanos).ok());
    let received_ns = received_ns.ok_or_else(|| invalid("@timestamp"))?;
    Ok(SourceEvent {
        bytes,
        offset: place as u64,
        received_ns,
        context: context(&document),
        stored_at: None,
    })
}

/// Returns the members that the protocol carried beside the record, printed without braces.
fn context(document: &Map<String, Value>) -> Option<Bytes> {
    let members = document
        .iter()
        .filter(|(name, _)| !OWN_MEMBERS.contains(&name.as_str()));
    let members: Map<String, Value> = members.map(|(name, value)| (name.clone(), value.clone())).collect();
    if members.is_empty() {
        return None;
    }
    let printed = Value::Object(members).to_string();
    Some(Bytes::from(printed[1..printed.len() - 1].to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn letter(source: &Value) -> StoredDocument {
        StoredDocument {
            index: "dead-letters".to_owned(),
            id: "one".to_owned(),
            routing: None,
            seq_no: (0, 1),
            source: source.to_string().into(),
        }
    }

    #[test]
    fn the_event_of_a_letter_is_the_one_that_was_received() {
        let text = letter(&json!({
            "@timestamp": "2026-11-28T10:00:00.123456789Z", "tenant": "acme",
            "event": {"original": "a line", "kind": "pipeline_error"}, "splunk": {"host": "h"},
        }));
        let event = event(3, &text).unwrap();
        assert_eq!((&event.bytes[..], event.offset), (b"a line".as_slice(), 3));
        assert_eq!(event.received_ns % 1_000_000_000, 123_456_789);
        assert_eq!(event.context.unwrap(), &b"\"splunk\":{\"host\":\"h\"}"[..]);
    }

    #[test]
    fn bytes_that_are_no_text_come_from_base64() {
        let bytes = letter(&json!({
            "@timestamp": "2026-11-28T10:00:00.000Z", "event": {"original": "\u{fffd}"},
            "firn": {"dead_letter": {"base64": "/wA="}},
        }));
        let event = event(0, &bytes).unwrap();
        assert_eq!((&event.bytes[..], event.context), (b"\xff\0".as_slice(), None));
    }

    #[test]
    fn a_letter_without_a_record_says_so() {
        let check = |source: Value, expect: &str| assert_eq!(event(0, &letter(&source)).unwrap_err(), expect);
        check(
            json!({"@timestamp": "2026-11-28T10:00:00Z"}),
            "the letter has no valid [event.original]",
        );
        check(
            json!({"event": {"original": "x"}}),
            "the letter has no valid [@timestamp]",
        );
    }
}
