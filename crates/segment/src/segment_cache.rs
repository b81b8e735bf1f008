//! Cache of data that requests computed from whole segments: bounded, evicts the least recently used entry.
//!
//! A segment never changes, so data computed from all of it stays valid as long as it exists. A dashboard that is
//! opened again computes only the part of the newest segments. When a segment is closed, its entries are removed
//! ([`crate::segment_memo::SegmentMemo`]): some keep its files open.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tantivy::index::SegmentId;

/// Approximate bytes of all entries together: a share of the 200 MB that an idle server may use, and enough for
/// dashboards over some thousand segments.
const LIMIT_BYTES: usize = 32 << 20;
/// Maximum share of the limit (1/4) for one entry.
const SHARE_MAX: usize = 4;

/// The cache of this process.
pub static CACHE: LazyLock<SegmentCache> = LazyLock::new(|| SegmentCache::new(LIMIT_BYTES));

/// Key of an entry: the segment, whose id is never reused, and a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The segment.
    pub segment: SegmentId,
    /// What is cached, unique in the segment.
    pub name: Box<str>,
}

type Value = Arc<dyn Any + Send + Sync>;

/// See the module.
pub struct SegmentCache {
    limit_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<CacheKey, Entry>,
    bytes: usize,
    /// Counts uses; an entry stores the number of its last use.
    uses: u64,
}

struct Entry {
    value: Value,
    bytes: usize,
    used: u64,
}

impl SegmentCache {
    fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            state: Mutex::default(),
        }
    }

    /// Returns the maximum bytes of an entry; larger ones are not stored.
    pub fn entry_bytes_max(&self) -> usize {
        self.limit_bytes / SHARE_MAX
    }

    /// Returns an entry, if it has that type.
    pub fn get<T: Send + Sync + 'static>(&self, key: &CacheKey) -> Option<Arc<T>> {
        let mut state = self.state.lock();
        state.uses += 1;
        let used = state.uses;
        let entry = state.entries.get_mut(key)?;
        entry.used = used;
        let value = Arc::clone(&entry.value);
        drop(state);
        value.downcast().ok()
    }

    /// Removes all entries of a segment.
    pub(crate) fn forget(&self, segment: SegmentId) {
        let mut state = self.state.lock();
        let mut bytes = 0;
        let gone: Vec<Entry> = state
            .entries
            .extract_if(|key, entry| {
                let is_own = key.segment == segment;
                bytes += if is_own { entry.bytes } else { 0 };
                is_own
            })
            .map(|(_, entry)| entry)
            .collect();
        state.bytes -= bytes;
        drop(state);
        // Closing files takes time, so it happens without the lock.
        drop(gone);
    }

    /// Adds bytes to the size of an entry that has grown, and evicts others if necessary.
    pub(crate) fn grow(&self, key: &CacheKey, bytes: usize) {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key) else {
            return;
        };
        entry.bytes += bytes;
        state.bytes += bytes;
        if state.bytes > self.limit_bytes {
            let gone = state.make_room(self.limit_bytes - self.limit_bytes / 8);
            drop(state);
            drop(gone);
        }
    }

    /// Stores a value of `bytes` bytes, and evicts others if necessary.
    pub fn put<T: Send + Sync + 'static>(&self, key: CacheKey, value: Arc<T>, bytes: usize) {
        if bytes > self.entry_bytes_max() {
            return;
        }
        let mut state = self.state.lock();
        state.uses += 1;
        let entry = Entry {
            value,
            bytes,
            used: state.uses,
        };
        state.bytes += bytes;
        if let Some(old) = state.entries.insert(key, entry) {
            state.bytes -= old.bytes;
        }
        if state.bytes > self.limit_bytes {
            let gone = state.make_room(self.limit_bytes - self.limit_bytes / 8);
            drop(state);
            drop(gone);
        }
    }
}

impl State {
    /// Evicts the least recently used entries down to a limit: several at once, because each time all entries are
    /// sorted.
    fn make_room(&mut self, bytes_max: usize) -> Vec<Entry> {
        let mut uses: Vec<(u64, usize)> = self.entries.values().map(|entry| (entry.used, entry.bytes)).collect();
        uses.sort_unstable();
        let mut last = 0;
        for (used, bytes) in uses {
            if self.bytes <= bytes_max {
                break;
            }
            self.bytes -= bytes;
            last = used;
        }
        let gone = self.entries.extract_if(|_, entry| entry.used <= last);
        gone.map(|(_, entry)| entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> CacheKey {
        CacheKey {
            segment: SegmentId::from_uuid_string("00000000000000000000000000000000").unwrap(),
            name: number.to_string().into(),
        }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = SegmentCache::new(100);
        for segment in 0..4 {
            cache.put(key(segment), Arc::new(segment), 25);
        }
        assert_eq!(cache.get::<u64>(&key(0)).as_deref(), Some(&0));
        cache.put(key(4), Arc::new(4u64), 25);
        let cached: Vec<bool> = (0..5)
            .map(|segment| cache.get::<u64>(&key(segment)).is_some())
            .collect();
        assert_eq!(cached, [true, false, false, true, true]);
        assert_eq!(cache.state.lock().bytes, 75);
    }

    #[test]
    fn an_entry_that_grows_pushes_others_out() {
        let cache = SegmentCache::new(100);
        cache.put(key(1), Arc::new(1u64), 20);
        cache.put(key(2), Arc::new(2u64), 20);
        cache.grow(&key(2), 50);
        cache.grow(&key(3), 50);
        assert_eq!(cache.state.lock().bytes, 90);
        cache.grow(&key(2), 15);
        assert!(cache.get::<u64>(&key(1)).is_none());
        assert_eq!(cache.get::<u64>(&key(2)).as_deref(), Some(&2));
        assert_eq!(cache.state.lock().bytes, 85);
    }

    #[test]
    fn a_closed_segment_takes_its_entries_along() {
        let cache = SegmentCache::new(100);
        let other = SegmentId::from_uuid_string("00000000000000000000000000000001").unwrap();
        let name = || "n".into();
        cache.put(key(1), Arc::new(1u64), 10);
        cache.put(
            CacheKey {
                segment: other,
                name: name(),
            },
            Arc::new(2u64),
            5,
        );
        cache.forget(key(1).segment);
        assert!(cache.get::<u64>(&key(1)).is_none());
        assert!(
            cache
                .get::<u64>(&CacheKey {
                    segment: other,
                    name: name()
                })
                .is_some()
        );
        assert_eq!(cache.state.lock().bytes, 5);
    }

    #[test]
    fn what_is_too_large_or_of_another_type_is_not_there() {
        let cache = SegmentCache::new(100);
        cache.put(key(1), Arc::new(1u64), 26);
        assert!(cache.get::<u64>(&key(1)).is_none());
        cache.put(key(1), Arc::new(1u64), 20);
        cache.put(key(1), Arc::new(2u64), 10);
        assert!(cache.get::<u32>(&key(1)).is_none());
        assert_eq!(cache.get::<u64>(&key(1)).as_deref(), Some(&2));
        assert_eq!(cache.state.lock().bytes, 10);
    }
}
