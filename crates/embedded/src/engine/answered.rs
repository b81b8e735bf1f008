//! Requests that were answered before, over shards that have not changed since.
//!
//! A dashboard that is looked at again, by the next user or by its own clock, asks word for word what it
//! asked before. While no shard of it has anything new, the answer is the one of then, and it is given
//! on the thread that received the request: it waits in no queue and wakes nobody. This is
//! what Elasticsearch's request cache is to a shard, for the whole node and for pages of hits too.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use firn_engine::RequestContext;
use firn_engine::search::{SearchRequest, SearchResponse};
use tantivy::index::SegmentId;

use super::Core;
use super::addressing::Addressed;
use super::state::ShardSlot;
use crate::mounts::MountedShard;
use crate::request_cache::{Answer, Found, Name, ShardCache};
use crate::search::ShardSearch;
use crate::segment::ShardSnapshot;

/// What is kept is there twice: as values, and printed.
const FORMS: usize = 2;
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
    /// [`ShardSlot::clearings`] of then.
    clearings: u64,
    seen: Seen,
}

/// What a search saw of a shard.
#[derive(Debug)]
enum Seen {
    Written(Weak<ShardSnapshot>),
    /// What is mounted never changes, so it is not asked which of its splits are open. A snapshot that is rewritten is
    /// read by another shard.
    Mounted(Weak<MountedShard>),
}

impl Over {
    fn of(slot: &Arc<ShardSlot>, search: &ShardSearch) -> Self {
        Self {
            slot: Arc::downgrade(slot),
            clearings: slot.clearings.load(Ordering::Relaxed),
            seen: match slot.mounted() {
                Some(shard) => Seen::Mounted(Arc::downgrade(&shard)),
                None => Seen::Written(Arc::downgrade(&search.snapshot)),
            },
        }
    }

    /// The shard, if it is as it was.
    fn unchanged(&self) -> Option<Arc<ShardSlot>> {
        let slot = self.slot.upgrade()?;
        let is_same = slot.clearings.load(Ordering::Relaxed) == self.clearings
            && match &self.seen {
                Seen::Written(snapshot) => {
                    let shard = slot.shard().ok()?;
                    // What waits for a refresh may have to be refreshed first: the long way knows.
                    // Asked first: between the two a refresh may end.
                    !shard.needs_refresh() && std::ptr::eq(Arc::as_ptr(&shard.snapshot()), snapshot.as_ptr())
                }
                Seen::Mounted(shard) => std::ptr::eq(Arc::as_ptr(&slot.mounted()?), shard.as_ptr()),
            };
        is_same.then_some(slot)
    }
}

/// What names a request's answer; taken before the request is searched.
pub(super) struct Asked {
    name: Name,
}

impl Answered {
    /// The segments that it is about and that may go.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.segments.iter().copied()
    }

    /// The shards, if all are as they were.
    fn unchanged(&self) -> Option<Vec<Arc<ShardSlot>>> {
        self.shards.iter().map(Over::unchanged).collect()
    }
}

impl Core {
    /// What names the answer of a request; `None`: it depends on more than what is searched, or is not to be
    /// kept.
    pub(super) fn asked(&self, ctx: &RequestContext, request: &SearchRequest) -> Option<Asked> {
        let has_context = request.point_in_time.is_some() || request.scroll.is_some();
        if has_context || request.profile || !self.may_keep_answer(request) {
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

    /// False where no answer would be kept: so that no request is printed for nothing. Knows indices by their own
    /// names only; what aliases and patterns mean is found out by whoever searches.
    fn may_keep_answer(&self, request: &SearchRequest) -> bool {
        if !self.request_cache.is_on() || request.request_cache == Some(false) {
            return false;
        }
        let is_asked = request.request_cache == Some(true);
        let state = self.state();
        let names = &request.target.expression;
        let may_keep = |name: &String| match state.indices.get(name) {
            Some(index) => is_asked || index.metadata.settings.request_cache,
            None => true,
        };
        names.iter().all(may_keep)
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
            if shard.behind.is_some() || !(is_asked || search.caches_by_default) {
                return None;
            }
            let over = Over::of(&shard.slot, search);
            match &over.seen {
                Seen::Written(_) => kept.written.push(search.clone()),
                // Its snapshot was rewritten since the search began.
                Seen::Mounted(shard) if !self.still_reads(&*shard.upgrade()?, &search.snapshot) => return None,
                Seen::Mounted(_) => {}
            }
            kept.cache.get_or_insert_with(|| search.cache.clone());
            kept.shards.push(over);
        }
        Some(kept)
    }
}

/// What is known of the shards that are being searched.
#[derive(Default)]
pub(super) struct Kept {
    shards: Vec<Over>,
    /// Searches of shards whose segments come and go.
    written: Vec<ShardSearch>,
    /// Of the first shard, whose account pays.
    cache: Option<Option<ShardCache>>,
}

impl Kept {
    /// Keeps an answer, if it is complete.
    pub(super) fn put(self, asked: Asked, response: &SearchResponse) {
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
            bytes: size_of::<SearchResponse>() + FORMS * response.bytes() + self.shards.len() * size_of::<Over>(),
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
