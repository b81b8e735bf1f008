//! Store of running and retained async searches, bounded in number and bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_engine::{Error, ErrorKind, FairPermit, Progress, Scope};
use firn_model::tenant::TenantId;
use firn_query::Cancel;
use firn_query::search::SearchResponse;
use tokio::sync::watch;

use crate::state::config::AsyncSearchLimits;
use crate::state::retained;
use crate::state::retained::{Answers, Bounds, RetainedResult};
use crate::wire::error::ApiError;

/// Prefix of an id.
const PREFIX: &str = "firna";

/// Store of all async searches.
pub(crate) type AsyncSearches = Answers<Search>;

/// One async search.
pub(crate) type AsyncSearch = RetainedResult<Search>;

/// State of an async search.
pub(crate) struct Search {
    pub(crate) started_ms: i64,
    progress: Arc<Progress>,
    state: Mutex<State>,
    is_done: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// The search stays available under its id, so its size counts against the limits.
    is_retained: bool,
    outcome: Option<Arc<Completed>>,
    held: Option<FairPermit<Option<TenantId>>>,
}

/// Result of a search.
pub(crate) struct Completed {
    pub(crate) at_ms: i64,
    pub(crate) result: Result<SearchResponse, ApiError>,
}

impl Answers<Search> {
    /// Creates an empty store.
    pub(crate) fn new(limits: AsyncSearchLimits) -> Arc<Self> {
        let bounds = Bounds {
            count_max: limits.count_max,
            per_tenant_max: None,
            bytes_max: limits.bytes_max,
            answer_bytes_max: limits.response_bytes_max,
        };
        Self::bounded(PREFIX, bounds)
    }

    /// Adds a search for a caller in `scope`. `random` fills its id with unguessable bytes.
    pub(crate) fn open(
        &self,
        scope: Arc<Scope>,
        now_ms: i64,
        keep_alive: Duration,
        random: &(dyn Fn(&mut [u8]) + Send + Sync),
    ) -> Result<Arc<AsyncSearch>, Error> {
        let search = Search {
            started_ms: now_ms,
            progress: Arc::default(),
            state: Mutex::default(),
            is_done: watch::Sender::new(false),
        };
        let expires_ms = Some(retained::after(now_ms, keep_alive));
        let added = self.add(scope, Cancel::default(), expires_ms, random, search);
        added.map_err(|full| {
            let (retained::Full::All(held) | retained::Full::Tenant(held)) = full;
            Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution of an async search: [{held}] async searches are already running. This limit \
                     can be set by changing the [search.max_async_searches] setting."
                ),
            )
        })
    }

    /// Retains a search until it is deleted or expires; from now on its answer must fit the limits.
    pub(crate) fn keep(&self, search: &AsyncSearch, now_ms: i64) {
        let mut state = lock(&search.answer.state);
        if state.is_retained {
            return;
        }
        state.is_retained = true;
        if let Some(done) = state.outcome.take() {
            self.store(search, &mut state, done, now_ms);
        }
    }

    /// Stores the result of a search.
    pub(crate) fn complete(&self, search: &AsyncSearch, now_ms: i64, result: Result<SearchResponse, ApiError>) {
        let done = Arc::new(Completed { at_ms: now_ms, result });
        let mut state = lock(&search.answer.state);
        match state.is_retained {
            true => self.store(search, &mut state, done, now_ms),
            false => state.outcome = Some(done),
        }
        let failed = state.outcome.as_ref().is_some_and(|done| done.result.is_err());
        drop(state);
        // The partial results of a failed search remain available.
        if !failed {
            search.answer.progress.clear();
        }
        search.answer.is_done.send_replace(true);
    }

    /// Stores the result, or an error if it exceeds the limits.
    fn store(&self, search: &AsyncSearch, state: &mut State, done: Arc<Completed>, now_ms: i64) {
        let bytes = match &done.result {
            Ok(response) => response.bytes() as u64,
            Err(_) => search
                .answer
                .progress
                .latest()
                .map_or(0, |latest| latest.bytes() as u64),
        };
        let refused = if bytes > self.bounds.answer_bytes_max {
            Some(Error::illegal_argument(format!(
                "Can't store an async search response larger than [{}] bytes. This limit can be set by changing the \
                 [search.max_async_search_response_size] setting.",
                self.bounds.answer_bytes_max
            )))
        } else {
            let mut taken = self.bytes.take(search.tenant(), bytes);
            while taken.is_err() && self.make_room(bytes) {
                taken = self.bytes.take(search.tenant(), bytes);
            }
            match taken {
                Ok(share) => {
                    state.held = Some(share);
                    None
                }
                Err(held) => Some(Error::new(
                    ErrorKind::CircuitBreaking,
                    format!(
                        "[async_search] Data too large, [{held}] bytes of answers are stored already, with the limit \
                         of [{}]. This limit can be set by changing the [search.max_async_search_memory] setting.",
                        self.bounds.bytes_max
                    ),
                )),
            }
        };
        let held = state.held.as_ref().map_or(0, FairPermit::amount);
        state.outcome = Some(match refused {
            None => done,
            Some(error) => {
                // Results that do not count against the limits are dropped.
                search.answer.progress.clear();
                Arc::new(Completed {
                    at_ms: now_ms,
                    result: Err(error.into()),
                })
            }
        });
        self.end(search, held);
    }
}

