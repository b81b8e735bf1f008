//! What segments answered to aggregations and counts, kept for when it is asked again.
//!
//! A segment never changes, so what a part of it answered stays right as long as the segment exists
//! and nothing more of it is deleted. A dashboard that is looked at again, or whose window has moved
//! on, computes only what is new. Elasticsearch's request cache keeps the answer of a whole shard
//! instead, which any refresh invalidates; this one shows its numbers in the same place.
//!
//! Bounded by bytes; the least recently used goes first. No tenant can push out the others: one that
//! holds more than its share makes room among its own.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use firn_engine::admin::RequestCacheStats;
use firn_engine::aggs::Partials;
use firn_model::mapping::Mapping;
use parking_lot::Mutex;
use tantivy::DocId;
use tantivy::index::SegmentId;

use crate::segment::{AliveBits, Segment};

/// Holding more than this share of the limit, a tenant makes room among its own entries.
const TENANT_SHARE_MAX: usize = 4;
/// One entry takes this share of the limit at most.
const ENTRY_SHARE_MAX: usize = 8;
/// Rough bytes of an entry beside what it answers: key, places in the tables, the question's share.
const ENTRY_BYTES: usize = 400;

/// Everything that an answer of some rows depends on, apart from the rows.
#[derive(Debug)]
pub(crate) struct Question {
    /// The query and the aggregations, printed.
    text: Box<str>,
    /// Whose documents; empty: everybody's.
    tenant: Arc<str>,
    /// What names in it were resolved against; another one may resolve them otherwise. What it
    /// points to need not live on: the place is not used again while this is kept.
    mapping: Weak<Mapping>,
    hash: u64,
}

impl Question {
    pub(crate) fn new(text: String, tenant: Arc<str>, mapping: &Arc<Mapping>) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        (&text, &tenant, Arc::as_ptr(mapping) as usize).hash(&mut hasher);
        Self {
            text: text.into(),
            tenant,
            mapping: Arc::downgrade(mapping),
            hash: hasher.finish(),
        }
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.text == other.text
            && self.tenant == other.tenant
            && self.mapping.ptr_eq(&other.mapping)
    }
}

impl Eq for Question {}

impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// Which part of a segment a question was asked of. Two windows that cover the same part are the
/// same question to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Coverage {
    /// All of it.
    All,
    /// These rows.
    Rows(DocId, DocId),
    /// What has these instants, inclusive, as the column stores them.
    Instants(u64, u64),
}

/// What names an entry within its segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    question: Arc<Question>,
    coverage: Coverage,
    /// The segment was all that its shard had to say, so `terms` were cut.
    whole_shard: bool,
}

/// What some rows answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// How many documents matched.
    pub(crate) total: u64,
    /// To the aggregations.
    pub(crate) partials: Partials,
    /// Rough bytes of that.
    pub(crate) bytes: usize,
}

struct Entry {
    answer: Arc<Answer>,
    /// Which documents were alive. Kept weakly, for its place alone.
    alive: Option<Weak<AliveBits>>,
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
    segments: HashMap<SegmentId, HashMap<Key, Entry>>,
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
    entries: BTreeMap<u64, (SegmentId, Key)>,
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

    /// Bytes of a tenant's entries.
    pub fn tenant_bytes(&self, tenant: &str) -> u64 {
        self.state.lock().tenants.get(tenant).map_or(0, |own| own.bytes as u64)
    }

    /// Lets all entries of a segment go.
    pub(crate) fn forget(&self, segment: SegmentId) {
        let mut state = self.state.lock();
        let gone = state.segments.remove(&segment).unwrap_or_default();
        for (key, entry) in &gone {
            state.took_out(key, entry);
        }
        drop(state);
        // Freeing takes its time, and nobody has to wait for it.
        drop(gone);
    }

    fn get(&self, id: SegmentId, alive: Option<&Arc<AliveBits>>, key: &Key) -> Option<Arc<Answer>> {
        let mut state = self.state.lock();
        state.uses += 1;
        let used = state.uses;
        let entry = state.segments.get_mut(&id)?.get_mut(key)?;
        let same_alive = match (&entry.alive, alive) {
            (None, None) => true,
            (Some(kept), Some(alive)) => std::ptr::eq(kept.as_ptr(), Arc::as_ptr(alive)),
            _ => false,
        };
        if !same_alive {
            return None;
        }
        let before = std::mem::replace(&mut entry.used, used);
        let answer = Arc::clone(&entry.answer);
        if let Some(own) = state.tenants.get_mut(&key.question.tenant)
            && let Some(name) = own.entries.remove(&before)
        {
            own.entries.insert(used, name);
        }
        Some(answer)
    }

