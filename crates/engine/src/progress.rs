//! What a search that still runs has found, for those who ask before it ends (`_async_search`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::search::{SearchResponse, SearchShards, TotalHits};

/// Where a running search leaves what it has found so far. A search whose
/// [`RequestContext`](crate::RequestContext) carries one publishes now and then; whoever asks reads the latest.
#[derive(Debug)]
pub struct Progress {
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Shards of the target, once they are known.
    expected: u32,
    /// Shards that were left out before the search began.
    skipped: u32,
    /// Shards that failed on the way: index, shard, why.
    failures: Vec<(String, u32, Error)>,
    latest: Option<Arc<SearchResponse>>,
}

impl Default for Progress {
    /// Four times a second: nobody reads faster.
    fn default() -> Self {
        Self::every(Duration::from_millis(250))
    }
}

impl Progress {
    /// Nothing yet. The search publishes at most so often; zero: after each segment.
    pub fn every(every: Duration) -> Self {
        Self {
            every,
            state: Mutex::default(),
        }
    }

    /// What it was made with.
    pub fn pace(&self) -> Duration {
        self.every
    }

    /// Shards that the search is about, those that need none included.
    pub fn expect(&self, shards: u32) {
        self.state().expected = shards;
    }

    /// What there is to tell before anything is published: no hits so far, and none of the shards done.
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

    /// Shards that need no search, to be counted with all that follows.
    pub fn skip(&self, count: u32) {
        self.state().skipped = count;
    }

    /// The shards that failed so far, to be named with all that follows.
    pub fn fail(&self, failures: Vec<(String, u32, Error)>) {
        self.state().failures = failures;
    }

    /// Leaves what was found. `response.shards` is about the shards that are being searched: of them `successful`
    /// are done. It has no hits, since a better one may come.
    pub fn publish(&self, mut response: SearchResponse) {
        let mut state = self.state();
        let shards = &mut response.shards;
        shards.total += state.skipped + state.failures.len() as u32;
        shards.successful += state.skipped;
        shards.skipped += state.skipped;
        shards.failures = state.failures.clone();
        state.latest = Some(Arc::new(response));
    }

    /// What was published last; `None`: nothing yet.
    pub fn latest(&self) -> Option<Arc<SearchResponse>> {
        self.state().latest.clone()
    }

    /// Lets go of what was published: the search has ended, and what it came to says it all.
    pub fn clear(&self) {
        self.state().latest = None;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

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
