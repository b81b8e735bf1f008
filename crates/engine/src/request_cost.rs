//! Work counters: what a request costs.

use std::sync::atomic::{AtomicU64, Ordering};

use firn_model::ErrorKind;
use firn_query::search::SearchResponse;

use crate::document::{BulkItemResponse, BulkResponse, Effect};

/// Work counters of one request. The engine counts, and the audit and traffic records read. Approximate while the
/// request runs, exact after its answer.
#[derive(Debug, Default)]
pub struct Work {
    shards: AtomicU64,
    segments: AtomicU64,
    hits: AtomicU64,
    written: AtomicU64,
    denied: AtomicU64,
    repository_requests: AtomicU64,
    repository_bytes: AtomicU64,
}

/// Values of [`Work`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkDone {
    /// Shards searched, without those that could hold no match.
    pub shards: u64,
    /// Segments whose rows were read, without pruned segments and those answered from a cache or statistics.
    pub segments: u64,
    /// Hits of searches, as far as counted.
    pub hits: u64,
    /// Documents written or deleted.
    pub written: u64,
    /// Bulk items that the caller is not authorized to write.
    pub denied: u64,
    /// Ranges of snapshots that were fetched from repositories.
    pub repository_requests: u64,
    /// Bytes of those ranges.
    pub repository_bytes: u64,
}

impl Work {
    /// Counts a segment.
    pub fn add_segment(&self) {
        self.segments.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the work of a part of the request that was counted separately.
    pub fn add_done(&self, done: &WorkDone) {
        for (counter, count) in [
            (&self.shards, done.shards),
            (&self.segments, done.segments),
            (&self.hits, done.hits),
            (&self.written, done.written),
            (&self.denied, done.denied),
            (&self.repository_requests, done.repository_requests),
            (&self.repository_bytes, done.repository_bytes),
        ] {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts fetches from repositories.
    pub fn add_fetched(&self, requests: u64, bytes: u64) {
        self.repository_requests.fetch_add(requests, Ordering::Relaxed);
        self.repository_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the shards and hits of a search.
    pub fn add_search(&self, response: &SearchResponse) {
        let searched = response.shards.successful.saturating_sub(response.shards.skipped);
        let failed = response.shards.failures.len() as u64;
        self.shards.fetch_add(u64::from(searched) + failed, Ordering::Relaxed);
        let hits = response.total.map_or(response.hits.len() as u64, |total| total.value);
        self.hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// Counts the changed documents and denied items of a bulk.
    pub fn add_bulk(&self, response: &BulkResponse) {
        let changed = |item: &&BulkItemResponse| matches!(&item.result, Ok(written) if !matches!(written.effect, Effect::Noop | Effect::NotFound));
        let is_denied =
            |item: &&BulkItemResponse| matches!(&item.result, Err(error) if error.kind() == ErrorKind::Forbidden);
        let count = |filter: &dyn Fn(&&BulkItemResponse) -> bool| response.items.iter().filter(filter).count() as u64;
        self.written.fetch_add(count(&changed), Ordering::Relaxed);
        self.denied.fetch_add(count(&is_denied), Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub fn done(&self) -> WorkDone {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkDone {
            shards: read(&self.shards),
            segments: read(&self.segments),
            hits: read(&self.hits),
            written: read(&self.written),
            denied: read(&self.denied),
            repository_requests: read(&self.repository_requests),
            repository_bytes: read(&self.repository_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_model::Error;
    use firn_query::search::{SearchShards, TotalHits};

    use super::*;
    use crate::document::Written;

    #[test]
    fn work_adds_up() {
        let work = Work::default();
        work.add_segment();
        work.add_segment();
        work.add_fetched(1, 30);
        work.add_fetched(2, 40);
        work.add_search(&SearchResponse {
            shards: SearchShards {
                total: 5,
                successful: 4,
                skipped: 3,
                failures: vec![("i".to_owned(), 0, Error::internal("x"))],
            },
            total: Some(TotalHits { value: 7, exact: true }),
            ..SearchResponse::default()
        });
        let item = |result| BulkItemResponse {
            index: "i".to_owned(),
            id: "1".to_owned(),
            result,
        };
        let written = |effect| Written {
            effect,
            version: 1,
            seq_no: 0,
            primary_term: 1,
            forced_refresh: false,
            get: None,
        };
        work.add_bulk(&BulkResponse {
            items: vec![
                item(Ok(written(Effect::Created))),
                item(Ok(written(Effect::Noop))),
                item(Ok(written(Effect::Deleted))),
                item(Err(Error::internal("x"))),
                item(Err(Error::new(ErrorKind::Forbidden, "x"))),
            ],
        });
        let expect = WorkDone {
            shards: 2,
            segments: 2,
            hits: 7,
            written: 2,
            denied: 1,
            repository_requests: 3,
            repository_bytes: 70,
        };
        assert_eq!(work.done(), expect);
        let whole = Work::default();
        whole.add_done(&expect);
        assert_eq!(whole.done(), expect);
    }
}
