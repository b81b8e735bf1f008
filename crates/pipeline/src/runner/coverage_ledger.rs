//! Coverage ledger: which rules were evaluated on which events of a pipeline.
//!
//! Before a batch is stored on which other rules were evaluated than on the batch before in its partition, a record says so, with the
//! offset from which it holds. A record whose batch is not stored is followed by one from the same offset, which counts. So the rules
//! of a partition between two records are known exactly, and every rule that is not among them has a hole there.

use std::collections::{BTreeMap, HashMap};
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
}

/// Rules that are evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleVersions<'a> {
    /// Versions by id.
    pub(super) by_id: &'a BTreeMap<String, String>,
    /// Their hash; empty: there are none.
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

    /// Records that `rules` were evaluated on the events of a partition from an offset on, unless that is known. `received_ns` is the
    /// arrival of the first of them.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: the events must not be stored before the record is.
    pub(super) async fn note(
        &self,
        partition: &str,
        offset: u64,
        received_ns: i64,
        rules: RuleVersions<'_>,
    ) -> Result<()> {
        self.try_note(partition, offset, received_ns, rules)
            .await
            .map_err(|error| {
                let reason = format!("the coverage of detection rules cannot be recorded: {}", error.reason());
                Error::new(ErrorKind::Unavailable, reason)
            })
    }

    async fn try_note(&self, partition: &str, offset: u64, received_ns: i64, rules: RuleVersions<'_>) -> Result<()> {
        let mut state = self.state.lock().await;
        let state = match &mut *state {
            Some(state) => state,
            unread => unread.insert(self.read().await?),
        };
        let last = state.sets.get(partition).map_or("", String::as_str);
        if last == rules.fingerprint {
            return Ok(());
        }
        let record = CoverageRecord {
            pipeline: self.pipeline.to_string(),
            partition: partition.to_owned(),
            order: state.next_order,
            offset,
            received: iso(received_ns),
            set: rules.fingerprint.to_owned(),
        };
        self.store(&record, rules.by_id).await?;
        state.next_order += 1;
        state.sets.insert(record.partition, record.set);
        Ok(())
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

    async fn store(&self, record: &CoverageRecord, versions: &BTreeMap<String, String>) -> Result<()> {
        let time = iso((self.clock)());
        let set = json!({"@timestamp": time, "set": record.set, "ids": versions.keys().collect::<Vec<_>>(), "versions": versions});
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