    fn put(
        &self,
        id: SegmentId,
        alive: Option<&Arc<AliveBits>>,
        key: Key,
        answer: Arc<Answer>,
        account: &Arc<Account>,
    ) {
        let bytes = answer.bytes + ENTRY_BYTES + key.question.text.len();
        if bytes > self.limit_bytes / ENTRY_SHARE_MAX {
            return;
        }
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        state.uses += 1;
        let used = state.uses;
        gone.extend(state.remove(id, &key));
        while state.bytes + bytes > self.limit_bytes {
            let Some(entry) = state.evict_for(&key.question.tenant, self.limit_bytes / TENANT_SHARE_MAX) else {
                break;
            };
            entry.account.evictions.fetch_add(1, Ordering::Relaxed);
            gone.push(entry);
        }
        state.bytes += bytes;
        account.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let own = state.tenants.entry(Arc::clone(&key.question.tenant)).or_default();
        own.bytes += bytes;
        own.entries.insert(used, (id, key.clone()));
        let entry = Entry {
            answer,
            alive: alive.map(Arc::downgrade),
            account: Arc::clone(account),
            bytes,
            used,
        };
        state.segments.entry(id).or_default().insert(key, entry);
        drop(state);
        drop(gone);
    }
}

impl State {
    fn remove(&mut self, segment: SegmentId, key: &Key) -> Option<Entry> {
        let entries = self.segments.get_mut(&segment)?;
        let entry = entries.remove(key)?;
        if entries.is_empty() {
            self.segments.remove(&segment);
        }
        self.took_out(key, &entry);
        Some(entry)
    }

    /// Corrects the sums after an entry was taken out of its segment's.
    fn took_out(&mut self, key: &Key, entry: &Entry) {
        self.bytes -= entry.bytes;
        entry.account.bytes.fetch_sub(entry.bytes as u64, Ordering::Relaxed);
        let tenant = &key.question.tenant;
        if let Some(own) = self.tenants.get_mut(tenant) {
            own.bytes -= entry.bytes;
            own.entries.remove(&entry.used);
            if own.entries.is_empty() {
                self.tenants.remove(tenant);
            }
        }
    }

