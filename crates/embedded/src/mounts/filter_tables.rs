//! Filter tables that mounted indices name, one object for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use firn_storage::filters::{FilterTable, FilterTableRef};
use firn_storage::object::{ObjectError, Objects};
use firn_storage::regions::RegionCache;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// A table, opened at its first use.
#[derive(Debug)]
pub(crate) struct MountedTable {
    reference: FilterTableRef,
    open: OnceCell<FilterTable>,
}

impl MountedTable {
    /// Returns its id.
    pub(super) fn id(&self) -> &str {
        &self.reference.id
    }

    /// Returns the open table. If opening fails, a later call tries again.
    pub(super) async fn opened(
        &self,
        cache: &RegionCache,
        store: &Arc<dyn Objects>,
    ) -> Result<&FilterTable, ObjectError> {
        let open = || FilterTable::open(cache, Arc::clone(store), &self.reference);
        self.open.get_or_try_init(open).await
    }
}

/// Tables by id. The manifests that name a table keep it alive.
#[derive(Debug, Default)]
pub(super) struct MountedTables(Mutex<HashMap<String, Weak<MountedTable>>>);

impl MountedTables {
    /// Returns the table of a manifest; manifests that name the same one share it.
    pub(super) fn get(&self, reference: FilterTableRef) -> Arc<MountedTable> {
        let mut tables = self.0.lock();
        if let Some(known) = tables.get(&reference.id).and_then(Weak::upgrade) {
            return known;
        }
        tables.retain(|_, table| table.strong_count() > 0);
        let id = reference.id.clone();
        let table = Arc::new(MountedTable {
            reference,
            open: OnceCell::new(),
        });
        tables.insert(id, Arc::downgrade(&table));
        table
    }
}
