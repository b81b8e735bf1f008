//! Reader of an export's events, at the speed of its client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_engine::{Error, ErrorKind, RequestContext};
use firn_query::search::Hit;
use futures_util::{Stream, stream};
use serde_json::{Value, json};

use super::super::request::EventSelection;
use super::cost::Allowance;
use super::format::Format;
use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::disclosure::disclose_error;
use crate::state::discover_store::ReaderSlot;
use crate::state::edge::Edge;
use crate::state::request_record::{StageTiming, Timings};
use crate::wire::error::ApiError;

/// Ids that one search returns: each search goes over all matches.
const PLACES: usize = 2000;
/// Maximum events per read; the maximum document size bounds their memory.
pub(super) const BATCH_MAX: usize = 64;
const BATCH_FIRST: usize = 8;
/// Target bytes of events per read.
const BATCH_BYTES: usize = 1 << 20;
/// How long an aborted connection stays open so that the client can read the last line.
const LAST_LINE: Duration = Duration::from_secs(1);

/// Id and sort values of an event.
struct Key {
    index: String,
    id: String,
    sort: Vec<Value>,
}

/// Inputs of an export.
pub(super) struct ExportRequest {
    pub(super) edge: Arc<Edge>,
    pub(super) ctx: RequestContext,
    pub(super) moment: SharedPointInTime,
    /// Concrete indices of the events.
    pub(super) indices: Vec<String>,
    /// Slot, which also says whether a delete request ended the export.
    pub(super) place: ReaderSlot,
    pub(super) question: EventSelection,
    pub(super) format: Format,
    pub(super) allowance: Allowance,
    pub(super) timings: Arc<Timings>,
}

/// Running export.
pub(super) struct Export {
    request: ExportRequest,
    /// Unsent part of the lines before the first event.
    head: Vec<u8>,
    total: u64,
    /// Events sent so far.
    written: u64,
    /// Ids of the next events.
    places: VecDeque<Key>,
    /// Sort values of the last sent event.
    after: Option<Vec<Value>>,
    /// Size of the next read.
    batch: usize,
    /// No more ids follow.
    is_over: bool,
    started: Instant,
}

/// State of the body.
enum Stage {
    Reading(Box<Export>),
    /// The last line has the error.
    Failed,
    Over,
}

impl Export {
    /// Counts the events and reads the first ids, so that an invalid question still gets an error status.
    pub(super) async fn begin(request: ExportRequest) -> Result<Self, ApiError> {
        let total = count(&request).await?;
        let mut export = Self {
            head: request.format.head(),
            total,
            written: 0,
            places: VecDeque::new(),
            after: None,
            batch: BATCH_FIRST,
            is_over: false,
            started: request.ctx.started,
            request,
        };
        export.read_places().await?;
        Ok(export)
    }