    /// Makes room for a tenant: among its own entries if it holds more than its share, else where
    /// the least recently used one is.
    fn evict_for(&mut self, tenant: &Arc<str>, share_bytes: usize) -> Option<Entry> {
        let own = self.tenants.get(tenant).filter(|own| own.bytes > share_bytes);
        let oldest = |tenant: &Tenant| {
            tenant
                .entries
                .first_key_value()
                .map(|(used, name)| (*used, name.clone()))
        };
        let (_, (segment, key)) = match own {
            Some(own) => oldest(own)?,
            None => self.tenants.values().filter_map(oldest).min_by_key(|(used, _)| *used)?,
        };
        self.remove(segment, &key)
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

    /// An entry of one shard's segment, and counts the asking.
    pub(crate) fn get(
        &self,
        segment: &Segment,
        question: &Arc<Question>,
        coverage: Coverage,
        whole_shard: bool,
    ) -> Option<Arc<Answer>> {
        let key = Key {
            question: Arc::clone(question),
            coverage,
            whole_shard,
        };
        let found = self
            .cache
            .get(segment.reader.segment_id(), segment.alive.as_ref(), &key);
        let counter = match found {
            Some(_) => &self.account.hits,
            None => &self.account.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps an answer.
    pub(crate) fn put(
        &self,
        segment: &Segment,
        question: &Arc<Question>,
        coverage: Coverage,
        whole_shard: bool,
        answer: Answer,
    ) {
        let key = Key {
            question: Arc::clone(question),
            coverage,
            whole_shard,
        };
        segment.derived.cached_in(&self.cache);
        let id = segment.reader.segment_id();
        self.cache
            .put(id, segment.alive.as_ref(), key, Arc::new(answer), &self.account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(number: u32) -> SegmentId {
        SegmentId::from_uuid_string(&format!("{number:032x}")).unwrap()
    }

    fn mapping() -> Arc<Mapping> {
        Arc::new(Mapping::parse(&serde_json::json!({})).unwrap())
    }

    /// A question of a tenant.
    fn key(tenant: &str, text: &str, mapping: &Arc<Mapping>) -> Key {
        Key {
            question: Arc::new(Question::new(text.to_owned(), tenant.into(), mapping)),
            coverage: Coverage::All,
            whole_shard: false,
        }
    }

    fn answer(total: u64) -> Arc<Answer> {
        Arc::new(Answer {
            total,
            partials: Partials::default(),
            bytes: 600 - ENTRY_BYTES - 1,
        })
    }

    fn total(cache: &RequestCache, number: u32, key: &Key) -> Option<u64> {
        cache.get(segment(number), None, key).map(|answer| answer.total)
    }

    #[test]
    fn the_least_recently_used_goes_first_and_sums_stay_right() {
        // Room for eight entries of 600 bytes.
        let cache = RequestCache::new(8 * 600);
        let (account, mapping) = (Arc::default(), mapping());
        // Four tenants hold two each, none more than its share.
        let owner = |number: u32| format!("t{}", number % 4);
        let own = |number: u32| key(&owner(number), "q", &mapping);
        for number in 0..8 {
            cache.put(segment(number), None, own(number), answer(number.into()), &account);
        }
        assert_eq!(total(&cache, 0, &own(0)), Some(0));
        cache.put(segment(8), None, own(9), answer(8), &account);
        let kept: Vec<u32> = (0..8)
            .filter(|number| total(&cache, *number, &own(*number)).is_some())
            .collect();
        assert_eq!(kept, [0, 2, 3, 4, 5, 6, 7]);
        let stats = account.stats();
        assert_eq!((stats.memory_bytes, stats.eviction_total), (8 * 600, 1));
        assert_eq!(cache.tenant_bytes("t1"), 2 * 600);
        for number in 0..9 {
            cache.forget(segment(number));
        }
        assert_eq!(account.stats().memory_bytes, 0);
        assert_eq!(cache.tenant_bytes("t1"), 0);
        assert!(cache.state.lock().tenants.is_empty());
    }

    #[test]
    fn no_tenant_pushes_out_the_others() {
        let cache = RequestCache::new(16 * 600);
        let (account, mapping) = (Arc::default(), mapping());
        for number in 0..12 {
            let own = key(&format!("small{number}"), "q", &mapping);
            cache.put(segment(number), None, own, answer(1), &account);
        }
        for number in 100..200 {
            cache.put(segment(number), None, key("large", "q", &mapping), answer(2), &account);
        }
        let left = (0..12).filter(|number| {
            let own = key(&format!("small{number}"), "q", &mapping);
            total(&cache, *number, &own).is_some()
        });
        assert_eq!(left.count(), 11);
        assert_eq!(cache.tenant_bytes("large"), 5 * 600);
        assert_eq!(total(&cache, 199, &key("large", "q", &mapping)), Some(2));
    }

    #[test]
    fn another_mapping_text_tenant_or_delete_is_another_question() {
        let cache = RequestCache::new(1 << 20);
        let (account, ours, others) = (Arc::default(), mapping(), mapping());
        cache.put(segment(1), None, key("a", "q", &ours), answer(3), &account);
        assert_eq!(total(&cache, 1, &key("a", "q", &ours)), Some(3));
        assert_eq!(total(&cache, 2, &key("a", "q", &ours)), None);
        assert_eq!(total(&cache, 1, &key("b", "q", &ours)), None);
        assert_eq!(total(&cache, 1, &key("a", "r", &ours)), None);
        assert_eq!(total(&cache, 1, &key("a", "q", &others)), None);
        let rows = Key {
            coverage: Coverage::Rows(0, 5),
            ..key("a", "q", &ours)
        };
        assert_eq!(total(&cache, 1, &rows), None);
    }

    #[test]
    fn a_cache_without_room_keeps_nothing() {
        let cache = RequestCache::new(0);
        let (account, mapping) = (Arc::default(), mapping());
        cache.put(segment(1), None, key("a", "q", &mapping), answer(3), &account);
        assert_eq!(total(&cache, 1, &key("a", "q", &mapping)), None);
        assert_eq!(account.stats().memory_bytes, 0);
    }
}
