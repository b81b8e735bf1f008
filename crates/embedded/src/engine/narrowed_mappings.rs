//! Cache of the mappings of indices as tenants see them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use firn_model::Result;
use firn_model::mapping::Mapping;
use firn_model::tenant::TenantId;
use firn_search::{TenantRestriction, fields_of};
use firn_segment::segment::ShardSnapshot;
use parking_lot::Mutex;

/// Maximum number of cached mappings, by index and tenant; each shares its fields with the index mapping.
const MAPPINGS_MAX: usize = 4096;

/// Cache of narrowed mappings.
#[derive(Default)]
pub(crate) struct NarrowedMappings(Mutex<HashMap<Key, CachedMappings>>);

type Key = (String, TenantId);

struct CachedMappings {
    /// The snapshots it was computed from.
    snapshots: Vec<Weak<ShardSnapshot>>,
    whole: Weak<Mapping>,
    narrowed: Arc<Mapping>,
}

impl CachedMappings {
    fn is_of(&self, snapshots: &[Arc<ShardSnapshot>], whole: &Arc<Mapping>) -> bool {
        let same = |(cached, snapshot): (&Weak<ShardSnapshot>, &Arc<ShardSnapshot>)| {
            std::ptr::eq(cached.as_ptr(), Arc::as_ptr(snapshot))
        };
        std::ptr::eq(self.whole.as_ptr(), Arc::as_ptr(whole))
            && self.snapshots.len() == snapshots.len()
            && self.snapshots.iter().zip(snapshots).all(same)
    }
}

impl NarrowedMappings {
    /// Returns the mapping of an index as a tenant sees it.
    pub(super) fn of(
        &self,
        uuid: &str,
        whole: &Arc<Mapping>,
        declared: Option<&BTreeSet<String>>,
        restriction: &TenantRestriction,
        snapshots: &[Arc<ShardSnapshot>],
    ) -> Result<Arc<Mapping>> {
        let key = (uuid.to_owned(), restriction.tenant.clone());
        if let Some(cached) = self.0.lock().get(&key)
            && cached.is_of(snapshots, whole)
        {
            return Ok(Arc::clone(&cached.narrowed));
        }
        let fields = fields_of(snapshots, whole, restriction)?;
        let mut narrowed = Arc::new(whole.narrowed(&|path| {
            let is_declared = declared.is_some_and(|declared| declared.contains(path));
            is_declared
                || fields.contains(path)
                || path == firn_model::metadata::TIMESTAMP
                || path == &*restriction.field
        }));
        let mut cache = self.0.lock();
        if cache.len() >= MAPPINGS_MAX {
            cache.clear();
        }
        // If the mapping is equal, the old object is reused, so that results cached for it stay valid.
        if let Some(before) = cache.get(&key)
            && before.narrowed == narrowed
        {
            narrowed = Arc::clone(&before.narrowed);
        }
        let entry = CachedMappings {
            snapshots: snapshots.iter().map(Arc::downgrade).collect(),
            whole: Arc::downgrade(whole),
            narrowed: Arc::clone(&narrowed),
        };
        cache.insert(key, entry);
        Ok(narrowed)
    }
}
