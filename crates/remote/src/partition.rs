//! Writer of one partition: its record in the cluster, and the events of its bulks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_engine::document::{BulkItemResponse, BulkRequest, BulkResponse, Effect};
use firn_engine::origin::{Origin, SourcePosition, SourceTotals};
use firn_model::{Error, ErrorKind, Result};
use firn_pipeline::runner::partition_of_events;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bulk::{Create, create_of, written};
use crate::connection::Body;
use crate::destination::Cluster;
use crate::record::{Finished, Intent, Record, event_id, record_id};

/// Writes of a record that are tried again because the record is one of this worker's own, whose answer was lost.
const OWN_CONFLICTS_MAX: usize = 3;
/// Documents of one look-up by id.
const LOOKUP_MAX: usize = 1000;

/// State of a partition that this worker writes.
#[derive(Debug)]
pub(crate) struct PartitionWriter {
    cluster: Arc<Cluster>,
    source: String,
    partition: String,
    /// `None`: the partition must be claimed before it is written.
    claimed: Option<Claimed>,
}

#[derive(Debug, Default)]
struct Claimed {
    /// The record in the cluster; `None`: there is none.
    stored: Option<Stored>,
    finished: Option<Finished>,
    /// Offsets of the bulk that goes on that are stored.
    done: BTreeSet<u64>,
    /// Through this offset, events may be stored by attempts whose answers are not known.
    unsure_through: Option<u64>,
    /// No bulk has been stored since the partition was claimed.
    is_fresh: bool,
}

#[derive(Debug, Clone)]
struct Stored {
    record: Record,
    seq_no: u64,
    primary_term: u64,
}

#[derive(Deserialize)]
struct GetAnswer {
    #[serde(rename = "_source")]
    source: Option<Record>,
    #[serde(rename = "_seq_no", default)]
    seq_no: u64,
    #[serde(rename = "_primary_term", default)]
    primary_term: u64,
}

/// Item of a bulk, as far as it is decided.
enum ItemState {
    Open(Create),
    Stored,
    Rejected(Error),
    /// Fails for now.
    Failed(Error),
}

impl PartitionWriter {
    pub(crate) fn new(cluster: Arc<Cluster>, source: &str, partition: &str) -> Self {
        Self {
            cluster,
            source: source.to_owned(),
            partition: partition.to_owned(),
            claimed: None,
        }
    }

    /// Takes the partition over: the bulks of another worker fail from now on. Returns the offset from which it must be read.
    pub(crate) async fn claim(&mut self) -> Result<Option<u64>> {
        self.claimed = None;
        for _ in 0..OWN_CONFLICTS_MAX {
            let Some(stored) = self.load().await? else {
                // The first bulk creates the record, which fails if another worker has done so.
                self.claimed = Some(Claimed {
                    is_fresh: true,
                    ..Claimed::default()
                });
                return Ok(None);
            };
            let record = stored.record.clone();
            let unsure_through = (!record.is_complete).then_some(record.last_offset);
            let resume_offset = record.resume_offset();
            let mut claimed = Claimed {
                stored: Some(stored),
                unsure_through,
                is_fresh: true,
                ..Claimed::default()
            };
            match self.put(&mut claimed, record).await {
                Ok(()) => {
                    self.claimed = Some(claimed);
                    return Ok(Some(resume_offset));
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.taken_over())
    }

    /// Returns the position as far as this worker knows it; `None`: it does not write the partition.
    pub(crate) fn position(&self) -> Option<SourcePosition> {
        let claimed = self.claimed.as_ref()?;
        let record = &claimed.stored.as_ref()?.record;
        match &claimed.finished {
            Some(finished) if !record.is_complete => Some(record.completed(finished).position()),
            _ => Some(record.position()),
        }
    }

    /// Writes what is stored into the record, if the record does not say so yet.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        let Some(mut claimed) = self.claimed.take() else {
            return Ok(());
        };
        let done = match (&claimed.stored, claimed.finished) {
            (Some(stored), Some(finished)) if finished.is_settled && !stored.record.is_complete => {
                let record = stored.record.completed(&finished);
                self.save(&mut claimed, record).await
            }
            _ => Ok(()),
        };
        self.keep_unless_lost(claimed, &done);
        done
    }

