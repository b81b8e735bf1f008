//! Progress of a running search: partial results that clients read before it ends (`_async_search`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_model::Error;
use firn_query::search::{SearchResponse, SearchShards, TotalHits};

use crate::Scope;

/// Rule for what a scope may see of failed shards: index, shard number, error.
pub(crate) type FailureRule = fn(&Scope, &mut [(String, u32, Error)]);

/// Holder of the latest partial result of a running search. A search whose [`RequestContext`](crate::RequestContext)
/// carries one publishes at intervals; readers get the latest result.
#[derive(Debug)]
pub struct Progress {
    every: Duration,
    state: Arc<Mutex<State>>,
    /// What the readers may see of failures; `None`: all.
    reader: Option<(Arc<Scope>, FailureRule)>,
}

#[derive(Debug, Default)]
struct State {
    /// Shards of the target, set once known.
    expected: u32,
    /// Shards that were skipped before the search began.
    skipped: u32,
    /// Shards that failed so far: index, shard number, error.
    failures: Vec<(String, u32, Error)>,
    latest: Option<Arc<SearchResponse>>,
}

impl Default for Progress {
    /// Publishes four times a second: clients do not poll faster.
    fn default() -> Self {
        Self::every(Duration::from_millis(250))
    }
}

impl Progress {
    /// Returns an empty progress. The search publishes at most once per `every`; zero: after each segment.
    pub fn every(every: Duration) -> Self {
        Self {
            every,
            state: Arc::default(),
            reader: None,
        }
    }

    /// Returns a holder of the same result, for an engine that publishes to readers with this scope: the rule is applied
    /// to failures.
    pub(crate) fn disclosed_to(&self, scope: &Arc<Scope>, rule: FailureRule) -> Self {
        Self {
            every: self.every,
            state: Arc::clone(&self.state),
            reader: Some((Arc::clone(scope), rule)),
        }
    }

    /// Returns the interval between two publications.
    pub fn pace(&self) -> Duration {
        self.every
    }

    /// Sets the number of shards of the search, including those that need no search.
    pub fn expect(&self, shards: u32) {
        self.state().expected = shards;
    }

    /// Returns the answer before anything is published: no hits, no shard done.
    pub fn nothing_yet(&self) -> SearchResponse {
        SearchResponse {
            shards: SearchShards {
                total: self.state().expected,
                ..SearchShards::default()
            },
            total: Some(TotalHits { value: 0, exact: false }),
            ..SearchResponse::default()
        }
    }

    /// Sets the number of skipped shards; every later publication counts them.
    pub fn skip(&self, count: u32) {
        self.state().skipped = count;
    }

    /// Sets the shards that failed so far; every later publication lists them.
    pub fn fail(&self, mut failures: Vec<(String, u32, Error)>) {
        if let Some((scope, rule)) = &self.reader {
            rule(scope, &mut failures);
        }
        self.state().failures = failures;
    }

    /// Publishes a partial result. `response.shards` covers the shards that are being searched: of them `successful`
    /// are done. It has no hits, because better ones may still come.
    pub fn publish(&self, mut response: SearchResponse) {
        let mut state = self.state();
        let shards = &mut response.shards;
        shards.total += state.skipped + state.failures.len() as u32;
        shards.successful += state.skipped;
        shards.skipped += state.skipped;
        shards.failures = state.failures.clone();
        state.latest = Some(Arc::new(response));
    }

    /// Returns the last published result; `None`: nothing yet.
    pub fn latest(&self) -> Option<Arc<SearchResponse>> {
        self.state().latest.clone()
    }

    /// Drops the published result: the search has ended, and its final answer replaces it.
    pub fn clear(&self) {
        self.state().latest = None;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use firn_model::ErrorKind;

    use super::*;

    #[test]
    fn shards_outside_of_the_search_are_counted() {
        let progress = Progress::default();
        assert!(progress.latest().is_none());
        progress.expect(8);
        let first = progress.nothing_yet();
        assert_eq!((first.shards.total, first.shards.successful), (8, 0));
        assert!(first.total.is_some_and(|total| total.value == 0 && !total.exact));
        progress.skip(3);
        let error = Error::new(ErrorKind::ShardDamaged, "damaged");
        progress.fail(vec![("a".to_owned(), 1, error)]);
        progress.publish(SearchResponse {
            shards: SearchShards {
                total: 4,
                successful: 2,
                ..SearchShards::default()
            },
            ..SearchResponse::default()
        });
        let shards = progress.latest().unwrap().shards.clone();
        assert_eq!((shards.total, shards.successful, shards.skipped), (8, 5, 3));
        assert_eq!(shards.failures.len(), 1);
        progress.clear();
        assert!(progress.latest().is_none());
    }
}
