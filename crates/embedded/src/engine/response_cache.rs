//! Response cache lookup: answers a repeated search if none of its shards has changed.
//!
//! A dashboard that refreshes, or that the next user opens, sends exactly the same request again. If no shard of the
//! request has changed, the cached response is returned on the thread that received the request: it waits in no queue
//! and wakes no other thread. It corresponds to the shard request cache of Elasticsearch, but covers the whole node
//! and also pages of hits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use firn_engine::RequestContext;
use firn_query::query::Query;
use firn_query::search::cache_key::CacheKeyWriter;
use firn_query::search::{SearchRequest, SearchResponse};
use firn_search::ShardSearch;
use firn_search::result_cache::{Answer, CacheKey, Found, ShardCache};
use firn_segment::segment::ShardSnapshot;

use super::addressed::Addressed;
use super::search_service::SearchService;
use crate::mounts::MountedShard;
use crate::node::state::ShardSlot;

/// A cached response is stored twice: as values and as printed JSON.
const FORMS: usize = 2;
/// Maximum length of a request's key, bytes. Longer ones are rare, and cost time and memory.
const KEY_BYTES_MAX: usize = 16 << 10;

/// Cached response, with the shards it was computed from.
#[derive(Debug)]
struct CachedResponse {
    response: SearchResponse,
    shards: Vec<CachedShard>,
}

/// State of a shard at the time of the search. Holds no files open.
#[derive(Debug)]
struct CachedShard {
    slot: Weak<ShardSlot>,
    /// [`ShardSlot::clearings`] at that time.
    clearings: u64,
    seen: ShardVersion,
}

/// The version of a shard that a search saw.
#[derive(Debug)]
enum ShardVersion {
    Written(Weak<ShardSnapshot>),
    /// A mounted snapshot never changes, so the set of opened splits does not matter. A snapshot that is rewritten is
    /// read by another `MountedShard`.
    Mounted(Weak<MountedShard>),
}

impl CachedShard {
    fn of(slot: &Arc<ShardSlot>, search: &ShardSearch) -> Self {
        Self {
            slot: Arc::downgrade(slot),
            clearings: slot.clearings.load(Ordering::Relaxed),
            seen: match slot.mounted() {
                Some(shard) => ShardVersion::Mounted(Arc::downgrade(&shard)),
                None => ShardVersion::Written(Arc::downgrade(&search.snapshot)),
            },
        }
    }

    /// Returns the slot if the shard has not changed.
    fn unchanged(&self) -> Option<Arc<ShardSlot>> {
        let slot = self.slot.upgrade()?;
        let is_same = slot.clearings.load(Ordering::Relaxed) == self.clearings
            && match &self.seen {
                ShardVersion::Written(snapshot) => {
                    let shard = slot.shard().ok()?;
                    // A shard with unrefreshed writes may need a refresh first; the normal search path decides that.
                    // Checked before the snapshot: a refresh may end between the two.
                    !shard.needs_refresh() && std::ptr::eq(Arc::as_ptr(&shard.snapshot()), snapshot.as_ptr())
                }
                ShardVersion::Mounted(shard) => std::ptr::eq(Arc::as_ptr(&slot.mounted()?), shard.as_ptr()),
            };
        is_same.then_some(slot)
    }
}

/// Cache key of a request's response; built before the request runs.
pub(super) struct ResponseKey {
    name: CacheKey,
}

impl CachedResponse {
    /// Returns the slots if no shard has changed.
    fn unchanged(&self) -> Option<Vec<Arc<ShardSlot>>> {
        self.shards.iter().map(CachedShard::unchanged).collect()
    }
}

impl SearchService {
    /// Returns the cache key of a request. `None`: the answer depends on more than the searched data, or must not be
    /// cached.
    pub(super) fn response_key(&self, ctx: &RequestContext, request: &SearchRequest) -> Option<ResponseKey> {
        let has_context = request.point_in_time.is_some() || request.scroll.is_some();
        if has_context || request.profile || !self.may_keep_answer(request) {
            return None;
        }
        if !request.properties().is_repeatable() {
            return None;
        }
        let key = CacheKeyWriter::with_limit(KEY_BYTES_MAX).request(request).finish()?;
        let buckets_max = self.buckets_max.load(Ordering::Relaxed);
        Some(ResponseKey {
            name: CacheKey::of_response(key, &ctx.scope, buckets_max, &self.node.state().metadata),
        })
    }

