//! The asynchronous searches that run or are kept, within bounds of number and bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_engine::search::SearchResponse;
use firn_engine::{Cancel, Error, ErrorKind, Progress, Scope, Share, Shares};
use firn_model::tenant::TenantId;
use tokio::sync::{Notify, watch};

use crate::config::AsyncSearchLimits;
use crate::error::ApiError;

/// What an id begins with.
const PREFIX: &str = "firna";
/// Random bytes of an id: nobody guesses one.
const ID_BYTES: usize = 32;
/// Characters of an id after its prefix.
const ID_CHARS: usize = 43;

/// All of them.
pub(crate) struct AsyncSearches {
    by_id: Mutex<HashMap<String, Arc<AsyncSearch>>>,
    places: Arc<Shares<Option<TenantId>>>,
    bytes: Arc<Shares<Option<TenantId>>>,
    limits: AsyncSearchLimits,
}

/// One of them.
pub(crate) struct AsyncSearch {
    pub(crate) id: String,
    /// Of the request that submitted it: for others it is not there.
    scope: Arc<Scope>,
    pub(crate) started_ms: i64,
    expires_ms: AtomicI64,
    cancel: Cancel,
    progress: Arc<Progress>,
    state: Mutex<State>,
    is_done: watch::Sender<bool>,
    is_removed: AtomicBool,
    /// It was removed, or is to be kept for another time.
    changed: Notify,
    _place: Share<Option<TenantId>>,
}

#[derive(Default)]
struct State {
    /// It stays for those who have its id, so it counts against the bounds.
    is_kept: bool,
    outcome: Option<Arc<Completed>>,
    held: Option<Share<Option<TenantId>>>,
}

/// What a search came to.
pub(crate) struct Completed {
    pub(crate) at_ms: i64,
    pub(crate) result: Result<SearchResponse, ApiError>,
}

impl AsyncSearches {
    /// None yet.
    pub(crate) fn new(limits: AsyncSearchLimits) -> Arc<Self> {
        Arc::new(Self {
            by_id: Mutex::default(),
            places: Shares::new(limits.count_max as u64),
            bytes: Shares::new(limits.bytes_max),
            limits,
        })
    }

