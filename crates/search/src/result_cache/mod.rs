//! Segment result cache: partial results of aggregations and counts, cached for repeated requests.
//!
//! A segment never changes, so a result over a part of it stays valid as long as the segment exists and no more of that
//! part is deleted. When a dashboard is opened again, or its window has moved, only the new part is computed; if
//! nothing is new, the whole response is cached. Elasticsearch's request cache holds the response of a whole shard,
//! which any refresh invalidates; this cache shows its statistics in the same place.
//!
//! Bounded by bytes; evicts the least recently used entry. No tenant can evict the entries of others: a tenant above
//! its share evicts entries of itself.

pub(crate) mod cached_aggregations;
pub(crate) mod cached_segments;

mod cache_key;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::admin::RequestCacheStats;
use firn_query::aggs::Partials;
use firn_segment::segment_memo::DependentCache;
use parking_lot::Mutex;
use serde_json::Value;
use tantivy::index::SegmentId;

pub use self::cache_key::{CacheKey, CachedRequest, Coverage, Part};

/// Share of the limit (1/4) above which a tenant evicts its own entries.
const TENANT_SHARE_MAX: usize = 4;
/// Maximum share of the limit (1/8) for one entry.
const ENTRY_SHARE_MAX: usize = 8;
/// Approximate bytes of an entry besides its name and result: its places in the tables.
const ENTRY_BYTES: usize = 300;

/// A cached result.
#[derive(Debug)]
pub struct Answer {
    /// Number of matching documents.
    pub total: u64,
    /// Result of the aggregations.
    pub found: Found,
    /// Approximate bytes of the result.
    pub bytes: usize,
}

/// Result of aggregations.
#[derive(Debug)]
pub enum Found {
    /// Result of one segment, to be merged with others.
    Partials(Partials),
    /// Result of all segments, as the response shows it.
    Finished(Arc<Value>),
    /// The whole response, including hits.
    Response {
        /// A value of the engine: the response with the state of the shards that it was computed from.
        response: Arc<dyn Any + Send + Sync>,
        /// The segments that it covers.
        segments: Box<[SegmentId]>,
    },
}

impl Answer {
    /// Returns the segments that the result depends on.
    fn segments<'a>(&'a self, name: &'a CacheKey) -> impl Iterator<Item = SegmentId> + 'a {
        let of_response: &[SegmentId] = match &self.found {
            Found::Response { segments, .. } => segments,
            Found::Partials(_) | Found::Finished(_) => &[],
        };
        name.segments().chain(of_response.iter().copied())
    }
}

struct Entry {
    answer: Arc<Answer>,
    account: Arc<Account>,
    bytes: usize,
    used: u64,
}

/// Statistics of the cache for one shard.
#[derive(Debug, Default)]
pub struct Account {
    pub(crate) bytes: AtomicU64,
    /// Results that were found in the cache.
    pub hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) evictions: AtomicU64,
}

impl Account {
    /// Returns the statistics.
    pub fn stats(&self) -> RequestCacheStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestCacheStats {
            memory_bytes: count(&self.bytes),
            eviction_total: count(&self.evictions),
            hit_total: count(&self.hits),
            miss_total: count(&self.misses),
        }
    }
}

/// See the module.
pub struct RequestCache {
    limit_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Arc<CacheKey>, Entry>,
    /// The entries that depend on a segment.
    segments: HashMap<SegmentId, HashSet<Arc<CacheKey>>>,
    tenants: HashMap<Arc<str>, Tenant>,
    bytes: usize,
    /// Counts uses; an entry stores the number of its last use.
    uses: u64,
}

/// The entries of a tenant.
#[derive(Default)]
struct Tenant {
    bytes: usize,
    /// By last use.
    entries: BTreeMap<u64, Arc<CacheKey>>,
}

/// The cache with the statistics of one shard.
#[derive(Clone)]
pub struct ShardCache {
    cache: Arc<RequestCache>,
    account: Arc<Account>,
}

impl DependentCache for RequestCache {
    fn forget(&self, segment: SegmentId) {
        let mut state = self.state.lock();
        let names = state.segments.remove(&segment).unwrap_or_default();
        let gone: Vec<Option<Entry>> = names.iter().map(|name| state.remove(name)).collect();
        drop(state);
        // Freeing memory takes time, so it happens without the lock.
        drop(gone);
    }
}

