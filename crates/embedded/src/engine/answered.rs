//! Requests that were answered before, over shards that have not changed since.
//!
//! A dashboard that is looked at again, by the next user or by its own clock, asks word for word what it
//! asked before. While no shard of it has anything new, the answer is the one of then, and it is given
//! on the thread that received the request: it waits in no queue and wakes nobody. This is
//! what Elasticsearch's request cache is to a shard, for the whole node and for pages of hits too.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use firn_engine::RequestContext;
use firn_engine::search::{Hit, SearchRequest, SearchResponse};
use tantivy::index::SegmentId;

use super::Core;
use super::searching::Addressed;
use super::state::ShardSlot;
use crate::request_cache::{Answer, Found, Name, ShardCache, bytes_of_value};
use crate::search::ShardSearch;
use crate::segment::ShardSnapshot;

/// What is kept is there twice: as values, and printed.
const FORMS: usize = 2;
/// Rough bytes of a hit beside its source and its values.
const HIT_BYTES: usize = 400;
/// Longer requests are rare, and naming them costs time and memory.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// An answer, and what it was given over.
#[derive(Debug)]
pub(crate) struct Answered {
    response: SearchResponse,
    shards: Vec<Over>,
    segments: Vec<SegmentId>,
}

/// A shard as it was. Holds nothing open.
#[derive(Debug)]
struct Over {
    slot: Weak<ShardSlot>,
    snapshot: Weak<ShardSnapshot>,
}

/// What names a request's answer; taken before the request is searched.
pub(super) struct Asked {
    name: Name,
}

impl Answered {
    /// The segments that it is about.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.segments.iter().copied()
    }

    /// The shards, if all are as they were.
    fn unchanged(&self) -> Option<Vec<Arc<ShardSlot>>> {
        let is_unchanged = |over: &Over| {
            let slot = over.slot.upgrade()?;
            let shard = slot.shard().ok()?;
            // What waits for a refresh may have to be refreshed first: the long way knows.
            let is_same = std::ptr::eq(Arc::as_ptr(&shard.snapshot()), over.snapshot.as_ptr());
            (is_same && !shard.needs_refresh()).then_some(slot)
        };
        self.shards.iter().map(is_unchanged).collect()
    }
}

impl Core {
    /// What names the answer of a request; `None`: it depends on more than what is searched, or is not to be
    /// kept.
    pub(super) fn asked(&self, ctx: &RequestContext, request: &SearchRequest) -> Option<Asked> {
        let has_context = request.point_in_time.is_some() || request.scroll.is_some();
        if has_context || request.profile || request.request_cache == Some(false) {
            return None;
        }
        // Complete by construction: whatever a request can say is printed.
        let buckets_max = self.search_buckets_max.load(Ordering::Relaxed);
        let text = format!("{request:?}\n{:?}\n{buckets_max}", ctx.scope);
        // Date math, also in names of indices, and whatever draws lots.
        if text.len() > TEXT_BYTES_MAX || text.contains("now") || text.contains("andom") {
            return None;
        }
        let tenant = ctx.scope.tenant_id().map_or("", |tenant| tenant.as_str());
        Some(Asked {
            name: Name::of_text(text.into(), tenant.into(), &self.state().metadata),
        })
    }

    /// The answer of then. Cheap enough for any thread.
    pub(super) fn answered(&self, ctx: &RequestContext, asked: &Asked) -> Option<SearchResponse> {
        let answer = self.request_cache.get(&asked.name)?;
        let Found::Response(answered) = &answer.found else {
            return None;
        };
        let slots = answered.unchanged()?;
        let now_ms = self.now_ms();
        for slot in slots {
            slot.searched_ms.store(now_ms, Ordering::Relaxed);
            slot.counters.search_total.fetch_add(1, Ordering::Relaxed);
            slot.cache_account.hits.fetch_add(1, Ordering::Relaxed);
        }
        let mut response = answered.response.clone();
        response.took_ms = u64::try_from(ctx.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(response)
    }

    /// What has to be known of shards, before they are searched, to keep the answer.
    pub(super) fn over(&self, addressed: &[Addressed], request: &SearchRequest) -> Option<Kept> {
        let is_asked = request.request_cache == Some(true);
        let mut kept = Kept::default();
        for shard in addressed {
            let search = shard.search.as_ref().ok()?;
            // Whether a mounted shard is as it was is not asked of a slot; its answer would never be given again.
            shard.slot.shard().ok()?;
            if shard.behind.is_some() || !(is_asked || search.caches_by_default) {
                return None;
            }
            kept.shards.push(Over {
                slot: Arc::downgrade(&shard.slot),
                snapshot: Arc::downgrade(&search.snapshot),
            });
            kept.searches.push(search.clone());
        }
        Some(kept)
    }
}

/// What is known of the shards that are being searched.
#[derive(Default)]
pub(super) struct Kept {
    shards: Vec<Over>,
    searches: Vec<ShardSearch>,
}

impl Kept {
    /// Keeps an answer, if it is complete.
    pub(super) fn put(self, asked: Asked, response: &SearchResponse) {
        let is_complete =
            !response.timed_out && response.terminated_early.is_none() && response.shards.failures.is_empty();
        let cache = self.searches.first().and_then(|search| search.cache.as_ref());
        let (true, Some(cache)) = (is_complete, cache) else {
            return;
        };
        let segments = || self.searches.iter().flat_map(|search| &search.snapshot.segments);
        for segment in segments() {
            ShardCache::watch(cache, segment);
        }
        let answer = Answer {
            total: response.total.map_or(0, |total| total.value),
            bytes: bytes_of(response) + self.shards.len() * size_of::<Over>(),
            found: Found::Response(Arc::new(Answered {
                response: SearchResponse {
                    printed: Some(Arc::default()),
                    ..response.clone()
                },
                shards: self.shards,
                segments: segments().map(|segment| segment.reader.segment_id()).collect(),
            })),
        };
        cache.put(asked.name, answer);
    }
}

fn bytes_of(response: &SearchResponse) -> usize {
    let hits = response.hits.iter().map(bytes_of_hit).sum::<usize>();
    let aggregations = response.aggregations.as_deref().map_or(0, bytes_of_value);
    size_of::<SearchResponse>() + FORMS * (hits + aggregations)
}

fn bytes_of_hit(hit: &Hit) -> usize {
    let values = hit.fields.values().chain(hit.highlight.values()).chain(&hit.sort);
    let inner = hit.inner_hits.iter().flat_map(|(_, page)| &page.hits);
    HIT_BYTES
        + hit.source.as_ref().map_or(0, |source| source.len())
        + values.map(bytes_of_value).sum::<usize>()
        + inner.map(bytes_of_hit).sum::<usize>()
}
