//! Cache of open splits: shared by all mounts, bounded in memory, closed when idle.

use std::collections::HashMap;
use std::sync::Arc;

use firn_segment::segment::Segment;
use firn_storage::repository::SnapshotSegment;
use parking_lot::Mutex;

/// Memory of an open split besides the bytes of its footer: readers, caches of dictionaries.
const OPEN_BYTES: u64 = 64 << 10;
/// A footer is in memory as read and in decoded form.
const FOOTER_FACTOR: u64 = 2;

/// A segment of a snapshot, and its source. Two repositories may hold the same split, and one of them may be removed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SplitKey {
    pub(super) split: String,
    pub(super) deletes: Option<String>,
    pub(super) repository: Arc<str>,
    /// The index whose full copy is read; `None`: the shared cache.
    pub(super) copy_of: Option<Arc<str>>,
}

struct Entry {
    segment: Arc<Segment>,
    bytes: u64,
    /// ms since epoch UTC.
    used_ms: i64,
}

#[derive(Default)]
struct Open {
    by_key: HashMap<SplitKey, Entry>,
    bytes: u64,
}

/// See the module.
pub(super) struct OpenSplits {
    open: Mutex<Open>,
    bytes_max: u64,
}

impl OpenSplits {
    /// Creates the cache without open splits.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            open: Mutex::default(),
            bytes_max,
        }
    }

    /// Returns about how much memory an open split takes.
    pub(super) fn bytes_of(segment: &SnapshotSegment) -> u64 {
        let footer = segment.split.footer.end - segment.split.footer.start;
        let deletes = segment.deletes.as_ref().map_or(0, |deletes| deletes.len);
        OPEN_BYTES + FOOTER_FACTOR * footer + deletes
    }

    /// Returns the split, if it is open.
    pub(super) fn get(&self, key: &SplitKey, now_ms: i64) -> Option<Arc<Segment>> {
        let mut open = self.open.lock();
        let entry = open.by_key.get_mut(key)?;
        entry.used_ms = now_ms;
        Some(Arc::clone(&entry.segment))
    }

    /// Whether a split is open. Does not count as use.
    pub(super) fn is_open(&self, key: &SplitKey) -> bool {
        self.open.lock().by_key.contains_key(key)
    }

    /// Adds an opened split, or returns the one that another thread opened meanwhile. Evicts idle splits if the limit
    /// requires it.
    pub(super) fn put(&self, key: SplitKey, segment: Arc<Segment>, bytes: u64, now_ms: i64) -> Arc<Segment> {
        let mut open = self.open.lock();
        if let Some(entry) = open.by_key.get_mut(&key) {
            entry.used_ms = now_ms;
            return Arc::clone(&entry.segment);
        }
        if open.bytes + bytes > self.bytes_max {
            open.make_room(self.bytes_max.saturating_sub(bytes));
        }
        open.bytes += bytes;
        let entry = Entry {
            segment: Arc::clone(&segment),
            bytes,
            used_ms: now_ms,
        };
        open.by_key.insert(key, entry);
        segment
    }

    /// Whether `bytes` more may be opened: splits in use cannot be closed.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let open = self.open.lock();
        // Usually all open splits fit. Beyond the limit each caller walks over every split, but the split that it opens
        // then evicts many others.
        if open.bytes + bytes <= self.bytes_max {
            return true;
        }
        let in_use: u64 = open
            .by_key
            .values()
            .filter(|entry| entry.in_use())
            .map(|entry| entry.bytes)
            .sum();
        in_use + bytes <= self.bytes_max
    }

    /// Closes splits that are unused since an instant.
    pub(super) fn close_idle(&self, since_ms: i64) {
        let mut open = self.open.lock();
        open.remove(|entry| entry.used_ms < since_ms && !entry.in_use());
    }

    /// Whether a split is in use for which `chosen` is true.
    pub(super) fn any_in_use(&self, chosen: impl Fn(&SplitKey) -> bool) -> bool {
        let open = self.open.lock();
        open.by_key.iter().any(|(key, entry)| chosen(key) && entry.in_use())
    }

    /// Closes the splits for which `chosen` is true; running reads of them continue.
    pub(super) fn close(&self, chosen: impl Fn(&SplitKey) -> bool) {
        let mut open = self.open.lock();
        let keys: Vec<SplitKey> = open.by_key.keys().filter(|key| chosen(key)).cloned().collect();
        for key in keys {
            if let Some(entry) = open.by_key.remove(&key) {
                open.bytes -= entry.bytes;
            }
        }
    }

    /// Returns the number of open splits, and about how much memory they take.
    pub(super) fn usage(&self) -> (u64, u64) {
        let open = self.open.lock();
        (open.by_key.len() as u64, open.bytes)
    }
}

impl Entry {
    fn in_use(&self) -> bool {
        Arc::strong_count(&self.segment) > 1
    }
}

impl Open {
    /// Closes the least recently used splits until no more than `bytes` are open, or until all of them are in use.
    /// Frees an eighth more, so that not every opened split walks over all others.
    fn make_room(&mut self, bytes: u64) {
        let bytes = bytes - bytes / 8;
        let mut idle: Vec<(i64, u64)> = self
            .by_key
            .values()
            .filter(|entry| !entry.in_use())
            .map(|entry| (entry.used_ms, entry.bytes))
            .collect();
        idle.sort_unstable();
        let mut excess = self.bytes.saturating_sub(bytes);
        let mut until_ms = None;
        for (used_ms, own) in idle {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(own);
            until_ms = Some(used_ms);
        }
        if let Some(until_ms) = until_ms {
            self.remove(|entry| entry.used_ms <= until_ms && !entry.in_use());
        }
    }

    fn remove(&mut self, chosen: impl Fn(&Entry) -> bool) {
        let mut freed = 0;
        self.by_key.retain(|_, entry| {
            let goes = chosen(entry);
            freed += if goes { entry.bytes } else { 0 };
            !goes
        });
        self.bytes -= freed;
    }
}