impl RequestCache {
    /// Creates an empty cache of at most `limit_bytes`; 0: it stores nothing.
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes,
            state: Mutex::default(),
        })
    }

    /// Whether the cache can store anything.
    pub fn is_on(&self) -> bool {
        self.limit_bytes > 0
    }

    /// Returns the bytes of a tenant's entries.
    pub fn tenant_bytes(&self, tenant: &str) -> u64 {
        self.state.lock().tenants.get(tenant).map_or(0, |own| own.bytes as u64)
    }

    /// Returns a result; nothing is counted.
    pub fn get(&self, name: &CacheKey) -> Option<Arc<Answer>> {
        let mut state = self.state.lock();
        state.uses += 1;
        let used = state.uses;
        let entry = state.entries.get_mut(name)?;
        let before = std::mem::replace(&mut entry.used, used);
        let answer = Arc::clone(&entry.answer);
        if let Some(own) = state.tenants.get_mut(name.tenant())
            && let Some(name) = own.entries.remove(&before)
        {
            own.entries.insert(used, name);
        }
        Some(answer)
    }

    fn put(&self, name: CacheKey, answer: Answer, account: &Arc<Account>) {
        let bytes = answer.bytes + ENTRY_BYTES + name.size_bytes();
        if bytes > self.limit_bytes / ENTRY_SHARE_MAX {
            return;
        }
        let name = Arc::new(name);
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        gone.extend(state.remove(&name));
        while state.bytes + bytes > self.limit_bytes {
            let Some(entry) = state.evict_for(name.tenant(), self.limit_bytes / TENANT_SHARE_MAX) else {
                break;
            };
            entry.account.evictions.fetch_add(1, Ordering::Relaxed);
            gone.push(entry);
        }
        account.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let entry = Entry {
            answer: Arc::new(answer),
            account: Arc::clone(account),
            bytes,
            used: 0,
        };
        state.insert(name, entry);
        drop(state);
        drop(gone);
    }
}

impl State {
    fn insert(&mut self, name: Arc<CacheKey>, mut entry: Entry) {
        self.uses += 1;
        entry.used = self.uses;
        self.bytes += entry.bytes;
        for segment in entry.answer.segments(&name) {
            self.segments.entry(segment).or_default().insert(Arc::clone(&name));
        }
        let own = self.tenants.entry(Arc::clone(name.tenant())).or_default();
        own.bytes += entry.bytes;
        own.entries.insert(entry.used, Arc::clone(&name));
        self.entries.insert(name, entry);
    }

    fn remove(&mut self, name: &Arc<CacheKey>) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.bytes -= entry.bytes;
        entry.account.bytes.fetch_sub(entry.bytes as u64, Ordering::Relaxed);
        for segment in entry.answer.segments(name) {
            if let Some(names) = self.segments.get_mut(&segment) {
                names.remove(name);
                if names.is_empty() {
                    self.segments.remove(&segment);
                }
            }
        }
        if let Some(own) = self.tenants.get_mut(name.tenant()) {
            own.bytes -= entry.bytes;
            own.entries.remove(&entry.used);
            if own.entries.is_empty() {
                self.tenants.remove(name.tenant());
            }
        }
        Some(entry)
    }

    /// Chooses the entry to evict for a tenant: its own oldest if it is above its share, otherwise the least recently
    /// used of all.
    fn evict_for(&mut self, tenant: &Arc<str>, share_bytes: usize) -> Option<Entry> {
        let own = self.tenants.get(tenant).filter(|own| own.bytes > share_bytes);
        let oldest = match own {
            Some(own) => own.entries.first_key_value(),
            None => {
                let all = self.tenants.values();
                all.filter_map(|tenant| tenant.entries.first_key_value())
                    .min_by_key(|(used, _)| **used)
            }
        };
        let name = Arc::clone(oldest?.1);
        self.remove(&name)
    }
}

impl ShardCache {
    /// Combines a cache with the statistics of one shard.
    pub fn new(cache: &Arc<RequestCache>, account: &Arc<Account>) -> Self {
        Self {
            cache: Arc::clone(cache),
            account: Arc::clone(account),
        }
    }

    /// Returns a result without counting the lookup.
    pub(crate) fn peek(&self, name: &CacheKey) -> Option<Arc<Answer>> {
        self.cache.get(name)
    }

    /// Counts a hit of a result for this shard and others.
    pub(crate) fn count_hit(&self) {
        self.account.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a result for this shard, and counts the hit or miss.
    pub(crate) fn get(&self, name: &CacheKey) -> Option<Arc<Answer>> {
        let found = self.cache.get(name);
        let counter = match found {
            Some(_) => &self.account.hits,
            None => &self.account.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Stores a result. The segments that it depends on must [know](Self::watch) the cache.
    pub fn put(&self, name: CacheKey, answer: Answer) {
        self.cache.put(name, answer, &self.account);
    }

    /// Makes a segment remove its entries from the cache when it is closed.
    pub fn watch(&self, segment: &firn_segment::segment::Segment) {
        let cache: Arc<dyn DependentCache> = self.cache.clone();
        segment.derived.cached_in(&cache);
    }
}
