//! Reading the events of an export, as fast as its client takes them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_engine::search::Hit;
use firn_engine::{Error, ErrorKind, RequestContext};
use futures_util::{Stream, stream};
use serde_json::{Value, json};

use super::super::request::Question;
use super::super::store::Place;
use super::cost::Allowance;
use super::format::Format;
use crate::error::ApiError;
use crate::moment::Moment;
use crate::record::{StageTiming, Timings};
use crate::request::Edge;

/// Places that are read ahead: each search goes over all that match.
const PLACES: usize = 2000;
/// Events that are read at once: what they may take is bounded by the longest that may be sent.
pub(super) const BATCH_MAX: usize = 64;
const BATCH_FIRST: usize = 8;
/// Bytes of events that are read at once, about.
const BATCH_BYTES: usize = 1 << 20;
/// How long a connection that breaks off stays open for its last line to be taken.
const LAST_LINE: Duration = Duration::from_secs(1);

/// Where an event stands.
struct Key {
    index: String,
    id: String,
    sort: Vec<Value>,
}

/// What an export is made of.
pub(super) struct Asked {
    pub(super) edge: Arc<Edge>,
    pub(super) ctx: RequestContext,
    pub(super) moment: Moment,
    /// The concrete indices that events are of.
    pub(super) indices: Vec<String>,
    /// Also says whether somebody ended it.
    pub(super) place: Place,
    pub(super) question: Question,
    pub(super) format: Format,
    pub(super) allowance: Allowance,
    pub(super) timings: Arc<Timings>,
}

/// A file on its way.
pub(super) struct Export {
    asked: Asked,
    /// What was not sent yet of what stands before the first event.
    head: Vec<u8>,
    total: u64,
    /// Events so far.
    told: u64,
    /// Of the next events.
    places: VecDeque<Key>,
    /// Where the last event stood that was told.
    after: Option<Vec<Value>>,
    /// Events that are read next.
    batch: usize,
    /// No more places follow.
    is_over: bool,
    started: Instant,
}

/// How far the body of the answer is.
enum Stage {
    Reading(Box<Export>),
    /// The last line says why it is the last.
    Failed,
    Over,
}

impl Export {
    /// Counts the events, and finds the first: what is wrong with the question is told while that can still be told.
    pub(super) async fn begin(asked: Asked) -> Result<Self, ApiError> {
        let total = count(&asked).await?;
        let mut export = Self {
            head: asked.format.head(),
            total,
            told: 0,
            places: VecDeque::new(),
            after: None,
            batch: BATCH_FIRST,
            is_over: false,
            started: asked.ctx.started,
            asked,
        };
        export.read_places().await?;
        Ok(export)
    }

    /// Events that it is about.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The lines of the file. What fails is its last line, and its connection breaks off after that: who does not read the line
    /// does not take a part for the whole.
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

    /// The last line of one that failed.
    async fn failed(&mut self, error: ApiError) -> Bytes {
        let error = self.deleted().await.map_or(error, ApiError::from);
        let (told, total) = (self.told, self.total);
        tracing::warn!(?error, told, total, "an export broke off");
        self.ended("failed");
        let mut output = std::mem::take(&mut self.head);
        let error = error.told(&self.asked.ctx);
        self.asked.format.write_failure(&mut output, &error, told, total);
        output.into()
    }

    /// That an index is not there any more: then nothing of the point in time is, and that is all that its searches say.
    async fn deleted(&self) -> Option<Error> {
        let metadata = self.asked.edge.engine.metadata(&self.asked.ctx).await.ok()?;
        let is_gone = |name: &&String| !metadata.indices.contains_key(name.as_str());
        let gone = self.asked.indices.iter().find(is_gone)?;
        let reason = format!("no such index [{gone}]: it was deleted while its events were read");
        Some(Error::new(ErrorKind::IndexNotFound, reason).with_index(gone))
    }

    fn ended(&self, outcome: &'static str) {
        self.asked.timings.push(StageTiming {
            stage: "export",
            outcome,
            took: self.started.elapsed(),
        });
    }

    /// The next lines; `None`: that was all.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        if self.asked.place.is_over() {
            return Err(Error::new(ErrorKind::Cancelled, "the export was cancelled").into());
        }
        if self.places.is_empty() && !self.is_over {
            self.read_places().await?;
        }
        let count = self.batch.min(self.places.len());
        if count == 0 {
            return match (self.head.is_empty(), self.told == self.total) {
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
            self.asked.format.write(&mut output, hit)?;
        }
        self.head.clear();
        self.told += hits.len() as u64;
        self.batch = next_batch(count, bytes);
        self.after = keys.into_iter().next_back().map(|key| key.sort);
        Ok(Some(output.into()))
    }

    /// Finds where the next events stand, without reading them.
    async fn read_places(&mut self) -> Result<(), ApiError> {
        let mut body = self.body(PLACES);
        body["_source"] = false.into();
        let hits = self.search(&self.asked.question.query_dsl, body).await?;
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

    /// Reads the events of the next places.
    async fn read(&self, keys: &[Key]) -> Result<Vec<Hit>, ApiError> {
        let mut indices: Vec<&str> = keys.iter().map(|key| key.index.as_str()).collect();
        indices.sort_unstable();
        indices.dedup();
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        // What is no place of these, by the query or by the order, is not among them though it may have one's id.
        let query = json!({"bool": {"filter": [
            {"terms": {"_index": indices}},
            {"ids": {"values": ids}},
            self.asked.question.query_dsl,
        ]}});
        let mut body = self.body(keys.len());
        if let Format::Csv(columns) = &self.asked.format
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
        let mut body = json!({"size": size, "sort": self.asked.question.sort, "track_total_hits": false});
        if let Some(after) = &self.after {
            body["search_after"] = after.clone().into();
        }
        body
    }

    async fn search(&self, query: &Value, body: Value) -> Result<Vec<Hit>, ApiError> {
        let mut request = self.asked.moment.request(query, body)?;
        request.allow_partial_results = false;
        let found = self.asked.moment.search(request).await?;
        self.asked.allowance.check()?;
        Ok(found.hits)
    }

    fn lost(&self) -> ApiError {
        let (told, total) = (self.told, self.total);
        Error::internal(format!("a bug: [{told}] events of [{total}] were found again")).into()
    }
}

/// How many events are read next after so many of so many bytes: soon fewer if they are long, slowly more if they are short.
fn next_batch(count: usize, bytes: usize) -> usize {
    let each = (bytes / count.max(1)).max(1);
    (BATCH_BYTES / each)
        .clamp(1, BATCH_MAX)
        .min(2 * count.max(BATCH_FIRST / 2))
}

async fn count(asked: &Asked) -> Result<u64, ApiError> {
    let body = json!({"size": 0, "track_total_hits": true});
    let mut request = asked.moment.request(&asked.question.query_dsl, body)?;
    request.allow_partial_results = false;
    let response = asked.moment.search(request).await?;
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