    /// One more, for who asks in `scope`. `random` fills its id with what nobody can guess.
    pub(crate) fn open(
        &self,
        scope: Arc<Scope>,
        now_ms: i64,
        keep_alive: Duration,
        random: &(dyn Fn(&mut [u8]) + Send + Sync),
    ) -> Result<Arc<AsyncSearch>, Error> {
        let place = self.places.take(scope.tenant_id().cloned(), 1).map_err(|held| {
            Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution of an async search: [{held}] are running or kept already. This limit can be set \
                     by changing the [search.max_async_searches] setting; deleting those that are no longer needed makes \
                     room."
                ),
            )
        })?;
        let mut bytes = [0; ID_BYTES];
        random(&mut bytes);
        let search = Arc::new(AsyncSearch {
            id: format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)),
            scope,
            started_ms: now_ms,
            expires_ms: AtomicI64::new(after(now_ms, keep_alive)),
            cancel: Cancel::default(),
            progress: Arc::default(),
            state: Mutex::default(),
            is_done: watch::Sender::new(false),
            is_removed: AtomicBool::new(false),
            changed: Notify::new(),
            _place: place,
        });
        lock(&self.by_id).insert(search.id.clone(), Arc::clone(&search));
        Ok(search)
    }

    /// The one of an id, if it is there for `scope`.
    pub(crate) fn find(&self, scope: &Scope, id: &str, now_ms: i64) -> Result<Arc<AsyncSearch>, Error> {
        let is_id = id.strip_prefix(PREFIX).is_some_and(|rest| {
            rest.len() == ID_CHARS
                && rest
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        });
        if !is_id {
            let shown: String = id.chars().take(2 * ID_CHARS).collect();
            return Err(Error::illegal_argument(format!("invalid id: [{shown}]")));
        }
        let found = lock(&self.by_id).get(id).cloned();
        found
            .filter(|search| scope.may_use(&search.scope) && search.time_left(now_ms).is_some())
            .ok_or_else(|| Error::new(ErrorKind::ResourceNotFound, id))
    }

    /// Ends one and lets it go.
    pub(crate) fn remove(&self, search: &AsyncSearch) {
        lock(&self.by_id).remove(&search.id);
        search.cancel.cancel();
        search.is_removed.store(true, Ordering::Relaxed);
        search.changed.notify_one();
    }

    /// Ends and removes all of a tenant.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let own: Vec<_> = (lock(&self.by_id).values())
            .filter(|search| search.scope.tenant_id() == Some(tenant))
            .cloned()
            .collect();
        for search in own {
            self.remove(&search);
        }
    }

    /// From now on it stays until it is deleted or expires, and its answer has to fit in.
    pub(crate) fn keep(&self, search: &AsyncSearch, now_ms: i64) {
        let mut state = lock(&search.state);
        if state.is_kept {
            return;
        }
        state.is_kept = true;
        if let Some(done) = state.outcome.take() {
            self.store(search, &mut state, done, now_ms);
        }
    }

    /// Takes what it came to.
    pub(crate) fn complete(&self, search: &AsyncSearch, now_ms: i64, result: Result<SearchResponse, ApiError>) {
        let done = Arc::new(Completed { at_ms: now_ms, result });
        let mut state = lock(&search.state);
        match state.is_kept {
            true => self.store(search, &mut state, done, now_ms),
            false => state.outcome = Some(done),
        }
        let failed = state.outcome.as_ref().is_some_and(|done| done.result.is_err());
        drop(state);
        // What a failed one had found until then is still told.
        if !failed {
            search.progress.clear();
        }
        search.is_done.send_replace(true);
    }

    /// Puts what it came to, or why there is no room for that.
    fn store(&self, search: &AsyncSearch, state: &mut State, done: Arc<Completed>, now_ms: i64) {
        let bytes = match &done.result {
            Ok(response) => response.bytes() as u64,
            Err(_) => search.progress.latest().map_or(0, |latest| latest.bytes() as u64),
        };
        let refused = if bytes > self.limits.response_bytes_max {
            Some(Error::illegal_argument(format!(
                "Can't store an async search response larger than [{}] bytes. This limit can be set by changing the \
                 [search.max_async_search_response_size] setting.",
                self.limits.response_bytes_max
            )))
        } else {
            match self.bytes.take(search.scope.tenant_id().cloned(), bytes) {
                Ok(share) => {
                    state.held = Some(share);
                    None
                }
                Err(held) => Some(Error::new(
                    ErrorKind::CircuitBreaking,
                    format!(
                        "[async_search] Data too large, [{held}] bytes of answers are kept already, with the limit of \
                         [{}]. This limit can be set by changing the [search.max_async_search_memory] setting.",
                        self.limits.bytes_max
                    ),
                )),
            }
        };
        state.outcome = Some(match refused {
            None => done,
            Some(error) => {
                // What is not accounted for is not held.
                search.progress.clear();
                Arc::new(Completed {
                    at_ms: now_ms,
                    result: Err(error.into()),
                })
            }
        });
    }
}

impl AsyncSearch {
    /// Ends it.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// What it has found so far.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// What it came to, once it has.
    pub(crate) fn completed(&self) -> Option<Arc<Completed>> {
        lock(&self.state).outcome.clone()
    }

    /// Waits for its end, but no longer than this; whether it has ended.
    pub(crate) async fn wait(&self, at_most: Duration) -> bool {
        let mut is_done = self.is_done.subscribe();
        let ended = tokio::time::timeout(at_most, is_done.wait_for(|is_done| *is_done)).await;
        matches!(ended, Ok(Ok(_)))
    }