impl RetainedResult<Search> {
    /// Returns the partial results so far.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.answer.progress
    }

    /// Returns the result once the search has ended.
    pub(crate) fn completed(&self) -> Option<Arc<Completed>> {
        lock(&self.answer.state).outcome.clone()
    }

    /// Waits for the end for at most this time; returns whether the search has ended.
    pub(crate) async fn wait(&self, at_most: Duration) -> bool {
        let mut is_done = self.answer.is_done.subscribe();
        let ended = tokio::time::timeout(at_most, is_done.wait_for(|is_done| *is_done)).await;
        matches!(ended, Ok(Ok(_)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use firn_query::search::{Hit, InnerPage};
    use serde_json::json;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn searches(count_max: usize, bytes_max: u64, response_bytes_max: u64) -> Arc<AsyncSearches> {
        AsyncSearches::new(AsyncSearchLimits {
            count_max,
            bytes_max,
            response_bytes_max,
        })
    }

    fn open(searches: &AsyncSearches, scope: Scope) -> Result<Arc<AsyncSearch>, Error> {
        static OPENED: AtomicU8 = AtomicU8::new(0);
        let byte = OPENED.fetch_add(1, Ordering::Relaxed);
        searches.open(Arc::new(scope), 0, MINUTE, &|bytes| bytes.fill(byte))
    }

    fn tenant(name: &str) -> Scope {
        Scope::tenant(TenantId::parse(name).unwrap())
    }

    fn answer(words: usize) -> SearchResponse {
        SearchResponse {
            aggregations: Some(Arc::new(json!({"a": "x".repeat(words)}))),
            ..SearchResponse::default()
        }
    }

    #[test]
    fn they_are_few_and_removing_one_makes_room() {
        let searches = searches(1, 1 << 20, 1 << 20);
        let first = open(&searches, tenant("a")).unwrap();
        assert!(searches.find(&tenant("a"), &first.id, 59_999).is_ok());
        assert!(searches.find(&tenant("a"), &first.id, 60_000).is_err());
        let error = open(&searches, tenant("a")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.reason().contains("search.max_async_searches"), "{error}");
        searches.remove(&first);
        drop(first);
        open(&searches, tenant("a")).unwrap();
    }

    #[test]
    fn stored_results_must_fit_the_limits() {
        let searches = searches(10, 5000, 3000);
        let store = |words| {
            let search = open(&searches, tenant("a")).unwrap();
            searches.keep(&search, 1);
            searches.complete(&search, 2, Ok(answer(words)));
            search
        };
        let reason = |search: &AsyncSearch| {
            let done = search.completed().unwrap();
            done.result.as_ref().err().map(|error| format!("{error:?}"))
        };
        let first = store(2000);
        assert_eq!(reason(&first), None);
        let large = reason(&store(4000)).unwrap();
        assert!(large.contains("larger than [3000] bytes"), "{large}");
        let _second = store(2000);
        // References to both remain in use.
        let full = reason(&store(2000)).unwrap();
        assert!(full.contains("search.max_async_search_memory"), "{full}");
        // A waiting client gets an answer of any size; the size limit applies once the result is to be retained.
        let search = open(&searches, tenant("a")).unwrap();
        searches.complete(&search, 2, Ok(answer(4000)));
        assert_eq!(reason(&search), None);
        searches.keep(&search, 3);
        assert!(reason(&search).is_some());
    }

    #[test]
    fn the_oldest_makes_room_for_what_ends() {
        let searches = searches(3, 5000, 3000);
        let store = |words| {
            let search = open(&searches, tenant("a")).unwrap();
            searches.keep(&search, 1);
            searches.complete(&search, 2, Ok(answer(words)));
            assert!(search.completed().unwrap().result.is_ok());
            search.id.clone()
        };
        let is_there = |id: &String| searches.find(&tenant("a"), id, 3).is_ok();
        let ids: Vec<String> = (0..3).map(|_| store(2000)).collect();
        assert_eq!(
            ids.iter().map(is_there).collect::<Vec<_>>(),
            [false, true, true],
            "bytes"
        );
        let small: Vec<String> = (0..10).map(|_| store(1)).collect();
        let left = small.iter().filter(|id| is_there(id)).count();
        assert_eq!(left, 3, "number");
        assert!(is_there(&small[9]) && !ids.iter().any(is_there));
    }

    #[test]
    fn all_that_a_hit_holds_is_counted() {
        let text = || "x".repeat(4000);
        let list = |name: &str| json!({name: [text()]}).as_object().cloned().unwrap();
        let inner = InnerPage {
            total: None,
            max_score: None,
            hits: vec![Hit {
                source: Some(text().into()),
                ..Hit::default()
            }],
        };
        let heavy = [
            Hit {
                source: Some(text().into()),
                ..Hit::default()
            },
            Hit {
                fields: list("f"),
                ..Hit::default()
            },
            Hit {
                highlight: list("f"),
                ..Hit::default()
            },
            Hit {
                sort: vec![json!(text())],
                ..Hit::default()
            },
            Hit {
                ignored: vec![text()],
                ..Hit::default()
            },
            Hit {
                matched_queries: vec![(text(), None)],
                ..Hit::default()
            },
            Hit {
                inner_hits: vec![("i".to_owned(), inner)],
                ..Hit::default()
            },
        ];
        for hit in heavy {
            let searches = searches(10, 1 << 20, 3000);
            let search = open(&searches, tenant("a")).unwrap();
            searches.keep(&search, 1);
            let shown = format!("{hit:?}");
            let response = SearchResponse {
                hits: vec![hit],
                ..SearchResponse::default()
            };
            searches.complete(&search, 2, Ok(response));
            assert!(search.completed().unwrap().result.is_err(), "{shown}");
        }
    }

    #[test]
    fn what_was_found_on_the_way_goes_with_the_end() {
        let searches = searches(10, 5000, 3000);
        let ended = |result| {
            let search = open(&searches, tenant("a")).unwrap();
            search.progress().publish(answer(2000));
            searches.keep(&search, 1);
            searches.complete(&search, 2, result);
            search
        };
        let done = ended(Ok(answer(10)));
        assert!(done.progress().latest().is_none());
        let failed = || Err(Error::internal("it broke").into());
        let broken = ended(failed());
        assert!(
            broken.progress().latest().is_some(),
            "partial results are returned with the error"
        );
        let _another = ended(failed());
        let refused = ended(failed());
        assert!(refused.progress().latest().is_none(), "there is no room for it");
    }
}