    /// Returns false if the answer would not be cached, so that no key is built for nothing. Knows concrete index names
    /// only; aliases and patterns are resolved by the search.
    fn may_keep_answer(&self, request: &SearchRequest) -> bool {
        if !self.request_cache.is_on() || request.request_cache == Some(false) {
            return false;
        }
        let is_requested = request.request_cache == Some(true);
        let state = self.node.state();
        let names = &request.target.expression;
        let may_keep = |name: &String| match state.indices.get(name) {
            Some(index) => is_requested || index.metadata.settings.request_cache,
            None => true,
        };
        names.iter().all(may_keep)
    }

    /// Returns the cached response. Cheap enough for any thread.
    pub(super) fn answered(&self, ctx: &RequestContext, key: &ResponseKey) -> Option<SearchResponse> {
        let answer = self.request_cache.get(&key.name)?;
        let Found::Response { response, .. } = &answer.found else {
            return None;
        };
        let answered = response.downcast_ref::<CachedResponse>()?;
        let slots = answered.unchanged()?;
        let now_ms = self.node.now_ms();
        for slot in slots {
            slot.searched_ms.store(now_ms, Ordering::Relaxed);
            slot.counters.search_total.fetch_add(1, Ordering::Relaxed);
            slot.cache_account.hits.fetch_add(1, Ordering::Relaxed);
        }
        let mut response = answered.response.clone();
        response.took_ms = u64::try_from(ctx.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(response)
    }

    /// Captures the state of the shards before they are searched. `None`: the response must not be cached.
    pub(super) fn over(&self, addressed: &[Addressed], request: &SearchRequest) -> Option<PendingResponse> {
        let is_requested = request.request_cache == Some(true);
        let mut pending = PendingResponse::default();
        for shard in addressed {
            let search = shard.search.as_ref().ok()?;
            if shard.behind.is_some() || !(is_requested || search.caches_by_default) {
                return None;
            }
            // Aliases may add filters by the time of the request.
            let mut filters = search.filters.iter().map(Query::properties);
            if !filters.all(|filter| filter.is_repeatable()) {
                return None;
            }
            let over = CachedShard::of(&shard.slot, search);
            match &over.seen {
                ShardVersion::Written(_) => pending.written.push(search.clone()),
                // The snapshot was rewritten since the search began.
                ShardVersion::Mounted(shard) if !self.mounts.still_reads(&*shard.upgrade()?, &search.snapshot) => {
                    return None;
                }
                ShardVersion::Mounted(_) => {}
            }
            pending.cache.get_or_insert_with(|| search.cache.clone());
            pending.shards.push(over);
        }
        Some(pending)
    }
}

/// State of the shards of a running search, for the cache entry.
#[derive(Default)]
pub(super) struct PendingResponse {
    shards: Vec<CachedShard>,
    /// Searches of shards whose segments change.
    written: Vec<ShardSearch>,
    /// Cache of the first shard, whose account is charged.
    cache: Option<Option<ShardCache>>,
}

impl PendingResponse {
    /// Stores a response if it is complete.
    pub(super) fn put(self, key: ResponseKey, response: &SearchResponse) {
        let is_complete =
            !response.timed_out && response.terminated_early.is_none() && response.shards.failures.is_empty();
        let (true, Some(cache)) = (is_complete, self.cache.flatten()) else {
            return;
        };
        let segments = || self.written.iter().flat_map(|search| &search.snapshot.segments);
        for segment in segments() {
            cache.watch(segment);
        }
        let answer = Answer {
            total: response.total.map_or(0, |total| total.value),
            bytes: size_of::<SearchResponse>()
                + FORMS * response.bytes()
                + self.shards.len() * size_of::<CachedShard>(),
            found: Found::Response {
                segments: segments().map(|segment| segment.reader.segment_id()).collect(),
                response: Arc::new(CachedResponse {
                    response: SearchResponse {
                        printed: Some(Arc::default()),
                        ..response.clone()
                    },
                    shards: self.shards,
                }),
            },
        };
        cache.put(key.name, answer);
    }
}