    /// When it ends, ms since epoch UTC.
    pub(crate) fn expires_ms(&self) -> i64 {
        self.expires_ms.load(Ordering::Relaxed)
    }

    /// It ends so long after now.
    pub(crate) fn keep_until(&self, now_ms: i64, keep_alive: Duration) {
        self.expires_ms.store(after(now_ms, keep_alive), Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// `None`: its time is over.
    pub(crate) fn time_left(&self, now_ms: i64) -> Option<Duration> {
        let left_ms = u64::try_from(self.expires_ms().saturating_sub(now_ms)).ok()?;
        (left_ms > 0).then(|| Duration::from_millis(left_ms))
    }

    /// Whether it was let go of.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Relaxed)
    }

    /// Ready when it was removed or is to be kept for another time. One may wait.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

fn after(now_ms: i64, keep_alive: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(keep_alive.as_millis()).unwrap_or(i64::MAX))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use firn_engine::search::{Hit, InnerPage};
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
        let byte = lock(&searches.by_id).len() as u8;
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
    fn only_who_submitted_one_finds_it() {
        let searches = searches(10, 1 << 20, 1 << 20);
        let own = open(&searches, tenant("a")).unwrap();
        let finds = |scope: &Scope, now_ms| searches.find(scope, &own.id, now_ms).is_ok();
        assert!(finds(&tenant("a"), 0) && finds(&Scope::operator(), 0));
        assert!(!finds(&tenant("b"), 0) && !finds(&tenant("a").of("another user"), 0));
        let error = searches.find(&tenant("b"), &own.id, 0).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::ResourceNotFound);
        assert!(finds(&tenant("a"), 59_999) && !finds(&tenant("a"), 60_000));
        let error = searches.find(&tenant("a"), "nonsense", 0).err().unwrap();
        assert_eq!(error.reason(), "invalid id: [nonsense]");
        searches.remove(&own);
        assert!(own.cancel().is_cancelled() && !finds(&tenant("a"), 0));
    }

    #[test]
    fn they_are_few_and_removing_one_makes_room() {
        let searches = searches(2, 1 << 20, 1 << 20);
        let first = open(&searches, tenant("a")).unwrap();
        let second = open(&searches, tenant("a")).unwrap();
        let error = open(&searches, tenant("a")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        open(&searches, tenant("b")).expect("somebody else still has room");
        searches.remove(&first);
        searches.remove(&second);
        drop((first, second));
        open(&searches, tenant("a")).unwrap();
    }

    #[test]
    fn what_is_kept_has_to_fit_in() {
        let searches = searches(10, 5000, 3000);
        let kept = |words| {
            let search = open(&searches, tenant("a")).unwrap();
            searches.keep(&search, 1);
            searches.complete(&search, 2, Ok(answer(words)));
            search
        };
        let reason = |search: &AsyncSearch| {
            let done = search.completed().unwrap();
            done.result.as_ref().err().map(|error| format!("{error:?}"))
        };
        let first = kept(2000);
        assert_eq!(reason(&first), None);
        let large = reason(&kept(4000)).unwrap();
        assert!(large.contains("larger than [3000] bytes"), "{large}");
        let _second = kept(2000);
        let full = reason(&kept(2000)).unwrap();
        assert!(full.contains("search.max_async_search_memory"), "{full}");
        // Who waits for the answer gets it whatever its size; it is refused once it is to stay.
        let search = open(&searches, tenant("a")).unwrap();
        searches.complete(&search, 2, Ok(answer(4000)));
        assert_eq!(reason(&search), None);
        searches.keep(&search, 3);
        assert!(reason(&search).is_some());
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
        assert!(broken.progress().latest().is_some(), "it is told with the error");
        let _another = ended(failed());
        let refused = ended(failed());
        assert!(refused.progress().latest().is_none(), "there is no room for it");
    }
}