    /// The dead letters of the bulk through `last_offset` are stored.
    pub(crate) fn settle(&mut self, last_offset: u64) {
        let finished = self.claimed.as_mut().and_then(|claimed| claimed.finished.as_mut());
        if let Some(finished) = finished.filter(|finished| finished.last_offset == last_offset) {
            finished.is_settled = true;
        }
    }

    /// Stores a bulk exactly once.
    pub(crate) async fn store(&mut self, origin: &Origin, request: &BulkRequest) -> Result<BulkResponse> {
        // Sources claim the partitions that they read. Those of dead letters are claimed at their first use: a letter has the same id
        // from every worker.
        if self.claimed.is_none() && partition_of_events(&self.partition) != self.partition {
            self.claim().await?;
        }
        let Some(mut claimed) = self.claimed.take() else {
            return Err(self.taken_over());
        };
        let stored = self.store_claimed(&mut claimed, origin, request).await;
        self.keep_unless_lost(claimed, &stored);
        stored
    }

    fn keep_unless_lost<T>(&mut self, claimed: Claimed, result: &Result<T>) {
        let is_lost = matches!(result, Err(error) if error.kind() == ErrorKind::Conflict);
        self.claimed = (!is_lost).then_some(claimed);
    }

    async fn store_claimed(
        &self,
        claimed: &mut Claimed,
        origin: &Origin,
        request: &BulkRequest,
    ) -> Result<BulkResponse> {
        if origin.offsets.len() != request.items.len() {
            return Err(Error::internal("a bulk has other offsets than items"));
        }
        let before = claimed.stored.as_ref().map(|stored| &stored.record);
        if let Some(before) = before
            && claimed.is_fresh
            && origin.first_offset > before.first_offset
            && !before.is_complete
        {
            // The source was told where to continue, and no longer has the offsets before.
            claimed.finished = Some(Finished {
                last_offset: origin.first_offset - 1,
                totals: before.totals(),
                is_settled: true,
            });
        }
        let (record, is_new) = match Record::intent(before, claimed.finished.as_ref(), origin)? {
            Intent::Covered => (None, false),
            Intent::Continued(record) => (Some(record), false),
            Intent::New(record) => (Some(record), true),
        };
        if let Some(mut record) = record {
            if is_new {
                record.write_indices = self.cluster.write_indices(&request.items).await?;
            }
            self.save(claimed, *record).await?;
            claimed.done.clear();
        }
        claimed.is_fresh = false;
        let mut items = self.items(claimed, origin, request)?;
        self.look_up(claimed, origin, &mut items).await?;
        self.write(claimed, origin, &mut items).await?;
        self.finish(claimed, origin, request, items).await
    }

    fn items(&self, claimed: &Claimed, origin: &Origin, request: &BulkRequest) -> Result<Vec<ItemState>> {
        let record = claimed.stored.as_ref().map(|stored| &stored.record);
        let mut items = Vec::with_capacity(request.items.len());
        for (item, offset) in request.items.iter().zip(&origin.offsets) {
            let rejected = record.and_then(|record| record.rejected.get(offset));
            let is_stored = record.is_some_and(|record| record.is_stored(*offset)) || claimed.done.contains(offset);
            items.push(match rejected {
                Some(reason) => ItemState::Rejected(Error::new(ErrorKind::DocumentParsing, reason.clone())),
                None if is_stored => ItemState::Stored,
                None => {
                    let id = event_id(&self.source, &self.partition, *offset);
                    ItemState::Open(create_of(&item.index, &item.operation, Some(id))?)
                }
            });
        }
        Ok(items)
    }