    /// Returns the number of events.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Streams the lines of the file. An error becomes the last line, after which the connection is aborted: a client
    /// that ignores the line does not take a part for the whole.
    pub(super) fn pieces(self) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
        stream::unfold(Stage::Reading(Box::new(self)), |stage| async move {
            match stage {
                Stage::Reading(mut export) => match export.next().await {
                    Ok(Some(piece)) => Some((Ok(piece), Stage::Reading(export))),
                    Ok(None) => {
                        export.ended("done");
                        None
                    }
                    Err(error) => Some((Ok(export.failed(error).await), Stage::Failed)),
                },
                Stage::Failed => {
                    tokio::time::sleep(LAST_LINE).await;
                    Some((Err(std::io::Error::other("the export failed")), Stage::Over))
                }
                Stage::Over => None,
            }
        })
    }

    /// Builds the last line of a failed export.
    async fn failed(&mut self, error: ApiError) -> Bytes {
        let error = self.deleted().await.map_or(error, ApiError::from);
        let (written, total) = (self.written, self.total);
        tracing::warn!(?error, written, total, "an export broke off");
        self.ended("failed");
        let mut output = std::mem::take(&mut self.head);
        let error = disclose_error(&self.request.ctx, error);
        self.request.format.write_failure(&mut output, &error, written, total);
        output.into()
    }

    /// Returns an error if an index was deleted. Then the point in time is gone, and its searches report only that.
    async fn deleted(&self) -> Option<Error> {
        let metadata = self.request.edge.engine.metadata(&self.request.ctx).await.ok()?;
        let is_gone = |name: &&String| !metadata.indices.contains_key(name.as_str());
        let gone = self.request.indices.iter().find(is_gone)?;
        let reason = format!("no such index [{gone}]: it was deleted while its events were read");
        Some(Error::new(ErrorKind::IndexNotFound, reason).with_index(gone))
    }

    fn ended(&self, outcome: &'static str) {
        self.request.timings.push(StageTiming {
            stage: "export",
            outcome,
            took: self.started.elapsed(),
        });
    }

    /// Returns the next lines; `None`: the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        if self.request.place.is_over() {
            return Err(Error::new(ErrorKind::Cancelled, "the export was cancelled").into());
        }
        if self.places.is_empty() && !self.is_over {
            self.read_places().await?;
        }
        let count = self.batch.min(self.places.len());
        if count == 0 {
            return match (self.head.is_empty(), self.written == self.total) {
                (false, _) => Ok(Some(std::mem::take(&mut self.head).into())),
                (true, true) => Ok(None),
                (true, false) => Err(self.lost()),
            };
        }
        let keys: Vec<Key> = self.places.drain(..count).collect();
        let hits = self.read(&keys).await?;
        let mut output = self.head.clone();
        let mut bytes = 0;
        for hit in &hits {
            bytes += hit.source.as_ref().map_or(0, Bytes::len);
            self.request.format.write(&mut output, hit)?;
        }
        self.head.clear();
        self.written += hits.len() as u64;
        self.batch = next_batch(count, bytes);
        self.after = keys.into_iter().next_back().map(|key| key.sort);
        Ok(Some(output.into()))
    }

    /// Reads the ids of the next events without their sources.
    async fn read_places(&mut self) -> Result<(), ApiError> {
        let mut body = self.body(PLACES);
        body["_source"] = false.into();
        let hits = self.search(&self.request.question.query_dsl, body).await?;
        self.is_over = hits.len() < PLACES;
        self.places = hits
            .into_iter()
            .map(|hit| Key {
                index: hit.index,
                id: hit.id,
                sort: hit.sort,
            })
            .collect();
        Ok(())
    }

    /// Reads the events with the next ids.
    async fn read(&self, keys: &[Key]) -> Result<Vec<Hit>, ApiError> {
        let mut indices: Vec<&str> = keys.iter().map(|key| key.index.as_str()).collect();
        indices.sort_unstable();
        indices.dedup();
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        // An event with one of these ids that does not match the query, or comes earlier in the order, is not returned.
        let query = json!({"bool": {"filter": [
            {"terms": {"_index": indices}},
            {"ids": {"values": ids}},
            self.request.question.query_dsl,
        ]}});
        let mut body = self.body(keys.len());
        if let Format::Csv(columns) = &self.request.format
            && !columns.looked_up.is_empty()
        {
            body["fields"] = json!(columns.looked_up);
        }
        let hits = self.search(&query, body).await?;
        let is_same = |(hit, key): (&Hit, &Key)| hit.id == key.id && hit.index == key.index;
        match hits.len() == keys.len() && hits.iter().zip(keys).all(is_same) {
            true => Ok(hits),
            false => Err(self.lost()),
        }
    }

    fn body(&self, size: usize) -> Value {
        let mut body = json!({"size": size, "sort": self.request.question.sort, "track_total_hits": false});
        if let Some(after) = &self.after {
            body["search_after"] = after.clone().into();
        }
        body
    }

    async fn search(&self, query: &Value, body: Value) -> Result<Vec<Hit>, ApiError> {
        let mut request = self.request.moment.request(query, body)?;
        request.allow_partial_results = false;
        let found = self.request.moment.search(request).await?;
        self.request.allowance.check()?;
        Ok(found.hits)
    }

    fn lost(&self) -> ApiError {
        let (written, total) = (self.written, self.total);
        Error::internal(format!(
            "a bug: an event was not found again after [{written}] of [{total}] events"
        ))
        .into()
    }
}

/// Returns the size of the next read after `count` events of `bytes`. Long events reduce it at once; short events at
/// most double it.
fn next_batch(count: usize, bytes: usize) -> usize {
    let each = (bytes / count.max(1)).max(1);
    (BATCH_BYTES / each)
        .clamp(1, BATCH_MAX)
        .min(2 * count.max(BATCH_FIRST / 2))
}

async fn count(export: &ExportRequest) -> Result<u64, ApiError> {
    let body = json!({"size": 0, "track_total_hits": true});
    let mut request = export.moment.request(&export.question.query_dsl, body)?;
    request.allow_partial_results = false;
    let response = export.moment.search(request).await?;
    Ok(response.total.map_or(0, |total| total.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_events_are_read_one_by_one() {
        assert_eq!(next_batch(8, 8 * 500), 16);
        assert_eq!(next_batch(64, 64 * 500), 64);
        assert_eq!(next_batch(64, 64 << 20), 1);
        assert_eq!(next_batch(1, 500), 8);
        assert_eq!(next_batch(1, 4 << 20), 1);
    }
}
