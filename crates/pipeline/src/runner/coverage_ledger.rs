//! Coverage ledger: which rules were evaluated on which events of a pipeline.
//!
//! Before a batch is stored on which other rules were evaluated than on the batch before in its partition, a record says so, with the
//! offset from which it holds. A record whose batch is not stored is followed by one from the same offset, which counts. So the rules
//! of a partition between two records are known exactly, and every rule that is not among them has a hole there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::destination::Destination;
use crate::mapping::dates::push_iso;
use crate::sources::Clock;

/// Index of the ledgers of all pipelines.
pub const INDEX: &str = ".firn-rule-coverage";
const TEMPLATE: &str = "firn-rule-coverage";
/// Id of the document of the pauses of rules.
pub const PAUSES: &str = "pauses";

/// Record of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageRecord {
    /// Id of the pipeline.
    pub pipeline: String,
    /// Partition; empty: the source has none.
    pub partition: String,
    /// Number among the records of the pipeline.
    pub order: u64,
    /// First offset that the rules were evaluated on; 0 without a partition.
    pub offset: u64,
    /// When the first of these events arrived, RFC 3339.
    pub received: String,
    /// Set of the rules: the id of its document is `set-` and this text.
    pub set: String,
    /// Times of the first and the last event since the record before, ms since the epoch. Only if rules were left out because of the
    /// budget, and the node was not stopped since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_before_ms: Option<(i64, i64)>,
}

/// Rules that are evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleVersions<'a> {
    /// Versions by id.
    pub(super) by_id: &'a BTreeMap<String, String>,
    /// Versions of those that are left out because of the budget, by id.
    pub(super) throttled: &'a BTreeMap<String, String>,
    /// The hash of both; empty: there are none.
    pub(super) fingerprint: &'a str,
}

/// Ledger of a running pipeline.
pub(super) struct CoverageLedger {
    pipeline: Arc<str>,
    destination: Arc<dyn Destination>,
    clock: Clock,
    /// `None`: what is stored was not read yet.
    state: tokio::sync::Mutex<Option<State>>,
}

#[derive(Default)]
struct State {
    next_order: u64,
    /// Last set by partition.
    sets: HashMap<String, String>,
    /// Offset behind the last event that was noted since the start, by partition.
    ends: HashMap<String, u64>,
    /// Times of the events since the last record, by partition, if rules are left out.
    times_ms: HashMap<String, (i64, i64)>,
    /// Partitions in which the first record without some rules was written by this ledger: the times of all events since then are
    /// known.
    begun: HashSet<String>,
}

/// First events of which a set of rules is recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noted<'a> {
    pub(super) partition: &'a str,
    /// First offset.
    pub(super) offset: u64,
    /// Last offset.
    pub(super) last_offset: u64,
    /// Arrival of the first one, nanoseconds since the epoch.
    pub(super) received_ns: i64,
    /// Times of the first and the last one, ms since the epoch, if rules are left out.
    pub(super) times_ms: Option<(i64, i64)>,
}

impl CoverageLedger {
    pub(super) fn new(pipeline: &Arc<str>, destination: &Arc<dyn Destination>, clock: &Clock) -> Self {
        Self {
            pipeline: Arc::clone(pipeline),
            destination: Arc::clone(destination),
            clock: Arc::clone(clock),
            state: tokio::sync::Mutex::default(),
        }
    }

    /// Records that `rules` were evaluated on some events and those behind them in their partition, unless that is known.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: the events must not be stored before the record is.
    pub(super) async fn note(&self, noted: Noted<'_>, rules: RuleVersions<'_>) -> Result<()> {
        self.try_note(noted, rules).await.map_err(|error| {
            let reason = format!("the coverage of detection rules cannot be recorded: {}", error.reason());
            Error::new(ErrorKind::Unavailable, reason)
        })
    }

    async fn try_note(&self, noted: Noted<'_>, rules: RuleVersions<'_>) -> Result<()> {
        let mut state = self.state.lock().await;
        let state = match &mut *state {
            Some(state) => state,
            unread => unread.insert(self.read().await?),
        };
        let last = state.sets.get(noted.partition).map_or("", String::as_str);
        if last != rules.fingerprint {
            let record = CoverageRecord {
                pipeline: self.pipeline.to_string(),
                partition: noted.partition.to_owned(),
                order: state.next_order,
                offset: noted.offset,
                received: iso(noted.received_ns),
                set: rules.fingerprint.to_owned(),
                times_before_ms: state.times_ms.get(noted.partition).copied(),
            };
            self.store(&record, rules).await?;
            state.next_order += 1;
            state.times_ms.remove(noted.partition);
            state.sets.insert(record.partition, record.set);
            if noted.times_ms.is_some() {
                state.begun.insert(noted.partition.to_owned());
            }
        }
        let end = state.ends.entry(noted.partition.to_owned()).or_default();
        *end = noted.last_offset.saturating_add(1).max(*end);
        let is_known = state.begun.contains(noted.partition);
        if let (Some((first, last)), true) = (noted.times_ms, is_known) {
            let times = state
                .times_ms
                .entry(noted.partition.to_owned())
                .or_insert((first, last));
            *times = (times.0.min(first), times.1.max(last));
        }
        Ok(())
    }