    /// Finds events that earlier attempts stored in indices that are no longer the write indices of their targets.
    async fn look_up(&self, claimed: &mut Claimed, origin: &Origin, items: &mut [ItemState]) -> Result<()> {
        let (Some(unsure_through), Some(stored)) = (claimed.unsure_through, &claimed.stored) else {
            return Ok(());
        };
        if origin.first_offset > unsure_through {
            claimed.unsure_through = None;
            return Ok(());
        }
        let mut unsure: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, (item, offset)) in items.iter().zip(&origin.offsets).enumerate() {
            if let ItemState::Open(create) = item
                && *offset <= unsure_through
            {
                unsure.entry(&create.index).or_default().push(place);
            }
        }
        let mut found = Vec::new();
        for (target, places) in unsure {
            let since = stored.record.write_indices.get(target).map(String::as_str);
            for index in self.cluster.earlier_indices(target, since).await? {
                for places in places.chunks(LOOKUP_MAX) {
                    found.extend(self.stored_in(&index, places, items).await?);
                }
            }
        }
        for place in found {
            items[place] = ItemState::Stored;
            claimed.done.insert(origin.offsets[place]);
        }
        Ok(())
    }

    async fn stored_in(&self, index: &str, places: &[usize], items: &[ItemState]) -> Result<Vec<usize>> {
        let open = places.iter().filter_map(|place| match &items[*place] {
            ItemState::Open(create) => Some((*place, create)),
            _ => None,
        });
        let (places, ids): (Vec<usize>, Vec<Value>) = open.map(|(place, create)| (place, json!(create.id))).unzip();
        let path = format!("/{index}/_mget?_source=false&filter_path=docs.found,docs.error");
        let answer = self
            .cluster
            .connection
            .request(Method::POST, &path, Body::Json(json!({ "ids": ids })), &[])
            .await?;
        let answer = answer.json()?;
        let docs = answer["docs"].as_array().map(Vec::as_slice).unwrap_or_default();
        if docs.len() != places.len() || docs.iter().any(|doc| !doc["found"].is_boolean()) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("the cluster does not say which events are stored in [{index}]"),
            ));
        }
        let found = places.into_iter().zip(docs).filter(|(_, doc)| doc["found"] == true);
        Ok(found.map(|(place, _)| place).collect())
    }

    async fn write(&self, claimed: &mut Claimed, origin: &Origin, items: &mut [ItemState]) -> Result<()> {
        let open = items.iter().enumerate().filter_map(|(place, item)| match item {
            ItemState::Open(create) => Some((place, create.clone())),
            _ => None,
        });
        let (places, creates): (Vec<usize>, Vec<Create>) = open.unzip();
        let mut rest = places.as_slice();
        let results = self.cluster.write(&creates, |count, results| {
            let (part, others) = rest.split_at(count);
            rest = others;
            match results {
                Ok(created) => {
                    for (place, created) in part.iter().zip(created) {
                        items[*place] = match created.result {
                            Ok(()) => ItemState::Stored,
                            Err(error) if error.kind() == ErrorKind::VersionConflict => ItemState::Stored,
                            Err(error) if error.kind().is_of_document() => ItemState::Rejected(error),
                            Err(error) => ItemState::Failed(error),
                        };
                        if matches!(items[*place], ItemState::Stored) {
                            claimed.done.insert(origin.offsets[*place]);
                        }
                    }
                }
                // The part may be stored, or may still be.
                Err(error) => {
                    claimed.unsure_through = claimed.unsure_through.max(Some(origin.last_offset));
                    for place in part {
                        items[*place] = ItemState::Failed(error.clone());
                    }
                }
            }
        });
        results.await;
        let Some(stored) = &claimed.stored else {
            return Ok(());
        };
        let mut record = stored.record.clone();
        for (item, offset) in items.iter().zip(&origin.offsets) {
            if let ItemState::Rejected(error) = item
                && !record.rejected.contains_key(offset)
            {
                record.reject(*offset, error.reason());
            }
        }
        if record != stored.record {
            // Durable before the dead letters are written: an event must not be stored in both places.
            self.save(claimed, record).await?;
        }
        Ok(())
    }

    async fn finish(
        &self,
        claimed: &mut Claimed,
        origin: &Origin,
        request: &BulkRequest,
        items: Vec<ItemState>,
    ) -> Result<BulkResponse> {
        let (mut failed, mut rejected) = (0_u64, 0_u64);
        let mut response = BulkResponse::default();
        for (item, (request, offset)) in items.into_iter().zip(request.items.iter().zip(&origin.offsets)) {
            let result = match item {
                ItemState::Stored => Ok(written(Effect::Created)),
                ItemState::Rejected(error) => {
                    rejected += 1;
                    Err(error)
                }
                ItemState::Failed(error) => {
                    failed += 1;
                    Err(error)
                }
                ItemState::Open(_) => return Err(Error::internal("an item of a bulk was left out")),
            };
            response.items.push(BulkItemResponse {
                index: request.index.clone(),
                id: event_id(&self.source, &self.partition, *offset),
                result,
            });
        }
        if failed > 0 {
            return Ok(response);
        }
        let before = claimed
            .stored
            .as_ref()
            .map(|stored| stored.record.totals())
            .unwrap_or_default();
        let stored = response.items.len() as u64 - rejected;
        let dead_letters = origin.dead_letters.min(stored);
        claimed.finished = Some(Finished {
            last_offset: origin.last_offset,
            totals: SourceTotals {
                indexed: before.indexed + stored - dead_letters,
                filtered: before.filtered + origin.filtered,
                dead_lettered: before.dead_lettered + dead_letters + rejected,
            },
            is_settled: false,
        });
        claimed.done.clear();
        Ok(response)
    }

    async fn load(&self) -> Result<Option<Stored>> {
        let path = self.path("_doc");
        let answer = self
            .cluster
            .connection
            .request(Method::GET, &path, Body::None, &[404])
            .await?;
        if answer.status == 404 {
            // Either the document or its index is missing.
            self.cluster.create_positions_index().await?;
            return Ok(None);
        }
        let invalid = |reason: String| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the record [{path}] of a partition cannot be read: {reason}"),
            )
        };
        let answer: GetAnswer = serde_json::from_slice(&answer.body).map_err(|error| invalid(error.to_string()))?;
        let record = answer.source.ok_or_else(|| invalid("it has no source".to_owned()))?;
        Ok(Some(Stored {
            record,
            seq_no: answer.seq_no,
            primary_term: answer.primary_term,
        }))
    }

    /// Writes the record; if an earlier write of this worker whose answer was lost has changed it, again.
    async fn save(&self, claimed: &mut Claimed, record: Record) -> Result<()> {
        for _ in 0..OWN_CONFLICTS_MAX {
            match self.put(claimed, record.clone()).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    let now = self.load().await?;
                    let is_own = now.as_ref().is_some_and(|now| now.record.worker == self.cluster.worker);
                    if !is_own {
                        return Err(self.taken_over());
                    }
                    claimed.stored = now;
                }
                done => return done,
            }
        }
        Err(self.taken_over())
    }

    /// Writes the record on condition that it is still the one that this worker knows.
    async fn put(&self, claimed: &mut Claimed, mut record: Record) -> Result<()> {
        record.worker.clone_from(&self.cluster.worker);
        let path = match &claimed.stored {
            None => self.path("_create"),
            Some(Stored {
                seq_no, primary_term, ..
            }) => format!(
                "{}?if_seq_no={seq_no}&if_primary_term={primary_term}",
                self.path("_doc")
            ),
        };
        let body = serde_json::to_value(&record)?;
        // If the index of positions was deleted, this is a conflict: there is no such record any more.
        let answer = self
            .cluster
            .connection
            .request(Method::PUT, &path, Body::Json(body), &[409])
            .await?;
        if answer.status == 409 {
            return Err(self.taken_over());
        }
        let answer = answer.json()?;
        let (Some(seq_no), Some(primary_term)) = (answer["_seq_no"].as_u64(), answer["_primary_term"].as_u64()) else {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the cluster returns no sequence numbers of documents",
            ));
        };
        claimed.stored = Some(Stored {
            record,
            seq_no,
            primary_term,
        });
        Ok(())
    }

    fn path(&self, endpoint: &str) -> String {
        let id = record_id(&self.source, &self.partition);
        format!("/{}/{endpoint}/{id}", self.cluster.positions_index)
    }

    fn taken_over(&self) -> Error {
        let Self { source, partition, .. } = self;
        Error::new(
            ErrorKind::Conflict,
            format!("another worker writes partition [{partition}] of pipeline [{source}]"),
        )
    }
}
