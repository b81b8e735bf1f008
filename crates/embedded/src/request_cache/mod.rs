//! What segments answered to aggregations and counts, kept for when it is asked again.
//!
//! A segment never changes, so what a part of it answered stays right as long as the segment exists
//! and nothing more of it is deleted. A dashboard that is looked at again, or whose window has moved
//! on, computes only what is new; where nothing is, the whole answer is there. Elasticsearch's request
//! cache keeps the answer of a whole shard, which any refresh invalidates; this one shows its numbers
//! in the same place.
//!
//! Bounded by bytes; the least recently used goes first. No tenant can push out the others: one that
//! holds more than its share makes room among its own.

mod name;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::admin::RequestCacheStats;
use firn_engine::aggs::Partials;
use parking_lot::Mutex;
use serde_json::Value;
use tantivy::index::SegmentId;

use crate::engine::Answered;

pub(crate) use self::name::{Coverage, Name, Part, Question};

/// Holding more than this share of the limit, a tenant makes room among its own entries.
const TENANT_SHARE_MAX: usize = 4;
/// One entry takes this share of the limit at most.
const ENTRY_SHARE_MAX: usize = 8;
/// Rough bytes of an entry beside its name and what it answers: its places in the tables.
const ENTRY_BYTES: usize = 300;

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// How many documents matched.
    pub(crate) total: u64,
    /// To the aggregations.
    pub(crate) found: Found,
    /// Rough bytes of that.
    pub(crate) bytes: usize,
}

/// What was found for aggregations.
#[derive(Debug)]
pub(crate) enum Found {
    /// By a segment; to be merged with what others found.
    Partials(Partials),
    /// By all; as the answer shows it.
    Finished(Arc<Value>),
    /// All of the answer, hits too.
    Response(Arc<Answered>),
}

impl Answer {
    /// The segments that it is about.
    fn segments<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = SegmentId> + 'a {
        let answered = match &self.found {
            Found::Response(answered) => Some(answered.segments()),
            Found::Partials(_) | Found::Finished(_) => None,
        };
        name.segments().chain(answered.into_iter().flatten())
    }
}

struct Entry {
    answer: Arc<Answer>,
    account: Arc<Account>,
    bytes: usize,
    used: u64,
}

/// What the cache did for one shard.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) bytes: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) evictions: AtomicU64,
}

impl Account {
    /// Its numbers.
    pub(crate) fn stats(&self) -> RequestCacheStats {
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
    entries: HashMap<Arc<Name>, Entry>,
    /// The entries that are about a segment.
    segments: HashMap<SegmentId, HashSet<Arc<Name>>>,
    tenants: HashMap<Arc<str>, Tenant>,
    bytes: usize,
    /// Counts uses; an entry keeps that of its last one.
    uses: u64,
}

/// A tenant's entries.
#[derive(Default)]
struct Tenant {
    bytes: usize,
    /// By last use.
    entries: BTreeMap<u64, Arc<Name>>,
}

/// The cache as one shard uses it.
#[derive(Clone)]
pub struct ShardCache {
    cache: Arc<RequestCache>,
    account: Arc<Account>,
}

impl RequestCache {
    /// An empty one that holds so many bytes at most; 0: nothing.
    pub(crate) fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes,
            state: Mutex::default(),
        })
    }

    /// Whether it ever holds anything.
    pub(crate) fn is_on(&self) -> bool {
        self.limit_bytes > 0
    }

    /// Bytes of a tenant's entries.
    pub fn tenant_bytes(&self, tenant: &str) -> u64 {
        self.state.lock().tenants.get(tenant).map_or(0, |own| own.bytes as u64)
    }

    /// Lets all go that is about a segment.
    pub(crate) fn forget(&self, segment: SegmentId) {
        let mut state = self.state.lock();
        let names = state.segments.remove(&segment).unwrap_or_default();
        let gone: Vec<Option<Entry>> = names.iter().map(|name| state.remove(name)).collect();
        drop(state);
        // Freeing takes its time, and nobody has to wait for it.
        drop(gone);
    }

    /// Looks for an answer; nothing is counted.
    pub(crate) fn get(&self, name: &Name) -> Option<Arc<Answer>> {
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

    fn put(&self, name: Name, answer: Answer, account: &Arc<Account>) {
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
    fn insert(&mut self, name: Arc<Name>, mut entry: Entry) {
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

    fn remove(&mut self, name: &Arc<Name>) -> Option<Entry> {
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

    /// Makes room for a tenant: among its own entries if it holds more than its share, else where
    /// the least recently used one is.
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
    /// A cache and what it does for one shard.
    pub(crate) fn new(cache: &Arc<RequestCache>, account: &Arc<Account>) -> Self {
        Self {
            cache: Arc::clone(cache),
            account: Arc::clone(account),
        }
    }

    /// Looks for an answer, without counting it.
    pub(crate) fn peek(&self, name: &Name) -> Option<Arc<Answer>> {
        self.cache.get(name)
    }

    /// Counts an answer that was found for this shard and others.
    pub(crate) fn count_hit(&self) {
        self.account.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Looks for an answer of this shard, and counts whether there is one.
    pub(crate) fn get(&self, name: &Name) -> Option<Arc<Answer>> {
        let found = self.cache.get(name);
        let counter = match found {
            Some(_) => &self.account.hits,
            None => &self.account.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps an answer. The segments that it is about [know](Self::watch) the cache.
    pub(crate) fn put(&self, name: Name, answer: Answer) {
        self.cache.put(name, answer, &self.account);
    }

    /// Lets a segment tell the cache when it is closed.
    pub(crate) fn watch(&self, segment: &crate::segment::Segment) {
        segment.derived.cached_in(&self.cache);
    }
}
