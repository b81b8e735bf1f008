//! Cache of rewritten splits, used while a tenant's events are removed from the snapshots of a repository. Snapshots
//! share splits, and each split is rewritten once.
//!
//! It only saves work: a forgotten split is rewritten again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use firn_storage::filters::FilterTableRef;
use firn_storage::repository::{SnapshotEntry, State};
use firn_storage::split::SplitRef;

/// Memory of the cache in bytes. If documents are not ordered by tenant, a split of a million documents takes at most 8
/// MB.
const BYTES_MAX: usize = 64 << 20;
/// Splits remembered as free of a tenant's events although their manifest lists no tenants.
const CLEAN_MAX: usize = 100_000;

/// A split without a tenant's documents.
#[derive(Debug, Clone)]
pub(super) struct RewrittenSplit {
    /// `None`: it held nothing else.
    pub(super) left: Option<SplitRef>,
    /// The dropped documents by their numbers in the old split: runs as in `DeleteSet::runs`.
    pub(super) dropped: Arc<[(u32, u32)]>,
}

impl RewrittenSplit {
    /// Returns the number of dropped documents.
    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped.iter().map(|(start, end)| u64::from(end - start)).sum()
    }

    fn bytes(&self) -> usize {
        let tenants = self.left.iter().flat_map(|left| &left.tenants).flatten();
        let filters = self.left.iter().flat_map(|left| &left.filters);
        1000 + size_of_val(&*self.dropped) + 100 * tenants.count() + 200 * filters.count()
    }
}

/// A written object, and the snapshot that names it.
#[derive(Debug)]
struct Written<T> {
    what: T,
    named_by: Option<SnapshotEntry>,
}

impl<T> Written<T> {
    /// Whether the object certainly exists as long as the state is current: one of its snapshots names it.
    fn is_named_in(&self, state: &State) -> bool {
        let entry = self.named_by.as_ref();
        entry.is_some_and(|entry| state.snapshots.get(&entry.name) == Some(entry))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    tenant: String,
    repository: String,
    /// By the id of the old split.
    splits: HashMap<String, Written<RewrittenSplit>>,
    bytes: usize,
    /// By index id.
    tables: HashMap<String, Written<Vec<FilterTableRef>>>,
    /// Pairs of tenant and split: the split holds no events of the tenant.
    clean: HashSet<(String, String)>,
}

impl Rewritten {
    /// Clears the cache if it belongs to another tenant or repository.
    pub(super) fn begin(&mut self, tenant: &str, repository: &str) {
        if self.tenant != tenant || self.repository != repository {
            self.forget_all();
            (self.tenant, self.repository) = (tenant.to_owned(), repository.to_owned());
        }
    }

    /// Clears the cache.
    pub(super) fn forget_all(&mut self) {
        self.splits = HashMap::new();
        self.tables = HashMap::new();
        self.bytes = 0;
    }

    /// Returns the rewritten form of a split, and whether a snapshot of the state names it, so that it certainly
    /// exists.
    pub(super) fn split(&self, id: &str, state: &State) -> Option<(RewrittenSplit, bool)> {
        let written = self.splits.get(id)?;
        Some((
            written.what.clone(),
            written.what.left.is_none() || written.is_named_in(state),
        ))
    }

    /// Stores the rewritten form of a split.
    pub(super) fn put(&mut self, id: &str, split: RewrittenSplit) {
        let bytes = split.bytes();
        if self.bytes + bytes > BYTES_MAX {
            self.splits = HashMap::new();
            self.bytes = 0;
        }
        self.bytes += bytes;
        let written = Written {
            what: split,
            named_by: None,
        };
        if let Some(before) = self.splits.insert(id.to_owned(), written) {
            self.bytes -= before.what.bytes();
        }
    }

    /// Forgets rewritten splits and tables whose objects are missing, by object key.
    pub(super) fn forget(&mut self, keys: &HashSet<String>) {
        let mut freed = 0;
        self.splits.retain(|_, written| {
            let is_gone = written
                .what
                .left
                .as_ref()
                .is_some_and(|left| keys.contains(&left.key()));
            freed += if is_gone { written.what.bytes() } else { 0 };
            !is_gone
        });
        self.bytes -= freed;
        self.tables
            .retain(|_, written| !written.what.iter().any(|table| keys.contains(&table.key())));
    }

    /// Returns the tables written for an index of the previous snapshot, if they certainly exist.
    pub(super) fn tables(&self, index: &str, state: &State) -> Vec<FilterTableRef> {
        let written = self.tables.get(index).filter(|written| written.is_named_in(state));
        written.map(|written| written.what.clone()).unwrap_or_default()
    }

    /// Records a committed snapshot as the owner of its objects: splits by their old ids, tables by index id.
    pub(super) fn committed(
        &mut self,
        splits: &HashSet<String>,
        tables: HashMap<String, Vec<FilterTableRef>>,
        entry: &SnapshotEntry,
    ) {
        for id in splits {
            if let Some(written) = self.splits.get_mut(id) {
                written.named_by = Some(entry.clone());
            }
        }
        for (index, what) in tables {
            let named_by = Some(entry.clone());
            self.tables.insert(index, Written { what, named_by });
        }
    }

    /// Records that a split holds no events of a tenant.
    pub(super) fn note_clean(&mut self, tenant: &str, split: &str) {
        if self.clean.len() >= CLEAN_MAX {
            self.clean.clear();
        }
        self.clean.insert((tenant.to_owned(), split.to_owned()));
    }

    /// Whether a split may hold events of a tenant, if its manifest lists no tenants.
    pub(super) fn is_unknown(&self, tenant: &str, split: &str) -> bool {
        !self.clean.contains(&(tenant.to_owned(), split.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(runs: usize) -> RewrittenSplit {
        RewrittenSplit {
            left: None,
            dropped: (0..runs as u32).map(|run| (2 * run, 2 * run + 1)).collect(),
        }
    }

    #[test]
    fn it_takes_no_more_memory_than_it_may() {
        let mut rewritten = Rewritten::default();
        for number in 0..40 {
            rewritten.put(&number.to_string(), split(1 << 20));
            rewritten.put(&number.to_string(), split(1 << 20));
            assert!(rewritten.bytes <= BYTES_MAX);
        }
        let last = rewritten.split("39", &State::default()).unwrap().0;
        assert_eq!(last.dropped_count(), 1 << 20);
        assert!(rewritten.split("0", &State::default()).is_none());
        let held: usize = rewritten.splits.values().map(|written| written.what.bytes()).sum();
        assert_eq!(held, rewritten.bytes);
    }

    #[test]
    fn what_another_tenant_left_is_not_taken() {
        let mut rewritten = Rewritten::default();
        rewritten.begin("a", "r");
        rewritten.put("s", split(1));
        rewritten.note_clean("a", "other");
        rewritten.begin("a", "r");
        assert!(rewritten.split("s", &State::default()).is_some());
        rewritten.begin("b", "r");
        assert!(rewritten.split("s", &State::default()).is_none());
        assert!(rewritten.is_unknown("b", "other") && !rewritten.is_unknown("a", "other"));
    }
}