    /// Records that `rules` are evaluated from now on in the partitions in which others were, although no event comes. A batch that is on
    /// its way is noted with what was evaluated on it, from its own offset. Returns whether anything was recorded.
    ///
    /// # Errors
    /// Of the destination; some may be recorded.
    pub(super) async fn note_quiet(&self, rules: RuleVersions<'_>) -> Result<bool> {
        let mut state = self.state.lock().await;
        let state = match &mut *state {
            Some(state) => state,
            unread => unread.insert(self.read().await?),
        };
        let others = state.sets.iter().filter(|(_, set)| **set != *rules.fingerprint);
        let partitions: Vec<String> = others.map(|(partition, _)| partition.clone()).collect();
        let mut has_noted = false;
        for partition in partitions {
            let offset = match state.ends.get(&partition) {
                Some(end) => *end,
                None if partition.is_empty() => 0,
                // Since the start nothing has come: the source reads again from here on, if at all.
                None => match self.destination.resume_offset(&self.pipeline, &partition).await? {
                    Some(offset) => offset,
                    None => continue,
                },
            };
            let record = CoverageRecord {
                pipeline: self.pipeline.to_string(),
                partition: partition.clone(),
                order: state.next_order,
                offset,
                received: iso((self.clock)()),
                set: rules.fingerprint.to_owned(),
                times_before_ms: state.times_ms.get(&partition).copied(),
            };
            self.store(&record, rules).await?;
            state.next_order += 1;
            state.times_ms.remove(&partition);
            state.sets.insert(partition, record.set);
            has_noted = true;
        }
        Ok(has_noted)
    }

    async fn read(&self) -> Result<State> {
        self.destination.create_template(TEMPLATE, &template()).await?;
        let mut state = State::default();
        for record in self.destination.window_records(INDEX, &self.pipeline).await? {
            let record: CoverageRecord = serde_json::from_slice(&record)?;
            state.next_order = state.next_order.max(record.order + 1);
            state.sets.insert(record.partition, record.set);
        }
        Ok(state)
    }

    async fn store(&self, record: &CoverageRecord, rules: RuleVersions<'_>) -> Result<()> {
        let time = iso((self.clock)());
        // Searches find a set by the rules that are left out, too.
        let ids: Vec<&String> = rules.by_id.keys().chain(rules.throttled.keys()).collect();
        let mut set = json!({"@timestamp": time, "set": record.set, "ids": ids, "versions": rules.by_id});
        if !rules.throttled.is_empty() {
            set["throttled"] = json!(rules.throttled);
        }
        let mut document = serde_json::to_value(record)?;
        document["@timestamp"] = time.into();
        let items = vec![
            create(format!("set-{}", record.set), &set),
            create(format!("{}-{}", record.pipeline, record.order), &document),
        ];
        let request = BulkRequest {
            items,
            refresh: Refresh::No,
            ..BulkRequest::default()
        };
        store(&*self.destination, request).await
    }
}

/// Replaces what is stored of the pauses of rules.
pub(super) async fn store_pauses(destination: &dyn Destination, document: &Value) -> Result<()> {
    destination.create_template(TEMPLATE, &template()).await?;
    let item = BulkItem {
        operation: Operation::Index {
            source: document.to_string().into_bytes().into(),
        },
        ..create(PAUSES.to_owned(), document)
    };
    let request = BulkRequest {
        items: vec![item],
        ..BulkRequest::default()
    };
    store(destination, request).await
}

/// Records a run of a rule over stored events.
pub(super) async fn note_run(destination: &dyn Destination, run: &Value) -> Result<()> {
    destination.create_template(TEMPLATE, &template()).await?;
    let item = BulkItem {
        id: None,
        ..create(String::new(), run)
    };
    let request = BulkRequest {
        items: vec![item],
        ..BulkRequest::default()
    };
    store(destination, request).await
}

async fn store(destination: &dyn Destination, request: BulkRequest) -> Result<()> {
    let response = destination.bulk(&Arc::new(Scope::operator()), request).await?;
    for item in response.items {
        match item.result {
            // Stored before, the record by an attempt whose answer was lost.
            Err(error) if error.kind() == ErrorKind::VersionConflict => {}
            result => drop(result?),
        }
    }
    Ok(())
}

fn create(id: String, document: &Value) -> BulkItem {
    BulkItem {
        index: INDEX.to_owned(),
        id: Some(id),
        routing: None,
        operation: Operation::Create {
            source: document.to_string().into_bytes().into(),
        },
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: false,
    }
}

fn iso(ns: i64) -> String {
    let mut text = String::new();
    push_iso(ns, &mut text);
    text
}

fn template() -> Value {
    json!({
        "index_patterns": [INDEX],
        "priority": 500,
        "template": {
            "settings": {"index": {"number_of_shards": 1, "hidden": true}},
            "mappings": {
                "dynamic": false,
                "properties": {
                    "@timestamp": {"type": "date"}, "received": {"type": "date"}, "pipeline": {"type": "keyword"},
                    "partition": {"type": "keyword"}, "order": {"type": "long"}, "offset": {"type": "long"},
                    "set": {"type": "keyword"}, "ids": {"type": "keyword"}, "rule": {"type": "keyword"},
                    "version": {"type": "keyword"}, "index": {"type": "keyword"}, "from": {"type": "date"}, "to": {"type": "date"},
                },
            },
        },
        "_meta": {"managed": true, "description": "which detection rules were evaluated on which events"},
    })
}
